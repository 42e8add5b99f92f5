//! Runs scenarios in memory.
#![allow(dead_code, unreachable_pub)]

use punctual_core::Instant;
use punctual_lab::{PlannedRun, RunSetup, Study};
use punctual_results::RunKind;
use punctual_sim::Outcome;
use std::ops::ControlFlow;
use std::path::Path;

/// The result of one run of a plan.
pub struct Ran {
    pub run: PlannedRun,
    pub outcome: Outcome,
    pub kind: RunKind,
}

impl Ran {
    pub fn name(&self) -> &str {
        &self.run.subject.label
    }

    /// The value of the sweep.
    pub fn point(&self) -> &str {
        self.run.labels.first().map_or("", |(_, value)| value)
    }

    pub fn met(&self) -> usize {
        self.outcome.flows.iter().filter(|f| f.met_deadline() == Some(true)).count()
    }

    /// The completion time of each flow, in milliseconds.
    pub fn fcts_ms(&self) -> Vec<f64> {
        let fct = |f: &punctual_sim::FlowRecord| {
            f.ended.map_or(f64::INFINITY, |at| (at - f.spec.start).as_secs_f64() * 1e3)
        };
        self.outcome.flows.iter().map(fct).collect()
    }

    /// The mean completion time, in milliseconds.
    pub fn mean_fct_ms(&self) -> f64 {
        let all = self.fcts_ms();
        all.iter().sum::<f64>() / all.len() as f64
    }

    /// When each flow ended, in milliseconds, by sending host.
    pub fn ends_ms(&self) -> Vec<f64> {
        let mut ends: Vec<_> = self
            .outcome
            .flows
            .iter()
            .map(|f| (f.spec.src, f.ended.map_or(f64::INFINITY, |at| at.as_secs_f64() * 1e3)))
            .collect();
        ends.sort_by_key(|(src, _)| *src);
        ends.into_iter().map(|(_, end)| end).collect()
    }
}

/// Runs all planned runs of a study.
pub fn all(study: &Study) -> Vec<Ran> {
    study.runs().into_iter().map(|run| one(study, run, None)).collect()
}

/// Executes one run; packet simulations end at `until` at the latest.
pub fn one(study: &Study, run: PlannedRun, until: Option<Instant>) -> Ran {
    let setup = study.setup(&run.scenario, &run.subject, run.seed).unwrap();
    let (outcome, kind) = match setup {
        RunSetup::Packets(mut setup) => {
            setup.stop.at = until.map_or(setup.stop.at, |until| until.min(setup.stop.at));
            let outcome = punctual_sim::run(*setup, &mut |_| ControlFlow::Continue(()));
            assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
            (outcome, RunKind::Packets)
        }
        RunSetup::Testbed(_) => panic!("tests of the lab run no testbed"),
        RunSetup::Flows(setup) => (setup.run(&mut |_| true), RunKind::Flows),
        RunSetup::Ideal(setup) => {
            let ideal = setup.run();
            (ideal.outcome, ideal.kind)
        }
    };
    Ran { run, outcome, kind }
}

pub fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios"))
}

/// A scenario of this repository, with changes as on the command line.
pub fn shipped(name: &str, changes: &[&str]) -> Vec<Ran> {
    let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
    let path = folder().join(format!("{name}.toml"));
    all(&Study::load(&path, &changes).unwrap_or_else(|e| panic!("{e}")))
}

/// A scenario given as text.
pub fn text(text: &str) -> Vec<Ran> {
    all(&study(text))
}

/// The planned runs of a scenario given as text.
pub fn study(text: &str) -> Study {
    Study::from_text("test", text, folder(), &[]).unwrap_or_else(|e| panic!("{e}\n{text}"))
}
