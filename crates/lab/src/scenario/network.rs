//! `[network]`: the topology and its parameters.

use super::irregular::{Bcube, Jellyfish, Medium, Mistake};
use crate::diagnostic::Diagnostic;
use crate::document::{Kind, Node, Table, decode, fields_of, parse, unknown};
use crate::source::Sources;
use punctual_core::{Bytes, Duration, NodeId, Rate, Tolerance};
use punctual_net::{ClosLinks, ClosShape, Dumbbell, Network, Topology as AnyShape, TopologyFile};
use serde::Deserialize;
use std::path::Path;

/// A topology's entry in the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopologyInfo {
    /// Its name in scenarios.
    pub name: &'static str,
    /// One line that describes it.
    pub summary: &'static str,
}

/// The `[network]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkSection {
    common: Common,
    topology: Topology,
}

/// Keys that every topology has.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Common {
    #[serde(default = "default_mtu")]
    mtu: Bytes,
    #[serde(default = "default_framing")]
    framing: Bytes,
    #[serde(default)]
    processing: Duration,
    #[serde(default)]
    clock_tolerance: Tolerance,
}

/// Limit on `clock_tolerance`, to catch mistakes: Ethernet clocks are within 100 ppm.
const TOLERANCE_MAX: Tolerance = Tolerance::from_ppm(10_000);

fn default_mtu() -> Bytes {
    Bytes::new(1500)
}

/// Preamble, Ethernet header, checksum and inter-frame gap.
fn default_framing() -> Bytes {
    Bytes::new(38)
}

/// Defines the topologies: variant, parameters, name and a line that describes each.
macro_rules! topologies {
    ($($Variant:ident($Type:ty), $name:literal: $summary:literal;)*) => {
        #[derive(Debug, Clone, PartialEq)]
        enum Topology {
            $($Variant($Type),)*
        }

        impl NetworkSection {
            /// All topologies.
            pub fn catalogue() -> &'static [TopologyInfo] {
                &[$(TopologyInfo { name: $name, summary: $summary },)*]
            }

            /// The keys of a topology, without those that all topologies have.
            pub fn keys_of(topology: &str) -> &'static [&'static str] {
                match topology {
                    $($name => fields_of::<$Type>(),)*
                    _ => &[],
                }
            }
        }

        fn decode_topology(name: &str, node: &Node) -> Option<Result<Topology, Diagnostic>> {
            match name {
                $($name => Some(decode(node).map(Topology::$Variant)),)*
                _ => None,
            }
        }
    };
}

