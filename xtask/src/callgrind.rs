//! Runs a benchmark under callgrind and reads its instruction count.

use crate::tools::typed;
use anyhow::{Context as _, bail};
use std::path::Path;
use std::process::Command;

/// The counts of one run of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) instructions: u64,
    pub(crate) operations: u64,
}

impl Counted {
    /// (instructions − `shorter` instructions) / (operations − `shorter` operations).
    pub(crate) fn per_operation_beyond(self, shorter: Counted) -> anyhow::Result<f64> {
        if self.operations <= shorter.operations || self.instructions < shorter.instructions {
            bail!("the longer run did not do more work: {shorter:?}, then {self:?}");
        }
        let instructions = (self.instructions - shorter.instructions) as f64;
        Ok(instructions / (self.operations - shorter.operations) as f64)
    }
}

/// Runs a benchmark of `program` with this length and writes its profile to `profile`.
pub(crate) fn count(
    program: &Path,
    name: &str,
    length: u64,
    profile: &Path,
) -> anyhow::Result<Counted> {
    let mut out_file = std::ffi::OsString::from("--callgrind-out-file=");
    out_file.push(profile);
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(out_file).arg(program);
    command.args(["--run", name, &length.to_string()]);
    // The search path of the loader costs instructions and must be equal on all machines.
    command.env_remove("LD_LIBRARY_PATH");
    let output = command.output().with_context(|| format!("cannot run {}", typed(&command)))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("`{}` failed: {}\n{stderr}", typed(&command), output.status);
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    Ok(Counted {
        instructions: instructions_in(&stderr)
            .with_context(|| format!("valgrind printed no instruction count:\n{stderr}"))?,
        operations: operations_in(&stdout)
            .with_context(|| format!("benchmark {name} printed no operation count: {stdout}"))?,
    })
}

/// Parses the instruction count that callgrind prints: `==123== Collected : 4567` or, with commas,
/// `==123== I   refs:      4,567`.
pub(crate) fn instructions_in(stderr: &str) -> Option<u64> {
    stderr.lines().find_map(|line| {
        let (what, count) = line.strip_prefix("==")?.split_once("== ")?.1.split_once(':')?;
        let what: Vec<&str> = what.split_whitespace().collect();
        if what != ["Collected"] && what != ["I", "refs"] {
            return None;
        }
        count.split_whitespace().next()?.replace(',', "").parse().ok()
    })
}

/// Parses the operation count of a benchmark: `operations 4567 digest 0123456789abcdef`.
pub(crate) fn operations_in(stdout: &str) -> Option<u64> {
    let mut words = stdout.split_whitespace();
    words.find(|word| *word == "operations")?;
    words.next()?.parse().ok()
}
