//! `punctual sweep`: distributed sweeps.

mod args;
mod recipes;

pub(crate) use args::SweepCommand;

use super::{STOP, lock, stop_on_ctrl_c};
use crate::args::Execution;
use crate::exit::{NextRound, UsageError};
use crate::progress::Board;
use anyhow::Context as _;
use args::{SweepMerge, SweepPlan, SweepRun};
use punctual_lab::{
    ExecuteError, Parts, Question, Round, RunState, SweepDir, TaskError, TaskRuns, execute,
    load_study,
};
use punctual_results::TASKS_FILE;
use punctual_sim::Simulate;
use serde_json::json;
use std::io::Write as _;
use std::path::Path;

pub(crate) fn sweep<S: Simulate>(command: &SweepCommand) -> anyhow::Result<()> {
    match command {
        SweepCommand::Plan(args) => plan::<S>(args),
        SweepCommand::Run(args) => run::<S>(args),
        SweepCommand::Status { dir, verify, json } => status::<S>(dir, *verify, json.json),
        SweepCommand::Merge(args) => merge::<S>(args),
        SweepCommand::Emit(args) => {
            let sweep = SweepDir::<S>::open(&args.dir)?;
            let mut out = std::io::stdout().lock();
            Ok(write!(out, "{}", recipes::recipe(args, sweep.tasks())?)?)
        }
    }
}

fn plan<S: Simulate>(args: &SweepPlan) -> anyhow::Result<()> {
    if let Some(file) = args.out.ancestors().find(|path| path.is_file()) {
        let message = format!("--out {}: {} is a file", args.out.display(), file.display());
        return Err(UsageError(message).into());
    }
    let study = load_study::<S>(&args.file, &args.overrides())?;
    let question = args.question.question();
    let sweep = SweepDir::plan(&study, &args.out, args.csv, question.as_ref())?;
    let tasks = sweep.tasks();
    let path = args.out.join(TASKS_FILE);
    let mut out = std::io::stdout().lock();
    if args.json.json {
        let (count, build) = (tasks.tasks.len(), &tasks.build);
        writeln!(out, "{}", json!({ "plan": path, "tasks": count, "build": build }))?;
        return Ok(());
    }
    let dir = args.out.display();
    let round = if question.is_some() { " in the first round" } else { "" };
    writeln!(out, "{} tasks{round}: {}", tasks.tasks.len(), path.display())?;
    writeln!(out, "run them with `punctual sweep run {dir} --shard I/N` for I from 0 to N - 1,")?;
    writeln!(out, "then `punctual sweep merge {dir}`")?;
    Ok(())
}

fn run<S: Simulate>(args: &SweepRun) -> anyhow::Result<()> {
    let sweep = SweepDir::<S>::open(&args.dir)?;
    let tasks = match (&args.shard, &args.task) {
        (Some(shard), _) => {
            let (i, n) = shard_of(shard)?;
            sweep.tasks().shard(i, n)
        }
        (None, Some(tasks)) => numbers(tasks)?,
        (None, None) => sweep.tasks().last_round().map(|task| task.task).collect(),
    };
    let TaskRuns { study, runs } = sweep.runs(&tasks)?;
    stop_on_ctrl_c()?;
    let reports = match study {
        None => Vec::new(),
        Some(study) => {
            let board = Board::new(&runs, args.printing.quiet);
            let options = sweep.options(args.threads.get());
            let reports = execute(&study, &runs, &options, &board, &STOP);
            board.close();
            match reports {
                Err(error @ ExecuteError::Interrupted { .. }) => {
                    return Err(error).context("finished tasks are kept");
                }
                reports => reports.map_err(TaskError::of_tasks)?,
            }
        }
    };
    let mut out = std::io::stdout().lock();
    if args.printing.json {
        for (task, report) in tasks.iter().zip(&reports) {
            let line = json!({
                "task": task, "directory": report.dir, "reused": report.reused,
                "wall_seconds": report.wall.as_secs_f64(),
            });
            writeln!(out, "{line}")?;
        }
    } else if !args.printing.quiet {
        let reused = reports.iter().filter(|report| report.reused).count();
        let reused = if reused > 0 { format!(", {reused} of them before") } else { String::new() };
        writeln!(out, "{} tasks finished{reused}", reports.len())?;
    }
    Ok(())
}

fn status<S: Simulate>(dir: &Path, verify: bool, as_json: bool) -> anyhow::Result<()> {
    let sweep = SweepDir::<S>::open(dir)?;
    let plan = sweep.tasks();
    let all: Vec<usize> = (0..plan.tasks.len()).collect();
    let mut problems = sweep.strangers(&[]);
    let finished: Vec<bool> = if verify {
        stop_on_ctrl_c()?;
        let threads = crate::args::Threads::default().get();
        let parts = sweep.check(&all, &[], threads, &STOP)?;
        problems.extend(parts.problems.into_iter().filter(|problem| !problem.is_missing()));
        all.iter().map(|task| parts.found.iter().any(|(found, _)| found == task)).collect()
    } else {
        all.iter().map(|task| sweep.is_finished(*task)).collect()
    };
    let missing: Vec<usize> = all.iter().copied().filter(|task| !finished[*task]).collect();
    let done = all.len() - missing.len();
    let round = plan.tasks.last().map_or(0, |task| task.round);
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let mut out = std::io::stdout().lock();
    if as_json {
        let line = json!({
            "name": plan.name, "build": plan.build, "tasks": all.len(), "finished": done,
            "missing": missing, "round": plan.question.as_ref().map(|_| round),
            "problems": problems,
        });
        writeln!(out, "{line}")?;
        return Ok(());
    }
    let round = match plan.question {
        Some(_) => format!(" of rounds 0 to {round}"),
        None => String::new(),
    };
    writeln!(out, "{}: {done} of {} tasks{round} finished", plan.name, all.len())?;
    if !missing.is_empty() {
        writeln!(out, "to run: --task {}", ranges(&missing))?;
    }
    for problem in problems {
        writeln!(out, "{problem}")?;
    }
    Ok(())
}

