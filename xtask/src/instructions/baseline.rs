//! The baseline file: instruction counts and the compiler that they are for.

use super::Measured;
use anyhow::{Context as _, bail};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

const PREFACE: &str = "\
# Instructions per operation, counted by callgrind. `cargo xtask bench-instructions` compares with
# these; with --update it writes this file. They hold for one compiler and target only.
";

/// The compiler and target of the code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Toolchain {
    rustc: String,
    target: String,
}

impl Toolchain {
    /// Parses the output of `rustc -vV`.
    pub(crate) fn parse(verbose_version: &str) -> anyhow::Result<Toolchain> {
        let rustc = verbose_version.lines().next().context("rustc prints no version")?;
        let target = verbose_version.lines().find_map(|line| line.strip_prefix("host: "));
        let target = target.context("rustc prints no host")?;
        Ok(Toolchain { rustc: rustc.into(), target: target.into() })
    }
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}", self.rustc, self.target)
    }
}

/// The contents of the baseline file, in a small subset of TOML.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Baseline {
    pub(crate) toolchain: Toolchain,
    counts: BTreeMap<String, f64>,
}

impl Baseline {
    /// Reads the file. If it does not exist, the baseline is empty.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Baseline> {
        match std::fs::read_to_string(path) {
            Ok(text) => Baseline::parse(&text).with_context(|| path.display().to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Baseline::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Parses the format that [`Baseline::emit`] writes.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Baseline> {
        let mut baseline = Baseline::default();
        let mut in_counts = false;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line == "[instructions]" {
                in_counts = true;
                continue;
            }
            let entry = line.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
            let parsed = match entry {
                Some((key, value)) if in_counts => baseline.count(key, value),
                Some(("rustc", value)) => string(&mut baseline.toolchain.rustc, value),
                Some(("target", value)) => string(&mut baseline.toolchain.target, value),
                _ => None,
            };
            if parsed.is_none() {
                bail!("line {}: `{line}` is not what --update writes", number + 1);
            }
        }
        Ok(baseline)
    }

    fn count(&mut self, key: &str, value: &str) -> Option<()> {
        let name = unquoted(key)?;
        let count: f64 = value.parse().ok()?;
        let is_new = self.counts.insert(name.into(), count).is_none();
        (is_new && count.is_finite() && count > 0.0).then_some(())
    }

    /// The text of the file.
    pub(crate) fn emit(&self) -> String {
        let Toolchain { rustc, target } = &self.toolchain;
        let mut text = format!("{PREFACE}rustc = \"{rustc}\"\ntarget = \"{target}\"\n");
        text += "\n[instructions]\n";
        for (name, count) in &self.counts {
            text += &format!("\"{name}\" = {count:.2}\n");
        }
        text
    }

    /// Writes the file atomically.
    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let draft = path.with_extension("toml.new");
        std::fs::write(&draft, self.emit())
            .and_then(|()| std::fs::rename(&draft, path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Replaces counts by new ones. Other counts stay, unless `all` were measured or the compiler
    /// changed.
    pub(crate) fn updated(&self, toolchain: Toolchain, new: &[Measured], all: bool) -> Baseline {
        let keep = !all && self.toolchain == toolchain;
        let mut counts = if keep { self.counts.clone() } else { BTreeMap::new() };
        counts.extend(new.iter().map(|one| (one.name.clone(), one.per_operation)));
        Baseline { toolchain, counts }
    }

    /// The count of a benchmark.
    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.counts.get(name).copied()
    }

    /// The names of the benchmarks.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.counts.keys().map(String::as_str)
    }
}

fn unquoted(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"')
}

fn string(field: &mut String, value: &str) -> Option<()> {
    *field = unquoted(value)?.into();
    Some(())
}
