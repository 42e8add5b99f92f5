//! Mutation testing: changes the code in small ways and checks that a test fails.

use crate::setup::has_subcommand;
use crate::steps::Outcome;
use crate::tools::{cargo, root, run, typed};
use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Code whose errors would give wrong results silently, and the tests that cover it.
struct Group {
    name: &'static str,
    package: &'static str,
    files: &'static [&'static str],
    /// Arguments of `cargo test`.
    tests: &'static [&'static str],
}

const GROUPS: &[Group] = &[
    Group {
        name: "queues",
        package: "punctual-net",
        files: &["crates/net/src/queue.rs", "crates/net/src/queue/*.rs"],
        tests: &["--lib"],
    },
    Group {
        name: "results",
        package: "punctual-results",
        files: &[
            "crates/results/src/stats.rs",
            "crates/results/src/significance.rs",
            "crates/results/src/summary.rs",
            "crates/results/src/share.rs",
            "crates/results/src/student.rs",
            "crates/results/src/times.rs",
        ],
        tests: &["--lib"],
    },
    Group {
        name: "checks",
        package: "punctual-sim",
        files: &["crates/sim/src/checks.rs", "crates/sim/src/checks/*.rs"],
        tests: &["--lib", "checks"],
    },
    Group {
        name: "d3",
        package: "punctual-transports",
        files: &["crates/transports/src/d3/capacity.rs"],
        tests: &["--lib", "d3"],
    },
    Group {
        name: "pdq",
        package: "punctual-transports",
        files: &["crates/transports/src/pdq/port.rs", "crates/transports/src/pdq/port/*.rs"],
        tests: &["--lib", "pdq"],
    },
    Group {
        name: "tcp",
        package: "punctual-transports",
        files: &["crates/transports/src/tcp/congestion.rs", "crates/transports/src/tcp/penalty.rs"],
        tests: &["--lib", "tcp"],
    },
    Group {
        name: "ndp",
        package: "punctual-transports",
        files: &["crates/transports/src/ndp/pulls.rs", "crates/transports/src/ndp/scoreboard.rs"],
        tests: &["--lib", "ndp"],
    },
];

/// Which mutants to test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// One shard, such as `2/10`: a sample if all mutants would take too long.
    shard: Option<String>,
    /// Names of groups; empty selects all.
    names: Vec<String>,
}

impl Options {
    /// Parses the command line. The error is the invalid argument.
    pub(crate) fn parse(args: &[&str]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                "--shard" => {
                    let value = args.next().copied().unwrap_or_default();
                    let is_shard = value.split_once('/').is_some_and(|(part, of)| {
                        matches!((part.parse::<u32>(), of.parse()), (Ok(part), Ok(of)) if part < of)
                    });
                    if !is_shard {
                        return Err(format!("--shard {value}"));
                    }
                    options.shard = Some(value.into());
                }
                name if GROUPS.iter().any(|group| group.name == name) => {
                    options.names.push(name.into());
                }
                other => return Err(other.into()),
            }
        }
        Ok(options)
    }
}

/// The results of cargo-mutants for one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tally {
    caught: usize,
    missed: Vec<String>,
    unviable: usize,
    timeout: usize,
}

impl Tally {
    /// Reads the lists that a run has written. Each must exist, and at least one mutant must have
    /// been caught or missed; otherwise the run tested nothing.
    fn read(output: &Path) -> anyhow::Result<Tally> {
        let list = |name: &str| -> anyhow::Result<Vec<String>> {
            let path = output.join("mutants.out").join(name);
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cargo mutants did not write {}", path.display()))?;
            Ok(text.lines().map(str::to_owned).collect())
        };
        let tally = Tally {
            caught: list("caught.txt")?.len(),
            missed: list("missed.txt")?,
            unviable: list("unviable.txt")?.len(),
            timeout: list("timeout.txt")?.len(),
        };
        if tally.caught + tally.missed.len() == 0 {
            bail!("no mutant was tested: {}", tally.line());
        }
        Ok(tally)
    }

    fn line(&self) -> String {
        format!(
            "{} caught, {} missed, {} unviable, {} timed out",
            self.caught,
            self.missed.len(),
            self.unviable,
            self.timeout
        )
    }
}

/// Whether mutants were tested, by the exit code of cargo-mutants: all caught (0), some missed (2),
/// or some timed out (3). Other codes are usage errors (1), tests that fail without any mutant (4),
/// or internal errors (70).
fn has_tested(code: Option<i32>) -> bool {
    matches!(code, Some(0 | 2 | 3))
}

