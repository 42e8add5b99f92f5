//! Finds studies in the sources: tests that print figures for the docs.
//!
//! A study is a test that calls `print_figure("name", …)` in its own body, so that the name of a
//! figure leads to the test that prints it. A long study is ignored by default and runs only with
//! `cargo xtask figures`.

use crate::sources::{find, target_of};
use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};

/// A test that prints a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Study {
    pub(crate) figure: String,
    /// Cargo's arguments that select the test binary: `--lib`, `--bins` or `--test NAME`.
    pub(crate) target: Vec<String>,
    /// The name of the test function.
    pub(crate) test: String,
    pub(crate) is_long: bool,
    /// The file, relative to the root of the workspace, and the line of the call.
    pub(crate) path: PathBuf,
    pub(crate) line: usize,
}

const CALL: &str = "print_figure(";

/// Finds the studies of every crate.
pub(crate) fn find_studies(root: &Path) -> anyhow::Result<Vec<Study>> {
    let mut files = Vec::new();
    find(root, Path::new("crates"), "rs", &mut files)?;
    files.sort();
    let mut studies = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(root.join(&path))?;
        for call in calls_in(&text).with_context(|| format!("in {}", path.display()))? {
            let target = target_of(root, &path)?;
            let Call { figure, test, is_long, line } = call;
            let path = path.clone();
            studies.push(Study { figure, target, test, is_long, path, line });
        }
    }
    Ok(studies)
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    figure: String,
    test: String,
    is_long: bool,
    line: usize,
}

/// A test function whose end has not been seen yet.
struct OpenTest {
    name: String,
    is_long: bool,
    /// Its last line.
    end: String,
}

/// The calls of `print_figure` in a source file that rustfmt has formatted.
fn calls_in(text: &str) -> anyhow::Result<Vec<Call>> {
    let mut calls = Vec::new();
    let (mut is_test, mut is_ignored) = (false, false);
    let mut open: Option<OpenTest> = None;
    let mut offset = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let (start, code) = (offset, line.trim());
        offset += line.len();
        if code.starts_with("//") {
            continue;
        }
        if open.as_ref().is_some_and(|test| line.trim_end() == test.end) {
            open = None;
        }
        is_test |= code == "#[test]";
        is_ignored |= code.starts_with("#[ignore");
        if let (Some(rest), None) = (code.strip_prefix("fn "), &open) {
            if is_test {
                let name = rest.split('(').next().unwrap_or(rest).to_owned();
                let indent = &line[..line.len() - line.trim_start().len()];
                open = Some(OpenTest { name, is_long: is_ignored, end: format!("{indent}}}") });
            }
            (is_test, is_ignored) = (false, false);
        }
        let Some(at) = line.find(CALL).filter(|at| !line[..*at].ends_with("fn ")) else {
            continue;
        };
        let line = number + 1;
        let argument = text[start + at + CALL.len()..].trim_start();
        let Some((figure, _)) = argument.strip_prefix('"').and_then(|rest| rest.split_once('"'))
        else {
            bail!("line {line}: give `print_figure` its name as a string literal");
        };
        let Some(test) = &open else {
            bail!("line {line}: call `print_figure` in the test function itself");
        };
        let (figure, test, is_long) = (figure.to_owned(), test.name.clone(), test.is_long);
        calls.push(Call { figure, test, is_long, line });
    }
    Ok(calls)
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    fn call(figure: &str, test: &str, is_long: bool, line: usize) -> Call {
        Call { figure: figure.into(), test: test.into(), is_long, line }
    }

    #[test]
    fn calls_in__test_and_whether_it_is_long() {
        let text = "\
use punctual_testkit::print_figure;

/// Printed by `print_figure(\"not a call\")`.
#[test]
fn quick() {
    fn nested() {
        work();
    }
    print_figure(\"a\", &table);
}

#[test]
#[ignore = \"study: cargo xtask figures\"]
fn long() {
    punctual_testkit::print_figure(
        \"b\",
        &table,
    );
}
";
        let calls = calls_in(text).expect("calls");
        assert_eq!(calls, [call("a", "quick", false, 9), call("b", "long", true, 15)]);
    }

    #[test]
    fn calls_in__helpers_and_computed_names_are_refused() {
        let helper = "#[test]\nfn t() {\n}\nfn helper() {\n    print_figure(\"a\", x);\n}\n";
        let error = calls_in(helper).expect_err("not in a test").to_string();
        assert!(error.starts_with("line 5: call"), "{error}");
        let computed = "#[test]\nfn t() {\n    print_figure(name, x);\n}\n";
        let error = calls_in(computed).expect_err("no literal").to_string();
        assert!(error.starts_with("line 3: give"), "{error}");
    }

    #[test]
    fn calls_in__the_definition_is_no_call() {
        assert_eq!(calls_in("pub fn print_figure(name: &str) {}\n").expect("none"), []);
    }
}
