//! Writing a run, whole or not at all.

use crate::dir::{Place, partial_path, place};
use crate::network::write_network;
use crate::parquet_io::write_table;
use crate::{
    CSV_FILE, FLOWS_FILE, FileInfo, FlowRow, GAUGES_FILE, GaugeRow, HOST_FILE, Host, MANIFEST_FILE,
    Manifest, NETWORK_FILE, OWN_FILES, PAUSES_FILE, PORTS_FILE, PauseRow, PortRow, QUEUES_FILE,
    REPORT_FILE, SUMMARY_FILE, Summary, WriteError, csv,
};
use parquet::errors::ParquetError;
use punctual_record::{NetworkTrace, PortSample};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// What goes into a run directory.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// One row per flow.
    pub flows: &'a [FlowRow],
    /// Time series, by time then port.
    pub queues: &'a [PortSample],
    /// Gauges that transports reported.
    pub gauges: &'a [GaugeRow],
    /// Pauses by port and class.
    pub pauses: &'a [PauseRow],
    /// Every port with its totals; empty for a run without ports.
    pub ports: &'a [PortRow],
    /// The activity of every port over time, if that was recorded.
    pub network: Option<&'a NetworkTrace>,
    /// The metrics of the run.
    pub summary: &'a Summary,
    /// How to repeat the run; its list of files is filled in.
    pub manifest: &'a Manifest,
    /// Where it was made, if that is to be written.
    pub host: Option<&'a Host>,
    /// Further files by name, such as figures.
    pub extra: &'a [(&'a str, &'a [u8])],
}

impl<'a> Run<'a> {
    /// A run without gauges, pauses, ports and further files.
    pub fn new(
        flows: &'a [FlowRow],
        queues: &'a [PortSample],
        summary: &'a Summary,
        manifest: &'a Manifest,
    ) -> Run<'a> {
        Run {
            flows,
            queues,
            gauges: &[],
            pauses: &[],
            ports: &[],
            network: None,
            summary,
            manifest,
            host: None,
            extra: &[],
        }
    }
}

/// How to write a run directory.
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteOptions {
    /// Replace an existing run. Other files are never replaced.
    pub overwrite: bool,
    /// Also write `flows.csv`.
    pub csv: bool,
}

/// Writes a run directory, and creates its parents if missing.
///
/// On any error nothing of it remains, and an existing run stays. No two threads may write to one
/// `dir` at a time. Two processes may: the second to finish gets an error or, with `overwrite`,
/// replaces the first.
pub fn write(dir: &Path, run: &Run<'_>, options: WriteOptions) -> Result<(), WriteError> {
    write_to(&Disk { sync: true }, dir, run, options)
}

/// Writes a run directory like [`write`](fn@write), without waiting until it is on disk.
///
/// For many small runs, which would mostly wait. A power failure may leave files with a wrong
/// content, which their hashes in the manifest show ([`verify`](crate::verify)).
pub fn write_unsynced(dir: &Path, run: &Run<'_>, options: WriteOptions) -> Result<(), WriteError> {
    write_to(&Disk { sync: false }, dir, run, options)
}

/// A file being written.
pub(crate) trait Sink: Write + Send {
    /// Waits until everything written is on disk.
    fn sync(&mut self) -> io::Result<()>;
}

/// The file operations that writing needs, so that tests can make them fail.
pub(crate) trait Storage {
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>>;
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
}

struct Disk {
    /// Whether to wait until what is written is on disk.
    sync: bool,
}

impl Sink for fs::File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// A file that is not waited for.
struct Unsynced(fs::File);

