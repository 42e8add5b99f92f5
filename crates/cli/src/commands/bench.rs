//! `punctual bench`.

use crate::args::Printing;
use crate::exit::UsageError;
use crate::progress::spinner;
use anyhow::{Context as _, bail};
use indicatif::ProgressBar;
use nix::sys::resource::{UsageWho, getrusage};
use punctual_lab::{BENCH_CASES, BenchCase, RunSetup, nearest, study_from_text, utilisation};
use punctual_sim::Simulate;
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};

/// The result of a benchmark. Field names are stable.
#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    scenario: String,
    simulated_seconds: f64,
    /// None at flow level.
    packet_hops: Option<u64>,
    delivered_packets: Option<u64>,
    events: u64,
    flows: u64,
    /// Of all threads.
    cpu_seconds: f64,
    wall_seconds: f64,
    /// Threads that simulated: no more than asked for.
    threads: usize,
    packet_hops_per_second: Option<f64>,
    events_per_second: f64,
    peak_rss_bytes: u64,
    utilisation: f64,
}

/// How benchmarks are measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    /// In this process, once.
    pub(crate) here: bool,
    /// Threads that each run may use.
    pub(crate) threads: usize,
}

pub(crate) fn bench<S: Simulate>(
    names: &[String],
    how: How,
    printing: &Printing,
) -> anyhow::Result<()> {
    let mut cases = Vec::new();
    for name in names {
        cases.push(BenchCase::by_name(name).ok_or_else(|| {
            let known = BENCH_CASES.iter().map(|c| c.name);
            let near = nearest(name, known.clone())
                .map(|near| format!(", did you mean `{near}`?"))
                .unwrap_or_default();
            let known: Vec<&str> = known.collect();
            UsageError(format!(
                "no benchmark is called `{name}`{near}; known: {}",
                known.join(", ")
            ))
        })?);
    }
    if cases.is_empty() {
        cases.extend(BENCH_CASES);
    }
    let mut out = std::io::stdout().lock();
    if !printing.json {
        writeln!(
            out,
            "{:<32}{:>9}{:>13}{:>13}{:>8}{:>10}{:>10}{:>13}{:>10}{:>8}",
            "scenario",
            "simulated",
            "packet hops",
            "events",
            "threads",
            "CPU",
            "wall",
            "hops/CPU s",
            "memory",
            "used"
        )?;
    }
    let spinner = spinner(printing.quiet || how.here);
    let mut all = Vec::new();
    while let Some(first) = cases.first() {
        let work = first.work();
        let (alike, others) = cases.into_iter().partition(|case| case.work() == work);
        cases = others;
        for (case, measured) in measure_in_turn::<S>(alike, how, &spinner)? {
            spinner.suspend(|| {
                if printing.json {
                    writeln!(out, "{}", serde_json::to_string(&measured)?)?;
                } else {
                    write_row(&mut out, &measured)?;
                }
                out.flush()
            })?;
            all.push((case, measured));
        }
    }
    spinner.finish_and_clear();
    if !printing.json {
        for (case, m) in all.iter().filter(|(_, m)| m.packet_hops.is_none()) {
            let micros = m.cpu_seconds * 1e6 / m.events.max(1) as f64;
            let (name, flows) = (case.name, m.flows);
            writeln!(out, "{name}: {flows} flows, {micros:.2} us of CPU time per flow event")?;
        }
        for line in relative_to_dctcp(&all) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

impl Measured {
    /// Whether this measurement of a run is less disturbed than another: by its CPU time, or by the
    /// time that passed where threads waited for each other.
    fn is_better_than(&self, other: &Measured) -> bool {
        match self.threads {
            1 => self.cpu_seconds < other.cpu_seconds,
            _ => self.wall_seconds < other.wall_seconds,
        }
    }
}

fn write_row(out: &mut impl std::io::Write, measured: &Measured) -> std::io::Result<()> {
    writeln!(
        out,
        "{:<32}{:>6.1} ms{:>13}{:>13}{:>8}{:>8.2} s{:>8.2} s{:>13}{:>7.0} MB{:>6.1} %",
        measured.scenario,
        measured.simulated_seconds * 1e3,
        measured.packet_hops.map_or("-".to_owned(), |hops| hops.to_string()),
        measured.events,
        measured.threads,
        measured.cpu_seconds,
        measured.wall_seconds,
        measured.packet_hops_per_second.map_or("-".to_owned(), |n| format!("{:.2} M", n / 1e6)),
        measured.peak_rss_bytes as f64 / 1e6,
        measured.utilisation * 100.0,
    )
}

/// How often benchmarks below [`SHORT_SECONDS`] are measured, in turn with those they compare to.
const TURNS: usize = 5;
const SHORT_SECONDS: f64 = 2.0;

/// Measures transports on the same work in turn and keeps the shortest time of each.
///
/// Other load on the machine only adds time, so the minimum is the best estimate. Taking turns
/// keeps a short disturbance from affecting one transport alone. With `here` there is one turn.
fn measure_in_turn<S: Simulate>(
    cases: Vec<&'static BenchCase>,
    how: How,
    spinner: &ProgressBar,
) -> anyhow::Result<Vec<(&'static BenchCase, Measured)>> {
    let turns = if how.here { 1 } else { TURNS };
    let measure_now = |case: &BenchCase| {
        spinner.set_message(case.name);
        if how.here { measure::<S>(case, how.threads) } else { measure_in_child(case, how.threads) }
    };
    let mut all = Vec::new();
    for case in cases {
        all.push((case, measure_now(case)?));
    }
    for _ in 1..turns {
        for (case, best) in all.iter_mut().filter(|(_, m)| m.cpu_seconds < SHORT_SECONDS) {
            let next = measure_now(case)?;
            if next.is_better_than(best) {
                *best = next;
            }
        }
    }
    Ok(all)
}

/// CPU time per packet hop relative to DCTCP, on the same traffic and network.
///
/// DCTCP's ports only queue and mark. The time of hosts is included.
fn relative_to_dctcp(all: &[(&BenchCase, Measured)]) -> Vec<String> {
    let mut lines = Vec::new();
    let cost = |m: &Measured| m.cpu_seconds / m.packet_hops.unwrap_or(0) as f64;
    for (base, ordinary) in all.iter().filter(|(case, _)| case.is_reference()) {
        let others: Vec<String> = all
            .iter()
            .filter(|(case, _)| case.work() == base.work() && case != base)
            .map(|(case, m)| format!("{} {:.2}", case.transport(), cost(m) / cost(ordinary)))
            .collect();
        if !others.is_empty() {
            lines.push(format!(
                "CPU time per hop relative to dctcp, {}: {}",
                base.work(),
                others.join(", ")
            ));
        }
    }
    lines
}

/// Measures in a child process, so that each benchmark has its own peak memory.
fn measure_in_child(case: &BenchCase, threads: usize) -> anyhow::Result<Measured> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let output = Command::new(program)
        .args(["bench", "--here", "--json", "--threads", &threads.to_string(), case.name])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start this program again")?;
    if !output.status.success() {
        bail!("{}: the measuring process ended with {}", case.name, output.status);
    }
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{}: cannot read the output of the measuring process", case.name))
}

/// In each turn, a short benchmark is repeated until it has taken this much CPU time.
const LONG_ENOUGH_SECONDS: f64 = 0.3;

fn measure<S: Simulate>(case: &BenchCase, threads: usize) -> anyhow::Result<Measured> {
    let mut best = measure_once::<S>(case, threads)?;
    let mut spent = best.cpu_seconds;
    while spent < LONG_ENOUGH_SECONDS {
        let next = measure_once::<S>(case, threads)?;
        spent += next.cpu_seconds.max(0.01); // clocks may be coarse
        if next.is_better_than(&best) {
            best = next;
        }
    }
    Ok(best)
}

/// Measures one run, including the construction of the network and of the flows.
fn measure_once<S: Simulate>(case: &BenchCase, threads: usize) -> anyhow::Result<Measured> {
    let before = cpu_seconds()?;
    let started = std::time::Instant::now();
    let study = study_from_text::<S>(case.name, &case.scenario(), Path::new("."), &[])?;
    let runs = study.runs();
    let run = &runs[0];
    let setup = study.setup(&run.scenario, &run.subject, run.seed)?;
    let mut used = 1;
    let (outcome, has_packets) = match setup {
        RunSetup::Packets(mut setup) => {
            setup.engine.threads = threads;
            used = punctual_sim::threads(&setup);
            (punctual_sim::run(*setup, &mut |_| ControlFlow::Continue(())), true)
        }
        RunSetup::Flows(setup) => (setup.run(&mut |_| true), false),
        RunSetup::Testbed(_) => bail!("{}: a testbed is no benchmark", case.name),
        RunSetup::Ideal(_) => bail!("{}: an ideal scheduler is no benchmark", case.name),
    };
    let cpu_seconds = cpu_seconds()? - before;
    let wall_seconds = started.elapsed().as_secs_f64();
    let usage = getrusage(UsageWho::RUSAGE_SELF).context("cannot read resource usage")?;
    let totals = &outcome.totals;
    Ok(Measured {
        scenario: case.name.to_owned(),
        simulated_seconds: totals.ended_at.as_secs_f64(),
        packet_hops: has_packets.then_some(totals.packet_hops),
        delivered_packets: has_packets.then_some(totals.delivered_packets),
        events: totals.events,
        flows: outcome.flows.len() as u64,
        cpu_seconds,
        wall_seconds,
        threads: used,
        packet_hops_per_second: has_packets
            .then(|| totals.packet_hops as f64 / cpu_seconds.max(1e-9)),
        events_per_second: totals.events as f64 / cpu_seconds.max(1e-9),
        // Linux counts kilobytes.
        peak_rss_bytes: usage.max_rss().unsigned_abs() * 1024,
        utilisation: utilisation(&run.scenario.network, &outcome).unwrap_or(0.0),
    })
}

/// CPU time of this process so far.
pub(super) fn cpu_seconds() -> anyhow::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).context("cannot read resource usage")?;
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 * 1e-6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}
