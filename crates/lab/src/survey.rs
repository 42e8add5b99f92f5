//! What is in a directory of results already: which runs can be reused, and why others cannot.

use crate::execute::{ExecuteError, Options};
use crate::fingerprint::{build_id, fingerprint};
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

/// What a directory holds of a run that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// Nothing.
    New,
    /// The run itself, whole and by this build.
    Reusable,
    /// Something that must be made again.
    Again(Again),
}

/// Why a run is made again although its directory holds one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Again {
    /// The command line asks for it.
    Fresh,
    /// Another build of the program made it: its build id.
    OtherBuild(String),
    /// A file of it is damaged: what is wrong with it.
    Damaged(String),
    /// A file is asked for that it does not have, such as `flows.csv`.
    Lacks(&'static str),
}

/// Looks at what is there of one run. Fails where that is of other settings.
pub(crate) fn look<S: Simulate>(
    study: &Study<S>,
    run: &PlannedRun<S>,
    options: &Options,
) -> Result<RunState, ExecuteError> {
    let dir = options.out.join(&run.dir);
    if !dir.exists() {
        return Ok(RunState::New);
    }
    if options.fresh {
        return Ok(RunState::Again(Again::Fresh));
    }
    let refused = |what: String| ExecuteError::OtherSettings { dir: dir.clone(), what };
    let manifest = match read_manifest(&dir) {
        Ok(manifest) => manifest,
        Err(error @ ReadError::Format { .. }) => return Err(refused(error.to_string())),
        // What no run wrote is refused when it comes to writing.
        Err(ReadError::NoManifest(_)) => return Ok(RunState::New),
        Err(error) => return Ok(damaged(&error)),
    };
    let setup = study.setup(&run.scenario, &run.subject, run.seed)?;
    let records = matches!(&setup, RunSetup::Packets(setup) if setup.network_trace);
    let is_same_build = manifest.build == build_id();
    if !is_same_build || manifest.setup != fingerprint(&setup, run) {
        let there = Settings::read_at(&manifest.scenario, &manifest.overrides, &manifest.point);
        let here = Settings::read_at(study.text(), study.overrides(), &run.values);
        return match there.zip(here).map(|(there, here)| there.differences(&here)) {
            None => Err(refused("its scenario cannot be understood".into())),
            Some(Some(what)) => Err(refused(what)),
            Some(None) if is_same_build => {
                Err(refused("a file that the scenario names has other contents now".into()))
            }
            Some(None) => Ok(RunState::Again(Again::OtherBuild(manifest.build))),
        };
    }
    if let Err(error) = verify(&dir, &manifest) {
        return Ok(damaged(&error));
    }
    let wanted = [(CSV_FILE, options.csv), (NETWORK_FILE, records)];
    let lacks = wanted.iter().find(|(name, is)| *is && !manifest.files.contains_key(*name));
    Ok(lacks.map_or(RunState::Reusable, |(name, _)| RunState::Again(Again::Lacks(name))))
}

fn damaged(error: &ReadError) -> RunState {
    RunState::Again(Again::Damaged(format!("{} is damaged", error.path().display())))
}

/// Refuses a directory whose plan or capacities are of other settings than these runs, whatever
/// their directories are called. Keys that vary there or here do not count.
pub(crate) fn check_directory<S: Simulate>(
    study: &Study<S>,
    runs: &[PlannedRun<S>],
    out: &Path,
) -> Result<(), ExecuteError> {
    // A file that cannot be read says nothing, and is written anew.
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

/// Damaged files that one line names.
const DAMAGED_NAMED: usize = 5;

/// Says which runs are reused and why others are made again, in one line; none when there is
/// nothing to say.
pub fn describe<'a>(states: impl IntoIterator<Item = &'a RunState>) -> Option<String> {
    let (mut all, mut reused, mut new) = (0, 0, 0);
    let mut again: BTreeMap<&Again, usize> = BTreeMap::new();
    for state in states {
        all += 1;
        match state {
            RunState::New => new += 1,
            RunState::Reusable => reused += 1,
            RunState::Again(Again::Fresh) => {}
            RunState::Again(why) => *again.entry(why).or_default() += 1,
        }
    }
    let mut parts = Vec::new();
    if reused > 0 {
        parts.push(format!("reused {reused} of {all} runs (--fresh runs them again)"));
    }
    let damaged: Vec<&str> = again
        .keys()
        .filter_map(|why| match why {
            Again::Damaged(what) => Some(&**what),
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
            Again::Fresh => continue,
            Again::OtherBuild(build) => {
                let build: String = build.chars().take(7).collect();
                format!("{count} {verb} again: made by another build ({build})")
            }
            Again::Lacks(file) => format!("{count} {verb} again: without {file}"),
            Again::Damaged(_) => continue,
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
        let build = || RunState::Again(Again::OtherBuild("0123456789abcdef".into()));
        let damaged = |what: &str| RunState::Again(Again::Damaged(what.into()));
        let line = |states: &[RunState]| describe(states);
        assert_eq!(line(&[RunState::New, RunState::Again(Again::Fresh)]), None);
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
