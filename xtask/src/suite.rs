//! The steps of `cargo xtask test`, in order.

use crate::book;
use crate::figures;
use crate::fuzz;
use crate::instructions::{self, Options};
use crate::python;
use crate::setup::{BROWSER, TSHARK, has_subcommand, missing_for_kernel, setup};
use crate::steps::{Outcome, Steps};
use crate::swarm;
use crate::tools::{
    built_program, cargo, is_installed, output, root, run as run_command, run_noting_skips,
};
use std::path::PathBuf;

type Step = (&'static str, fn() -> anyhow::Result<Outcome>);

const STEPS: &[Step] = &[
    ("setup", setup),
    ("fmt", fmt),
    ("clippy", clippy),
    ("test", test),
    ("example", example),
    ("figures", quick_figures),
    ("book", || book::book(book::Options::default())),
    ("python", python::python),
    ("swarm", || swarm::swarm(&swarm::Options { minutes: 2.0, names: Vec::new() })),
    ("browser", browser),
    ("tshark", tshark),
    ("fuzz", || fuzz::fuzz(&fuzz::Options::default())),
    ("testbed", testbed),
    ("kernel", kernel),
    ("doc", doc),
    ("instructions", || instructions::gate(&Options::default())),
    ("smoke", smoke),
];

/// The first name that is not a step.
pub(crate) fn unknown_step<'a>(names: &[&'a str]) -> Option<&'a str> {
    names.iter().copied().find(|name| STEPS.iter().all(|(step, _)| step != name))
}

/// Runs the named steps, or all if no name is given. Returns whether any failed.
pub(crate) fn run(names: &[&str]) -> bool {
    let mut steps = Steps::from_env();
    for (name, step) in STEPS {
        if names.is_empty() || names.contains(name) {
            steps.run(name, step);
        }
    }
    print!("{}", steps.summary());
    steps.failed()
}

/// Runs one step with its own options. Returns whether it failed.
pub(crate) fn run_step(name: &'static str, step: impl FnOnce() -> anyhow::Result<Outcome>) -> bool {
    let mut steps = Steps::from_env();
    steps.run(name, step);
    print!("{}", steps.summary());
    steps.failed()
}

fn run_cargo(args: &[&str]) -> anyhow::Result<Outcome> {
    run_command(cargo().args(args))?;
    Ok(Outcome::Passed)
}

fn without(component: &str) -> anyhow::Result<Outcome> {
    Ok(Outcome::Skipped(format!("`cargo {component}` is not installed")))
}

fn fmt() -> anyhow::Result<Outcome> {
    if !has_subcommand("fmt") {
        return without("fmt");
    }
    run_cargo(&["fmt", "--all", "--check"])
}

fn clippy() -> anyhow::Result<Outcome> {
    if !has_subcommand("clippy") {
        return without("clippy");
    }
    run_cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

fn test() -> anyhow::Result<Outcome> {
    run_cargo(&["test", "--workspace", "--no-fail-fast"])
}

/// Builds the example crate with its own transport, runs its test, and compares it with the built-in
/// transports.
fn example() -> anyhow::Result<Outcome> {
    let dir = root().join("examples").join("my-transport");
    // Use the dependency versions of this workspace. Cargo drops those that are not needed.
    std::fs::copy(root().join("Cargo.lock"), dir.join("Cargo.lock"))?;
    // Dependencies are already built in this workspace's target directory.
    let in_example = || {
        let mut command = cargo();
        command.current_dir(&dir).env("CARGO_TARGET_DIR", target());
        command
    };
    run_command(in_example().args(["test", "--lib"]))?;
    let compare = ["run", "--", "compare", "scenario.toml", "--fresh", "--out"];
    run_command(in_example().args(compare).arg(target().join("example-results")))?;
    Ok(Outcome::Passed)
}

/// Cargo's target directory.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from)
}

/// Checks that the quick tables of the docs match the output of their commands.
fn quick_figures() -> anyhow::Result<Outcome> {
    figures::figures(&figures::Options { quick: true, check: true, ..Default::default() })
}

/// Runs the browser tests of the report, which the step `test` ignores. Uses the whole workspace, so
/// that cargo does not rebuild crates with other features.
fn browser() -> anyhow::Result<Outcome> {
    if !is_installed(BROWSER) {
        return Ok(Outcome::Skipped(format!(
            "{BROWSER} is not installed; run `cargo xtask setup`"
        )));
    }
    run_cargo(&["test", "--workspace", "--test", "browser", "--", "--ignored"])
}

