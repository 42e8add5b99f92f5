//! The values that a capacity search tried: the load offered there, and why a verdict is not sure.

use super::model::{Body, Head, Section, TableBody, TableRow};
use super::numbers::{self, Numbered};
use super::{facts, verdict};
use crate::collect::ReportError;
use punctual_results::{Capacities, CapacityEstimate, CapacityProbe, read, read_manifest};
use std::path::PathBuf;

/// The head of a capacity report: the answers, the network, the load at each capacity, and the
/// switch queue of each transport. `probed` has one run of each answer, see `Results::probed`.
pub(super) fn head(
    found: &Capacities,
    probed: &[(usize, PathBuf)],
    number: &Numbered<'_>,
) -> Result<Head, ReportError> {
    let mut head = Head { verdict: verdict::of_capacities(found), ..Head::default() };
    let mut add = |name: &str, text: String| {
        if !text.is_empty() {
            head.facts.push((name.to_owned(), text));
        }
    };
    if let Some((_, run)) = probed.first() {
        let files = read(run)?;
        add("Network", facts::network(&files.ports));
        add("Traffic", files.manifest.traffic.join(", "));
    }
    // Answers at the same value of the same point have the same load.
    let mut loads: Vec<(String, String)> = Vec::new();
    for answer in &found.answers {
        let is_capacity = |probe: &&CapacityProbe| Some(&probe.value) == answer.capacity.as_ref();
        let Some(probe) = answer.probes.iter().find(is_capacity) else { continue };
        let at: Vec<String> = answer.point.iter().map(|(k, v)| format!(", {k} = {v}")).collect();
        let load = (format!("{}{}", probe.value, at.concat()), probe.offered_load.clone());
        if !load.1.is_empty() && !loads.contains(&load) {
            loads.push(load);
        }
    }
    let loads: Vec<String> =
        loads.iter().map(|(at, load)| format!("at {} = {at}: {load}", found.vary)).collect();
    add("Offered load", loads.join("; "));
    add("Search", format!("from {} to {} in steps of {}", found.from, found.to, found.step));
    let runs: u64 = found.answers.iter().map(|answer| answer.runs).sum();
    add("Runs", format!("{runs}"));
    for (answer, run) in probed {
        let Some(answer) = found.answers.get(*answer) else { continue };
        let (transport, queue) = (number(&answer.transport), read_manifest(run)?.queue);
        if !queue.is_empty() && !head.queues.iter().any(|(known, _)| *known == transport) {
            head.queues.push((transport, queue));
        }
    }
    Ok(head)
}

/// One row per value tried, in the order of the values.
pub(super) fn section(found: &Capacities, number: &Numbered<'_>) -> Option<Section> {
    let share = numbers::is_share(&found.column);
    let row = |transport: usize, name: &str, probe: &CapacityProbe| {
        let mut remarks: Vec<String> = reason(&probe.estimate, found).into_iter().collect();
        remarks.extend(probe.reasons.iter().cloned());
        remarks.extend(probe.warnings.iter().map(|warning| format!("warning: {warning}")));
        remarks.dedup();
        TableRow {
            transport: Some(transport),
            cells: vec![
                name.to_owned(),
                probe.value.clone(),
                numbers::shown(&probe.estimate, share),
                probe.estimate.repetitions.to_string(),
                verdict_words(&probe.estimate.verdict).to_owned(),
                probe.offered_load.clone(),
                remarks.join("; "),
            ],
            best: Vec::new(),
        }
    };
    let mut rows: Vec<TableRow> = Vec::new();
    for answer in &found.answers {
        let point: Vec<_> = answer.point.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        let name = numbers::labelled_after(&answer.transport, &point);
        let values: Vec<String> = answer.probes.iter().map(|probe| probe.value.clone()).collect();
        let places = numbers::x_axis(&found.vary, &values).0;
        let mut tried: Vec<_> = places.into_iter().zip(&answer.probes).collect();
        tried.sort_by(|a, b| a.0.total_cmp(&b.0));
        rows.extend(tried.iter().map(|(_, probe)| row(number(&answer.transport), &name, probe)));
    }
    if rows.is_empty() {
        return None;
    }
    let column = heading(&found.column);
    let header =
        ["Transport", &found.vary, &column, "Runs", "Verdict", "Offered load", "Why not surely"];
    let header = header.map(str::to_owned).to_vec();
    Some(Section {
        id: "tried".into(),
        title: "Values tried".into(),
        lead: format!(
            "Each value of {} that the search tried, the load offered there, and the reason where \
             the condition neither surely holds nor surely fails.",
            found.vary
        ),
        point: None,
        body: Body::Table(TableBody { header, rows }),
    })
}

