//! The `experiment` table of a file of the catalogue.
//!
//! The rest of the file is a scenario, so every command that takes a scenario takes these files.

use super::expression::Expr;
use super::{Blind, CatalogueError, Row};
use crate::capacity::Question;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use toml::{Table, Value};

/// An experiment of a paper: set-ups, claims, and what the paper leaves open.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Its name, such as `ndp/fig14`.
    pub id: String,
    /// What the figure shows, in one line.
    pub title: String,
    /// The rows of the evaluation tables that it covers, see [`super::Row`].
    pub rows: Vec<String>,
    /// What the paper leaves open, and how it is read here.
    pub open: Vec<Open>,
    /// What runs; the scenario of the file itself is the part `main`.
    pub parts: Vec<Part>,
    /// What is compared with the paper.
    pub claims: Vec<Claim>,
    /// Set-ups that read the paper otherwise.
    pub readings: Vec<Reading>,
    /// Charts of the paper's points beside ours.
    pub charts: Vec<ChartSpec>,
    /// The text of the file.
    pub text: String,
}

/// Something the paper leaves open.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// What is open.
    pub what: String,
    /// How it is read here.
    pub reading: String,
    /// Why it is read so.
    pub why: String,
}

/// Where a part runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum On {
    /// In the simulator.
    #[default]
    Simulator,
    /// With real packets, on a testbed of this machine.
    Testbed,
}

/// A set-up of an experiment: its scenario with changes.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// A scenario file instead of the experiment's own, relative to the catalogue's folder.
    pub scenario: Option<String>,
    /// Changes to the scenario, as for `--set`.
    pub set: Vec<String>,
    /// Further changes with `--quick`.
    pub quick: Vec<String>,
    /// The capacity that is searched for; none for a plain sweep.
    pub search: Option<Question>,
    /// Where it runs.
    pub on: On,
}

/// A claim of the paper, or a measurement that is reported without an expectation.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Its name within the experiment.
    pub id: String,
    /// What it says, in one sentence.
    pub text: String,
    /// What is compared.
    pub test: Test,
    /// What the paper has, in words or as a number; empty for a measurement.
    pub paper: String,
    /// Where the expectation comes from, such as `text` or `figure`.
    pub source: String,
    /// Where the tolerance comes from.
    pub tolerance_from: String,
    /// Unit of the value.
    pub unit: String,
    /// The rows of the evaluation tables that it belongs to; all of its experiment by default.
    pub rows: Vec<String>,
    /// Why it cannot run, if so.
    pub cannot_run: Option<String>,
    /// Why it differs as far as known; shown beside the verdict `differs`.
    pub differs: String,
}

/// What a claim compares.
#[derive(Debug, Clone)]
pub enum Test {
    /// A number within bounds.
    Number {
        /// The value.
        value: Formula,
        /// The least value accepted.
        at_least: Option<f64>,
        /// The greatest value accepted.
        at_most: Option<f64>,
    },
    /// Values in falling order.
    Order {
        /// The values.
        values: Vec<Formula>,
        /// How far a value may exceed the one before; 0 for a strict order.
        slack: f64,
        /// What the kind is called: `ordering`, or `shape` along the axis of a figure.
        shape: bool,
    },
    /// A measurement without an expectation: the paper's value is left out on purpose.
    Blind {
        /// The value.
        value: Formula,
    },
    /// Nothing to measure, because it cannot run.
    Nothing,
}

/// An expression with its text.
#[derive(Debug, Clone)]
pub struct Formula {
    pub(crate) text: String,
    pub(crate) expr: Expr,
}

impl Formula {
    fn parse(text: &str) -> Result<Formula, String> {
        Ok(Formula { text: text.to_owned(), expr: Expr::parse(text)? })
    }

