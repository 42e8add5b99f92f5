//! Runs the fuzz targets: tests with `fuzz` in their names that call `bolero::check!`, in
//! `punctual-wire`, `punctual-host` and `punctual-switch`. Each has kept inputs in
//! `__fuzz__/MODULE__TARGET/corpus` beside its source, which it replays first.

use crate::build::{test_binaries, tests_in};
use crate::steps::Outcome;
use crate::tools::{in_parallel, root};
use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// How long, and which targets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// Seconds for each target.
    pub(crate) seconds: f64,
    /// Parts of target names; empty selects all.
    pub(crate) names: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options { seconds: 30.0, names: Vec::new() }
    }
}

impl Options {
    /// Parses the command line. The error is the invalid argument.
    pub(crate) fn parse(args: &[&str]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                "--seconds" => {
                    let value = args.next().and_then(|value| value.parse().ok());
                    let seconds = value.filter(|s: &f64| s.is_finite() && *s > 0.0);
                    options.seconds = seconds.ok_or_else(|| (*arg).to_owned())?;
                }
                option if option.starts_with('-') => return Err(option.into()),
                name => options.names.push(name.into()),
            }
        }
        Ok(options)
    }
}

/// The main source files of the test binaries that have targets.
const BINARIES: [&str; 3] =
    ["crates/wire/tests/integration/main.rs", "crates/host/src/lib.rs", "crates/switch/src/lib.rs"];

/// A target: a test of a binary.
#[derive(Clone, Debug)]
struct Target {
    name: String,
    program: PathBuf,
    /// The directory of its crate.
    directory: PathBuf,
}

/// Runs all targets, as many at a time as this machine has processors. A failure prints the input.
pub(crate) fn fuzz(options: &Options) -> anyhow::Result<Outcome> {
    let targets = targets(&options.names)?;
    println!("{} fuzz targets, {} s each", targets.len(), options.seconds);
    for target in &targets {
        let folder = corpus_folder(&target.name);
        if !has_inputs(&target.directory, &folder) {
            let name = &target.name;
            return Ok(Outcome::Failed(format!("{name} has no kept inputs in {folder}")));
        }
    }
    let failures: Vec<String> =
        in_parallel(&targets, |target| run_target(target, options.seconds))?
            .into_iter()
            .flatten()
            .collect();
    failures.iter().for_each(|failure| println!("\n{failure}"));
    Ok(match (targets.is_empty(), failures.len()) {
        (true, _) => Outcome::Failed("no fuzz target matches".into()),
        (false, 0) => Outcome::Passed,
        (false, count) => Outcome::Failed(format!("{count} fuzz targets failed; see above")),
    })
}

/// Builds the binaries and finds the targets whose names contain one of these parts.
fn targets(names: &[String]) -> anyhow::Result<Vec<Target>> {
    let binaries = test_binaries(["--lib", "--test", "integration"])?;
    let mut targets = Vec::new();
    for path in BINARIES {
        let source = root().join(path);
        let binary = binaries.iter().find(|binary| binary.source == source);
        let binary = binary.with_context(|| format!("cargo built no test of {path}"))?;
        let parts: Vec<_> = Path::new(path).iter().take(2).collect();
        let directory = root().join(parts.iter().collect::<PathBuf>());
        for name in tests_in(binary)? {
            if is_target(&name) && (names.is_empty() || names.iter().any(|n| name.contains(n))) {
                let (program, directory) = (binary.program.clone(), directory.clone());
                targets.push(Target { name, program, directory });
            }
        }
    }
    Ok(targets)
}

/// Whether a test is a fuzz target, by its name. Others in the same files are about kept inputs or
/// forged packets.
fn is_target(name: &str) -> bool {
    name.contains("fuzz") && !name.contains("corpus") && !name.contains("forged")
}

/// The folder of a target's kept inputs, by its name: that in which bolero looks for them.
fn corpus_folder(name: &str) -> String {
    let mut parts: Vec<&str> = name.split("::").collect();
    if let Some(last) = parts.last_mut() {
        *last = last.strip_prefix("fuzz_").unwrap_or(last);
    }
    format!("__fuzz__/{}/corpus", parts.join("__"))
}

/// Whether a directory or one below it has this folder, with a file.
fn has_inputs(directory: &Path, folder: &str) -> bool {
    let files = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten();
    files(directory.join(folder)).next().is_some()
        || files(directory.into())
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .any(|entry| has_inputs(&entry.path(), folder))
}

/// Runs one target in a process of its own. Returns its output if it failed.
fn run_target(target: &Target, seconds: f64) -> anyhow::Result<Option<String>> {
    let started = Instant::now();
    let mut command = Command::new(&target.program);
    command.args(["--exact", &target.name, "--nocapture"]).current_dir(&target.directory);
    command.env("CARGO_MANIFEST_DIR", &target.directory);
    // With no coverage, time is all that random inputs need.
    command.env("BOLERO_RANDOM_TEST_TIME_MS", format!("{:.0}", seconds * 1000.0));
    let output = command.stdin(Stdio::null()).output()?;
    let verdict = if output.status.success() { "passed" } else { "FAILED" };
    println!("{verdict} {:>6.1} s  {}", started.elapsed().as_secs_f64(), target.name);
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into());
    let [stdout, stderr]: [String; 2] = text;
    let failure = || format!("{}: {}\n{stdout}\n{stderr}", target.name, output.status);
    Ok((!output.status.success()).then(failure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parsed() {
        let options = Options::parse(&["--seconds", "600", "endpoint"]).expect("options");
        assert_eq!(options, Options { seconds: 600.0, names: vec!["endpoint".into()] });
        assert!(Options::parse(&["--seconds"]).is_err() && Options::parse(&["-x"]).is_err());
    }

    #[test]
    fn targets_have_kept_inputs() {
        assert_eq!(corpus_folder("a::fuzz::fuzz_engine"), "__fuzz__/a__fuzz__engine/corpus");
        assert_eq!(corpus_folder("fuzz::frame"), "__fuzz__/fuzz__frame/corpus");
        let known = [
            ("crates/host", "endpoint::fuzz::fuzz_engine"),
            ("crates/wire", "fuzz_endpoints::fuzz_endpoint_pdq"),
            ("crates/wire", "fuzz::fields_d3"),
            ("crates/switch", "config::tests::fuzz_config"),
        ];
        for (directory, name) in known {
            assert!(is_target(name));
            assert!(has_inputs(&root().join(directory), &corpus_folder(name)), "{name}");
        }
        assert!(!is_target("endpoint::fuzz::corpus__write"));
    }
}
