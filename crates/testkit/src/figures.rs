//! Published figures in tests: their bounds, the list of known differences, tables for the docs.
//!
//! What a figure may be is a claim of the catalogue ([`claimed`](crate::claimed)), or a bound that
//! arithmetic gives ([`bounded`](crate::bounded)), never a measured value. A figure outside it is
//! listed in `docs/known-differences.md` with its cause. A test that calls [`assert_figure`] fails
//! when the list and the measurement disagree, in either direction.

use crate::claims::Accepted;
use std::ops::Bound;
use std::path::Path;

/// Asserts that `measured` is accepted, or that `docs/known-differences.md` lists `id`. For what
/// follows from the set-up; a figure that chance moves has several samples ([`assert_mean`]).
///
/// A row of that file belongs to `id` if its first cell is the id in backticks. A figure within its
/// bound must not be listed, because the row would be out of date.
///
/// # Panics
/// If the figure is not accepted and not listed, or accepted and listed.
pub fn assert_figure(id: &str, measured: f64, accepted: Accepted) {
    judge(id, (measured, measured), accepted);
}

/// As [`assert_figure`], for the mean of samples that chance moves. Where a bound lies within two
/// standard errors of the mean, neither a listed figure nor one that is not listed is wrong.
///
/// # Panics
/// If the mean is surely not accepted and not listed, or surely accepted and listed, or if there
/// are fewer than two samples.
pub fn assert_mean(id: &str, samples: &[f64], accepted: Accepted) {
    assert!(samples.len() >= 2, "{id}: one sample is no evidence");
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    judge(id, (mean - 2.0 * error, mean + 2.0 * error), accepted);
}

/// Compares what is accepted with the ends of an interval, and with the list.
fn judge(id: &str, (low, high): (f64, f64), accepted: Accepted) {
    let measured = if low == high { format!("{low}") } else { format!("{low} to {high}") };
    let verdict = match (accepted.contains(low), accepted.contains(high)) {
        (true, true) => "holds",
        (false, false) if !ends_between(&accepted, low, high) => "differs",
        _ => "open",
    };
    println!("{id}: measured {measured}, accepted {accepted}: {verdict}");
    match (verdict, is_listed(&known_differences(), id)) {
        ("holds", true) => panic!(
            "{id}: {measured} is accepted, {accepted}: remove its row from \
             docs/known-differences.md"
        ),
        ("differs", false) => panic!(
            "{id}: {measured} is not {accepted}: fix the cause, or list it with its cause in \
             docs/known-differences.md"
        ),
        _ => {}
    }
}

/// Whether what is accepted begins or ends between two values.
fn ends_between(accepted: &Accepted, low: f64, high: f64) -> bool {
    let is_between = |end| match end {
        Bound::Included(end) | Bound::Excluded(end) => low < end && end < high,
        Bound::Unbounded => false,
    };
    let (first, last) = accepted.ends();
    is_between(first) || is_between(last)
}

/// Prints a table for the docs between markers. `cargo xtask figures` copies it to the pages that
/// have the same markers. If the environment variable `PUNCTUAL_FIGURES` names a directory, also
/// writes the table to the file `name` there: the output of tests that pass is not shown.
pub fn print_figure(name: &str, markdown: &str) {
    let table = markdown.trim_end();
    println!("\n<!-- figure: {name} -->\n{table}\n<!-- /figure -->");
    if let Some(dir) = std::env::var_os("PUNCTUAL_FIGURES") {
        let path = Path::new(&dir).join(name);
        std::fs::write(&path, format!("{table}\n")).expect("the figure can be written");
    }
}

/// Formats a Markdown table: the first column left-aligned, the others right-aligned.
pub fn markdown_table(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let mut table = line(head.to_vec());
    table += &format!("|---|{}\n", "--:|".repeat(head.len().saturating_sub(1)));
    for row in rows {
        assert_eq!(row.len(), head.len(), "cells of {row:?}");
        table += &line(row.iter().map(String::as_str).collect());
    }
    table.replace("|  |", "| |").replace("|  |", "| |")
}

/// Formats a Markdown table of sentences: all columns left-aligned. Cells may have `|`.
pub fn text_table(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut table = line(head.iter().map(|cell| (*cell).to_owned()).collect());
    table += &format!("|{}\n", "---|".repeat(head.len()));
    for row in rows {
        assert_eq!(row.len(), head.len(), "cells of {row:?}");
        table += &line(row.iter().map(|cell| cell.replace('|', "\\|")).collect());
    }
    table.replace("|  |", "| |").replace("|  |", "| |")
}

fn known_differences() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/known-differences.md");
    std::fs::read_to_string(&path).expect("docs/known-differences.md")
}

