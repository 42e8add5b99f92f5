//! Single files beside the runs, written whole or not at all.

use crate::dir::writer_id;
use crate::{CAPACITY_FILE, LOCK_FILE, PLAN_FILE, REPORT_FILE, ReadError, WriteError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Writes a file into a directory, which is created if missing.
///
/// The file is written under another name first, so that a full disk leaves no partial file.
pub fn save(dir: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, WriteError> {
    let path = dir.join(name);
    let partial = dir.join(format!(".{name}.partial-{}", writer_id()));
    let written = fs::create_dir_all(dir)
        .and_then(|()| fs::write(&partial, bytes))
        .and_then(|()| fs::rename(&partial, &path));
    written.map_err(|source| {
        let _ = fs::remove_file(&partial);
        WriteError::Io { action: "write", path: path.clone(), source }
    })?;
    Ok(path)
}

/// Refuses a directory in which the plan, `capacity.json` or the report would replace other files.
pub fn check_place(dir: &Path) -> Result<(), WriteError> {
    for name in [PLAN_FILE, CAPACITY_FILE, REPORT_FILE] {
        let path = dir.join(name);
        let ours = match name {
            REPORT_FILE => is_report(&path),
            _ => is_versioned(&path) || is_damaged(&path) && dir.join(LOCK_FILE).exists(),
        };
        if path.exists() && !ours {
            return Err(WriteError::NotOurs { dir: dir.to_owned(), found: format!("`{name}`") });
        }
    }
    Ok(())
}

/// A tag near the beginning of every report.
const GENERATOR: &[u8] = b"<meta name=\"generator\" content=\"punctual\">";

/// Whether a file is a report of this program, which may be replaced.
pub fn is_report(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(2048).read_to_end(&mut start));
    read.is_ok() && start.windows(GENERATOR.len()).any(|part| part == GENERATOR)
}

/// Whether a file is JSON that says which version of this program wrote it.
fn is_versioned(path: &Path) -> bool {
    let value = fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok());
    value.is_some_and(|value: serde_json::Value| value.get("punctual").is_some())
}

/// Whether a file is not JSON. Beside our lock file it is a damaged file of ours.
fn is_damaged(path: &Path) -> bool {
    fs::read(path).is_ok_and(|text| serde_json::from_slice::<serde_json::Value>(&text).is_err())
}

/// Writes an object as indented JSON.
pub(crate) fn save_json(dir: &Path, name: &str, what: &impl Serialize) -> Result<(), WriteError> {
    let json = |source| WriteError::Json { path: dir.join(name), source };
    let mut text = serde_json::to_vec_pretty(what).map_err(json)?;
    text.push(b'\n');
    save(dir, name, &text).map(|_| ())
}

/// Reads an object with a `format` field; none if there is no such file.
pub(crate) fn read_json<T: DeserializeOwned>(
    path: &Path,
    format: u32,
) -> Result<Option<T>, ReadError> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ReadError::Io { path: path.to_owned(), source }),
        Ok(text) => text,
    };
    let json = |source| ReadError::Json { path: path.to_owned(), source };
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(json)?;
    // The format first: another format may have other fields.
    check_format(path, &value, format)?;
    serde_json::from_value(value).map(Some).map_err(json)
}

/// Refuses what another version wrote.
pub(crate) fn check_format(
    path: &Path,
    value: &serde_json::Value,
    expected: u32,
) -> Result<(), ReadError> {
    let Some(found) = value.get("format").and_then(|format| format.as_u64()) else {
        return Ok(());
    };
    if found == u64::from(expected) {
        return Ok(());
    }
    let version = value.get("punctual").and_then(|version| version.as_str());
    let version = version.unwrap_or("of that time").to_owned();
    Err(ReadError::Format { path: path.to_owned(), found, expected, version })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    #[test]
    fn a_plan_is_read_as_written_and_another_format_refused() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("results/x");
        assert_eq!(Plan::read(&dir).unwrap(), None);
        let mut plan = Plan::new("x", "about", "name = \"x\"", &["a=1".into()]);
        plan.write(&dir).unwrap();
        assert_eq!(Plan::read(&dir).unwrap().as_ref(), Some(&plan));
        plan.format += 1;
        plan.write(&dir).unwrap();
        let error = Plan::read(&dir).unwrap_err().to_string();
        assert!(error.contains("has format 2 and this version reads format 1"), "{error}");
        fs::write(dir.join(crate::PLAN_FILE), "{").unwrap();
        assert!(matches!(Plan::read(&dir), Err(ReadError::Json { .. })));
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("taken")).unwrap();
        assert!(save(place.path(), "taken", b"x").is_err());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }
}
