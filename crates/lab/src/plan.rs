//! A study: a scenario file with its sweep and repetitions, planned as a list of runs.

use crate::diagnostic::{Diagnostic, ScenarioError};
use crate::document::{self, Kind, Node, Table};
use crate::load::OfferedLoad;
use crate::scenario::{self, Level, RunOn, RunSetup, Scenario, Subject};
use crate::source::Sources;
use crate::sweep::{self, Axis, Labels};
use punctual_core::FlowSpec;
use punctual_results::AxisValue;
use punctual_sim::Simulate;
use punctual_transports::AnyTransport;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The top-level key of the catalogue in a scenario file.
pub(crate) const EXPERIMENT_KEY: &str = "experiment";

/// A scenario file, read and checked: one scenario for each point of its sweep.
///
/// `S` is the set of transports that it may name.
#[derive(Debug, Clone)]
pub struct Study<S: Simulate = AnyTransport> {
    sources: Arc<Sources>,
    overrides: Vec<String>,
    points: Vec<Point<S>>,
    origin: Arc<Origin>,
}

/// The input from which points are built.
#[derive(Debug)]
struct Origin {
    tree: Table,
    axes: Vec<Axis>,
    folder: PathBuf,
    stem: String,
}

/// A point of a sweep.
#[derive(Debug, Clone)]
pub struct Point<S: Simulate = AnyTransport> {
    /// The axes of the sweep and their values here; empty without a sweep.
    pub labels: Labels,
    /// The keys that those values set.
    pub values: Vec<AxisValue>,
    /// The scenario with those values applied.
    pub scenario: Arc<Scenario<S>>,
}

/// One run of a plan.
#[derive(Debug, Clone)]
pub struct PlannedRun<S: Simulate = AnyTransport> {
    /// Its position in the plan.
    pub index: usize,
    /// The axes of the sweep and their values here; empty without a sweep.
    pub labels: Labels,
    /// The keys that those values set.
    pub values: Vec<AxisValue>,
    /// The scenario to run.
    pub scenario: Arc<Scenario<S>>,
    /// The transport or transports to run it with.
    pub subject: Subject,
    /// The transports that carry its flows, by transport id.
    pub transports: Vec<String>,
    /// The repetition, from 0.
    pub repetition: u32,
    /// The seed. It depends on the repetition, not on the transport.
    pub seed: u64,
    /// The directory of its point, relative to the directory of all results; empty without a
    /// sweep. Points with equal labels have different directories.
    pub point_dir: PathBuf,
    /// The directory of the run, relative to the directory of all results.
    pub dir: PathBuf,
}

/// A study with a single point, and one of its runs.
pub type StudyOfRun<S> = (Study<S>, PlannedRun<S>);

/// Why a study could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The scenario is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
}

impl Study {
    /// Reads a scenario file with the built-in transports and applies `key=value` overrides.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Study, LoadError> {
        load_study(path, overrides)
    }

    /// Reads a scenario with the built-in transports from text, see [`study_from_text`].
    pub fn from_text(
        name: &str,
        text: &str,
        folder: &Path,
        overrides: &[String],
    ) -> Result<Study, ScenarioError> {
        study_from_text(name, text, folder, overrides)
    }
}

/// Reads a scenario file with the transports of a set and applies `key=value` overrides in order.
pub fn load_study<S: Simulate>(path: &Path, overrides: &[String]) -> Result<Study<S>, LoadError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let stem = path.file_stem().map_or("scenario".into(), |s| s.to_string_lossy());
    let name = path.to_string_lossy();
    Ok(Study::read(&name, &stem, &text, folder, overrides)?)
}

/// Reads a scenario with the transports of a set from text.
///
/// Messages call the text `name`. Files that it names are in `folder`.
pub fn study_from_text<S: Simulate>(
    name: &str,
    text: &str,
    folder: &Path,
    overrides: &[String],
) -> Result<Study<S>, ScenarioError> {
    Study::read(name, name, text, folder, overrides)
}

impl<S: Simulate> Study<S> {
    fn read(
        file: &str,
        stem: &str,
        text: &str,
        folder: &Path,
        overrides: &[String],
    ) -> Result<Study<S>, ScenarioError> {
        let Parsed { sources, tree, written, axes } = Parsed::new(file, text, overrides)?;
        let sources = Arc::new(sources);
        let fail = |errors| ScenarioError::new(&sources, errors);
        let (folder, stem) = (folder.to_owned(), stem.to_owned());
        check_product(&tree, &axes).map_err(|e| fail(vec![e]))?;
        let origin = Arc::new(Origin { tree, axes, folder, stem });
        let points: Vec<Point<S>> = origin.points(&origin.axes).map_err(fail)?;
        check_size(&origin.tree, &points).map_err(|e| fail(vec![e]))?;
        // A queue may belong to a transport of another point, or to one that the command line has
        // removed.
        let mut carriers = scenario::carriers(&written);
        carriers.extend(points.iter().flat_map(|p| p.scenario.used()));
        let idle: Vec<_> = points.iter().flat_map(|p| p.scenario.idle_queues(&carriers)).collect();
        if !idle.is_empty() {
            return Err(fail(idle));
        }
        Ok(Study { sources, overrides: overrides.to_vec(), points, origin })
    }