    /// The expression as it is written in the file.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Test {
    /// The kind of comparison, as in the JSON of `reproduce`.
    pub fn kind(&self) -> &'static str {
        match self {
            Test::Number { .. } => "number",
            Test::Order { shape: false, .. } => "ordering",
            Test::Order { shape: true, .. } => "shape",
            Test::Blind { .. } => "measurement",
            Test::Nothing => "none",
        }
    }

    /// Its expressions.
    pub(crate) fn formulas(&self) -> Vec<&Formula> {
        match self {
            Test::Number { value, .. } | Test::Blind { value } => vec![value],
            Test::Order { values, .. } => values.iter().collect(),
            Test::Nothing => Vec::new(),
        }
    }
}

/// Another reading of the paper: the parts with one thing changed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// Its name, which is also a directory of results.
    pub name: String,
    /// What it reads otherwise, in a sentence.
    pub about: String,
    /// Changes to the scenario, as for `--set`.
    #[serde(default)]
    pub set: Vec<String>,
    /// The parts that it changes; all by default.
    #[serde(default)]
    pub parts: Vec<String>,
    /// The claims that it judges again; all with an expectation by default.
    #[serde(default)]
    pub claims: Vec<String>,
    /// Other expressions for claims, by the claim's name.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// Whether `--quick` leaves it out.
    #[serde(default)]
    pub full_only: bool,
}

/// A chart of one measurement over an axis of the sweep, with the paper's points.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChartSpec {
    /// Its title.
    pub title: String,
    /// The part; `main` by default.
    #[serde(default = "main_part")]
    pub part: String,
    /// The axis of the sweep, or the selector that `at` has values of.
    pub x: String,
    /// Values of the selector `x`, such as ranks; those of the axis by default.
    #[serde(default)]
    pub at: Vec<String>,
    /// The value, an expression without transport and axis.
    pub y: String,
    /// Unit of the value.
    #[serde(default)]
    pub unit: String,
    /// The transports; all of the part by default.
    #[serde(default)]
    pub transports: Vec<String>,
    /// The paper's points, by transport.
    #[serde(default)]
    pub paper: BTreeMap<String, Vec<[f64; 2]>>,
}

fn main_part() -> String {
    MAIN.to_owned()
}

/// The name of the part that is the file's own scenario.
pub(crate) const MAIN: &str = "main";

