//! `[[switch]]`: switches that are not like the others, or restart.

use crate::diagnostic::Diagnostic;
use crate::document::{Node, decode, unknown};
use punctual_core::{Duration, Instant, NodeId};
use punctual_net::Network;
use punctual_sim::SwitchReset;
use serde::{Deserialize, Serialize};

/// One entry of `[[switch]]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchSection {
    /// Their names; all switches when absent.
    pub names: Option<Vec<String>>,
    /// They run no controllers: packets of explicit-rate transports pass as any others.
    #[serde(default)]
    pub legacy: bool,
    /// When their controllers forget everything they know.
    #[serde(default)]
    pub reset_at: Vec<Duration>,
}

/// What the entries of `[[switch]]` come to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Switches {
    /// Switches that run no controllers.
    pub(crate) legacy: Vec<NodeId>,
    /// Switches that restart, by time.
    pub(crate) resets: Vec<SwitchReset>,
}

impl Switches {
    /// Adds what an entry says.
    pub(crate) fn decode(&mut self, node: &Node, network: &Network) -> Result<(), Diagnostic> {
        let section: SwitchSection = decode(node)?;
        let table = node.table().expect("a struct was read from it");
        let at = |key: &str| table.get(key).unwrap_or(node).span.clone();
        if !section.legacy && section.reset_at.is_empty() {
            return Err(Diagnostic::new("these switches are like any others")
                .at(at(""))
                .help("add `legacy = true` or `reset_at = [\"5ms\"]`"));
        }
        if section.legacy && !section.reset_at.is_empty() {
            return Err(Diagnostic::new("switches without controllers have nothing to forget")
                .at(at("reset_at"))
                .help("remove `reset_at` or `legacy`"));
        }
        let hosts = network.hosts as usize;
        let switches = network.names.iter().map(|name| &**name).enumerate().skip(hosts);
        let chosen: Vec<NodeId> = match &section.names {
            None => switches.map(|(node, _)| NodeId(node as u32)).collect(),
            Some(names) => {
                let find = |name: &String| {
                    let found = switches.clone().find(|(_, n)| n == name);
                    found.map(|(node, _)| NodeId(node as u32)).ok_or_else(|| {
                        let names = switches.clone().map(|(_, name)| name);
                        unknown("switch", name, names).at(at("names"))
                    })
                };
                names.iter().map(find).collect::<Result<_, _>>()?
            }
        };
        if section.legacy {
            self.legacy.extend(&chosen);
        }
        let resets = section.reset_at.iter().flat_map(|&after| {
            let at = Instant::ZERO + after;
            chosen.iter().map(move |&switch| SwitchReset { at, switch })
        });
        self.resets.extend(resets);
        self.resets.sort_by_key(|reset| reset.at);
        Ok(())
    }
}
