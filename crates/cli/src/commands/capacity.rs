//! `punctual capacity`.

use super::run::point;
use super::{execute_runs, lock, look_at, options, report, say_reused, style};
use crate::args::{Execution, LevelArg, OnArg, Question as QuestionArgs, Study as StudyArgs};
use crate::exit::{BeyondBounds, UsageError};
use punctual_lab::{
    Answer, CapacitySearch, Condition, Estimate, Labels, Outcome, Probe, Question, Reason, Study,
    Verdict, load_study,
};
use punctual_report::{plain_table, wrapped};
use punctual_results::{Capacities, CapacityAnswer};
use punctual_sim::Simulate;
use serde::Serialize;
use std::io::Write;

/// One line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    scenario: &'a str,
    /// The values of the rest of the sweep.
    point: serde_json::Map<String, serde_json::Value>,
    vary: &'a str,
    until: String,
    #[serde(flatten)]
    answer: &'a Answer,
}

pub(crate) fn capacity<S: Simulate>(
    args: &StudyArgs,
    question: &QuestionArgs,
) -> anyhow::Result<()> {
    if args.execution.level == Some(LevelArg::Both) {
        for level in [LevelArg::Packet, LevelArg::Flow] {
            super::pairs::heading(level.name(), &args.execution.printing)?;
            let execution = args.execution.at(level);
            capacity::<S>(&StudyArgs { file: args.file.clone(), execution }, question)?;
        }
        return Ok(());
    }
    match args.execution.on {
        Some(OnArg::Both) => {
            let message = "--on both: `capacity` searches in one place; give simulator or testbed";
            return Err(UsageError(message.to_owned()).into());
        }
        #[cfg(target_os = "linux")]
        Some(OnArg::Testbed) => super::session::run_in_own_session()?,
        _ => {}
    }
    let study = load_study::<S>(&args.file, &args.execution.overrides())?;
    search(&study, &question.into(), &args.execution)
}

impl From<&QuestionArgs> for Question {
    fn from(args: &QuestionArgs) -> Question {
        Question {
            vary: args.vary.clone(),
            until: args.until.clone(),
            from: args.from.clone(),
            to: args.to.clone(),
            step: args.step.clone(),
            smallest: args.smallest,
            repetitions_max: args.max_repetitions,
        }
    }
}

/// Makes a capacity search and prints its answers.
pub(super) fn search<S: Simulate>(
    study: &Study<S>,
    question: &Question,
    execution: &Execution,
) -> anyhow::Result<()> {
    let options = options(study, execution);
    let printing = &execution.printing;
    let mut search = CapacitySearch::new(study, question)?;
    let _lock = lock(&options.out)?;
    let mut seen = Vec::new();
    loop {
        let runs = search.next_runs()?;
        if runs.is_empty() {
            break;
        }
        let states = look_at(search.study(), &runs, &options)?;
        if seen.is_empty() {
            // Until all answers are there, the file says that they are not.
            report::begin(&options.out)?;
            let begun = capacities(&search, &[], question.smallest)?;
            if let Some(name) = begun.keep_other(&options.out)?
                && !printing.quiet
            {
                let _ = writeln!(
                    std::io::stderr(),
                    "the answers to the question before are kept as {name}"
                );
            }
            begun.write(&options.out)?;
        }
        let reports = execute_runs(search.study(), &runs, &states, &options, printing.quiet)?;
        super::timing::check_reports(&reports)?;
        seen.extend(states);
        for probe in search.learn(&reports)? {
            if !printing.quiet {
                let line = progress(&probe, search.key(), search.condition());
                let _ = writeln!(std::io::stderr(), "{line}");
            }
        }
    }
    say_reused(&seen, printing.quiet);
    let answers = search.answers();
    let mut found = capacities(&search, &answers, question.smallest)?;
    found.complete = true;
    found.write(&options.out)?;
    let report = report::write::<S>(&options.out, options.threads)?;
    let mut out = std::io::stdout().lock();
    if printing.json {
        for answer in &answers {
            let line = Line {
                scenario: search.study().name(),
                point: point(&answer.labels),
                vary: search.key(),
                until: search.condition().to_string(),
                answer,
            };
            writeln!(out, "{}", serde_json::to_string(&line)?)?;
        }
    } else {
        print_table(&mut out, &search, &answers, question.smallest)?;
        writeln!(out, "results in {}", options.out.display())?;
        writeln!(out, "report: {}", report.display())?;
    }
    match beyond(&search, &answers, question.smallest) {
        Some(message) => Err(BeyondBounds(message).into()),
        None => Ok(()),
    }
}

