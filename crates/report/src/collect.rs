//! Collects the results of a directory, in order.

use punctual_results::{
    Capacities, CapacityProbe, CombineError, FlowRow, Manifest, Plan, PlanPort, ReadError,
    Repeated, Summary, combine, is_complete, is_partial, leftovers, read_flows, read_in_parallel,
    read_manifest, summary_beside, verify,
};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A run or a list of runs cannot be read, or is of another version.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// There is nothing to report.
    #[error(
        "{} holds no results; give a directory that `punctual run`, `compare` or `capacity` wrote",
        .0.display()
    )]
    Nothing(PathBuf),
    /// Runs that do not belong together.
    #[error("{}: {source}", dir.display())]
    Combine {
        /// Where they are.
        dir: PathBuf,
        /// Why.
        source: CombineError,
    },
    /// A directory cannot be read.
    #[error("cannot read {}: {source}", dir.display())]
    Look {
        /// The directory.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// All results of a directory, except the flows.
#[derive(Debug, Default)]
pub struct Results {
    /// The plan, where there is one.
    pub plan: Option<Plan>,
    /// The result of `capacity`.
    pub capacities: Option<Capacities>,
    /// The runs, by point of the sweep.
    pub points: Vec<PointRuns>,
    /// What is missing or damaged, in words; empty when every run is there.
    pub incomplete: Vec<String>,
    /// What makes the results easy to misread.
    pub warnings: Vec<String>,
    /// The manifest of the first run.
    pub manifest: Option<Manifest>,
    /// A run of each answer of `capacity`: the first at its capacity, or at the last value tried.
    /// The number is that of the answer. Answers whose run is not there are left out.
    pub probed: Vec<(usize, PathBuf)>,
}

/// A point of a sweep.
#[derive(Debug, Default)]
pub struct PointRuns {
    /// Its values, or its directory where they are not known; empty without a sweep.
    pub label: String,
    /// Its values alone.
    pub values: Vec<String>,
    /// The ports with time series, where that is known.
    pub ports: Vec<PlanPort>,
    /// Its offered load in words, where that is known.
    pub offered_load: String,
    /// The runs, by transport.
    pub rows: Vec<Row>,
}

/// All repetitions of one transport.
#[derive(Debug)]
pub struct Row {
    /// The transports that carry flows, by their number in the runs.
    pub transports: Vec<String>,
    /// Where each repetition is.
    pub dirs: Vec<PathBuf>,
    /// Each repetition by itself.
    pub repetitions: Vec<Summary>,
    /// The mean over the repetitions.
    pub summary: Summary,
}

impl Row {
    /// Its repetitions and the mean over them.
    pub fn repeated(&self) -> Repeated {
        Repeated { summary: self.summary.clone(), repetitions: self.repetitions.clone() }
    }

    /// This row with the name of the way in which its runs were made, as in `d3 (testbed)`.
    fn run_as(mut self, way: &str) -> Row {
        let name = |name: &mut String| *name = format!("{name} ({way})");
        self.transports.iter_mut().for_each(name);
        self.repetitions.iter_mut().for_each(|summary| name(&mut summary.transport));
        name(&mut self.summary.transport);
        self
    }

    /// Whether it is a mix of transports, rather than one transport among fixed others.
    pub fn is_mix(&self) -> bool {
        self.transports.len() > 1 && !self.transports.contains(&self.summary.transport)
    }

    /// The flows of a repetition.
    ///
    /// # Panics
    /// When there is no such repetition.
    pub fn read_flows(&self, repetition: usize) -> Result<Vec<FlowRow>, ReadError> {
        read_flows(&self.dirs[repetition])
    }
}

/// The runs of one point of a sweep, found without a plan.
struct FoundPoint {
    /// The directory of all results.
    top: PathBuf,
    /// The point's values, by axis.
    values: Vec<(String, String)>,
    /// Runs, by transport.
    rows: Vec<(String, Vec<Whole>)>,
}

/// A run directory whose manifest could be read.
struct Whole {
    dir: PathBuf,
    manifest: Manifest,
    /// Its summary, and whether every file is as it was written.
    summary: Result<(Summary, bool), ReadError>,
}

/// Reads and checks run directories, in their order.
fn look(dirs: Vec<PathBuf>, threads: usize) -> Result<Looks, ReadError> {
    let whole = |dir: &PathBuf| {
        let manifest = read_manifest(dir)?;
        let is_complete = || verify(dir, &manifest).is_ok();
        let summary = summary_beside(&manifest, dir).map(|summary| (summary, is_complete()));
        Ok(Whole { dir: dir.clone(), manifest, summary })
    };
    Ok(read_in_parallel(dirs.len(), threads, |i| Ok(whole(&dirs[i])))?.into_iter())
}

type Looks = std::vec::IntoIter<Result<Whole, ReadError>>;

/// The depth of runs below a directory of results: point, transport, seed.
const DEPTH: usize = 3;

impl Results {
    /// The results of a directory: that of a run, or any above runs.
    ///
    /// Several threads read and check the runs; the results do not depend on their number.
    pub fn of(dir: &Path, threads: usize) -> Result<Results, ReportError> {
        if is_partial(dir) {
            return Err(ReadError::Partial(dir.to_owned()).into());
        }
        if !dir.exists() {
            return Err(ReadError::NotFound(dir.to_owned()).into());
        }
        let mut results = Results {
            plan: Plan::read(dir)?,
            capacities: Capacities::read(dir)?,
            ..Results::default()
        };
        if results.plan.is_some() {
            results.take_plan(dir, threads)?;
        } else if results.capacities.is_none() {
            results.take_all(dir, threads)?;
        }
        results.check_probes(dir, threads)?;
        if results.capacities.as_ref().is_some_and(|found| !found.complete) {
            results.incomplete.push(
                "Incomplete: the search for capacities did not come to its end; the same command \
                 goes on with it."
                    .to_owned(),
            );
        }
        results.points.retain(|point| !point.rows.is_empty());
        if results.points.is_empty() && results.capacities.is_none() {
            return Err(ReportError::Nothing(dir.to_owned()));
        }
        Ok(results)
    }

    /// The results of one scenario run in two ways, as one: each point has the rows of both, and each
    /// row the name of its way after its transport. Rows of a transport in both ways are neighbours;
    /// those of ideal schedulers are there once.
    pub fn beside(mut self, way: &str, other: Results, other_way: &str) -> Results {
        let mut others = other.points;
        for point in &mut self.points {
            let same = others.iter_mut().find(|other| other.label == point.label);
            let mut more = same.map(|other| std::mem::take(&mut other.rows)).unwrap_or_default();
            more.retain(|row| !row.summary.is_ideal());
            for row in std::mem::take(&mut point.rows) {
                let twin = more.iter().position(|o| o.summary.transport == row.summary.transport);
                let twin = twin.map(|place| more.remove(place).run_as(other_way));
                point.rows.push(if row.summary.is_ideal() { row } else { row.run_as(way) });
                point.rows.extend(twin);
            }
            point.rows.extend(more.into_iter().map(|row| row.run_as(other_way)));
        }
        let named = |way: &str, texts: Vec<String>| -> Vec<String> {
            texts.into_iter().map(|text| format!("{way}: {text}")).collect()
        };
        self.incomplete = named(way, self.incomplete);
        self.incomplete.extend(named(other_way, other.incomplete));
        self.warnings = named(way, self.warnings);
        self.warnings.extend(named(other_way, other.warnings));
        self
    }

    /// Adds the runs of the plan that exist.
    fn take_plan(&mut self, dir: &Path, threads: usize) -> Result<(), ReportError> {
        let plan = self.plan.clone().unwrap_or_default();
        let planned: usize = plan.points.iter().map(|point| point.runs.len()).sum();
        let (mut missing, mut damaged) = (0, Vec::new());
        let runs = plan.points.iter().flat_map(|point| &point.runs);
        let mut looks = look(runs.map(|run| dir.join(&run.directory)).collect(), threads)?;
        for point in &plan.points {
            let mut runs = PointRuns {
                label: labelled(&point.values),
                values: point.values.iter().map(|(_, value)| value.clone()).collect(),
                ports: point.ports.clone(),
                offered_load: point.offered_load.clone(),
                rows: Vec::new(),
            };
            let mut rows: Vec<(&str, Vec<Whole>)> = Vec::new();
            for (run, look) in point.runs.iter().zip(&mut looks) {
                // All runs of a finished plan belong to it. If it was interrupted, some may be of
                // an earlier plan with other settings.
                let made_of_this = |manifest: &Manifest| {
                    let made_at = manifest.point.iter().map(|v| (&v.axis, &v.label));
                    plan.complete
                        || (manifest.scenario == plan.scenario
                            && manifest.overrides == plan.overrides
                            && made_at.eq(point.values.iter().map(|(axis, label)| (axis, label))))
                };
                match look {
                    Ok(whole) if made_of_this(&whole.manifest) => {
                        match rows.last_mut().filter(|(transport, _)| *transport == run.transport) {
                            Some((_, runs)) => runs.push(whole),
                            None => rows.push((&run.transport, vec![whole])),
                        }
                    }
                    Ok(_) | Err(ReadError::NotFound(_)) => missing += 1,
                    Err(error @ ReadError::Format { .. }) => return Err(error.into()),
                    Err(error) => damaged.push(error.to_string()),
                }
            }
            for (_, found) in rows {
                runs.rows.extend(self.row(found, &mut damaged)?);
            }
            self.points.push(runs);
            for warning in &point.warnings {
                let label = labelled(&point.values);
                let place = if label.is_empty() { label } else { format!("{label}: ") };
                self.warnings.push(format!("{place}{warning}."));
            }
        }
        if missing > 0 {
            self.incomplete.push(format!(
                "Incomplete: {missing} of {planned} runs are not there. They were interrupted, or \
                 are still running; the same command goes on with them."
            ));
        }
        self.warn_of(damaged);
        Ok(())
    }

    /// Adds every run below a directory.
    fn take_all(&mut self, dir: &Path, threads: usize) -> Result<(), ReportError> {
        let mut found = Vec::new();
        let mut left_behind = 0;
        search(dir, DEPTH, &mut found, &mut left_behind)?;
        // By number where names have numbers: seed-2 before seed-10.
        found.sort_by_key(|run| natural(run));
        let mut damaged = Vec::new();
        let mut points: Vec<FoundPoint> = Vec::new();
        for look in look(found, threads)? {
            let run = match look {
                Ok(run) => run,
                Err(error @ ReadError::Format { .. }) => return Err(error.into()),
                Err(error) => {
                    damaged.push(error.to_string());
                    continue;
                }
            };
            let top = top_of(&run.dir, &run.manifest);
            let axes = run.manifest.point.iter();
            let values: Vec<_> = axes.map(|v| (v.axis.clone(), v.label.clone())).collect();
            let own = points.iter().position(|p| p.top == top && p.values == values);
            let own = own.unwrap_or_else(|| {
                points.push(FoundPoint { top, values, rows: Vec::new() });
                points.len() - 1
            });
            let rows = &mut points[own].rows;
            match rows.iter_mut().find(|(transport, _)| *transport == run.manifest.transport) {
                Some((_, runs)) => runs.push(run),
                None => rows.push((run.manifest.transport.clone(), vec![run])),
            }
        }
        let several_tops = points.iter().any(|point| point.top != points[0].top);
        for FoundPoint { top, values, rows } in points {
            let name = top.file_name().map_or_else(String::new, |n| n.to_string_lossy().into());
            let mut labels = vec![labelled(&values)];
            if several_tops {
                labels.insert(0, name);
            }
            labels.retain(|label| !label.is_empty());
            let label = labels.join(", ");
            let mut runs = PointRuns { values: vec![label.clone()], label, ..PointRuns::default() };
            for (_, found) in rows {
                runs.rows.extend(self.row(found, &mut damaged)?);
            }
            self.points.push(runs);
        }
        if left_behind > 0 {
            self.incomplete.push(format!(
                "Incomplete: {left_behind} runs were interrupted while they were written."
            ));
        }
        self.warn_of(damaged);
        Ok(())
    }

    /// Reads the repetitions of a transport; none if none of them can be read.
    fn row(
        &mut self,
        runs: Vec<Whole>,
        damaged: &mut Vec<String>,
    ) -> Result<Option<Row>, ReportError> {
        let (mut whole, mut repetitions) = (Vec::new(), Vec::new());
        let mut transports = Vec::new();
        for Whole { dir, manifest, summary } in runs {
            match summary {
                Ok((summary, is_complete)) => {
                    if !is_complete {
                        damaged.push(format!("{} is damaged; run it again", dir.display()));
                        continue;
                    }
                    if manifest.interrupted {
                        let text = format!("Incomplete: {} was stopped early.", dir.display());
                        self.incomplete.push(text);
                    }
                    transports.clone_from(&manifest.transports);
                    self.manifest.get_or_insert(manifest);
                    whole.push(dir);
                    repetitions.push(summary);
                }
                Err(error @ ReadError::Format { .. }) => return Err(error.into()),
                Err(error) => damaged.push(error.to_string()),
            }
        }
        let Some(first) = whole.first() else { return Ok(None) };
        let summary = combine(&repetitions)
            .map_err(|source| ReportError::Combine { dir: first.clone(), source })?;
        Ok(Some(Row { transports, dirs: whole, repetitions, summary }))
    }

    fn warn_of(&mut self, damaged: Vec<String>) {
        if let Some(first) = damaged.first() {
            let count = damaged.len();
            self.incomplete.push(format!("Incomplete: {count} runs cannot be read. {first}."));
        }
    }

    /// Checks that every run that a capacity search counted exists and is complete.
    fn check_probes(&mut self, dir: &Path, threads: usize) -> Result<(), ReportError> {
        let answers = self.capacities.iter().flat_map(|found| &found.answers);
        let runs = answers.flat_map(|answer| &answer.probes).flat_map(|probe| &probe.directories);
        let runs: BTreeSet<PathBuf> = runs.map(|run| dir.join(run)).collect();
        let (there, missing): (Vec<_>, Vec<_>) = runs.iter().partition(|run| run.is_dir());
        if !missing.is_empty() {
            self.incomplete.push(format!(
                "Incomplete: {} of {} runs of the search are not there; the same command makes \
                 them again.",
                missing.len(),
                runs.len()
            ));
        }
        let whole = read_in_parallel(there.len(), threads, |i| Ok(is_complete(there[i])))?;
        let damaged = there.into_iter().zip(whole).filter(|(_, is_whole)| !is_whole);
        let damaged: Vec<&PathBuf> = damaged.map(|(run, _)| run).collect();
        let probed = self.capacities.iter().flat_map(|found| &found.answers).map(|answer| {
            let is_capacity =
                |probe: &&CapacityProbe| Some(&probe.value) == answer.capacity.as_ref();
            let probe = answer.probes.iter().find(is_capacity).or(answer.probes.last());
            probe.and_then(|probe| probe.directories.first()).map(|run| dir.join(run))
        });
        let is_whole = |run: &PathBuf| run.is_dir() && !damaged.contains(&run);
        self.probed =
            probed.enumerate().filter_map(|(i, run)| Some((i, run.filter(is_whole)?))).collect();
        let damaged = damaged.into_iter().map(|run| format!("{} is damaged", run.display()));
        self.warn_of(damaged.collect());
        Ok(())
    }
}

/// `traffic.workers = 5, network.spines = 2`.
pub(crate) fn labelled(values: &[(String, String)]) -> String {
    values.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>().join(", ")
}

/// The directory of all results that a run was written to.
///
/// For a run that was moved, it is the directory that the run lies in.
fn top_of(dir: &Path, manifest: &Manifest) -> PathBuf {
    let top = dir.ancestors().skip(1).find(|top| top.join(&manifest.directory) == dir);
    top.or(dir.parent()).unwrap_or(dir).to_owned()
}

/// Finds the directories of runs below a directory, and counts partial ones.
fn search(
    dir: &Path,
    depth: usize,
    found: &mut Vec<PathBuf>,
    left_behind: &mut usize,
) -> Result<(), ReportError> {
    let look = |source| ReportError::Look { dir: dir.to_owned(), source };
    if dir.join(punctual_results::MANIFEST_FILE).exists() {
        found.push(dir.to_owned());
        return Ok(());
    }
    *left_behind += leftovers(dir).map_err(look)?.len();
    if depth == 0 {
        return Ok(());
    }
    for entry in std::fs::read_dir(dir).map_err(look)? {
        let path = entry.map_err(look)?.path();
        if path.is_dir() && !is_partial(&path) {
            search(&path, depth - 1, found, left_behind)?;
        }
    }
    Ok(())
}

/// Sorts names by the numbers in them.
fn natural(path: &Path) -> Vec<(String, u64)> {
    let text = path.to_string_lossy();
    let mut parts = Vec::new();
    let mut rest = &*text;
    while !rest.is_empty() {
        let words = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(words);
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (number, after) = after.split_at(digits);
        parts.push((word.to_owned(), number.parse().unwrap_or(u64::MAX)));
        rest = after;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_results::RunKind;

    /// A point without values, with a row for each name.
    fn results(names: &[(&str, RunKind)]) -> Results {
        let row = |(name, kind): &(&str, RunKind)| {
            let summary = Summary { transport: (*name).into(), kind: *kind, ..Summary::default() };
            let transports = vec![(*name).to_owned()];
            Row { transports, dirs: Vec::new(), repetitions: vec![summary.clone()], summary }
        };
        let point = PointRuns { rows: names.iter().map(row).collect(), ..PointRuns::default() };
        let incomplete = vec!["One run is missing.".to_owned()];
        Results { points: vec![point], incomplete, ..Results::default() }
    }

    #[test]
    fn rows_of_two_ways_are_neighbours() {
        let (real, packets, ideal) = (RunKind::Testbed, RunKind::Packets, RunKind::Optimum);
        let testbed = results(&[("d3", real), ("kernel-reno", real), ("optimal", ideal)]);
        let simulator = results(&[("tcp", packets), ("d3", packets), ("optimal", ideal)]);
        let both = testbed.beside("testbed", simulator, "simulator");
        let names: Vec<String> = both.points[0].rows.iter().map(|r| r.summary.title()).collect();
        let expected = [
            "d3 (testbed)",
            "d3 (simulator)",
            "kernel-reno (testbed)",
            "optimal (ideal)",
            "tcp (simulator)",
        ];
        assert_eq!(names, expected);
        assert!(both.points[0].rows.iter().all(|row| !row.is_mix()));
        let missing = ["testbed: One run is missing.", "simulator: One run is missing."];
        assert_eq!(both.incomplete, missing);
    }

    #[test]
    fn names_sort_by_their_numbers() {
        let mut names = ["x/seed-10", "x/seed-2", "a/seed-30", "x/seed-2b"].map(Path::new);
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["a/seed-30", "x/seed-2", "x/seed-2b", "x/seed-10"].map(Path::new));
    }
}
