//! Runs the fuzz targets: tests with `fuzz` in their names that call `bolero::check!`, in
//! `punctual-wire`, `punctual-host` and `punctual-switch`.

use crate::steps::Outcome;
use crate::tools::{cargo, run};

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

/// Test binaries with targets.
const BINARIES: [&[&str]; 3] = [
    &["--package", "punctual-wire", "--test", "integration"],
    &["--package", "punctual-host", "--lib"],
    &["--package", "punctual-switch", "--lib"],
];

/// Runs all targets, as many at a time as this machine has processors. A failure prints the input.
pub(crate) fn fuzz(options: &Options) -> anyhow::Result<Outcome> {
    for binary in BINARIES {
        let mut command = cargo();
        // With no coverage, time is all that random inputs need.
        command.env("BOLERO_RANDOM_TEST_TIME_MS", format!("{:.0}", options.seconds * 1000.0));
        command.arg("test").args(binary).arg("--");
        match &options.names[..] {
            [] => command.arg("fuzz"),
            names => command.args(names),
        };
        run(&mut command)?;
    }
    Ok(Outcome::Passed)
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
}
