//! Runs property tests with fresh seeds for a given time.

mod run;

use crate::build::{test_binaries, tests_in};
use crate::sources::{find, target_of};
use crate::steps::Outcome;
use crate::tools::root;
use anyhow::Context as _;
use run::{Round, run_round};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time weight of tests of whole networks, which find the most bugs. Other tests have weight 1.
const WEIGHT_OF_SIM: u32 = 4;
/// Cases of a test's first round. Later rounds run as many as fit.
const FIRST_CASES: u32 = 16;

/// How long to run, and which tests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) minutes: f64,
    /// Parts of `path/of/file.rs::test`; empty selects all property tests.
    pub(crate) names: Vec<String>,
}

impl Options {
    /// Parses the command line. The error is the unknown option, or the option with its bad value.
    pub(crate) fn parse(args: &[&str]) -> Result<Options, String> {
        let mut options = Options { minutes: 10.0, names: Vec::new() };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                "--minutes" => {
                    let value = args.next().copied().unwrap_or_default();
                    options.minutes = value
                        .parse()
                        .ok()
                        .filter(|minutes: &f64| minutes.is_finite() && *minutes > 0.0)
                        .ok_or_else(|| format!("--minutes {value}"))?;
                }
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

/// A property test in a built test binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Property {
    /// Its full name in the binary.
    name: String,
    binary: PathBuf,
    package: String,
    /// Cargo's arguments that select the binary.
    target: Vec<String>,
}

impl Property {
    /// The command that repeats a round.
    fn replay(&self, round: &Round) -> String {
        format!(
            "PROPTEST_RNG_SEED={} PROPTEST_CASES={} cargo test -p {} {} -- --exact {}",
            round.seed,
            round.cases,
            self.package,
            self.target.join(" "),
            self.name
        )
    }

    fn weight(&self) -> u32 {
        if self.package == "punctual-sim" { WEIGHT_OF_SIM } else { 1 }
    }

    fn directory(&self) -> PathBuf {
        root().join("crates").join(self.package.trim_start_matches("punctual-"))
    }
}

/// The result of one property test.
#[derive(Clone, Debug, Default)]
struct PropertyResult {
    name: String,
    cases: u64,
    rounds: u32,
    /// The failure, with the command that repeats it.
    failure: Option<String>,
}

/// Runs every property test for its share of the time.
pub(crate) fn swarm(options: &Options) -> anyhow::Result<Outcome> {
    let properties = built(options)?;
    if properties.is_empty() {
        return Ok(Outcome::Failed("no property test matches".into()));
    }
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let seconds = options.minutes * 60.0 * workers as f64;
    let weights: u32 = properties.iter().map(Property::weight).sum();
    println!("{} property tests, {} min on {workers} cores", properties.len(), options.minutes);
    let (next, tried) = (Mutex::new(properties.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some(property) = next.lock().expect("no panic").next() else { return };
                    let share = seconds * f64::from(property.weight()) / f64::from(weights);
                    let outcome = try_property(property, Duration::from_secs_f64(share));
                    println!("{}", line(&outcome));
                    tried.lock().expect("no panic").push(outcome);
                }
            });
        }
    });
    let tried = tried.into_inner().expect("no panic");
    let cases: u64 = tried.iter().map(|t| t.cases).sum();
    println!("{cases} cases of {} property tests", tried.len());
    let failures: Vec<&str> = tried.iter().filter_map(|t| t.failure.as_deref()).collect();
    for failure in &failures {
        println!("\n{failure}");
    }
    Ok(match failures.len() {
        0 => Outcome::Passed,
        count => Outcome::Failed(format!("{count} property tests failed; see above")),
    })
}

/// Runs rounds of one property, each with a fresh seed and as many cases as fit.
fn try_property(property: &Property, share: Duration) -> PropertyResult {
    let started = Instant::now();
    let mut tried = PropertyResult { name: property.name.clone(), ..PropertyResult::default() };
    let mut cases = FIRST_CASES;
    loop {
        let round = Round { cases, seed: fresh_seed() };
        let before = Instant::now();
        if let Err(what) = run_round(property, &round, share) {
            let replay = property.replay(&round);
            tried.failure = Some(format!("{}: {what}\nto repeat it: {replay}", property.name));
            return tried;
        }
        tried.cases += u64::from(cases);
        tried.rounds += 1;
        match next_cases(cases, before.elapsed(), share.saturating_sub(started.elapsed())) {
            Some(next) => cases = next,
            None => return tried,
        }
    }
}

/// Cases that fit into 80 % of the time left; `None` if fewer than [`FIRST_CASES`] fit.
fn next_cases(cases: u32, took: Duration, left: Duration) -> Option<u32> {
    let fit = 0.8 * f64::from(cases) * left.as_secs_f64() / took.as_secs_f64().max(1e-6);
    // A short round is mostly process start-up, so it is a poor estimate for a long one.
    let next = fit.min(16.0 * f64::from(cases)) as u32;
    (next >= FIRST_CASES).then_some(next)
}

