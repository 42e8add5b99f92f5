//! Sweeps whose runs are distributed: a numbered plan, tasks that any worker may run, a checked
//! merge.
//!
//! [`SweepDir::plan`] writes `tasks.json`. Workers open the directory and [run](SweepDir::run) some
//! tasks; each finished run is a part, an ordinary run directory below `parts/`. A worker needs the
//! directory and the program, nothing else: the scenario and the files that it names are in the
//! directory. [`SweepDir::check`] finds parts that are missing, damaged, foreign, or made by another
//! build, and [`SweepDir::place`] links the others into a directory of results, which is then the
//! same as if one machine had made all runs.

mod parts;
mod rounds;

pub use parts::{PartProblem, Parts};
pub use rounds::Round;

use crate::diagnostic::ScenarioError;
use crate::execute::{ExecuteError, Options, RunReport, Watch, execute};
use crate::fingerprint::build_id;
use crate::plan::{PlannedRun, Study, study_from_text};
use crate::{CapacitySearch, Question};
use punctual_results::{
    INPUTS_DIR, PARTS_DIR, ReadError, TASKS_FILE, Task, TaskPlan, TaskQuestion, WriteError,
    file_info,
};
use punctual_sim::Simulate;
use punctual_transports::AnyTransport;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// A directory with the plan of a sweep and the parts that are finished.
#[derive(Debug, Clone)]
pub struct SweepDir<S: Simulate = AnyTransport> {
    dir: PathBuf,
    plan: TaskPlan,
    set: PhantomData<fn() -> S>,
}

/// Why a sweep directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// There is no plan.
    #[error(
        "{} has no {TASKS_FILE}; write one with `punctual sweep plan SCENARIO --out DIR`",
        .0.display()
    )]
    NoPlan(PathBuf),
    /// The directory holds the plan of another sweep.
    #[error("{} holds the plan of another sweep; choose another directory", .0.display())]
    OtherPlan(PathBuf),
    /// Another build of the program planned the tasks.
    #[error(
        "{} was planned by build {planned}, and this is build {here}: results of different builds \
         are not mixed; use that program on every machine, or plan again with this one",
        dir.display()
    )]
    OtherBuild {
        /// The sweep directory.
        dir: PathBuf,
        /// The build that planned.
        planned: String,
        /// This build.
        here: &'static str,
    },
    /// A file that the scenario names cannot go with the plan.
    #[error(
        "the scenario names `{0}`, which is not below its own directory, so that it cannot be \
         copied with the plan; move it there, or give its absolute path on storage that all \
         machines share"
    )]
    Outside(String),
    /// A file that the scenario names is not as it was when the sweep was planned.
    #[error("{} is not the file that the sweep was planned with; copy it again, or plan again", .0.display())]
    Input(PathBuf),
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// There is no task with this number.
    #[error("there is no task {task}; the plan has tasks 0 to {last}", last = tasks.saturating_sub(1))]
    NoTask {
        /// The number.
        task: usize,
        /// Number of tasks.
        tasks: usize,
    },
    /// The plan does not fit its scenario: it was written by hand.
    #[error("task {0} of the plan is not a run of its scenario; plan again")]
    NotARun(usize),
    /// Some parts are missing, damaged or foreign.
    #[error("{}", parts::describe(.0))]
    Parts(Vec<PartProblem>),
    /// The scenario is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A file could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Runs failed.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
}

impl TaskError {
    /// The failure of tasks: where a part of other settings is in the way, it is that part's.
    pub fn of_tasks(error: ExecuteError) -> TaskError {
        match error {
            ExecuteError::OtherSettings { dir: part, what } => {
                TaskError::Parts(vec![PartProblem::Foreign { part, what }])
            }
            error => TaskError::Execute(error),
        }
    }
}

