//! Parts of a sweep: which are finished, and what is wrong with others.

use super::{SweepDir, TaskError, TaskRuns};
use crate::execute::{ExecuteError, Options, in_parallel, survey};
use crate::plan::{PlannedRun, Study};
use crate::survey::{RerunReason, RunState, run_state};
use punctual_results::{MANIFEST_FILE, PARTS_DIR, is_partial, link_run, read_manifest};
use punctual_sim::Simulate;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// What is wrong with a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartProblem {
    /// No worker has finished this task.
    Missing {
        /// The task.
        task: usize,
        /// Its run.
        run: String,
    },
    /// A file of the part is damaged or missing.
    Damaged {
        /// The task.
        task: usize,
        /// The message, which names the file.
        what: String,
    },
    /// Another build made the part.
    OtherBuild {
        /// The task.
        task: usize,
        /// The part.
        part: PathBuf,
        /// The build.
        build: String,
    },
    /// The part is of other settings, or of no task of the plan.
    Foreign {
        /// The part.
        part: PathBuf,
        /// Why it does not belong to the plan.
        what: String,
    },
    /// Two parts of one task differ.
    Duplicate {
        /// The task.
        task: usize,
        /// One part.
        part: PathBuf,
        /// The other part.
        other: PathBuf,
    },
}

impl fmt::Display for PartProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartProblem::Missing { task, run } => write!(f, "task {task} is missing: {run}"),
            PartProblem::Damaged { task, what } => write!(f, "task {task} is damaged: {what}"),
            PartProblem::OtherBuild { task, part, build } => write!(
                f,
                "task {task} was made by another build ({build}) and is refused: {}",
                part.display()
            ),
            PartProblem::Foreign { part, what } => {
                write!(f, "{} does not belong to this plan: {what}", part.display())
            }
            PartProblem::Duplicate { task, part, other } => write!(
                f,
                "task {task} has two parts that differ: {} and {}; remove one",
                part.display(),
                other.display()
            ),
        }
    }
}

/// Limit on the problems that a message names.
const NAMED: usize = 10;

/// The problems, one a line, and what to do.
pub(super) fn describe(problems: &[PartProblem]) -> String {
    let mut lines: Vec<String> = problems.iter().take(NAMED).map(ToString::to_string).collect();
    if problems.len() > NAMED {
        lines.push(format!("and {} more", problems.len() - NAMED));
    }
    let is_rerun =
        |p: &PartProblem| matches!(p, PartProblem::Missing { .. } | PartProblem::Damaged { .. });
    if problems.iter().any(is_rerun) {
        let tasks: Vec<String> = problems.iter().filter_map(PartProblem::task).collect();
        lines.push(match tasks.len() {
            ..=NAMED => format!("`punctual sweep run DIR --task {}` makes them", tasks.join(",")),
            _ => "`punctual sweep run DIR` makes them".to_owned(),
        });
    }
    if problems.iter().any(|p| !is_rerun(p)) {
        lines.push("remove the parts that do not belong here, then run their tasks again".into());
    }
    lines.join("\n")
}

impl PartProblem {
    /// Whether the part is not there, so that its task is still to run.
    pub fn is_missing(&self) -> bool {
        matches!(self, PartProblem::Missing { .. })
    }

    /// The task to run, for a part that is missing or damaged.
    fn task(&self) -> Option<String> {
        match self {
            PartProblem::Missing { task, .. } | PartProblem::Damaged { task, .. } => {
                Some(task.to_string())
            }
            _ => None,
        }
    }
}

/// The parts of some tasks.
#[derive(Debug, Default)]
pub struct Parts {
    /// Finished parts: the task and the directory.
    pub found: Vec<(usize, PathBuf)>,
    /// What is wrong with the others.
    pub problems: Vec<PartProblem>,
    /// Parts that are there a second time with the same contents.
    pub duplicates: Vec<PathBuf>,
}

/// The result of looking at one part.
enum Look {
    Absent,
    Whole,
    Wrong(PartProblem),
}

