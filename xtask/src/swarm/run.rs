//! One round of a property test, in its own process.

use super::Property;
use anyhow::{Context as _, bail};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A round: a number of cases and their seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    pub(crate) cases: u32,
    pub(crate) seed: u64,
}

/// A round that exceeds its share of the time by this much counts as hung. Shrinking a failure may
/// take a third of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a round. The error contains the output of the test.
pub(crate) fn run_round(property: &Property, round: &Round, share: Duration) -> anyhow::Result<()> {
    let log = std::env::temp_dir().join(format!("punctual-swarm-{:016x}", round.seed));
    let file = std::fs::File::create(&log).context("cannot write to the temporary directory")?;
    let child = Command::new(&property.binary)
        .args(["--exact", &property.name])
        .current_dir(property.directory())
        .env("PROPTEST_CASES", round.cases.to_string())
        .env("PROPTEST_RNG_SEED", round.seed.to_string())
        // Rejected cases grow with the number of cases; the default limit is for 256 cases.
        .env("PROPTEST_MAX_GLOBAL_REJECTS", u32::MAX.to_string())
        .env("PROPTEST_MAX_SHRINK_TIME", (PATIENCE.as_millis() / 3).to_string())
        // The seed repeats a failure, so no regression files are written.
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
        .stdin(Stdio::null())
        .stderr(file.try_clone()?)
        .stdout(file)
        .spawn()
        .with_context(|| format!("cannot run {}", property.binary.display()))?;
    let outcome = wait(child, share + PATIENCE);
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    let _ = std::fs::remove_file(&log);
    match outcome? {
        Some(true) => Ok(()),
        Some(false) => bail!("{}", text.trim()),
        None => bail!("did not end within {:.0} s", (share + PATIENCE).as_secs_f64()),
    }
}

/// Waits for a process. Returns whether it succeeded; `None` if it was killed after `most`.
fn wait(mut child: Child, most: Duration) -> anyhow::Result<Option<bool>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if started.elapsed() > most {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
#[cfg(unix)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn wait__ends_well_or_badly_or_not_at_all() {
        let run = |script: &str, most| {
            let child = Command::new("sh").args(["-c", script]).spawn().expect("a shell");
            wait(child, most).expect("an outcome")
        };
        assert_eq!(run("exit 0", PATIENCE), Some(true));
        assert_eq!(run("exit 3", PATIENCE), Some(false));
        assert_eq!(run("exec sleep 60", Duration::from_millis(20)), None);
    }
}
