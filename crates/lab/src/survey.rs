//! Which runs of a directory of results can be reused, and why others must be repeated.

use crate::execute::{ExecuteError, Options};
use crate::fingerprint::{build_of, fingerprint};
use crate::plan::{PlannedRun, Study};
use crate::scenario::RunSetup;
use crate::settings::{self, Settings};
use crate::sweep;
use punctual_results::{
    CSV_FILE, Capacities, NETWORK_FILE, Plan, ReadError, read_manifest, verify,
};
use punctual_sim::Simulate;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What the directory of a planned run holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// No run.
    New,
    /// The complete run, made by this build.
    Reusable,
    /// A run that must be repeated.
    Rerun(RerunReason),
}

/// Why a run is repeated although its directory holds one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RerunReason {
    /// The command line has `--fresh`.
    Fresh,
    /// Another build of the program made it. Holds that build's id.
    OtherBuild(String),
    /// One of its files is damaged. Holds a message that names the file.
    Damaged(String),
    /// It lacks a file that is now requested, such as `flows.csv`.
    Lacks(&'static str),
    /// It ran on a testbed whose timing was invalid.
    InvalidTiming,
}

/// Finds out whether one run can be reused. Fails if its directory holds a run of other settings.
pub(crate) fn run_state<S: Simulate>(
    study: &Study<S>,
    run: &PlannedRun<S>,
    options: &Options,
) -> Result<RunState, ExecuteError> {
    let dir = options.out.join(&run.dir);
    if !dir.exists() {
        return Ok(RunState::New);
    }
    if options.fresh {
        return Ok(RunState::Rerun(RerunReason::Fresh));
    }
    let refused = |what: String| ExecuteError::OtherSettings { dir: dir.clone(), what };
    let manifest = match read_manifest(&dir) {
        Ok(manifest) => manifest,
        Err(error @ ReadError::Format { .. }) => return Err(refused(error.to_string())),
        // Files that no run wrote are refused later, when the run is written.
        Err(ReadError::NoManifest(_)) => return Ok(RunState::New),
        Err(error) => return Ok(damaged(&error)),
    };
    let setup = study.setup(&run.scenario, &run.subject, run.seed)?;
    if manifest.testbed.as_ref().is_some_and(|testbed| !testbed.valid) {
        return Ok(RunState::Rerun(RerunReason::InvalidTiming));
    }
    let records = matches!(&setup, RunSetup::Packets(setup) if setup.network_trace);
    let is_same_build = manifest.build == build_of(&setup);
    if !is_same_build || manifest.setup != fingerprint(&setup, run) {
        if manifest.transport != run.subject.label || manifest.seed != run.seed {
            let (transport, seed) = (manifest.transport, manifest.seed);
            return Err(refused(format!("it is a run of {transport} with seed {seed}")));
        }
        let there = Settings::read_at(&manifest.scenario, &manifest.overrides, &manifest.point);
        let here = Settings::read_at(study.text(), study.overrides(), &run.values);
        return match there.zip(here).map(|(there, here)| there.differences(&here)) {
            None => Err(refused("the scenario in its manifest cannot be read".into())),
            Some(Some(what)) => Err(refused(what)),
            Some(None) if is_same_build => {
                Err(refused("a file that the scenario names has changed".into()))
            }
            Some(None) => Ok(RunState::Rerun(RerunReason::OtherBuild(manifest.build))),
        };
    }
    if let Err(error) = verify(&dir, &manifest) {
        return Ok(damaged(&error));
    }
    let wanted = [(CSV_FILE, options.csv), (NETWORK_FILE, records)];
    let lacks =
        wanted.iter().find(|(name, is_wanted)| *is_wanted && !manifest.files.contains_key(*name));
    Ok(lacks.map_or(RunState::Reusable, |(name, _)| RunState::Rerun(RerunReason::Lacks(name))))
}

fn damaged(error: &ReadError) -> RunState {
    RunState::Rerun(RerunReason::Damaged(format!("{} is damaged", error.path().display())))
}

