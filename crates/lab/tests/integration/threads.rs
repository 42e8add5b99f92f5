//! Every scenario of this repository on several threads.

use crate::common::folder;
use punctual_core::Instant;
use punctual_lab::{RunSetup, Study};
use punctual_sim::bench::SharingReport;
use punctual_sim::{EngineOptions, Outcome, Setup};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Runs on up to this many threads. Returns the number that it used as well.
fn with_threads(setup: &Setup, threads: usize) -> (Outcome, usize) {
    let engine = EngineOptions { windows: (threads > 1).then_some(true), threads };
    let setup = Setup { engine, ..setup.clone() };
    let outcome = punctual_sim::run(setup, &mut |_| ControlFlow::Continue(()));
    (outcome, SharingReport::last().threads)
}

/// When a run has handled 131,072 events: progress is reported so often.
fn first_progress(setup: &Setup) -> Option<Instant> {
    let mut at = None;
    punctual_sim::run(setup.clone(), &mut |progress| {
        at = Some(progress.now);
        ControlFlow::Break(())
    });
    at
}

/// The first run of each scenario with each transport, cut off after a third of the time of its first
/// 131,072 events: on 2, 3 and 8 threads with the first transport, on 3 with the others.
#[test]
fn threads__every_scenario_has_the_results_of_one() {
    let mut shared = BTreeSet::new();
    let files = std::fs::read_dir(folder()).expect("scenarios");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    for path in paths {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let study = Study::load(&path, &[]).unwrap_or_else(|e| panic!("{e}"));
        let mut subjects = BTreeSet::new();
        for run in study.runs() {
            if !subjects.insert(run.subject.label.clone()) {
                continue;
            }
            let setup = study.setup(&run.scenario, &run.subject, run.seed);
            let Ok(RunSetup::Packets(setup)) = setup else { continue };
            let mut setup = Setup { check: false, capture_max: 0, ..*setup };
            if let Some(at) = first_progress(&setup) {
                let third = Instant::from_picos(at.as_picos() / 3);
                setup.stop.at = setup.stop.at.min(third);
            }
            let (one, _) = with_threads(&setup, 1);
            let is_first = subjects.len() == 1;
            let counts: &[usize] = if is_first { &[2, 3, 8] } else { &[3] };
            for &threads in counts {
                let (several, used) = with_threads(&setup, threads);
                if used == 1 {
                    break; // It cannot be shared out.
                }
                shared.insert(name.clone());
                let what = format!("{name}, {} on {threads} threads", run.subject.label);
                assert_eq!(several.totals, one.totals, "{what}");
                assert!(several.flows == one.flows, "{what}: flows");
                assert!(several.ports == one.ports, "{what}: ports");
                assert!(several.controllers == one.controllers, "{what}: controllers");
                assert!(several.pauses == one.pauses, "{what}: pauses");
                assert!(several.samples == one.samples, "{what}: samples");
                assert!(several.gauges == one.gauges, "{what}: gauges");
                assert!(several.network == one.network, "{what}: network");
                assert!(several.packet_latency == one.packet_latency, "{what}: latency");
            }
        }
    }
    println!("shared out: {shared:?}");
    for name in ["search", "incast", "permutation", "mixed", "cut-link", "lossy-link", "oldi"] {
        assert!(shared.contains(name), "{name} stays on one thread: {shared:?}");
    }
}
