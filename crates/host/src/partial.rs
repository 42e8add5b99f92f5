//! A file that gets its name only when it is complete.

use crate::HostError;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A file written as `<out>.partial`. Dropping it removes it, unless it was
/// [renamed](PartialFile::keep).
#[derive(Debug)]
pub(crate) struct PartialFile {
    file: File,
    path: PathBuf,
    out: PathBuf,
    overwrite: bool,
    is_kept: bool,
}

impl PartialFile {
    pub(crate) fn create(out: &Path, overwrite: bool) -> Result<Self, HostError> {
        let mut name = out.as_os_str().to_owned();
        name.push(".partial");
        let path = PathBuf::from(name);
        if !overwrite && out.symlink_metadata().is_ok() {
            return Err(HostError::Exists(out.into()));
        }
        let mut how = OpenOptions::new();
        how.read(true).write(true).create(true).truncate(true);
        let file = how.open(&path).map_err(|e| HostError::writing(&path, e))?;
        Ok(PartialFile { file, path, out: out.into(), overwrite, is_kept: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn out(&self) -> &Path {
        &self.out
    }

    pub(crate) fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    pub(crate) fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    /// Renames the complete file to its final name.
    pub(crate) fn keep(&mut self) -> Result<(), HostError> {
        if !self.overwrite && self.out.symlink_metadata().is_ok() {
            return Err(HostError::Exists(self.out.clone()));
        }
        fs::rename(&self.path, &self.out).map_err(|e| HostError::writing(&self.out, e))?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // The error that led here is reported; one of this removal is not.
            let _ = fs::remove_file(&self.path);
        }
    }
}