fn merge<S: Simulate>(args: &SweepMerge) -> anyhow::Result<()> {
    let mut sweep = SweepDir::<S>::open(&args.dir)?;
    let threads = args.threads.get();
    stop_on_ctrl_c()?;
    let strangers = sweep.strangers(&args.from);
    if !strangers.is_empty() {
        return Err(TaskError::Parts(strangers).into());
    }
    let question = sweep.tasks().question.as_ref().map(Question::from);
    let parts = match &question {
        None => {
            let all: Vec<usize> = (0..sweep.tasks().tasks.len()).collect();
            let parts = sweep.check(&all, &args.from, threads, &STOP)?;
            if !parts.problems.is_empty() {
                return Err(TaskError::Parts(parts.problems).into());
            }
            parts
        }
        Some(question) => match sweep.next_round(question, &args.from, threads, &STOP)? {
            Round::Finished(parts) => parts,
            Round::Next { round, tasks } => {
                let message = format!(
                    "round {round} has {} tasks: run `punctual sweep run {}` again, then merge",
                    tasks.len(),
                    args.dir.display()
                );
                return Err(NextRound(message).into());
            }
        },
    };
    say_duplicates(&parts, args.printing.quiet);
    let study = sweep.study()?;
    let name = study.name().to_owned();
    let out = args.out.clone().unwrap_or_else(|| Path::new("results").join(name));
    let held = lock(&out)?;
    sweep.place(&parts, &out, threads, &STOP)?;
    let quiet = crate::args::Printing { quiet: true, ..args.printing.clone() };
    let execution = Execution {
        out: Some(out),
        csv: sweep.tasks().csv,
        threads: args.threads,
        printing: quiet,
        ..Execution::default()
    };
    match question {
        Some(question) => {
            drop(held);
            super::capacity::search(&study, &question, &execution)
        }
        None => {
            // Their files were just checked, so that nothing looks at them again.
            let runs = study.runs();
            let states = vec![RunState::Reusable; runs.len()];
            let options = super::options(&study, &execution);
            let done = super::execute_plan(study, runs, &states, options, true, held)?;
            super::compare::show(&done, execution.printing.json, false, None)
        }
    }
}

fn say_duplicates(parts: &Parts, quiet: bool) {
    if let Some(first) = parts.duplicates.first().filter(|_| !quiet) {
        let _ = writeln!(
            std::io::stderr(),
            "{} parts are there twice with the same contents, the first is {}",
            parts.duplicates.len(),
            first.display()
        );
    }
}

/// The shard of `I/N`.
fn shard_of(text: &str) -> anyhow::Result<(usize, usize)> {
    let parsed = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match parsed {
        Some((i, n)) if i < n => Ok((i, n)),
        Some((_, n)) if n > 0 => {
            let message =
                format!("--shard {text}: shards count from 0, so that the last is {}/{n}", n - 1);
            Err(UsageError(message).into())
        }
        _ => Err(UsageError(format!("--shard {text}: give I/N, such as 0/4")).into()),
    }
}

/// Limit on the tasks that an option names.
const TASKS_MAX: usize = 10_000_000;

/// The numbers of `0-9,12`.
fn numbers(text: &str) -> anyhow::Result<Vec<usize>> {
    let wrong = || UsageError(format!("--task {text}: give numbers and ranges, such as 0-9,12"));
    let mut numbers = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let ends = first.trim().parse::<usize>().ok().zip(last.trim().parse::<usize>().ok());
        let (first, last) = ends.filter(|(a, b)| a <= b).ok_or_else(wrong)?;
        if last - first >= TASKS_MAX {
            return Err(wrong().into());
        }
        numbers.extend(first..=last);
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// Numbers in order as `0-9,12`.
fn ranges(numbers: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => parts.push((*number, *number)),
        }
    }
    let part = |(a, b): &(usize, usize)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_ranges_are_written() {
        assert_eq!(numbers("12, 0-3,2").unwrap(), [0, 1, 2, 3, 12]);
        assert_eq!(ranges(&[0, 1, 2, 3, 12]), "0-3,12");
        for wrong in ["", "3-1", "a", "1-", "-1", "0-99999999999"] {
            assert!(numbers(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shards_count_from_zero() {
        assert_eq!(shard_of("0/4").unwrap(), (0, 4));
        let error = shard_of("4/4").unwrap_err().to_string();
        assert!(error.contains("the last is 3/4"), "{error}");
        for wrong in ["1", "0/0", "a/2", "-1/2"] {
            assert!(shard_of(wrong).is_err(), "{wrong}");
        }
    }
}
