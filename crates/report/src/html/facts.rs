//! The network, the load and the runs of a point, in words.

use crate::collect::PointRuns;
use punctual_core::Rate;
use punctual_results::{Manifest, Metric, PortRow, RunKind, Summary};
use std::collections::BTreeSet;

/// What runs at flow level are, in the head of the page.
const FLOW_LEVEL: &str = "flow: whole flows, without packets, queues and losses";

/// Names and texts, for the head of the page.
pub(super) fn of(
    point: &PointRuns,
    ports: &[PortRow],
    first: Option<&Manifest>,
) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut add = |name: &str, text: String| {
        if !text.is_empty() {
            facts.push((name.to_owned(), text));
        }
    };
    let is_flows = point.rows.iter().any(|row| row.summary.kind == RunKind::Flows);
    add("Level", if is_flows { FLOW_LEVEL.to_owned() } else { String::new() });
    add("Packets", testbed(point, first));
    add("Network", network(ports));
    add("Traffic", first.map(|manifest| manifest.traffic.join(", ")).unwrap_or_default());
    add("Offered load", point.offered_load.clone());
    add("Flows", point.rows.first().map(|row| flows(&row.summary)).unwrap_or_default());
    let counts: BTreeSet<usize> = point.rows.iter().map(|row| row.repetitions.len()).collect();
    let repetitions: Vec<String> = counts.iter().map(usize::to_string).collect();
    let (rows, each) = (point.rows.len(), repetitions.join(" to "));
    let plural = if rows == 1 { "" } else { "s" };
    let times =
        if each == "1" { "one run each".into() } else { format!("{each} repetitions each") };
    add("Runs", format!("{rows} transport{plural}, {times}"));
    facts
}

/// What a run on a testbed is, and whether its timing can be trusted; empty for simulations.
fn testbed(point: &PointRuns, first: Option<&Manifest>) -> String {
    if !point.rows.iter().any(|row| row.summary.kind == RunKind::Testbed) {
        return String::new();
    }
    let scale = first.and_then(|manifest| manifest.testbed.as_ref()).map_or(1, |t| t.time_scale);
    let mut text = "real, on a testbed of network namespaces".to_owned();
    if scale > 1 {
        text += &format!("; the clock ran {scale} times slower than the machine's");
    }
    for row in &point.rows {
        for problem in &row.summary.timing_problems {
            text += &format!("; TIMING INVALID ({}): {problem}", row.summary.transport);
        }
    }
    text
}

/// `48 hosts, 7 switches, 60 links of 10Gbps to 40Gbps`.
pub(super) fn network(ports: &[PortRow]) -> String {
    if ports.is_empty() {
        return String::new();
    }
    let hosts: BTreeSet<&str> =
        ports.iter().filter(|p| p.tier == "host-up").map(|p| p.from.as_str()).collect();
    let nodes: BTreeSet<&str> = ports.iter().map(|port| port.from.as_str()).collect();
    let (hosts, switches, links) = (hosts.len(), nodes.len() - hosts.len(), ports.len() / 2);
    let rates: BTreeSet<Rate> = ports.iter().map(|port| port.rate).collect();
    let rates = match (rates.first(), rates.last()) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
        (Some(only), _) => only.to_string(),
        _ => String::new(),
    };
    let of = |count: usize, one: &str, more: &str| {
        format!("{count} {}", if count == 1 { one } else { more })
    };
    let (hosts, switches) = (of(hosts, "host", "hosts"), of(switches, "switch", "switches"));
    format!("{hosts}, {switches}, {} of {rates}", of(links, "link", "links"))
}

/// `1200 measured, 1799 background`.
fn flows(summary: &Summary) -> String {
    let mean = if summary.repetitions > 1 { " (mean over runs)" } else { "" };
    let flows = summary.number(Metric::Flows);
    match summary.number(Metric::BackgroundFlows) {
        0.0 => format!("{flows:.0} measured{mean}"),
        others => format!("{flows:.0} measured, {others:.0} not measured{mean}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_counted_by_its_ports() {
        let port = |from: &str, tier: &str, gbps| PortRow {
            from: from.into(),
            tier: tier.into(),
            rate: Rate::from_gbps(gbps),
            ..PortRow::default()
        };
        let ports = [
            port("host 0", "host-up", 10),
            port("host 1", "host-up", 10),
            port("rack 0", "host-down", 10),
            port("rack 0", "host-down", 40),
        ];
        assert_eq!(network(&ports), "2 hosts, 1 switch, 2 links of 10Gbps to 40Gbps");
        assert_eq!(network(&[]), "");
    }
}
