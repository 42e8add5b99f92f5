//! Executes a plan: several runs in parallel, each written when it is finished.

use crate::diagnostic::ScenarioError;
use crate::fingerprint::{build_of, commit, fingerprint};
use crate::ideal_run::IdealRun;
use crate::idle_network;
use crate::plan::{PlannedRun, Study};
use crate::scenario::{RunOn, RunSetup, TierName};
use crate::survey::{RunState, check_directory, run_state};
use punctual_core::{HostId, Instant, PortId};
use punctual_net::Network;
use punctual_results::{
    FlowRow, GaugeRow, Host, Manifest, PauseRow, PortRow, Run, RunFacts, RunKind, Summary,
    TestbedFacts, WriteError, WriteOptions, read_host, read_summary,
};
use punctual_sim::{FlowRecord, Measure, Outcome, Progress, Simulate, Totals};
use punctual_testbed::{Lateness, TestbedReport, TestbedRunError};
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
    /// Threads: as many runs at a time, or several threads for each run if there are fewer.
    pub threads: usize,
    /// Repeat runs that are there already.
    pub fresh: bool,
    /// Also write `flows.csv`.
    pub csv: bool,
    /// Wait until each run is on disk. Without, a power failure may damage runs that were reported
    /// as finished; [`survey`] finds them by their hashes, and they run again.
    pub sync: bool,
}

/// Receives the progress of an execution, from several threads.
pub trait Watch<S: Simulate = AnyTransport>: Sync {
    /// A run begins.
    fn started(&self, _run: &PlannedRun<S>) {}
    /// A run has reached a simulated time.
    fn progress(&self, _run: &PlannedRun<S>, _progress: Progress) {}
    /// A run is written, or was reused.
    fn finished(&self, _run: &PlannedRun<S>, _report: &RunReport) {}
}

/// Ignores progress.
impl<S: Simulate> Watch<S> for () {}

/// The result of one run.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// Its metrics.
    pub summary: Summary,
    /// Where its files are.
    pub dir: PathBuf,
    /// Whether it was there already, from an earlier execution with these settings.
    pub reused: bool,
    /// What its directory held before.
    pub state: RunState,
    /// How long it took in real time.
    pub wall: WallTime,
    /// CPU time of the thread that ran it, where the system reports it; for a reused run what its
    /// host.json has.
    pub cpu_seconds: Option<f64>,
}

/// Why an execution ended early. Runs that finished before are complete.
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
    /// A run on a testbed failed.
    #[error(transparent)]
    Testbed(#[from] punctual_testbed::TestbedRunError),
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
    /// The user asked to stop.
    #[error("interrupted after {done} of {total} runs")]
    Interrupted {
        /// Runs that are complete.
        done: usize,
        /// Number of runs in the plan.
        total: usize,
    },
}

/// Finds out which runs the directory of results holds already, in the plan's order.
///
/// Writes nothing. Fails if a directory holds results of other settings, unless `fresh` replaces
/// them.
pub fn survey<S: Simulate>(
    study: &Study<S>,
    runs: &[PlannedRun<S>],
    options: &Options,
    stop: &AtomicBool,
) -> Result<Vec<RunState>, ExecuteError> {
    let state = |i: usize, _: &dyn Fn() -> bool| run_state(study, &runs[i], options).map(Some);
    let states = in_parallel(runs.len(), options.threads, stop, state)?;
    if !options.fresh && states.iter().any(|state| *state != RunState::Reusable) {
        check_directory(study, runs, &options.out)?;
    }
    Ok(states)
}

/// Executes a plan and returns the result of each run, in the plan's order.
///
/// The order does not depend on the number of threads. Setting `stop` ends the execution early.
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

/// Executes a plan like [`execute`], with the states that [`survey`] returned.
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
    // Runs on a testbed would disturb each other.
    let is_real = runs.iter().any(|run| run.scenario.run.on == RunOn::Testbed);
    let threads = if is_real { 1 } else { options.threads };
    // Whole runs at a time use threads best. If there are fewer than threads, each gets several.
    let waiting = states.iter().filter(|state| **state != RunState::Reusable).count();
    let threads_each = (threads / waiting.max(1)).max(1);
    in_parallel(runs.len(), threads, stop, |i, halt| {
        let run = &runs[i];
        watch.started(run);
        let report = execute_one(study, run, &states[i], options, threads_each, watch, halt)?;
        report.iter().for_each(|report| watch.finished(run, report));
        Ok(report)
    })
}

