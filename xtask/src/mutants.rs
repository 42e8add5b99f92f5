//! Mutation testing: changes the code in small ways and checks that a test fails.
//!
//! cargo-mutants lists the changes. To build a crate for each of them would take hours, so that all
//! are built at once ([`schema`]), and the tests run once for each.

mod build;
mod copy;
mod judged;
mod list;
mod schema;
mod trial;

use crate::setup::has_subcommand;
use crate::steps::Outcome;
use crate::tools::{cargo, root, run};
use anyhow::{Context as _, bail};
use build::{Build, build};
use judged::Judged;
use list::Mutant;
use schema::{Schema, root_source};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trial::{Trial, Verdict};

/// The least time for the tests of a mutant. A mutant that takes longer, and ten times as long as
/// the original, is taken to loop forever.
const TIMEOUT_MIN: Duration = Duration::from_secs(10);

/// Code whose errors would give wrong results silently, and the tests that cover it.
struct Group {
    name: &'static str,
    package: &'static str,
    files: &'static [&'static str],
    /// Parts of the names of unit tests; empty selects all of the package.
    tests: &'static [&'static str],
}

impl Group {
    /// The directory of the package, from the root of the workspace.
    fn dir(&self) -> String {
        format!("crates/{}", self.package.trim_start_matches("punctual-"))
    }
}

const GROUPS: &[Group] = &[
    Group {
        name: "queues",
        package: "punctual-net",
        files: &["crates/net/src/queue.rs", "crates/net/src/queue/*.rs"],
        tests: &[],
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
        tests: &[],
    },
    Group {
        name: "checks",
        package: "punctual-sim",
        files: &["crates/sim/src/checks.rs", "crates/sim/src/checks/*.rs"],
        tests: &["checks"],
    },
    Group {
        name: "d3",
        package: "punctual-transports",
        files: &["crates/transports/src/d3/capacity.rs"],
        tests: &["d3"],
    },
    Group {
        name: "pdq",
        package: "punctual-transports",
        files: &["crates/transports/src/pdq/port.rs", "crates/transports/src/pdq/port/*.rs"],
        tests: &["pdq"],
    },
    Group {
        name: "tcp",
        package: "punctual-transports",
        files: &["crates/transports/src/tcp/congestion.rs", "crates/transports/src/tcp/penalty.rs"],
        tests: &["tcp"],
    },
    Group {
        name: "ndp",
        package: "punctual-transports",
        files: &["crates/transports/src/ndp/pulls.rs", "crates/transports/src/ndp/scoreboard.rs"],
        tests: &["ndp"],
    },
];

/// Which mutants to test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Only every Nth mutant, from the Kth on: (K, N).
    shard: Option<(u32, u32)>,
    /// Only the mutants that the last run missed.
    missed: bool,
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
                    let numbers = value.split_once('/');
                    let numbers = numbers.and_then(|(k, n)| k.parse().ok().zip(n.parse().ok()));
                    options.shard = numbers.filter(|(k, n)| k < n);
                    if options.shard.is_none() {
                        return Err(format!("--shard {value}"));
                    }
                }
                "--missed" => options.missed = true,
                name if GROUPS.iter().any(|group| group.name == name) => {
                    options.names.push(name.into());
                }
                other => return Err(other.into()),
            }
        }
        Ok(options)
    }

    /// Whether to test the mutant with this number.
    fn selects(&self, number: u32) -> bool {
        self.shard.is_none_or(|(k, n)| number % n == k)
    }
}

/// What became of the mutants of a group.
#[derive(Debug, Default)]
struct Tally {
    caught: Vec<(Mutant, String)>,
    missed: Vec<Mutant>,
    /// Missed, and listed as equivalent.
    equivalent: Vec<Mutant>,
    /// Mutants that do not compile.
    unviable: Vec<Mutant>,
    timeout: Vec<Mutant>,
}

