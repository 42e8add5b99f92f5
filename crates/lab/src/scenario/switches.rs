//! `[[switch]]`: legacy switches, and resets of switches.

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
    /// The names of the switches; all switches if absent.
    pub names: Option<Vec<String>>,
    /// Whether they run no controllers: they forward packets of explicit-rate transports unchanged.
    #[serde(default)]
    pub legacy: bool,
    /// The times at which their controllers lose all state.
    #[serde(default)]
    pub reset_at: Vec<Duration>,
}

/// All entries of `[[switch]]` together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Switches {
    /// Switches that run no controllers.
    pub(crate) legacy: Vec<NodeId>,
    /// Resets of switches, by time.
    pub(crate) resets: Vec<SwitchReset>,
}

impl Switches {
    /// Adds an entry.
    pub(crate) fn decode(&mut self, node: &Node, network: &Network) -> Result<(), Diagnostic> {
        let section: SwitchSection = decode(node)?;
        let table = node.table().expect("a struct was read from it");
        let at = |key: &str| table.get(key).unwrap_or(node).span.clone();
        if !section.legacy && section.reset_at.is_empty() {
            return Err(Diagnostic::new("this [[switch]] changes nothing")
                .at(at(""))
                .help("add `legacy = true` or `reset_at = [\"5ms\"]`"));
        }
        if section.legacy && !section.reset_at.is_empty() {
            return Err(Diagnostic::new("legacy switches have no controllers to reset")
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
