//! `[[traffic]]`: who sends what to whom.

use super::{Scenario, is_transport, unknown_transport};
use crate::diagnostic::Diagnostic;
use crate::document::{Kind, Node, decode};
use punctual_core::TransportId;
use punctual_sim::Simulate;
use punctual_workload::{Problem, TrafficSpec, Workload, WorkloadError, build};
use std::ops::Range;
use std::path::Path;

/// One `[[traffic]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct TrafficSection {
    /// What is sent. Its transport is the run's to fill in.
    pub spec: TrafficSpec,
    /// The transport that carries it; the subject of the run when absent.
    pub transport: Option<String>,
}

impl TrafficSection {
    pub(super) fn decode<S: Simulate>(node: &Node, folder: &Path) -> Result<Self, Diagnostic> {
        let mut node = node.clone();
        let mut transport = None;
        if let Kind::Table(table) = &mut node.kind
            && let Some(entry) = table.get_mut("transport")
        {
            // Traffic counts transports; scenarios name them.
            let name = entry.to_string();
            if entry.text().is_none_or(|name| !is_transport::<S>(name)) {
                return Err(unknown_transport::<S>(&name).at(entry.span.clone()));
            }
            transport = Some(name);
            entry.kind = Kind::Integer(0);
        }
        let mut spec: TrafficSpec = decode(&node)?;
        spec.load_files(|file| std::fs::read_to_string(folder.join(file))).map_err(|e| {
            Diagnostic::new(e.to_string())
                .at(place(&node, &["file", "sizes"]))
                .help("files are looked for beside the scenario")
        })?;
        Ok(TrafficSection { spec, transport })
    }
}

impl<S: Simulate> Scenario<S> {
    /// What to call each `[[traffic]]`: its name, or its pattern, with a number from the second of
    /// the same on.
    pub fn traffic_names(&self) -> Vec<String> {
        let nodes = self.tree.get("traffic").and_then(Node::list).unwrap_or_default();
        let mut names: Vec<String> = Vec::new();
        for (i, traffic) in self.traffic.iter().enumerate() {
            let pattern = || nodes.get(i)?.table()?.get("pattern")?.text().map(str::to_owned);
            let own = traffic.spec.name.clone().or_else(pattern);
            let own = own.unwrap_or_else(|| format!("traffic {i}"));
            let name = match names.contains(&own) {
                true => format!("{own} {}", i + 1),
                false => own,
            };
            names.push(name);
        }
        names
    }

    /// The flows of a run whose transports have these names.
    pub(crate) fn workload(&self, names: &[&str], seed: u64) -> Result<Workload, Diagnostic> {
        let specs: Vec<TrafficSpec> = self
            .traffic
            .iter()
            .map(|t| {
                let own = t.transport.as_deref();
                let id = names.iter().position(|name| Some(*name) == own).unwrap_or(0);
                TrafficSpec { transport: TransportId(id as u8), ..t.spec.clone() }
            })
            .collect();
        build(&specs, &self.hosts_view(), self.run.duration, seed)
            .map_err(|error| self.locate(&error))
    }

    /// Points at the key that a workload's error is about.
    fn locate(&self, error: &WorkloadError) -> Diagnostic {
        let message = error.problem.to_string();
        let node = self.tree.get("traffic").and_then(|n| n.list()?.get(error.traffic));
        let Some(node) = node else { return Diagnostic::new(message) };
        let keys: Vec<&str> = match innermost(&error.problem) {
            Problem::ToItself(host) => {
                if let Some(span) = pair_to_itself(node, host.0) {
                    return Diagnostic::new(message).at(span);
                }
                vec!["pairs", "flows", "file", "receiver"]
            }
            Problem::TooFewHosts(_) => vec!["exclude", "hosts"],
            Problem::UnknownHost { .. } => {
                vec!["receiver", "pairs", "flows", "file", "hosts", "exclude"]
            }
            Problem::TooManyFlows(_) => vec!["arrivals", "limit"],
            Problem::NotPositive { .. } | Problem::EndlessLoad | Problem::EndlessLoop => {
                vec!["arrivals"]
            }
            Problem::Empty(_) => vec!["pairs", "flows", "file"],
            Problem::Sizes(_) => vec!["sizes"],
            _ => words(&message),
        };
        let span = place(node, &keys);
        Diagnostic::new(message).at(span)
    }
}

/// What is wrong with a single flow of a list.
fn innermost(problem: &Problem) -> &Problem {
    match problem {
        Problem::Listed { problem, .. } => innermost(problem),
        other => other,
    }
}

/// The words of a message, any of which may be a key.
fn words(message: &str) -> Vec<&str> {
    message.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').collect()
}

/// The value of the first of these keys that the table has, else the table.
fn place(node: &Node, keys: &[&str]) -> Range<usize> {
    let table = node.table();
    let found = keys.iter().find_map(|key| table.and_then(|t| t.get(key)));
    found.unwrap_or(node).span.clone()
}

fn pair_to_itself(node: &Node, host: u32) -> Option<Range<usize>> {
    let pairs = node.table()?.get("pairs")?.list()?;
    let same = |pair: &&Node| {
        let ends = pair.list().unwrap_or_default();
        ends.len() == 2 && ends.iter().all(|end| end.kind == Kind::Integer(i64::from(host)))
    };
    pairs.iter().find(same).map(|pair| pair.span.clone())
}
