//! Writes the tables of the docs from the output of tests and commands.
//!
//! A page shows a figure between `<!-- figure: NAME -->` and `<!-- /figure -->`. NAME is the name of
//! a study (see [`studies`]), or `cli: COMMAND` or `cli quick: COMMAND` for the output of COMMAND.

mod pages;
mod studies;

use crate::build::build;
use crate::steps::Outcome;
use crate::tools::{cargo, root, run, target, typed};
use anyhow::{Context as _, bail};
pub(crate) use pages::difference;
use pages::{Page, blocks_in, read_pages, replaced};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use studies::{Study, find_studies};

/// Which figures to produce, and whether to write or compare them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Omit long studies.
    pub(crate) quick: bool,
    /// Compare with the pages instead of writing them.
    pub(crate) check: bool,
    /// Use the test profile, which is already built.
    pub(crate) dev: bool,
    /// Parts of figure names; empty selects all.
    pub(crate) names: Vec<String>,
    /// The directory of figures that quick studies have already printed ([`PRINTED`]).
    pub(crate) printed: Option<PathBuf>,
}

/// The environment variable that names a directory to which studies also write their figures.
pub(crate) const PRINTED: &str = "PUNCTUAL_FIGURES";

impl Options {
    /// Parses the command line. The error is the unknown option.
    pub(crate) fn parse(args: &[&str]) -> Result<Options, String> {
        let mut options = Options::default();
        for arg in args {
            match *arg {
                "--quick" => options.quick = true,
                "--check" => options.check = true,
                "--dev" => options.dev = true,
                option if option.starts_with('-') => return Err(option.into()),
                name => options.names.push(name.into()),
            }
        }
        Ok(options)
    }

    fn selects(&self, name: &str, is_long: bool) -> bool {
        let is_named = self.names.is_empty() || self.names.iter().any(|part| name.contains(part));
        is_named && !(self.quick && is_long)
    }
}

/// A figure that is the output of a `punctual` command.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CommandFigure {
    /// The full name on the marker.
    name: String,
    command: String,
    is_long: bool,
}

impl CommandFigure {
    fn parse(name: &str) -> Option<CommandFigure> {
        let long = name.strip_prefix("cli: ").map(|command| (command, true));
        let (command, is_long) =
            long.or_else(|| Some((name.strip_prefix("cli quick: ")?, false)))?;
        Some(CommandFigure { name: name.into(), command: command.into(), is_long })
    }
}

/// Produces the figures and writes them to their pages, or compares them.
pub(crate) fn figures(options: &Options) -> anyhow::Result<Outcome> {
    let pages = read_pages()?;
    let studies = find_studies(&root())?;
    let shown = shown_on(&pages)?;
    let mut complaints = unpaired(&shown, &studies);
    let chosen: Vec<&Study> =
        studies.iter().filter(|s| options.selects(&s.figure, s.is_long)).collect();
    let commands: BTreeMap<String, CommandFigure> = shown
        .iter()
        .filter_map(|(name, _)| CommandFigure::parse(name))
        .filter(|printed| options.selects(&printed.name, printed.is_long))
        .map(|printed| (printed.name.clone(), printed))
        .collect();
    if chosen.is_empty() && commands.is_empty() && !options.names.is_empty() {
        bail!("no figure matches {}", options.names.join(", "));
    }
    let mut made = BTreeMap::new();
    for is_long in [false, true] {
        let some: Vec<&Study> = chosen.iter().copied().filter(|s| s.is_long == is_long).collect();
        if let (Some(dir), false) = (&options.printed, is_long) {
            made.extend(read_printed(&some, dir)?);
        } else if !some.is_empty() {
            complaints.extend(run_studies(&some, options, &mut made)?);
        }
    }
    for study in &chosen {
        if !made.contains_key(&study.figure) {
            complaints.push(format!(
                "{}:{}: test `{}` did not print figure `{}`",
                study.path.display(),
                study.line,
                study.test,
                study.figure
            ));
        }
    }
    for printed in commands.values() {
        made.insert(printed.name.clone(), output_of(printed, options)?);
    }
    for page in &pages {
        complaints.extend(paste(page, &made, options)?);
    }
    for complaint in &complaints {
        println!("{complaint}");
    }
    println!("{} figures produced, {} on pages", made.len(), shown.len());
    Ok(match complaints.len() {
        0 => Outcome::Passed,
        count => Outcome::Failed(format!("{count} problems, listed above")),
    })
}

/// The names and positions of the figures on pages.
fn shown_on(pages: &[Page]) -> anyhow::Result<BTreeSet<(String, String)>> {
    let mut shown = BTreeSet::new();
    for page in pages {
        let path = page.path.display();
        for block in blocks_in(&page.text).with_context(|| format!("{path}"))? {
            shown.insert((block.name, format!("{path}:{}", block.line)));
        }
    }
    Ok(shown)
}