    /// The study of a scenario text at one point alone, which need not be in its sweep: the other
    /// points are not built.
    pub(crate) fn at_point(
        stem: &str,
        text: &str,
        folder: &Path,
        overrides: &[String],
        point: &[AxisValue],
    ) -> Result<Study<S>, ScenarioError> {
        let Parsed { mut sources, tree, axes, .. } = Parsed::new(stem, text, overrides)?;
        let mut own = Vec::new();
        for value in point {
            let start = sources.add("the point of the sweep", value.set.join("\n"));
            match Axis::of_run(value, start) {
                Ok(axis) => own.push(axis),
                Err(error) => return Err(ScenarioError::new(&Arc::new(sources), vec![error])),
            }
        }
        let sources = Arc::new(sources);
        let (folder, stem) = (folder.to_owned(), stem.to_owned());
        let origin = Arc::new(Origin { tree, axes, folder, stem });
        let points = origin.points(&own).map_err(|errors| ScenarioError::new(&sources, errors))?;
        Ok(Study { sources, overrides: overrides.to_vec(), points, origin })
    }

    /// The name of the scenario file without its extension.
    pub(crate) fn stem(&self) -> &str {
        &self.origin.stem
    }

    /// The directory of the files that the scenario names.
    pub(crate) fn folder(&self) -> &Path {
        &self.origin.folder
    }

    /// This study with another axis, which replaces the axis of the sweep with its name or keys.
    pub(crate) fn with_axis(&self, axis: Axis) -> Result<Study<S>, ScenarioError> {
        let Origin { tree, axes, .. } = &*self.origin;
        let axes = sweep::with_axis(tree, axes.clone(), axis).map_err(|d| self.error(d))?;
        self.with_axes(&axes)
    }

    /// This study with other axes than those of its sweep.
    fn with_axes(&self, axes: &[Axis]) -> Result<Study<S>, ScenarioError> {
        let fail = |errors| ScenarioError::new(&self.sources, errors);
        let points = self.origin.points(axes).map_err(fail)?;
        Ok(Study { points, ..self.clone() })
    }

    /// This study with other sources, so that messages can point at further texts.
    pub(crate) fn with_sources(&self, sources: Sources) -> Study<S> {
        Study { sources: Arc::new(sources), ..self.clone() }
    }

    pub(crate) fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The scenario with its overrides, `[sweep]` included.
    pub(crate) fn tree(&self) -> &Table {
        &self.origin.tree
    }

    /// The axes of its sweep.
    pub(crate) fn axes(&self) -> &[Axis] {
        &self.origin.axes
    }

    /// The scenario's name.
    pub fn name(&self) -> &str {
        &self.points[0].scenario.name
    }

    /// The scenario's name, its overrides, and its level if it is flow level and no override says
    /// so, as headings show them.
    pub fn title(&self) -> String {
        let title = punctual_results::titled(self.name(), &self.overrides);
        let is_flow = self.points.iter().all(|p| p.scenario.run.level == Level::Flow);
        let is_real = self.points.iter().all(|p| p.scenario.run.on == RunOn::Testbed);
        let is_said = |key: &str| self.overrides.iter().any(|change| change.starts_with(key));
        match (is_flow, is_real) {
            (true, _) if !is_said("run.level") => format!("{title}, flow level"),
            (_, true) if !is_said("run.on") => format!("{title}, testbed"),
            _ => title,
        }
    }

    /// The points of its sweep; one without a sweep.
    pub fn points(&self) -> &[Point<S>] {
        &self.points
    }

    /// The text of the scenario file.
    pub fn text(&self) -> &str {
        self.sources.text()
    }

    /// The overrides of the command line.
    pub fn overrides(&self) -> &[String] {
        &self.overrides
    }

    /// The set-up of one run.
    pub fn setup(
        &self,
        scenario: &Scenario<S>,
        subject: &Subject,
        seed: u64,
    ) -> Result<RunSetup<S>, ScenarioError> {
        scenario.setup(subject, seed).map_err(|d| self.error(d))
    }

    /// The flows that are known before a run with this seed. Fails if traffic is a closed loop,
    /// whose flows depend on the transport.
    pub fn flows(&self, scenario: &Scenario<S>, seed: u64) -> Result<Vec<FlowSpec>, ScenarioError> {
        let workload = scenario.workload(&[], seed).map_err(|d| self.error(d))?;
        if workload.closed_loops.iter().any(Option::is_some) {
            let message = "flows of a closed loop start when others end, so that they are no list";
            return Err(self.error(Diagnostic::new(message)));
        }
        Ok(workload.flows)
    }