/// A random seed.
fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(std::process::id())
}

fn line(tried: &PropertyResult) -> String {
    let verdict = if tried.failure.is_some() { "FAILED" } else { "held" };
    format!("{verdict:<6} {:>9} cases in {} rounds  {}", tried.cases, tried.rounds, tried.name)
}

/// Builds the test binaries and finds the selected property tests in them.
fn built(options: &Options) -> anyhow::Result<Vec<Property>> {
    let mut files = Vec::new();
    find(&root(), Path::new("crates"), "rs", &mut files)?;
    let mut names: BTreeSet<(Vec<String>, String)> = BTreeSet::new();
    let mut targets: BTreeSet<Vec<String>> = BTreeSet::new();
    for path in files {
        let text = std::fs::read_to_string(root().join(&path))?;
        let is_wanted = |name: &String| options.selects(&format!("{}::{name}", path.display()));
        for name in properties_in(&text).into_iter().filter(is_wanted) {
            let target = target_of(&root(), &path)?;
            let krate = path.iter().nth(1).map(|c| c.to_string_lossy().into_owned());
            let place = [vec![krate.unwrap_or_default()], target.clone()].concat();
            names.insert((place, name));
            targets.insert(target);
        }
    }
    if targets.is_empty() {
        return Ok(Vec::new());
    }
    let binaries = test_binaries(targets.iter().flatten().map(String::as_str))?;
    let mut properties = Vec::new();
    for binary in binaries {
        let source = binary.source.strip_prefix(root()).unwrap_or(&binary.source);
        // The main file of a test is at `tests/NAME.rs` or `tests/NAME/main.rs`.
        let Ok(target) = target_of(&root(), source) else { continue };
        let krate = source.iter().nth(1).map(|c| c.to_string_lossy().into_owned());
        let krate = krate.context("the source path has no crate name")?;
        let place = [vec![krate.clone()], target.clone()].concat();
        let is_here = |name: &str| {
            let last = name.rsplit("::").next().unwrap_or(name);
            names.contains(&(place.clone(), last.to_owned()))
        };
        for name in tests_in(&binary)? {
            if is_here(&name) {
                let (binary, target) = (binary.program.clone(), target.clone());
                let package = format!("punctual-{krate}");
                properties.push(Property { name, binary, package, target });
            }
        }
    }
    Ok(properties)
}

/// The names of the tests inside `proptest!` in a source file.
fn properties_in(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut end: Option<String> = None;
    for line in text.lines() {
        if end.as_deref() == Some(line) {
            end = None;
        } else if let (Some((indent, "")), None) = (line.split_once("proptest! {"), &end) {
            end = Some(format!("{indent}}}"));
        } else if let (Some(rest), Some(_)) = (line.trim().strip_prefix("fn "), &end) {
            names.extend(rest.split('(').next().map(str::to_owned));
        }
    }
    names
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn options__minutes_and_names() {
        let options = Options::parse(&["--minutes", "0.5", "d3"]).expect("options");
        assert_eq!(options, Options { minutes: 0.5, names: vec!["d3".into()] });
        assert!(options.selects("d3::tests::x") && !options.selects("pdq"));
        for wrong in [&["--minutes", "-1"][..], &["--minutes"], &["--minutes", "inf"], &["--hours"]]
        {
            assert!(Options::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn properties_in__inside_the_macro_only() {
        let text = "\
#[test]
fn ordinary() {}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Doc.
    #[test]
    fn first(x in 0..3u8) {
        assert!(x < 3);
    }

    #[test]
    fn second((a, b) in pair()) {}
}

fn helper() {}
mod tests {
    proptest! {
        #[test]
        fn third(x in 0..3u8) {}
    }
    #[test]
    fn other() {}
}
";
        assert_eq!(properties_in(text), ["first", "second", "third"]);
    }

    #[test]
    fn next_cases__what_fits() {
        let ms = Duration::from_millis;
        assert_eq!(next_cases(100, ms(100), ms(200)), Some(160));
        assert_eq!(next_cases(100, ms(1), ms(60_000)), Some(1600), "no more than 16 times");
        assert_eq!(next_cases(100, ms(1000), ms(100)), None, "less than a first round");
    }

    #[test]
    fn replay__the_whole_command() {
        let property = Property {
            name: "tests::holds".into(),
            binary: "x".into(),
            package: "punctual-sim".into(),
            target: vec!["--test".into(), "integration".into()],
        };
        let replay = property.replay(&Round { cases: 400, seed: 7 });
        assert_eq!(
            replay,
            "PROPTEST_RNG_SEED=7 PROPTEST_CASES=400 cargo test -p punctual-sim --test integration \
             -- --exact tests::holds"
        );
    }
}