topologies! {
    Pair(Pair), "pair": "two hosts, back to back";
    Star(Star), "star": "hosts around one switch";
    Bottleneck(Bottleneck), "bottleneck": "senders and receivers on two switches, one link between";
    Tree(Tree), "tree": "racks under one root, as in the D3 and PDQ papers";
    LeafSpine(LeafSpine), "leaf-spine": "racks under several spines";
    FatTree(FatTree), "fat-tree": "k-ary fat tree: k pods of k/2 racks";
    Bcube(Bcube), "bcube": "BCube(n, k): n^(k+1) hosts with k+1 NICs each, which forward for others";
    Jellyfish(Jellyfish), "jellyfish": "random regular graph of switches, k shortest paths";
    File(File), "file": "nodes and links from a file";
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    rate: Rate,
    delay: Duration,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Star {
    hosts: u32,
    rate: Rate,
    delay: Duration,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bottleneck {
    senders: u32,
    #[serde(default = "one")]
    receivers: u32,
    rate: Rate,
    bottleneck_rate: Option<Rate>,
    delay: Duration,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tree {
    #[serde(default = "four")]
    racks: u32,
    #[serde(default = "three")]
    hosts_per_rack: u32,
    #[serde(default)]
    generators: u32,
    rate: Rate,
    rack_rate: Option<Rate>,
    delay: Duration,
    rack_delay: Option<Duration>,
}

fn four() -> u32 {
    4
}

fn three() -> u32 {
    3
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeafSpine {
    racks: u32,
    hosts_per_rack: u32,
    spines: u32,
    rate: Rate,
    rack_rate: Option<Rate>,
    delay: Duration,
    rack_delay: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct FatTree {
    k: u32,
    #[serde(default = "one")]
    oversubscription: u32,
    rate: Rate,
    rack_rate: Option<Rate>,
    pod_rate: Option<Rate>,
    delay: Duration,
    rack_delay: Option<Duration>,
    pod_delay: Option<Duration>,
}

fn one() -> u32 {
    1
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    path: String,
    #[serde(default)]
    format: FileFormat,
}

/// The format of a topology file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FileFormat {
    /// TOML with `[[host]]`, `[[switch]]` and `[[link]]`.
    #[default]
    Toml,
    /// The topology file of the HPCC simulator.
    Hpcc,
}

/// Limit on the number of hosts, to catch mistakes.
const HOSTS_MAX: u64 = 1 << 20;

impl NetworkSection {
    /// Keys that every topology has.
    pub fn common_keys() -> Vec<&'static str> {
        std::iter::once("topology").chain(fields_of::<Common>().iter().copied()).collect()
    }

    pub(crate) fn decode(node: &Node) -> Result<Self, Vec<Diagnostic>> {
        let Some(table) = node.table() else {
            let message = "`network` is a table: write [network] and its keys below";
            return Err(vec![Diagnostic::new(message).at(node.span.clone())]);
        };
        let names = || Self::catalogue().iter().map(|t| t.name);
        let Some(written) = table.get("topology") else {
            return Err(vec![
                Diagnostic::new("`topology` is missing here")
                    .at(node.span.clone())
                    .help(format!("known here: {}", crate::suggest::list(names()))),
            ]);
        };
        let name = written.text().unwrap_or_default();
        if !names().any(|n| n == name) {
            let shown = written.to_string();
            return Err(vec![
                unknown("topology", &shown, names().collect::<Vec<_>>()).at(written.span.clone()),
            ]);
        }
        // Serde cannot refuse unknown keys of a struct flattened into another, so split by hand.
        let (mut common, mut own) = (Table::default(), Table::default());
        let mut errors = Vec::new();
        let keys = [&Self::common_keys()[..], Self::keys_of(name)].concat();
        for entry in &table.entries {
            if entry.key == "topology" {
            } else if fields_of::<Common>().contains(&&*entry.key) {
                common.put(entry.clone());
            } else if keys.contains(&&*entry.key) {
                own.put(entry.clone());
            } else {
                let what = format!("key of a {name} network:");
                let unknown = unknown(&what, &entry.key, keys.iter().copied());
                errors.push(unknown.at(entry.key_span.clone()));
            }
        }
        if !errors.is_empty() {
            // A missing key may be one that is misspelt, so it is not reported as well.
            return Err(errors);
        }
        let node_of = |table| Node { span: node.span.clone(), kind: Kind::Table(table) };
        let common = decode::<Common>(&node_of(common)).map_err(|e| errors.push(e));
        let topology = decode_topology(name, &node_of(own))
            .expect("the name was looked up before")
            .map_err(|e| errors.push(e));
        match (common, topology) {
            (Ok(common), Ok(topology)) if errors.is_empty() => {
                let section = NetworkSection { common, topology };
                section.check(table, node).map(|()| section)
            }
            _ => Err(errors),
        }
    }

    /// Refuses values of the right type that cannot be built.
    fn check(&self, table: &Table, node: &Node) -> Result<(), Vec<Diagnostic>> {
        let mut errors = Vec::new();
        let mut fail = |key: &str, message: String, help: &str| {
            let at = table.get(key).unwrap_or(node).span.clone();
            errors.push(Diagnostic::new(message).at(at).help(help));
        };
        let mut at_least_one = |key: &str, n: u32| {
            if n == 0 {
                fail(key, format!("{key} = 0: a network needs at least one"), "give 1 or more");
            }
        };
        match &self.topology {
            Topology::Pair(_) | Topology::File(_) => {}
            Topology::Bcube(_) | Topology::Jellyfish(_) => {}
            Topology::Star(t) => at_least_one("hosts", t.hosts),
            Topology::Bottleneck(t) => {
                at_least_one("senders", t.senders);
                at_least_one("receivers", t.receivers);
            }
            Topology::Tree(t) => {
                at_least_one("racks", t.racks);
                at_least_one("hosts_per_rack", t.hosts_per_rack);
            }
            Topology::LeafSpine(t) => {
                at_least_one("racks", t.racks);
                at_least_one("hosts_per_rack", t.hosts_per_rack);
                at_least_one("spines", t.spines);
            }
            Topology::FatTree(t) => {
                at_least_one("oversubscription", t.oversubscription);
                if t.k == 0 || t.k % 2 != 0 {
                    let near = (t.k.max(1) - 1).max(2);
                    fail(
                        "k",
                        format!("k = {}: a fat tree needs an even k", t.k),
                        &format!("give an even number, such as {near} or {}", near + 2),
                    );
                }
            }
        }
        let irregular = match &self.topology {
            Topology::Bcube(t) => t.check(),
            Topology::Jellyfish(t) => t.check(),
            _ => Ok(()),
        };
        if let Err((key, message, help)) = irregular {
            fail(key, message, &help);
        }
        for key in ["rate", "rack_rate", "pod_rate", "switch_rate", "bottleneck_rate"] {
            let zero = table.get(key).and_then(|v| v.text()?.parse().ok()) == Some(Rate::ZERO);
            if zero {
                fail(key, format!("{key}: a link of rate zero carries nothing"), "give a rate");
            }
        }
        if !(256..=65_535).contains(&self.common.mtu.get()) {
            let message = format!("mtu = {}: outside 256B to 65535B", self.common.mtu);
            fail("mtu", message, "ordinary Ethernet has 1500B, jumbo frames have 9000B");
        }
        if self.common.framing.get() > 1000 {
            let message = format!("framing = {}: more than 1000B", self.common.framing);
            fail("framing", message, "Ethernet adds 38B to each packet");
        }
        if self.common.clock_tolerance > TOLERANCE_MAX {
            let message = format!(
                "clock_tolerance = {}: more than {TOLERANCE_MAX}",
                self.common.clock_tolerance
            );
            fail("clock_tolerance", message, "Ethernet allows 100ppm");
        }
        if errors.is_empty() && self.host_count() > HOSTS_MAX {
            let message = format!("{} hosts are more than {HOSTS_MAX}", self.host_count());
            errors.push(Diagnostic::new(message).at(node.span.clone()));
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    fn host_count(&self) -> u64 {
        match &self.topology {
            Topology::Pair(_) | Topology::File(_) => 2,
            Topology::Star(t) => u64::from(t.hosts),
            Topology::Bottleneck(t) => u64::from(t.senders) + u64::from(t.receivers),
            Topology::Tree(t) => {
                u64::from(t.racks) * u64::from(t.hosts_per_rack) + u64::from(t.generators)
            }
            Topology::LeafSpine(t) => u64::from(t.racks) * u64::from(t.hosts_per_rack),
            Topology::Bcube(t) => t.hosts(),
            Topology::Jellyfish(t) => t.hosts(),
            Topology::FatTree(t) => {
                let k = u64::from(t.k).min(HOSTS_MAX);
                (k * k / 4).saturating_mul(k).saturating_mul(u64::from(t.oversubscription))
            }
        }
    }

    /// How far the rate of a port may deviate from its nominal rate.
    pub fn clock_tolerance(&self) -> Tolerance {
        self.common.clock_tolerance
    }

    /// Builds the network. A topology file is in `folder`.
    pub(crate) fn build(&self, node: &Node, folder: &Path) -> Result<Network, Diagnostic> {
        let (shape, links) = match &self.topology {
            Topology::Pair(t) => return self.build_shape(AnyShape::pair(t.rate, t.delay), node),
            Topology::Bottleneck(t) => {
                let shape = Dumbbell {
                    senders: t.senders,
                    receivers: t.receivers,
                    edge_rate: t.rate,
                    bottleneck_rate: t.bottleneck_rate.unwrap_or(t.rate),
                    delay: t.delay,
                };
                return self.build_shape(AnyShape::dumbbell(shape), node);
            }
            Topology::File(file) => return self.build_shape(file.read(node, folder)?, node),
            Topology::Bcube(t) => return t.build(&self.medium()).map_err(|m| point_at(m, node)),
            Topology::Jellyfish(t) => {
                return t.build(&self.medium()).map_err(|m| point_at(m, node));
            }
            Topology::Tree(t) if t.generators > 0 => {
                return self.build_shape(t.with_generators(), node);
            }
            Topology::Star(t) => (ClosShape::star(t.hosts), ClosLinks::uniform(t.rate, t.delay)),
            Topology::Tree(t) => (
                ClosShape::leaf_spine(t.racks, t.hosts_per_rack, 1),
                ClosLinks {
                    rack_rate: t.rack_rate.unwrap_or(t.rate),
                    rack_delay: t.rack_delay.unwrap_or(t.delay),
                    ..ClosLinks::uniform(t.rate, t.delay)
                },
            ),
            Topology::LeafSpine(t) => (
                ClosShape::leaf_spine(t.racks, t.hosts_per_rack, t.spines),
                ClosLinks {
                    rack_rate: t.rack_rate.unwrap_or(t.rate),
                    rack_delay: t.rack_delay.unwrap_or(t.delay),
                    ..ClosLinks::uniform(t.rate, t.delay)
                },
            ),
            Topology::FatTree(t) => (
                ClosShape::fat_tree(t.k, t.oversubscription),
                ClosLinks {
                    rack_rate: t.rack_rate.unwrap_or(t.rate),
                    rack_delay: t.rack_delay.unwrap_or(t.delay),
                    pod_rate: t.pod_rate.unwrap_or(t.rate),
                    pod_delay: t.pod_delay.unwrap_or(t.delay),
                    ..ClosLinks::uniform(t.rate, t.delay)
                },
            ),
        };
        let links = ClosLinks { processing: self.common.processing, ..links };
        Ok(shape.build(&links, self.common.mtu, self.common.framing))
    }

    fn medium(&self) -> Medium {
        let Common { mtu, framing, processing, .. } = self.common;
        Medium { mtu, framing, processing }
    }

    /// Builds a network of any shape, with shortest-path routes.
    fn build_shape(&self, mut shape: AnyShape, node: &Node) -> Result<Network, Diagnostic> {
        for link in shape.links.iter_mut().filter(|link| link.to.0 >= shape.hosts) {
            link.delay += self.common.processing;
        }
        Network::from_topology(shape, self.common.mtu, self.common.framing)
            .map_err(|e| Diagnostic::new(e.to_string()).at(node.span.clone()))
    }
}

/// A message that points at the key that is wrong.
fn point_at((key, message, help): Mistake, node: &Node) -> Diagnostic {
    let at = node.table().and_then(|table| table.get(key)).unwrap_or(node).span.clone();
    Diagnostic::new(message).at(at).help(help)
}

impl Tree {
    /// The tree with generators: hosts on the root switch, numbered after all others.
    fn with_generators(&self) -> AnyShape {
        let in_racks = self.racks * self.hosts_per_rack;
        let hosts = in_racks + self.generators;
        let names = (0..hosts)
            .map(|h| format!("host {h}"))
            .chain((0..self.racks).map(|r| format!("rack {r}")))
            .chain(["root".to_owned()]);
        let mut shape = AnyShape { hosts, names: names.collect(), links: Vec::new() };
        let root = NodeId(hosts + self.racks);
        for host in 0..hosts {
            let above =
                if host < in_racks { NodeId(hosts + host / self.hosts_per_rack) } else { root };
            shape.connect(NodeId(host), above, self.rate, self.delay);
        }
        let (rate, delay) =
            (self.rack_rate.unwrap_or(self.rate), self.rack_delay.unwrap_or(self.delay));
        for rack in 0..self.racks {
            shape.connect(NodeId(hosts + rack), root, rate, delay);
        }
        shape
    }
}

impl File {
    fn read(&self, node: &Node, folder: &Path) -> Result<AnyShape, Diagnostic> {
        let at = node.table().and_then(|t| t.get("path")).unwrap_or(node).span.clone();
        let path = folder.join(&self.path);
        let fail = |message: String| Diagnostic::new(message).at(at.clone());
        let text = std::fs::read_to_string(&path)
            .map_err(|e| fail(format!("cannot read {}: {e}", path.display())))?;
        // The message names the line of the topology file and marks the line of the scenario.
        let within = |d: Diagnostic| {
            let sources = Sources::new(path.display().to_string(), text.as_str());
            let place = d.span.map(|span| {
                let place = sources.place(&span);
                format!(":{}:{}", place.line, place.column)
            });
            let message = format!("{}{}: {}", path.display(), place.unwrap_or_default(), d.message);
            Diagnostic { help: d.help, ..fail(message) }
        };
        let file: TopologyFile = match self.format {
            FileFormat::Toml => {
                let table = parse(&text, 0).map_err(within)?;
                decode(&Node { span: 0..0, kind: Kind::Table(table) }).map_err(within)?
            }
            FileFormat::Hpcc => TopologyFile::parse_hpcc(&text)
                .map_err(|error| fail(format!("{}: {error}", path.display())))?,
        };
        AnyShape::from_file(&file).map_err(|e| within(Diagnostic::new(e.to_string())))
    }
}
