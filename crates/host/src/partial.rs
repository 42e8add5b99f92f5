//! A file that gets its name only when it is complete.

use crate::{Hash, HostError};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, fstat, linkat};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The fewest bytes from the file's beginning that are worth keeping for a later transfer.
pub(crate) const RESUME_MIN: u64 = 1 << 20;

/// A file without a name in the directory of `out`, until it is [kept](PartialFile::keep).
///
/// The kernel removes it when the process ends, however it ends. On file systems without unnamed
/// files it has a random hidden name instead, which dropping removes.
///
/// A file that can be [continued](PartialFile::resume) gets a hidden name with its content hash
/// once it is worth keeping. Behind its contents it has a [`Trailer`]: a file without it is not
/// ours, and stays untouched whatever its name. The file is locked while a process writes it.
#[derive(Debug)]
pub(crate) struct PartialFile {
    file: File,
    /// Its name, if it has one.
    name: Option<PathBuf>,
    /// The name under which a later transfer finds it, and its contents.
    resume: Option<(PathBuf, Trailer)>,
    /// Whether dropping it leaves it for a later transfer.
    is_kept_when_dropped: bool,
    out: PathBuf,
    overwrite: bool,
}

/// The last bytes of a file that can be continued: what it will be, and how much of it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Trailer {
    hash: Hash,
    len: u64,
    /// Bytes from the beginning that have been written.
    have: u64,
}

const TRAILER_MAGIC: [u8; 16] = *b"punctual partial";

impl Trailer {
    const BYTES: usize = 64;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(&TRAILER_MAGIC);
        bytes[16..48].copy_from_slice(&self.hash.0);
        bytes[48..56].copy_from_slice(&self.len.to_be_bytes());
        bytes[56..].copy_from_slice(&self.have.to_be_bytes());
        bytes
    }

    /// The trailer of `file`, if it is a partial file of these contents.
    fn read(file: &File, hash: Hash, len: u64) -> Option<Trailer> {
        let mut bytes = [0; Self::BYTES];
        let is_sized = file.metadata().ok()?.len() == len.checked_add(Self::BYTES as u64)?;
        file.read_exact_at(&mut bytes, len).ok()?;
        let have = bytes[56..].iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        let trailer = Trailer { hash, len, have: have.min(len) };
        (is_sized && bytes[..56] == trailer.to_bytes()[..56]).then_some(trailer)
    }
}

/// Checks that `out` may be written.
pub(crate) fn check_out(out: &Path, overwrite: bool) -> Result<(), HostError> {
    if !overwrite && out.symlink_metadata().is_ok() {
        return Err(HostError::Exists(out.into()));
    }
    if out.file_name().is_none() || out.is_dir() {
        return Err(HostError::OutNotAFile(out.into()));
    }
    Ok(())
}

impl PartialFile {
    pub(crate) fn create(out: &Path, overwrite: bool) -> Result<Self, HostError> {
        check_out(out, overwrite)?;
        let out = out.to_path_buf();
        let (resume, is_kept_when_dropped) = (None, false);
        let file = unnamed(directory(&out)).map_err(|e| HostError::writing(&out, e))?;
        if let Some(file) = file {
            let name = None;
            return Ok(PartialFile { file, name, resume, is_kept_when_dropped, out, overwrite });
        }
        let name = hidden_name(&out);
        let file = exclusive(&name).map_err(|e| HostError::writing(&out, e))?;
        let name = Some(name);
        Ok(PartialFile { file, name, resume, is_kept_when_dropped, out, overwrite })
    }

    /// Continues the file of an earlier transfer with these contents, or creates one that a later
    /// transfer can continue. Returns how many bytes it has.
    pub(crate) fn resume(
        out: &Path,
        overwrite: bool,
        hash: Hash,
        len: u64,
    ) -> Result<(Self, u64), HostError> {
        check_out(out, overwrite)?;
        let place = out.with_file_name(format!(".punctual-{hash}.partial"));
        if let Some((file, trailer)) = own_partial(&place, hash, len) {
            let partial = PartialFile {
                file,
                name: Some(place.clone()),
                resume: Some((place, trailer)),
                is_kept_when_dropped: true,
                out: out.into(),
                overwrite,
            };
            return Ok((partial, trailer.have));
        }
        let mut partial = PartialFile::create(out, overwrite)?;
        partial.resume = Some((place, Trailer { hash, len, have: 0 }));
        Ok((partial, 0))
    }

    /// Notes that the first `have` bytes have been written. From [`RESUME_MIN`] on the file has a
    /// name under which a later transfer finds it.
    pub(crate) fn checkpoint(&mut self, have: u64) -> io::Result<()> {
        let Some((place, trailer)) = &mut self.resume else { return Ok(()) };
        trailer.have = have;
        if have < RESUME_MIN && !self.is_kept_when_dropped {
            return Ok(());
        }
        self.file.write_all_at(&trailer.to_bytes(), trailer.len)?;
        if self.is_kept_when_dropped {
            return Ok(());
        }
        let (place, len) = (place.clone(), trailer.len);
        let is_locked = flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_locked && self.link(&place).is_ok() {
            if let Some(random) = self.name.replace(place) {
                let _ = fs::remove_file(random);
            }
            self.is_kept_when_dropped = true;
        } else {
            // Another process receives the same contents, or somebody else's file has the name.
            self.resume = None;
            self.file.set_len(len)?;
        }
        Ok(())
    }

    /// Has the file removed when it is dropped: it is of no use to a later transfer.
    pub(crate) fn discard(&mut self) {
        self.is_kept_when_dropped = false;
    }

