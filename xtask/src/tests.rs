//! Parsing of other programs' output, baselines, and the summary of steps.
#![allow(non_snake_case)]

use crate::callgrind::{Counted, instructions_in, operations_in};
use crate::instructions::{
    Baseline, Measured, Options, Toolchain, complaints, executable_in, ratio, table,
};
use crate::steps::{Outcome, Steps};

const VALGRIND: &str = "\
==4242== Callgrind, a call-graph generating cache profiler
==4242== Command: target/release/deps/instructions-0123 --run queue/trim 100000
==4242== For interactive control, run 'callgrind_control -h'.
==4242== 
==4242== Events    : Ir
==4242== Collected : 33834593
==4242== 
==4242== I   refs:      33,834,593
";

const RUSTC: &str = "\
rustc 1.95.0 (59807616e 2026-04-14)
binary: rustc
commit-hash: 59807616e1fa2540724bfbac14d7976d7e4a3860
host: x86_64-unknown-linux-gnu
release: 1.95.0
";

fn baseline(counts: &str) -> Baseline {
    let text = format!(
        "# comment\nrustc = \"rustc 1.95.0 (59807616e 2026-04-14)\"\n\
         target = \"x86_64-unknown-linux-gnu\"\n\n[instructions]\n{counts}"
    );
    Baseline::parse(&text).expect("a baseline")
}

fn measured(name: &str, per_operation: f64) -> Measured {
    Measured { name: name.into(), per_operation }
}

#[test]
fn instructions_in__either_line() {
    assert_eq!(instructions_in(VALGRIND), Some(33_834_593));
    assert_eq!(instructions_in("==1== I   refs:      1,234\n"), Some(1234));
    assert_eq!(instructions_in("==1== Collected : 5 6 7\n"), Some(5));
}

#[test]
fn instructions_in__nothing_counted() {
    assert_eq!(instructions_in(""), None);
    assert_eq!(instructions_in("Collected : 17\n"), None, "printed by the program, not valgrind");
    assert_eq!(instructions_in("==1== Command: x\n==1== Collected : many\n"), None);
}

#[test]
fn operations_in__word_after() {
    assert_eq!(operations_in("operations 100002 digest 00ff\n"), Some(100_002));
    assert_eq!(operations_in("digest 00ff\n"), None);
    assert_eq!(operations_in("operations\n"), None);
}

#[test]
fn per_operation__difference_of_two_lengths() {
    let shorter = Counted { instructions: 1_500, operations: 10 };
    let longer = Counted { instructions: 2_500, operations: 20 };
    assert_eq!(longer.per_operation_beyond(shorter).expect("more work"), 100.0);
    assert!(shorter.per_operation_beyond(longer).is_err());
    assert!(shorter.per_operation_beyond(shorter).is_err());
}

#[test]
fn executable_in__last_of_the_messages() {
    let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null,\"fresh\":true}\n\
        {\"executable\":\"/a b/\\\"c\\\"/instructions-01\",\"fresh\":false}\n\
        {\"reason\":\"build-finished\",\"success\":true}\n";
    assert_eq!(executable_in(messages), Some("/a b/\"c\"/instructions-01".into()));
    assert_eq!(executable_in("{\"executable\":null}"), None);
}

#[test]
fn toolchain__version_and_host() {
    let toolchain = Toolchain::parse(RUSTC).expect("a version");
    assert_eq!(toolchain, baseline("").toolchain);
    assert!(Toolchain::parse("rustc 1.95.0\n").is_err());
}

#[test]
fn baseline__what_is_written_is_read() {
    let toolchain = Toolchain::parse(RUSTC).expect("a version");
    let counts = [measured("queue/trim", 167.64), measured("hop/ndp-128", 657.8)];
    let written = Baseline::default().updated(toolchain, &counts, true);
    assert_eq!(Baseline::parse(&written.emit()).expect("a baseline"), written);
}

