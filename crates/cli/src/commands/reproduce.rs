//! `punctual reproduce`.

mod cost;

use super::bench::cpu_seconds;
use super::report::palette;
use super::{STOP, lock, stop_on_ctrl_c, style};
use crate::args::{OnArg, Reproduce};
use crate::exit::UsageError;
use crate::progress::Board;
use anyhow::Context as _;
use cost::Meter;
use punctual_lab::catalogue::{
    Catalogue, CatalogueError, ChartData, ClaimLine, ClaimVerdict, Cost, Experiment, Measured,
    Open, Places, ReproduceError, ReproduceOptions, Reproduced, ResultsKind, ResultsState, sums,
};
use punctual_lab::{ExecuteError, Options, RunState, describe, execute_surveyed, survey};
use punctual_report::{
    MatrixCell, ReproducedChart, ReproducedCurve, ReproducedFigure, Reproduction, matrix_svg,
    plain_table, reproduction_html, wrapped,
};
use punctual_results::{REPORT_FILE, save};
use punctual_sim::Simulate;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Name of the file with one line per claim.
const CLAIMS_FILE: &str = "claims.jsonl";
/// Name of the picture of all transports on each paper's workload.
const MATRIX_FILE: &str = "matrix.svg";
/// The experiments of that picture.
const MATRIX: &str = "matrix";
/// Name of the file that says what ran.
const MANIFEST_FILE: &str = "reproduced.json";
/// Name of the file with what each experiment costs.
const TIMES_FILE: &str = "times.json";

pub(crate) fn reproduce<S: Simulate>(args: &Reproduce) -> anyhow::Result<()> {
    let catalogue = Catalogue::load(&args.catalogue).map_err(usage)?;
    let places = match args.on {
        OnArg::Simulator => Places::Simulator,
        OnArg::Testbed => Places::Testbed,
        OnArg::Both => Places::Both,
    };
    let mut experiments = catalogue.select(&args.names).map_err(usage)?;
    if places == Places::Testbed {
        experiments.retain(|experiment| experiment.has_testbed_part());
        if experiments.is_empty() {
            let what = match &args.names[..] {
                [] => "the catalogue".to_owned(),
                names => names.join(", "),
            };
            return Err(UsageError(format!("{what} has no part with real packets")).into());
        }
    }
    if args.list {
        return list(args, &catalogue, &experiments);
    }
    for experiment in &experiments {
        experiment.check::<S>(args.quick, &catalogue.folder).map_err(plain)?;
    }
    let name = match (places, args.quick) {
        (Places::Testbed, _) => "reproduce-testbed",
        (_, true) => "reproduce-quick",
        (_, false) => "reproduce",
    };
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from("results").join(name));
    let _lock = lock(&out)?;
    stop_on_ctrl_c()?;
    // Thousands of runs are so short that syncing them would take most of the time.
    let execution = Options {
        out: out.clone(),
        threads: args.threads.get(),
        fresh: args.fresh,
        csv: false,
        sync: false,
    };
    let folder = catalogue.folder.clone();
    let options = ReproduceOptions {
        execution,
        quick: args.quick,
        readings: !args.no_readings,
        places,
        folder,
    };
    let (mut done, mut times) = (Vec::new(), BTreeMap::new());
    for (i, experiment) in experiments.iter().enumerate() {
        if !args.printing.quiet {
            let (id, title, of) = (&experiment.id, &experiment.title, experiments.len());
            let _ = writeln!(std::io::stderr(), "{} of {of}: {id}, {title}", i + 1);
        }
        let begun = cpu_seconds()?;
        let mut meter = Meter::default();
        let reproduced = run_one::<S>(experiment, &options, &mut meter, args.printing.quiet)?;
        if let Some(cost) = meter.cost(cpu_seconds()? - begun) {
            times.insert(experiment.id.clone(), cost);
        }
        if args.printing.json {
            let mut out = std::io::stdout().lock();
            for line in &reproduced.claims {
                writeln!(out, "{}", serde_json::to_string(line)?)?;
            }
        }
        done.push(reproduced);
    }
    save(&out, TIMES_FILE, format!("{}\n", serde_json::to_string_pretty(&times)?).as_bytes())?;
    let report = write_all::<S>(&out, &experiments, &done)?;
    if !args.printing.json {
        print(&done, &out, &report)?;
    }
    Ok(())
}

