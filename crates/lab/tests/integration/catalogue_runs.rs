//! Repeats short experiments of the catalogue and compares them with the committed results,
//! `experiments/results/quick.jsonl`.
//!
//! Results depend on scenario and seed alone, so values are compared exactly. The experiments are
//! chosen so that each transport of the four papers and both levels run, in few seconds.

use crate::catalogue_docs::{catalogue, lines};
use punctual_lab::catalogue::{ClaimLine, Judgement, Places, ReproduceOptions};
use punctual_lab::{Options, execute};
use punctual_transports::AnyTransport;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

/// What to do when a result has changed.
const WHAT_TO_DO: &str = "\
a protocol, the engine or a workload gives other results than those committed in \
experiments/results.\n\
If that is a mistake, mend it. If it is meant:\n  \
  cargo xtask results quick\n  \
  cargo xtask results full\n  \
  cargo xtask figures catalogue\n\
and say in the commit why results change. Claims that differ now need their words (`differs`).";

/// What two machines and two builds agree on.
fn outcome(judgement: &Judgement) -> String {
    format!("{:?} {}", judgement.measured, judgement.verdict_text())
}

fn outcomes(line: &ClaimLine) -> Vec<(String, String)> {
    let own = [(line.claim.clone(), outcome(&line.judgement))];
    let reading = |reading: &punctual_lab::catalogue::ReadingLine| {
        (format!("{}, reading {}", line.claim, reading.reading), outcome(&reading.judgement))
    };
    own.into_iter().chain(line.readings.iter().map(reading)).collect()
}

/// Runs an experiment with its quick sizes and compares every claim with the committed one.
fn repeat(id: &str) {
    let catalogue = catalogue();
    let experiment = catalogue.experiments.iter().find(|e| e.id == id).expect(id);
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().to_owned();
    let options = ReproduceOptions {
        execution: Options { out, threads: 1, fresh: false, csv: false, sync: false },
        quick: true,
        readings: true,
        places: Places::Simulator,
        folder: catalogue.folder.clone(),
    };
    let reproduced = experiment
        .reproduce::<AnyTransport>(&options, &mut |study, runs, own| {
            execute(study, runs, own, &(), &AtomicBool::new(false))
        })
        .unwrap_or_else(|e| panic!("{e}"));
    let committed: Vec<ClaimLine> =
        lines("quick.jsonl").into_iter().filter(|line| line.experiment == id).collect();
    let all = |lines: &[ClaimLine]| lines.iter().flat_map(outcomes).collect::<BTreeSet<_>>();
    let (now, before) = (all(&reproduced.claims), all(&committed));
    assert!(!now.is_empty(), "{id} has no claims");
    let mut changes = String::new();
    for (claim, outcome) in before.difference(&now) {
        changes += &format!("{id}, {claim}: committed {outcome}\n");
    }
    for (claim, outcome) in now.difference(&before) {
        changes += &format!("{id}, {claim}: now       {outcome}\n");
    }
    assert!(changes.is_empty(), "{changes}\n{WHAT_TO_DO}");
}

#[test]
fn d3_at_two_bottlenecks() {
    repeat("d3/multihop");
}

/// Ideal schedulers, RCPdc and D3 with and without quenching.
#[test]
fn d3_six_flows_with_one_deadline() {
    repeat("d3/fig1-2");
}

#[test]
fn d2tcp_dctcp_and_tcp_on_the_testbed() {
    repeat("d2tcp/testbed");
}

/// Samples of queues and rates.
#[test]
fn pdq_one_flow_after_another() {
    repeat("pdq/fig6");
}

/// Flow level, on three topologies, and a reading.
#[test]
fn pdq_beside_rcp_at_flow_level() {
    repeat("pdq/fig8e");
}

#[test]
fn ndp_nine_packets_into_a_queue_of_eight() {
    repeat("ndp/fig3");
}

/// Trimming at a sender's limit, and rates of single flows.
#[test]
fn ndp_with_more_to_send_than_a_link_carries() {
    repeat("ndp/fig21");
}

/// DCTCP over PFC, MPTCP and NDP in one incast, and readings of DCTCP's law.
#[test]
fn ndp_and_its_rivals_in_an_incast() {
    repeat("ndp/fig16");
}
