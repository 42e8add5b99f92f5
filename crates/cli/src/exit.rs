//! Exit codes and last words.

use anyhow::Error;
use punctual_lab::{ExecuteError, LoadError, ScenarioError};
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

/// Something failed: a file could not be read or written.
const FAILURE: u8 = 1;
/// The command line or the scenario is wrong.
pub(crate) const USAGE: u8 = 2;
/// A checker found a broken invariant.
const VIOLATED: u8 = 3;
/// A capacity lies beyond the bounds.
const BEYOND: u8 = 4;
/// Someone asked to stop.
const INTERRUPTED: u8 = 130;

/// A mistake on the command line that clap cannot see.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for UsageError {}

/// A condition that always holds within the bounds, or never, for at least one transport.
#[derive(Debug)]
pub(crate) struct BeyondBounds(pub(crate) String);

impl std::fmt::Display for BeyondBounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for BeyondBounds {}

/// Says on stderr what went wrong and returns the code for it.
pub(crate) fn report(error: &Error) -> ExitCode {
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let (code, text) = match cause(error) {
        Some(Cause::Scenario(e)) => (USAGE, e.render(colour)),
        Some(Cause::Usage) => (USAGE, format!("error: {error:#}")),
        Some(Cause::Violated(violations)) => {
            let mut text = format!("error: {error:#}");
            for violation in violations.iter().skip(1).take(9) {
                text.push_str(&format!("\n  {violation}"));
            }
            (VIOLATED, text)
        }
        Some(Cause::Beyond) => (BEYOND, format!("{error:#}")),
        Some(Cause::Interrupted) => (INTERRUPTED, format!("{error:#}")),
        // The reader of our output went away, as `head` does; there is nobody to tell.
        Some(Cause::ClosedPipe) => return ExitCode::SUCCESS,
        None => (FAILURE, format!("error: {error:#}")),
    };
    // Where stderr is closed too, the code is all that is left to say.
    let _ = writeln!(std::io::stderr(), "{}", text.trim_end());
    ExitCode::from(code)
}

enum Cause<'a> {
    Scenario(&'a ScenarioError),
    Usage,
    Violated(&'a [String]),
    Beyond,
    Interrupted,
    ClosedPipe,
}

fn cause(error: &Error) -> Option<Cause<'_>> {
    error.chain().find_map(|e| {
        if let Some(e) = e.downcast_ref::<ScenarioError>() {
            return Some(Cause::Scenario(e));
        }
        if e.is::<UsageError>() {
            return Some(Cause::Usage);
        }
        if e.is::<BeyondBounds>() {
            return Some(Cause::Beyond);
        }
        if let Some(LoadError::Scenario(e)) = e.downcast_ref() {
            return Some(Cause::Scenario(e));
        }
        if let Some(e) = e.downcast_ref::<std::io::Error>()
            && e.kind() == std::io::ErrorKind::BrokenPipe
        {
            return Some(Cause::ClosedPipe);
        }
        match e.downcast_ref::<ExecuteError>()? {
            ExecuteError::Scenario(e) => Some(Cause::Scenario(e)),
            ExecuteError::Violated { violations, .. } => Some(Cause::Violated(violations)),
            ExecuteError::Interrupted { .. } => Some(Cause::Interrupted),
            _ => None,
        }
    })
}