impl<S: Simulate> SweepDir<S> {
    /// Plans the runs of a study, or the first round of a capacity search over it.
    ///
    /// Planning the same sweep in the same directory again keeps its parts.
    pub fn plan(
        study: &Study<S>,
        dir: &Path,
        csv: bool,
        question: Option<&Question>,
    ) -> Result<SweepDir<S>, TaskError> {
        let mut plan = TaskPlan::new(build_id());
        plan.name = study.name().to_owned();
        plan.stem = study.stem().to_owned();
        plan.scenario = study.text().to_owned();
        plan.overrides = study.overrides().to_vec();
        plan.csv = csv;
        let runs = match question {
            None => study.runs(),
            Some(question) => {
                plan.question = Some(question.into());
                CapacitySearch::new(study, question)?.next_runs()?
            }
        };
        add_tasks(&mut plan, &runs, 0);
        let mut inputs = Vec::new();
        for name in files(study) {
            if !is_copied(&name)? {
                continue;
            }
            let path = study.folder().join(&name);
            let bytes = std::fs::read(&path).map_err(|source| TaskError::Io { path, source })?;
            plan.inputs.insert(name.clone(), file_info(&bytes));
            inputs.push((name, bytes));
        }
        if let Some(there) = TaskPlan::read(dir)? {
            if there.build != plan.build {
                return SweepDir::open(dir);
            }
            let same = |p: &TaskPlan| TaskPlan {
                tasks: p.tasks.iter().filter(|task| task.round == 0).cloned().collect(),
                points: Vec::new(),
                digest: String::new(),
                ..p.clone()
            };
            if same(&there) != same(&plan) {
                return Err(TaskError::OtherPlan(dir.to_owned()));
            }
            return SweepDir::open(dir);
        }
        for (name, bytes) in inputs {
            let path = dir.join(INPUTS_DIR).join(name);
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
            punctual_results::save(parent, &name.to_string_lossy(), &bytes)?;
        }
        plan.write(dir)?;
        Ok(SweepDir { dir: dir.to_owned(), plan, set: PhantomData })
    }

    /// Opens a sweep directory. Fails if another build planned it, or if an input has changed.
    pub fn open(dir: &Path) -> Result<SweepDir<S>, TaskError> {
        let plan = TaskPlan::read(dir)?.ok_or_else(|| TaskError::NoPlan(dir.to_owned()))?;
        if plan.build != build_id() {
            let (dir, here) = (dir.to_owned(), build_id());
            return Err(TaskError::OtherBuild { dir, planned: plan.build, here });
        }
        for (name, info) in &plan.inputs {
            let path = dir.join(INPUTS_DIR).join(name);
            let bytes = std::fs::read(&path)
                .map_err(|source| TaskError::Io { path: path.clone(), source })?;
            if file_info(&bytes) != *info {
                return Err(TaskError::Input(path));
            }
        }
        Ok(SweepDir { dir: dir.to_owned(), plan, set: PhantomData })
    }

    /// The plan.
    pub fn tasks(&self) -> &TaskPlan {
        &self.plan
    }

    /// The sweep directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The study of the whole sweep.
    pub fn study(&self) -> Result<Study<S>, ScenarioError> {
        let TaskPlan { stem, scenario, overrides, .. } = &self.plan;
        study_from_text(stem, scenario, &self.dir.join(INPUTS_DIR), overrides)
    }

