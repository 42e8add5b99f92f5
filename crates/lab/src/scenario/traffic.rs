//! `[[traffic]]`: the flows of a scenario.

use super::{Scenario, is_transport, unknown_transport};
use crate::diagnostic::Diagnostic;
use crate::document::{Kind, Node, decode};
use crate::suggest::nearest;
use punctual_core::{HostId, TransportId};
use punctual_net::Network;
use punctual_sim::Simulate;
use punctual_workload::{Problem, TrafficSpec, Workload, WorkloadError, build};
use std::ops::Range;
use std::path::Path;

/// One entry of `[[traffic]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct TrafficSection {
    /// The specification of the flows. The run sets its transport.
    pub spec: TrafficSpec,
    /// The transport that carries it; the subject of the run if absent.
    pub transport: Option<String>,
}

impl TrafficSection {
    pub(super) fn decode<S: Simulate>(
        node: &Node,
        folder: &Path,
        network: Option<&Network>,
    ) -> Result<Self, Diagnostic> {
        let mut node = node.clone();
        number_hosts(&mut node, network)?;
        let mut transport = None;
        if let Kind::Table(table) = &mut node.kind
            && let Some(entry) = table.get_mut("transport")
        {
            // `TrafficSpec` has the number of a transport, scenarios have the name.
            let name = entry.to_string();
            if entry.text().is_none_or(|name| !is_transport::<S>(name)) {
                return Err(unknown_transport::<S>(&name).at(entry.span.clone()));
            }
            transport = Some(name);
            entry.kind = Kind::Integer(0);
        }
        let mut spec: TrafficSpec = decode(&node)?;
        let read = |file: &str| std::fs::read_to_string(folder.join(file));
        let host = |name: &str| host_number(network, name).map(HostId);
        spec.load_files(read, host).map_err(|e| {
            Diagnostic::new(e.to_string())
                .at(place(&node, &["file", "sizes"]))
                .help("paths are relative to the scenario's directory")
        })?;
        Ok(TrafficSection { spec, transport })
    }
}

/// Keys whose values are hosts.
const HOST_KEYS: [&str; 6] = ["receiver", "pairs", "hosts", "exclude", "from", "to"];
/// Keys of a listed flow whose values are hosts.
const FLOW_KEYS: [&str; 2] = ["src", "dst"];

/// The number of the host with this name.
///
/// If the network could not be built, which is reported separately, every name is accepted.
fn host_number(network: Option<&Network>, name: &str) -> Option<u32> {
    let Some(network) = network else { return (!is_range(name)).then_some(0) };
    let hosts = network.names.iter().take(network.hosts as usize);
    hosts.zip(0..).find(|(host, _)| *host == name).map(|(_, number)| number)
}

/// Replaces the names of hosts by their numbers.
fn number_hosts(traffic: &mut Node, network: Option<&Network>) -> Result<(), Diagnostic> {
    let Kind::Table(table) = &mut traffic.kind else { return Ok(()) };
    for key in HOST_KEYS {
        if let Some(value) = table.get_mut(key) {
            number_value(value, network)?;
        }
    }
    let Some(Node { kind: Kind::List(flows), .. }) = table.get_mut("flows") else { return Ok(()) };
    for flow in flows {
        let Kind::Table(flow) = &mut flow.kind else { continue };
        for key in FLOW_KEYS {
            if let Some(end) = flow.get_mut(key) {
                number_value(end, network)?;
            }
        }
    }
    Ok(())
}

/// Replaces a name by its number, in lists too. A text of numbers, ranges and names, such as
/// `"0-3, db"`, stays a text.
fn number_value(value: &mut Node, network: Option<&Network>) -> Result<(), Diagnostic> {
    match &mut value.kind {
        Kind::List(items) => items.iter_mut().try_for_each(|item| number_value(item, network)),
        Kind::Text(text) => {
            if let Some(number) = host_number(network, text) {
                value.kind = Kind::Integer(number.into());
                return Ok(());
            }
            let mut parts = Vec::new();
            for part in text.split(',').map(str::trim) {
                match host_number(network, part) {
                    Some(number) => parts.push(number.to_string()),
                    None if is_range(part) => parts.push(part.to_owned()),
                    None => return Err(unknown_host(network, part).at(value.span.clone())),
                }
            }
            *text = parts.join(", ");
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Whether a text is a number or a range of numbers.
fn is_range(part: &str) -> bool {
    part.chars().all(|c| c.is_ascii_digit() || " -".contains(c))
}

fn unknown_host(network: Option<&Network>, name: &str) -> Diagnostic {
    let Some(network) = network else {
        return Diagnostic::new(format!("there is no host `{name}`"));
    };
    let count = network.hosts as usize;
    let names = network.names.iter().take(count).map(String::as_str);
    let close = nearest(name, names);
    let message = format!("there is no host `{name}`");
    Diagnostic::new(message).help(match close {
        Some(close) => format!("did you mean `{close}`?"),
        None => format!("hosts are 0 to {}, or `{}`, …", count - 1, network.names[0]),
    })
}

impl<S: Simulate> Scenario<S> {
    /// The name of each `[[traffic]]`: its `name` or its pattern, with a number if that is taken.
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

    /// The flows of a run with these transports.
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

    /// Converts an error of the workload into a diagnostic at the key that causes it.
    fn locate(&self, error: &WorkloadError) -> Diagnostic {
        let message = error.problem.to_string();
        let node = self.tree.get("traffic").and_then(|n| n.list()?.get(error.traffic));
        let Some(node) = node else { return Diagnostic::new(message) };
        let keys: Vec<&str> = match innermost(&error.problem) {
            Problem::ToItself(host) => {
                if let Some(span) = pair_to_itself(node, host.0) {
                    return Diagnostic::new(message).at(span);
                }
                vec!["pairs", "flows", "file", "receiver", "to"]
            }
            Problem::TooFewHosts(_) => vec!["exclude", "hosts"],
            Problem::UnknownHost { .. } => {
                vec!["receiver", "pairs", "flows", "file", "hosts", "exclude", "from", "to"]
            }
            Problem::EmptyGroup(key) => vec![key],
            Problem::InBothGroups(_) | Problem::TooFewReceivers { .. } => vec!["to", "from"],
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

/// The problem inside the problem of a listed flow.
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

/// The span of the first of these keys that the table has, or of the table.
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
