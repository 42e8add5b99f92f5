//! Running a plan: whole runs side by side, each written when it is finished.

use crate::diagnostic::ScenarioError;
use crate::fingerprint::{build_id, commit, fingerprint};
use crate::ideal;
use crate::plan::{PlannedRun, Study};
use crate::scenario::{RunSetup, TierName};
use crate::scheduler::IdealRun;
use crate::survey::{RunState, check_directory, look};
use punctual_core::PortId;
use punctual_net::Network;
use punctual_results::{
    FlowRow, GaugeRow, Manifest, PauseRow, PortRow, Run, RunFacts, RunKind, Summary, WriteError,
    WriteOptions, read_summary,
};
use punctual_sim::{FlowRecord, Measure, Outcome, Progress, Simulate, Totals};
use punctual_transports::AnyTransport;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration as WallTime, Instant as WallInstant, SystemTime, UNIX_EPOCH};

/// How to execute a plan.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory under which every run has its own.
    pub out: PathBuf,
    /// Runs at a time.
    pub threads: usize,
    /// Run again what is there already.
    pub fresh: bool,
    /// Also write `flows.csv`.
    pub csv: bool,
}

/// Is told how an execution gets on, from several threads.
pub trait Watch<S: Simulate = AnyTransport>: Sync {
    /// A run begins.
    fn started(&self, _run: &PlannedRun<S>) {}
    /// A run is so far.
    fn progress(&self, _run: &PlannedRun<S>, _progress: Progress) {}
    /// A run is over and written, or was found written.
    fn finished(&self, _run: &PlannedRun<S>, _report: &RunReport) {}
}

/// Watches nothing.
impl<S: Simulate> Watch<S> for () {}

/// What became of a run.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// The run in one object.
    pub summary: Summary,
    /// Where its files are.
    pub dir: PathBuf,
    /// It was there already, from an earlier execution of the same settings.
    pub reused: bool,
    /// What the directory held of it before.
    pub state: RunState,
    /// How long it took.
    pub wall: WallTime,
}

/// Why a plan was not executed to its end. Runs finished before are whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The scenario cannot be run.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Results could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Results just written could not be read.
    #[error(transparent)]
    Read(#[from] punctual_results::ReadError),
    /// The directory holds results of other settings.
    #[error(
        "{} holds results of other settings: {what}\nwrite elsewhere with --out DIR, or replace \
         them with --fresh",
        dir.display()
    )]
    OtherSettings {
        /// The directory of a run, or of all results.
        dir: PathBuf,
        /// What differs.
        what: String,
    },
    /// A checker found a broken invariant. The run is not kept.
    #[error("{run}: {} invariants broken; the first: {}", violations.len(), violations[0])]
    Violated {
        /// The run.
        run: String,
        /// What was found.
        violations: Vec<String>,
    },
    /// Someone asked to stop.
    #[error("interrupted after {done} of {total} runs")]
    Interrupted {
        /// Runs that are whole.
        done: usize,
        /// Runs of the plan.
        total: usize,
    },
}

/// Looks at what the directory of results holds of each run, in the plan's order. Nothing is
/// written. Fails where it holds results of other settings, unless they are to be replaced.
pub fn survey<S: Simulate>(
    study: &Study<S>,
    runs: &[PlannedRun<S>],
    options: &Options,
    stop: &AtomicBool,
) -> Result<Vec<RunState>, ExecuteError> {
    let look = |i: usize, _: &dyn Fn() -> bool| look(study, &runs[i], options).map(Some);
    let states = side_by_side(runs.len(), options.threads, stop, look)?;
    if !options.fresh && states.iter().any(|state| *state != RunState::Reusable) {
        check_directory(study, runs, &options.out)?;
    }
    Ok(states)
}

/// Executes a plan and returns what became of each run, in the plan's order whatever the number
/// of threads. `stop` ends it at once from outside.
pub fn execute<S: Simulate>(
    study: &Study<S>,
    runs: &[PlannedRun<S>],
    options: &Options,
    watch: &dyn Watch<S>,
    stop: &AtomicBool,
) -> Result<Vec<RunReport>, ExecuteError> {
    let states = survey(study, runs, options, stop)?;
    execute_surveyed(study, runs, &states, options, watch, stop)
}

