//! Development tasks of the workspace. `cargo xtask help` lists them.

mod book;
mod build;
mod callgrind;
mod dist;
mod figures;
mod fuzz;
mod instructions;
mod mutants;
mod picture;
mod python;
mod results;
mod setup;
mod soak;
mod sources;
mod steps;
mod suite;
mod swarm;
mod tools;

#[cfg(test)]
mod tests;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  setup                 install the tools that the tests need and this machine lacks
  test [STEP…]          run all steps, or only the named ones:
                        setup fmt clippy test figures book python swarm browser tshark fuzz
                        testbed kernel doc instructions dist example smoke
  bench-instructions [--update] [NAME…]
                        count instructions per operation under callgrind and compare them with
                        benches/instructions.toml; fail if a count is more than 2 % higher. NAME
                        selects benchmarks by a part of their name; --update saves the new counts
  figures [--quick] [--check] [--dev] [NAME…]
                        run the studies and write the tables that the docs show between
                        `<!-- figure: NAME -->` and `<!-- /figure -->`. NAME selects figures by a
                        part of their name; --quick omits long studies; --check writes nothing
                        and fails if a page differs; --dev uses the test profile instead of a
                        release build
  picture [--dev]       run the README's comparison and take the picture of its report that the
                        README shows, with Chromium; --dev as for figures
  results KIND [NAME…]  run the papers' experiments and put their results, the manifest and the times
                        into experiments/. KIND is full, quick or testbed; NAME is an experiment or
                        a paper, whose results replace those before; without, all
  book [--write]        check the links of all pages, check that their commands parse, run the
                        marked commands and compare their output, and build the book with mdBook;
                        --write updates the output on the pages
  swarm [--minutes N] [NAME…]
                        run the property tests with fresh seeds for N minutes (default 10), and
                        print the command that repeats a failure. NAME selects tests by a part of
                        their name or file
  fuzz [--seconds N] [NAME…]
                        run the fuzz targets for N seconds each (default 30), as many at a time as
                        there are processors. NAME selects targets by a part of their name
  mutants [--shard K/N] [--missed] [GROUP…]
                        mutation testing: list the small changes of the code that no test notices,
                        except those in xtask/equivalent-mutants.txt. Groups: queues, results,
                        checks, d3, pdq, tcp, ndp; --shard tries part K of N, counted from 0;
                        --missed tries those that the last run missed
  soak [NAME…]          run the soaks of the host stack in full: 10,000 messages between two
                        processes through a network that loses, repeats, delays, corrupts and trims
                        packets, with and without kill -9. NAME is ndp, d3 or pdq
  wheel                 build the package for Python into target/wheels, and install and use it
                        in a root directory without Rust
  dist [--profile P]    build what users download into target/dist: a static binary, a Debian
                        package, the wheel, a container file, checksums and a list of components;
                        install each in a root directory without Rust and use it there. CI does
                        so with the profile `smoke`, which compiles fast, in target/dist-smoke
  help                  print this

A step that cannot run on this machine is SKIPPED; with PUNCTUAL_NO_SKIPS=1 it fails instead.
Exit codes: 0 success, 1 a step failed, 2 usage error.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let has_failed = match args.split_first() {
        Some((&"setup", [])) => suite::run(&["setup"]),
        Some((&"test", steps)) => match suite::unknown_step(steps) {
            Some(step) => return usage(&format!("unknown step `{step}`")),
            None => suite::run(steps),
        },
        Some((&"bench-instructions", rest)) => match instructions::Options::parse(rest) {
            Ok(options) => suite::run_step("instructions", || instructions::gate(&options)),
            Err(option) => return usage(&format!("invalid argument `{option}`")),
        },
        Some((&"figures", rest)) => match figures::Options::parse(rest) {
            Ok(options) => suite::run_step("figures", || figures::figures(&options)),
            Err(option) => return usage(&format!("invalid argument `{option}`")),
        },
        Some((&"picture", rest @ ([] | ["--dev"]))) => {
            suite::run_step("picture", || picture::picture(!rest.is_empty()))
        }
        Some((&"results", rest)) => match results::Options::parse(rest) {
            Ok(options) => suite::run_step("results", || results::results(&options)),
            Err(what) => return usage(&what),
        },
        Some((&"book", rest)) => match book::Options::parse(rest) {
            Ok(options) => suite::run_step("book", || book::book(options)),
            Err(option) => return usage(&format!("invalid argument `{option}`")),
        },
        Some((&"book-links", rest)) => {
            let result = book::preprocess(rest);
            result.as_ref().inspect_err(|error| eprintln!("xtask: {error:#}")).is_err()
        }
        Some((&"swarm", rest)) => match swarm::Options::parse(rest) {
            Ok(options) => suite::run_step("swarm", || swarm::swarm(&options)),
            Err(option) => return usage(&format!("invalid argument `{option}`")),
        },
        Some((&"fuzz", rest)) => match fuzz::Options::parse(rest) {
            Ok(options) => suite::run_step("fuzz", || fuzz::fuzz(&options)),
            Err(option) => return usage(&format!("invalid argument `{option}`")),
        },
        Some((&"mutants", rest)) => match mutants::Options::parse(rest) {
            Ok(options) => suite::run_step("mutants", || mutants::mutants(&options)),
            Err(option) => return usage(&format!("invalid argument `{option}`")),
        },
        Some((&"soak", names)) => match soak::unknown(names) {
            Some(name) => return usage(&format!("no soak of `{name}`")),
            None => suite::run_step("soak", || soak::soak(names)),
        },
        Some((&"wheel", [])) => suite::run_step("wheel", python::wheel),
        Some((&"dist", rest)) => match dist::Options::parse(rest) {
            Ok(options) => suite::run_step("dist", || dist::dist(&options)),
            Err(option) => return usage(&format!("invalid argument `{option}`")),
        },
        Some((&("help" | "--help" | "-h"), _)) => {
            print!("{HELP}");
            false
        }
        Some((command, _)) => {
            return usage(&format!("unknown command `{command}`, or it takes no arguments"));
        }
        None => return usage("no command given"),
    };
    if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn usage(what: &str) -> ExitCode {
    eprintln!("xtask: {what}\n\n{HELP}");
    ExitCode::from(2)
}