#[derive(Deserialize)]
struct File {
    experiment: Option<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    title: String,
    rows: Vec<String>,
    #[serde(default)]
    open: Vec<Open>,
    /// Whether the file's own scenario runs; a file whose parts replace it says no.
    #[serde(default = "yes")]
    main: bool,
    #[serde(default)]
    on: On,
    search: Option<WrittenSearch>,
    #[serde(default)]
    quick: Vec<String>,
    /// Changes of every part with `--quick`.
    #[serde(default)]
    quick_all: Vec<String>,
    #[serde(default)]
    part: Vec<WrittenPart>,
    #[serde(default)]
    claim: Vec<Table>,
    #[serde(default)]
    reading: Vec<Reading>,
    #[serde(default)]
    chart: Vec<ChartSpec>,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPart {
    name: String,
    scenario: Option<String>,
    #[serde(default)]
    set: Vec<String>,
    #[serde(default)]
    quick: Vec<String>,
    search: Option<WrittenSearch>,
    #[serde(default)]
    on: On,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSearch {
    vary: String,
    until: String,
    from: Option<String>,
    to: Option<String>,
    step: Option<String>,
    #[serde(default)]
    smallest: bool,
    max_repetitions: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenClaim {
    id: String,
    text: String,
    #[serde(default)]
    value: Option<String>,
    #[serde(default)]
    order: Option<Vec<String>>,
    /// Like `order`, along the axis of a figure.
    #[serde(default)]
    falling: Option<Vec<String>>,
    #[serde(default)]
    slack: f64,
    #[serde(default)]
    paper: Option<Value>,
    /// The tolerance around `paper`.
    tolerance: Option<f64>,
    /// The tolerance around `paper` in per cent of it.
    tolerance_percent: Option<f64>,
    at_least: Option<f64>,
    at_most: Option<f64>,
    #[serde(default)]
    source: String,
    #[serde(default)]
    tolerance_from: String,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    rows: Vec<String>,
    #[serde(default)]
    blind: bool,
    cannot_run: Option<String>,
    #[serde(default)]
    differs: String,
}

impl From<WrittenSearch> for Question {
    fn from(w: WrittenSearch) -> Question {
        Question {
            vary: w.vary,
            until: w.until,
            from: w.from,
            to: w.to,
            step: w.step,
            smallest: w.smallest,
            repetitions_max: w.max_repetitions,
        }
    }
}

impl Experiment {
    /// Reads the file of an experiment.
    pub(crate) fn read(id: &str, text: &str) -> Result<Experiment, String> {
        let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
        let written = file.experiment.ok_or("it has no [experiment]")?;
        let mut parts = Vec::new();
        if written.main {
            parts.push(Part {
                name: MAIN.to_owned(),
                scenario: None,
                set: Vec::new(),
                quick: written.quick,
                search: written.search.map(Question::from),
                on: written.on,
            });
        }
        for part in written.part {
            let WrittenPart { name, scenario, set, quick, search, on } = part;
            let search = search.map(Question::from);
            parts.push(Part { name, scenario, set, quick, search, on });
        }
        for part in &mut parts {
            part.quick.extend(written.quick_all.iter().cloned());
        }
        let mut claims = Vec::new();
        for table in written.claim {
            for table in expanded(table)? {
                claims.push(claim(table, &written.rows)?);
            }
        }
        let experiment = Experiment {
            id: id.to_owned(),
            title: written.title,
            rows: written.rows,
            open: written.open,
            parts,
            claims,
            readings: written.reading,
            charts: written.chart,
            text: text.to_owned(),
        };
        experiment.check_names()?;
        Ok(experiment)
    }

    /// Refuses names that are used twice or not there.
    fn check_names(&self) -> Result<(), String> {
        let unique = |what: &str, names: Vec<&str>| {
            let twice = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name));
            twice.map_or(Ok(()), |(_, name)| Err(format!("two {what} are called `{name}`")))
        };
        unique("parts", self.parts.iter().map(|p| &*p.name).collect())?;
        unique("claims", self.claims.iter().map(|c| &*c.id).collect())?;
        unique("readings", self.readings.iter().map(|r| &*r.name).collect())?;
        let part = |name: &str| {
            let found = self.parts.iter().any(|p| p.name == name);
            if found { Ok(()) } else { Err(format!("there is no part `{name}`")) }
        };
        for claim in &self.claims {
            for formula in claim.test.formulas() {
                let mut result = Ok(());
                formula.expr.leaves(&mut |leaf| {
                    let name = leaf.selector("part").unwrap_or(MAIN);
                    let found = part(name).map_err(|e| format!("claim `{}`: {e}", claim.id));
                    result = std::mem::replace(&mut result, Ok(())).and(found);
                });
                result?;
            }
            if let Some(row) = claim.rows.iter().find(|row| !self.rows.contains(row)) {
                return Err(format!("claim `{}`: `rows` has no `{row}`", claim.id));
            }
        }
        for reading in &self.readings {
            reading.parts.iter().try_for_each(|name| part(name))?;
            let named = reading.claims.iter().chain(reading.values.keys());
            for id in named {
                if !self.claims.iter().any(|claim| claim.id == *id) {
                    return Err(format!("reading `{}`: there is no claim `{id}`", reading.name));
                }
            }
            for text in reading.values.values() {
                Expr::parse(text)?;
            }
        }
        for chart in &self.charts {
            part(&chart.part)?;
            Expr::parse(&chart.y)?;
        }
        Ok(())
    }

    /// Refuses an expectation that a blind row does not have.
    pub(crate) fn check_blind(&self, row: &Row) -> Result<(), String> {
        let Some(blind) = row.blind else { return Ok(()) };
        let is_refused = |claim: &&Claim| {
            let has_expectation = matches!(claim.test, Test::Number { .. } | Test::Order { .. });
            let is_words = blind == Blind::Figure && claim.source == "text";
            claim.rows.contains(&row.row) && has_expectation && !is_words
        };
        match self.claims.iter().find(is_refused) {
            None => Ok(()),
            Some(claim) => Err(format!("claim `{}`: row `{}` is blind", claim.id, row.row)),
        }
    }

    /// A hash of what runs and how it is judged: of the file without its comments and without the
    /// words that explain results (`open`, `differs`), and of the scenarios that its parts name.
    pub fn fingerprint(&self, folder: &Path) -> Result<String, CatalogueError> {
        // It was read before.
        let mut file: Table = toml::from_str(&self.text).unwrap_or_default();
        if let Some(experiment) = file.get_mut("experiment").and_then(Value::as_table_mut) {
            experiment.remove("open");
            let claims = experiment.get_mut("claim").and_then(Value::as_array_mut);
            for claim in claims.into_iter().flatten().filter_map(Value::as_table_mut) {
                claim.remove("differs");
            }
        }
        let mut hash = blake3::Hasher::new();
        hash.update(file.to_string().as_bytes());
        for scenario in self.parts.iter().filter_map(|part| part.scenario.as_ref()) {
            hash.update(super::read(&folder.join(scenario))?.as_bytes());
        }
        Ok(hash.finalize().to_hex()[..16].to_owned())
    }

    /// Its paper, the first part of its name.
    pub fn paper(&self) -> &str {
        self.id.split('/').next().unwrap_or_default()
    }
}

impl Reading {
    /// Whether it judges a claim again.
    pub fn judges(&self, claim: &Claim) -> bool {
        let has_expectation = matches!(claim.test, Test::Number { .. } | Test::Order { .. });
        let named = self.claims.is_empty() || self.claims.contains(&claim.id);
        claim.cannot_run.is_none() && has_expectation && named
    }

