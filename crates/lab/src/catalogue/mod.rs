//! The catalogue: the experiments of the papers, each a file with its set-up and claims.
//!
//! `experiments/<paper>/<figure>.toml` is a scenario with an `experiment` table
//! ([`Experiment`]): which claims of the paper it measures, what each accepts and from where, and
//! what the paper leaves open. `experiments/rows.toml` lists the rows of the evaluation tables that
//! the catalogue must cover. [`Experiment::reproduce`] runs one and judges its claims.

mod estimate;
mod expression;
mod file;
mod judge;
mod measure;
mod reproduce;
mod results;
mod words;

pub use estimate::Estimate;
pub use file::{ChartSpec, Claim, Experiment, Formula, On, Open, Part, Reading, Test};
pub use judge::{ClaimVerdict, Judgement, Measured};
pub use measure::OTHERS as MEASUREMENTS;
pub use reproduce::{
    CLAIMS_FILE, ChartData, ClaimLine, CurveData, Execute, Places, ReadingLine, ReproduceError,
    ReproduceOptions, Reproduced, Tolerance,
};
pub use results::{MadeBy, ResultsKind, ResultsManifest, ResultsState};

pub use words::sums;

use crate::suggest::nearest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The experiments of a folder.
#[derive(Debug, Clone)]
pub struct Catalogue {
    /// The folder.
    pub folder: PathBuf,
    /// Its experiments, by paper in the order of `rows.toml`, then by name.
    pub experiments: Vec<Experiment>,
    /// The rows of the evaluation tables.
    pub rows: Vec<Row>,
    /// How long each experiment takes, by its name.
    pub times: BTreeMap<String, Times>,
}

/// A row of the evaluation tables that the catalogue must cover.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The paper.
    pub paper: String,
    /// The row's first cell, such as `14a`.
    pub row: String,
    /// What it measures.
    pub what: String,
    /// What is left out on purpose, so that nobody can fit it; nothing by default.
    #[serde(default)]
    pub blind: Option<Blind>,
}

/// What of a row's published values is left out on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blind {
    /// Everything: its claims are measurements without an expectation.
    All,
    /// The values of the figure: claims may expect what the paper's text says.
    Figure,
}

/// How long an experiment takes, as measured when its committed results were made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Times {
    /// With `--quick`.
    pub quick: Option<Cost>,
    /// Without.
    pub full: Option<Cost>,
}

/// What an experiment costs, with its files and verdicts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// CPU seconds.
    pub cpu: f64,
    /// Seconds on two idle processors, which follow from the CPU time of each run.
    pub wall: f64,
}

/// A fault in the file of an experiment.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", path.display())]
pub struct ExperimentError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub what: String,
}

