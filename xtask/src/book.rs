//! Checks the book's links and commands, and builds it with mdBook.

mod examples;
mod links;
mod markdown;

use crate::figures::difference;
use crate::steps::Outcome;
use crate::tools::{built_program, is_installed, root, run, target};
use anyhow::Context as _;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of mdBook that builds the book.
const MDBOOK: &str = "0.4.52";

/// Options of `cargo xtask book`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Write changed outputs to the pages instead of failing.
    pub(crate) write: bool,
}

impl Options {
    /// Parses the command line. The error is the unknown option.
    pub(crate) fn parse(args: &[&str]) -> Result<Options, String> {
        match args {
            [] => Ok(Options { write: false }),
            ["--write"] => Ok(Options { write: true }),
            [other, ..] => Err((*other).into()),
        }
    }
}

/// Checks the links and commands of all pages and builds the book.
pub(crate) fn book(options: Options) -> anyhow::Result<Outcome> {
    let pages = links::read_pages()?;
    let mut complaints = links::check(&pages);
    let mut missing = Vec::new();
    match built_program() {
        None => missing.push("`punctual` is not built; run the step `test` first".to_owned()),
        Some(program) => {
            for (path, text) in &pages {
                complaints.extend(examples::parse(path, text, &program)?);
                let now = examples::run(path, text, &program)?;
                if now == *text {
                    continue;
                }
                if options.write {
                    std::fs::write(root().join(path), now)?;
                    println!("wrote {}", path.display());
                } else {
                    complaints.push(format!(
                        "{}: the output of its commands has changed:\n{}  to update it: \
                         cargo xtask book --write",
                        path.display(),
                        difference(text, &now)
                    ));
                }
            }
        }
    }
    match mdbook() {
        None => missing.push("mdbook is not installed; run `cargo xtask setup`".to_owned()),
        Some(program) => run(Command::new(program).arg("build").current_dir(root()))?,
    }
    complaints.iter().for_each(|complaint| println!("{complaint}"));
    Ok(match (complaints.len(), missing.is_empty()) {
        (0, true) => Outcome::Passed,
        (0, false) => Outcome::Skipped(missing.join("; ")),
        (count, _) => Outcome::Failed(format!("{count} problems, listed above")),
    })
}

/// mdBook: on the search path, or where [`install_mdbook`] puts it.
fn mdbook() -> Option<PathBuf> {
    if is_installed("mdbook") {
        return Some("mdbook".into());
    }
    let program = tools().join("bin").join("mdbook");
    program.exists().then_some(program)
}

fn tools() -> PathBuf {
    target().join("tools")
}

/// Builds mdBook if it is missing, because Debian 12 has no package of it. Returns whether mdBook is
/// available. Without optimisation and its web server the build takes 80 s of CPU time, not 170.
pub(crate) fn install_mdbook() -> bool {
    mdbook().is_some()
        || run(crate::tools::cargo()
            .args(["install", "mdbook", "--version", MDBOOK, "--locked", "--debug"])
            .args(["--no-default-features", "--quiet", "--root"])
            .arg(tools()))
        .is_ok()
}

/// The mdBook preprocessor that adapts links; book.toml names it.
///
/// mdBook first asks `supports RENDERER`, then sends `[context, book]` as JSON and reads the book.
pub(crate) fn preprocess(args: &[&str]) -> anyhow::Result<()> {
    if args.first() == Some(&"supports") {
        return Ok(());
    }
    let mut input: Value = serde_json::from_reader(std::io::stdin().lock())?;
    let book = input.get_mut(1).context("mdBook did not send a list of context and book")?;
    adapt(book);
    serde_json::to_writer(std::io::stdout().lock(), book)?;
    Ok(())
}

/// Adapts the links of every chapter in mdBook's JSON.
fn adapt(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(adapt),
        Value::Object(fields) => {
            let path = fields.get("path").and_then(Value::as_str).map(PathBuf::from);
            if let (Some(path), Some(Value::String(content))) = (path, fields.get_mut("content")) {
                *content = links::in_book(Path::new(&path), content);
            }
            fields.values_mut().for_each(adapt);
        }
        _ => {}
    }
}