/// Runs one experiment with a progress display.
fn run_one<S: Simulate>(
    experiment: &Experiment,
    options: &ReproduceOptions,
    meter: &mut Meter,
    quiet: bool,
) -> anyhow::Result<Reproduced> {
    let mut seen: Vec<RunState> = Vec::new();
    let result = experiment.reproduce::<S>(options, &mut |study, runs, own| {
        let states = survey(study, runs, own, &STOP)?;
        seen.extend(states.iter().cloned());
        let board = Board::new(runs, quiet || states.iter().all(|s| *s == RunState::Reusable));
        let reports = execute_surveyed(study, runs, &states, own, &board, &STOP);
        board.close();
        reports.inspect(|reports| meter.add(reports))
    });
    if let Some(line) = describe(&seen).filter(|_| !quiet) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    match result {
        Err(ReproduceError::Execute(error @ ExecuteError::Interrupted { .. })) => {
            let out = options.execution.out.display();
            Err(error).with_context(|| {
                format!("finished runs are in {out}; the same command continues from there")
            })
        }
        other => other.map_err(plain),
    }
}

/// A fault of the catalogue is a fault of the command line or of a file.
fn usage(error: CatalogueError) -> anyhow::Error {
    match error {
        CatalogueError::Read { .. } => error.into(),
        other => UsageError(other.to_string()).into(),
    }
}

/// The error of a run itself, so that its exit code is that of other commands.
fn plain(error: ReproduceError) -> anyhow::Error {
    match error {
        ReproduceError::Execute(error) => error.into(),
        ReproduceError::Catalogue(error) => usage(error),
        claim @ ReproduceError::Claim { .. } => UsageError(claim.to_string()).into(),
        other => other.into(),
    }
}

/// Writes all claims, the manifest and the report.
fn write_all<S: Simulate>(
    out: &Path,
    experiments: &[&Experiment],
    done: &[Reproduced],
) -> anyhow::Result<PathBuf> {
    let mut lines = String::new();
    for line in done.iter().flat_map(|one| &one.claims) {
        lines += &serde_json::to_string(line)?;
        lines.push('\n');
    }
    save(out, CLAIMS_FILE, lines.as_bytes())?;
    // Each experiment names what made it, so that results of several runs can be put together.
    let of = |one: &Reproduced| {
        let (build, file, runs) = (&one.build, &one.file, one.runs);
        let commit = env!("PUNCTUAL_COMMIT");
        let entry = json!({ "build": build, "commit": commit, "file": file, "runs": runs });
        (one.experiment.clone(), entry)
    };
    let manifest = json!({
        "punctual": env!("CARGO_PKG_VERSION"),
        "quick": done.first().map(|one| one.quick),
        "experiments": done.iter().map(of).collect::<serde_json::Map<_, _>>(),
    });
    save(out, MANIFEST_FILE, format!("{manifest:#}\n").as_bytes())?;
    if let Some(svg) = matrix(experiments, done) {
        save(out, MATRIX_FILE, svg.as_bytes())?;
    }
    let page = page(experiments, done);
    let html = reproduction_html(&page, &palette::<S>());
    Ok(save(out, REPORT_FILE, html.as_bytes())?)
}

/// The picture of all transports on each paper's headline workload; none if they did not run.
fn matrix(experiments: &[&Experiment], done: &[Reproduced]) -> Option<String> {
    let own = || experiments.iter().zip(done).filter(|(e, _)| e.paper() == MATRIX);
    let mut transports: Vec<&str> = Vec::new();
    for line in own().flat_map(|(_, one)| &one.claims) {
        if !transports.contains(&&*line.claim) {
            transports.push(&line.claim);
        }
    }
    if transports.is_empty() {
        return None;
    }
    let value = |one: &Reproduced, transport: &str| {
        let line = one.claims.iter().find(|line| line.claim == transport)?;
        let Measured::One(value) = line.judgement.measured else { return None };
        value
    };
    // Where a unit is per cent more is better, elsewhere less is.
    let is_more_better = |one: &Reproduced| one.claims.first().is_some_and(|l| l.unit == "%");
    let mut rows = Vec::new();
    for transport in &transports {
        let cells = own().map(|(_, one)| {
            let values: Vec<f64> = transports.iter().filter_map(|t| value(one, t)).collect();
            let Some(own) = value(one, transport) else { return MatrixCell::default() };
            let score = match is_more_better(one) {
                true => own / values.iter().copied().fold(0.0, f64::max),
                false => values.iter().copied().fold(f64::INFINITY, f64::min) / own,
            };
            let digits = if own < 10.0 { 2 } else { usize::from(own < 100.0) };
            MatrixCell { text: format!("{own:.digits$}"), score: Some(score) }
        });
        rows.push(((*transport).to_owned(), cells.collect()));
    }
    let unit = |one: &Reproduced| one.claims.first().map(|l| l.unit.clone()).unwrap_or_default();
    let columns: Vec<String> = own()
        .map(|(e, one)| format!("{} ({})", e.rows.first().cloned().unwrap_or_default(), unit(one)))
        .collect();
    let subtitle = "the darker the better; %: deadlines met or utilisation, more is better; others: less is better";
    Some(matrix_svg("All transports on each paper's headline workload", subtitle, &columns, &rows))
}