/// The question and its answers as they are written beside the runs.
pub(crate) fn capacities<S: Simulate>(
    search: &CapacitySearch<S>,
    answers: &[Answer],
    smallest: bool,
) -> anyhow::Result<Capacities> {
    let (study, condition) = (search.study(), search.condition());
    let (from, to) = search.bounds();
    // The file and `--json` say the same in the same words.
    let written = |answer: &Answer| {
        let fields: CapacityAnswer = serde_json::from_value(serde_json::to_value(answer)?)?;
        Ok(CapacityAnswer { point: answer.labels.iter().cloned().collect(), ..fields })
    };
    Ok(Capacities {
        name: study.name().to_owned(),
        description: study.points()[0].scenario.description.clone(),
        scenario: study.text().to_owned(),
        overrides: study.overrides().to_vec(),
        vary: search.key().to_owned(),
        until: condition.to_string(),
        column: condition.column().to_owned(),
        threshold: condition.threshold(),
        smallest,
        from,
        to,
        step: search.step(),
        answers: answers.iter().map(written).collect::<anyhow::Result<_>>()?,
        ..Capacities::new()
    })
}

/// `d3, traffic.workers = 40: deadlines_met 93.1 ± 1.2 %, fails (100 runs)`.
fn progress(probe: &Probe, key: &str, condition: &Condition) -> String {
    let Estimate { repetitions, verdict, .. } = probe.estimate;
    let verdict = match verdict {
        Verdict::Holds => "holds",
        Verdict::LeansToHold => "holds, not surely",
        Verdict::LeansToFail => "fails, not surely",
        Verdict::Fails => "fails",
    };
    let title = title(&probe.transport, &probe.labels);
    let (column, value) = (condition.column(), number(condition, &probe.estimate));
    let reasons = reason(&probe.estimate).into_iter().chain(probe.reasons.iter().cloned());
    let reasons: String = reasons.map(|reason| format!("; {reason}")).collect();
    let most = if probe.estimate.capped { ", the maximum" } else { "" };
    format!(
        "{title}, {key} = {}: {column} {value}, {verdict} ({repetitions} runs{most}){reasons}",
        probe.value
    )
}

/// Why runs leave the condition open.
fn reason(estimate: &Estimate) -> Option<String> {
    let Estimate { unfinished, flows, .. } = estimate;
    let of = format!("{unfinished:.1} of {flows:.1} flows unfinished when the run ended");
    Some(match estimate.reason? {
        Reason::Unfinished => of,
        Reason::DeadlinesNotDue => format!("{of}, before deadlines that could decide it were due"),
        Reason::FewFlows => {
            format!(
                "p99 of {flows:.1} flows a run is their maximum; it takes 100 to tell them apart"
            )
        }
    })
}

fn title(transport: &str, labels: &Labels) -> String {
    let labels = labels.iter().map(|(key, value)| format!(", {key} = {value}"));
    format!("{transport}{}", labels.collect::<String>())
}

/// A mean and its interval, or a lower bound of the mean.
fn number(condition: &Condition, estimate: &Estimate) -> String {
    let shown = estimate.mean.or(estimate.at_least);
    let (factor, decimals, percent) = match condition.is_share() {
        true => (100.0, 1, " %"),
        false if shown.is_some_and(|shown| shown.abs() < 100.0) => (1.0, 2, ""),
        false => (1.0, 1, ""),
    };
    let text = |value: f64| format!("{:.decimals$}", value * factor);
    let Some(mean) = estimate.mean else {
        return match (estimate.at_least, estimate.reason) {
            (Some(bound), _) => format!("> {}{percent}", text(bound)),
            (None, Some(_)) => "not known".into(),
            (None, None) => "of no completed flow".into(),
        };
    };
    match estimate.low.zip(estimate.high) {
        // Of a share the two sides differ.
        Some((low, high)) if condition.is_share() => {
            format!("{} % ({} to {})", text(mean), text(low), text(high))
        }
        Some((low, _)) => format!("{} ± {}", text(mean), text(mean - low)),
        None => text(mean) + percent,
    }
}

fn print_table<S: Simulate>(
    out: &mut impl Write,
    search: &CapacitySearch<S>,
    answers: &[Answer],
    smallest: bool,
) -> anyhow::Result<()> {
    let (key, condition) = (search.key(), search.condition());
    let which = if smallest { "smallest" } else { "largest" };
    let name = search.study().title();
    let (first, most) = search.repetitions();
    let width = super::terminal_width();
    let step = search.step();
    let title_line = format!(
        "{name}: the {which} {key} with {condition} (steps of {step}, {first} to {most} repetitions)"
    );
    writeln!(out, "{}", wrapped(&title_line, width))?;
    let (least, greatest) = search.bounds();
    // A column of zeros says nothing.
    let has_unfinished =
        answers.iter().any(|answer| answer.estimate.is_some_and(|e| e.unfinished > 0.0));
    let rows: Vec<Vec<String>> = answers
        .iter()
        .map(|answer| {
            let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".into());
            let capacity = match answer.outcome {
                Outcome::Found => or_none(&answer.capacity),
                Outcome::Never => "never".into(),
                Outcome::Always if smallest => format!("≤ {least}"),
                Outcome::Always => format!("≥ {greatest}"),
            };
            let mut row = vec![
                title(&answer.transport, &answer.labels),
                capacity,
                or_none(&answer.holds_to),
                or_none(&answer.fails_from),
                answer.estimate.map_or_else(|| "–".into(), |e| number(condition, &e)),
                answer.runs.to_string(),
            ];
            if has_unfinished {
                row.push(answer.estimate.map_or_else(|| "–".into(), |e| unfinished(&e)));
            }
            row
        })
        .collect();
    let column = format!("{}\nthere", condition.column());
    let mut header =
        vec!["Transport", "Capacity", "Surely\nholds to", "Surely\nfails from", &column, "Runs"];
    if has_unfinished {
        header.push("Flows\nunfinished");
    }
    writeln!(out, "{}", plain_table(&header, &rows, style()))?;
    for answer in answers {
        if let Some(reason) = left_open(answer, key) {
            let line = title(&answer.transport, &answer.labels) + &reason;
            writeln!(out, "{}", wrapped(&line, width))?;
        }
    }
    for line in capped(answers, most).into_iter().chain(loads(answers, key)) {
        writeln!(out, "{}", wrapped(&line, width))?;
    }
    Ok(())
}

