//! A scenario at one point of its sweep, decoded and checked.

mod build;
mod flow_level;
mod irregular;
mod links;
mod network;
mod on_testbed;
mod queues;
mod run;
mod switches;
mod traffic;

pub use build::{RunSetup, Subject};
pub use links::LinkSection;
pub use network::{NetworkSection, TopologyInfo};
pub use on_testbed::TestbedRun;
pub use queues::{Queues, SwitchQueues};
pub use run::{Level, RunOn, RunSection, StopWhen, TierName};
pub use switches::SwitchSection;
pub use traffic::TrafficSection;

pub(crate) use queues::carriers;

use crate::diagnostic::Diagnostic;
use crate::document::{Kind, Node, Table, decode, fields_of, unknown};
use crate::load::OfferedLoad;
use punctual_core::{Rate, Tolerance};
use punctual_fluid::Policy;
use punctual_net::Network;
use punctual_sim::{LinkChange, Simulate};
use punctual_transports::AnyTransport;
use std::path::Path;
use switches::Switches;

/// The keys of a scenario's top level.
pub const TOP_KEYS: &[&str] = &[
    "name",
    "description",
    "transports",
    "network",
    "transport",
    "queue",
    "traffic",
    "link",
    "switch",
    "run",
    "sweep",
    crate::plan::EXPERIMENT_KEY,
];

/// A scenario at one point of its sweep. `S` is the set of transports that it may name.
#[derive(Debug, Clone)]
pub struct Scenario<S: Simulate = AnyTransport> {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// The transports to compare.
    pub transports: Vec<String>,
    /// Parameters of transports.
    pub settings: S::Settings,
    /// The queues of switch ports, where they are not the transports' defaults.
    pub queues: Queues,
    /// The network, with nominal rates.
    pub network: Network,
    /// How far the rate of a port may deviate from its nominal rate.
    pub clock_tolerance: Tolerance,
    /// The traffic.
    pub traffic: Vec<TrafficSection>,
    /// Changes of links, by time.
    pub link_changes: Vec<LinkChange>,
    /// Legacy switches and resets of switches.
    pub(crate) switches: Switches,
    /// The `[run]` section.
    pub run: RunSection,
    /// The offered load of the first run.
    pub(crate) first_load: OfferedLoad,
    /// The tree it was decoded from, for the places in messages.
    tree: Table,
}

impl<S: Simulate> Scenario<S> {
    /// The files that it names, as it writes them: topologies, sizes, lists of flows.
    pub(crate) fn files(&self) -> Vec<&str> {
        fn text<'a>(table: Option<&'a Table>, key: &str) -> Option<&'a str> {
            table?.get(key)?.text()
        }
        let network = self.tree.get("network").and_then(Node::table);
        let mut files = vec![text(network, "path")];
        for traffic in self.tree.get("traffic").and_then(Node::list).unwrap_or_default() {
            let sizes = traffic.table().and_then(|t| t.get("sizes")?.table());
            files.extend([text(traffic.table(), "file"), text(sizes, "file")]);
        }
        files.into_iter().flatten().collect()
    }

    /// Decodes and checks a scenario.
    ///
    /// Files that it names are in `folder`. Its name is `fallback_name` if it has no `name`.
    pub(crate) fn decode(
        tree: &Table,
        folder: &Path,
        fallback_name: &str,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut errors = Vec::new();
        for entry in tree.entries.iter().filter(|e| !TOP_KEYS.contains(&&*e.key)) {
            let unknown = unknown("key", &entry.key, TOP_KEYS.iter().copied());
            errors.push(unknown.at(entry.key_span.clone()));
        }
        let mut sections = SectionReader { tree, errors: &mut errors };
        let name = sections.optional::<String>("name").unwrap_or_else(|| fallback_name.to_owned());
        let description = sections.optional::<String>("description").unwrap_or_default();
        let transports = sections.names::<S>("transports");
        let settings = sections.settings::<S>();
        let network_section = sections.required("network", NetworkSection::decode);
        let run = sections.required("run", RunSection::decode);
        let clock_tolerance =
            network_section.as_ref().map_or(Tolerance::ZERO, NetworkSection::clock_tolerance);
        let network = network_section.and_then(|section| {
            let node = tree.get("network").expect("a section was read from it");
            section.build(node, folder).map_err(|e| sections.errors.push(e)).ok()
        });
        let traffic = sections.traffic::<S>(folder, network.as_ref());
        let queues = sections.queues::<S>(network.as_ref(), &settings);
        let mut link_changes = Vec::new();
        let mut switches = Switches::default();
        if let Some(network) = &network {
            for node in sections.list("link") {
                match LinkSection::decode(node, network) {
                    Ok((_, changes)) => link_changes.extend(changes),
                    Err(e) => sections.errors.push(e),
                }
            }
            for node in sections.list("switch") {
                switches.decode(node, network).unwrap_or_else(|e| sections.errors.push(e));
            }
        }
        link_changes.sort_by_key(|c| c.at);
        if !is_directory_name(&name) {
            let at = tree.get("name").map(|n| n.span.clone());
            errors.push(
                Diagnostic::new(format!("`{name}` cannot name a directory of results"))
                    .at(at)
                    .help("use letters, digits, `-`, `_` and `.`"),
            );
        }
        match (network, run) {
            (Some(network), Some(run)) if errors.is_empty() => {
                let mut scenario = Scenario {
                    name,
                    description,
                    transports,
                    settings,
                    queues,
                    network,
                    clock_tolerance,
                    traffic,
                    link_changes,
                    switches,
                    run,
                    first_load: OfferedLoad::default(),
                    tree: tree.clone(),
                };
                scenario.first_load = scenario.check()?;
                Ok(scenario)
            }
            _ => Err(errors),
        }
    }
}