    /// The planned runs of some tasks, in this order. Only their points are built.
    pub fn runs(&self, tasks: &[usize]) -> Result<TaskRuns<S>, TaskError> {
        let TaskPlan { stem, scenario, overrides, .. } = &self.plan;
        let folder = self.dir.join(INPUTS_DIR);
        let mut studies: BTreeMap<usize, Study<S>> = BTreeMap::new();
        let mut runs = Vec::new();
        for (index, number) in tasks.iter().enumerate() {
            let count = self.plan.tasks.len();
            let none = || TaskError::NoTask { task: *number, tasks: count };
            let task = self.plan.tasks.get(*number).ok_or_else(none)?;
            let not_a_run = || TaskError::NotARun(*number);
            let values = self.plan.points.get(task.point).ok_or_else(not_a_run)?;
            let study = match studies.entry(task.point) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    entry.insert(Study::at_point(stem, scenario, &folder, overrides, values)?)
                }
            };
            let [point] = study.points() else { return Err(not_a_run()) };
            let subjects = point.scenario.subjects();
            let subject = subjects.iter().find(|s| s.label == task.transport);
            let repetition = u32::try_from(task.seed.wrapping_sub(point.scenario.run.seed)).ok();
            let repetitions = repetition.and_then(|r| Some(r..r.checked_add(1)?));
            let run = subject.zip(repetitions).and_then(|(s, r)| study.runs_of(0, s, r).next());
            let run = run.ok_or_else(not_a_run)?;
            runs.push(PlannedRun {
                index,
                values: values.clone(),
                labels: values.iter().map(|v| (v.axis.clone(), v.label.clone())).collect(),
                point_dir: PathBuf::from(&task.point_directory),
                dir: PathBuf::from(&task.directory),
                ..run
            });
        }
        Ok(TaskRuns { study: studies.into_values().next(), runs })
    }

    /// Runs some tasks. Finished parts are kept, damaged ones are made again.
    pub fn run(
        &self,
        tasks: &[usize],
        threads: usize,
        watch: &dyn Watch<S>,
        stop: &AtomicBool,
    ) -> Result<Vec<RunReport>, TaskError> {
        let TaskRuns { study: Some(study), runs } = self.runs(tasks)? else {
            return Ok(Vec::new());
        };
        execute(&study, &runs, &self.options(threads), watch, stop).map_err(TaskError::of_tasks)
    }

    /// How to execute tasks here.
    pub fn options(&self, threads: usize) -> Options {
        let out = self.dir.join(PARTS_DIR);
        Options { out, threads, fresh: false, csv: self.plan.csv, sync: true }
    }
}

/// Planned runs, and a study that stands for all of them in manifests and messages.
#[derive(Debug)]
pub struct TaskRuns<S: Simulate> {
    /// A study of the scenario; none without runs.
    pub study: Option<Study<S>>,
    /// The runs.
    pub runs: Vec<PlannedRun<S>>,
}

/// Adds runs to a plan, numbered after those that it has.
fn add_tasks<S: Simulate>(plan: &mut TaskPlan, runs: &[PlannedRun<S>], round: usize) {
    for run in runs {
        let known = plan.points.iter().rposition(|point| *point == run.values);
        let point = known.unwrap_or_else(|| {
            plan.points.push(run.values.clone());
            plan.points.len() - 1
        });
        plan.tasks.push(Task {
            task: plan.tasks.len(),
            round,
            point,
            transport: run.subject.label.clone(),
            seed: run.seed,
            point_directory: run.point_dir.display().to_string(),
            directory: run.dir.display().to_string(),
        });
    }
}

/// The files that any point of a study names.
fn files<S: Simulate>(study: &Study<S>) -> BTreeSet<String> {
    let points = study.points().iter();
    points.flat_map(|point| point.scenario.files()).map(str::to_owned).collect()
}

/// Whether a file is copied to `inputs/`. One with an absolute path stays where it is.
fn is_copied(name: &str) -> Result<bool, TaskError> {
    let path = Path::new(name);
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    match path.is_absolute() || path.components().all(plain) {
        true => Ok(!path.is_absolute()),
        false => Err(TaskError::Outside(name.to_owned())),
    }
}

impl From<&Question> for TaskQuestion {
    fn from(question: &Question) -> TaskQuestion {
        let Question { vary, until, from, to, step, smallest, repetitions_max } = question.clone();
        TaskQuestion { vary, until, from, to, step, smallest, max_repetitions: repetitions_max }
    }
}

impl From<&TaskQuestion> for Question {
    fn from(question: &TaskQuestion) -> Question {
        let TaskQuestion { vary, until, from, to, step, smallest, max_repetitions } =
            question.clone();
        Question { vary, until, from, to, step, smallest, repetitions_max: max_repetitions }
    }
}