/// A verdict of `capacity.json` in the words that `capacity` prints.
pub(super) fn verdict_words(verdict: &str) -> &str {
    match verdict {
        "leans-to-hold" => "holds in the mean, not surely",
        "leans-to-fail" => "fails in the mean, not surely",
        verdict => verdict,
    }
}

/// Why an estimate is not sure; none where it is, or where the reasons of its probe say so.
fn reason(estimate: &CapacityEstimate, found: &Capacities) -> Option<String> {
    let CapacityEstimate { unfinished, flows, .. } = estimate;
    let of = format!("{unfinished:.1} of {flows:.1} flows were unfinished when the run ended");
    match estimate.reason.as_deref() {
        Some("unfinished") => return Some(of),
        Some("deadlines-not-due") => {
            return Some(format!("{of}, before deadlines that could decide it were due"));
        }
        Some("few-flows") => {
            return Some(format!(
                "the p99 of {flows:.1} flows per run is their maximum; 100 flows are needed"
            ));
        }
        Some(other) => return Some(other.replace('-', " ")),
        None => {}
    }
    let is_sure = !estimate.verdict.starts_with("leans");
    let (low, high) = estimate.low.zip(estimate.high).filter(|_| !is_sure)?;
    (low..=high).contains(&found.threshold).then(|| {
        format!("the 95 % interval over {} runs includes the threshold", estimate.repetitions)
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
        assert_eq!(cells[4..6], ["fails in the mean, not surely", "host-down 1.20"]);
        assert_eq!(cells[6], "unfinished flows; warning: offered load above 1");
        assert!(section(&Capacities::new(), &|_| 0).is_none());
    }

    #[test]
    fn a_verdict_that_is_not_sure_has_a_reason() {
        let found = Capacities { threshold: 0.95, ..Capacities::new() };
        let mut estimate = CapacityEstimate {
            repetitions: 200,
            verdict: "leans-to-hold".into(),
            low: Some(0.94),
            high: Some(0.97),
            flows: 40.0,
            unfinished: 2.0,
            ..CapacityEstimate::default()
        };
        let interval = "the 95 % interval over 200 runs includes the threshold";
        assert_eq!(reason(&estimate, &found).as_deref(), Some(interval));
        for (short, long) in [("unfinished", "2.0 of 40.0"), ("few-flows", "p99 of 40.0 flows")] {
            estimate.reason = Some(short.into());
            assert!(reason(&estimate, &found).unwrap().contains(long));
        }
        (estimate.reason, estimate.verdict) = (None, "holds".into());
        assert_eq!(reason(&estimate, &found), None);
    }

    #[test]
    fn values_are_in_order() {
        let probe = |value: &str| CapacityProbe { value: value.into(), ..Default::default() };
        let probes = ["20ms", "100ms", "3ms"].map(probe).to_vec();
        let answer = CapacityAnswer { transport: "a".into(), probes, ..Default::default() };
        let found = Capacities { answers: vec![answer], ..Capacities::new() };
        let Body::Table(table) = section(&found, &|_| 0).unwrap().body else { panic!("a table") };
        let values: Vec<&str> = table.rows.iter().map(|row| row.cells[1].as_str()).collect();
        assert_eq!(values, ["3ms", "20ms", "100ms"]);
    }

    #[test]
    fn columns_become_headings() {
        assert_eq!(heading("deadlines_met"), "Deadlines met");
        assert_eq!(heading("fct_p99_us"), "FCT p99");
    }
}
