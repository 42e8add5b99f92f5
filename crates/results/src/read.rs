//! Reading a run back.

use crate::columns::Table;
use crate::files::check_format;
use crate::network::read_network;
use crate::parquet_io::read_table;
use crate::{
    FLOWS_FILE, FORMAT, FlowRow, GAUGES_FILE, GaugeRow, HOST_FILE, Host, MANIFEST_FILE, Manifest,
    NETWORK_FILE, PAUSES_FILE, PORTS_FILE, PauseRow, PortRow, QUEUES_FILE, ReadError, SUMMARY_FILE,
    Summary, is_partial,
};
use punctual_record::{NetworkTrace, PortSample};
use serde::de::DeserializeOwned;
use std::fs;
use std::io;
use std::path::Path;

/// A run as it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFiles {
    /// One row per flow.
    pub flows: Vec<FlowRow>,
    /// Time series, by time then port.
    pub queues: Vec<PortSample>,
    /// Gauges that transports reported.
    pub gauges: Vec<GaugeRow>,
    /// Pauses by port and class.
    pub pauses: Vec<PauseRow>,
    /// Every port with its totals.
    pub ports: Vec<PortRow>,
    /// The activity of every port over time, if that was recorded.
    pub network: Option<NetworkTrace>,
    /// The metrics of the run.
    pub summary: Summary,
    /// How to repeat the run.
    pub manifest: Manifest,
}

/// Reads a run directory.
pub fn read(dir: &Path) -> Result<RunFiles, ReadError> {
    let manifest = read_manifest(dir)?;
    verify(dir, &manifest)?;
    let has = |name: &str| manifest.files.contains_key(name);
    let network = has(NETWORK_FILE).then(|| read_network(&dir.join(NETWORK_FILE))).transpose()?;
    Ok(RunFiles {
        flows: read_table(&dir.join(FLOWS_FILE))?,
        queues: read_table(&dir.join(QUEUES_FILE))?,
        gauges: read_listed(dir, &manifest, GAUGES_FILE)?,
        ports: read_listed(dir, &manifest, PORTS_FILE)?,
        pauses: read_listed(dir, &manifest, PAUSES_FILE)?,
        network,
        summary: json(&dir.join(SUMMARY_FILE))?,
        manifest,
    })
}

/// Reads the rows of a file that not every run has.
fn read_listed<R: Table>(dir: &Path, manifest: &Manifest, name: &str) -> Result<Vec<R>, ReadError> {
    match manifest.files.contains_key(name) {
        true => read_table(&dir.join(name)),
        false => Ok(Vec::new()),
    }
}

/// Reads only the summary of a run directory.
pub fn read_summary(dir: &Path) -> Result<Summary, ReadError> {
    read_manifest(dir)?;
    json(&dir.join(SUMMARY_FILE))
}

/// Reads where and when a run was made.
pub fn read_host(dir: &Path) -> Result<Host, ReadError> {
    json(&dir.join(HOST_FILE))
}

/// Reads only the manifest of a run directory, and checks that this version can read the rest.
pub fn read_manifest(dir: &Path) -> Result<Manifest, ReadError> {
    if is_partial(dir) {
        return Err(ReadError::Partial(dir.to_owned()));
    }
    let path = dir.join(MANIFEST_FILE);
    let manifest: serde_json::Value = json(&path).map_err(|error| match error {
        ReadError::Missing(_) if dir.exists() => ReadError::NoManifest(dir.to_owned()),
        ReadError::Missing(_) => ReadError::NotFound(dir.to_owned()),
        other => other,
    })?;
    // The format first: a manifest of another format may have other fields.
    check_format(&path, &manifest, FORMAT)?;
    let manifest: Manifest = match serde_json::from_value(manifest) {
        Ok(manifest) => manifest,
        Err(source) => return Err(ReadError::Json { path, source }),
    };
    if manifest.is_intact() { Ok(manifest) } else { Err(ReadError::Changed(path)) }
}

/// Checks that every file of a run directory is as it was written.
pub fn verify(dir: &Path, manifest: &Manifest) -> Result<(), ReadError> {
    for (name, info) in &manifest.files {
        let path = dir.join(name);
        check_length(&path, info.bytes)?;
        let mut hash = blake3::Hasher::new();
        let file = fs::File::open(&path).map_err(|source| refused(&path, source))?;
        hash.update_reader(file).map_err(|source| refused(&path, source))?;
        if hash.finalize().to_hex().as_str() != info.blake3 {
            return Err(ReadError::Changed(path));
        }
    }
    Ok(())
}

fn json<T: DeserializeOwned>(path: &Path) -> Result<T, ReadError> {
    let text = fs::read(path).map_err(|source| refused(path, source))?;
    serde_json::from_slice(&text)
        .map_err(|source| ReadError::Json { path: path.to_owned(), source })
}

fn check_length(path: &Path, expected: u64) -> Result<(), ReadError> {
    let found = fs::metadata(path).map_err(|source| refused(path, source))?.len();
    if found == expected {
        return Ok(());
    }
    Err(ReadError::Length { path: path.to_owned(), found, expected })
}

fn refused(path: &Path, source: io::Error) -> ReadError {
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            ReadError::Missing(path.to_owned())
        }
        _ => ReadError::Io { path: path.to_owned(), source },
    }
}
