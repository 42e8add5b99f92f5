//! Builds the tests of a crate in the copy of the tree.

use crate::tools::{cargo, root, typed};
use anyhow::{Context as _, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A build that succeeded, or the places of its errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Build {
    /// The test binary.
    Done(PathBuf),
    /// Files, from the root of the tree, and lines, from 1.
    Failed(Vec<(String, usize)>),
}

/// Builds the unit tests of a package.
pub(super) fn build(tree: &Path, package: &str) -> anyhow::Result<Build> {
    let mut command = cargo();
    command.current_dir(tree).stdin(Stdio::null()).stderr(Stdio::null());
    command.args(["test", "--no-run", "--lib", "--message-format=json", "--package", package]);
    // Other dependencies than ours are those of the usual tests and not built again. Ours are built
    // sooner with less optimisation, and each mutant runs the tests once only.
    command.env("CARGO_TARGET_DIR", root().join("target")).env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    let output = command.output().with_context(|| format!("cannot run {}", typed(&command)))?;
    let messages = String::from_utf8_lossy(&output.stdout);
    match read(&messages, output.status.success()) {
        Some(build) => Ok(build),
        None => bail!("`{}` in {} failed without saying where", typed(&command), tree.display()),
    }
}

/// Reads the messages of cargo. The result is `None` if a build failed elsewhere than in a file.
fn read(messages: &str, succeeded: bool) -> Option<Build> {
    let messages: Vec<Value> =
        messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if succeeded {
        let binaries = messages.iter().filter(|m| m["profile"]["test"] == true);
        return binaries
            .filter_map(|m| m["executable"].as_str())
            .next_back()
            .map(|path| Build::Done(path.into()));
    }
    let errors = messages.iter().map(|m| &m["message"]).filter(|m| m["level"] == "error");
    let spans = errors.filter_map(|m| m["spans"].as_array()).flatten();
    let places: Vec<(String, usize)> = spans
        .filter(|span| span["is_primary"] == true)
        .filter_map(|span| {
            let line = usize::try_from(span["line_start"].as_u64()?).ok()?;
            Some((span["file_name"].as_str()?.to_owned(), line))
        })
        .collect();
    (!places.is_empty()).then_some(Build::Failed(places))
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn read__the_binary_or_the_places_of_errors() {
        let done = r#"{"reason":"compiler-artifact","executable":null,"profile":{"test":false}}
            {"reason":"compiler-artifact","executable":"/t/x-1","profile":{"test":true}}
            {"reason":"build-finished","success":true}"#;
        assert_eq!(read(done, true), Some(Build::Done("/t/x-1".into())));

        let span = |primary: bool, line: usize| {
            format!(r#"{{"file_name":"a.rs","line_start":{line},"is_primary":{primary}}}"#)
        };
        let message = |level: &str, spans: &[String]| {
            format!(r#"{{"message":{{"level":"{level}","spans":[{}]}}}}"#, spans.join(","))
        };
        let failed = [
            message("warning", &[span(true, 1)]),
            message("error", &[span(false, 2), span(true, 3)]),
            message("error", &[]),
        ];
        let places = vec![("a.rs".to_owned(), 3)];
        assert_eq!(read(&failed.join("\n"), false), Some(Build::Failed(places)));
        assert_eq!(read(&failed[2], false), None);
    }
}
