//! A file that gets its name only when it is complete.

use crate::HostError;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A file without a name in the directory of `out`, until it is [kept](PartialFile::keep).
///
/// The kernel removes it when the process ends, however it ends. On file systems without unnamed
/// files it has a random hidden name instead, which dropping removes.
#[derive(Debug)]
pub(crate) struct PartialFile {
    file: File,
    /// Its name, where the file system has no unnamed files.
    name: Option<PathBuf>,
    out: PathBuf,
    overwrite: bool,
}

impl PartialFile {
    pub(crate) fn create(out: &Path, overwrite: bool) -> Result<Self, HostError> {
        if !overwrite && out.symlink_metadata().is_ok() {
            return Err(HostError::Exists(out.into()));
        }
        if out.file_name().is_none() || out.is_dir() {
            return Err(HostError::OutNotAFile(out.into()));
        }
        let out = out.to_path_buf();
        let file = unnamed(directory(&out)).map_err(|e| HostError::writing(&out, e))?;
        if let Some(file) = file {
            return Ok(PartialFile { file, name: None, out, overwrite });
        }
        let name = hidden_name(&out);
        let file = exclusive(&name).map_err(|e| HostError::writing(&out, e))?;
        Ok(PartialFile { file, name: Some(name), out, overwrite })
    }

    /// Its final name.
    pub(crate) fn out(&self) -> &Path {
        &self.out
    }

    pub(crate) fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    pub(crate) fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    /// Gives the complete file its final name, once its contents are on the disk. Without
    /// `overwrite` an existing file stays, whoever created it and when.
    pub(crate) fn keep(&mut self) -> Result<(), HostError> {
        self.try_keep().map_err(|e| HostError::writing(&self.out, e))
    }

    fn try_keep(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if self.overwrite {
            if self.name.is_none() {
                let name = hidden_name(&self.out);
                self.link(&name)?;
                self.name = Some(name);
            }
            let Some(name) = &self.name else { return Ok(()) };
            fs::rename(name, &self.out)?;
            self.name = None;
        } else {
            // Linking fails if the name exists; renaming would replace the file.
            self.link(&self.out)?;
        }
        File::open(directory(&self.out))?.sync_all()
    }

    /// Gives the file one more name, which must not exist.
    fn link(&self, to: &Path) -> io::Result<()> {
        match &self.name {
            Some(name) => fs::hard_link(name, to),
            None => {
                let from = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                Ok(linkat(CWD, from, CWD, to, AtFlags::SYMLINK_FOLLOW)?)
            }
        }
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // The error that led here is reported; one of this removal is not.
            let _ = fs::remove_file(name);
        }
    }
}

fn directory(out: &Path) -> &Path {
    out.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file without a name; `None` if the file system has no such files.
fn unnamed(directory: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags, Mode::from_raw_mode(0o666)) {
        Ok(file) => Ok(Some(file.into())),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Creates a file. A file or symbolic link that exists is an error.
fn exclusive(name: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(name)
}

/// A random hidden name in the directory of `out`.
fn hidden_name(out: &Path) -> PathBuf {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let random = RandomState::new().hash_one(std::process::id());
    // File names have at most 255 bytes.
    let short: String = name.chars().take(40).collect();
    out.with_file_name(format!(".{short}.{random:016x}.partial"))
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    /// Partial files of both kinds.
    fn both(out: &Path, overwrite: bool) -> [PartialFile; 2] {
        let unnamed = PartialFile::create(out, overwrite).unwrap();
        let name = hidden_name(out);
        let file = exclusive(&name).unwrap();
        [unnamed, PartialFile { file, name: Some(name), out: out.into(), overwrite }]
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = dir.read_dir().unwrap();
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn keep__stores_the_first_and_refuses_the_second() {
        for first in [0, 1] {
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().join("out");
            let mut files = both(&out, false);
            for (file, contents) in files.iter().zip([b"aaa", b"bbb"]) {
                file.write_at(contents, 0).unwrap();
            }
            files[first].keep().unwrap();
            assert!(matches!(files[1 - first].keep(), Err(HostError::Exists(_))));
            drop(files);
            assert_eq!(fs::read(&out).unwrap(), [b"aaa", b"bbb"][first]);
            assert_eq!(names(dir.path()), ["out"]);
        }
    }

    #[test]
    fn keep__with_overwrite_the_last_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        fs::write(&out, "old").unwrap();
        for (mut file, contents) in both(&out, true).into_iter().zip([b"aaa", b"bbb"]) {
            file.write_at(contents, 0).unwrap();
            file.keep().unwrap();
            assert_eq!(fs::read(&out).unwrap(), contents);
        }
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn create__leaves_other_files_alone() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let own = dir.path().join("out.partial");
        fs::write(&own, "mine").unwrap();
        drop(both(&out, false));
        assert_eq!(fs::read(&own).unwrap(), b"mine");
        assert_eq!(names(dir.path()), ["out.partial"]);
    }

    #[test]
    fn create__follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let (out, target) = (dir.path().join("out"), dir.path().join("target"));
        std::os::unix::fs::symlink(&target, &out).unwrap();
        assert!(matches!(PartialFile::create(&out, false), Err(HostError::Exists(_))));
        let mut file = PartialFile::create(&out, true).unwrap();
        file.write_at(b"new", 0).unwrap();
        file.keep().unwrap();
        assert!(!target.exists() && out.symlink_metadata().unwrap().is_file());
    }

    #[test]
    fn create__refuses_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let error = PartialFile::create(dir.path(), true).unwrap_err();
        assert!(matches!(error, HostError::OutNotAFile(_)), "{error}");
    }
}