impl Tally {
    fn add(&mut self, mutant: &Mutant, verdict: Verdict, judged: &[Judged]) {
        let mutant = mutant.clone();
        match verdict {
            Verdict::Caught(test) => self.caught.push((mutant, test)),
            Verdict::TimedOut => self.timeout.push(mutant),
            Verdict::Missed if judged.iter().any(|entry| entry.is(&mutant)) => {
                self.equivalent.push(mutant);
            }
            Verdict::Missed => {
                println!("missed: {}\n        {}", mutant.name, mutant.line);
                self.missed.push(mutant);
            }
        }
    }

    fn line(&self) -> String {
        format!(
            "{} caught, {} timed out, {} missed, {} equivalent, {} unviable",
            self.caught.len(),
            self.timeout.len(),
            self.missed.len(),
            self.equivalent.len(),
            self.unviable.len()
        )
    }

    /// All mutants, each with what became of it, after the lines of an earlier report that stay.
    fn report(&self, earlier: &str) -> String {
        let mut text = earlier.to_owned();
        for (mutant, test) in &self.caught {
            text += &format!("caught: {} by {test}\n", mutant.name);
        }
        for (what, mutants) in [
            ("timed out", &self.timeout),
            ("missed", &self.missed),
            ("equivalent", &self.equivalent),
            ("unviable", &self.unviable),
        ] {
            mutants.iter().for_each(|mutant| text += &format!("{what}: {}\n", mutant.name));
        }
        text
    }
}

/// Tests the mutants of each group and lists those that no test caught.
pub(crate) fn mutants(options: &Options) -> anyhow::Result<Outcome> {
    if !has_subcommand("mutants") {
        run(cargo().args(["install", "cargo-mutants", "--locked"]))?;
    }
    let judged = judged::read()?;
    let mut lines = Vec::new();
    let mut missed = 0;
    for group in GROUPS {
        if options.names.is_empty() || options.names.iter().any(|name| name == group.name) {
            let tally = try_group(group, options, &judged)?;
            lines.push(format!("{}: {}", group.name, tally.line()));
            println!("{}", lines[lines.len() - 1]);
            missed += tally.missed.len();
        }
    }
    lines.iter().for_each(|line| println!("{line}"));
    Ok(match missed {
        0 => Outcome::Passed,
        count => Outcome::Failed(format!("no test caught {count} mutants")),
    })
}

/// Tests the mutants of one group and writes what became of each to `target/mutants/GROUP.txt`.
fn try_group(group: &Group, options: &Options, judged: &[Judged]) -> anyhow::Result<Tally> {
    let tree = copy::update()?;
    let all = list::list(&tree, group.package, group.files)?;
    check_judged(group, judged, &all)?;
    let report = root().join("target/mutants").join(format!("{}.txt", group.name));
    // With `--missed`, the rest of the last report stays as it is.
    let (earlier, wanted) = if options.missed {
        let (missed, others) = split_missed(&read(&report)?);
        (others, Some(missed))
    } else {
        (String::new(), None)
    };
    let mutants: Vec<(u32, Mutant)> = (1..)
        .zip(all.iter().cloned())
        .filter(|(number, _)| options.selects(*number))
        .filter(|(_, mutant)| wanted.as_ref().is_none_or(|names| names.contains(&mutant.key())))
        .collect();
    if mutants.is_empty() && options.missed {
        return Ok(Tally::default());
    }
    if mutants.is_empty() {
        bail!("group {}: no mutant is selected", group.name);
    }
    println!("{}: {} of {} mutants", group.name, mutants.len(), all.len());
    let work = Work::new(tree, group, &mutants)?;
    let started = Instant::now();
    let (binary, left_out) = work.build_schemata(&mutants)?;
    println!(
        "{}: built {} of them at once in {:.0} s",
        group.name,
        mutants.len() - left_out.len(),
        started.elapsed().as_secs_f64()
    );
    let mut trial = work.trial(binary);
    let started = Instant::now();
    if trial.run(None)? != Verdict::Missed {
        bail!("group {}: the tests fail without any mutant", group.name);
    }
    println!("{}: the tests take {:.1} s", group.name, started.elapsed().as_secs_f64());
    trial.timeout = TIMEOUT_MIN.max(started.elapsed() * 10);

    let mut tally = Tally::default();
    let started = Instant::now();
    for (number, mutant) in mutants.iter().filter(|(number, _)| !left_out.contains(number)) {
        tally.add(mutant, trial.run(Some(*number))?, judged);
    }
    println!("{}: tried them in {:.0} s", group.name, started.elapsed().as_secs_f64());
    let started = Instant::now();
    for (_, mutant) in mutants.iter().filter(|(number, _)| left_out.contains(number)) {
        match work.build_alone(mutant)? {
            Some(binary) => {
                let trial = Trial { binary, ..trial.clone() };
                tally.add(mutant, trial.run(None)?, judged);
            }
            None => tally.unviable.push(mutant.clone()),
        }
    }
    println!(
        "{}: {} mutants that need a build of their own took {:.0} s",
        group.name,
        left_out.len(),
        started.elapsed().as_secs_f64()
    );
    write(&report, &tally.report(&earlier))?;
    Ok(tally)
}