/// Figures on a page that no study prints, and figures of studies that no page shows.
fn unpaired(shown: &BTreeSet<(String, String)>, studies: &[Study]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, place) in shown {
        if CommandFigure::parse(name).is_none() && studies.iter().all(|s| s.figure != *name) {
            complaints.push(format!("{place}: no study prints figure `{name}`"));
        }
    }
    for study in studies {
        if shown.iter().all(|(name, _)| *name != study.figure) {
            let (path, line, figure) = (study.path.display(), study.line, &study.figure);
            complaints.push(format!("{path}:{line}: no page shows figure `{figure}`"));
        }
    }
    complaints
}

/// Reads the figures of studies that have run.
fn read_printed(studies: &[&Study], dir: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut made = BTreeMap::new();
    for study in studies {
        let path = dir.join(&study.figure);
        if path.exists() {
            made.insert(study.figure.clone(), std::fs::read_to_string(path)?);
        }
    }
    Ok(made)
}

/// Runs studies, all long or all quick, and collects their figures.
fn run_studies(
    studies: &[&Study],
    options: &Options,
    made: &mut BTreeMap<String, String>,
) -> anyhow::Result<Vec<String>> {
    let is_long = studies[0].is_long;
    let mut command = cargo();
    command.args(["test", "--no-fail-fast"]);
    if is_long && !options.dev {
        command.arg("--release");
    }
    // The whole workspace, so that cargo does not rebuild crates with other features.
    command.arg("--workspace");
    let targets: BTreeSet<&[String]> = studies.iter().map(|s| &s.target[..]).collect();
    targets.into_iter().for_each(|target| _ = command.args(target));
    command.args(["--", "--nocapture"]);
    if is_long {
        command.arg("--ignored");
    }
    let tests: BTreeSet<&str> = studies.iter().map(|s| &*s.test).collect();
    command.args(tests);
    let (succeeded, text) = tee(&mut command)?;
    // A study that panics leaves no open block, because a block is one write.
    for block in blocks_in(&text).context("in what studies printed")? {
        if studies.iter().any(|study| study.figure == block.name) {
            made.insert(block.name, block.body);
        }
    }
    Ok(if succeeded { Vec::new() } else { vec![format!("`{}` failed", typed(&command))] })
}

/// Runs a command, prints its output, and returns whether it succeeded and the output.
fn tee(command: &mut Command) -> anyhow::Result<(bool, String)> {
    println!("$ {}", typed(command));
    let cannot = format!("cannot run {}", typed(command));
    let mut child = command.stdout(Stdio::piped()).spawn().context(cannot)?;
    let mut text = String::new();
    for line in BufReader::new(child.stdout.take().context("no stdout")?).lines() {
        let line = line?;
        println!("{line}");
        text.push_str(&line);
        text.push('\n');
    }
    Ok((child.wait()?.success(), text))
}

/// The output of a `punctual` command, in a code fence.
fn output_of(printed: &CommandFigure, options: &Options) -> anyhow::Result<String> {
    let programs = programs(!printed.is_long || options.dev)?;
    let target = programs.parent().context("no target directory")?;
    // A temporary directory for results.
    let dir = target.join("figures");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir)?;
    link(&root().join("scenarios"), &dir.join("scenarios"))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(
        std::iter::once(programs.clone()).chain(std::env::split_paths(&path)),
    )?;
    let mut command = Command::new("sh");
    // Exit code 4 of `capacity` is a valid answer: the condition never or always holds.
    let script = format!("{} || [ $? -eq 4 ]", printed.command);
    command.args(["-c", &script]).current_dir(&dir).env("PATH", path);
    println!("$ {}", printed.command);
    let text = crate::tools::output(&mut command)?;
    std::fs::remove_dir_all(&dir)?;
    Ok(fenced(&text))
}

/// Puts the output of a command in a code fence, without the lines that name result files.
fn fenced(text: &str) -> String {
    let is_place = |line: &&str| {
        ["results in ", "figures: ", "report: "].iter().any(|start| line.starts_with(start))
    };
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|l| !is_place(l)).collect();
    format!("```\n{}\n```\n", lines.join("\n").trim_matches('\n'))
}

#[cfg(unix)]
fn link(to: &Path, at: &Path) -> anyhow::Result<()> {
    Ok(std::os::unix::fs::symlink(to, at)?)
}

#[cfg(not(unix))]
fn link(_to: &Path, _at: &Path) -> anyhow::Result<()> {
    bail!("figures of commands need Unix")
}

/// Builds `punctual` with the test or release profile. Returns the directory of the program.
pub(crate) fn programs(dev: bool) -> anyhow::Result<PathBuf> {
    run(&mut build_program(dev))?;
    Ok(target().join(if dev { "debug" } else { "release" }))
}

