//! Networks of any shape: read from a topology file, or one of two built-in small ones.
//!
//! A topology file names its nodes and joins them:
//!
//! ```toml
//! [[switch]]
//! name = "s1"
//!
//! [[host]]
//! name = "h1"
//!
//! [[host]]
//! name = "h2"
//!
//! [[link]]
//! between = ["h1", "s1"]
//! rate = "10Gbps"
//! delay = "1us"
//!
//! [[link]]
//! between = ["h2", "s1"]
//! rate = "10Gbps"
//! delay = "1us"
//! ```
//!
//! Each `[[link]]` is bidirectional. Hosts are numbered from 0 in the order of the file, switches
//! after them. A host has one link; switches may have parallel links.

use crate::{Link, Tier};
use punctual_core::{Duration, NodeId, PortId, Rate};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Nodes and links of a network.
#[derive(Debug, Clone, Default)]
pub struct Topology {
    /// Number of hosts; they are nodes 0 to `hosts`−1.
    pub hosts: u32,
    /// Name of each node; hosts first.
    pub names: Vec<String>,
    /// Links by port id.
    pub links: Vec<Link>,
}

/// The contents of a topology file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologyFile {
    /// The hosts.
    #[serde(default)]
    pub host: Vec<NodeEntry>,
    /// The switches.
    #[serde(default)]
    pub switch: Vec<NodeEntry>,
    /// The links.
    #[serde(default)]
    pub link: Vec<LinkEntry>,
}

/// A host or switch of a [`TopologyFile`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeEntry {
    /// Its unique name.
    pub name: String,
}

/// A link of a [`TopologyFile`], in both directions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkEntry {
    /// The names of its two ends.
    pub between: [String; 2],
    /// Line rate.
    pub rate: Rate,
    /// Time from the last bit sent until the next node has the packet ready.
    pub delay: Duration,
}

/// Why a topology file is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// It is not valid TOML, or has an unknown, missing or malformed key.
    #[error("{0}")]
    Format(#[from] toml::de::Error),
    /// Two nodes have the same name.
    #[error("two nodes are called `{0}`; rename one")]
    TwiceName(String),
    /// A link names a node that does not exist.
    #[error(
        "link {link} ({a} to {b}): no node is called `{missing}`; add a [[host]] or [[switch]]"
    )]
    UnknownNode {
        /// Which link, counted from 1.
        link: usize,
        /// Its first end.
        a: String,
        /// Its second end.
        b: String,
        /// The unknown name.
        missing: String,
    },
    /// A link connects a node to itself.
    #[error("link {link} connects `{name}` to itself; name two different nodes")]
    ToItself {
        /// Which link, counted from 1.
        link: usize,
        /// The node.
        name: String,
    },
    /// A link has a rate of zero.
    #[error("link {link} ({a} to {b}): rate = \"0bps\": must be above zero")]
    ZeroRate {
        /// Which link, counted from 1.
        link: usize,
        /// Its first end.
        a: String,
        /// Its second end.
        b: String,
    },
    /// A host does not have exactly one link.
    #[error("host `{name}` has {links} links; it needs exactly one")]
    HostLinks {
        /// The host.
        name: String,
        /// How many it has.
        links: usize,
    },
    /// There are fewer than two hosts.
    #[error("the topology has {0} hosts; a network needs at least two [[host]]")]
    TooFewHosts(u32),
}

/// A dumbbell: senders on the left, receivers on the right, one bottleneck link between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dumbbell {
    /// Hosts on the left: hosts 0 to `senders`−1.
    pub senders: u32,
    /// Hosts on the right, numbered after the senders.
    pub receivers: u32,
    /// Rate of the hosts' links.
    pub edge_rate: Rate,
    /// Rate of the link between the two switches.
    pub bottleneck_rate: Rate,
    /// Delay of every link.
    pub delay: Duration,
}

impl Topology {
    /// Parses a topology file; the module documentation describes the format.
    pub fn parse(text: &str) -> Result<Self, TopologyError> {
        Topology::from_file(&toml::from_str(text)?)
    }

