//! The steps of `cargo xtask test`, in order.

use crate::book;
use crate::build::build;
use crate::dist;
use crate::figures;
use crate::fuzz;
use crate::instructions::{self, Options};
use crate::python;
use crate::setup::{
    BROWSER, TSHARK, has_musl, has_subcommand, missing_for_kernel, musl_target, setup,
};
use crate::steps::{Outcome, Steps};
use crate::swarm;
use crate::tools::{
    built_program, cargo, is_installed, output, root, run as run_command, run_noting_skips, target,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

type Step = (&'static str, fn() -> anyhow::Result<Outcome>);

const STEPS: &[Step] = &[
    ("setup", setup),
    ("fmt", fmt),
    ("clippy", clippy),
    ("test", test),
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
    ("dist", || dist::dist(&dist::Options { profile: "smoke".into() })),
    ("example", example),
    ("smoke", smoke),
];

/// Steps that build most of the time and measure none: one lane leaves processors idle, while it
/// links or installs. They have target directories of their own, so that cargo runs both.
const LANES: [&[&str]; 2] = [&["doc", "instructions"], &["dist", "example"]];

/// The first name that is not a step.
pub(crate) fn unknown_step<'a>(names: &[&'a str]) -> Option<&'a str> {
    names.iter().copied().find(|name| STEPS.iter().all(|(step, _)| step != name))
}

/// Runs the named steps, or all if no name is given. Returns whether any failed.
pub(crate) fn run(names: &[&str]) -> bool {
    let mut steps = Steps::from_env();
    // Figures of an earlier run may be outdated.
    let _ = std::fs::remove_dir_all(figures_of_tests());
    let is_wanted = |name: &str| names.is_empty() || names.contains(&name);
    let lanes: Vec<Vec<&'static str>> = LANES
        .iter()
        .map(|lane| lane.iter().copied().filter(|name| is_wanted(name)).collect())
        .collect();
    let has_lanes = lanes.iter().all(|lane| !lane.is_empty());
    let is_in_lane = |name: &str| has_lanes && lanes.iter().flatten().any(|other| *other == name);
    for (name, step) in STEPS.iter().filter(|(name, _)| is_wanted(name)) {
        if !is_in_lane(name) {
            steps.run(name, step);
        } else if lanes[0][0] == *name {
            steps.run_beside(&lanes, alone);
        }
    }
    print!("{}", steps.summary());
    steps.failed()
}