/// Splits a report into the mutants that were missed, without line and column, and its other lines.
fn split_missed(report: &str) -> (BTreeSet<String>, String) {
    let (mut missed, mut others) = (BTreeSet::new(), String::new());
    for line in report.lines() {
        match line.strip_prefix("missed: ") {
            Some(name) => _ = missed.insert(list::key(name)),
            None => others += &format!("{line}\n"),
        }
    }
    (missed, others)
}

/// Checks that each mutant listed as equivalent exists.
fn check_judged(group: &Group, judged: &[Judged], mutants: &[Mutant]) -> anyhow::Result<()> {
    let files: BTreeSet<&str> = mutants.iter().map(|mutant| &*mutant.file).collect();
    for entry in judged.iter().filter(|entry| files.contains(&*entry.file)) {
        if !mutants.iter().any(|mutant| entry.is(mutant)) {
            bail!(
                "{}: group {} has no mutant `{}: {}` in a line `{}`: remove the entry",
                judged::PATH,
                group.name,
                entry.file,
                entry.change,
                entry.line
            );
        }
    }
    Ok(())
}

/// The copy of the tree, for the mutants of a group.
struct Work<'a> {
    tree: PathBuf,
    group: &'a Group,
    /// The files that mutants change, as they are without: paths from the root of the tree.
    originals: BTreeMap<String, String>,
    /// The root of the crate.
    library: String,
}

impl<'a> Work<'a> {
    fn new(tree: PathBuf, group: &'a Group, mutants: &[(u32, Mutant)]) -> anyhow::Result<Self> {
        let library = format!("{}/src/lib.rs", group.dir());
        let files: BTreeSet<&String> =
            mutants.iter().map(|(_, mutant)| &mutant.file).chain([&library]).collect();
        let originals = files
            .into_iter()
            .map(|file| Ok((file.clone(), read(&tree.join(file))?)))
            .collect::<anyhow::Result<_>>()?;
        Ok(Work { tree, group, originals, library })
    }