fn page(experiments: &[&Experiment], done: &[Reproduced]) -> Reproduction {
    let figures = experiments.iter().zip(done).map(|(experiment, one)| {
        let open = |open: &Open| format!("{}: {} ({}).", open.what, open.reading, open.why);
        let open = experiment.open.iter().map(open);
        let header = ["Claim", "Verdict", "Paper", "Accepted", "Here", "Other readings"];
        ReproducedFigure {
            id: one.experiment.clone(),
            title: one.title.clone(),
            lead: open.collect::<Vec<_>>().join(" "),
            header: header.map(str::to_owned).to_vec(),
            rows: one.claims.iter().map(|line| cells(line, true)).collect(),
            charts: one.charts.iter().map(chart).collect(),
        }
    });
    let quick = done.first().is_some_and(|one| one.quick);
    let build = done.first().map(|one| one.build.clone()).unwrap_or_default();
    Reproduction {
        title: "The papers' experiments".into(),
        about: match quick {
            true => "quick: smaller sizes, the same shapes".into(),
            false => "full sizes".into(),
        },
        verdict: vec![all_sums(done)],
        facts: vec![
            ("Build".into(), build),
            ("Runs".into(), done.iter().map(|one| one.runs).sum::<usize>().to_string()),
        ],
        figures: figures.collect(),
    }
}

fn all_sums(done: &[Reproduced]) -> String {
    sums(done.iter().flat_map(|one| &one.claims))
}

fn chart(data: &ChartData) -> ReproducedChart {
    let curve = |curve: &punctual_lab::catalogue::CurveData| ReproducedCurve {
        transport: curve.transport.clone(),
        values: curve.values.clone(),
        half: curve.half.clone(),
        paper: curve.paper.clone(),
    };
    ReproducedChart {
        title: data.title.clone(),
        x: data.x.clone(),
        unit: data.unit.clone(),
        labels: data.labels.clone(),
        curves: data.curves.iter().map(curve).collect(),
    }
}

/// The cells of a claim: on the page with its sentence, in a terminal with its name.
fn cells(line: &ClaimLine, with_text: bool) -> Vec<String> {
    let claim = match with_text {
        true => format!("{} ({})", line.sentence(), line.claim),
        false => line.claim.clone(),
    };
    let here = match line.judgement.verdict {
        ClaimVerdict::CannotRun if with_text => line.judgement.note.clone(),
        _ => line.here_text(),
    };
    vec![
        claim,
        line.judgement.verdict_text(),
        line.paper_text().to_owned(),
        line.accepted_text(),
        here,
        line.readings_text(),
    ]
}

fn print(done: &[Reproduced], out: &Path, report: &Path) -> anyhow::Result<()> {
    let width = super::terminal_width();
    let mut stdout = std::io::stdout().lock();
    for one in done {
        writeln!(stdout, "{}: {}", one.experiment, one.title)?;
        let rows: Vec<Vec<String>> = one
            .claims
            .iter()
            .map(|line| {
                let mut cells = cells(line, false);
                cells.truncate(5);
                cells
            })
            .collect();
        let header = ["Claim", "Verdict", "Paper", "Accepted", "Here"];
        writeln!(stdout, "{}", plain_table(&header, &rows, style()))?;
        for line in &one.claims {
            for reading in &line.readings {
                let judged = &reading.judgement;
                let (claim, about) = (&line.claim, &reading.about);
                let (here, verdict) = (judged.measured_text(), judged.verdict_text());
                let text = format!(" {claim}, {about}: {here}, {verdict}");
                writeln!(stdout, "{}", wrapped(&text, width))?;
            }
        }
        for (note, claims) in notes(&one.claims) {
            let text = format!(" {} cannot run: {note}", claims.join(", "));
            writeln!(stdout, "{}", wrapped(&text, width))?;
        }
        writeln!(stdout)?;
    }
    writeln!(stdout, "{}", wrapped(&all_sums(done), width))?;
    writeln!(
        stdout,
        "~: not sure, the 95 % interval over seeds does not exclude the other verdict"
    )?;
    writeln!(stdout, "results in {}", out.display())?;
    writeln!(stdout, "report: {}", report.display())?;
    Ok(())
}

