//! A directory with a scenario, and the program in it.

use std::path::Path;
use std::process::{Command, Output};

/// A temporary directory with `s.toml` in it.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new(scenario: &str) -> Place {
        let place = Place(tempfile::tempdir().expect("a temporary directory"));
        std::fs::write(place.0.path().join("s.toml"), scenario).expect("it can be written");
        place
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The program, to be run there.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
        command.current_dir(self.path()).args(args);
        command
    }

    /// Runs the program there.
    pub(crate) fn punctual(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program starts")
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