/// Why a catalogue could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// The folder or a file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The folder has no experiments.
    #[error(
        "{} has no experiments; run it in the repository, or name the folder with --catalogue",
        .0.display()
    )]
    Empty(PathBuf),
    /// A file is wrong.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// No experiment has this name.
    #[error(
        "there is no experiment `{name}`{}; `punctual reproduce --list` shows all",
        nearest.as_ref().map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default()
    )]
    Unknown {
        /// The name.
        name: String,
        /// The nearest name.
        nearest: Option<String>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowsFile {
    row: Vec<Row>,
}

/// Name of the file with the rows that the catalogue must cover.
const ROWS_FILE: &str = "rows.toml";
/// Name of the file with the times that experiments take.
const TIMES_FILE: &str = "times.json";

impl Catalogue {
    /// Reads all experiments of a folder.
    pub fn load(folder: &Path) -> Result<Catalogue, CatalogueError> {
        let rows_path = folder.join(ROWS_FILE);
        let rows = match fs::read_to_string(&rows_path) {
            Ok(text) => {
                let file: RowsFile = toml::from_str(&text).map_err(|e| ExperimentError {
                    path: rows_path.clone(),
                    what: e.to_string(),
                })?;
                file.row
            }
            Err(_) => return Err(CatalogueError::Empty(folder.to_owned())),
        };
        let mut papers: Vec<&str> = Vec::new();
        for row in &rows {
            if !papers.contains(&&*row.paper) {
                papers.push(&row.paper);
            }
        }
        let mut experiments = Vec::new();
        for paper in papers {
            for path in files(&folder.join(paper))? {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                let text = read(&path)?;
                let id = format!("{paper}/{stem}");
                let experiment = Experiment::read(&id, &text)
                    .map_err(|what| ExperimentError { path: path.clone(), what })?;
                let unknown = experiment
                    .rows
                    .iter()
                    .find(|own| !rows.iter().any(|row| row.paper == paper && row.row == **own));
                if let Some(row) = unknown {
                    let what = format!("{ROWS_FILE} has no row `{row}` of {paper}");
                    return Err(ExperimentError { path, what }.into());
                }
                for row in rows.iter().filter(|row| row.paper == paper) {
                    experiment
                        .check_blind(row)
                        .map_err(|what| ExperimentError { path: path.clone(), what })?;
                }
                experiments.push(experiment);
            }
        }
        let times_path = folder.join(TIMES_FILE);
        let times = match fs::read_to_string(&times_path) {
            Ok(text) => serde_json::from_str(&text)
                .map_err(|e| ExperimentError { path: times_path, what: e.to_string() })?,
            Err(_) => BTreeMap::new(),
        };
        Ok(Catalogue { folder: folder.to_owned(), experiments, rows, times })
    }

    /// The experiments with these names; a paper stands for all of its. All without names.
    pub fn select(&self, names: &[String]) -> Result<Vec<&Experiment>, CatalogueError> {
        let is_named = |e: &Experiment, name: &str| e.id == name || e.paper() == name;
        for name in names {
            if !self.experiments.iter().any(|e| is_named(e, name)) {
                return Err(CatalogueError::Unknown {
                    name: name.clone(),
                    nearest: self.nearest(name),
                });
            }
        }
        let is_wanted =
            |e: &&Experiment| names.is_empty() || names.iter().any(|name| is_named(e, name));
        Ok(self.experiments.iter().filter(is_wanted).collect())
    }

    fn nearest(&self, name: &str) -> Option<String> {
        // Of a name with a paper, the figures of that paper are nearest.
        if let Some((paper, figure)) = name.split_once('/') {
            let own = self.experiments.iter().filter(|e| e.paper() == paper);
            let figures: Vec<&str> = own.filter_map(|e| e.id.split('/').nth(1)).collect();
            if let Some(near) = nearest(figure, figures) {
                return Some(format!("{paper}/{near}"));
            }
        }
        let ids = self.experiments.iter().map(|e| &*e.id);
        let papers = self.experiments.iter().map(Experiment::paper);
        nearest(name, ids.chain(papers)).map(str::to_owned)
    }

    /// Rows that no claim of any experiment covers.
    pub fn uncovered(&self) -> Vec<&Row> {
        let covers = |row: &Row| {
            let own = self.experiments.iter().filter(|e| e.paper() == row.paper);
            own.flat_map(|e| &e.claims).any(|claim| claim.rows.contains(&row.row))
        };
        self.rows.iter().filter(|row| !covers(row)).collect()
    }
}

fn read(path: &Path) -> Result<String, CatalogueError> {
    fs::read_to_string(path)
        .map_err(|source| CatalogueError::Read { path: path.to_owned(), source })
}

/// The files of experiments in a folder, by name with numbers in order; none if there is no folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>, CatalogueError> {
    let refused = |source| CatalogueError::Read { path: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(refused)?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(refused)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            paths.push(path);
        }
    }
    paths.sort_by_key(|path| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let digits: String = stem
            .chars()
            .skip_while(|c| !c.is_ascii_digit())
            .take_while(char::is_ascii_digit)
            .collect();
        let word: String = stem.chars().take_while(|c| !c.is_ascii_digit()).collect();
        (word, digits.parse::<u32>().unwrap_or(u32::MAX), stem)
    });
    Ok(paths)
}
