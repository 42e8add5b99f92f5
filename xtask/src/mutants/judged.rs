//! The committed list of mutants that change nothing a test could notice, each with its reason.
//!
//! Entries are separated by empty lines. The first line of an entry is the file, a colon and the
//! change as `cargo xtask mutants` prints it; the second is the changed line of the source; the rest
//! is the reason. Line numbers are absent, so that edits elsewhere in a file do not matter.

use super::list::Mutant;
use crate::tools::root;
use anyhow::{Context as _, bail};

/// The list, from the root of the workspace.
pub(super) const PATH: &str = "xtask/equivalent-mutants.txt";

/// A mutant that was judged equivalent to the original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) file: String,
    pub(super) change: String,
    pub(super) line: String,
}

impl Judged {
    /// Whether this is the mutant.
    pub(super) fn is(&self, mutant: &Mutant) -> bool {
        (&*self.file, &*self.change, &*self.line) == (&*mutant.file, mutant.change(), &*mutant.line)
    }
}

/// Reads the committed list.
pub(super) fn read() -> anyhow::Result<Vec<Judged>> {
    let text = std::fs::read_to_string(root().join(PATH))
        .with_context(|| format!("cannot read {PATH}"))?;
    parse(&text)
}

fn parse(text: &str) -> anyhow::Result<Vec<Judged>> {
    let mut list = Vec::new();
    for entry in text.split("\n\n").map(str::trim).filter(|entry| !entry.is_empty()) {
        if entry.lines().all(|line| line.starts_with('#')) {
            continue;
        }
        let mut lines = entry.lines().map(str::trim);
        let head = lines.next().and_then(|head| head.split_once(": "));
        let (Some((file, change)), Some(line), Some(_reason)) = (head, lines.next(), lines.next())
        else {
            bail!("{PATH}: an entry needs a file and change, a source line, and a reason: {entry}");
        };
        list.push(Judged { file: file.into(), change: change.into(), line: line.into() });
    }
    Ok(list)
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn parse__entries_have_a_reason() {
        let text =
            "# A comment.\n\na.rs: replace < with <= in X::f\n  if a < b {\n  Both are\n  0.\n\n";
        let list = parse(text).expect("list");
        assert_eq!(list.len(), 1);
        assert_eq!(list[0].file, "a.rs");
        assert_eq!(list[0].change, "replace < with <= in X::f");
        assert_eq!(list[0].line, "if a < b {");
        assert!(parse("a.rs: replace\n  if a < b {\n").is_err(), "no reason");
        assert!(parse("a.rs\n  x\n  why\n").is_err(), "no change");
    }

    #[test]
    fn committed__the_list_is_valid_and_its_lines_exist() {
        for judged in read().expect("list") {
            let source = std::fs::read_to_string(root().join(&judged.file)).expect(&judged.file);
            let has_line = source.lines().any(|line| line.trim() == judged.line);
            assert!(has_line, "{}: no line `{}`", judged.file, judged.line);
        }
    }
}