    /// The offered load of the first run at a point.
    pub fn offered_load(&self, scenario: &Scenario<S>) -> Result<OfferedLoad, ScenarioError> {
        scenario.offered_load(scenario.run.seed).map_err(|d| self.error(d))
    }

    /// A diagnostic as an error of this study.
    pub(crate) fn error(&self, diagnostic: Diagnostic) -> ScenarioError {
        ScenarioError::new(&self.sources, vec![diagnostic])
    }

    /// All runs: by point, then transport, then repetition.
    pub fn runs(&self) -> Vec<PlannedRun<S>> {
        let mut runs = Vec::new();
        for (p, point) in self.points.iter().enumerate() {
            for subject in point.scenario.subjects() {
                let first = runs.len();
                let repetitions = 0..point.scenario.run.repetitions;
                let more = self.runs_of(p, &subject, repetitions);
                runs.extend(more.map(|run| PlannedRun { index: first + run.index, ..run }));
            }
        }
        runs
    }

    /// The run that a manifest names by point, transport and seed, and the study with that point
    /// alone.
    ///
    /// The point need not be in the sweep and the seed may exceed the scenario's repetitions: a
    /// capacity search makes such runs.
    pub fn run_of(
        &self,
        point: &[AxisValue],
        transport: &str,
        seed: u64,
    ) -> Result<Option<StudyOfRun<S>>, ScenarioError> {
        let mut sources = (*self.sources).clone();
        let mut axes = Vec::new();
        for value in point {
            let start = sources.add("the manifest's point", value.set.join("\n"));
            axes.push(Axis::of_run(value, start).map_err(|d| self.error(d))?);
        }
        let study = self.with_sources(sources).with_axes(&axes)?;
        let [point] = &study.points[..] else { return Ok(None) };
        let own = point.scenario.subjects().into_iter().find(|s| s.label == transport);
        let repetition = u32::try_from(seed.wrapping_sub(point.scenario.run.seed)).ok();
        let repetitions = repetition.and_then(|r| Some(r..r.checked_add(1)?));
        let (Some(subject), Some(repetitions)) = (own, repetitions) else { return Ok(None) };
        let run = study.runs_of(0, &subject, repetitions).next();
        Ok(run.map(|run| (study, run)))
    }

    /// Some repetitions of one transport at one point, as a plan of their own.
    ///
    /// They may exceed the scenario's repetitions.
    pub(crate) fn runs_of<'a>(
        &'a self,
        point: usize,
        subject: &'a Subject,
        repetitions: Range<u32>,
    ) -> impl Iterator<Item = PlannedRun<S>> + 'a {
        let Point { labels, values, scenario } = &self.points[point];
        let point_dir = match labels.is_empty() {
            true => PathBuf::new(),
            false => PathBuf::from(self.directory_of(point)),
        };
        let parent = point_dir.join(&subject.label);
        let names = scenario.carriers_of(subject);
        let transports: Vec<String> = names.into_iter().map(str::to_owned).collect();
        repetitions.enumerate().map(move |(index, repetition)| {
            let seed = scenario.run.seed.wrapping_add(u64::from(repetition));
            PlannedRun {
                index,
                labels: labels.clone(),
                values: values.clone(),
                scenario: scenario.clone(),
                subject: subject.clone(),
                transports: transports.clone(),
                repetition,
                seed,
                point_dir: point_dir.clone(),
                dir: parent.join(format!("seed-{seed}")),
            }
        })
    }

    /// The directory of a point, different from that of every other point.
    fn directory_of(&self, point: usize) -> String {
        let name = |p: &Point<S>| file_name(&p.labels);
        let own = name(&self.points[point]);
        let twins = self.points[..point].iter().filter(|p| name(p) == own).count();
        if twins == 0 { own } else { format!("{own}-{}", twins + 1) }
    }
}

/// A scenario text with its overrides, before points are built.
struct Parsed {
    sources: Sources,
    tree: Table,
    /// The tree without the overrides.
    written: Table,
    axes: Vec<Axis>,
}

