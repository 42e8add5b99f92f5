//! `[[link]]`: changes and failures of links during a run.

use super::run::TierName;
use crate::diagnostic::Diagnostic;
use crate::document::{Node, decode, unknown};
use punctual_core::{Duration, Instant, PortId, Rate};
use punctual_net::Network;
use punctual_sim::{LinkChange, LinkFault};
use serde::{Deserialize, Serialize};

/// One entry of `[[link]]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSection {
    /// When the change happens; at the start if absent.
    #[serde(default)]
    pub at: Duration,
    /// The names of the two nodes that the link joins.
    pub between: Option<[String; 2]>,
    /// Instead of `between`: the links of a tier.
    pub tier: Option<TierName>,
    /// Instead of `between`: all links of a node, such as a failing switch.
    pub node: Option<String>,
    /// The link of the tier, from 0; all of them if absent.
    pub index: Option<u32>,
    /// Change only the direction named, not the reverse.
    #[serde(default)]
    pub one_way: bool,
    /// The new rate.
    pub rate: Option<Rate>,
    /// The probability that a packet is lost on the link.
    pub loss: Option<f64>,
    /// Cut the link.
    #[serde(default)]
    pub down: bool,
    /// Repair the link.
    #[serde(default)]
    pub up: bool,
    /// How long after a cut or repair routing learns of it. If absent, routing never learns of a
    /// cut, and of a repair at once.
    pub routing_after: Option<Duration>,
}

impl LinkSection {
    /// Decodes an entry into changes of single ports.
    pub(crate) fn decode(
        node: &Node,
        network: &Network,
    ) -> Result<(Self, Vec<LinkChange>), Diagnostic> {
        let link: LinkSection = decode(node)?;
        let table = node.table().expect("a struct was read from it");
        let at = |key: &str| table.get(key).unwrap_or(node).span.clone();
        let mut faults: Vec<LinkFault> = Vec::new();
        faults.extend(link.rate.map(LinkFault::Rate));
        faults.extend(link.loss.map(LinkFault::Loss));
        faults.extend(link.down.then_some(LinkFault::Down));
        faults.extend(link.up.then_some(LinkFault::Up));
        if faults.is_empty() {
            return Err(Diagnostic::new("this [[link]] changes nothing")
                .at(at(""))
                .help("add `rate`, `loss`, `down = true` or `up = true`"));
        }
        if link.rate == Some(Rate::ZERO) {
            return Err(Diagnostic::new("a link of rate zero carries nothing")
                .at(at("rate"))
                .help("write `down = true` to cut it"));
        }
        if link.down && link.up {
            return Err(Diagnostic::new("`down` and `up` exclude each other").at(at("up")));
        }
        if let Some(loss) = link.loss.filter(|loss| !(0.0..=1.0).contains(loss)) {
            return Err(
                Diagnostic::new(format!("loss = {loss}: a probability is 0 to 1")).at(at("loss"))
            );
        }
        if link.routing_after.is_some() && !link.down && !link.up {
            return Err(Diagnostic::new("`routing_after` needs a cut or a repair")
                .at(at("routing_after"))
                .help("add `down = true` or `up = true`"));
        }
        let mut ports = link.ports(network, &at)?;
        if !link.one_way {
            let back: Vec<PortId> = ports.iter().map(|p| network.links[p.index()].twin).collect();
            ports.extend(back);
        }
        let when = Instant::ZERO + link.at;
        let mut events: Vec<(Instant, LinkFault)> = faults.iter().map(|&f| (when, f)).collect();
        let known = when + link.routing_after.unwrap_or(Duration::ZERO);
        if link.up || link.routing_after.is_some() {
            events.push((known, LinkFault::Withdrawn(link.down)));
        }
        let changes = ports
            .iter()
            .flat_map(|&port| events.iter().map(move |&(at, what)| LinkChange { at, port, what }));
        let changes = changes.collect();
        Ok((link, changes))
    }

    fn ports(
        &self,
        network: &Network,
        at: &dyn Fn(&str) -> std::ops::Range<usize>,
    ) -> Result<Vec<PortId>, Diagnostic> {
        let node = |name: &str, key: &str| find_node(network, name).map_err(|d| d.at(at(key)));
        if let Some(name) = &self.node {
            if self.between.is_some() || self.tier.is_some() {
                let message = "`node` selects the links; remove `between` and `tier`";
                return Err(Diagnostic::new(message).at(at("node")));
            }
            let stopped = node(name, "node")?;
            let links = network.links.iter().enumerate().filter(|(_, l)| l.from.index() == stopped);
            return Ok(links.map(|(port, _)| PortId::from(port)).collect());
        }
        match (&self.between, self.tier) {
            (Some(ends), None) => {
                if self.index.is_some() {
                    return Err(Diagnostic::new(
                        "`index` counts the links of a tier, and there is \
                        no `tier` here",
                    )
                    .at(at("index")));
                }
                let (a, b) = (node(&ends[0], "between")?, node(&ends[1], "between")?);
                let joins = |l: &punctual_net::Link| l.from.index() == a && l.to.index() == b;
                let links = network.links.iter().enumerate();
                let ports: Vec<PortId> =
                    links.filter(|(_, l)| joins(l)).map(|(port, _)| PortId::from(port)).collect();
                if ports.is_empty() {
                    let message = format!("no link joins `{}` and `{}`", ends[0], ends[1]);
                    return Err(Diagnostic::new(message).at(at("between")));
                }
                Ok(ports)
            }
            (None, Some(tier)) => {
                let ports: Vec<PortId> = tier.ports(network).collect();
                if ports.is_empty() {
                    return Err(Diagnostic::new("this network has no such tier").at(at("tier")));
                }
                match self.index.map(|i| (i, ports.get(i as usize))) {
                    None => Ok(ports),
                    Some((_, Some(port))) => Ok(vec![*port]),
                    Some((i, None)) => {
                        let message =
                            format!("the tier has {} links and no index {i}", ports.len());
                        Err(Diagnostic::new(message).at(at("index")).help("`index` counts from 0"))
                    }
                }
            }
            (Some(_), Some(_)) => {
                Err(Diagnostic::new("`between` and `tier` both select links; give one of them")
                    .at(at("tier")))
            }
            (None, None) => Err(Diagnostic::new("this [[link]] selects no link").at(at("")).help(
                "add `between = [\"host 0\", \"rack 0\"]`, or `tier = \"rack-up\"` and `index = 0`",
            )),
        }
    }
}

fn find_node(network: &Network, name: &str) -> Result<usize, Diagnostic> {
    let found = network.names.iter().position(|n| n == name);
    found.ok_or_else(|| {
        let mut d = unknown("node", name, network.names.iter().map(|n| &**n));
        d.help = Some(match network.names.len() {
            0..=12 => d.help.unwrap_or_default(),
            n => format!(
                "the network has {n} nodes, such as `{}` and `{}`",
                network.names[0],
                network.names[n - 1]
            ),
        });
        d
    })
}