#[test]
fn baseline__says_which_line_is_wrong() {
    for (text, line) in [
        ("rustc = 1\n", "line 1"),
        ("\n[instructions]\nqueue = 1\n", "line 3"),
        ("[instructions]\n\"queue\" = none\n", "line 2"),
        ("[instructions]\n\"queue\" = 0\n", "line 2"),
        ("[instructions]\n\"queue\" = 1\n\"queue\" = 2\n", "line 3"),
        ("other = \"x\"\n", "line 1"),
    ] {
        let error = Baseline::parse(text).expect_err("nonsense").to_string();
        assert!(error.starts_with(line), "{text:?}: {error}");
    }
}

#[test]
fn updated__keeps_what_was_not_measured() {
    let old = baseline("\"a\" = 1.00\n\"b\" = 2.00\n");
    let same = old.toolchain.clone();
    let some = old.updated(same.clone(), &[measured("a", 3.0)], false);
    assert_eq!((some.get("a"), some.get("b")), (Some(3.0), Some(2.0)));
    let all = old.updated(same, &[measured("a", 3.0)], true);
    assert_eq!(all.names().collect::<Vec<_>>(), ["a"]);
    // Counts of different compilers are not mixed.
    let other = old.updated(Toolchain::default(), &[measured("a", 3.0)], false);
    assert_eq!(other.names().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn complaints__beyond_two_percent_only() {
    let old = baseline("\"a\" = 100.00\n");
    assert!(complaints(&[measured("a", 101.9)], &old, true).is_empty());
    assert!(complaints(&[measured("a", 50.0)], &old, true).is_empty());
    let found = complaints(&[measured("a", 102.5)], &old, true);
    assert_eq!(found, ["a needs 2.50 % more instructions"]);
}

#[test]
fn complaints__names_on_one_side_only() {
    let old = baseline("\"a\" = 100.00\n\"b\" = 5.00\n");
    let found = complaints(&[measured("a", 100.0), measured("c", 1.0)], &old, true);
    assert_eq!(found, ["c has no baseline", "b has a baseline but no benchmark"]);
    assert!(complaints(&[measured("a", 100.0)], &old, false).is_empty());
}

#[test]
fn table__a_line_for_each() {
    let old = baseline("\"a\" = 100.00\n");
    let text = table(&[measured("a", 101.0), measured("b", 7.0)], &old);
    let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[1], ["a", "101.00", "100.00", "+1.00", "%"]);
    assert_eq!(rows[2], ["b", "7.00", "-", "-"]);
}

#[test]
fn ratio__twice_an_ordinary_port_at_most() {
    let of = |pdq| [measured("ten-flows/dctcp", 500.0), measured("ten-flows/pdq", pdq)];
    assert!(ratio::complaints(&of(1000.0)).is_empty());
    let found = ratio::complaints(&of(1010.0));
    assert_eq!(found, ["ten-flows/pdq needs 2.02 times the instructions of DCTCP, above 2.00"]);
    assert!(ratio::complaints(&of(1010.0)[1..]).is_empty(), "nothing to compare with");
    let text = ratio::table(&of(750.0));
    let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[3], ["ten-flows/pdq", "1.50", "2.00"]);
    assert_eq!(ratio::table(&[measured("queue/trim", 1.0)]), "");
    // They need no baseline. If there is one, both limits apply.
    let old = baseline("\"ten-flows/pdq\" = 100.00\n");
    let all = [measured("ten-flows/dctcp", 500.0), measured("ten-flows/pdq", 110.0)];
    assert_eq!(complaints(&all, &old, true), ["ten-flows/pdq needs 10.00 % more instructions"]);
}

#[test]
fn options__update_and_names() {
    let options = Options::parse(&["--update", "queue/"]).expect("options");
    assert_eq!(options, Options { update: true, names: vec!["queue/".into()] });
    assert_eq!(Options::parse(&["--all"]), Err("--all".into()));
}

