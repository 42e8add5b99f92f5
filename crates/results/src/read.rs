//! Reading a run back.

use crate::columns::Table;
use crate::files::check_format;
use crate::network::read_network;
use crate::parquet_io::{read_bytes, read_table, table_in};
use crate::{
    FLOWS_FILE, FORMAT, FileInfo, FlowRow, GAUGES_FILE, GaugeRow, HOST_FILE, Host, MANIFEST_FILE,
    Manifest, NETWORK_FILE, PAUSES_FILE, PORTS_FILE, PauseRow, PortRow, QUEUES_FILE, ReadError,
    SUMMARY_FILE, Summary, file_info, is_partial,
};
use punctual_record::{NetworkTrace, PortSample};
use serde::de::DeserializeOwned;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// Reads only the flows of a run directory, and checks no other file.
pub fn read_flows(dir: &Path) -> Result<Vec<FlowRow>, ReadError> {
    read_checked(dir, &read_manifest(dir)?, FLOWS_FILE)
}

/// Reads only the flows and the ports of a run directory, and checks no other file.
pub fn read_flows_and_ports(dir: &Path) -> Result<(Vec<FlowRow>, Vec<PortRow>), ReadError> {
    let manifest = read_manifest(dir)?;
    let ports = match manifest.files.contains_key(PORTS_FILE) {
        true => read_checked(dir, &manifest, PORTS_FILE)?,
        false => Vec::new(),
    };
    Ok((read_checked(dir, &manifest, FLOWS_FILE)?, ports))
}

/// Reads the rows of one file after a comparison with its hash.
fn read_checked<R: Table>(
    dir: &Path,
    manifest: &Manifest,
    name: &str,
) -> Result<Vec<R>, ReadError> {
    let path = dir.join(name);
    let info = manifest.files.get(name).ok_or_else(|| ReadError::Missing(path.clone()))?;
    let bytes = read_bytes(&path)?;
    match file_info(&bytes) == *info {
        true => table_in(&path, bytes),
        false => Err(ReadError::Changed(path)),
    }
}

/// Calls `read` for 0 to `count` on several threads and returns the results in order.
///
/// Of several failures, the first in order is returned.
pub fn read_in_parallel<T: Send>(
    count: usize,
    threads: usize,
    read: impl Fn(usize) -> Result<T, ReadError> + Sync,
) -> Result<Vec<T>, ReadError> {
    let threads = threads.clamp(1, count.max(1));
    if threads == 1 {
        return (0..count).map(read).collect();
    }
    let next = AtomicUsize::new(0);
    let places: Vec<_> = (0..count).map(|_| Mutex::new(None)).collect();
    let thread = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(place) = places.get(i) else { break };
            *place.lock().expect("no thread panicked") = Some(read(i));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(thread);
        }
    });
    let results = places.into_iter().filter_map(|place| place.into_inner().ok().flatten());
    results.collect()
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
    summary_beside(&read_manifest(dir)?, dir)
}

/// Reads the summary of a run directory whose manifest was read, which says that this version can.
pub fn summary_beside(_manifest: &Manifest, dir: &Path) -> Result<Summary, ReadError> {
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
    manifest.files.iter().try_for_each(|(name, info)| check_file(&dir.join(name), info))
}

/// Checks that a file is as it was written.
fn check_file(path: &Path, info: &FileInfo) -> Result<(), ReadError> {
    check_length(path, info.bytes)?;
    let mut hash = blake3::Hasher::new();
    let file = fs::File::open(path).map_err(|source| refused(path, source))?;
    hash.update_reader(file).map_err(|source| refused(path, source))?;
    match hash.finalize().to_hex().as_str() == info.blake3 {
        true => Ok(()),
        false => Err(ReadError::Changed(path.to_owned())),
    }
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
