//! Bad scenarios: each file under `errors/` is refused with exactly the message beside it and
//! exit code 2. `UPDATE_EXPECTED=1 cargo test -p punctual --test integration errors::` writes the
//! messages anew.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn check(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_punctual"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors"))
        .arg("check")
        .args(args)
        .output()
        .expect("the program starts")
}

fn scenarios() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors");
    let entries = std::fs::read_dir(dir).expect("the directory is there");
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("it can be read").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    files.sort();
    files
}

#[test]
fn every_bad_scenario_is_explained() {
    let files = scenarios();
    assert!(files.len() >= 17, "scenarios are missing");
    for file in files {
        let name = file.file_name().expect("a file").to_str().expect("plain");
        let output = check(&[name]);
        let stderr = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{name}: {stderr}");
        assert!(output.stdout.is_empty(), "{name}");
        let expected = file.with_extension("stderr");
        if std::env::var_os("UPDATE_EXPECTED").is_some() {
            std::fs::write(&expected, &stderr).expect("it can be written");
        }
        let expected = std::fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(stderr, expected, "{name}");
    }
}

/// The messages above are compared as a whole; this holds the places they point at.
#[test]
fn messages_point_at_line_and_column() {
    for (file, place, words) in [
        ("unknown-key.toml", "unknown-key.toml:4:1", "did you mean `hosts`?"),
        ("missing-unit.toml", "missing-unit.toml:6:9", "has no unit"),
        ("bare-number.toml", "bare-number.toml:11:12", "has no unit"),
        ("negative-rate.toml", "negative-rate.toml:5:8", "negative"),
        ("odd-k.toml", "odd-k.toml:4:5", "even k"),
        ("destination-is-source.toml", "destination-is-source.toml:9:18", "sends to itself"),
        ("empty-cdf.toml", "empty-cdf.toml:9:17", "no points"),
        ("unknown-transport.toml", "unknown-transport.toml:1:15", "did you mean `dctcp`?"),
        ("wrong-type.toml", "wrong-type.toml:4:9", "a whole number"),
        ("queue-without-unit.toml", "queue-without-unit.toml:13:9", "100packets"),
        ("too-many-hops.toml", "too-many-hops.toml:3:12", "paths of 8"),
        ("measure-from.toml", "measure-from.toml:13:1", "did you mean `measure`?"),
        ("measure-backwards.toml", "measure-backwards.toml:13:11", "before it starts"),
        ("measure-beyond.toml", "measure-beyond.toml:13:11", "after the run"),
        ("measure-nothing.toml", "measure-nothing.toml:13:11", "no flow starts"),
        ("queue-carries-nothing.toml", "queue-carries-nothing.toml:12:1", "carries no traffic"),
        ("queue-wrong-kind.toml", "queue-wrong-kind.toml:13:1", "of kind `drop-tail` here"),
        ("payload-beyond-mtu.toml", "payload-beyond-mtu.toml:12:11", "leaves 1436B"),
        ("queues-disagree.toml", "queues-disagree.toml:18:1", "share a network"),
    ] {
        let stderr = String::from_utf8(check(&[file]).stderr).expect("text");
        assert!(stderr.contains(place) && stderr.contains(words), "{file}: {stderr}");
    }
}

#[test]
fn overrides_are_pointed_at_too() {
    let output = check(&["wrong-type.toml", "--set", "network.hosts=many"]);
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("--set:1:15") && stderr.contains("a whole number"), "{stderr}");
}

#[test]
fn other_mistakes_have_their_codes() {
    let output = check(&["there-is-no-such.toml"]);
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("cannot read there-is-no-such.toml"), "{stderr}");
    assert_eq!(check(&["--no-such-option"]).status.code(), Some(2));
    let bench = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["bench", "ndp-permutation-431"])
        .output()
        .expect("the program starts");
    let stderr = String::from_utf8(bench.stderr).expect("text");
    assert_eq!(bench.status.code(), Some(2));
    assert!(stderr.contains("did you mean `ndp-permutation-432`?"), "{stderr}");
}

/// Refusals of `punctual capacity`, word for word.
#[test]
fn questions_of_capacity_are_explained() {
    let ask = |vary: &str, until: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_punctual"))
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios"))
            .args(["capacity", "d3-burst.toml", "--vary", vary, "--until", until])
            .output()
            .expect("the program starts");
        assert_eq!(output.status.code(), Some(2), "{vary} {until}");
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).expect("text")
    };
    let numbers = "numbers of this scenario: `network.hosts`, `network.rate`, `network.delay`, \
        `queue.tcp.limit`, `queue.tcppr.limit`, `transport.tcp.initial_window`, \
        `transport.tcp.rto_min`, `transport.tcp.rto_initial`, `transport.tcppr.initial_window`, \
        `transport.tcppr.rto_min`, `transport.tcppr.rto_initial`, `transport.tcppr.mean_deadline`, `traffic.receiver`, \
        `traffic.workers`, `traffic.deadlines.exponential.mean`, \
        `traffic.deadlines.exponential.floor` or `run.duration`";
    assert_eq!(
        ask("traffic.worker", "deadlines_met >= 99%"),
        format!(
            "error: unknown key `traffic.worker`\n --> --vary:1:1\n  |\n1 | traffic.worker\n  | \
             ^^^^^^^^^^^^^^ did you mean `traffic.workers`?\n  |\n  = help: {numbers}\n"
        )
    );
    assert_eq!(
        ask("traffic.pattern", "deadlines_met >= 99%"),
        format!(
            "error: `traffic.pattern` is `incast`, not a number that can vary\n --> --vary:1:1\n  \
             |\n1 | traffic.pattern\n  | ^^^^^^^^^^^^^^^\n  |\n  = help: {numbers}\n"
        )
    );
    assert_eq!(
        ask("traffic.workers", "deadlines_met >= 99"),
        "error: `deadlines_met` is a share, from 0 to 1\n --> --until:1:18\n  |\n1 | \
         deadlines_met >= 99\n  |                  ^^\n  |\n  = help: write 99% for per cent\n"
    );
}
