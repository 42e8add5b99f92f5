//! Two hashes that decide whether a run can be reused: of the program's sources and of its set-up.

use crate::plan::PlannedRun;
use crate::scenario::RunSetup;
use punctual_sim::Simulate;
use std::fmt::{self, Write};
use std::path::Path;
use std::sync::OnceLock;

static BUILD: OnceLock<String> = OnceLock::new();

/// The build id: a hash of all sources that can change a result, computed at compile time.
///
/// After [`set_program`] it is a hash of the whole program instead.
pub fn build_id() -> &'static str {
    BUILD.get_or_init(|| env!("PUNCTUAL_BUILD").to_owned())
}

/// Makes the build id a hash of the program file.
///
/// Programs with transports of their own call it before the first run, because the default build id
/// does not cover the sources of those transports.
pub fn set_program(program: &Path) -> std::io::Result<()> {
    let mut hash = blake3::Hasher::new();
    hash.update(&std::fs::read(program)?);
    let _ = BUILD.set(hash.finalize().to_hex()[..16].to_owned());
    Ok(())
}

static COMMIT: OnceLock<String> = OnceLock::new();

/// Sets the git commit that manifests record. Only the first call has an effect.
pub fn set_commit(commit: &str) {
    let _ = COMMIT.set(commit.to_owned());
}

/// The git commit that the program was built from, if [`set_commit`] set it.
pub(crate) fn commit() -> Option<String> {
    COMMIT.get().filter(|commit| !commit.is_empty()).cloned()
}

/// The build id of what made a run: for a run on a testbed it covers switch, wire formats and host
/// runner, too.
pub(crate) fn build_of<S: Simulate>(setup: &RunSetup<S>) -> String {
    match setup {
        RunSetup::Testbed(_) => format!("{}-{}", build_id(), env!("PUNCTUAL_TESTBED_BUILD")),
        _ => build_id().to_owned(),
    }
}

struct Hash(blake3::Hasher);

impl Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

/// A hash of everything that a run's outcome depends on besides the build.
///
/// It covers the contents of files that the scenario names. It does not cover `run.network_trace`,
/// which adds a file and changes no other.
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
        RunSetup::Testbed(run) => {
            let mut setup = run.setup.clone();
            setup.setup.network_trace = false;
            write!(hash, "testbed: {transport} {seed} {traffic:?} {setup:?}")
        }
        RunSetup::Flows(setup) => {
            write!(hash, "flow level: {transport} {seed} {traffic:?} {setup:?}")
        }
        RunSetup::Ideal(setup) => write!(hash, "{transport} {seed} {traffic:?} {setup:?}"),
    };
    written.expect("hashing does not fail");
    hash.0.finalize().to_hex().to_string()
}
