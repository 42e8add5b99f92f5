//! Names of run directories, whole and partial.

use crate::{
    EXPLAIN_FILE, HOST_FILE, MANIFEST_FILE, OWN_FILES, REPORT_FILE, WriteError, read_manifest,
    verify,
};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

const PARTIAL: &str = ".partial-";

/// The partial name under which `dir` is written before it is renamed.
pub(crate) fn partial_path(dir: &Path) -> Result<PathBuf, WriteError> {
    let bad = || WriteError::Name(dir.to_owned());
    let mut name: OsString = dir.file_name().ok_or_else(bad)?.to_owned();
    if is_partial(dir) {
        return Err(bad());
    }
    name.push(format!("{PARTIAL}{}", writer_id()));
    Ok(dir.with_file_name(name))
}

/// A number that no other process has, not even on another machine: processes of several machines
/// may write into one shared directory, and their process ids may be equal.
pub(crate) fn writer_id() -> u64 {
    static ID: OnceLock<u64> = OnceLock::new();
    *ID.get_or_init(|| {
        let mut hash = blake3::Hasher::new();
        hash.update(&fs::read("/proc/sys/kernel/hostname").unwrap_or_default());
        hash.update(&std::process::id().to_le_bytes());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        hash.update(&now.as_nanos().to_le_bytes());
        let [a, b, c, d, e, f, g, h, ..] = *hash.finalize().as_bytes();
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    })
}

/// The number of the process that wrote a directory, if its name is that of a partial one.
fn writer(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_string_lossy();
    let (_, id) = name.rsplit_once(PARTIAL)?;
    id.bytes().all(|c| c.is_ascii_digit()).then(|| id.parse().ok())?
}

/// Whether this is the name of a partial directory: being written, or left by an interruption.
pub fn is_partial(path: &Path) -> bool {
    writer(path).is_some()
}

/// Whether `dir` is a complete run that this version can read, every file as it was written.
pub fn is_complete(dir: &Path) -> bool {
    read_manifest(dir).and_then(|manifest| verify(dir, &manifest)).is_ok()
}

/// A partial directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leftover {
    /// Where it is.
    pub path: PathBuf,
    /// The number of the process that wrote it. When that still runs, it may not be done yet.
    pub writer: u64,
}

/// The partial directories directly under `parent`, by name. A missing `parent` has none.
pub fn leftovers(parent: &Path) -> io::Result<Vec<Leftover>> {
    let entries = match fs::read_dir(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if let Some(writer) = writer(&path).filter(|_| path.is_dir()) {
            found.push(Leftover { path, writer });
        }
    }
    found.sort();
    Ok(found)
}

/// What exists at the place of a new run.
pub(crate) enum Place {
    /// Nothing, or an empty directory.
    Free,
    /// A run and nothing else.
    Run,
}

/// Checks the place of a new run. Files that no run wrote are an error: they are not overwritten.
pub(crate) fn place(dir: &Path) -> Result<Place, WriteError> {
    let io = |source| WriteError::Io { action: "look at", path: dir.to_owned(), source };
    let not_ours = |found: String| WriteError::NotOurs { dir: dir.to_owned(), found };
    match fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Place::Free),
        Err(error) => return Err(io(error)),
        Ok(at) if !at.is_dir() => return Err(not_ours("a file".into())),
        Ok(_) => {}
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(io)? {
        names.push(entry.map_err(io)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let Some(first) = names.first() else {
        return Ok(Place::Free);
    };
    if !names.iter().any(|name| name == MANIFEST_FILE) {
        return Err(not_ours(format!("`{first}` and no manifest.json")));
    }
    // A damaged manifest lists nothing; a directory with only our files is still ours.
    let files = match listed(dir) {
        Some(files) => files,
        None if names.iter().all(|name| OWN_FILES.contains(&name.as_str())) => names.clone(),
        None => return Err(not_ours("a manifest.json".into())),
    };
    // The old run's report and delay breakdowns are replaced with it.
    let ours = |name: &str| [MANIFEST_FILE, HOST_FILE, REPORT_FILE, EXPLAIN_FILE].contains(&name);
    let foreign = names.iter().find(|name| !ours(name) && !files.contains(name));
    foreign.map_or(Ok(Place::Run), |name| Err(not_ours(format!("`{name}`"))))
}

/// Files that a run's manifest names, whatever version wrote it.
fn listed(dir: &Path) -> Option<Vec<String>> {
    let text = fs::read(dir.join(MANIFEST_FILE)).ok()?;
    let manifest: serde_json::Value = serde_json::from_slice(&text).ok()?;
    manifest.get("format")?.as_u64()?;
    Some(manifest.get("files")?.as_object()?.keys().cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_names_are_told_from_others() {
        let dir = Path::new("out/ndp-1");
        assert!(is_partial(&partial_path(dir).unwrap()));
        assert!(is_partial(Path::new("out/a.partial-1.partial-77")));
        for whole in ["out/ndp-1", "x.partial-", "x.partial-7a", "x.partial", "x.partial-1/sub"] {
            assert!(!is_partial(Path::new(whole)), "{whole}");
        }
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        for bad in ["..", "/", "out/..", "out/x.partial-12"] {
            assert!(matches!(partial_path(Path::new(bad)), Err(WriteError::Name(_))), "{bad}");
        }
    }
}
