//! Tests of D2TCP in this machine's kernel. They need root, network namespaces and control groups;
//! where something is missing, they print SKIPPED and why, and fail if PUNCTUAL_NO_SKIPS is set.
//!
//! Everything lives in namespaces that have no name, on file systems mounted in a private mount
//! namespace, and in a control group that a watching process removes: nothing is left behind, not
//! even by `kill -9`. The names of congestion controls contain the process id.
#![allow(non_snake_case, reason = "function__case")]

mod command;
mod experiments;
mod law;
mod life;
mod options;
mod support;
mod switched;
mod unit;
mod window;

use libtest_mimic::{Arguments, Conclusion, Failed, Trial};
use support::Sandbox;

type Test = (&'static str, fn(&Sandbox) -> Result<(), Failed>);

fn main() -> std::process::ExitCode {
    if let Ok(arguments) = std::env::var(life::LOADER) {
        return life::loader(&arguments);
    }
    let mut args = Arguments::from_args();
    // The tests share the processors and measure time.
    args.test_threads = Some(1);
    let tests: Vec<Test> = [
        law::TESTS,
        options::TESTS,
        experiments::TESTS,
        window::TESTS,
        switched::TESTS,
        life::TESTS,
        command::TESTS,
        unit::TESTS,
    ]
    .concat();
    let conclusion =
        if args.list { skip(&args, &tests, "only listed") } else { run(&args, &tests) };
    conclusion.exit_code()
}

fn run(args: &Arguments, tests: &[Test]) -> Conclusion {
    match Sandbox::new() {
        Ok(sandbox) => {
            // libtest-mimic wants tests that live for ever; the sandbox ends below all the same.
            let sandbox = std::sync::Arc::new(sandbox);
            let trials = tests.iter().map(|&(name, test)| {
                let sandbox = sandbox.clone();
                Trial::test(name, move || test(&sandbox))
            });
            libtest_mimic::run(args, trials.collect())
        }
        Err(support::Obstacle::Missing(why)) => {
            println!("SKIPPED: {why}");
            if support::skips_are_failures() {
                let why = format!("skipped, which PUNCTUAL_NO_SKIPS forbids: {why}");
                return fail(args, why);
            }
            skip(args, tests, &why)
        }
        Err(support::Obstacle::Failed(why)) => fail(args, why),
    }
}

/// Reports one failure, whatever tests were asked for.
fn fail(args: &Arguments, why: String) -> Conclusion {
    let args = Arguments { filter: None, skip: Vec::new(), ..args.clone() };
    libtest_mimic::run(&args, vec![Trial::test("sandbox", move || Err(why.into()))])
}

/// Reports every test as ignored.
fn skip(args: &Arguments, tests: &[Test], why: &str) -> Conclusion {
    let trial = |&(name, _): &Test| {
        Trial::test(name, || Ok(())).with_kind(why.to_owned()).with_ignored_flag(true)
    };
    libtest_mimic::run(args, tests.iter().map(trial).collect())
}