/// Calls `work` for 0 to `count` on several threads and returns the results in order.
///
/// `work` returns `None` when it was stopped. Of several failures, the first in order is returned.
pub(crate) fn in_parallel<T: Send>(
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

/// CPU time of this thread so far, which Linux reports.
fn thread_cpu_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanos / 1e9)
}

/// Executes one run, or reads it if it is reusable; `None` when it was stopped.
fn execute_one<S: Simulate>(
    study: &Study<S>,
    run: &PlannedRun<S>,
    state: &RunState,
    options: &Options,
    threads: usize,
    watch: &dyn Watch<S>,
    halt: &dyn Fn() -> bool,
) -> Result<Option<RunReport>, ExecuteError> {
    let begun = WallInstant::now();
    let cpu_begun = thread_cpu_seconds();
    let dir = options.out.join(&run.dir);
    let state = state.clone();
    if state == RunState::Reusable {
        let (summary, wall) = (read_summary(&dir)?, begun.elapsed());
        let cpu_seconds = read_host(&dir).ok().and_then(|host| host.cpu_seconds);
        return Ok(Some(RunReport { summary, dir, reused: true, state, wall, cpu_seconds }));
    }
    let setup = study.setup(&run.scenario, &run.subject, run.seed)?;
    let print = fingerprint(&setup, run);
    let build = build_of(&setup);
    let mut testbed = None;
    let network = &*run.scenario.network_with_clocks(run.seed);
    let mut ideal_setup = None;
    let queue = match &setup {
        RunSetup::Packets(setup) => crate::queue_words(setup),
        RunSetup::Testbed(run) => crate::queue_words(&run.simulated),
        RunSetup::Flows(_) | RunSetup::Ideal(_) => String::new(),
    };
    let mut has_own_thread = true;
    let (outcome, kind) = match setup {
        RunSetup::Packets(mut setup) => {
            setup.engine.threads = threads;
            has_own_thread = punctual_sim::threads(&setup) == 1;
            let outcome = punctual_sim::run(*setup, &mut |progress| {
                watch.progress(run, progress);
                if halt() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            (outcome, RunKind::Packets)
        }
        RunSetup::Testbed(here) => {
            let result = punctual_testbed::run(&here.setup, &mut |progress| {
                watch.progress(run, progress);
                if halt() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            let (outcome, report) = match result {
                Err(TestbedRunError::Interrupted) => return Ok(None),
                result => result?,
            };
            testbed = Some(report);
            (outcome, RunKind::Testbed)
        }
        RunSetup::Flows(setup) => {
            let stop_at = Instant::ZERO + run.scenario.run.duration;
            let outcome = setup.run(&mut |now| {
                let progress = Progress { now, stop_at, events: 0, flows_ended: 0 };
                watch.progress(run, progress);
                !halt()
            });
            (outcome, RunKind::Flows)
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
    let names = run.scenario.carriers_of(&run.subject);
    let mut flows = FlowRow::all(&outcome, &names, |record| {
        let spec = &record.spec;
        if let Some(setup) = &ideal_setup {
            return setup.time_alone(spec);
        }
        let ends = spec.size != punctual_core::Bytes::ENDLESS;
        ends.then(|| idle_network::completion_time(network, spec.src, spec.dst, spec.size))
    });
    let traffic = run.scenario.traffic_names();
    FlowRow::name_traffic(&mut flows, &traffic);
    let utilisation = utilisation(network, &outcome);
    let pause_cycles = describe_pause_cycles(network, &outcome);
    let facts = RunFacts {
        transport: &run.subject.label,
        kind,
        seed: run.seed,
        utilisation: utilisation.filter(|_| kind != RunKind::Bound),
        pause_cycles: &pause_cycles,
        timing_problems: testbed.as_ref().map_or(&[], |report| &report.problems),
        traffic: &traffic,
    };
    let summary = punctual_results::summarise(&outcome, &flows, &facts);
    let mut manifest = Manifest::new(study.text(), &run.subject.label, run.seed);
    manifest.build = build;
    manifest.setup = print;
    manifest.queue = queue;
    manifest.testbed = testbed.as_ref().map(testbed_facts);
    manifest.name = study.name().to_owned();
    manifest.traffic = traffic.clone();
    manifest.overrides = study.overrides().to_vec();
    manifest.point = run.values.clone();
    manifest.transports = run.transports.clone();
    manifest.directory = run.dir.display().to_string();
    let mut host = Host::here();
    host.commit = commit();
    host.threads = Some(options.threads as u32);
    host.wall_seconds = Some(begun.elapsed().as_secs_f64());
    let cpu = || {
        let seconds = thread_cpu_seconds().zip(cpu_begun).map(|(now, then)| now - then);
        seconds.filter(|_| has_own_thread)
    };
    host.cpu_seconds = cpu();
    host.started_unix_seconds = SystemTime::now()
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
        host: Some(&host),
        ..Run::new(&flows, &outcome.samples, &summary, &manifest)
    };
    let write_options = WriteOptions { overwrite: true, csv: options.csv };
    match options.sync {
        true => punctual_results::write(&dir, &files, write_options)?,
        false => punctual_results::write_unsynced(&dir, &files, write_options)?,
    }
    let (wall, cpu_seconds) = (begun.elapsed(), cpu());
    Ok(Some(RunReport { summary, dir, reused: false, state, wall, cpu_seconds }))
}

/// A run on a testbed as a manifest has it.
fn testbed_facts(report: &TestbedReport) -> TestbedFacts {
    let three = |lateness: Lateness| [lateness.p50_us, lateness.p99_us, lateness.worst_us];
    TestbedFacts {
        valid: report.is_valid(),
        problems: report.problems.clone(),
        time_scale: report.time_scale,
        switch_lateness_us: three(report.switch_lateness),
        host_lateness_us: three(report.host_lateness),
        stalled_percent: report.stalled_percent,
        pull_spacing_us: report.pull_spacing_us,
        frames: report.frames,
        dropped: report.dropped.iter().cloned().collect(),
        processors: report.processors.clone(),
        kernel: report.kernel.clone(),
    }
}

/// Limit on the pause cycles that a summary describes.
const PAUSE_CYCLES_MAX: usize = 20;

/// The PFC pause cycles of a run in words: deadlocks first, then open cycles, then ended ones.
fn describe_pause_cycles(network: &Network, outcome: &Outcome) -> Vec<String> {
    let node_of = |port: PortId| &*network.names[network.link(port).from.index()];
    let mut cycles: Vec<_> = outcome.pause_cycles.iter().collect();
    cycles.sort_by_key(|cycle| (!cycle.is_deadlock, cycle.ended.is_some()));
    let described = cycles.iter().take(PAUSE_CYCLES_MAX).map(|cycle| cycle.describe(node_of));
    let mut lines: Vec<String> = described.collect();
    let rest = cycles.len().saturating_sub(PAUSE_CYCLES_MAX) as u64 + outcome.unlisted_pause_cycles;
    if rest > 0 {
        lines.push(format!("and {rest} more pause cycles"));
    }
    lines
}

/// The totals of every port; empty for an ideal scheduler, which has no ports.
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

/// The utilisation of the links into receiving hosts, in the measured window.
///
/// utilisation = bits of delivered data packets, headers included / (sum of the links' rates ×
/// time). A host counts if some flow to it is open in the window, however small the flow is.
pub fn utilisation(network: &Network, outcome: &Outcome) -> Option<f64> {
    let mut receives = vec![false; network.hosts as usize];
    for flow in outcome.flows.iter().filter(|flow| is_open_in_window(flow, &outcome.totals)) {
        receives[flow.spec.dst.index()] = true;
    }
    let down = |host: usize| {
        let nics = network.nics(HostId::from(host)).iter();
        nics.map(|nic| network.link(network.link(*nic).twin).rate.as_bps()).sum::<u64>()
    };
    let capacity: u64 = (0..receives.len()).filter(|h| receives[*h]).map(down).sum();
    let time = outcome.totals.measured_time().as_secs_f64();
    let bits = outcome.totals.delivered_wire_bytes as f64 * 8.0;
    let share = bits / (capacity as f64 * time);
    share.is_finite().then_some(share)
}

/// Whether a flow was open in the measured window: it started before the window's end and did not
/// end before its beginning.
fn is_open_in_window(flow: &FlowRecord, totals: &Totals) -> bool {
    let Measure { from, until } = totals.measure;
    let until = until.unwrap_or(totals.ended_at).min(totals.ended_at);
    flow.spec.start < until && flow.ended.is_none_or(|ended| ended > from)
}