/// Whether a name can be used as that of a directory.
pub(crate) fn is_directory_name(name: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(plain)
}

/// Reads one section after the other and collects the errors.
struct SectionReader<'a> {
    tree: &'a Table,
    errors: &'a mut Vec<Diagnostic>,
}

impl<'a> SectionReader<'a> {
    fn optional<T: serde::de::DeserializeOwned>(&mut self, key: &str) -> Option<T> {
        let node = self.tree.get(key)?;
        decode(node).map_err(|e| self.errors.push(e)).ok()
    }

    fn required<T>(
        &mut self,
        key: &str,
        decode: impl FnOnce(&Node) -> Result<T, Vec<Diagnostic>>,
    ) -> Option<T> {
        match self.tree.get(key) {
            Some(node) => decode(node).map_err(|e| self.errors.extend(e)).ok(),
            None => {
                self.errors.push(Diagnostic::new(format!("there is no [{key}]")).help(format!(
                    "add a line [{key}] and its keys below; docs/scenario.md lists them"
                )));
                None
            }
        }
    }

    fn list(&mut self, key: &str) -> &'a [Node] {
        match self.tree.get(key) {
            None => &[],
            Some(Node { kind: Kind::List(items), .. }) => items,
            Some(node) => {
                let message = format!("`{key}` is a list: write [[{key}]], with two brackets");
                self.errors.push(Diagnostic::new(message).at(node.span.clone()));
                &[]
            }
        }
    }

    /// A list of transports.
    fn names<S: Simulate>(&mut self, key: &str) -> Vec<String> {
        let names: Vec<String> = self.optional(key).unwrap_or_default();
        let nodes = self.tree.get(key).and_then(Node::list).unwrap_or_default();
        for (i, (name, node)) in names.iter().zip(nodes).enumerate() {
            if !is_transport::<S>(name) && Policy::by_name(name).is_none() {
                let known = transports::<S>().chain(Policy::ALL.map(Policy::name));
                let unknown = unknown("transport", name, known.collect::<Vec<_>>());
                self.errors.push(unknown.at(node.span.clone()));
            } else if names[..i].contains(name) {
                let message = format!("`{name}` is listed twice");
                self.errors.push(Diagnostic::new(message).at(node.span.clone()));
            }
        }
        names
    }

    fn settings<S: Simulate>(&mut self) -> S::Settings {
        let Some(node) = self.tree.get("transport") else { return S::Settings::default() };
        // Checked here because serde's message would call it a field.
        let known = fields_of::<S::Settings>();
        for entry in node.table().map_or(&[][..], |t| &t.entries) {
            if !known.contains(&&*entry.key) {
                self.errors.push(unknown_transport::<S>(&entry.key).at(entry.key_span.clone()));
                return S::Settings::default();
            }
        }
        self.optional("transport").unwrap_or_default()
    }

    fn queues<S: Simulate>(&mut self, network: Option<&Network>, settings: &S::Settings) -> Queues {
        let Some(node) = self.tree.get("queue") else { return Queues::default() };
        let rates = network.map_or_else(|| vec![Rate::ZERO], queues::port_rates);
        let suggested = |name: &str, rate: Rate| {
            let transport = S::by_name(name, settings)?;
            Some(transport.default_queue(rate, network?.mtu))
        };
        let queues = Queues::decode::<S>(node, &rates, suggested);
        queues.map_err(|e| self.errors.extend(e)).unwrap_or_default()
    }

    fn traffic<S: Simulate>(
        &mut self,
        folder: &Path,
        network: Option<&Network>,
    ) -> Vec<TrafficSection> {
        let mut traffic = Vec::new();
        let nodes = self.list("traffic");
        if nodes.is_empty() && self.tree.get("traffic").is_none_or(|n| n.list().is_some()) {
            let message = "there is no [[traffic]], so nothing would be sent";
            self.errors.push(Diagnostic::new(message).help("add at least one [[traffic]]"));
        }
        for node in nodes {
            match TrafficSection::decode::<S>(node, folder, network) {
                Ok(section) => traffic.push(section),
                Err(e) => self.errors.push(e),
            }
        }
        traffic
    }
}

/// Names of all transports that send packets.
fn transports<S: Simulate>() -> impl Iterator<Item = &'static str> {
    S::catalogue().iter().map(|t| t.name)
}

fn is_transport<S: Simulate>(name: &str) -> bool {
    transports::<S>().any(|known| known == name)
}

fn unknown_transport<S: Simulate>(name: &str) -> Diagnostic {
    if Policy::by_name(name).is_some() {
        return Diagnostic::new(format!("`{name}` is an ideal scheduler and carries no packets"))
            .help("name it in `transports` at the top; it then carries all traffic");
    }
    unknown("transport", name, transports::<S>().collect::<Vec<_>>())
}