/// Runs the tests of the testbed and the benchmark of the switch's ports, which the step `test`
/// ignores. Those of the testbed need root, and a core of their own while they run.
fn testbed() -> anyhow::Result<Outcome> {
    // Uses the whole workspace, so that cargo does not rebuild crates with other features.
    let cost = ["--test", "integration", "cost__of_a_packet", "--", "--ignored", "--nocapture"];
    run_command(cargo().args(["test", "--workspace"]).args(cost))?;
    if !is_installed("ip") {
        return Ok(Outcome::Skipped("`ip` is not installed; run `cargo xtask setup`".into()));
    }
    let id = output(std::process::Command::new("id").arg("-u"))?;
    if id.trim() != "0" {
        return Ok(Outcome::Skipped("network namespaces need root".into()));
    }
    let one_by_one = ["--ignored", "--nocapture", "--test-threads=1"];
    let mut args = vec!["test", "--workspace", "--test", "testbed", "--"];
    args.extend(one_by_one);
    Ok(passed_except(&run_noting_skips(cargo().args(args))?))
}

/// The outcome of tests that skipped some checks, for these reasons.
fn passed_except(skipped: &[String]) -> Outcome {
    match skipped.first() {
        None => Outcome::Passed,
        Some(first) => {
            Outcome::PassedExcept(format!("{} checks SKIPPED; the first: {first}", skipped.len()))
        }
    }
}

/// Builds the `punctual` with the command `kernel` and runs the tests of D2TCP in this kernel, which
/// print SKIPPED where the machine cannot load it.
fn kernel() -> anyhow::Result<Outcome> {
    let missing = missing_for_kernel();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Ok(Outcome::Skipped(format!("install {missing}; run `cargo xtask setup`")));
    }
    // The whole workspace, so that cargo does not rebuild crates with other features.
    let features = ["--workspace", "--features", "punctual/kernel,punctual-kernel/loader"];
    run_command(cargo().arg("build").args(features).args(["--bin", "punctual"]))?;
    let lints = ["-p", "punctual-kernel", "-p", "punctual", "--no-deps", "--all-targets"];
    if has_subcommand("clippy") {
        let deny = ["--", "-D", "warnings"];
        run_command(cargo().arg("clippy").args(lints).args(&features[1..]).args(deny))?;
    }
    let mut tests = cargo();
    tests.arg("test").args(features).args(["--test", "kernel"]);
    if let Some(program) = built_program() {
        tests.env("PUNCTUAL_PROGRAM", program);
    }
    Ok(passed_except(&run_noting_skips(&mut tests)?))
}

/// Runs the tests of captures in tshark, which the step `test` ignores.
fn tshark() -> anyhow::Result<Outcome> {
    if !is_installed(TSHARK) {
        return Ok(Outcome::Skipped(format!("{TSHARK} is not installed; run `cargo xtask setup`")));
    }
    let tests = ["--test", "integration", "tshark__", "--", "--ignored"];
    run_cargo(&[&["test", "--workspace"], &tests[..]].concat())
}

fn doc() -> anyhow::Result<Outcome> {
    let mut command = cargo();
    command.env("RUSTDOCFLAGS", "-D warnings").args([
        "doc",
        "--workspace",
        "--no-deps",
        "--keep-going",
    ]);
    run_command(&mut command)?;
    Ok(Outcome::Passed)
}

/// Checks every shipped scenario with the `punctual` that the step `test` built. Building it here
/// would rebuild its dependencies with other features.
fn smoke() -> anyhow::Result<Outcome> {
    let Some(program) = built_program() else {
        return Ok(Outcome::Skipped("`punctual` is not built; run the step `test` first".into()));
    };
    let scenarios = scenarios()?;
    if scenarios.is_empty() {
        return Ok(Outcome::Failed("scenarios/ contains no scenario".into()));
    }
    for scenario in scenarios {
        run_command(std::process::Command::new(&program).arg("check").arg(root().join(scenario)))?;
    }
    Ok(Outcome::Passed)
}

fn scenarios() -> anyhow::Result<Vec<PathBuf>> {
    let Ok(entries) = root().join("scenarios").read_dir() else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = PathBuf::from(entry?.file_name());
        if name.extension().is_some_and(|e| e == "toml") {
            found.push(PathBuf::from("scenarios").join(name));
        }
    }
    found.sort();
    Ok(found)
}