/// Tests the mutants of each group and lists those that no test caught.
pub(crate) fn mutants(options: &Options) -> anyhow::Result<Outcome> {
    if !has_subcommand("mutants") {
        run(cargo().args(["install", "cargo-mutants", "--locked"]))?;
    }
    let mut lines = Vec::new();
    let mut missed = Vec::new();
    for group in GROUPS {
        if options.names.is_empty() || options.names.iter().any(|name| name == group.name) {
            let tally = try_group(group, options)?;
            lines.push(format!("{}: {}", group.name, tally.line()));
            println!("{}", lines[lines.len() - 1]);
            missed.extend(tally.missed);
        }
    }
    missed.iter().for_each(|mutant| println!("missed: {mutant}"));
    lines.iter().for_each(|line| println!("{line}"));
    Ok(match missed.len() {
        0 => Outcome::Passed,
        count => Outcome::Failed(format!("no test caught {count} mutants")),
    })
}

/// Tests the mutants of one group.
fn try_group(group: &Group, options: &Options) -> anyhow::Result<Tally> {
    let (mut command, output) = command(group, options);
    // Remove the lists of an earlier run.
    if output.exists() {
        std::fs::remove_dir_all(&output)
            .with_context(|| format!("cannot clear {}", output.display()))?;
    }
    std::fs::create_dir_all(&output)
        .with_context(|| format!("cannot create {}", output.display()))?;
    println!("$ {}", typed(&command));
    let status = command.status().context("cannot run cargo mutants")?;
    if !has_tested(status.code()) {
        bail!("group {}: cargo mutants tested nothing: {status}", group.name);
    }
    Tally::read(&output).with_context(|| format!("group {}", group.name))
}

/// The command for a group, and its output directory.
fn command(group: &Group, options: &Options) -> (Command, PathBuf) {
    let output = root().join("target/mutants-of").join(group.name);
    let mut command = cargo();
    command.args(["mutants", "--package", group.package, "--no-shuffle", "--colors=never"]);
    // A mutant may loop forever; tests of one package take seconds.
    command.args(["--minimum-test-timeout", "60"]);
    group.files.iter().for_each(|file| _ = command.args(["--file", file]));
    if let Some(shard) = &options.shard {
        command.args(["--shard", shard]);
    }
    command.arg("--output").arg(&output).arg("--").args(group.tests);
    // Dependencies are built once for all groups.
    command.env("CARGO_TARGET_DIR", root().join("target/mutants"));
    (command, output)
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn options__groups_and_shards() {
        let options = Options::parse(&["--shard", "2/10", "tcp"]).expect("options");
        assert_eq!(options, Options { shard: Some("2/10".into()), names: vec!["tcp".into()] });
        for wrong in [&["--shard", "10/10"][..], &["--shard", "2"], &["udp"], &["--all"]] {
            assert!(Options::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn groups__files_exist() {
        for file in GROUPS.iter().flat_map(|group| group.files) {
            let path = root().join(file.trim_end_matches("/*.rs"));
            assert!(path.exists(), "{file}");
        }
    }

    #[test]
    fn command__tests_come_last() {
        let options = Options { shard: Some("0/4".into()), ..Options::default() };
        let d3 = GROUPS.iter().find(|group| group.name == "d3").expect("d3");
        let (command, _) = command(d3, &options);
        let typed = typed(&command);
        assert!(typed.contains("--shard 0/4") && typed.ends_with("-- --lib d3"), "{typed}");
    }

    #[test]
    fn has_tested__only_codes_of_runs_that_tested() {
        for code in [0, 2, 3] {
            assert!(has_tested(Some(code)), "{code}");
        }
        for code in [1, 4, 5, 6, 70, 101] {
            assert!(!has_tested(Some(code)), "{code}");
        }
        assert!(!has_tested(None), "ended by a signal");
    }

    #[test]
    fn tally__lists_must_exist_and_name_tested_mutants() {
        let output = std::env::temp_dir().join(format!("punctual-tally-{}", std::process::id()));
        let lists = output.join("mutants.out");
        std::fs::create_dir_all(&lists).expect("directory");
        let error = |output: &Path| format!("{:#}", Tally::read(output).expect_err("no tally"));
        assert!(error(&output).contains("did not write"), "{}", error(&output));

        for name in ["caught.txt", "missed.txt", "timeout.txt", "unviable.txt"] {
            std::fs::write(lists.join(name), "").expect("list");
        }
        std::fs::write(lists.join("unviable.txt"), "a\nb\n").expect("list");
        assert!(error(&output).contains("no mutant was tested"), "{}", error(&output));

        std::fs::write(lists.join("missed.txt"), "x.rs:1: replace\n").expect("list");
        std::fs::write(lists.join("timeout.txt"), "c\n").expect("list");
        let tally = Tally::read(&output).expect("tally");
        assert_eq!(tally.missed, ["x.rs:1: replace"]);
        assert_eq!(tally.line(), "0 caught, 1 missed, 2 unviable, 1 timed out");
        std::fs::remove_dir_all(&output).expect("removed");
    }
}
