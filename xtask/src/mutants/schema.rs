//! Mutant schemata: one source with all mutants of a file, of which an environment variable selects
//! one when the tests run. So a crate is built once, not once per mutant.

mod syntax;

use super::list::Mutant;
use std::ops::Range;
use syntax::{Kind, Syntax};

/// The variable that selects a mutant.
pub(super) const VARIABLE: &str = "PUNCTUAL_MUTANT";
/// Where a mutant's own code ends in the source.
const END: &str = "/*end of mutant*/";

/// A file with mutants to select from.
pub(super) struct Schema {
    pub(super) source: String,
    /// Mutants that cannot be selected at run time, such as those of constants.
    pub(super) left_out: Vec<u32>,
}

impl Schema {
    /// The source with the mutants, each under its number (from 1). The error is that of the parser.
    pub(super) fn new(source: &str, mutants: &[(u32, &Mutant)]) -> Result<Schema, syn::Error> {
        let syntax = Syntax::parse(source)?;
        let edits = syntax.deferred.iter();
        let mut sites: Vec<Site> =
            edits.map(|(range, text)| Site::text(range.clone(), text.clone())).collect();
        let mut left_out = Vec::new();
        for (number, mutant) in mutants {
            match Site::of(source, &syntax, *number, mutant) {
                Some(site) => site.add_to(&mut sites),
                None => left_out.push(*number),
            }
        }
        // Outer expressions before those inside them.
        sites.sort_by_key(|site| {
            (site.range.start, !site.range.is_empty(), usize::MAX - site.range.end)
        });
        let mut text = String::new();
        render(source, 0..source.len(), &sites, &mut text);
        Ok(Schema { source: text, left_out })
    }

    /// The mutant whose code a line of the source (from 1) belongs to, or else the nearest one.
    pub(super) fn mutant_at(&self, line: usize) -> Option<u32> {
        let (mut at, mut open) = (1, None);
        let mut nearest: Option<(usize, u32)> = None;
        for text in self.source.split_inclusive('\n') {
            if let Some(number) = number_in(text) {
                open = Some(number);
            }
            if let Some(number) = open {
                let distance = line.abs_diff(at);
                if nearest.is_none_or(|(least, _)| distance < least) {
                    nearest = Some((distance, number));
                }
            }
            if text.contains(END) {
                open = None;
            }
            at += 1;
        }
        nearest.map(|(_, number)| number)
    }
}

/// The root of a crate, with the function that schemata call.
pub(super) fn root_source(source: &str) -> String {
    // Warnings about mutants are of no interest, and must not be errors.
    format!(
        "#![allow(warnings, arithmetic_overflow, unconditional_panic, overflowing_literals)]\n\
         {source}\n\
         pub(crate) fn active_mutant() -> u32 {{\n\
             static ACTIVE: std::sync::OnceLock<u32> = std::sync::OnceLock::new();\n\
             let read = || std::env::var(\"{VARIABLE}\").ok()?.parse().ok();\n\
             *ACTIVE.get_or_init(|| read().unwrap_or(0))\n\
         }}\n"
    )
}

/// The number of the mutant whose code begins in a line.
fn number_in(line: &str) -> Option<u32> {
    line.split_once("/*mutant ")?.1.split_once("*/")?.0.parse().ok()
}

/// A place in the source to change.
struct Site {
    /// The text to replace; empty where text is inserted.
    range: Range<usize>,
    change: Change,
}

enum Change {
    /// This text replaces the source.
    Text(String),
    /// An expression, and what each mutant has in its place.
    Choice(Vec<(u32, String)>),
}

impl Site {
    fn text(range: Range<usize>, text: String) -> Site {
        Site { range, change: Change::Text(text) }
    }

    /// Where and how a mutant can be selected at run time, if it can.
    fn of(source: &str, syntax: &Syntax, number: u32, mutant: &Mutant) -> Option<Site> {
        let choose = |range: &Range<usize>, code: String| Site {
            range: range.clone(),
            change: Change::Choice(vec![(number, code)]),
        };
        let insert = |at: usize, code: String| {
            Site::text(at..at, format!("\n/*mutant {number}*/ {code} {END}\n"))
        };
        let text = |range: &Range<usize>| &source[range.clone()];
        match mutant.genre.as_str() {
            "FnValue" => {
                syntax.bodies.contains(&mutant.range).then_some(())?;
                let value = &mutant.replacement;
                let code = format!("if crate::active_mutant() == {number} {{ return {value}; }}");
                Some(insert(mutant.range.start, code))
            }
            // An arm that never matches is an arm that was deleted.
            "MatchArm" => {
                let arm = syntax.arm(&mutant.range)?;
                Some(match &arm.guard {
                    Some(guard) => choose(guard, "false".into()),
                    None => {
                        let code = format!("if crate::active_mutant() != {number}");
                        insert(arm.pattern_end, code)
                    }
                })
            }
            genre => {
                let wants_struct = genre == "StructField";
                let node = syntax.expression(&mutant.range, wants_struct)?;
                let code = match &node.kind {
                    Kind::Let => return None,
                    // Operands stay what they are, whatever binds tighter.
                    Kind::Binary { left, right }
                        if left.end <= mutant.range.start && mutant.range.end <= right.start =>
                    {
                        format!("({}) {} ({})", text(left), mutant.replacement, text(right))
                    }
                    Kind::Binary { .. } | Kind::Struct | Kind::Other => format!(
                        "{}{}{}",
                        &source[node.range.start..mutant.range.start],
                        mutant.replacement,
                        &source[mutant.range.end..node.range.end]
                    ),
                };
                Some(choose(&node.range, code))
            }
        }
    }

    /// Adds the site, or its mutants to a site that replaces the same expression.
    fn add_to(self, sites: &mut Vec<Site>) {
        if let Change::Choice(code) = &self.change {
            for other in sites.iter_mut().filter(|other| other.range == self.range) {
                if let Change::Choice(known) = &mut other.change {
                    known.extend_from_slice(code);
                    return;
                }
            }
        }
        sites.push(self);
    }
}

/// Writes a part of the source with its sites, which are sorted.
fn render(source: &str, range: Range<usize>, sites: &[Site], text: &mut String) {
    let mut at = range.start;
    let mut rest = sites;
    while let [site, after @ ..] = rest {
        text.push_str(&source[at..site.range.start]);
        at = site.range.end;
        rest = after;
        let code = match &site.change {
            Change::Text(new) => {
                text.push_str(new);
                continue;
            }
            Change::Choice(code) => code,
        };
        let inside = after.iter().take_while(|other| other.range.start < at).count();
        let (inner, outer) = after.split_at(inside);
        // The original comes first and decides the type.
        let others: Vec<String> =
            code.iter().map(|(number, _)| format!("other != {number}")).collect();
        text.push_str("(match crate::active_mutant() { other if ");
        text.push_str(&others.join(" && "));
        text.push_str(" => (");
        render(source, site.range.clone(), inner, text);
        text.push_str("),\n");
        for (place, (number, code_of_mutant)) in code.iter().enumerate() {
            let pattern = if place + 1 == code.len() { "_".into() } else { number.to_string() };
            text.push_str(&format!("{pattern} => /*mutant {number}*/ ({code_of_mutant}) {END},\n"));
        }
        text.push_str("})");
        rest = outer;
    }
    text.push_str(&source[at..range.end]);
}

#[cfg(test)]
mod tests;
