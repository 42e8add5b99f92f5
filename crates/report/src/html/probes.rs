//! The values that a search for capacities tried: the load offered there, and why a verdict is not
//! sure.

use super::model::{Body, Section, TableBody, TableRow};
use super::numbers::Numbered;
use punctual_results::{Capacities, CapacityProbe};

/// A row a value tried.
pub(super) fn section(found: &Capacities, number: &Numbered<'_>) -> Option<Section> {
    let row = |transport: &str, probe: &CapacityProbe| {
        let mut remarks = probe.reasons.clone();
        remarks.extend(probe.estimate.reason.iter().map(|reason| reason.replace('-', " ")));
        remarks.extend(probe.warnings.iter().map(|warning| format!("warning: {warning}")));
        remarks.dedup();
        TableRow {
            transport: Some(number(transport)),
            cells: vec![
                transport.to_owned(),
                probe.value.clone(),
                probe.estimate.repetitions.to_string(),
                probe.estimate.verdict.replace('-', " "),
                probe.offered_load.clone(),
                remarks.join("; "),
            ],
            best: Vec::new(),
        }
    };
    let rows: Vec<TableRow> = found
        .answers
        .iter()
        .flat_map(|answer| answer.probes.iter().map(|probe| row(&answer.transport, probe)))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let header = ["Transport", &found.vary, "Runs", "Verdict", "Offered load", "Remarks"];
    let header = header.map(str::to_owned).to_vec();
    Some(Section {
        id: "tried".into(),
        title: "Values tried".into(),
        lead: format!(
            "Each value of {} that the search tried, the load offered there, and what limits the \
             verdict.",
            found.vary
        ),
        point: None,
        body: Body::Table(TableBody { header, rows }),
    })
}

/// A column of a summary as a heading: `deadlines_met` is *Deadlines met*, `fct_p99_us` *FCT p99*.
pub(super) fn heading(column: &str) -> String {
    let words = column.trim_end_matches("_us").trim_end_matches("_gbps").replace('_', " ");
    let words = words.replace("fct", "FCT");
    let mut letters = words.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    first + letters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_results::CapacityAnswer;

    #[test]
    fn loads_reasons_and_warnings_are_shown() {
        let mut probe = CapacityProbe { value: "40".into(), ..CapacityProbe::default() };
        probe.offered_load = "host-down 1.20".into();
        probe.reasons = vec!["unfinished flows".into()];
        probe.warnings = vec!["offered load above 1".into()];
        probe.estimate.verdict = "leans-to-fail".into();
        let answer =
            CapacityAnswer { transport: "a".into(), probes: vec![probe], ..Default::default() };
        let found =
            Capacities { vary: "workers".into(), answers: vec![answer], ..Capacities::new() };
        let Body::Table(table) = section(&found, &|_| 0).unwrap().body else { panic!("a table") };
        let cells = &table.rows[0].cells;
        assert_eq!(cells[3..5], ["leans to fail", "host-down 1.20"]);
        assert_eq!(cells[5], "unfinished flows; warning: offered load above 1");
        assert!(section(&Capacities::new(), &|_| 0).is_none());
    }

    #[test]
    fn columns_become_headings() {
        assert_eq!(heading("deadlines_met"), "Deadlines met");
        assert_eq!(heading("fct_p99_us"), "FCT p99");
    }
}
