//! Capacity searches in rounds: each round's tasks follow from the summaries of those before.

use super::{Parts, SweepDir, TaskError, add_tasks};
use crate::capacity::{CapacitySearch, Question};
use crate::execute::RunReport;
use crate::survey::RunState;
use punctual_results::{read_manifest, read_summary};
use punctual_sim::Simulate;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Where a capacity search stands.
#[derive(Debug)]
pub enum Round {
    /// The search is finished; these are the parts of all its rounds.
    Finished(Parts),
    /// A further round was planned.
    Next {
        /// Its number, from 0.
        round: usize,
        /// Its tasks.
        tasks: Vec<usize>,
    },
}

impl<S: Simulate> SweepDir<S> {
    /// Repeats a capacity search over the parts, and plans the next round if it is not finished.
    ///
    /// A search depends on summaries alone, so it plans here what it would plan on one machine.
    /// Fails if parts of the rounds so far are missing, damaged or foreign.
    pub fn next_round(
        &mut self,
        question: &Question,
        others: &[PathBuf],
        threads: usize,
        stop: &AtomicBool,
    ) -> Result<Round, TaskError> {
        let all: Vec<usize> = (0..self.plan.tasks.len()).collect();
        let parts = self.check(&all, others, threads, stop)?;
        if !parts.problems.is_empty() {
            return Err(TaskError::Parts(parts.problems));
        }
        let place: BTreeMap<&str, &Path> = parts
            .found
            .iter()
            .map(|(task, part)| (self.plan.tasks[*task].directory.as_str(), part.as_path()))
            .collect();
        let mut search = CapacitySearch::new(&self.study()?, question)?;
        for round in 0.. {
            let runs = search.next_runs()?;
            if runs.is_empty() {
                break;
            }
            let mut reports = Vec::new();
            for run in &runs {
                let Some(part) = place.get(&*run.dir.display().to_string()) else { break };
                reports.push(RunReport {
                    summary: read_summary(part)?,
                    dir: part.to_path_buf(),
                    reused: true,
                    state: RunState::Reusable,
                    wall: Duration::ZERO,
                    cpu_seconds: None,
                });
            }
            if reports.len() < runs.len() {
                let first = self.plan.tasks.len();
                add_tasks(&mut self.plan, &runs, round);
                self.plan.write(&self.dir)?;
                let tasks = (first..self.plan.tasks.len()).collect();
                return Ok(Round::Next { round, tasks });
            }
            search.learn(&reports)?;
        }
        Ok(Round::Finished(parts))
    }

    /// Whether a task has a part of this build.
    ///
    /// Looks at the manifest alone; [`SweepDir::check`] also compares every file with its hash.
    pub fn is_finished(&self, task: usize) -> bool {
        let Some(task) = self.plan.tasks.get(task) else { return false };
        let part = self.options(1).out.join(&task.directory);
        read_manifest(&part).is_ok_and(|manifest| manifest.build == self.plan.build)
    }
}