    /// Builds the topology that a file describes.
    pub fn from_file(file: &TopologyFile) -> Result<Self, TopologyError> {
        let hosts = file.host.len() as u32;
        if hosts < 2 {
            return Err(TopologyError::TooFewHosts(hosts));
        }
        let nodes = file.host.iter().chain(&file.switch);
        let names: Vec<String> = nodes.map(|node| node.name.clone()).collect();
        let mut by_name = BTreeMap::new();
        for (i, name) in names.iter().enumerate() {
            if by_name.insert(name.as_str(), NodeId::from(i)).is_some() {
                return Err(TopologyError::TwiceName(name.clone()));
            }
        }
        let mut topology = Topology {
            hosts,
            names: names.clone(),
            links: Vec::with_capacity(file.link.len() * 2),
        };
        for (i, entry) in file.link.iter().enumerate() {
            let (link, [a, b]) = (i + 1, &entry.between);
            let node = |name: &String| {
                by_name.get(name.as_str()).copied().ok_or_else(|| TopologyError::UnknownNode {
                    link,
                    a: a.clone(),
                    b: b.clone(),
                    missing: name.clone(),
                })
            };
            let (from, to) = (node(a)?, node(b)?);
            if from == to {
                let name = a.clone();
                return Err(TopologyError::ToItself { link, name });
            }
            if entry.rate == Rate::ZERO {
                let (a, b) = (a.clone(), b.clone());
                return Err(TopologyError::ZeroRate { link, a, b });
            }
            topology.connect(from, to, entry.rate, entry.delay);
        }
        topology.check_hosts()?;
        Ok(topology)
    }

    fn check_hosts(&self) -> Result<(), TopologyError> {
        let mut counts = vec![0; self.names.len()];
        for link in &self.links {
            counts[link.from.index()] += 1;
        }
        match (0..self.hosts as usize).find(|host| counts[*host] != 1) {
            None => Ok(()),
            Some(host) => Err(TopologyError::HostLinks {
                name: self.names[host].clone(),
                links: counts[host],
            }),
        }
    }

    /// Connects two nodes in both directions. `a` gets the first new port id, `b` the next.
    pub fn connect(&mut self, a: NodeId, b: NodeId, rate: Rate, delay: Duration) {
        let there = PortId::from(self.links.len());
        let back = PortId(there.0 + 1);
        for (from, to, twin) in [(a, b, back), (b, a, there)] {
            let tier = match (from.0 < self.hosts, to.0 < self.hosts) {
                (true, _) => Tier::HostUp,
                (false, true) => Tier::HostDown,
                (false, false) => Tier::Middle,
            };
            self.links.push(Link { from, to, twin, rate, delay, tier });
        }
    }

    /// The NIC port of each host, for hosts with one link.
    pub fn nics(&self) -> Vec<PortId> {
        let mut nics = vec![PortId(u32::MAX); self.hosts as usize];
        for (i, link) in self.links.iter().enumerate().rev() {
            if link.from.0 < self.hosts {
                nics[link.from.index()] = PortId::from(i);
            }
        }
        nics
    }

    /// Two hosts with one link between them.
    pub fn pair(rate: Rate, delay: Duration) -> Self {
        let mut topology =
            Topology { hosts: 2, names: vec!["h0".into(), "h1".into()], links: Vec::new() };
        topology.connect(NodeId(0), NodeId(1), rate, delay);
        topology
    }