/// Refuses a directory whose plan or capacities have other settings than these runs.
///
/// Keys that vary there or here are not compared.
pub(crate) fn check_directory<S: Simulate>(
    study: &Study<S>,
    runs: &[PlannedRun<S>],
    out: &Path,
) -> Result<(), ExecuteError> {
    // A file that cannot be read is ignored and overwritten later.
    let plan = Plan::read(out).ok().flatten();
    let plan = plan.map(|plan| (plan.scenario, plan.overrides, String::new()));
    let found = Capacities::read(out).ok().flatten();
    let found = found.map(|found| (found.scenario, found.overrides, found.vary));
    let here = study.tree();
    let planned = runs.iter().flat_map(|run| &run.values).flat_map(|value| &value.set);
    let planned: BTreeSet<&str> = planned.filter_map(|set| set.split('=').next()).collect();
    for (scenario, overrides, vary) in plan.into_iter().chain(found) {
        let Some(there) = settings::tree(&scenario, &overrides) else { continue };
        let mut varied: Vec<String> = planned.iter().map(|key| sweep::place(here, key)).collect();
        varied.extend(vary.split(',').map(|key| sweep::place(&there, key.trim())));
        for tree in [&there, here] {
            let axes = sweep::axes(tree).unwrap_or_default();
            let keys = axes.iter().flat_map(|axis| &axis.keys);
            varied.extend(keys.map(|key| sweep::place(tree, &key.path)));
        }
        let there = Settings::of(&there).without(&varied);
        if let Some(what) = there.differences(&Settings::of(here).without(&varied)) {
            return Err(ExecuteError::OtherSettings { dir: out.to_owned(), what });
        }
    }
    Ok(())
}

/// Limit on the damaged files that the line names.
const DAMAGED_NAMED: usize = 5;

/// One line that says which runs are reused and why others are repeated; none if all are new.
pub fn describe<'a>(states: impl IntoIterator<Item = &'a RunState>) -> Option<String> {
    let (mut all, mut reused, mut new) = (0, 0, 0);
    let mut again: BTreeMap<&RerunReason, usize> = BTreeMap::new();
    for state in states {
        all += 1;
        match state {
            RunState::New => new += 1,
            RunState::Reusable => reused += 1,
            RunState::Rerun(RerunReason::Fresh) => {}
            RunState::Rerun(why) => *again.entry(why).or_default() += 1,
        }
    }
    let mut parts = Vec::new();
    if reused > 0 {
        parts.push(format!("reused {reused} of {all} runs (--fresh runs them again)"));
    }
    let damaged: Vec<&str> = again
        .keys()
        .filter_map(|why| match why {
            RerunReason::Damaged(what) => Some(&**what),
            _ => None,
        })
        .collect();
    if let Some((first, others)) = damaged.split_first() {
        let verb = if others.is_empty() { "runs" } else { "run" };
        let named = others.iter().take(DAMAGED_NAMED - 1);
        let mut what = named.fold((*first).to_owned(), |all, one| format!("{all}, {one}"));
        if damaged.len() > DAMAGED_NAMED {
            what.push_str(&format!(" and {} more", damaged.len() - DAMAGED_NAMED));
        }
        parts.push(format!("{} {verb} again: {what}", damaged.len()));
    }
    for (why, count) in &again {
        let verb = if *count == 1 { "runs" } else { "run" };
        parts.push(match why {
            RerunReason::Fresh => continue,
            RerunReason::OtherBuild(build) => {
                let build: String = build.chars().take(7).collect();
                format!("{count} {verb} again: made by another build ({build})")
            }
            RerunReason::Lacks(file) => format!("{count} {verb} again: without {file}"),
            RerunReason::InvalidTiming => {
                format!("{count} {verb} again: their timing was invalid")
            }
            RerunReason::Damaged(_) => continue,
        });
    }
    if !parts.is_empty() && new > 0 {
        parts.push(format!("{new} new"));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reused_and_what_not_is_one_line() {
        let build = || RunState::Rerun(RerunReason::OtherBuild("0123456789abcdef".into()));
        let damaged = |what: &str| RunState::Rerun(RerunReason::Damaged(what.into()));
        let line = |states: &[RunState]| describe(states);
        assert_eq!(line(&[RunState::New, RunState::Rerun(RerunReason::Fresh)]), None);
        let states = [RunState::Reusable, build(), build(), RunState::New];
        let expected = "reused 1 of 4 runs (--fresh runs them again); \
                        2 run again: made by another build (0123456); 1 new";
        assert_eq!(line(&states).unwrap(), expected);
        let states = [damaged("a is damaged"), damaged("b is damaged")];
        assert_eq!(line(&states).unwrap(), "2 run again: a is damaged, b is damaged");
        let many: Vec<RunState> = (0..7).map(|i| damaged(&format!("{i} is damaged"))).collect();
        assert!(line(&many).unwrap().ends_with("4 is damaged and 2 more"), "{:?}", line(&many));
    }
}