#[cfg(unix)]
#[test]
fn run_beside__outcomes_are_those_of_the_processes() {
    let script = |name: &str| match name {
        "good" => {
            "echo '==> good'; echo '<== good   passed   2.5 s  4.0 s CPU'; echo; echo '1 passed'"
        }
        "absent" => {
            "echo; echo '<== absent   SKIPPED   0.1 s 0.0 s CPU  no such tool: it is 5 s away'"
        }
        "most" => "echo; echo '<== most   passed   9.0 s  12.0 s CPU  2 checks SKIPPED'",
        "bad" => "echo; echo '<== bad   FAILED   1.0 s  1.5 s CPU  broken' >&2; exit 1",
        _ => "echo killed; kill -9 $$",
    };
    let mut steps = Steps::default();
    steps.run_beside(&[vec!["good", "killed"], vec!["absent", "bad", "most"]], |name| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script(name)]);
        command
    });
    let summary = steps.summary();
    for line in [
        "good           passed       2.5 s     4.0 s CPU",
        "absent         SKIPPED      0.1 s     0.0 s CPU  no such tool: it is 5 s away",
        "most           passed       9.0 s    12.0 s CPU  2 checks SKIPPED",
        "bad            FAILED       1.0 s     1.5 s CPU  broken",
    ] {
        assert!(summary.lines().any(|other| other == line), "{line}\n{summary}");
    }
    assert!(summary.contains("it ended without an outcome"), "{summary}");
    let total = summary.lines().find(|line| line.starts_with("total")).expect("a total");
    assert!(total.ends_with(" 17.5 s CPU"), "of all steps but the killed one: {total}");
    assert_eq!(summary.lines().last(), Some("2 passed, 2 failed, 1 skipped"));
}

#[cfg(target_os = "linux")]
#[test]
fn steps__cpu_time_of_the_processes_that_they_ran() {
    let mut steps = Steps::default();
    steps.run("busy", || {
        let loops = "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done";
        crate::tools::run(std::process::Command::new("sh").args(["-c", loops]))?;
        Ok(Outcome::Passed)
    });
    let summary = steps.summary();
    let words: Vec<&str> = summary.lines().next().expect("a step").split_whitespace().collect();
    let seconds = |word: usize| words[word].parse::<f64>().expect("seconds");
    let (elapsed, cpu) = (seconds(2), seconds(4));
    assert!(cpu > 0.0 && cpu <= elapsed + 0.1, "one process, one processor: {summary}");
}

fn three_steps(no_skips: bool) -> Steps {
    let mut steps = Steps::default();
    steps.no_skips = no_skips;
    steps.run("good", || Ok(Outcome::Passed));
    steps.run("absent", || Ok(Outcome::Skipped("no such tool".into())));
    steps
}

#[test]
fn steps__last_line_counts() {
    let steps = three_steps(false);
    assert!(!steps.failed());
    let summary = steps.summary();
    assert_eq!(summary.lines().last(), Some("1 passed, 0 failed, 1 skipped"));
    assert!(summary.contains("SKIPPED") && summary.contains("no such tool"), "{summary}");
}

#[test]
fn steps__skips_may_be_forbidden() {
    let steps = three_steps(true);
    assert!(steps.failed());
    assert_eq!(steps.summary().lines().last(), Some("1 passed, 1 failed, 0 skipped"));
}

#[test]
fn steps__an_error_fails_and_the_rest_goes_on() {
    let mut steps = Steps::default();
    steps.run("bad", || anyhow::bail!("broken"));
    steps.run("good", || Ok(Outcome::Passed));
    assert!(steps.failed());
    let summary = steps.summary();
    assert!(summary.contains("FAILED") && summary.contains("broken"), "{summary}");
    assert_eq!(summary.lines().last(), Some("1 passed, 1 failed, 0 skipped"));
}

#[test]
fn default_members__every_crate_but_the_package_for_python() {
    let root = crate::tools::root();
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).expect("a manifest");
    for entry in std::fs::read_dir(root.join("crates")).expect("crates") {
        let name = entry.expect("a crate").file_name().to_string_lossy().into_owned();
        let is_listed = manifest.contains(&format!("    \"crates/{name}\",\n"));
        assert_eq!(is_listed, name != "python", "default-members and crates/{name}");
    }
}
