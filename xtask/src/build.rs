//! Builds the workspace with the same features in every step.
//!
//! Cargo unifies features over the packages that a command selects, and counts dev-dependencies only
//! if the command selects a test. Commands that differ in either build most crates again: those
//! below `parquet`, whose dependencies have other features in tests. So every step selects the whole
//! workspace and at least one test.

use crate::tools::{cargo, output};
use std::path::PathBuf;
use std::process::Command;

/// A small test that exists once: it makes `cargo build` count dev-dependencies.
const ANY_TEST: [&str; 2] = ["--test", "allocation"];

/// The command that builds these targets of the workspace, such as `--bin punctual`.
pub(crate) fn build(targets: &[&str]) -> Command {
    let mut command = cargo();
    command.args(["build", "--workspace"]).args(targets).args(ANY_TEST);
    command
}

/// A test binary and the main source file of its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestBinary {
    pub(crate) source: PathBuf,
    pub(crate) program: PathBuf,
}

/// Builds the test binaries of these targets, such as `--lib`, and returns them.
pub(crate) fn test_binaries<'a>(
    targets: impl IntoIterator<Item = &'a str>,
) -> anyhow::Result<Vec<TestBinary>> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    command.args(targets);
    Ok(output(&mut command)?.lines().filter_map(binary_in).collect())
}

/// The test binary in a JSON message of cargo.
fn binary_in(message: &str) -> Option<TestBinary> {
    let field = |name: &str| {
        let (_, rest) = message.split_once(&format!("\"{name}\":\""))?;
        Some(PathBuf::from(rest.split_once('"')?.0))
    };
    let (_, profile) = message.split_once("\"profile\":{")?;
    profile.split('}').next()?.contains("\"test\":true").then_some(())?;
    Some(TestBinary { source: field("src_path")?, program: field("executable")? })
}

/// The names of the tests in a binary.
pub(crate) fn tests_in(binary: &TestBinary) -> anyhow::Result<Vec<String>> {
    let list = output(Command::new(&binary.program).arg("--list"))?;
    Ok(list.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;
    use crate::tools::{root, typed};
    use std::path::Path;

    #[test]
    fn build__one_test_of_the_workspace() {
        let typed = typed(&build(&["--bin", "punctual"]));
        assert_eq!(typed, "cargo build --workspace --bin punctual --test allocation");
        let crates = std::fs::read_dir(root().join("crates")).expect("crates");
        let has_test = |entry: &std::fs::DirEntry| {
            let tests = entry.path().join("tests");
            [ANY_TEST[1].to_owned(), format!("{}.rs", ANY_TEST[1])]
                .iter()
                .any(|name| tests.join(name).exists())
        };
        assert_eq!(crates.flatten().filter(has_test).count(), 1);
    }

    #[test]
    fn binary_in__tests_only() {
        let message = r#"{"reason":"compiler-artifact","target":{"src_path":"/w/crates/net/src/lib.rs","test":true},"profile":{"opt_level":"2","test":true},"executable":"/w/target/debug/deps/net-01","fresh":true}"#;
        let binary = binary_in(message).expect("a test");
        assert_eq!(binary.source, Path::new("/w/crates/net/src/lib.rs"));
        assert_eq!(binary.program, Path::new("/w/target/debug/deps/net-01"));
        let program = message.replace("\"2\",\"test\":true", "\"2\",\"test\":false");
        assert_eq!(binary_in(&program), None);
        assert_eq!(binary_in(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