impl Parsed {
    fn new(file: &str, text: &str, overrides: &[String]) -> Result<Parsed, ScenarioError> {
        let mut sources = Sources::new(file, text);
        let mut errors: Vec<Diagnostic> = Vec::new();
        let mut tree = document::parse(text, 0).map_err(|e| errors.push(e)).unwrap_or_default();
        // A file of the catalogue is a scenario with claims, which runs do not depend on.
        tree.remove(EXPERIMENT_KEY);
        let written = tree.clone();
        let mut set = Vec::new();
        if errors.is_empty() {
            for text in overrides {
                match document::set(&mut tree, &mut sources, text) {
                    Ok(at) => set.push((text.split('=').next().unwrap_or_default().trim(), at)),
                    Err(error) => errors.push(error),
                }
            }
        }
        let axes = sweep::axes(&tree).map_err(|e| errors.push(e)).unwrap_or_default();
        for (key, at) in set {
            errors.extend(sweep::check_override(&tree, &axes, key, at).err());
        }
        match errors.is_empty() {
            true => Ok(Parsed { sources, tree, written, axes }),
            false => Err(ScenarioError::new(&Arc::new(sources), errors)),
        }
    }
}

impl Origin {
    /// The scenarios of a sweep with these axes, one for each point.
    fn points<S: Simulate>(&self, axes: &[Axis]) -> Result<Vec<Point<S>>, Vec<Diagnostic>> {
        let mut points = Vec::new();
        let mut errors: Vec<Diagnostic> = Vec::new();
        for point in sweep::expand(&self.tree, axes).map_err(|e| vec![e])? {
            let values = point.values;
            let labels: Labels = values.iter().map(|v| (v.axis.clone(), v.label.clone())).collect();
            match Scenario::decode(&point.tree, &self.folder, &self.stem) {
                Ok(scenario) => {
                    points.push(Point { labels, values, scenario: Arc::new(scenario) });
                }
                Err(e) => errors.extend(e.into_iter().map(|d| at_point(d, &labels))),
            }
        }
        if errors.is_empty() { Ok(points) } else { Err(errors) }
    }
}

/// Limit on the runs of a plan.
const MAX_RUNS: u64 = 1_000_000;

/// Refuses a plan with too many runs before its points are built.
///
/// runs = points × transports × repetitions, as far as the text shows them.
fn check_product(tree: &Table, axes: &[Axis]) -> Result<(), Diagnostic> {
    let repetitions = match document::resolve(tree, "run.repetitions") {
        Some((_, Node { kind: Kind::Integer(n), .. })) => u64::try_from(*n).unwrap_or(1).max(1),
        _ => 1,
    };
    let transports =
        tree.get("transports").and_then(Node::list).map_or(1, |list| list.len().max(1));
    let points = axes.iter().map(|axis| axis.len() as u64).fold(1, u64::saturating_mul);
    let runs = points.saturating_mul(transports as u64).saturating_mul(repetitions);
    if runs > MAX_RUNS && axes.iter().all(|axis| !axis.varies(tree, "run.repetitions")) {
        return Err(too_many(tree, runs));
    }
    Ok(())
}

fn too_many(tree: &Table, runs: u64) -> Diagnostic {
    let message = format!("this scenario has {runs} runs; the limit is {MAX_RUNS}");
    let at = document::span_of(tree, "run.repetitions");
    let help = "runs = points of the sweep x transports x repetitions; use fewer of them";
    Diagnostic::new(message).at(at).help(help)
}

/// Refuses a plan with too many runs, counted from its points.
fn check_size<S: Simulate>(tree: &Table, points: &[Point<S>]) -> Result<(), Diagnostic> {
    let of_point = |point: &Point<S>| {
        point.scenario.subjects().len() as u64 * u64::from(point.scenario.run.repetitions)
    };
    // 10,000 points with 2^32 repetitions of every transport are far below 2^64.
    let runs: u64 = points.iter().map(of_point).sum();
    if runs <= MAX_RUNS {
        return Ok(());
    }
    Err(too_many(tree, runs))
}

/// Adds the point of the sweep to a diagnostic.
fn at_point(diagnostic: Diagnostic, labels: &Labels) -> Diagnostic {
    if labels.is_empty() {
        return diagnostic;
    }
    let point: Vec<String> = labels.iter().map(|(k, v)| format!("{k} = {v}")).collect();
    let point = format!("at the point of the sweep with {}", point.join(", "));
    let help = diagnostic.help.as_ref().map(|help| format!("{help} ({point})"));
    diagnostic.help(help.unwrap_or(point))
}

/// Labels as a file name: `senders=10,rate=1Gbps`.
fn file_name(labels: &Labels) -> String {
    let keep = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let part = |(key, value): &(String, String)| {
        let value: String = value.chars().map(keep).collect();
        format!("{key}={value}")
    };
    labels.iter().map(part).collect::<Vec<_>>().join(",")
}

impl<S: Simulate> PlannedRun<S> {
    /// Its title in messages: `ndp, traffic.senders=10, seed 1`.
    pub fn title(&self) -> String {
        let mut title = self.subject.label.clone();
        for (key, value) in &self.labels {
            title.push_str(&format!(", {key}={value}"));
        }
        format!("{title}, seed {}", self.seed)
    }
}
