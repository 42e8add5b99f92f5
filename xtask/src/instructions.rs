//! Compares instruction counts per operation with the baseline in `benches/`.

mod baseline;
pub(crate) mod ratio;

pub(crate) use baseline::{Baseline, Toolchain};

use crate::callgrind::count;
use crate::steps::Outcome;
use crate::tools::{cargo, in_parallel, is_installed, output, root};
use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tolerance above the baseline, in percent.
const TOLERANCE_PERCENT: f64 = 2.0;

/// Which benchmarks to run, and whether to update the baseline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) update: bool,
    /// Parts of benchmark names; empty selects all.
    pub(crate) names: Vec<String>,
}

impl Options {
    /// Parses the command line. The error is the unknown option.
    pub(crate) fn parse(args: &[&str]) -> Result<Options, String> {
        let mut options = Options::default();
        for arg in args {
            match *arg {
                "--update" => options.update = true,
                option if option.starts_with('-') => return Err(option.into()),
                name => options.names.push(name.into()),
            }
        }
        Ok(options)
    }

    fn selects(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|part| name.contains(part))
    }
}

/// A benchmark and its instructions per operation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) per_operation: f64,
}

/// Counts instructions, prints the table, and compares with the baseline or updates it.
pub(crate) fn gate(options: &Options) -> anyhow::Result<Outcome> {
    if !is_installed("valgrind") {
        return Ok(Outcome::Skipped("valgrind is not installed; run `cargo xtask setup`".into()));
    }
    let path = root().join("benches/instructions.toml");
    let toolchain = Toolchain::parse(&output(Command::new("rustc").arg("-vV"))?)?;
    let baseline = Baseline::read(&path)?;
    if !options.update && baseline.toolchain != toolchain {
        // Counts of different compilers cannot be compared.
        return Ok(Outcome::Skipped(format!(
            "the baseline is for {}, but this is {toolchain}",
            baseline.toolchain
        )));
    }
    let program = build()?;
    let measured = measure(&program, options)?;
    print!("{}{}", table(&measured, &baseline), ratio::table(&measured));
    if options.update {
        let updated = baseline.updated(toolchain, &measured, options.names.is_empty());
        updated.write(&path)?;
        println!("wrote {}", path.strip_prefix(root()).unwrap_or(&path).display());
        return Ok(Outcome::Passed);
    }
    let mut complaints = complaints(&measured, &baseline, options.names.is_empty());
    complaints.extend(ratio::complaints(&measured));
    Ok(if complaints.is_empty() {
        Outcome::Passed
    } else {
        Outcome::Failed(format!(
            "{}; find the cause, or accept it with `cargo xtask bench-instructions --update` and \
             give the reason in the commit",
            complaints.join(", ")
        ))
    })
}

/// Builds the benchmarks with the release profile and debug names. Returns the program.
fn build() -> anyhow::Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--profile", "profiling", "--package", "punctual-sim"]);
    command.args(["--bench", "instructions"]);
    command.arg("--message-format=json-render-diagnostics");
    let messages = output(&mut command)?;
    executable_in(&messages).context("cargo printed no path of the benchmark program")
}

/// The path of the program in cargo's JSON messages. Handles only escaped quotes and backslashes.
pub(crate) fn executable_in(messages: &str) -> Option<PathBuf> {
    let (_, rest) = messages.rsplit_once(r#""executable":""#)?;
    let mut path = String::new();
    let mut chars = rest.chars();
    loop {
        match chars.next()? {
            '"' => return Some(path.into()),
            '\\' => path.push(chars.next()?),
            c => path.push(c),
        }
    }
}

fn measure(program: &Path, options: &Options) -> anyhow::Result<Vec<Measured>> {
    let catalogue = output(Command::new(program).arg("--catalogue"))?;
    let mut benchmarks = Vec::new();
    for line in catalogue.lines() {
        let (name, length) =
            line.split_once(' ').context("the catalogue must list names and lengths")?;
        if options.selects(name) {
            benchmarks
                .push((name, length.parse::<u64>().context("invalid length in the catalogue")?));
        }
    }
    anyhow::ensure!(
        !benchmarks.is_empty(),
        "no benchmark matches; the benchmarks are:\n{catalogue}"
    );
    // Profiles are kept beside the program, for callgrind_annotate.
    let profiles = program.with_file_name("callgrind");
    std::fs::create_dir_all(&profiles)
        .with_context(|| format!("cannot create {}", profiles.display()))?;
    println!("profiles for callgrind_annotate are in {}", profiles.display());
    // Instruction counts do not depend on the load.
    in_parallel(&benchmarks, |(name, length)| {
        let profile = |n: u32| profiles.join(format!("{}.{n}x.out", name.replace('/', "-")));
        let shorter = count(program, name, *length, &profile(1))?;
        let longer = count(program, name, 2 * length, &profile(2))?;
        let per_operation =
            longer.per_operation_beyond(shorter).with_context(|| format!("benchmark {name}"))?;
        Ok(Measured { name: (*name).to_owned(), per_operation })
    })
}

fn change_percent(measured: &Measured, baseline: &Baseline) -> Option<f64> {
    let before = baseline.get(&measured.name)?;
    let percent = (measured.per_operation / before - 1.0) * 100.0;
    // Rounded to hundredths, like the baseline; adding 0 turns -0 into 0.
    Some((percent * 100.0).round() / 100.0 + 0.0)
}

/// A table of name, instructions per operation, baseline and change.
pub(crate) fn table(measured: &[Measured], baseline: &Baseline) -> String {
    let mut text =
        format!("{:<24} {:>14} {:>10} {:>9}\n", "benchmark", "instructions", "baseline", "change");
    for one in measured {
        let before = baseline.get(&one.name).map_or("-".into(), |b| format!("{b:.2}"));
        let change = change_percent(one, baseline).map_or("-".into(), |c| format!("{c:+.2} %"));
        let count = one.per_operation;
        text += &format!("{:<24} {count:>14.2} {before:>10} {change:>9}\n", one.name);
    }
    text
}

/// Counts above the baseline, benchmarks without one and, if `all` ran, baselines without benchmark.
pub(crate) fn complaints(measured: &[Measured], baseline: &Baseline, all: bool) -> Vec<String> {
    let mut complaints = Vec::new();
    for one in measured {
        match change_percent(one, baseline) {
            Some(change) if change > TOLERANCE_PERCENT => {
                complaints.push(format!("{} needs {change:.2} % more instructions", one.name));
            }
            Some(_) => {}
            None if ratio::is_relative(&one.name) => {}
            None => complaints.push(format!("{} has no baseline", one.name)),
        }
    }
    for name in baseline.names().filter(|_| all) {
        if measured.iter().all(|one| one.name != name) {
            complaints.push(format!("{name} has a baseline but no benchmark"));
        }
    }
    complaints
}
