//! Runs an experiment of the catalogue and judges its claims.

use super::estimate::{Estimate, Evaluator, PartResult, is_axis};
use super::expression::{Expr, Selector};
use super::file::{ChartSpec, Claim, Experiment, On, Part, Reading, Test};
use super::judge::{Judgement, judge};
use super::measure::{self, FILTERS, MeasureError, Ran};
use super::{CatalogueError, ExperimentError};
use crate::capacity::{CapacitySearch, Question};
use crate::diagnostic::ScenarioError;
use crate::execute::{ExecuteError, Options, RunReport};
use crate::plan::{PlannedRun, Study, study_from_text};
use crate::suggest::nearest;
use punctual_results::save;
use punctual_sim::Simulate;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How experiments are reproduced.
#[derive(Debug, Clone)]
pub struct ReproduceOptions {
    /// Where results go, and how many runs at a time.
    pub execution: Options,
    /// Smaller sizes and fewer repetitions.
    pub quick: bool,
    /// Whether the readings of experiments run too.
    pub readings: bool,
    /// Where parts run.
    pub places: Places,
    /// The folder of the experiments' files, for files that scenarios name.
    pub folder: PathBuf,
}

/// Where the parts of experiments run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Places {
    /// Simulated parts only; claims about real packets cannot run.
    Simulator,
    /// Real packets only; claims about simulations are left out.
    Testbed,
    /// All parts.
    Both,
}

impl Places {
    /// Whether a part runs.
    fn include(self, on: On) -> bool {
        match self {
            Places::Simulator => on == On::Simulator,
            Places::Testbed => on == On::Testbed,
            Places::Both => true,
        }
    }
}

/// Executes runs of a study and returns their reports, in order.
pub type Execute<'a, S> =
    dyn FnMut(&Study<S>, &[PlannedRun<S>], &Options) -> Result<Vec<RunReport>, ExecuteError> + 'a;

/// Why an experiment could not be reproduced. Finished runs are kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReproduceError {
    /// Its file is wrong.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// A set-up is wrong.
    #[error("{experiment}, part `{part}`")]
    SetUp {
        /// The experiment.
        experiment: String,
        /// The part.
        part: String,
        /// What is wrong.
        source: ScenarioError,
    },
    /// A run failed, or the user asked to stop.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// A claim cannot be computed.
    #[error("{experiment}, claim `{claim}`: {what}")]
    Claim {
        /// The experiment.
        experiment: String,
        /// The claim.
        claim: String,
        /// Why.
        what: String,
    },
    /// A chart cannot be drawn.
    #[error("{experiment}, chart `{chart}`: {what}")]
    Chart {
        /// The experiment.
        experiment: String,
        /// The chart's title.
        chart: String,
        /// Why.
        what: String,
    },
    /// Results could not be written.
    #[error(transparent)]
    Write(#[from] punctual_results::WriteError),
}

/// One claim of an experiment with its verdict: a line of `reproduce --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimLine {
    /// The experiment, such as `ndp/fig14`.
    pub experiment: String,
    /// The claim's name.
    pub claim: String,
    /// The rows of the evaluation tables that it belongs to.
    pub rows: Vec<String>,
    /// `number`, `ordering`, `shape`, `measurement` or `none`.
    pub kind: String,
    /// What it says.
    pub text: String,
    /// What the paper has; empty for a measurement.
    pub paper: String,
    /// Where that comes from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The accepted values: a range, or the order in words.
    pub tolerance: Tolerance,
    /// Unit of the values.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// The result.
    #[serde(flatten)]
    pub judgement: Judgement,
    /// The result under other readings of the paper.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<ReadingLine>,
    /// Why it differs, as far as known; empty where it does not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cause: String,
}

/// What a claim accepts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Tolerance {
    /// The least and the greatest value; `null` without limit.
    Range([Option<f64>; 2]),
    /// In words.
    Words(String),
    /// Nothing is expected.
    None,
}

/// A claim under another reading of the paper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadingLine {
    /// Its name.
    pub reading: String,
    /// What it reads otherwise.
    pub about: String,
    /// The result.
    #[serde(flatten)]
    pub judgement: Judgement,
}

