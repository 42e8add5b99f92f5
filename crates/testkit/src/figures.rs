//! Published figures in tests: their bounds, the table of known differences, tables for the docs.
//!
//! A bound is the tolerance that the specification or arithmetic gives, never a measured value.
//! A figure outside its bound is listed in `docs/known-differences.md` with its cause. A test that
//! calls [`assert_figure`] fails when the list and the measurement disagree, in either direction.

use std::fmt::Debug;
use std::ops::RangeBounds;
use std::path::Path;

/// Asserts that `measured` is within `bound`, or that `docs/known-differences.md` lists `id`.
///
/// A row of that file belongs to `id` when its first cell is the id in backticks. A figure within
/// its bound must not be listed: the row would be out of date.
///
/// # Panics
/// When the figure is outside its bound and not listed, or within it and listed.
pub fn assert_figure(id: &str, measured: f64, bound: impl RangeBounds<f64> + Debug) {
    let text = known_differences();
    let is_within = bound.contains(&measured);
    let verdict = if is_within { "holds" } else { "differs" };
    println!("{id}: measured {measured}, bound {bound:?}: {verdict}");
    match (is_within, is_listed(&text, id)) {
        (true, true) => panic!(
            "{id}: {measured} is within {bound:?} now: remove its row from docs/known-differences.md"
        ),
        (false, false) => panic!(
            "{id}: {measured} is outside {bound:?}: find the cause; if it stays, \
             list it in docs/known-differences.md"
        ),
        _ => {}
    }
}

/// Prints a table for the docs between its markers. `cargo xtask figures` copies it to the pages
/// that have the same markers.
pub fn print_figure(name: &str, markdown: &str) {
    println!("\n<!-- figure: {name} -->\n{}\n<!-- /figure -->", markdown.trim_end());
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

    #[test]
    fn is_listed__first_cell_only() {
        let text = "| figure | cause |\n|---|---|\n| `d3-fig-9` | like `d3-fig-10` |\n";
        assert!(is_listed(text, "d3-fig-9"));
        assert!(!is_listed(text, "d3-fig-10"));
        assert!(!is_listed(text, "d3-fig"));
    }

    #[test]
    fn assert_figure__within_its_bound() {
        assert_figure("no-such-figure", 1.0, 0.9..=1.1);
    }

    #[test]
    #[should_panic(expected = "is outside")]
    fn assert_figure__outside_and_not_listed() {
        assert_figure("no-such-figure", 1.2, 0.9..=1.1);
    }
}
