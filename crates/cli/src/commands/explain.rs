//! `punctual explain`.

use super::replay::planned;
use super::{STOP, stop_on_ctrl_c, style, terminal_width};
use crate::args::{Explain, Threads};
use crate::exit::{ReplayDiffers, UsageError};
use punctual_core::FlowId;
use punctual_lab::{ExplainError, MISSED_MAX, Pick, pick};
use punctual_report::{Results, explained_flow, explained_flows, explained_totals, time_line};
use punctual_results::{
    Explained, ExplainedFlow, MANIFEST_FILE, REPORT_FILE, RunKind, is_report, read, read_manifest,
    read_summary,
};
use punctual_sim::Simulate;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Flows shown in full.
const IN_FULL: usize = 3;
/// Flows sampled of each run, where nothing else is asked for.
const SAMPLED: usize = 100;
/// Runs named in a message.
const NAMED: usize = 3;

pub(crate) fn explain<S: Simulate>(args: &Explain) -> anyhow::Result<()> {
    let _lock = super::lock_around(&args.run)?;
    let which = asked(args);
    let points = runs(args, which)?;
    let count: usize = points.iter().map(|point| point.dirs.len()).sum();
    stop_on_ctrl_c()?;
    let mut by_point: Vec<(&str, Vec<Explained>)> = Vec::new();
    for point in &points {
        let mut explained = Vec::new();
        for dir in &point.dirs {
            let show = |line: &str| {
                if !args.printing.quiet {
                    let _ = writeln!(std::io::stderr(), "{line}");
                }
            };
            explained.extend(one::<S>(dir, which, (&args.folder, &STOP), &show, count > 1)?);
        }
        by_point.push((&point.label, explained));
    }
    let run = points.iter().flat_map(|point| &point.dirs).next();
    let page = run
        .map(|run| super::report::write::<S>(&reported(run, &args.run), Threads::default().get()));
    let page = page.transpose()?;
    let mut out = std::io::stdout().lock();
    if args.printing.json {
        for flow in by_point.iter().flat_map(|(_, runs)| runs).flat_map(|run| &run.flows) {
            writeln!(out, "{}", serde_json::to_string(flow)?)?;
        }
        return Ok(());
    }
    for (label, runs) in by_point.iter().filter(|(_, runs)| !runs.is_empty()) {
        if !label.is_empty() {
            writeln!(out, "{label}")?;
        }
        match which {
            Pick::Sample(_) => writeln!(out, "{}", explained_totals(runs, style()))?,
            _ => runs.iter().try_for_each(|run| show(run, &mut out))?,
        }
    }
    match &points[..] {
        [point] if count == 1 => {
            let path = point.dirs[0].join(punctual_results::EXPLAIN_FILE);
            writeln!(out, "stored: {}", path.display())?;
        }
        _ => writeln!(out, "stored: explain.json in the directory of each run")?,
    }
    if let Some(page) = page {
        writeln!(out, "report: {}", page.display())?;
    }
    Ok(())
}

/// Levels of directories between a run and the report of its study: a point, a transport, a run.
const LEVELS: usize = 4;

/// The directory whose report shows a run: the nearest one around it that has one, or else the one
/// that was named.
fn reported(run: &Path, named: &Path) -> PathBuf {
    let around = run.ancestors().take(LEVELS).find(|dir| is_report(&dir.join(REPORT_FILE)));
    let named = if named.is_dir() { named } else { run };
    around.unwrap_or(named).to_owned()
}

/// Runs at one point of a sweep.
struct PointDirs {
    label: String,
    dirs: Vec<PathBuf>,
}

/// Which flows the command line asks for.
fn asked(args: &Explain) -> Pick {
    let (worst, sample) = (args.worst.map(|n| n as usize), args.sample.map(|n| n as usize));
    which(args.flow, worst, args.missed, sample)
}

/// Which flows to explain: one, the worst, the late ones, or a sample.
pub(crate) fn which(
    flow: Option<u32>,
    worst: Option<usize>,
    missed: bool,
    sample: Option<usize>,
) -> Pick {
    match (flow, worst) {
        (Some(flow), _) => Pick::Flow(FlowId(flow)),
        (None, Some(worst)) => Pick::Worst(worst),
        (None, None) if missed => Pick::Missed,
        (None, None) => Pick::Sample(sample.unwrap_or(SAMPLED)),
    }
}

