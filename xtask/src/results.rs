//! The committed results of the catalogue, `experiments/results/`: runs experiments and puts their
//! results in place of the ones before.

use crate::figures::programs;
use crate::steps::Outcome;
use crate::tools::{output, root, run, target};
use anyhow::{Context as _, bail};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The picture of the README, below the root.
const PICTURE: &str = "docs/images/matrix.svg";

/// Which results to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    kind: Kind,
    /// Experiments or papers; empty selects all.
    names: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Full,
    Quick,
    Testbed,
}

impl Kind {
    /// The name of its files.
    fn name(self) -> &'static str {
        match self {
            Kind::Full => "full",
            Kind::Quick => "quick",
            Kind::Testbed => "testbed",
        }
    }

    /// The options of `punctual reproduce`.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Kind::Full => &[],
            Kind::Quick => &["--quick"],
            Kind::Testbed => &["--on", "testbed"],
        }
    }
}

impl Options {
    /// Parses the command line. The error is what is wrong with it.
    pub(crate) fn parse(args: &[&str]) -> Result<Options, String> {
        let kinds = [Kind::Full, Kind::Quick, Kind::Testbed];
        let (first, names) = args.split_first().ok_or("give full, quick or testbed")?;
        let kind = kinds.into_iter().find(|kind| kind.name() == *first);
        let kind = kind.ok_or_else(|| format!("`{first}` is not full, quick or testbed"))?;
        if let Some(option) = names.iter().find(|name| name.starts_with('-')) {
            return Err(format!("invalid argument `{option}`"));
        }
        Ok(Options { kind, names: names.iter().map(|name| (*name).to_owned()).collect() })
    }
}

