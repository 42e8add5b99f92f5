//! The committed results of a catalogue, `results/` in its folder, and whether they are of today's
//! files.

use super::{Catalogue, CatalogueError, Experiment, ExperimentError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Which results: a name of files in `results/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResultsKind {
    /// With `--quick`.
    Quick,
    /// At full size.
    Full,
    /// On real packets.
    Testbed,
}

impl ResultsKind {
    /// All kinds.
    pub const ALL: [ResultsKind; 3] = [ResultsKind::Quick, ResultsKind::Full, ResultsKind::Testbed];

    /// The name of its files without extension, as in `cargo xtask results quick`.
    pub fn name(self) -> &'static str {
        match self {
            ResultsKind::Quick => "quick",
            ResultsKind::Full => "full",
            ResultsKind::Testbed => "testbed",
        }
    }
}

/// What made the results of an experiment: an entry of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct MadeBy {
    /// The commit of the program.
    pub commit: String,
    /// The build of the program.
    pub build: String,
    /// The hash of the experiment's file, see [`Experiment::fingerprint`]. Results of old programs
    /// do not name it.
    pub file: Option<String>,
    /// Number of runs. Results of old programs do not name it.
    pub runs: Option<usize>,
}

/// The manifest of a file of results.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ResultsManifest {
    /// Whether the experiments ran with smaller sizes.
    pub quick: Option<bool>,
    /// What made the results of each experiment.
    pub experiments: BTreeMap<String, MadeBy>,
}

/// Whether the committed results of an experiment are of its file as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResultsState {
    /// They are.
    Current,
    /// The file has changed since, or its hash was not recorded.
    Stale,
    /// There are none.
    Missing,
}

impl ResultsState {
    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ResultsState::Current => "current",
            ResultsState::Stale => "stale",
            ResultsState::Missing => "missing",
        }
    }
}

impl ResultsManifest {
    /// Whether the results of an experiment are of its file as it is now.
    pub fn state(
        &self,
        experiment: &Experiment,
        folder: &Path,
    ) -> Result<ResultsState, CatalogueError> {
        let Some(made) = self.experiments.get(&experiment.id) else {
            return Ok(ResultsState::Missing);
        };
        let now = experiment.fingerprint(folder)?;
        Ok(match made.file.as_ref() == Some(&now) {
            true => ResultsState::Current,
            false => ResultsState::Stale,
        })
    }
}

impl Catalogue {
    /// The manifest of the committed results; empty where there are none.
    pub fn results(&self, kind: ResultsKind) -> Result<ResultsManifest, CatalogueError> {
        let path = self.folder.join("results").join(kind.name()).with_extension("json");
        if !path.exists() {
            return Ok(ResultsManifest { quick: None, experiments: BTreeMap::new() });
        }
        let text = super::read(&path)?;
        serde_json::from_str(&text)
            .map_err(|e| ExperimentError { path, what: e.to_string() }.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_another_file_are_stale() {
        let text = "[experiment]\ntitle = 't'\nrows = ['9']\n";
        let experiment = Experiment::read("d3/fig9", text).unwrap();
        let folder = Path::new("nowhere");
        let state = |file: Option<String>| {
            let made = MadeBy { commit: "c".into(), build: "b".into(), file, runs: Some(1) };
            let experiments = [("d3/fig9".to_owned(), made)].into();
            ResultsManifest { quick: Some(true), experiments }.state(&experiment, folder).unwrap()
        };
        assert_eq!(state(Some(experiment.fingerprint(folder).unwrap())), ResultsState::Current);
        assert_eq!(state(Some("0".repeat(16))), ResultsState::Stale);
        assert_eq!(state(None), ResultsState::Stale, "which file made them is not known");
        let none = ResultsManifest { quick: None, experiments: BTreeMap::new() };
        assert_eq!(none.state(&experiment, folder).unwrap(), ResultsState::Missing);
    }

    #[test]
    fn a_manifest_names_its_faults() {
        let dir = tempfile::tempdir().unwrap();
        let catalogue = Catalogue {
            folder: dir.path().to_owned(),
            experiments: Vec::new(),
            rows: Vec::new(),
            times: BTreeMap::new(),
        };
        assert!(catalogue.results(ResultsKind::Full).unwrap().experiments.is_empty());
        std::fs::create_dir(dir.path().join("results")).unwrap();
        std::fs::write(dir.path().join("results/full.json"), "{").unwrap();
        let error = catalogue.results(ResultsKind::Full).unwrap_err().to_string();
        assert!(error.contains("full.json"), "{error}");
    }
}
