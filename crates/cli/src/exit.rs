//! Exit codes and error messages.

use anyhow::Error;
use punctual_host::HostError;
use punctual_lab::{ExecuteError, LoadError, ScenarioError, TaskError};
use std::io::{IsTerminal, Write as _};

/// A failure, such as a file that cannot be read or written.
const FAILURE: u8 = 1;
/// The command line or the scenario is wrong.
pub(crate) const USAGE: u8 = 2;
/// A checker found a broken invariant.
const VIOLATED: u8 = 3;
/// The capacity is outside the bounds.
const BEYOND: u8 = 4;
/// A replay differs from its run.
const DIFFERS: u8 = 5;
/// Some results of a report are missing or damaged.
const INCOMPLETE: u8 = 6;
/// A transfer completed after its deadline.
const LATE: u8 = 7;
/// Whether a transfer succeeded is unknown.
const UNKNOWN: u8 = 8;
/// The timing of a switch cannot be trusted.
const INVALID_TIMING: u8 = 9;
/// A capacity search has another round of tasks.
const NEXT_ROUND: u8 = 10;
/// The user interrupted the command.
const INTERRUPTED: u8 = 130;

/// Defines an error that holds a message and has its own exit code.
macro_rules! message {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name(pub(crate) String);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl std::error::Error for $name {}
    };
}

message! {
    /// A mistake on the command line that clap does not detect.
    UsageError
}
message! {
    /// A condition that always holds within the bounds, or never, for at least one transport.
    BeyondBounds
}
message! {
    /// Some results are missing or damaged.
    Incomplete
}
message! {
    /// A transfer that completed after its deadline.
    Late
}
message! {
    /// A switch that was too late for its timing to be trusted.
    InvalidTiming
}
message! {
    /// A capacity search whose next round is planned.
    NextRound
}
message! {
    /// A replay whose files differ from those of its run.
    ReplayDiffers
}

/// Whether output to this stream may be coloured: it is a terminal and NO_COLOR is unset or empty
/// (<https://no-color.org>).
pub(crate) fn is_coloured(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prints an error on stderr and returns its exit code.
pub(crate) fn report(error: &Error) -> u8 {
    let (code, text) = message(error, is_coloured(&std::io::stderr()));
    if code != 0 {
        // If stderr is closed too, only the exit code remains.
        let _ = writeln!(std::io::stderr(), "{}", text.trim_end());
    }
    code
}

/// The exit code of an error, and its message.
pub(crate) fn message(error: &Error, colour: bool) -> (u8, String) {
    match cause(error) {
        Some(Cause::Scenario(e)) => (USAGE, e.render(colour)),
        Some(Cause::Usage) => (USAGE, format!("error: {}", chain(error))),
        Some(Cause::Violated(violations)) => {
            let mut text = format!("error: {}", chain(error));
            for violation in violations.iter().skip(1).take(9) {
                text.push_str(&format!("\n  {violation}"));
            }
            (VIOLATED, text)
        }
        Some(Cause::Beyond) => (BEYOND, chain(error)),
        Some(Cause::Incomplete) => (INCOMPLETE, chain(error)),
        Some(Cause::NextRound) => (NEXT_ROUND, chain(error)),
        Some(Cause::Differs) => (DIFFERS, chain(error)),
        Some(Cause::Late) => (LATE, chain(error)),
        Some(Cause::InvalidTiming) => (INVALID_TIMING, format!("error: {}", chain(error))),
        Some(Cause::Unknown) => (UNKNOWN, format!("error: {}", chain(error))),
        Some(Cause::Interrupted) => (INTERRUPTED, chain(error)),
        // The reader of our output, such as `head`, has closed the pipe.
        Some(Cause::ClosedPipe) => (0, String::new()),
        None => (FAILURE, format!("error: {}", chain(error))),
    }
}

/// An error and its causes. A cause that the error's own message ends with is not repeated.
fn chain(error: &Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.ends_with(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    text
}

enum Cause<'a> {
    Scenario(&'a ScenarioError),
    Usage,
    Violated(&'a [String]),
    Beyond,
    NextRound,
    Differs,
    Incomplete,
    Late,
    InvalidTiming,
    Unknown,
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
        if e.is::<Incomplete>() {
            return Some(Cause::Incomplete);
        }
        if e.is::<Late>() {
            return Some(Cause::Late);
        }
        if e.is::<InvalidTiming>() {
            return Some(Cause::InvalidTiming);
        }
        match e.downcast_ref::<HostError>() {
            Some(HostError::Interrupted) => return Some(Cause::Interrupted),
            Some(HostError::Unconfirmed { .. }) => return Some(Cause::Unknown),
            _ => {}
        }
        if e.is::<ReplayDiffers>() {
            return Some(Cause::Differs);
        }
        if e.is::<NextRound>() {
            return Some(Cause::NextRound);
        }
        match e.downcast_ref::<TaskError>() {
            Some(TaskError::Parts(_)) => return Some(Cause::Incomplete),
            Some(
                TaskError::NoPlan(_)
                | TaskError::OtherPlan(_)
                | TaskError::OtherBuild { .. }
                | TaskError::Outside(_)
                | TaskError::NoTask { .. },
            ) => return Some(Cause::Usage),
            Some(TaskError::Scenario(e)) => return Some(Cause::Scenario(e)),
            Some(TaskError::Execute(e)) => return of_execution(e),
            _ => {}
        }
        if let Some(LoadError::Scenario(e)) = e.downcast_ref() {
            return Some(Cause::Scenario(e));
        }
        if let Some(e) = e.downcast_ref::<std::io::Error>()
            && e.kind() == std::io::ErrorKind::BrokenPipe
        {
            return Some(Cause::ClosedPipe);
        }
        of_execution(e.downcast_ref()?)
    })
}

fn of_execution(error: &ExecuteError) -> Option<Cause<'_>> {
    match error {
        ExecuteError::Scenario(e) => Some(Cause::Scenario(e)),
        ExecuteError::OtherSettings { .. } => Some(Cause::Usage),
        ExecuteError::Violated { violations, .. } => Some(Cause::Violated(violations)),
        ExecuteError::Interrupted { .. } => Some(Cause::Interrupted),
        _ => None,
    }
}
