//! `[[link]]`: what happens to single links while a run goes on.

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
    /// When; from the start when absent.
    #[serde(default)]
    pub at: Duration,
    /// The names of the two nodes it joins.
    pub between: Option<[String; 2]>,
    /// Instead of `between`: the links of a tier.
    pub tier: Option<TierName>,
    /// Instead of `between`: all links of a node, such as a switch that stops.
    pub node: Option<String>,
    /// Which link of the tier, from 0; all of them when absent.
    pub index: Option<u32>,
    /// Only the direction named, not the one back.
    #[serde(default)]
    pub one_way: bool,
    /// It runs at this rate from then on.
    pub rate: Option<Rate>,
    /// Packets are lost on it at random with this probability.
    pub loss: Option<f64>,
    /// It is cut.
    #[serde(default)]
    pub down: bool,
    /// It works again.
    #[serde(default)]
    pub up: bool,
    /// How long after that routing knows, and leads packets around it or no longer does. Of a cut
    /// it never knows when absent; of mending at once.
    pub routing_after: Option<Duration>,
}

impl LinkSection {
    /// Reads the entry and turns it into changes of single directions.
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
            return Err(Diagnostic::new("nothing happens to this link")
                .at(at(""))
                .help("add `rate`, `loss`, `down = true` or `up = true`"));
        }
        if link.rate == Some(Rate::ZERO) {
            return Err(Diagnostic::new("a link of rate zero carries nothing")
                .at(at("rate"))
                .help("write `down = true` to cut it"));
        }
        if link.down && link.up {
            return Err(Diagnostic::new("a link cannot be cut and mended at once").at(at("up")));
        }
        if let Some(loss) = link.loss.filter(|loss| !(0.0..=1.0).contains(loss)) {
            return Err(
                Diagnostic::new(format!("loss = {loss}: a probability is 0 to 1")).at(at("loss"))
            );
        }
        if link.routing_after.is_some() && !link.down && !link.up {
            return Err(Diagnostic::new("there is nothing for routing to learn here")
                .at(at("routing_after"))
                .help("it goes with `down = true` or `up = true`"));
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
                let message = "`node` says which links already; leave `between` and `tier` out";
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
                        let message = format!("the tier has {} links, no number {i}", ports.len());
                        Err(Diagnostic::new(message).at(at("index")).help("they count from 0"))
                    }
                }
            }
            (Some(_), Some(_)) => {
                Err(Diagnostic::new("both `between` and `tier` say which link; give one of them")
                    .at(at("tier")))
            }
            (None, None) => Err(Diagnostic::new("which link?").at(at("")).help(
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