fn is_listed(text: &str, id: &str) -> bool {
    text.lines().any(|line| line.starts_with(&format!("| `{id}` |")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounded;

    #[test]
    fn is_listed__first_cell_only() {
        let text = "| figure | cause |\n|---|---|\n| `d3-fig-9` | like `d3-fig-10` |\n";
        assert!(is_listed(text, "d3-fig-9"));
        assert!(!is_listed(text, "d3-fig-10"));
        assert!(!is_listed(text, "d3-fig"));
    }

    /// Names in string literals of a source, such as `"d3-figure-16-{id}-{senders}"`.
    fn names_in(source: &str) -> impl Iterator<Item = &str> {
        let is_of_name =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-{}_.:".contains(c);
        let is_name = move |text: &&str| text.contains('-') && text.chars().all(is_of_name);
        source.split('"').filter(is_name)
    }

    /// Whether a name with placeholders stands for an id. What is literal begins the name and has
    /// eight letters or more.
    fn stands_for(name: &str, id: &str) -> bool {
        let literal: Vec<&str> = name
            .split('{')
            .enumerate()
            .map(|(i, part)| if i == 0 { part } else { part.split_once('}').map_or("", |p| p.1) })
            .collect();
        let (first, rest) = (literal[0], &literal[1..]);
        if first.len() < 8 {
            return false;
        }
        let Some(mut left) = id.strip_prefix(first) else { return false };
        let Some((last, middle)) = rest.split_last() else { return left.is_empty() };
        for part in middle {
            let Some(at) = left.find(part) else { return false };
            left = &left[at + part.len()..];
        }
        left.ends_with(last)
    }

    #[test]
    fn stands_for__literals_in_order() {
        assert!(stands_for("d3-figure-16-{id}-{n}", "d3-figure-16-queue-mean-2"));
        assert!(stands_for("d3-figure-9", "d3-figure-9"));
        assert!(!stands_for("d3-figure-9", "d3-figure-9-tcp"));
        assert!(!stands_for("d3-figure-{id}-mean", "d3-figure-16-median"));
        assert!(!stands_for("{figure}-{id}", "d3-figure-16-median"), "which figure?");
        let source = "f(\"d3-figure-{id}\", \"a sentence - here\")";
        assert_eq!(names_in(source).collect::<Vec<_>>(), ["d3-figure-{id}"]);
    }

    fn sources(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(std::fs::read_to_string(&path).expect("a source"));
            }
        }
    }

    /// [`assert_figure`] fails for a listed figure that is accepted again, but only if a test still
    /// calls it: each id of the list is named by a source.
    #[test]
    fn known_differences__each_has_a_test() {
        let mut texts = Vec::new();
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for entry in std::fs::read_dir(crates).expect("crates") {
            let path = entry.expect("a crate").path();
            if path.file_name().is_none_or(|name| name == "testkit") {
                continue;
            }
            for folder in ["src", "tests"].map(|name| path.join(name)) {
                if folder.is_dir() {
                    sources(&folder, &mut texts);
                }
            }
        }
        let names: Vec<&str> = texts.iter().flat_map(|text| names_in(text)).collect();
        let list = known_differences();
        let ids = list.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
        let ids: Vec<&str> = ids.map(|(id, _)| id).collect();
        assert!(ids.len() > 50, "the list is not read: {ids:?}");
        let (mut seen, mut faults) = (std::collections::BTreeSet::new(), Vec::new());
        for id in ids {
            if !seen.insert(id) {
                faults.push(format!("{id} is listed twice"));
            }
            if !names.iter().any(|name| stands_for(name, id)) {
                faults.push(format!("no test asserts {id}: remove its row"));
            }
        }
        assert!(faults.is_empty(), "docs/known-differences.md: {faults:#?}");
    }

    #[test]
    fn text_table__left_aligned_and_escaped() {
        let rows = [vec!["a | b".to_owned(), String::new(), "c".to_owned()]];
        let expected = "| x | y | z |\n|---|---|---|\n| a \\| b | | c |\n";
        assert_eq!(text_table(&["x", "y", "z"], &rows), expected);
    }

    #[test]
    fn markdown_table__empty_cells_and_alignment() {
        let row = |cells: [&str; 3]| cells.map(String::from).to_vec();
        let rows = [row(["paper", "", "1"]), row(["here", "2", ""]), row(["", "", ""])];
        let table = "| | a | b |\n|---|--:|--:|\n| paper | | 1 |\n| here | 2 | |\n| | | |\n";
        assert_eq!(markdown_table(&["", "a", "b"], &rows), table);
    }

    #[test]
    fn assert_figure__within_its_bound() {
        assert_figure("no-such-figure", 1.0, bounded(0.9..=1.1, "a test"));
    }

    /// 1.2 ± 0.1 is above 1.1 or not: the list may say so or not. With less spread it must.
    #[test]
    fn assert_mean__on_its_bound() {
        let accepted = || bounded(0.9..=1.1, "a test");
        assert_mean("no-such-figure", &[1.0, 1.2, 1.1, 1.2], accepted());
        let spread = [1.19, 1.21, 1.2, 1.2];
        assert!(std::panic::catch_unwind(|| assert_mean("none", &spread, accepted())).is_err());
        let wide = [0.5, 1.5, 0.5, 1.5];
        assert_mean("no-such-figure", &wide, accepted());
    }

    #[test]
    #[should_panic(expected = "is not ≥ 0.9")]
    fn assert_figure__outside_and_not_listed() {
        assert_figure("no-such-figure", 1.2, bounded(0.9..=1.1, "a test"));
    }
}