impl<S: Simulate> SweepDir<S> {
    /// Checks the parts of some tasks: every file against its hash, the build, the settings.
    ///
    /// `others` are copies of this sweep directory with parts that other machines made.
    pub fn check(
        &self,
        tasks: &[usize],
        others: &[PathBuf],
        threads: usize,
        stop: &AtomicBool,
    ) -> Result<Parts, TaskError> {
        let TaskRuns { study: Some(study), runs } = self.runs(tasks)? else {
            return Ok(Parts::default());
        };
        let roots: Vec<PathBuf> = std::iter::once(self.dir())
            .chain(others.iter().map(PathBuf::as_path))
            .map(|dir| dir.join(PARTS_DIR))
            .collect();
        let look = |i: usize, _: &dyn Fn() -> bool| {
            let looks = roots.iter().map(|root| self.look(&study, &runs[i], tasks[i], root));
            looks.collect::<Result<Vec<Look>, ExecuteError>>().map(Some)
        };
        let looks = in_parallel(runs.len(), threads, stop, look)?;
        let mut parts = Parts::default();
        for ((task, run), looks) in tasks.iter().zip(&runs).zip(looks) {
            let mut whole: Option<PathBuf> = None;
            let mut wrong = Vec::new();
            for (root, look) in roots.iter().zip(looks) {
                let part = root.join(&run.dir);
                match (look, &whole) {
                    (Look::Absent, _) => {}
                    (Look::Wrong(problem), _) => wrong.push(problem),
                    (Look::Whole, None) => whole = Some(part),
                    (Look::Whole, Some(first)) => {
                        match read_manifest(first)? == read_manifest(&part)? {
                            true => parts.duplicates.push(part),
                            false => wrong.push(PartProblem::Duplicate {
                                task: *task,
                                part: first.clone(),
                                other: part,
                            }),
                        }
                    }
                }
            }
            if whole.is_none() && wrong.is_empty() {
                wrong.push(PartProblem::Missing { task: *task, run: run.title() });
            }
            parts.found.extend(whole.map(|part| (*task, part)));
            parts.problems.extend(wrong);
        }
        Ok(parts)
    }

    fn look(
        &self,
        study: &Study<S>,
        run: &PlannedRun<S>,
        task: usize,
        root: &Path,
    ) -> Result<Look, ExecuteError> {
        let mut options = self.options(1);
        options.out = root.to_owned();
        let part = root.join(&run.dir);
        Ok(match run_state(study, run, &options) {
            Ok(RunState::New) if part.exists() => {
                let what = format!("{} has no {MANIFEST_FILE}", part.display());
                Look::Wrong(PartProblem::Damaged { task, what })
            }
            Ok(RunState::New) => Look::Absent,
            Ok(RunState::Reusable) => Look::Whole,
            Ok(RunState::Rerun(RerunReason::OtherBuild(build))) => {
                Look::Wrong(PartProblem::OtherBuild { task, part, build })
            }
            Ok(RunState::Rerun(RerunReason::Damaged(what))) => {
                Look::Wrong(PartProblem::Damaged { task, what })
            }
            Ok(RunState::Rerun(RerunReason::Lacks(file))) => {
                let what = format!("{} has no {file}", part.display());
                Look::Wrong(PartProblem::Damaged { task, what })
            }
            Ok(RunState::Rerun(RerunReason::InvalidTiming)) => {
                let what = format!("the timing of {} was invalid", part.display());
                Look::Wrong(PartProblem::Damaged { task, what })
            }
            Ok(RunState::Rerun(RerunReason::Fresh)) => Look::Whole,
            Err(ExecuteError::OtherSettings { dir, what }) => {
                Look::Wrong(PartProblem::Foreign { part: dir, what })
            }
            Err(error) => return Err(error),
        })
    }

    /// Parts of no task of the plan.
    pub fn strangers(&self, others: &[PathBuf]) -> Vec<PartProblem> {
        let known: BTreeSet<&Path> =
            self.tasks().tasks.iter().map(|task| Path::new(&task.directory)).collect();
        let mut found = Vec::new();
        for dir in std::iter::once(self.dir()).chain(others.iter().map(PathBuf::as_path)) {
            let root = dir.join(PARTS_DIR);
            let mut open = vec![(root.clone(), 0)];
            while let Some((dir, depth)) = open.pop() {
                let own = dir.strip_prefix(&root).unwrap_or(&dir);
                if dir.join(MANIFEST_FILE).exists() {
                    if !known.contains(own) && !is_partial(&dir) {
                        let what = "no task has this directory".to_owned();
                        found.push(PartProblem::Foreign { part: dir, what });
                    }
                    continue;
                }
                let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
                let below = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
                open.extend(below.filter(|_| depth < DEPTH).map(|path| (path, depth + 1)));
            }
        }
        found.sort_by_key(|problem| format!("{problem}"));
        found
    }

    /// Links parts into a directory of results, or copies them to another file system.
    ///
    /// Runs that are there already are kept. Fails before it writes anything if the directory holds
    /// results of other settings. Afterwards all runs of the parts are there, and of this build.
    pub fn place(
        &self,
        parts: &Parts,
        out: &Path,
        threads: usize,
        stop: &AtomicBool,
    ) -> Result<(), TaskError> {
        let tasks: Vec<usize> = parts.found.iter().map(|(task, _)| *task).collect();
        let TaskRuns { study: Some(study), runs } = self.runs(&tasks)? else { return Ok(()) };
        let options = Options { out: out.to_owned(), ..self.options(threads) };
        let states = survey(&study, &runs, &options, stop)?;
        in_parallel(runs.len(), threads, stop, |i, _| {
            if states[i] != RunState::Reusable {
                link_run(&parts.found[i].1, &out.join(&runs[i].dir))?;
            }
            Ok(Some(()))
        })?;
        Ok(())
    }
}

/// Levels of directories from `parts/` down to a run: point, transport, seed.
const DEPTH: usize = 3;
