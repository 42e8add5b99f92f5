//! Errors of reading and writing results. Messages say what to do next.

use parquet::errors::ParquetError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a run was not written. Nothing of it is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The directory already has a finished run.
    #[error("{} already holds a run; ask for it to be overwritten or choose another directory", .0.display())]
    Exists(PathBuf),
    /// The directory has files that no run wrote.
    #[error("{} holds {found}, which no run wrote; move it away or choose another directory", dir.display())]
    NotOurs {
        /// The directory.
        dir: PathBuf,
        /// What it holds.
        found: String,
    },
    /// Another command is writing there.
    #[error(
        "another punctual is writing to {}; wait for it, or write elsewhere with --out DIR",
        .0.display()
    )]
    Locked(PathBuf),
    /// The path has no last part, or one that means an interrupted write.
    #[error("{} cannot name a run; choose a directory whose name is not `..` and does not end in `.partial-<number>`", .0.display())]
    Name(PathBuf),
    /// An added file would hide one of the run's own or lie outside the directory.
    #[error(
        "a file added to a run cannot be called `{0}`; choose a plain name that the run does not use itself"
    )]
    FileName(String),
    /// The operating system refused.
    #[error("cannot {action} {}: {}", path.display(), advice(source))]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The columns could not be encoded.
    #[error("cannot encode {}: {source}; please report this", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// What the encoder said.
        source: ParquetError,
    },
    /// A number or text could not be encoded.
    #[error("cannot encode {}: {source}; please report this", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What the encoder said.
        source: serde_json::Error,
    },
}

/// A system error in words, with advice where there is any.
fn advice(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull => {
            "the disk is full; free some space or choose a directory on another disk".into()
        }
        io::ErrorKind::QuotaExceeded => {
            "your disk quota is used up; free some space or choose a directory on another disk"
                .into()
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "the file system is read-only; choose a directory on another one".into()
        }
        io::ErrorKind::PermissionDenied => {
            "permission denied; choose a directory that you may write to".into()
        }
        _ => error.to_string(),
    }
}

/// Why a run could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// No such directory.
    #[error("{} does not exist; check the path, or run the scenario first", .0.display())]
    NotFound(PathBuf),
    /// A partial directory that an interrupted program left behind.
    #[error("{} was left behind by an interrupted run and is not whole; delete it and run again", .0.display())]
    Partial(PathBuf),
    /// A directory without manifest.
    #[error("{} is not a run: it has no manifest.json; give the directory that a run wrote", .0.display())]
    NoManifest(PathBuf),
    /// Written by another version of the program.
    #[error(
        "{} has format {found} and this version reads format {expected}; run the scenario again, or \
         read it with punctual {version}",
        path.display()
    )]
    Format {
        /// The manifest.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The format that can be read.
        expected: u32,
        /// The version of punctual that wrote it.
        version: String,
    },
    /// A file that the manifest names is not there.
    #[error("{} is missing; the run was damaged after it was written: run it again", .0.display())]
    Missing(PathBuf),
    /// A file has another length than the manifest says.
    #[error(
        "{} has {found} bytes and was written with {expected}; it was truncated or changed: run it \
         again",
        path.display()
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// Its length.
        found: u64,
        /// Its length when written.
        expected: u64,
    },
    /// A file has other contents than were written.
    #[error("{} is not as it was written: it was damaged or changed; run it again", .0.display())]
    Changed(PathBuf),
    /// Not JSON, or JSON without the expected fields.
    #[error("{} cannot be decoded: {source}; it was changed after it was written: run it again", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What the decoder said.
        source: serde_json::Error,
    },
    /// Not a Parquet file, or a damaged one.
    #[error("{} is damaged: {source}; run it again", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the decoder said.
        source: ParquetError,
    },
    /// A column is missing or has wrong values.
    #[error("{}: column `{column}` {problem}; it was changed after it was written: run it again", path.display())]
    Column {
        /// The file.
        path: PathBuf,
        /// The column.
        column: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The operating system refused.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl ReadError {
    /// The file or directory that it is about.
    pub fn path(&self) -> &Path {
        match self {
            ReadError::NotFound(path)
            | ReadError::Partial(path)
            | ReadError::NoManifest(path)
            | ReadError::Missing(path)
            | ReadError::Changed(path)
            | ReadError::Format { path, .. }
            | ReadError::Length { path, .. }
            | ReadError::Json { path, .. }
            | ReadError::Parquet { path, .. }
            | ReadError::Column { path, .. }
            | ReadError::Io { path, .. } => path,
        }
    }
}

/// Why summaries cannot be combined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CombineError {
    /// There are no summaries.
    #[error("there is no repetition to combine")]
    Nothing,
    /// They are of different transports.
    #[error("repetitions of `{0}` and `{1}` cannot be combined; combine each transport by itself")]
    Mixed(String, String),
    /// One of them is a combination already.
    #[error("a summary of `{0}` is over {1} repetitions already; combine single repetitions")]
    Combined(String, u32),
}
