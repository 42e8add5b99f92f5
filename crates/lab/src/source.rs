//! The texts of a scenario: the file, and each `--set` argument after it.

use std::ops::Range;

/// The texts that a scenario was read from. Their offsets follow each other, so a span identifies
/// one place in one text.
#[derive(Debug, Clone)]
pub struct Sources {
    texts: Vec<Text>,
}

#[derive(Debug, Clone)]
struct Text {
    name: String,
    text: String,
    /// Offset of its first byte.
    start: usize,
}

/// A span found in one of the texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place<'a> {
    /// The file, or the name of an argument.
    pub name: &'a str,
    /// The whole text.
    pub text: &'a str,
    /// Where in the text.
    pub range: Range<usize>,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
}

impl Sources {
    /// Starts with the scenario file.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Sources { texts: vec![Text { name: name.into(), text: text.into(), start: 0 }] }
    }

    /// Adds a text and returns the offset at which its spans start.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> usize {
        let last = self.texts.last().expect("the file comes first");
        // A gap of one, so that the end of one text is not the start of the next.
        let start = last.start + last.text.len() + 1;
        self.texts.push(Text { name: name.into(), text: text.into(), start });
        start
    }

    /// The scenario file's name.
    pub fn file(&self) -> &str {
        &self.texts[0].name
    }

    /// The scenario file's text.
    pub fn text(&self) -> &str {
        &self.texts[0].text
    }

    /// Finds a span.
    pub fn place(&self, span: &Range<usize>) -> Place<'_> {
        let text = self.texts.iter().rev().find(|t| t.start <= span.start);
        let text = text.unwrap_or(&self.texts[0]);
        let clamp = |offset: usize| {
            let mut at = (offset - text.start.min(offset)).min(text.text.len());
            while !text.text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let range = clamp(span.start)..clamp(span.end.max(span.start));
        let before = &text.text[..range.start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Place {
            name: &text.name,
            text: &text.text,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            range,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_found_in_the_text_they_came_from() {
        let mut sources = Sources::new("a.toml", "x = 1\ny = é2\n");
        let moved = sources.add("--set", "z=3");
        let place = sources.place(&(12..13));
        assert_eq!((place.name, place.line, place.column), ("a.toml", 2, 6));
        let place = sources.place(&(moved + 2..moved + 3));
        assert_eq!((place.name, place.line, place.column), ("--set", 1, 3));
        assert_eq!(&place.text[place.range], "3");
        sources.place(&(0..usize::MAX));
    }
}