    /// A dumbbell with the switches `left` and `right`.
    pub fn dumbbell(shape: Dumbbell) -> Self {
        let hosts = shape.senders + shape.receivers;
        let mut topology = Topology {
            hosts,
            names: (0..hosts)
                .map(|host| format!("h{host}"))
                .chain(["left".into(), "right".into()])
                .collect(),
            links: Vec::new(),
        };
        let (left, right) = (NodeId(hosts), NodeId(hosts + 1));
        for host in 0..hosts {
            let switch = if host < shape.senders { left } else { right };
            topology.connect(NodeId(host), switch, shape.edge_rate, shape.delay);
        }
        topology.connect(left, right, shape.bottleneck_rate, shape.delay);
        topology
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RouteTable;
    use punctual_core::HostId;

    fn routes(topology: &Topology) -> RouteTable {
        let nodes = topology.names.len() as u32;
        RouteTable::build(topology.hosts, nodes, &topology.links).unwrap()
    }

    const FILE: &str = r#"
        [[switch]]
        name = "s1"
        [[host]]
        name = "h1"
        [[host]]
        name = "h2"
        [[link]]
        between = ["h1", "s1"]
        rate = "10Gbps"
        delay = "1us"
        [[link]]
        between = ["s1", "h2"]
        rate = "1Gbps"
        delay = "500ns"
    "#;

    #[test]
    fn a_file_is_read() {
        let topology = Topology::parse(FILE).unwrap();
        assert_eq!(topology.hosts, 2);
        assert_eq!(topology.names, ["h1", "h2", "s1"]);
        assert_eq!(topology.nics(), [PortId(0), PortId(3)]);
        let tiers: Vec<_> = topology.links.iter().map(|l| l.tier).collect();
        let (up, down) = (Tier::HostUp, Tier::HostDown);
        assert_eq!(tiers, [up, down, down, up]);
        assert_eq!(topology.links[2].rate, Rate::from_gbps(1));
        assert_eq!(topology.links[2].delay, Duration::from_nanos(500));
        assert_eq!(routes(&topology).hops(HostId(0), HostId(1)), 2);
    }

    #[test]
    fn mistakes_name_the_item() {
        let error = |from: &str, to: &str| {
            let text = FILE.replacen(from, to, 1);
            assert_ne!(text, FILE);
            Topology::parse(&text).unwrap_err().to_string()
        };
        let cases = [
            ("name = \"h2\"", "name = \"h1\"", "two nodes are called `h1`"),
            ("[\"h1\", \"s1\"]", "[\"h1\", \"s2\"]", "link 1 (h1 to s2): no node"),
            ("[\"s1\", \"h2\"]", "[\"s1\", \"s1\"]", "link 2 connects `s1` to itself"),
            ("[\"s1\", \"h2\"]", "[\"s1\", \"h1\"]", "host `h1` has 2 links"),
            ("\"1Gbps\"", "\"0Gbps\"", "link 2 (s1 to h2): rate"),
            ("\"1Gbps\"", "\"1\"", "line 14"),
            ("name = \"s1\"", "nam = \"s1\"", "unknown field `nam`"),
            ("delay = \"1us\"", "", "missing field `delay`"),
            ("[[host]]", "[[switch]]", "has 1 hosts"),
        ];
        for (from, to, part) in cases {
            let error = error(from, to);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn small_networks_have_their_routes() {
        let (rate, delay) = (Rate::from_gbps(10), Duration::from_micros(1));
        let pair = routes(&Topology::pair(rate, delay));
        assert_eq!(pair.route(HostId(0), HostId(1), 0), [PortId(0)]);
        assert_eq!(pair.reverse_port(HostId(1), HostId(0), 0, 0), PortId(1));
        let dumbbell = Topology::dumbbell(Dumbbell {
            senders: 3,
            receivers: 2,
            edge_rate: rate,
            bottleneck_rate: Rate::from_gbps(1),
            delay,
        });
        assert_eq!(dumbbell.names.len(), 7);
        let table = routes(&dumbbell);
        assert_eq!(table.hops(HostId(0), HostId(4)), 3);
        assert_eq!(table.hops(HostId(0), HostId(2)), 2);
        let middle = table.port(HostId(0), HostId(4), 0, 1);
        let link = dumbbell.links[middle.index()];
        assert_eq!((link.rate, link.tier), (Rate::from_gbps(1), Tier::Middle));
        dumbbell.check_hosts().unwrap();
    }
}
