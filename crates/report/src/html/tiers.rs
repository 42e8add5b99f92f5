//! Utilisation of links by tier.

use super::model::{Body, Section, TableBody, TableRow};
use punctual_results::PortRow;

/// The tiers of links, from a sender to a receiver.
pub(super) const TIERS: [&str; 7] =
    ["host-up", "rack-up", "pod-up", "middle", "core-down", "pod-down", "host-down"];

/// The ports of one repetition of a transport.
pub(crate) struct Used<'a> {
    /// By number.
    pub(crate) transport: usize,
    pub(crate) ports: &'a [PortRow],
}

/// The share of the capacity of all links that was used, by tier: means over repetitions.
pub(crate) fn section(runs: &[Used<'_>], names: &[String]) -> Option<Section> {
    // In the order in which a packet crosses them; unknown tiers, of other versions, last.
    let all = runs.iter().flat_map(|run| run.ports);
    let mut tiers: Vec<&str> = all.map(|port| port.tier.as_str()).collect();
    let place = |tier: &str| TIERS.iter().position(|known| *known == tier);
    tiers.sort_by_key(|tier| (place(tier).unwrap_or(TIERS.len()), *tier));
    tiers.dedup();
    let mut transports: Vec<usize> = Vec::new();
    for run in runs.iter().filter(|run| !run.ports.is_empty()) {
        if !transports.contains(&run.transport) {
            transports.push(run.transport);
        }
    }
    let mut rows = Vec::new();
    for transport in transports {
        let mut cells = vec![names[transport].clone()];
        for tier in &tiers {
            let (mut used, mut capacity) = (0.0, 0.0);
            let own = runs.iter().filter(|run| run.transport == transport);
            for port in own.flat_map(|run| run.ports).filter(|port| port.tier == *tier) {
                let Some(share) = port.utilisation else { continue };
                used += share * port.rate.as_bps() as f64;
                capacity += port.rate.as_bps() as f64;
            }
            let share = used / capacity;
            let text =
                if share.is_finite() { format!("{:.1}", share * 100.0) } else { "–".into() };
            cells.push(text);
        }
        rows.push(TableRow { transport: Some(transport), cells, best: Vec::new() });
    }
    if rows.is_empty() || tiers.is_empty() {
        return None;
    }
    let mut header = vec!["Transport".to_owned()];
    header.extend(tiers.iter().map(|tier| format!("{tier} (%)")));
    let lead =
        "The share of all links' capacity that all bytes sent on them took, since measuring \
                began."
            .to_owned();
    let body = Body::Table(TableBody { header, rows });
    let (id, title) = ("tiers".to_owned(), "Utilisation by tier".to_owned());
    Some(Section { id, title, lead, point: None, body })
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::Rate;

    #[test]
    fn tiers_are_means_weighted_by_rate() {
        let port = |tier: &str, gbps, utilisation| PortRow {
            tier: tier.into(),
            rate: Rate::from_gbps(gbps),
            utilisation: Some(utilisation),
            ..PortRow::default()
        };
        let first =
            [port("host-down", 10, 0.2), port("rack-up", 40, 0.1), port("host-up", 10, 0.0)];
        let second =
            [port("host-down", 10, 0.4), port("rack-up", 10, 0.6), port("host-up", 10, 1.0)];
        let runs = [Used { transport: 0, ports: &first }, Used { transport: 0, ports: &second }];
        let section = section(&runs, &["ndp".to_owned()]).unwrap();
        let Body::Table(table) = section.body else { panic!("a table") };
        assert_eq!(table.header, ["Transport", "host-up (%)", "rack-up (%)", "host-down (%)"]);
        assert_eq!(table.rows[0].cells, ["ndp", "50.0", "20.0", "30.0"]);
        assert!(super::section(&[Used { transport: 0, ports: &[] }], &["x".into()]).is_none());
    }
}