/// Why claims cannot run: each reason once, with the claims that have it.
fn notes(lines: &[ClaimLine]) -> Vec<(&str, Vec<&str>)> {
    let mut notes: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in lines.iter().filter(|l| l.judgement.verdict == ClaimVerdict::CannotRun) {
        match notes.iter_mut().find(|(note, _)| *note == line.judgement.note) {
            Some((_, claims)) => claims.push(&line.claim),
            None => notes.push((&line.judgement.note, vec![&line.claim])),
        }
    }
    notes
}

fn list(
    args: &Reproduce,
    catalogue: &Catalogue,
    experiments: &[&Experiment],
) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let span = |seconds: Option<f64>| match seconds {
        None => "–".to_owned(),
        Some(s) if s < 99.5 => format!("{s:.0} s"),
        Some(s) => format!("{:.0} min", s / 60.0),
    };
    let kinds = [ResultsKind::Quick, ResultsKind::Full];
    let mut manifests = Vec::new();
    for kind in kinds {
        manifests.push((kind, catalogue.results(kind)?));
    }
    let mut stale: Vec<String> = Vec::new();
    let mut rows = Vec::new();
    let mut sums = [Cost::default(); 2];
    for experiment in experiments {
        let times = catalogue.times.get(&experiment.id).copied().unwrap_or_default();
        let times = [times.quick, times.full];
        for (sum, cost) in sums.iter_mut().zip(times) {
            sum.cpu += cost.map_or(0.0, |cost| cost.cpu);
            sum.wall += cost.map_or(0.0, |cost| cost.wall);
        }
        let [quick, full] = times.map(|cost| cost.map(|cost| cost.wall));
        let mut states = Vec::new();
        for (kind, manifest) in &manifests {
            let state = manifest.state(experiment, &catalogue.folder)?;
            // A catalogue of one's own may have no committed results at all.
            if state != ResultsState::Current && !manifest.experiments.is_empty() {
                stale.push(format!("{} {}", kind.name(), experiment.id));
            }
            states.push(state);
        }
        let [quick_cpu, full_cpu] = times.map(|cost| cost.map(|cost| cost.cpu));
        if args.printing.json {
            let line = json!({
                "experiment": experiment.id,
                "title": experiment.title,
                "rows": experiment.rows,
                "claims": experiment.claims.len(),
                "readings": experiment.readings.len(),
                "quick_seconds": quick,
                "quick_cpu_seconds": quick_cpu,
                "full_seconds": full,
                "full_cpu_seconds": full_cpu,
                "quick_results": states.first().map(|state| state.name()),
                "full_results": states.last().map(|state| state.name()),
            });
            writeln!(out, "{line}")?;
            continue;
        }
        rows.push(vec![
            experiment.id.clone(),
            experiment.title.clone(),
            experiment.claims.len().to_string(),
            experiment.readings.len().to_string(),
            span(quick),
            span(full),
            results_text(&states),
        ]);
    }
    if !args.printing.json {
        let header = ["Experiment", "Title", "Claims", "Readings", "Quick", "Full", "Results"];
        writeln!(out, "{}", plain_table(&header, &rows, style()))?;
        writeln!(
            out,
            "on two idle processors, from measured CPU times: {} quick, {} full (CPU: {} and {})",
            span(Some(sums[0].wall)),
            span(Some(sums[1].wall)),
            span(Some(sums[0].cpu)),
            span(Some(sums[1].cpu)),
        )?;
        if !stale.is_empty() {
            let what =
                "committed results that are not of today's files; `cargo xtask results` with";
            let text = format!("{what} one of these makes them again: {}", stale.join(", "));
            writeln!(out, "{}", wrapped(&text, super::terminal_width()))?;
        }
    }
    Ok(())
}

/// The states of the quick and the full results: one word where both are the same.
fn results_text(states: &[ResultsState]) -> String {
    match states {
        [quick, full] if quick == full => quick.name().to_owned(),
        [quick, full] => format!("quick {}, full {}", quick.name(), full.name()),
        _ => String::new(),
    }
}