/// The runs to explain: that of the directory, or those below it that the command line asks for.
fn runs(args: &Explain, which: Pick) -> anyhow::Result<Vec<PointDirs>> {
    let dir = match args.run.file_name() {
        Some(name) if name == MANIFEST_FILE => match args.run.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        },
        _ => args.run.clone(),
    };
    if dir.join(MANIFEST_FILE).exists() {
        let transport = read_manifest(&dir)?.transport;
        if args.transport.as_ref().is_some_and(|wanted| *wanted != transport) {
            let message = format!("{} is a run of {transport}", dir.display());
            return Err(UsageError(message).into());
        }
        return Ok(vec![PointDirs { label: String::new(), dirs: vec![dir] }]);
    }
    let threads = Threads::default().get();
    let mut known: Vec<String> = Vec::new();
    let mut points = Vec::new();
    for point in Results::of(&dir, threads)?.points {
        let mut dirs = Vec::new();
        for dir in point.rows.into_iter().flat_map(|row| row.dirs) {
            let transport = read_manifest(&dir)?.transport;
            if args.transport.as_ref().is_none_or(|wanted| *wanted == transport) {
                dirs.push(dir);
            }
            if !known.contains(&transport) {
                known.push(transport);
            }
        }
        points.push(PointDirs { label: point.label, dirs });
    }
    let found: Vec<&PathBuf> = points.iter().flat_map(|point| &point.dirs).collect();
    if found.is_empty() {
        let wanted = args.transport.as_deref().unwrap_or("anything");
        let (dir, known) = (dir.display(), known.join(", "));
        let message = format!("{dir} has no run of {wanted}; it has runs of {known}");
        return Err(UsageError(message).into());
    }
    if found.len() > 1 && !matches!(which, Pick::Sample(_)) {
        let named: Vec<String> =
            found.iter().take(NAMED).map(|dir| dir.display().to_string()).collect();
        let more = if found.len() > NAMED { ", …" } else { "" };
        let message = format!(
            "{} has {} runs; name the one to explain flows of: {}{more}",
            dir.display(),
            found.len(),
            named.join(", ")
        );
        return Err(UsageError(message).into());
    }
    Ok(points)
}

/// Runs one run again and stores where its flows' time went. None for what has no packets, where
/// several runs are explained.
pub(crate) fn one<S: Simulate>(
    dir: &Path,
    which: Pick,
    (folder, stop): (&Path, &AtomicBool),
    show: &dyn Fn(&str),
    is_one_of_many: bool,
) -> anyhow::Result<Option<Explained>> {
    let files = read(dir)?;
    let manifest = &files.manifest;
    if is_one_of_many && read_summary(dir)?.kind != RunKind::Packets {
        return Ok(None);
    }
    if manifest.interrupted {
        anyhow::bail!(
            "{} was interrupted, so that it cannot be run again as it was",
            dir.display()
        );
    }
    let chosen = pick(&files.flows, which);
    if chosen.flows.is_empty() {
        return Err(UsageError(nothing(dir, which, files.flows.len())).into());
    }
    let (study, run) = planned::<S>(manifest, folder)?;
    show(&format!("running {} again, to follow {}", run.title(), chosen.how));
    let flows = punctual_lab::explain(
        &study,
        &run,
        (&files.flows, &manifest.punctual),
        &chosen.flows,
        &mut |_| match stop.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        },
    );
    let at = |error: &dyn std::fmt::Display| format!("{}: {error}", dir.display());
    let mut flows = flows.map_err(|error| match error {
        ExplainError::Run(error) => anyhow::Error::from(error),
        ExplainError::Differs { .. } => ReplayDiffers(at(&error)).into(),
        _ => UsageError(at(&error)).into(),
    })?;
    let place = |flow: &ExplainedFlow| chosen.flows.iter().position(|f| f.0 == flow.flow);
    flows.sort_by_key(place);
    let mut explained = Explained::new(&manifest.transport, manifest.seed, &chosen.how);
    explained.flows = flows;
    explained.write(dir)?;
    Ok(Some(explained))
}

/// Why there is no flow to explain.
fn nothing(dir: &Path, which: Pick, flows: usize) -> String {
    let dir = dir.display();
    match which {
        Pick::Flow(flow) => match flows {
            0 => format!("{dir} has no flows"),
            _ => format!("{dir} has no flow {}; its flows are 0 to {}", flow.0, flows - 1),
        },
        Pick::Missed => format!("{dir}: no flow missed its deadline"),
        Pick::Worst(_) => format!("{dir} has no flows that have an end and are not background"),
        Pick::Sample(_) => format!("{dir} has no completed flows that are not background"),
    }
}

/// Prints what was found of a run.
fn show(run: &Explained, out: &mut impl std::io::Write) -> anyhow::Result<()> {
    let flows: Vec<&ExplainedFlow> = run.flows.iter().collect();
    if flows.len() > 1 {
        writeln!(out, "{}, seed {}: {}", run.transport, run.seed, run.chosen)?;
        writeln!(out, "{}", explained_flows(&flows, style(), super::terminal_width()))?;
    }
    for flow in flows.iter().take(IN_FULL) {
        writeln!(out, "{}", explained_flow(flow, style(), super::terminal_width()))?;
        writeln!(out, "{}", time_line(flow, terminal_width()))?;
    }
    if flows.len() > IN_FULL {
        writeln!(out, "the others in full: `punctual explain` with the number of a flow")?;
    }
    Ok(())
}

/// The limit on missed flows, for the help.
const _: () = assert!(MISSED_MAX == 100, "args.rs says so");