/// Runs the experiments and replaces their results.
pub(crate) fn results(options: &Options) -> anyhow::Result<Outcome> {
    let mut status = Command::new("git");
    status.current_dir(root()).args(["status", "--porcelain", "--untracked-files=no"]);
    if !output(status.args(["--", "crates", "experiments/*/*.toml", "Cargo.lock"]))?.is_empty() {
        bail!("commit first: results name the commit that made them");
    }
    let kind = options.kind;
    let program = programs(false)?.join("punctual");
    let made = target().join("results").join(kind.name());
    let mut reproduce = Command::new(program);
    reproduce.current_dir(root()).arg("reproduce").args(&options.names).args(kind.flags());
    run(reproduce.arg("--out").arg(&made))?;

    let own = root().join("experiments/results");
    let (lines, manifest) = (
        own.join(kind.name()).with_extension("jsonl"),
        own.join(kind.name()).with_extension("json"),
    );
    fs::write(&lines, merged_lines(&read(&lines)?, &read(&made.join("claims.jsonl"))?)?)?;
    let merged = merged_manifest(&read(&manifest)?, &read(&made.join("reproduced.json"))?)?;
    fs::write(&manifest, merged)?;
    if kind != Kind::Testbed {
        let times = root().join("experiments/times.json");
        let new = read(&made.join("times.json"))?;
        fs::write(&times, merged_times(&read(&times)?, &new, kind.name())?)?;
    }
    let is_whole = options.names.is_empty() || options.names.iter().any(|name| name == "matrix");
    if kind == Kind::Full && is_whole {
        fs::copy(made.join("matrix.svg"), root().join(PICTURE))?;
        println!("{PICTURE} is written");
    }
    println!("experiments/results/{} is written; now: cargo xtask figures catalogue", kind.name());
    Ok(Outcome::Passed)
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The lines of all experiments; those of `new` replace the ones before.
fn merged_lines(old: &str, new: &str) -> anyhow::Result<String> {
    let mut order: Vec<String> = Vec::new();
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for text in [old, new] {
        let mut own: BTreeSet<String> = BTreeSet::new();
        for line in text.lines() {
            let value: Value = serde_json::from_str(line).context("a line of results")?;
            let id = value["experiment"].as_str().context("a line without experiment")?.to_owned();
            if !order.contains(&id) {
                order.push(id.clone());
            }
            let group = groups.entry(id.clone()).or_default();
            if own.insert(id) {
                group.clear();
            }
            group.push(line);
        }
    }
    let lines = order.iter().flat_map(|id| &groups[id]);
    Ok(lines.map(|line| format!("{line}\n")).collect())
}

/// What made each experiment; that of `new` replaces the ones before.
fn merged_manifest(old: &str, new: &str) -> anyhow::Result<String> {
    let [old, mut new]: [Value; 2] =
        [serde_json::from_str(old).context("a manifest")?, serde_json::from_str(new)?];
    let entries = |manifest: &Value| -> anyhow::Result<Map<String, Value>> {
        Ok(manifest["experiments"].as_object().context("a manifest without experiments")?.clone())
    };
    let mut all = entries(&old)?;
    all.extend(entries(&new)?);
    new["experiments"] = json!(all);
    Ok(format!("{new:#}\n"))
}

/// The costs of experiments with those of `new`, a JSON object by experiment, as those of `kind`.
fn merged_times(old: &str, new: &str, kind: &str) -> anyhow::Result<String> {
    let mut times: BTreeMap<String, Map<String, Value>> =
        serde_json::from_str(old).context("the times")?;
    let new: Map<String, Value> = serde_json::from_str(new).context("the new times")?;
    for (id, cost) in new {
        times.entry(id).or_default().insert(kind.to_owned(), cost);
    }
    // One line per experiment.
    let line = |(id, costs)| format!("{}: {}", json!(id), json!(costs));
    let lines: Vec<String> = times.into_iter().map(line).collect();
    Ok(format!("{{\n{}\n}}\n", lines.join(",\n")))
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn parse__kinds_and_names() {
        let quick = Options::parse(&["quick", "ndp/fig22"]).unwrap();
        assert_eq!((quick.kind, &quick.names[..]), (Kind::Quick, &["ndp/fig22".to_owned()][..]));
        assert_eq!(Options::parse(&["full"]).unwrap().names, Vec::<String>::new());
        assert!(Options::parse(&[]).unwrap_err().contains("give full"));
        assert!(Options::parse(&["fast"]).unwrap_err().contains("`fast` is not"));
        assert!(Options::parse(&["full", "--fresh"]).unwrap_err().contains("`--fresh`"));
    }

    #[test]
    fn merged_lines__whole_experiments() {
        let line = |id: &str, claim: &str| format!(r#"{{"experiment":"{id}","claim":"{claim}"}}"#);
        let join = |lines: &[String]| lines.iter().map(|l| format!("{l}\n")).collect::<String>();
        let old = join(&[line("a/1", "x"), line("a/1", "y"), line("a/2", "z")]);
        let new = join(&[line("a/1", "new"), line("b/1", "w")]);
        let merged = merged_lines(&old, &new).unwrap();
        assert_eq!(merged, join(&[line("a/1", "new"), line("a/2", "z"), line("b/1", "w")]));
        assert!(merged_lines("{", "").is_err());
    }

    #[test]
    fn merged_manifest__by_experiment() {
        let old = r#"{"experiments":{"a/1":{"commit":"1"},"a/2":{"commit":"1"}}}"#;
        let new = r#"{"quick":false,"experiments":{"a/2":{"commit":"2"}}}"#;
        let merged: Value = serde_json::from_str(&merged_manifest(old, new).unwrap()).unwrap();
        assert_eq!(merged["experiments"], json!({"a/1":{"commit":"1"},"a/2":{"commit":"2"}}));
        assert!(merged_manifest(r#"{"experiments":[]}"#, new).is_err());
    }

    #[test]
    fn merged_times__other_kind_stays() {
        let old = r#"{"a/1":{"quick":{"cpu":1.0,"wall":0.5},"full":{"cpu":3.0,"wall":2.0}}}"#;
        let new = r#"{"a/1":{"cpu":2.0,"wall":1.0},"a/3":{"cpu":1.0,"wall":1.0}}"#;
        let merged = merged_times(old, new, "quick").unwrap();
        let expected = "{\n\"a/1\": {\"full\":{\"cpu\":3.0,\"wall\":2.0},\
                        \"quick\":{\"cpu\":2.0,\"wall\":1.0}},\n\
                        \"a/3\": {\"quick\":{\"cpu\":1.0,\"wall\":1.0}}\n}\n";
        assert_eq!(merged, expected);
        assert!(merged_times("[]", new, "quick").is_err());
    }
}