/// The command that builds `punctual`. It always runs, because an existing program may be outdated.
fn build_program(dev: bool) -> Command {
    if dev {
        return build(&["--bin", "punctual"]);
    }
    let mut command = cargo();
    command.args(["build", "--bin", "punctual", "--release"]);
    command
}

/// Writes figures to a page, or returns where the page differs from them.
fn paste(
    page: &Page,
    made: &BTreeMap<String, String>,
    options: &Options,
) -> anyhow::Result<Vec<String>> {
    let text = replaced(&page.text, |name| made.get(name).cloned())?;
    if text == page.text {
        return Ok(Vec::new());
    }
    let path = page.path.display();
    if !options.check {
        std::fs::write(root().join(&page.path), text)?;
        println!("wrote {path}");
        return Ok(Vec::new());
    }
    let mut complaints = Vec::new();
    for block in blocks_in(&page.text)? {
        let Some(body) = made.get(&block.name).filter(|body| **body != block.body) else {
            continue;
        };
        complaints.push(format!(
            "{path}:{}: figure `{}` differs from the output of its command:\n{}  \
             to update it: cargo xtask figures '{}'",
            block.line,
            block.name,
            difference(&block.body, body),
            block.name
        ));
    }
    Ok(complaints)
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    fn study(figure: &str) -> Study {
        Study {
            figure: figure.into(),
            target: vec!["--lib".into()],
            test: "t".into(),
            is_long: false,
            path: "crates/sim/src/lib.rs".into(),
            line: 7,
        }
    }

    fn page(text: &str) -> Page {
        Page { path: "docs/page.md".into(), text: text.into() }
    }

    #[test]
    fn options__names_and_lengths() {
        let options = Options::parse(&["--quick", "--check", "mptcp"]).expect("options");
        assert!(options.quick && options.check && !options.dev);
        assert!(options.selects("mptcp-figure-14", false));
        assert!(!options.selects("mptcp-figure-14", true), "it is long");
        assert!(!options.selects("dctcp", false));
        assert_eq!(Options::parse(&["--quikc"]), Err("--quikc".into()));
    }

    #[test]
    fn printed__long_unless_it_says_otherwise() {
        let of = |name: &str| CommandFigure::parse(name).map(|p| (p.command, p.is_long));
        assert_eq!(of("cli: punctual list"), Some(("punctual list".into(), true)));
        assert_eq!(of("cli quick: punctual list"), Some(("punctual list".into(), false)));
        assert_eq!(of("mptcp-figure-14"), None);
    }

    #[test]
    fn build_program__profile_of_tests_or_release() {
        assert_eq!(typed(&build_program(true)), typed(&build(&["--bin", "punctual"])));
        assert_eq!(typed(&build_program(false)), "cargo build --bin punctual --release");
    }

    #[test]
    fn read_printed__only_those_that_ran() {
        let dir = std::env::temp_dir().join(format!("punctual-printed-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        std::fs::write(dir.join("a"), "| 1 |\n").expect("a figure");
        let made = read_printed(&[&study("a"), &study("b")], &dir).expect("figures");
        std::fs::remove_dir_all(&dir).expect("removed");
        assert_eq!(made, BTreeMap::from([("a".to_owned(), "| 1 |\n".to_owned())]));
    }

    #[test]
    fn fenced__without_blank_ends_and_places() {
        let text = "\ntable \n\nnote\nresults in results/x\nfigures: results/x/fct.svg\n\
                    report: results/x/report.html\n";
        assert_eq!(fenced(text), "```\ntable\n\nnote\n```\n");
    }

    #[test]
    fn unpaired__either_way() {
        let text = "<!-- figure: a -->\n<!-- /figure -->\n<!-- figure: cli: punctual list -->\n\
                    <!-- /figure -->\n";
        let shown = shown_on(&[page(text)]).expect("figures");
        assert_eq!(unpaired(&shown, &[study("a")]), [""; 0]);
        assert_eq!(
            unpaired(&shown, &[study("b")]),
            [
                "docs/page.md:1: no study prints figure `a`",
                "crates/sim/src/lib.rs:7: no page shows figure `b`"
            ]
        );
    }

    #[test]
    fn paste__drift_is_shown_with_the_command_that_mends_it() {
        let page = page("<!-- figure: a -->\n| 1 |\n<!-- /figure -->\n");
        let options = Options { check: true, ..Options::default() };
        let made = |body: &str| BTreeMap::from([("a".to_owned(), body.to_owned())]);
        assert_eq!(paste(&page, &made("| 1 |\n"), &options).expect("no drift"), [""; 0]);
        let drift = paste(&page, &made("| 2 |\n"), &options).expect("drift");
        assert_eq!(
            drift,
            ["docs/page.md:1: figure `a` differs from the output of its command:\n  - | 1 |\n  \
              + | 2 |\n  to update it: cargo xtask figures 'a'"]
        );
    }
}
