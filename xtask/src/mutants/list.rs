//! The mutants that cargo-mutants proposes.

use crate::tools::{cargo, output};
use anyhow::Context as _;
use serde_json::Value;
use std::ops::Range;
use std::path::Path;

/// One small change of a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mutant {
    /// From the root of the workspace, with slashes.
    pub(super) file: String,
    /// As cargo-mutants calls it, with line and column.
    pub(super) name: String,
    /// The kind of change: `FnValue`, `BinaryOperator`, `MatchArm`, ….
    pub(super) genre: String,
    /// The bytes of the file to replace.
    pub(super) range: Range<usize>,
    pub(super) replacement: String,
    /// The line in which the change begins, without its indentation.
    pub(super) line: String,
}

impl Mutant {
    /// Its name without file, line and column.
    pub(super) fn change(&self) -> &str {
        self.name.splitn(4, ':').nth(3).unwrap_or(&self.name).trim()
    }

    /// Its name without line and column, which edits elsewhere in the file change.
    pub(super) fn key(&self) -> String {
        key(&self.name)
    }

    /// The source with this change.
    pub(super) fn apply(&self, source: &str) -> String {
        let (before, after) = (&source[..self.range.start], &source[self.range.end..]);
        format!("{before}{}{after}", self.replacement)
    }
}

/// The name of a mutant without line and column.
pub(super) fn key(name: &str) -> String {
    let mut parts = name.splitn(4, ':');
    let file = parts.next().unwrap_or_default();
    format!("{file}:{}", parts.nth(2).unwrap_or_default())
}

/// The mutants of the files in a tree, in order.
pub(super) fn list(tree: &Path, package: &str, files: &[&str]) -> anyhow::Result<Vec<Mutant>> {
    let mut command = cargo();
    command.current_dir(tree);
    command.args(["mutants", "--list", "--json", "--package", package]);
    files.iter().for_each(|file| _ = command.args(["--file", file]));
    parse(&output(&mut command)?, |file| {
        let path = tree.join(file);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    })
}

fn parse(json: &str, read: impl Fn(&str) -> anyhow::Result<String>) -> anyhow::Result<Vec<Mutant>> {
    let list: Vec<Value> = serde_json::from_str(json).context("list of cargo mutants")?;
    let mut source = (String::new(), String::new());
    let mut mutants = Vec::new();
    for item in &list {
        let text = |key: &str| {
            item[key].as_str().with_context(|| format!("cargo mutants lists no `{key}`"))
        };
        let file = text("file")?;
        if source.0 != file {
            source = (file.to_owned(), read(file)?);
        }
        let place = |end: &str| {
            let number = |key: &str| item["span"][end][key].as_u64().map(|n| n as usize);
            let place = number("line").zip(number("column"));
            place.and_then(|(line, column)| offset(&source.1, line, column))
        };
        let (start, end) = place("start")
            .zip(place("end"))
            .with_context(|| format!("a mutant outside of {file}: {}", item["span"]))?;
        let line = source.1[..start].rfind('\n').map_or(0, |end| end + 1);
        mutants.push(Mutant {
            file: file.to_owned(),
            name: text("name")?.to_owned(),
            genre: text("genre")?.to_owned(),
            range: start..end,
            replacement: text("replacement")?.to_owned(),
            line: source.1[line..].lines().next().unwrap_or_default().trim().to_owned(),
        });
    }
    Ok(mutants)
}

/// The byte at a line and a column, both counted from 1, columns in characters.
fn offset(source: &str, line: usize, column: usize) -> Option<usize> {
    let start: usize = source.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let rest = source.get(start..)?;
    let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.nth(column.checked_sub(1)?).map(|at| start + at)
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    const SOURCE: &str = "// α\nfn f() -> bool {\n    1 < 2\n}\n";

    fn json(line: usize) -> String {
        format!(
            r#"[{{"file": "a/b.rs", "function": null, "genre": "BinaryOperator",
                "name": "a/b.rs:3:7: replace < with == in <X as Y>::f", "replacement": "==",
                "span": {{"start": {{"line": {line}, "column": 7}},
                          "end": {{"line": {line}, "column": 8}}}}}}]"#
        )
    }

    #[test]
    fn parse__finds_bytes_and_line() {
        let mutants = parse(&json(3), |_| Ok(SOURCE.to_owned())).expect("mutants");
        assert_eq!(mutants.len(), 1);
        assert_eq!(&SOURCE[mutants[0].range.clone()], "<");
        assert_eq!(mutants[0].line, "1 < 2");
        assert_eq!(mutants[0].change(), "replace < with == in <X as Y>::f");
        assert_eq!(mutants[0].key(), "a/b.rs: replace < with == in <X as Y>::f");
        assert!(mutants[0].apply(SOURCE).contains("    1 == 2\n}"));
    }

    #[test]
    fn parse__what_it_cannot_read_is_an_error() {
        for wrong in ["{}", "[{}]", &json(9), &json(0), "not JSON"] {
            assert!(parse(wrong, |_| Ok(SOURCE.to_owned())).is_err(), "{wrong}");
        }
    }

    #[test]
    fn offset__columns_count_characters() {
        assert_eq!(offset("αβ\nγδ", 2, 2), Some(7));
        assert_eq!(offset("αβ\nγδ", 2, 3), Some(9), "the end");
        assert_eq!(offset("αβ\nγδ", 2, 4), None);
    }
}
