//! Runs tests against a mutant until one fails.

use super::schema::VARIABLE;
use anyhow::Context as _;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Memory that tests may use: a mutant may allocate in an endless loop.
const MEMORY_KIB: u64 = 4 << 20;

/// What the tests made of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// This test failed, or the process ended with an error.
    Caught(String),
    Missed,
    TimedOut,
}

/// A test binary and the tests to run.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) binary: PathBuf,
    /// Parts of names of tests; empty selects all.
    pub(super) filters: Vec<String>,
    pub(super) dir: PathBuf,
    pub(super) timeout: Duration,
}

impl Trial {
    /// Runs the tests with the numbered mutant, or with none.
    pub(super) fn run(&self, mutant: Option<u32>) -> anyhow::Result<Verdict> {
        let mut child = self
            .command(mutant)
            .spawn()
            .with_context(|| format!("cannot run {}", self.binary.display()))?;
        let stdout = child.stdout.take().context("the tests have no output")?;
        let (sender, lines) = channel();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                if !line.is_ok_and(|line| sender.send(line).is_ok()) {
                    break;
                }
            }
        });
        let end = Instant::now() + self.timeout;
        let mut verdict = None;
        while verdict.is_none() {
            match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => verdict = failed_test(&line).map(|test| Verdict::Caught(test.into())),
                Err(RecvTimeoutError::Timeout) => verdict = Some(Verdict::TimedOut),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if verdict.is_some() {
            // It may have ended by itself.
            _ = child.kill();
        }
        let status = child.wait().context("cannot wait for the tests")?;
        drop(lines);
        _ = reader.join();
        Ok(match verdict {
            Some(verdict) => verdict,
            None if status.success() => Verdict::Missed,
            None => Verdict::Caught(format!("the tests ended with {status}")),
        })
    }

    fn command(&self, mutant: Option<u32>) -> Command {
        let mut command = limited(&self.binary);
        command.args(&self.filters).current_dir(&self.dir).env("CARGO_MANIFEST_DIR", &self.dir);
        // The same cases for every mutant; a failure need not be made small or remembered.
        command.env("PROPTEST_RNG_SEED", "1").env("PROPTEST_MAX_SHRINK_ITERS", "0");
        command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
        command.env_remove(VARIABLE);
        if let Some(number) = mutant {
            command.env(VARIABLE, number.to_string());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }
}

/// The program with bounded memory.
fn limited(program: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {MEMORY_KIB}; exec \"$0\" \"$@\"")]).arg(program);
    command
}

/// The test that failed, by a line of the test harness.
fn failed_test(line: &str) -> Option<&str> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    Some(name.trim_end_matches(" - should panic"))
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    /// Runs a script in place of a test binary.
    fn verdict(script: &str, mutant: Option<u32>) -> Verdict {
        let trial = Trial {
            binary: "sh".into(),
            filters: vec!["-c".into(), script.into()],
            dir: std::env::temp_dir(),
            timeout: Duration::from_secs(2),
        };
        trial.run(mutant).expect("a verdict")
    }

    #[test]
    fn run__the_first_failure_ends_it() {
        let started = Instant::now();
        let failure = "echo 'test a ... ok'; echo 'test b::c ... FAILED'; exec sleep 60";
        assert_eq!(verdict(failure, None), Verdict::Caught("b::c".into()));
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn run__crashes_count_and_endless_loops_end() {
        assert!(matches!(verdict("exit 101", None), Verdict::Caught(_)));
        assert!(matches!(verdict("kill -9 $$", None), Verdict::Caught(_)));
        assert_eq!(verdict("exec sleep 60", None), Verdict::TimedOut);
        assert_eq!(verdict("echo 'test a ... ok'", None), Verdict::Missed);
    }

    #[test]
    fn run__selects_the_mutant() {
        let fails_with_7 = "test \"$PUNCTUAL_MUTANT\" != 7";
        assert!(matches!(verdict(fails_with_7, Some(7)), Verdict::Caught(_)));
        assert_eq!(verdict(fails_with_7, Some(8)), Verdict::Missed);
        assert_eq!(verdict("test -z \"$PUNCTUAL_MUTANT\"", None), Verdict::Missed);
    }
}