/// The command that runs one step in a process of its own.
fn alone(name: &str) -> Command {
    // A step may have replaced the file of this program, which Linux still has.
    let own = Path::new("/proc/self/exe");
    let other = || std::env::current_exe().unwrap_or_else(|_| "xtask".into());
    let mut command = Command::new(if own.exists() { own.to_owned() } else { other() });
    command.args(["test", name]);
    command
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

/// Runs all tests. Those that are quick studies leave their figures for the step `figures`.
fn test() -> anyhow::Result<Outcome> {
    let before = traces();
    std::fs::create_dir_all(figures_of_tests())?;
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--no-fail-fast"]);
    run_command(tests.env(figures::PRINTED, figures_of_tests()))?;
    Ok(outcome(&before, &[]))
}

/// The directory for figures that the step `test` prints. It exists only after that step.
fn figures_of_tests() -> PathBuf {
    target().join("figures-of-tests")
}

/// The profile `smoke` of this workspace, for a crate outside it.
const SMOKE: [&str; 6] = [
    "profile.smoke.inherits='dev'",
    "profile.smoke.opt-level=0",
    "profile.smoke.debug=false",
    "profile.smoke.strip=true",
    "profile.smoke.package.'*'.opt-level=0",
    "profile.smoke.build-override.debug=false",
];

/// Builds the example crate with its own transport, runs its test, and compares it with the built-in
/// transports.
///
/// It has the features of `punctual` without tests, so that it shares no dependency with the tests
/// of the workspace. It shares them with the static program of the step `dist`, if built alike.
fn example() -> anyhow::Result<Outcome> {
    let dir = root().join("examples").join("my-transport");
    // Use the dependency versions of this workspace. Cargo drops those that are not needed.
    std::fs::copy(root().join("Cargo.lock"), dir.join("Cargo.lock"))?;
    let in_example = |what: &str| {
        let mut command = cargo();
        command.current_dir(&dir).env("CARGO_TARGET_DIR", target());
        command.args([what, "--profile", "smoke"]);
        command.args(SMOKE.iter().flat_map(|line| ["--config", line]));
        if has_musl() {
            dist::make_static(&mut command, &musl_target());
        }
        command
    };
    run_command(in_example("test").arg("--lib"))?;
    let compare = ["--", "compare", "scenario.toml", "--fresh", "--out"];
    run_command(in_example("run").args(compare).arg(target().join("example-results")))?;
    Ok(Outcome::Passed)
}

/// Checks that the quick tables of the docs match the output of their commands. Runs the studies
/// unless the step `test` has.
fn quick_figures() -> anyhow::Result<Outcome> {
    let printed = Some(figures_of_tests()).filter(|dir| dir.exists());
    figures::figures(&figures::Options { quick: true, check: true, printed, ..Default::default() })
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
    let before = traces();
    // Uses the whole workspace, so that cargo does not rebuild crates with other features.
    let cost = ["--test", "integration", "cost__of_a_packet", "--", "--ignored", "--nocapture"];
    run_command(cargo().args(["test", "--workspace"]).args(cost))?;
    // Tests of the host stack that need the whole machine: 200 Mb/s at 20 ms, a million addresses.
    let alone = ["--test", "integration", "--", "idle__", "flood__a_million"];
    let one_by_one = ["--ignored", "--nocapture", "--test-threads=1"];
    let mut host = cargo();
    host.args(["test", "--workspace"]).args(alone).args(one_by_one);
    let busy = run_noting_skips(&mut host)?;
    if !is_installed("ip") {
        return Ok(Outcome::Skipped("`ip` is not installed; run `cargo xtask setup`".into()));
    }
    let id = output(Command::new("id").arg("-u"))?;
    if id.trim() != "0" {
        return Ok(Outcome::Skipped("network namespaces need root".into()));
    }
    let mut skipped = busy;
    for tests in [["--lib", "--", "host_stack__"].as_slice(), &["--test", "testbed", "--"]] {
        let mut command = cargo();
        command.args(["test", "--workspace"]).args(tests).args(one_by_one);
        skipped.extend(run_noting_skips(&mut command)?);
    }
    Ok(outcome(&before, &skipped))
}

/// The outcome of tests that skipped some checks for these reasons, if there were these traces before.
fn outcome(before: &BTreeSet<String>, skipped: &[String]) -> Outcome {
    let left = left_behind(before);
    match left.is_empty() {
        true => passed_except(skipped),
        false => Outcome::Failed(format!("the tests left behind: {}", left.join(", "))),
    }
}

/// What tests could leave on this machine: named namespaces, the files of testbeds, and processes of
/// the `punctual` that they ran. Namespaces of tests that still run are theirs.
fn traces() -> BTreeSet<String> {
    let names = |dir: &str| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<PathBuf>>()
    };
    let mut files = [names("/run/netns"), names("/run/punctual")].concat();
    files.retain(|path| !is_of_a_running_test(path));
    let program = target().join("debug").join("punctual");
    let runs_it = |process: &PathBuf| {
        let is_it = |exe: PathBuf| exe == program;
        std::fs::read_link(process.join("exe")).is_ok_and(is_it)
    };
    let processes = names("/proc").into_iter().filter(runs_it);
    files.into_iter().chain(processes).map(|path| path.display().to_string()).collect()
}

/// Whether a namespace has the name of `punctual_testkit::TestNamespaces` of a running process.
fn is_of_a_running_test(namespace: &Path) -> bool {
    let name = namespace.file_name().unwrap_or_default().to_string_lossy();
    let pid = name.strip_prefix("punctual-test-").and_then(|rest| rest.split('-').next());
    let pid = pid.and_then(|pid| pid.parse::<u32>().ok());
    pid.is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists())
}

/// The traces that were not there before. What is about to go has ten seconds for it.
fn left_behind(before: &BTreeSet<String>) -> Vec<String> {
    let begin = Instant::now();
    loop {
        let left: Vec<String> = traces().difference(before).cloned().collect();
        if left.is_empty() || begin.elapsed() > Duration::from_secs(10) {
            return left;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
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
    let features = ["--features", "punctual/kernel,punctual-kernel/loader"];
    if has_subcommand("clippy") {
        let lints = ["clippy", "--workspace", "--all-targets"];
        run_command(cargo().args(lints).args(features).args(["--", "-D", "warnings"]))?;
    }
    run_command(build(&["--bin", "punctual", "--test", "kernel"]).args(features))?;
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--test", "kernel"]).args(features);
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
        run_command(Command::new(&program).arg("check").arg(root().join(scenario)))?;
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

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    /// Namespaces that a test has left behind are found, and those of a running test are not.
    #[test]
    fn traces__of_running_tests_are_theirs() {
        let own = std::process::id();
        let is_theirs = |name: &str| is_of_a_running_test(&Path::new("/run/netns").join(name));
        assert!(is_theirs(&format!("punctual-test-{own}-0-1")));
        // The kernel has no process with so large a number: 2^22 at most.
        for left in ["punctual-test-4999999-0-1", "punctual-test--0", "punctual-test-", "pn3-h0"] {
            assert!(!is_theirs(left), "{left}");
        }
    }
}