/// A chart: our values beside the paper's points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChartData {
    /// Its title.
    pub title: String,
    /// Name of the axis.
    pub x: String,
    /// Unit of the values.
    pub unit: String,
    /// Labels of the axis, in order.
    pub labels: Vec<String>,
    /// One curve per transport.
    pub curves: Vec<CurveData>,
}

/// The values of one transport.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurveData {
    /// The transport.
    pub transport: String,
    /// Our value at each label.
    pub values: Vec<Option<f64>>,
    /// Half the width of its interval.
    pub half: Vec<Option<f64>>,
    /// The paper's points: x and y.
    pub paper: Vec<[f64; 2]>,
}

/// An experiment with all its verdicts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reproduced {
    /// The experiment, such as `ndp/fig14`.
    pub experiment: String,
    /// What it shows.
    pub title: String,
    /// Whether it ran with smaller sizes.
    pub quick: bool,
    /// The build that made the runs.
    pub build: String,
    /// A hash of its file, see [`Experiment::fingerprint`].
    pub file: String,
    /// Number of runs, those of readings included.
    pub runs: usize,
    /// Its claims.
    pub claims: Vec<ClaimLine>,
    /// Its charts.
    #[serde(default)]
    pub charts: Vec<ChartData>,
    /// How many of the runs were there already. Not written with the rest, which is the same
    /// bytes after an interruption.
    #[serde(skip)]
    pub reused: usize,
}

/// Name of the file with the verdicts of an experiment.
pub const CLAIMS_FILE: &str = "claims.json";

impl Experiment {
    /// The study of a part, with the changes of a reading.
    pub fn study<S: Simulate>(
        &self,
        part: &Part,
        reading: Option<&Reading>,
        quick: bool,
        folder: &Path,
    ) -> Result<Study<S>, ReproduceError> {
        let mut set = part.set.clone();
        if quick {
            set.extend(part.quick.iter().cloned());
        }
        set.extend(reading.iter().flat_map(|reading| reading.set.iter().cloned()));
        // The playback of a network is for looking at single runs.
        set.push("run.network_trace=false".to_owned());
        if part.on == On::Testbed {
            set.push("run.on=testbed".to_owned());
        }
        let (file, text, folder) = match &part.scenario {
            None => (format!("{}.toml", self.id), self.text.clone(), folder.join(self.paper())),
            Some(name) => {
                let path = folder.join(name);
                let text = std::fs::read_to_string(&path)
                    .map_err(|source| CatalogueError::Read { path: path.clone(), source })?;
                (name.clone(), text, path.parent().unwrap_or(folder).to_owned())
            }
        };
        study_from_text(&file, &text, &folder, &set).map_err(|source| ReproduceError::SetUp {
            experiment: self.id.clone(),
            part: part.name.clone(),
            source,
        })
    }

    /// Checks that every claim can be computed from the runs that are planned for it, also under
    /// every reading that judges it.
    pub fn check<S: Simulate>(&self, quick: bool, folder: &Path) -> Result<(), ReproduceError> {
        let planned = self.planned::<S>(None, quick, folder)?;
        for claim in self.claims.iter().filter(|claim| claim.cannot_run.is_none()) {
            self.check_claim(claim, &planned)?;
        }
        for chart in &self.charts {
            let (experiment, chart_title) = (self.id.clone(), chart.title.clone());
            let wrong = |what| ReproduceError::Chart { experiment, chart: chart_title, what };
            check_chart(chart, &planned).map_err(wrong)?;
        }
        for reading in &self.readings {
            let planned = self.planned::<S>(Some(reading), quick, folder)?;
            for claim in self.claims.iter().filter(|claim| reading.judges(claim)) {
                self.check_claim(&reading.of(claim), &planned)?;
            }
        }
        Ok(())
    }