/// The offered load at each capacity, or at the value nearest to holding, and what makes it easy to
/// misread. Transports of one capacity share it.
fn loads(answers: &[Answer], key: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for answer in answers {
        let Some(value) = answer.estimate_at.as_ref() else { continue };
        let Some(probe) = answer.probes.iter().find(|probe| probe.value == *value) else {
            continue;
        };
        let labels = answer.labels.iter().map(|(key, value)| format!(", {key} = {value}"));
        let place = format!("at {key} = {}{}", probe.value, labels.collect::<String>());
        let load = format!("offered load {place}: {}", probe.offered_load);
        let reasons = probe.reasons.iter().map(|r| format!("not surely, {place}: {r}"));
        let warnings = probe.warnings.iter().map(|w| format!("warning, {place}: {w}"));
        for line in std::iter::once(load).chain(reasons).chain(warnings) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines
}

/// Unfinished flows a run, of all that are measured.
fn unfinished(estimate: &Estimate) -> String {
    match estimate.unfinished {
        0.0 => "0".into(),
        some => format!("{some:.1} of {:.1}", estimate.flows),
    }
}

/// What to say of a transport whose runs left the condition open somewhere.
fn left_open(answer: &Answer, key: &str) -> Option<String> {
    let open: Vec<&Probe> = answer.probes.iter().filter(|p| p.estimate.reason.is_some()).collect();
    // The capacity, or where that is not open the first value that was.
    let there = |probe: &&&Probe| Some(&probe.value) == answer.capacity.as_ref();
    let probe = open.iter().find(there).or(open.first())?;
    let (of, all, reason) = (open.len(), answer.probes.len(), reason(&probe.estimate)?);
    let advice = match probe.estimate.reason? {
        Reason::FewFlows => "Measure more flows a run.",
        _ => "A longer run.duration, or run.measure.until, lets flows end.",
    };
    let value = &probe.value;
    Some(format!(": not sure at {of} of {all} values; at {key} = {value} {reason}. {advice}"))
}

/// Values of each transport at which repetitions reached their maximum before the interval decided,
/// and what that means.
fn capped(answers: &[Answer], most: u32) -> Vec<String> {
    let of = |answer: &Answer| {
        let capped = answer.probes.iter().filter(|probe| probe.estimate.capped);
        let values: Vec<&str> = capped.map(|probe| &*probe.value).collect();
        let title = title(&answer.transport, &answer.labels);
        (!values.is_empty()).then(|| format!("{title}: not sure at {}", values.join(", ")))
    };
    let mut lines: Vec<String> = answers.iter().filter_map(of).collect();
    if !lines.is_empty() {
        lines.push(format!(
            "not sure: the interval contains the threshold after {most} repetitions, the maximum, \
             and the mean decides;\n a larger --max-repetitions may make it sure"
        ));
    }
    lines
}

/// What to say of transports without a capacity within the bounds.
fn beyond<S: Simulate>(
    search: &CapacitySearch<S>,
    answers: &[Answer],
    smallest: bool,
) -> Option<String> {
    let (least, greatest) = search.bounds();
    let (key, condition) = (search.key(), search.condition());
    let of = |outcome| {
        let own = answers.iter().filter(|answer| answer.outcome == outcome);
        own.map(|answer| title(&answer.transport, &answer.labels)).collect::<Vec<_>>().join("; ")
    };
    let (never, always) = (of(Outcome::Never), of(Outcome::Always));
    let (easy, hard) = if smallest { (greatest, least) } else { (least, greatest) };
    let mut lines = Vec::new();
    if !never.is_empty() {
        let (bound, other) =
            if smallest { ("--to", "without --smallest") } else { ("--from", "--smallest") };
        lines.push(format!(
            "{condition} never holds for {never}, not even at {key} = {easy}: try another {bound}, \
             or {other} if it is at the other end that it holds"
        ));
    }
    if !always.is_empty() {
        let (bound, way) = if smallest { ("--from", "down") } else { ("--to", "up") };
        let own = answers.iter().filter(|answer| answer.outcome == Outcome::Always);
        let is_sure = own.into_iter().all(|a| a.estimate.is_some_and(|e| e.verdict.is_sure()));
        let holds = if is_sure { "always holds" } else { "holds in the mean, not surely," };
        lines.push(format!(
            "{condition} {holds} for {always}, {way} to {key} = {hard}: try another {bound}"
        ));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}
