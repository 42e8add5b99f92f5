//! Scenarios from Python: a file, a text, or a dict that becomes a text.

use crate::PunctualError;
use crate::call::call;
use punctual_lab::Study;
use pyo3::prelude::*;
use std::path::PathBuf;

/// A scenario as Python gives it.
#[derive(FromPyObject)]
pub(crate) struct Scenario {
    /// Its file, if it has one.
    path: Option<PathBuf>,
    /// Its text, if it has no file.
    text: Option<String>,
    /// Its name in messages, and in results if it has no `name`.
    name: String,
    /// The directory of the files that it names.
    folder: PathBuf,
    /// Changes, each as `KEY=VALUE`.
    overrides: Vec<String>,
}

impl Scenario {
    pub(crate) fn load(&self) -> anyhow::Result<Study> {
        match (&self.path, &self.text) {
            (Some(path), _) => Ok(Study::load(path, &self.overrides)?),
            (None, Some(text)) => {
                Ok(Study::from_text(&self.name, text, &self.folder, &self.overrides)?)
            }
            (None, None) => anyhow::bail!("the scenario is neither a file nor a text"),
        }
    }
}

/// The TOML of a scenario that is given as JSON.
#[pyfunction]
pub(crate) fn to_toml(json: &str) -> PyResult<String> {
    let wrong = |error: &dyn std::fmt::Display| {
        PunctualError::new_err(format!("the scenario cannot be written as TOML: {error}"))
    };
    let value: toml::Value = serde_json::from_str(json).map_err(|error| wrong(&error))?;
    toml::to_string_pretty(&value).map_err(|error| wrong(&error))
}

/// Checks a scenario. Returns JSON: its name, its runs and its offered load in words.
#[pyfunction]
pub(crate) fn check(py: Python<'_>, scenario: Scenario) -> PyResult<String> {
    call(py, None, |_| {
        let study = scenario.load()?;
        let mut points = Vec::new();
        for point in study.points() {
            let load = study.offered_load(&point.scenario)?;
            points.push(serde_json::json!({
                "values": point.labels, "offered_load": load.to_string(),
                "warnings": load.warnings,
            }));
        }
        let runs = study.runs().len();
        Ok(serde_json::json!({ "name": study.name(), "runs": runs, "points": points }).to_string())
    })
}
