//! Mutation testing: changes the code in small ways and looks whether a test fails.

use crate::setup::has_subcommand;
use crate::steps::Outcome;
use crate::tools::{cargo, root, run, typed};
use anyhow::Context as _;
use std::process::Command;

/// Code whose mistakes would mislead rather than fail, and the tests that watch it.
struct Group {
    name: &'static str,
    package: &'static str,
    files: &'static [&'static str],
    /// What `cargo test` is told.
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
        ],
        tests: &["--lib"],
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

/// Which mutants to try.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// One part of many, `2/10`: a sample where all would take too long.
    shard: Option<String>,
    /// Names of groups; none stands for all.
    names: Vec<String>,
}

impl Options {
    /// From the command line; the error is what there is not.
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

/// Tries the mutants of each group and lists those that no test caught.
pub(crate) fn mutants(options: &Options) -> anyhow::Result<Outcome> {
    if !has_subcommand("mutants") {
        run(cargo().args(["install", "cargo-mutants", "--locked"]))?;
    }
    let mut missed = Vec::new();
    for group in GROUPS {
        if options.names.is_empty() || options.names.iter().any(|name| name == group.name) {
            let (mut command, output) = command(group, options);
            println!("$ {}", typed(&command));
            // It fails where mutants are missed, and says so in files.
            command.status().context("cannot run cargo mutants")?;
            let read = |name: &str| std::fs::read_to_string(output.join("mutants.out").join(name));
            let count = |name: &str| read(name).map_or(0, |text| text.lines().count());
            println!(
                "{}: {} caught, {} missed, {} timed out, {} did not build",
                group.name,
                count("caught.txt"),
                count("missed.txt"),
                count("timeout.txt"),
                count("unviable.txt")
            );
            missed.extend(read("missed.txt").unwrap_or_default().lines().map(str::to_owned));
        }
    }
    missed.iter().for_each(|mutant| println!("missed: {mutant}"));
    Ok(match missed.len() {
        0 => Outcome::Passed,
        count => Outcome::Failed(format!("no test caught {count} mutants")),
    })
}

/// The command for a group, and the directory that it reports in.
fn command(group: &Group, options: &Options) -> (Command, std::path::PathBuf) {
    let output = root().join("target/mutants-of").join(group.name);
    let mut command = cargo();
    command.args(["mutants", "--package", group.package, "--no-shuffle", "--colors=never"]);
    // A mutant may loop for ever; tests of one package take seconds.
    command.args(["--minimum-test-timeout", "60"]);
    group.files.iter().for_each(|file| _ = command.args(["--file", file]));
    if let Some(shard) = &options.shard {
        command.args(["--shard", shard]);
    }
    command.arg("--output").arg(&output).arg("--").args(group.tests);
    // Dependencies are built once for all groups.
    command.env("CARGO_TARGET_DIR", root().join("target/mutants"));
    let _ = std::fs::create_dir_all(&output);
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
        let (command, _) = command(&GROUPS[2], &options);
        let typed = typed(&command);
        assert!(typed.contains("--shard 0/4") && typed.ends_with("-- --lib d3"), "{typed}");
    }
}