    /// The name of the file that dropping leaves for a later transfer.
    pub(crate) fn kept_as(&self) -> Option<&Path> {
        self.name.as_deref().filter(|_| self.is_kept_when_dropped)
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
        if let Some((_, trailer)) = self.resume.take() {
            // Without its trailer nobody takes it for a file to be continued.
            self.file.set_len(trailer.len)?;
        }
        self.is_kept_when_dropped = false;
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
            if let Some(name) = self.name.take() {
                fs::remove_file(name)?;
            }
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
        if let (Some(name), false) = (&self.name, self.is_kept_when_dropped) {
            // The error that led here is reported; one of this removal is not.
            let _ = fs::remove_file(name);
        }
    }
}

/// Opens and locks a partial file that an earlier process of this user left. `None` if there is
/// none, another process uses it, or it is not ours.
fn own_partial(place: &Path, hash: Hash, len: u64) -> Option<(File, Trailer)> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file: File = rustix::fs::open(place, flags, Mode::empty()).ok()?.into();
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    // The file may have been renamed before the lock was free.
    let (opened, named) = (fstat(&file).ok()?, place.symlink_metadata().ok()?);
    let is_same = (opened.st_dev, opened.st_ino) == (named.dev(), named.ino());
    let is_own =
        named.is_file() && named.nlink() == 1 && named.uid() == rustix::process::geteuid().as_raw();
    if !is_same || !is_own {
        return None;
    }
    let trailer = Trailer::read(&file, hash, len)?;
    Some((file, trailer))
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
        let named = PartialFile {
            file,
            name: Some(name),
            resume: None,
            is_kept_when_dropped: false,
            out: out.into(),
            overwrite,
        };
        [unnamed, named]
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

    const LEN: u64 = 3 << 20;
    const HASH: Hash = Hash([7; 32]);

    fn resume(out: &Path) -> (PartialFile, u64) {
        PartialFile::resume(out, false, HASH, LEN).unwrap()
    }

    /// Leaves a partial file with `have` bytes.
    fn interrupted(out: &Path, have: u64) {
        let (mut file, _) = resume(out);
        file.write_at(&vec![5; have as usize], 0).unwrap();
        file.checkpoint(have).unwrap();
    }

    #[test]
    fn resume__continues_and_leaves_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        interrupted(&out, RESUME_MIN - 1);
        assert!(names(dir.path()).is_empty(), "too little to keep");
        interrupted(&out, 2 << 20);
        assert_eq!(names(dir.path()), [format!(".punctual-{HASH}.partial")]);
        let (mut file, have) = resume(&out);
        assert_eq!(have, 2 << 20);
        file.write_at(&[6; 1 << 20], have).unwrap();
        file.checkpoint(LEN).unwrap();
        file.keep().unwrap();
        drop(file);
        assert_eq!(names(dir.path()), ["out"]);
        let stored = fs::read(&out).unwrap();
        assert_eq!(stored.len() as u64, LEN, "without the trailer");
        assert_eq!((stored[0], stored[LEN as usize - 1]), (5, 6));
    }

    #[test]
    fn resume__two_receivers_never_share_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        interrupted(&a, 2 << 20);
        let (mut first, have_first) = resume(&a);
        let (mut second, have_second) = resume(&b);
        assert_eq!((have_first, have_second), (2 << 20, 0));
        for (file, byte) in [(&mut first, 1), (&mut second, 2)] {
            file.write_at(&vec![byte; LEN as usize], 0).unwrap();
            file.checkpoint(LEN).unwrap();
            file.keep().unwrap();
        }
        assert!(fs::read(&a).unwrap().iter().all(|byte| *byte == 1));
        assert!(fs::read(&b).unwrap().iter().all(|byte| *byte == 2));
        drop((first, second));
        assert_eq!(names(dir.path()), ["a", "b"]);
    }

    /// Files that only look like ours stay as they are: without a trailer, a symbolic link, a file
    /// with a second name.
    #[test]
    fn resume__leaves_other_files_alone() {
        for kind in ["plain", "link", "linked"] {
            let dir = tempfile::tempdir().unwrap();
            let (out, other) = (dir.path().join("out"), dir.path().join("other"));
            let place = dir.path().join(format!(".punctual-{HASH}.partial"));
            let contents = match kind {
                "plain" => vec![9; LEN as usize + Trailer::BYTES],
                _ => {
                    interrupted(&out, 2 << 20);
                    fs::read(&place).unwrap()
                }
            };
            match kind {
                "plain" => fs::write(&place, &contents).unwrap(),
                "linked" => fs::hard_link(&place, &other).unwrap(),
                _ => {
                    fs::rename(&place, &other).unwrap();
                    std::os::unix::fs::symlink(&other, &place).unwrap();
                }
            }
            let (mut file, have) = resume(&out);
            assert_eq!(have, 0, "{kind}");
            file.write_at(&vec![1; LEN as usize], 0).unwrap();
            file.checkpoint(2 << 20).unwrap();
            file.checkpoint(LEN).unwrap();
            file.keep().unwrap();
            drop(file);
            assert!(fs::read(&place).unwrap() == contents, "{kind}");
            assert!(fs::read(&out).unwrap() == vec![1; LEN as usize], "{kind}");
        }
    }

    #[test]
    fn discard__removes_what_nobody_can_continue() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        interrupted(&out, 2 << 20);
        let (mut file, _) = resume(&out);
        assert!(file.kept_as().is_some());
        file.discard();
        drop(file);
        assert!(names(dir.path()).is_empty());
    }
}