    /// Builds all mutants into one test binary. Returns it, and the mutants that it cannot contain.
    fn build_schemata(
        &self,
        mutants: &[(u32, Mutant)],
    ) -> anyhow::Result<(PathBuf, BTreeSet<u32>)> {
        let mut left_out = BTreeSet::new();
        loop {
            let mut schemata = BTreeMap::new();
            for (file, original) in &self.originals {
                let wanted: Vec<(u32, &Mutant)> = mutants
                    .iter()
                    .filter(|(number, mutant)| mutant.file == *file && !left_out.contains(number))
                    .map(|(number, mutant)| (*number, mutant))
                    .collect();
                let mut schema = Schema::new(original, &wanted)
                    .with_context(|| format!("cannot parse {file}"))?;
                if *file == self.library {
                    schema.source = root_source(&schema.source);
                }
                left_out.extend(&schema.left_out);
                write(&self.tree.join(file), &schema.source)?;
                schemata.insert(&**file, schema);
            }
            let places = match build(&self.tree, self.group.package)? {
                Build::Done(binary) => return Ok((binary, left_out)),
                Build::Failed(places) => places,
            };
            // What does not compile among the others may do so alone.
            let before = left_out.len();
            for (file, line) in &places {
                let schema = schemata.get(&**file);
                left_out.extend(schema.and_then(|schema| schema.mutant_at(*line)));
            }
            if left_out.len() == before {
                bail!("group {}: the build fails at {places:?}", self.group.name);
            }
        }
    }

    /// Builds one mutant alone. The result is `None` if it does not compile.
    fn build_alone(&self, mutant: &Mutant) -> anyhow::Result<Option<PathBuf>> {
        for (file, original) in &self.originals {
            let path = self.tree.join(file);
            let text = if mutant.file == *file { mutant.apply(original) } else { original.clone() };
            // An equal file would be built again only because it is newer.
            if read(&path)? != text {
                write(&path, &text)?;
            }
        }
        Ok(match build(&self.tree, self.group.package)? {
            Build::Done(binary) => Some(binary),
            Build::Failed(_) => None,
        })
    }

    fn trial(&self, binary: PathBuf) -> Trial {
        Trial {
            binary,
            filters: self.group.tests.iter().map(|part| (*part).into()).collect(),
            dir: self.tree.join(self.group.dir()),
            timeout: Duration::from_secs(600),
        }
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn options__groups_and_shards() {
        let options = Options::parse(&["--shard", "2/10", "tcp"]).expect("options");
        let wanted = Options { shard: Some((2, 10)), missed: false, names: vec!["tcp".into()] };
        assert_eq!(options, wanted);
        assert!(Options::parse(&["--missed"]).expect("options").missed);
        let selected: Vec<u32> = (1..=30).filter(|number| options.selects(*number)).collect();
        assert_eq!(selected, [2, 12, 22]);
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

    fn mutant(line: &str) -> Mutant {
        Mutant {
            file: "a.rs".into(),
            name: "a.rs:1:2: replace < with <= in f".into(),
            genre: "BinaryOperator".into(),
            range: 0..1,
            replacement: "<=".into(),
            line: line.into(),
        }
    }

    #[test]
    fn tally__only_survivors_that_are_not_listed_are_missed() {
        let entry = Judged {
            file: "a.rs".into(),
            change: "replace < with <= in f".into(),
            line: "a < b".into(),
        };
        let judged = [entry];
        let mut tally = Tally::default();
        tally.add(&mutant("a < b"), Verdict::Missed, &judged);
        tally.add(&mutant("c < d"), Verdict::Missed, &judged);
        tally.add(&mutant("a < b"), Verdict::Caught("t".into()), &judged);
        tally.add(&mutant("a < b"), Verdict::TimedOut, &judged);
        assert_eq!(tally.line(), "1 caught, 1 timed out, 1 missed, 1 equivalent, 0 unviable");
        let report = tally.report("caught: b.rs:3:4: replace f with () by u\n");
        assert!(report.contains("caught: a.rs:1:2: replace < with <= in f by t\n"));

        // A later run with `--missed` tries the one that was missed.
        let (missed, others) = split_missed(&report);
        assert_eq!(missed.into_iter().collect::<Vec<_>>(), [mutant("").key()]);
        assert_eq!(others.lines().count(), 4, "{others}");

        let group = &GROUPS[0];
        assert!(check_judged(group, &judged, &[mutant("a < b")]).is_ok());
        assert!(check_judged(group, &judged, &[mutant("c < d")]).is_err(), "a stale entry");
    }
}
