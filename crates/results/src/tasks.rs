//! The tasks of a sweep whose runs are distributed: `tasks.json`.
//!
//! A sweep directory holds
//!
//! * `tasks.json`: the numbered runs ([`TaskPlan`]), with everything that a worker needs;
//! * `inputs/`: copies of the files that the scenario names;
//! * `parts/`: a run directory for each task that is done.

use crate::files::{read_json, save_json};
use crate::{AxisValue, FileInfo, ReadError, WriteError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Name of the file.
pub const TASKS_FILE: &str = "tasks.json";
/// Name of the directory of files that the scenario names.
pub const INPUTS_DIR: &str = "inputs";
/// Name of the directory of finished runs.
pub const PARTS_DIR: &str = "parts";

/// The format of `tasks.json` that this version writes and reads.
const FORMAT: u32 = 1;

/// The numbered runs of a sweep, and everything that is needed to make them on another machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskPlan {
    /// Format of this file.
    pub format: u32,
    /// Version of punctual.
    pub punctual: String,
    /// Build id of the program that planned. Only this build may run and merge the tasks.
    pub build: String,
    /// Name of the scenario.
    pub name: String,
    /// Name of the scenario file without its extension.
    pub stem: String,
    /// Text of the scenario file.
    pub scenario: String,
    /// What the command line changed in it, each as `key=value`, in order.
    pub overrides: Vec<String>,
    /// Files that the scenario names, below `inputs/`, as they were when the sweep was planned.
    pub inputs: BTreeMap<String, FileInfo>,
    /// Whether runs have a `flows.csv`.
    pub csv: bool,
    /// The question of a capacity search, if the tasks are its probes.
    pub question: Option<TaskQuestion>,
    /// Points of the sweep: what each axis sets.
    pub points: Vec<Vec<AxisValue>>,
    /// The tasks, by number.
    pub tasks: Vec<Task>,
    /// Hash of this file without this field, filled in when it is written.
    pub digest: String,
}

/// One run of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its number, from 0.
    pub task: usize,
    /// The round of a capacity search in which it was planned, from 0.
    pub round: usize,
    /// The number of its point.
    pub point: usize,
    /// The transport, or the mix of transports.
    pub transport: String,
    /// The seed.
    pub seed: u64,
    /// The directory of its point, below that of all results; empty without a sweep.
    pub point_directory: String,
    /// Its directory, below that of all results.
    pub directory: String,
}

/// The question of a capacity search, as given on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskQuestion {
    /// The key that varies.
    pub vary: String,
    /// The condition.
    pub until: String,
    /// The least value to try.
    pub from: Option<String>,
    /// The greatest value to try.
    pub to: Option<String>,
    /// The step between values.
    pub step: Option<String>,
    /// Whether the smallest value is searched.
    pub smallest: bool,
    /// Maximum repetitions of a value.
    pub max_repetitions: Option<u32>,
}

impl TaskPlan {
    /// A plan with the format and version of this program, without tasks.
    pub fn new(build: &str) -> TaskPlan {
        let (punctual, build) = (env!("CARGO_PKG_VERSION").to_owned(), build.to_owned());
        TaskPlan { format: FORMAT, punctual, build, ..TaskPlan::default() }
    }

    /// Writes the plan into a sweep directory, which is created if missing.
    pub fn write(&self, dir: &Path) -> Result<(), WriteError> {
        let sealed = TaskPlan { digest: self.computed_digest(), ..self.clone() };
        save_json(dir, TASKS_FILE, &sealed)
    }

    /// Reads the plan of a sweep directory; none if there is no such file.
    pub fn read(dir: &Path) -> Result<Option<TaskPlan>, ReadError> {
        let path = dir.join(TASKS_FILE);
        let plan: Option<TaskPlan> = read_json(&path, FORMAT)?;
        match plan {
            Some(plan) if plan.digest != plan.computed_digest() => Err(ReadError::Changed(path)),
            plan => Ok(plan),
        }
    }

    fn computed_digest(&self) -> String {
        let unsealed = TaskPlan { digest: String::new(), ..self.clone() };
        // A plan that cannot be encoded has no digest; writing it fails too.
        let text = serde_json::to_vec(&unsealed).unwrap_or_default();
        blake3::hash(&text).to_hex().to_string()
    }

    /// The tasks of the last round; all tasks, unless they are a capacity search.
    pub fn last_round(&self) -> impl Iterator<Item = &Task> {
        let last = self.tasks.last().map_or(0, |task| task.round);
        self.tasks.iter().filter(move |task| task.round == last)
    }

    /// The tasks of shard `i` of `n` of the last round, by number.
    ///
    /// Tasks are dealt in an order that does not depend on their numbers, because neighbours are
    /// alike: with ten shards and ten repetitions, every shard would else have one seed, and of
    /// points in order of load the last shard the slowest.
    ///
    /// # Panics
    /// Unless `i < n`.
    pub fn shard(&self, i: usize, n: usize) -> Vec<usize> {
        assert!(i < n, "shards count from 0");
        let mut order: Vec<(blake3::Hash, usize)> =
            self.last_round().map(|t| (blake3::hash(t.directory.as_bytes()), t.task)).collect();
        order.sort_by(|(a, i), (b, j)| a.as_bytes().cmp(b.as_bytes()).then(i.cmp(j)));
        let mut own: Vec<usize> = order.into_iter().skip(i).step_by(n).map(|(_, t)| t).collect();
        own.sort_unstable();
        own
    }
}

/// The length and hash of some bytes.
pub fn file_info(bytes: &[u8]) -> FileInfo {
    FileInfo { bytes: bytes.len() as u64, blake3: blake3::hash(bytes).to_hex().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(tasks: usize) -> TaskPlan {
        let mut plan = TaskPlan::new("b");
        let task = |task| Task { task, directory: format!("ndp/seed-{task}"), ..Task::default() };
        plan.tasks = (0..tasks).map(task).collect();
        plan
    }

    #[test]
    fn shards_have_every_task_once_and_equally_many() {
        for (tasks, n) in [(200, 7), (5, 8), (1, 1), (0, 3)] {
            let plan = plan(tasks);
            let shards: Vec<Vec<usize>> = (0..n).map(|i| plan.shard(i, n)).collect();
            let (least, most) = (tasks / n, tasks.div_ceil(n));
            assert!(shards.iter().all(|shard| (least..=most).contains(&shard.len())));
            let mut all = shards.concat();
            all.sort_unstable();
            assert_eq!(all, (0..tasks).collect::<Vec<_>>());
        }
    }

    #[test]
    fn shards_do_not_follow_the_order_of_tasks() {
        let plan = plan(200);
        let evens = plan.shard(0, 2).iter().filter(|task| *task % 2 == 0).count();
        // 50 of 100 expected, with a standard deviation of 3.5.
        assert!((30..=70).contains(&evens), "{evens}");
    }

    #[test]
    fn a_plan_that_was_changed_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let plan = plan(3);
        plan.write(place.path()).unwrap();
        let read = TaskPlan::read(place.path()).unwrap().unwrap();
        assert_eq!(read.tasks, plan.tasks);
        let path = place.path().join(TASKS_FILE);
        let text = std::fs::read_to_string(&path).unwrap().replace("seed-1", "seed-7");
        std::fs::write(&path, text).unwrap();
        assert!(matches!(TaskPlan::read(place.path()), Err(ReadError::Changed(_))));
    }
}