    /// What each part plans to run.
    fn planned<S: Simulate>(
        &self,
        reading: Option<&Reading>,
        quick: bool,
        folder: &Path,
    ) -> Result<Planned<'_>, ReproduceError> {
        let mut planned = BTreeMap::new();
        for part in &self.parts {
            let own = reading.filter(|reading| changes(reading, part));
            let study = self.study::<S>(part, own, quick, folder)?;
            let labels = |run: PlannedRun<S>| (run.subject.label, run.labels);
            if let Some(question) = &part.search {
                CapacitySearch::new(&study, question).map_err(|source| ReproduceError::SetUp {
                    experiment: self.id.clone(),
                    part: part.name.clone(),
                    source,
                })?;
            }
            let runs = study.runs().into_iter().map(labels).collect();
            planned.insert(part.name.as_str(), (runs, part.search.clone()));
        }
        Ok(planned)
    }

    fn check_claim(&self, claim: &Claim, planned: &Planned<'_>) -> Result<(), ReproduceError> {
        let mut wrong = None;
        for formula in claim.test.formulas() {
            formula.expr.leaves(&mut |leaf| {
                wrong = wrong.take().or_else(|| check_leaf(leaf, planned).err());
            });
        }
        wrong.map_or(Ok(()), |what| Err(self.fault(&claim.id, &what)))
    }

    fn fault(&self, claim: &str, what: &str) -> ReproduceError {
        let (experiment, claim) = (self.id.clone(), claim.to_owned());
        ReproduceError::Claim { experiment, claim, what: what.to_owned() }
    }

    /// Runs the experiment, judges its claims and writes them beside the runs.
    pub fn reproduce<S: Simulate>(
        &self,
        options: &ReproduceOptions,
        execute: &mut Execute<'_, S>,
    ) -> Result<Reproduced, ReproduceError> {
        let file = self.fingerprint(&options.folder)?;
        let (mut runs, mut reused) = (0, 0);
        let mut count = |result: &PartResult| {
            runs += result.runs.len();
            reused += result.reused;
        };
        let out = options.execution.out.join(&self.id);
        let mut results: BTreeMap<String, PartResult> = BTreeMap::new();
        // Why the parts with real packets have no results.
        let mut missing: BTreeMap<&str, String> = BTreeMap::new();
        for part in &self.parts {
            let is_real = part.on == On::Testbed;
            if !options.places.include(part.on) {
                let how = format!(
                    "real packets: `punctual reproduce {} --on testbed`, as root on an idle machine",
                    self.id
                );
                missing.extend(is_real.then_some((part.name.as_str(), how)));
                continue;
            }
            let mut result = match self.run_part(part, None, options, &out, execute) {
                Err(ReproduceError::Execute(ExecuteError::Testbed(error))) if is_real => {
                    missing.insert(&part.name, error.to_string());
                    continue;
                }
                result => result?,
            };
            count(&result);
            if is_real {
                missing.extend(without_invalid(&mut result).map(|why| (part.name.as_str(), why)));
            }
            results.insert(part.name.clone(), result);
        }
        let evaluator = Evaluator::new(results.iter().map(|(name, r)| (name.as_str(), r)));
        let fault = |claim: &Claim, e: MeasureError| self.fault(&claim.id, &e.to_string());
        let mut claims = Vec::new();
        for claim in self.claims.iter().filter(|claim| self.is_wanted(claim, options.places)) {
            let own = self.parts_of(claim);
            let absent = own.iter().find(|part| !results.contains_key(&part.name));
            let judgement = match absent.and_then(|part| missing.get(part.name.as_str())) {
                Some(why) => Judgement::cannot_run(why),
                None => {
                    match (judge(claim, &evaluator), own.iter().find(|p| p.on == On::Testbed)) {
                        // The runs that the claim selects were all invalid.
                        (Err(_), Some(part)) if missing.contains_key(part.name.as_str()) => {
                            Judgement::cannot_run(&missing[part.name.as_str()])
                        }
                        (judged, _) => judged.map_err(|e| fault(claim, e))?,
                    }
                }
            };
            claims.push(self.line(claim, judgement));
        }
        let is_drawn = |chart: &&ChartSpec| results.contains_key(&chart.part);
        let charts = self.charts.iter().filter(is_drawn);
        let charts = charts.map(|chart| drawn(chart, &results, &evaluator));
        let charts: Result<Vec<ChartData>, MeasureError> = charts.collect();
        let charts = charts.map_err(|e| self.fault("chart", &e.to_string()))?;
        let with_readings = options.readings && options.places.include(On::Simulator);
        let wanted = |reading: &&Reading| with_readings && !(options.quick && reading.full_only);
        for reading in self.readings.iter().filter(wanted) {
            let mut changed = results.clone();
            for part in &self.parts {
                if changes(reading, part) {
                    let result = self.run_part(part, Some(reading), options, &out, execute)?;
                    count(&result);
                    changed.insert(part.name.clone(), result);
                }
            }
            let evaluator = Evaluator::new(changed.iter().map(|(name, r)| (name.as_str(), r)));
            for line in &mut claims {
                let claim = self.claims.iter().find(|claim| claim.id == line.claim);
                let Some(claim) = claim.filter(|claim| reading.judges(claim)) else { continue };
                if self.parts_of(claim).iter().any(|part| part.on == On::Testbed) {
                    continue;
                }
                let judgement =
                    judge(&reading.of(claim), &evaluator).map_err(|e| fault(claim, e))?;
                let (name, about) = (reading.name.clone(), reading.about.clone());
                line.readings.push(ReadingLine { reading: name, about, judgement });
            }
        }
        let reproduced = Reproduced {
            experiment: self.id.clone(),
            title: self.title.clone(),
            quick: options.quick,
            build: crate::build_id().to_owned(),
            file,
            runs,
            claims,
            charts,
            reused,
        };
        let text = serde_json::to_string_pretty(&reproduced).expect("plain data");
        save(&out, CLAIMS_FILE, format!("{text}\n").as_bytes())?;
        Ok(reproduced)
    }

    /// The parts that a claim measures.
    fn parts_of(&self, claim: &Claim) -> Vec<&Part> {
        let mut names = Vec::new();
        for formula in claim.test.formulas() {
            formula.expr.leaves(&mut |leaf| {
                names.push(leaf.selector("part").unwrap_or(super::file::MAIN).to_owned());
            });
        }
        self.parts.iter().filter(|part| names.contains(&part.name)).collect()
    }

    /// Whether a claim is reported: of a testbed alone only those about real packets.
    fn is_wanted(&self, claim: &Claim, places: Places) -> bool {
        places != Places::Testbed || self.parts_of(claim).iter().any(|p| p.on == On::Testbed)
    }

    /// Whether it has a part with real packets.
    pub fn has_testbed_part(&self) -> bool {
        self.parts.iter().any(|part| part.on == On::Testbed)
    }

    /// A claim with its verdict, without readings.
    pub fn line(&self, claim: &Claim, judgement: Judgement) -> ClaimLine {
        let tolerance = match &claim.test {
            Test::Number { at_least, at_most, .. } => Tolerance::Range([*at_least, *at_most]),
            Test::Order { slack, .. } if *slack > 0.0 => {
                Tolerance::Words(format!("falls, by at most {slack} the other way"))
            }
            Test::Order { .. } => Tolerance::Words("each above the next".to_owned()),
            Test::Blind { .. } | Test::Nothing => Tolerance::None,
        };
        let is_different = judgement.verdict == super::ClaimVerdict::Differs;
        ClaimLine {
            experiment: self.id.clone(),
            claim: claim.id.clone(),
            rows: claim.rows.iter().map(|row| format!("{} {row}", self.paper())).collect(),
            kind: claim.test.kind().to_owned(),
            text: claim.text.clone(),
            paper: claim.paper.clone(),
            source: claim.source.clone(),
            tolerance,
            unit: claim.unit.clone(),
            cause: if is_different { claim.differs.clone() } else { String::new() },
            judgement,
            readings: Vec::new(),
        }
    }

    fn run_part<S: Simulate>(
        &self,
        part: &Part,
        reading: Option<&Reading>,
        options: &ReproduceOptions,
        out: &Path,
        execute: &mut Execute<'_, S>,
    ) -> Result<PartResult, ReproduceError> {
        let study = self.study::<S>(part, reading, options.quick, &options.folder)?;
        let out = match reading {
            Some(reading) => out.join(format!("reading-{}", reading.name)).join(&part.name),
            None => out.join(&part.name),
        };
        let own = Options { out, ..options.execution.clone() };
        match &part.search {
            Some(question) => self.search(part, &study, question, &own, execute),
            None => {
                let runs = study.runs();
                let reports = execute(&study, &runs, &own)?;
                let reused = reports.iter().filter(|report| report.reused).count();
                let ran = runs.iter().zip(reports).map(|(run, report)| ran(run, report)).collect();
                Ok(PartResult { runs: ran, answers: Vec::new(), axes: axes(&study), reused })
            }
        }
    }

    fn search<S: Simulate>(
        &self,
        part: &Part,
        study: &Study<S>,
        question: &Question,
        options: &Options,
        execute: &mut Execute<'_, S>,
    ) -> Result<PartResult, ReproduceError> {
        let wrong = |source: ScenarioError| ReproduceError::SetUp {
            experiment: self.id.clone(),
            part: part.name.clone(),
            source,
        };
        let mut search = CapacitySearch::new(study, question).map_err(wrong)?;
        let (mut all, mut reused) = (Vec::new(), 0);
        loop {
            let runs = search.next_runs().map_err(wrong)?;
            if runs.is_empty() {
                break;
            }
            let reports = execute(search.study(), &runs, options)?;
            search.learn(&reports).map_err(wrong)?;
            reused += reports.iter().filter(|report| report.reused).count();
            all.extend(runs.iter().zip(reports).map(|(run, report)| ran(run, report)));
        }
        Ok(PartResult { runs: all, answers: search.answers(), axes: axes(study), reused })
    }
}