/// Executes a plan of which [`survey`] has returned the states, like [`execute`].
///
/// # Panics
/// When there are not as many states as runs.
pub fn execute_surveyed<S: Simulate>(
    study: &Study<S>,
    runs: &[PlannedRun<S>],
    states: &[RunState],
    options: &Options,
    watch: &dyn Watch<S>,
    stop: &AtomicBool,
) -> Result<Vec<RunReport>, ExecuteError> {
    assert_eq!(runs.len(), states.len(), "a state for each run");
    side_by_side(runs.len(), options.threads, stop, |i, halt| {
        let run = &runs[i];
        watch.started(run);
        let report = one(study, run, &states[i], options, watch, halt)?;
        report.iter().for_each(|report| watch.finished(run, report));
        Ok(report)
    })
}

/// Does so many pieces of work on several threads and returns their results in order. Work that
/// returns nothing was stopped. The first failure in that order is the one to report.
fn side_by_side<T: Send>(
    count: usize,
    threads: usize,
    stop: &AtomicBool,
    work: impl Fn(usize, &dyn Fn() -> bool) -> Result<Option<T>, ExecuteError> + Sync,
) -> Result<Vec<T>, ExecuteError> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let results: Vec<Mutex<Option<Result<T, ExecuteError>>>> =
        (0..count).map(|_| Mutex::new(None)).collect();
    let halt = || stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed);
    let thread = || {
        while !halt() {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(place) = results.get(i) else { break };
            let result = work(i, &halt);
            match &result {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => failed.store(true, Ordering::Relaxed),
            }
            *place.lock().expect("no thread panicked") = result.transpose();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(thread);
        }
    });
    let mut done = Vec::new();
    for result in results {
        if let Some(result) = result.into_inner().expect("no thread panicked") {
            done.push(result?);
        }
    }
    match done.len() < count {
        true => Err(ExecuteError::Interrupted { done: done.len(), total: count }),
        false => Ok(done),
    }
}

