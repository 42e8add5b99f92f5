//! Loads the BPF programs, pins them, and removes them again.

mod doctor;
mod load;
mod object;
mod state;
mod status;

pub use doctor::{Finding, doctor};
pub use load::{LoadOptions, RouteOption, load, unload};
pub use object::{LawPoint, Loaded, load_object};
pub use state::Paths;
pub use status::{ListedSocket, Marks, Status, sockets, status};

use std::path::PathBuf;

/// Why D2TCP cannot be loaded or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The machine lacks something; the finding says what to do.
    #[error("{}: {}; {}", .0.name, .0.detail, .0.remedy)]
    Missing(Finding),
    /// The kernel rejected a program. The log is the verifier's.
    #[error("the kernel rejected the program: {error}\n{log}")]
    Rejected {
        /// The error of the system call.
        error: libbpf_rs::Error,
        /// The messages of libbpf, with the verifier's log.
        log: String,
    },
    /// A program could not be attached or pinned.
    #[error("cannot attach {what}: {error}\n{log}")]
    Attach {
        /// The program or map.
        what: String,
        /// The error of the system call.
        error: libbpf_rs::Error,
        /// The messages of libbpf.
        log: String,
    },
    /// It is loaded already.
    #[error("D2TCP is loaded already ({}); run `punctual kernel unload` first", .0.display())]
    AlreadyLoaded(PathBuf),
    /// An option is wrong.
    #[error("{0}")]
    Option(String),
    /// A file or command of the system failed.
    #[error("{what}: {error}")]
    System {
        /// What was attempted.
        what: String,
        /// Its error.
        error: std::io::Error,
    },
}

impl LoadError {
    fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> LoadError {
        let what = what.into();
        move |error| LoadError::System { what, error }
    }
}