/// Whether a reading changes a part. Readings change simulations.
fn changes(reading: &Reading, part: &Part) -> bool {
    let named = reading.parts.is_empty() || reading.parts.contains(&part.name);
    named && !reading.set.is_empty() && part.on == On::Simulator
}

/// Removes runs with invalid timing from a part on a testbed, and says how many and why.
fn without_invalid(result: &mut PartResult) -> Option<String> {
    let all = result.runs.len();
    let invalid =
        result.runs.iter().find_map(|run| run.summary.timing_problems.first().cloned())?;
    result.runs.retain(|run| run.summary.timing_problems.is_empty());
    let valid = result.runs.len();
    Some(format!("the timing of {} of {all} runs was invalid: {invalid}", all - valid))
}

fn ran<S: Simulate>(run: &PlannedRun<S>, report: RunReport) -> Ran {
    Ran {
        transport: run.subject.label.clone(),
        labels: run.labels.clone(),
        seed: run.seed,
        dir: report.dir,
        summary: report.summary,
    }
}

/// The axes of a study's sweep with their labels, in order.
fn axes<S: Simulate>(study: &Study<S>) -> Vec<(String, Vec<String>)> {
    let mut axes: Vec<(String, Vec<String>)> = Vec::new();
    for (name, label) in study.points().iter().flat_map(|point| &point.labels) {
        match axes.iter_mut().find(|(axis, _)| axis == name) {
            Some((_, labels)) if labels.contains(label) => {}
            Some((_, labels)) => labels.push(label.clone()),
            None => axes.push((name.clone(), vec![label.clone()])),
        }
    }
    axes
}