/// Executes one run; nothing when it was stopped.
fn one<S: Simulate>(
    study: &Study<S>,
    run: &PlannedRun<S>,
    state: &RunState,
    options: &Options,
    watch: &dyn Watch<S>,
    halt: &dyn Fn() -> bool,
) -> Result<Option<RunReport>, ExecuteError> {
    let begun = WallInstant::now();
    let dir = options.out.join(&run.dir);
    let state = state.clone();
    if state == RunState::Reusable {
        let (summary, wall) = (read_summary(&dir)?, begun.elapsed());
        return Ok(Some(RunReport { summary, dir, reused: true, state, wall }));
    }
    let setup = study.setup(&run.scenario, &run.subject, run.seed)?;
    let print = fingerprint(&setup, run);
    let network = &*run.scenario.network_with_clocks(run.seed);
    let mut ideal_setup = None;
    let queue = match &setup {
        RunSetup::Packets(setup) => crate::queue_words(setup),
        RunSetup::Ideal(_) => String::new(),
    };
    let (outcome, kind) = match setup {
        RunSetup::Packets(setup) => {
            let outcome = punctual_sim::run(*setup, &mut |progress| {
                watch.progress(run, progress);
                if halt() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            (outcome, RunKind::Packets)
        }
        RunSetup::Ideal(setup) => {
            let IdealRun { outcome, kind } = setup.run();
            ideal_setup = Some(setup);
            (outcome, kind)
        }
    };
    if outcome.interrupted {
        return Ok(None);
    }
    if !outcome.violations.is_empty() {
        let run = run.title();
        return Err(ExecuteError::Violated { run, violations: outcome.violations });
    }
    let names = run.scenario.names(run.subject.transport.as_deref());
    let mut flows = FlowRow::all(&outcome, &names, |record| {
        let spec = &record.spec;
        if let Some(setup) = &ideal_setup {
            return setup.alone(spec);
        }
        let ends = spec.size != punctual_core::Bytes::ENDLESS;
        ends.then(|| ideal::completion_time(network, spec.src, spec.dst, spec.size))
    });
    let traffic = run.scenario.traffic_names();
    FlowRow::name_traffic(&mut flows, &traffic);
    let utilisation = utilisation(network, &outcome);
    let pause_cycles = circles_in_words(network, &outcome);
    let facts = RunFacts {
        transport: &run.subject.label,
        kind,
        seed: run.seed,
        utilisation: utilisation.filter(|_| kind != RunKind::Bound),
        pause_cycles: &pause_cycles,
        traffic: &traffic,
    };
    let summary = punctual_results::summarise(&outcome, &flows, &facts);
    let mut manifest = Manifest::new(study.text(), &run.subject.label, run.seed);
    manifest.build = build_id().to_owned();
    manifest.commit = commit();
    manifest.setup = print;
    manifest.queue = queue;
    manifest.name = study.name().to_owned();
    manifest.traffic = traffic.clone();
    manifest.overrides = study.overrides().to_vec();
    manifest.point = run.values.clone();
    manifest.transports = run.transports.clone();
    manifest.directory = run.dir.display().to_string();
    manifest.host.threads = Some(options.threads as u32);
    manifest.host.wall_seconds = Some(begun.elapsed().as_secs_f64());
    manifest.host.started_unix_seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .map(|t| t.as_secs().saturating_sub(begun.elapsed().as_secs()));
    let files = Run {
        ports: &port_rows(network, &outcome),
        network: outcome.network.as_ref(),
        gauges: &GaugeRow::all(&outcome, &names),
        pauses: &PauseRow::all(&outcome, |port| {
            let tier = TierName::of(network.link(port).tier).name().to_owned();
            (network.port_name(port), tier)
        }),
        ..Run::new(&flows, &outcome.samples, &summary, &manifest)
    };
    let write_options = WriteOptions { overwrite: true, csv: options.csv };
    punctual_results::write(&dir, &files, write_options)?;
    Ok(Some(RunReport { summary, dir, reused: false, state, wall: begun.elapsed() }))
}

/// Circles of pauses that one is told of.
const CIRCLES_TOLD: usize = 20;

/// The circles of pauses of a run: deadlocks first, then those that stand, then those that ended.
fn circles_in_words(network: &Network, outcome: &Outcome) -> Vec<String> {
    let node_of = |port: PortId| &*network.names[network.link(port).from.index()];
    let mut circles: Vec<_> = outcome.pause_cycles.iter().collect();
    circles.sort_by_key(|circle| (!circle.is_deadlock, circle.ended.is_some()));
    let told = circles.iter().take(CIRCLES_TOLD).map(|circle| circle.describe(node_of));
    let mut told: Vec<String> = told.collect();
    let rest = circles.len().saturating_sub(CIRCLES_TOLD) as u64 + outcome.pause_cycles_untold;
    if rest > 0 {
        told.push(format!("and {rest} more circles of pauses"));
    }
    told
}

/// Every port and what it did in all; none of an ideal scheduler, which has none.
fn port_rows(network: &Network, outcome: &Outcome) -> Vec<PortRow> {
    let time = outcome.totals.measured_time().as_secs_f64();
    let row = |(port, did): (usize, &punctual_sim::PortTotals)| {
        let link = network.link(PortId::from(port));
        let share = did.sent_bytes as f64 * 8.0 / (link.rate.as_bps() as f64 * time);
        PortRow {
            port: PortId::from(port),
            from: network.names[link.from.index()].clone(),
            to: network.names[link.to.index()].clone(),
            tier: TierName::of(link.tier).name().to_owned(),
            rate: link.rate,
            delay: link.delay,
            sent_bytes: did.sent_bytes,
            sent_packets: did.sent_packets,
            utilisation: share.is_finite().then_some(share),
            drops: did.drops,
            trims: did.trims,
            bounces: did.bounces,
            marks: did.marks,
            paused: did.pauses.time,
        }
    };
    outcome.ports.iter().enumerate().map(row).collect()
}

/// The share of what the links into receiving hosts could carry in the time measured that data
/// packets took which reached their receiver, headers included. Every host that receives a flow in
/// the measured window counts alike, however little is sent to it.
pub fn utilisation(network: &Network, outcome: &Outcome) -> Option<f64> {
    let mut receives = vec![false; network.hosts as usize];
    for flow in outcome.flows.iter().filter(|flow| is_open_in_window(flow, &outcome.totals)) {
        receives[flow.spec.dst.index()] = true;
    }
    let down = |host: usize| network.link(network.link(network.nics[host]).twin).rate.as_bps();
    let capacity: u64 = (0..receives.len()).filter(|h| receives[*h]).map(down).sum();
    let time = outcome.totals.measured_time().as_secs_f64();
    let bits = outcome.totals.delivered_wire_bytes as f64 * 8.0;
    let share = bits / (capacity as f64 * time);
    share.is_finite().then_some(share)
}

/// Whether a flow was open at some time of the measured window: it had started by its end and had
/// not ended at its beginning.
fn is_open_in_window(flow: &FlowRecord, totals: &Totals) -> bool {
    let Measure { from, until } = totals.measure;
    let until = until.unwrap_or(totals.ended_at).min(totals.ended_at);
    flow.spec.start < until && flow.ended.is_none_or(|ended| ended > from)
}