    /// A claim as it is judged under this reading.
    pub(crate) fn of(&self, claim: &Claim) -> Claim {
        let mut own = claim.clone();
        if let (Some(text), Test::Number { value, .. }) =
            (self.values.get(&claim.id), &mut own.test)
            && let Ok(formula) = Formula::parse(text)
        {
            *value = formula;
        }
        own
    }
}

/// The claims that one table stands for. `each = { n = [1, 2], paper = [0.5, 0.6] }` makes one for
/// each place of its lists; `{n}` in a text is replaced, and a text that is `{paper}` alone becomes
/// the value itself.
fn expanded(mut table: Table) -> Result<Vec<Table>, String> {
    let Some(each) = table.remove("each") else { return Ok(vec![table]) };
    let Value::Table(each) = each else { return Err("`each` is a table of lists".into()) };
    let mut lists: Vec<(&String, &Vec<Value>)> = Vec::new();
    for (key, list) in &each {
        let Value::Array(list) = list else { return Err(format!("each.{key} is not a list")) };
        lists.push((key, list));
    }
    let count = lists.first().map_or(0, |(_, list)| list.len());
    if let Some((key, _)) = lists.iter().find(|(_, list)| list.len() != count) {
        return Err(format!("the lists of `each` differ in length: {key}"));
    }
    let at = |i: usize| {
        let values: Vec<(String, &Value)> =
            lists.iter().map(|(key, list)| (format!("{{{key}}}"), &list[i])).collect();
        table.iter().map(|(key, value)| (key.clone(), replaced(value, &values))).collect()
    };
    Ok((0..count).map(at).collect())
}

fn replaced(value: &Value, values: &[(String, &Value)]) -> Value {
    match value {
        Value::String(text) => {
            if let Some((_, whole)) = values.iter().find(|(name, _)| name == text) {
                return (*whole).clone();
            }
            let text = values.iter().fold(text.clone(), |text, (name, value)| {
                let plain = match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                text.replace(name, &plain)
            });
            Value::String(text)
        }
        Value::Array(items) => Value::Array(items.iter().map(|v| replaced(v, values)).collect()),
        other => other.clone(),
    }
}

fn claim(table: Table, rows: &[String]) -> Result<Claim, String> {
    let name = table.get("id").and_then(Value::as_str).unwrap_or("?").to_owned();
    let fail = |what: String| format!("claim `{name}`: {what}");
    if rows.len() > 1 && !table.contains_key("rows") {
        return Err(fail("the experiment has several rows: name its own with `rows`".into()));
    }
    let w: WrittenClaim = Value::Table(table)
        .try_into()
        .map_err(|e: toml::de::Error| fail(e.message().to_owned()))?;
    let paper_number = match &w.paper {
        Some(Value::Integer(i)) => Some(*i as f64),
        Some(Value::Float(x)) => Some(*x),
        _ => None,
    };
    let around = match (w.tolerance, w.tolerance_percent) {
        (Some(t), None) => Some(t),
        (None, Some(p)) => paper_number.map(|x| x.abs() * p / 100.0),
        (None, None) => None,
        (Some(_), Some(_)) => return Err(fail("two tolerances".into())),
    };
    if (w.tolerance.is_some() || w.tolerance_percent.is_some()) && paper_number.is_none() {
        return Err(fail("a tolerance needs a number as `paper`".into()));
    }
    let (low, high) = match (around, paper_number) {
        (Some(t), Some(x)) => (Some(x - t), Some(x + t)),
        _ => (None, None),
    };
    let (at_least, at_most) = (w.at_least.or(low), w.at_most.or(high));
    let formula = |text: &String| Formula::parse(text).map_err(&fail);
    let order = w.order.as_ref().or(w.falling.as_ref());
    let test = match (&w.value, order) {
        (Some(_), Some(_)) => return Err(fail("has both a value and an order".into())),
        (Some(text), None) if w.blind => {
            if at_least.is_some() || at_most.is_some() || w.paper.is_some() {
                return Err(fail("is blind and has an expectation".into()));
            }
            Test::Blind { value: formula(text)? }
        }
        (Some(text), None) => {
            if at_least.is_none() && at_most.is_none() && w.cannot_run.is_none() {
                return Err(fail("has no bounds: give at_least, at_most or a tolerance".into()));
            }
            Test::Number { value: formula(text)?, at_least, at_most }
        }
        (None, Some(values)) => {
            if values.len() < 2 {
                return Err(fail("an order has at least two values".into()));
            }
            let values = values.iter().map(formula).collect::<Result<_, _>>()?;
            Test::Order { values, slack: w.slack, shape: w.falling.is_some() }
        }
        (None, None) if w.cannot_run.is_some() => Test::Nothing,
        (None, None) => return Err(fail("has no value".into())),
    };
    let paper = match w.paper {
        None => String::new(),
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
    };
    if !matches!(test, Test::Blind { .. }) && w.source.is_empty() {
        return Err(fail("has no source".into()));
    }
    Ok(Claim {
        id: w.id,
        text: w.text,
        test,
        paper,
        source: w.source,
        tolerance_from: w.tolerance_from,
        unit: w.unit,
        rows: if w.rows.is_empty() { rows.to_vec() } else { w.rows },
        cannot_run: w.cannot_run,
        differs: w.differs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "[experiment]\ntitle = 't'\nrows = ['9']\n";

    fn read(more: &str) -> Result<Experiment, String> {
        Experiment::read("d3/fig9", &format!("{HEAD}{more}"))
    }

    #[test]
    fn one_table_may_stand_for_several_claims() {
        let text = "[[experiment.claim]]\nid = 'at-{n}'\ntext = '{n} senders'\nsource = 'text'\n\
                    value = 'deadlines_met[d3, workers={n}]'\npaper = '{p}'\ntolerance = 0.5\n\
                    each = { n = [1, 22], p = [2.0, 4] }\n";
        let experiment = read(text).unwrap();
        let [first, second] = &experiment.claims[..] else { panic!("two claims") };
        assert_eq!((&*first.id, &*second.id), ("at-1", "at-22"));
        let Test::Number { value, at_least, at_most } = &second.test else { panic!("a number") };
        assert_eq!(value.text(), "deadlines_met[d3, workers=22]");
        assert_eq!((*at_least, *at_most), (Some(3.5), Some(4.5)));
    }

    #[test]
    fn faults_are_named() {
        let claim = |more: &str| format!("[[experiment.claim]]\nid = 'a'\ntext = 't'\n{more}\n");
        for (more, part) in [
            (claim("source = 's'"), "claim `a`: has no value"),
            (claim("value = 'x'\nsource = 's'"), "has no bounds"),
            (claim("value = 'x'\nat_most = 1"), "has no source"),
            (claim("value = 'x'\nblind = true\nat_most = 1"), "blind and has an expectation"),
            (claim("value = 'x'\ntolerance = 1\npaper = 'two'\nsource = 's'"), "needs a number"),
            (claim("value = 'x['\nat_most = 1\nsource = 's'"), "expected a transport"),
            (claim("value = 'x[part=b]'\nat_most = 1\nsource = 's'"), "there is no part `b`"),
            (claim("vaule = 'x'"), "unknown field `vaule`"),
            (claim("value = 'x'\nblind = true").repeat(2), "two claims are called `a`"),
        ] {
            let error = read(&more).unwrap_err();
            assert!(error.contains(part), "{more}: {error}");
        }
        assert!(Experiment::read("a/b", "").unwrap_err().contains("no [experiment]"));
        let two_rows = HEAD.replace("['9']", "['9', '10']") + &claim("value = 'x'\nblind = true");
        assert!(Experiment::read("a/b", &two_rows).unwrap_err().contains("several rows"));
    }

    #[test]
    fn blind_rows_refuse_expectations() {
        let claim = |source: &str| {
            let id = format!("id = 'a'\ntext = 't'\nsource = '{source}'\n");
            format!("[[experiment.claim]]\n{id}value = 'x'\nat_most = 1\n")
        };
        let row = |blind| {
            let (paper, row, what) = ("d3".into(), "9".into(), String::new());
            Row { paper, row, what, blind }
        };
        let refused = |source: &str, blind| {
            let experiment = read(&claim(source)).unwrap();
            experiment.check_blind(&row(blind)).is_err()
        };
        assert!(!refused("figure", None) && !refused("text", Some(Blind::Figure)));
        assert!(refused("figure", Some(Blind::Figure)) && refused("text", Some(Blind::All)));
        let measured = "[[experiment.claim]]\nid = 'a'\ntext = 't'\nvalue = 'x'\nblind = true\n";
        assert_eq!(read(measured).unwrap().check_blind(&row(Some(Blind::All))), Ok(()));
    }

    /// Words that explain results do not change what was measured; bounds and set-ups do.
    #[test]
    fn a_fingerprint_is_of_what_runs_and_how_it_is_judged() {
        let claim = |more: &str| {
            let id = "id = 'a'\ntext = 't'\nsource = 's'\nvalue = 'x'\n";
            let text = format!("# A comment\n{HEAD}[[experiment.claim]]\n{id}{more}\n");
            let experiment = Experiment::read("d3/fig9", &text).unwrap();
            experiment.fingerprint(Path::new("nowhere")).unwrap()
        };
        let first = claim("at_most = 1");
        assert_eq!(claim("at_most = 1\ndiffers = 'why'").len(), 16);
        assert_eq!(claim("at_most = 1 # here\ndiffers = 'why'"), first);
        assert_ne!(claim("at_most = 2"), first);
    }
}