type Planned<'a> = BTreeMap<&'a str, (Vec<(String, crate::sweep::Labels)>, Option<Question>)>;

/// Refuses a chart that the planned runs cannot draw.
fn check_chart(chart: &ChartSpec, planned: &Planned<'_>) -> Result<(), String> {
    let Some((runs, search)) = planned.get(&*chart.part) else {
        return Err(format!("there is no part `{}`", chart.part));
    };
    let vary = search.as_ref().map(|question| &*question.vary).unwrap_or_default();
    let mut labels: BTreeSet<String> = chart.at.iter().cloned().collect();
    if labels.is_empty() {
        let own = runs.iter().flat_map(|(_, labels)| labels);
        let own = own.filter(|(axis, _)| is_axis(axis, &chart.x) && axis != vary);
        labels.extend(own.map(|(_, label)| label.clone()));
    }
    if labels.is_empty() {
        return Err(format!("there is no axis `{}`", chart.x));
    }
    let expr = Expr::parse(&chart.y)?;
    let mut transports: BTreeSet<String> = chart.transports.iter().cloned().collect();
    if transports.is_empty() {
        transports.extend(runs.iter().map(|(transport, _)| transport.clone()));
    }
    let unknown = chart.paper.keys().find(|name| !transports.contains(*name));
    if let Some(name) = unknown {
        return Err(format!("`paper` has points of `{name}`, which the chart does not draw"));
    }
    let mut wrong = None;
    for (transport, label) in transports.iter().flat_map(|t| labels.iter().map(move |l| (t, l))) {
        point_of(chart, &expr, transport, label).leaves(&mut |leaf| {
            wrong = wrong.take().or_else(|| check_leaf(leaf, planned).err());
        });
    }
    wrong.map_or(Ok(()), Err)
}

