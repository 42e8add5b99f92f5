//! Pages of the docs and the figure blocks on them.

use crate::sources::find;
use crate::tools::root;
use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};

const END: &str = "<!-- /figure -->";

/// A page that shows figures.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// Relative to the root of the workspace.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// One figure block: the lines between its markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) name: String,
    pub(crate) body: String,
    /// Line of the opening marker, from 1.
    pub(crate) line: usize,
}

/// README.md and every Markdown page under docs/.
pub(crate) fn read_pages() -> anyhow::Result<Vec<Page>> {
    let mut paths = vec![PathBuf::from("README.md")];
    find(&root(), Path::new("docs"), "md", &mut paths)?;
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(root().join(&path));
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Page { path, text })
    };
    paths.into_iter().map(read).collect()
}

/// The name on an opening marker.
fn opening(line: &str) -> Option<&str> {
    let name = line.strip_prefix("<!-- figure: ")?.strip_suffix(" -->")?;
    (!name.is_empty()).then_some(name)
}

/// The figure blocks of a page, or of the output of studies. Skips markers inside a code fence.
pub(crate) fn blocks_in(text: &str) -> anyhow::Result<Vec<Block>> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    let mut is_fenced = false;
    for (number, line) in text.lines().enumerate() {
        if is_open {
            let block = blocks.last_mut().expect("an open block");
            if line == END {
                is_open = false;
            } else if opening(line).is_some() {
                bail!("line {}: figure `{}` is not closed", block.line, block.name);
            } else {
                block.body.push_str(line);
                block.body.push('\n');
            }
        } else if line.starts_with("```") {
            is_fenced = !is_fenced;
        } else if let (Some(name), false) = (opening(line), is_fenced) {
            blocks.push(Block { name: name.into(), body: String::new(), line: number + 1 });
            is_open = true;
        }
    }
    if let (Some(block), true) = (blocks.last(), is_open) {
        bail!("line {}: figure `{}` is not closed by `{END}`", block.line, block.name);
    }
    Ok(blocks)
}

/// The page with the bodies that `new` returns. If `new` returns `None`, the old body stays.
pub(crate) fn replaced(text: &str, new: impl Fn(&str) -> Option<String>) -> anyhow::Result<String> {
    let blocks = blocks_in(text)?;
    let mut blocks = blocks.iter().peekable();
    let mut replaced = String::new();
    let mut lines = text.split_inclusive('\n').enumerate();
    while let Some((number, line)) = lines.next() {
        replaced.push_str(line);
        let Some(block) = blocks.next_if(|block| block.line == number + 1) else {
            continue;
        };
        let Some(body) = new(&block.name) else {
            continue;
        };
        replaced.push_str(&body);
        for _ in block.body.lines() {
            lines.next();
        }
    }
    Ok(replaced)
}

/// The lines that only one of two texts has: `-` for the first, `+` for the second.
pub(crate) fn difference(old: &str, new: &str) -> String {
    let only = |mark: char, of: &str, other: &str| -> String {
        let lines = of.lines().filter(|line| !other.lines().any(|o| o == *line));
        lines.map(|line| format!("  {mark} {line}\n")).collect()
    };
    let lines = format!("{}{}", only('-', old, new), only('+', new, old));
    if lines.is_empty() { "  equal lines in another order or number\n".into() } else { lines }
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    const PAGE: &str = "# Page\n\n<!-- figure: a -->\n| 1 |\n| 2 |\n<!-- /figure -->\ntext\n\
                        <!-- figure: b c -->\n<!-- /figure -->\n";

    #[test]
    fn blocks_in__name_body_line() {
        let blocks = blocks_in(PAGE).expect("blocks");
        let seen: Vec<_> = blocks.iter().map(|b| (&*b.name, &*b.body, b.line)).collect();
        assert_eq!(seen, [("a", "| 1 |\n| 2 |\n", 3), ("b c", "", 8)]);
    }

    #[test]
    fn blocks_in__fences_are_examples_but_may_be_inside() {
        let text = "```\n<!-- figure: example -->\n```\n<!-- figure: a -->\n```\nx\n```\n<!-- /figure -->\n";
        let blocks = blocks_in(text).expect("blocks");
        assert_eq!(blocks.len(), 1);
        assert_eq!(blocks[0].body, "```\nx\n```\n");
    }

    #[test]
    fn blocks_in__unclosed_is_an_error_with_its_line() {
        for text in ["\n<!-- figure: a -->\n", "\n<!-- figure: a -->\n<!-- figure: b -->\n"] {
            let error = blocks_in(text).expect_err("not closed").to_string();
            assert!(error.starts_with("line 2: figure `a` is not closed"), "{error}");
        }
    }

    #[test]
    fn replaced__only_the_body_changes() {
        let new = |name: &str| (name == "a").then(|| "| 3 |\n".to_owned());
        assert_eq!(replaced(PAGE, new).expect("a page"), PAGE.replace("| 1 |\n| 2 |\n", "| 3 |\n"));
        let new = |name: &str| (name == "b c").then(|| "| 3 |\n".to_owned());
        let with_b = PAGE.replace("b c -->\n", "b c -->\n| 3 |\n");
        assert_eq!(replaced(PAGE, new).expect("a page"), with_b);
        assert_eq!(replaced(PAGE, |_| None).expect("a page"), PAGE);
    }

    #[test]
    fn difference__lines_of_either() {
        assert_eq!(difference("a\nb\n", "a\nc\n"), "  - b\n  + c\n");
        assert!(difference("a\nb\n", "b\na\n").contains("another order"));
    }
}
