//! What the outcome of a run depends on, in two hashes: the program's sources and the run's set-up.

use crate::plan::PlannedRun;
use crate::scenario::RunSetup;
use punctual_sim::Simulate;
use std::fmt::{self, Write};
use std::path::Path;
use std::sync::OnceLock;

static BUILD: OnceLock<String> = OnceLock::new();

/// The build id: a hash of all sources that can change a result, computed when they are compiled; or
/// of the whole program, see [`set_program`].
pub fn build_id() -> &'static str {
    BUILD.get_or_init(|| env!("PUNCTUAL_BUILD").to_owned())
}

/// Makes the build id a hash of the whole program, a file. Programs that add transports of their own
/// call it before the first run: the sources of those transports are not among ours, and runs of an
/// earlier version of them must not be reused.
pub fn set_program(program: &Path) -> std::io::Result<()> {
    let mut hash = blake3::Hasher::new();
    hash.update(&std::fs::read(program)?);
    let _ = BUILD.set(hash.finalize().to_hex()[..16].to_owned());
    Ok(())
}

static COMMIT: OnceLock<String> = OnceLock::new();

/// Names the git commit that the program was built from, for the manifests of all runs to come.
/// The first call counts.
pub fn set_commit(commit: &str) {
    let _ = COMMIT.set(commit.to_owned());
}

/// The git commit that the program was built from, where [`set_commit`] named it.
pub(crate) fn commit() -> Option<String> {
    COMMIT.get().filter(|commit| !commit.is_empty()).cloned()
}

struct Hash(blake3::Hasher);

impl Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

/// A hash of a run's set-up, which holds everything that its outcome depends on besides the build:
/// also the contents of files that the scenario names. Whether the network is recorded does not
/// count, as it changes no other file.
pub(crate) fn fingerprint<S: Simulate>(setup: &RunSetup<S>, run: &PlannedRun<S>) -> String {
    let mut hash = Hash(blake3::Hasher::new());
    let (transport, seed) = (&run.subject.label, run.seed);
    let traffic = run.scenario.traffic_names();
    let written = match setup {
        RunSetup::Packets(setup) => {
            let mut setup = setup.clone();
            setup.network_trace = false;
            write!(hash, "{transport} {seed} {traffic:?} {setup:?}")
        }
        RunSetup::Ideal(setup) => write!(hash, "{transport} {seed} {traffic:?} {setup:?}"),
    };
    written.expect("hashing does not fail");
    hash.0.finalize().to_hex().to_string()
}
