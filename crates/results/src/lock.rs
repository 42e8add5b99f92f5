//! One writer at a time in a directory of results.

use crate::WriteError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Name of the file that a writer holds locked, in the directory of all results.
pub const LOCK_FILE: &str = ".lock";

/// An exclusive lock on a directory of results, held while a command writes there.
///
/// The operating system releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct DirLock {
    _file: File,
}

impl DirLock {
    /// Locks a directory, and creates it if missing. Fails at once when another process has locked
    /// it.
    pub fn take(dir: &Path) -> Result<DirLock, WriteError> {
        let path = dir.join(LOCK_FILE);
        let refused = |source| WriteError::Io { action: "lock", path: path.clone(), source };
        fs::create_dir_all(dir).map_err(refused)?;
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).open(&path).map_err(refused)?;
        match file.try_lock() {
            Ok(()) => Ok(DirLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(WriteError::Locked(dir.to_owned())),
            // Some network file systems have no locks; results can still be written there.
            Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => {
                Ok(DirLock { _file: file })
            }
            Err(TryLockError::Error(source)) => Err(refused(source)),
        }
    }
}

/// Levels of directories from the results of a scenario down to a run: point, transport, seed.
const LEVELS: usize = 3;

/// The directory of results that a path is or lies in: the nearest one that has a lock file.
pub fn results_around(path: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(path).ok()?;
    path.ancestors().take(LEVELS + 1).find(|dir| has_lock_file(dir)).map(Path::to_owned)
}

/// Whether a directory has a lock file of ours, which is empty. Others write the number of their
/// process into files of this name.
fn has_lock_file(dir: &Path) -> bool {
    fs::metadata(dir.join(LOCK_FILE)).is_ok_and(|file| file.is_file() && file.len() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_writer_is_refused_until_the_first_is_done() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("results/x");
        let first = DirLock::take(&dir).unwrap();
        let run = dir.join("workers=3/ndp/seed-1");
        fs::create_dir_all(&run).unwrap();
        assert_eq!(results_around(&run), Some(fs::canonicalize(&dir).unwrap()));
        assert_eq!(results_around(place.path()), None);
        let error = DirLock::take(&dir).unwrap_err();
        assert!(matches!(error, WriteError::Locked(_)), "{error}");
        drop(first);
        DirLock::take(&dir).unwrap();
    }
    #[test]
    fn a_lock_file_of_another_program_makes_no_results() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join(LOCK_FILE), "4711").unwrap();
        let dir = place.path().join("results");
        fs::create_dir_all(&dir).unwrap();
        assert_eq!(results_around(&dir), None);
        drop(DirLock::take(&dir).unwrap());
        assert_eq!(results_around(&dir), Some(fs::canonicalize(&dir).unwrap()));
    }
}