impl Write for Unsynced {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.write(data)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Sink for Unsynced {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Storage for Disk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>> {
        let file = fs::File::create_new(path)?;
        Ok(if self.sync { Box::new(file) } else { Box::new(Unsynced(file)) })
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        // Other systems cannot open a directory as a file.
        if cfg!(unix) && self.sync { fs::File::open(path)?.sync_all() } else { Ok(()) }
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }
}

/// Removes the partial directory unless all went well.
struct Partial {
    path: PathBuf,
    kept: bool,
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.kept {
            // A directory that cannot be removed stays; its name marks it as partial.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

pub(crate) fn write_to(
    storage: &dyn Storage,
    dir: &Path,
    run: &Run<'_>,
    options: WriteOptions,
) -> Result<(), WriteError> {
    for (name, _) in run.extra {
        check_name(name)?;
    }
    let dir = &resolved(dir)?;
    let replace = match place(dir)? {
        Place::Free => false,
        Place::Run if options.overwrite => true,
        Place::Run => return Err(WriteError::Exists(dir.clone())),
    };
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(refused("create", parent))?;

    let partial = partial_path(dir)?;
    // An interrupted process with this id may have left it behind.
    let _ = fs::remove_dir_all(&partial);
    storage.create_dir(&partial).map_err(refused("create", &partial))?;
    let mut partial = Partial { path: partial, kept: false };
    fill(storage, &partial.path, run, options)?;
    storage.sync_dir(&partial.path).map_err(refused("write", &partial.path))?;
    if replace {
        swap(storage, &partial.path, dir).map_err(refused("replace", dir))?;
        // The guard now removes the old run.
    } else {
        match storage.rename(&partial.path, dir) {
            Ok(()) => partial.kept = true,
            // Another process has finished the same run meanwhile: it is replaced as well.
            Err(error) if options.overwrite && is_taken(&error) => {
                place(dir)?;
                swap(storage, &partial.path, dir).map_err(refused("replace", dir))?;
            }
            Err(error) => return Err(refused("create", dir)(error)),
        }
    }
    // The run is complete and in place. If only the sync of its name fails, that is no error.
    let _ = storage.sync_dir(parent);
    Ok(())
}

/// Whether a directory could not be renamed because there is one at the place.
fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists)
}

/// The directory behind `dir` where that is a link, so that the link stays.
fn resolved(dir: &Path) -> Result<PathBuf, WriteError> {
    partial_path(dir)?;
    if dir.is_symlink() {
        return fs::canonicalize(dir).map_err(refused("look at", dir));
    }
    Ok(dir.to_owned())
}

fn check_name(name: &str) -> Result<(), WriteError> {
    let own = OWN_FILES.contains(&name) && name != REPORT_FILE;
    let plain = Path::new(name).file_name().is_some_and(|last| last == name);
    if own || !plain { Err(WriteError::FileName(name.to_owned())) } else { Ok(()) }
}

/// Writes every file; the manifest last, since it has the hashes of the others.
fn fill(
    storage: &dyn Storage,
    dir: &Path,
    run: &Run<'_>,
    options: WriteOptions,
) -> Result<(), WriteError> {
    let mut files = BTreeMap::new();
    let about = &*run.manifest.about();
    let mut file = |name: &str, content: &mut dyn FnMut(&mut File) -> Result<(), Fault>| {
        let info = write_file(storage, &dir.join(name), content)?;
        files.insert(name.to_owned(), info);
        Ok(())
    };
    file(FLOWS_FILE, &mut |out| Ok(write_table(out, about, run.flows)?))?;
    file(QUEUES_FILE, &mut |out| Ok(write_table(out, about, run.queues)?))?;
    if !run.gauges.is_empty() {
        file(GAUGES_FILE, &mut |out| Ok(write_table(out, about, run.gauges)?))?;
    }
    if !run.pauses.is_empty() {
        file(PAUSES_FILE, &mut |out| Ok(write_table(out, about, run.pauses)?))?;
    }
    if !run.ports.is_empty() {
        file(PORTS_FILE, &mut |out| Ok(write_table(out, about, run.ports)?))?;
    }
    if let Some(trace) = run.network {
        file(NETWORK_FILE, &mut |out| Ok(write_network(out, about, trace)?))?;
    }
    file(SUMMARY_FILE, &mut |out| write_json(out, run.summary))?;
    if options.csv {
        file(CSV_FILE, &mut |out| Ok(csv::write_csv(out, run.flows, run.manifest)?))?;
    }
    for (name, bytes) in run.extra {
        file(name, &mut |out| Ok(out.write_all(bytes)?))?;
    }
    if let Some(host) = run.host {
        // Not among the manifest's files, whose hashes are the same on every machine.
        write_file(storage, &dir.join(HOST_FILE), &mut |out| write_json(out, host))?;
    }
    let manifest = Manifest { files, ..run.manifest.clone() }.sealed();
    write_file(storage, &dir.join(MANIFEST_FILE), &mut |out| write_json(out, &manifest))?;
    Ok(())
}

/// A file that counts and hashes its bytes.
struct File {
    out: BufWriter<Box<dyn Sink>>,
    bytes: u64,
    hash: blake3::Hasher,
}

impl Write for File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let written = self.out.write(data)?;
        self.bytes += written as u64;
        self.hash.update(&data[..written]);
        Ok(written)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn write_file(
    storage: &dyn Storage,
    path: &Path,
    content: &mut dyn FnMut(&mut File) -> Result<(), Fault>,
) -> Result<FileInfo, WriteError> {
    let refused = refused("write", path);
    let sink = match storage.create(path) {
        Ok(sink) => sink,
        Err(error) => return Err(refused(error)),
    };
    let out = BufWriter::with_capacity(1 << 16, sink);
    let mut file = File { out, bytes: 0, hash: blake3::Hasher::new() };
    let written = content(&mut file)
        .and_then(|()| Ok(file.flush()?))
        .and_then(|()| Ok(file.out.get_mut().sync()?));
    let info = FileInfo { bytes: file.bytes, blake3: file.hash.finalize().to_hex().to_string() };
    // After an error, the rest of the buffer must not be written again.
    let (_sink, _rest) = file.out.into_parts();
    match written {
        Ok(()) => Ok(info),
        Err(Fault::Io(error)) => Err(refused(error)),
        Err(Fault::Parquet(source)) => Err(WriteError::Encode { path: path.to_owned(), source }),
        Err(Fault::Json(source)) => Err(WriteError::Json { path: path.to_owned(), source }),
    }
}

fn write_json(out: &mut File, value: &impl Serialize) -> Result<(), Fault> {
    let mut text = serde_json::to_vec_pretty(value).map_err(Fault::Json)?;
    text.push(b'\n');
    Ok(out.write_all(&text)?)
}

/// Why a file's content was not written.
enum Fault {
    Io(io::Error),
    Parquet(ParquetError),
    Json(serde_json::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Io(error)
    }
}

impl From<ParquetError> for Fault {
    /// Unwraps the encoder's errors of the file, so that a full disk is reported as such.
    fn from(error: ParquetError) -> Fault {
        match error {
            ParquetError::External(cause) => match cause.downcast::<io::Error>() {
                Ok(error) => Fault::Io(*error),
                Err(cause) => Fault::Parquet(ParquetError::External(cause)),
            },
            error => Fault::Parquet(error),
        }
    }
}

/// Swaps two directories: `new` gets the name `old`, and `old` the name `new`.
fn swap(storage: &dyn Storage, new: &Path, old: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        if renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE).is_ok() {
            return Ok(());
        }
    }
    // Not every file system can swap. In between, the old run is under a partial name.
    let mut aside = new.as_os_str().to_owned();
    aside.push("0");
    let aside = PathBuf::from(aside);
    storage.rename(old, &aside)?;
    if let Err(error) = storage.rename(new, old) {
        storage.rename(&aside, old)?;
        return Err(error);
    }
    storage.rename(&aside, new)
}

fn refused(action: &'static str, path: &Path) -> impl Fn(io::Error) -> WriteError {
    let path = path.to_owned();
    move |source| WriteError::Io { action, path: path.clone(), source }
}

#[cfg(test)]
mod tests;