/// Refuses a measurement that no planned run has.
fn check_leaf(leaf: &super::expression::Leaf, planned: &Planned<'_>) -> Result<(), String> {
    if !measure::is_known(&leaf.name) {
        let near = nearest(&leaf.name, measure::names());
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        return Err(format!("there is no measurement `{}`{near}", leaf.name));
    }
    let name = leaf.selector("part").unwrap_or(super::file::MAIN);
    let Some((runs, search)) = planned.get(name) else {
        return Err(format!("there is no part `{name}`"));
    };
    if (leaf.name == "capacity") != search.is_some() {
        let what = if search.is_some() { "searches for a capacity" } else { "has no search" };
        return Err(format!("`{leaf}`: part `{name}` {what}"));
    }
    let varied = search.as_ref().map(|question| question.vary.clone()).unwrap_or_default();
    let transports: Vec<&str> =
        ["transport", "over"].iter().filter_map(|key| leaf.selector(key)).collect();
    for transport in transports {
        if !runs.iter().any(|(own, _)| own == transport) {
            return Err(format!("`{leaf}`: part `{name}` has no transport `{transport}`"));
        }
    }
    for Selector { key, value } in &leaf.selectors {
        if FILTERS.contains(&&**key) || is_axis(&varied, key) {
            continue;
        }
        let of_axis = |labels: &crate::sweep::Labels| {
            labels.iter().any(|(axis, label)| is_axis(axis, key) && label == value)
        };
        if !runs.iter().any(|(_, labels)| of_axis(labels)) {
            return Err(format!("`{leaf}`: no point of the sweep has {key} = {value}"));
        }
    }
    Ok(())
}

/// The value of a chart at one point of one curve.
fn point_of(chart: &ChartSpec, expr: &Expr, transport: &str, label: &str) -> Expr {
    let selector = |key: &str, value: &str| Selector { key: key.into(), value: value.into() };
    expr.selecting(&[
        selector("part", &chart.part),
        selector("transport", transport),
        selector(&chart.x, label),
    ])
}

fn drawn(
    chart: &ChartSpec,
    results: &BTreeMap<String, PartResult>,
    evaluator: &Evaluator<'_>,
) -> Result<ChartData, MeasureError> {
    let wrong = |what: String| MeasureError::Wrong(format!("{}: {what}", chart.title));
    let part = results.get(&chart.part).ok_or_else(|| wrong("its part did not run".into()))?;
    let labels = if chart.at.is_empty() {
        let own = part.axes.iter().find(|(axis, _)| is_axis(axis, &chart.x));
        let (_, labels) = own.ok_or_else(|| wrong(format!("there is no axis `{}`", chart.x)))?;
        labels
    } else {
        &chart.at
    };
    let expr = Expr::parse(&chart.y).map_err(wrong)?;
    let mut transports = chart.transports.clone();
    if transports.is_empty() {
        for run in &part.runs {
            if !transports.contains(&run.transport) {
                transports.push(run.transport.clone());
            }
        }
    }
    let mut curves = Vec::new();
    for transport in transports {
        let (mut values, mut half) = (Vec::new(), Vec::new());
        for label in labels {
            let at = point_of(chart, &expr, &transport, label);
            let Estimate { value, interval, .. } = evaluator.estimate(&at)?;
            values.push(value.filter(|value| value.is_finite()));
            half.push(interval.map(|(low, high)| (high - low) / 2.0).filter(|h| h.is_finite()));
        }
        let paper = chart.paper.get(&transport).cloned().unwrap_or_default();
        curves.push(CurveData { transport, values, half, paper });
    }
    let (title, x, unit) = (chart.title.clone(), chart.x.clone(), chart.unit.clone());
    Ok(ChartData { title, x, unit, labels: labels.clone(), curves })
}

impl From<ExperimentError> for ReproduceError {
    fn from(error: ExperimentError) -> ReproduceError {
        ReproduceError::Catalogue(CatalogueError::Experiment(error))
    }
}
