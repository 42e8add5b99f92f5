//! Pauses by lossless switches, by tier.

use super::model::{Body, Section, TableBody, TableRow};
use super::tiers::TIERS;
use punctual_results::PauseRow;
use std::collections::BTreeMap;

/// The pauses of a run of a transport, by its number.
pub(crate) struct Paused {
    pub(crate) transport: usize,
    pub(crate) rows: Vec<PauseRow>,
}

/// Totals of the ports of a tier.
#[derive(Default)]
struct Sums {
    ports: u32,
    pauses: u64,
    seconds: f64,
    longest_seconds: f64,
    lasting: u32,
}

/// One row per transport and tier with pauses; none without pauses.
pub(crate) fn tiers(runs: &[Paused], names: &[String]) -> Option<Section> {
    let mut rows = Vec::new();
    for run in runs {
        let mut tiers: BTreeMap<(usize, &str), Sums> = BTreeMap::new();
        let mut last = None;
        for row in &run.rows {
            let tier = row.tier.as_str();
            let place = TIERS.iter().position(|known| *known == tier).unwrap_or(TIERS.len());
            let sums = tiers.entry((place, tier)).or_default();
            // Rows of a port follow each other, one a class.
            sums.ports += u32::from(last.replace(row.pauses.port) != Some(row.pauses.port));
            sums.pauses += row.pauses.pauses;
            sums.seconds += row.pauses.time.as_secs_f64();
            sums.longest_seconds = sums.longest_seconds.max(row.pauses.longest.as_secs_f64());
            sums.lasting += u32::from(row.pauses.lasts);
        }
        for ((_, tier), sums) in tiers {
            let cells = vec![
                names[run.transport].clone(),
                tier.to_owned(),
                sums.ports.to_string(),
                sums.pauses.to_string(),
                format!("{:.3}", sums.seconds * 1e3),
                format!("{:.1}", sums.longest_seconds * 1e6),
                sums.lasting.to_string(),
            ];
            rows.push(TableRow { transport: Some(run.transport), cells, best: Vec::new() });
        }
    }
    if rows.is_empty() {
        return None;
    }
    let header = [
        "Transport",
        "Tier",
        "Ports paused",
        "Pauses",
        "Time paused (ms)",
        "Longest (µs)",
        "Paused at the end",
    ];
    let lead = "How often and how long lossless switches paused the ports of each tier, in the \
                first run of each transport. Times are sums over ports and classes."
        .to_owned();
    let header = header.map(str::to_owned).to_vec();
    let body = Body::Table(TableBody { header, rows });
    let (id, title) = ("pauses".to_owned(), "Pauses by tier".to_owned());
    Some(Section { id, title, lead, point: None, body })
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::{Class, Duration, PortId};
    use punctual_record::PortPauses;

    #[test]
    fn ports_are_summed_by_tier_in_the_order_of_a_way() {
        let row = |port, class, tier: &str, micros, lasts| PauseRow {
            name: "a → b".into(),
            tier: tier.into(),
            pauses: PortPauses {
                port: PortId(port),
                class: Class(class),
                pauses: 3,
                time: Duration::from_micros(micros),
                longest: Duration::from_micros(micros / 2),
                lasts,
            },
        };
        let rows = vec![
            row(7, 1, "host-down", 40, true),
            row(2, 0, "host-up", 10, false),
            row(2, 1, "host-up", 20, false),
            row(3, 1, "host-up", 30, true),
        ];
        let names = ["tcp".to_owned(), "dcqcn".to_owned()];
        let none = Paused { transport: 0, rows: Vec::new() };
        assert!(tiers(&[none], &names).is_none());
        let section = tiers(&[Paused { transport: 1, rows }], &names).expect("a table");
        let Body::Table(table) = section.body else { panic!("a table") };
        let cells: Vec<String> = table.rows.iter().map(|row| row.cells.join(" ")).collect();
        assert_eq!(cells, ["dcqcn host-up 2 9 0.060 15.0 1", "dcqcn host-down 1 3 0.040 20.0 1"]);
    }
}
