//! The commands around running: a scenario to start from, replays, completions, manual pages.

use crate::common::{Place, text};

const SCENARIO: &str = r#"
name = "small"
transports = ["tcp", "ndp"]
[network]
topology = "star"
hosts = 6
rate = "10Gbps"
delay = "1us"
[[traffic]]
pattern = "incast"
workers = 5
sizes = { file = "sizes.txt" }
deadlines = "1ms"
[sweep]
traffic.workers = [3, 5]
[run]
duration = "5ms"
repetitions = 2
sample = "100us"
"#;

#[test]
fn a_new_scenario_can_be_run_and_is_not_overwritten() {
    let place = Place::new(SCENARIO);
    let made = place.punctual(&["init"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert!(text(&made.stdout).contains("next: punctual compare scenario.toml"));
    let checked = place.punctual(&["check", "scenario.toml"]);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    // Its commented-out lines are valid as well.
    let written = std::fs::read_to_string(place.path().join("scenario.toml")).unwrap();
    assert!(written.contains("punctual check scenario.toml"));
    let commented = ["# [sweep]", "# traffic.answers", "# sample", "# check", "# [tr", "# init"];
    for line in commented {
        assert!(written.contains(line), "{line}");
    }
    let all = commented.iter().fold(written, |all, line| all.replace(line, &line[2..]));
    std::fs::write(place.path().join("all.toml"), all).unwrap();
    let checked = place.punctual(&["check", "all.toml"]);
    assert!(checked.status.success(), "{}", text(&checked.stderr));

    std::fs::write(place.path().join("mine.toml"), "mine").unwrap();
    let refused = place.punctual(&["init", "mine.toml"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("mine.toml exists already"));
    assert_eq!(std::fs::read_to_string(place.path().join("mine.toml")).unwrap(), "mine");
    let refused = place.punctual(&["init", "no/such/place.toml"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
}

#[test]
fn a_replay_gives_the_same_bytes() {
    let place = Place::new(SCENARIO);
    std::fs::write(place.path().join("sizes.txt"), "1000 0\n20000 0.5\n90000 1\n").unwrap();
    let args = ["run", "s.toml", "-q", "--csv", "--out", "out", "--set", "network.delay=2us"];
    let run = place.punctual(&args);
    assert!(run.status.success(), "{}", text(&run.stderr));
    // The scenario file has changed: the manifest's copy counts.
    std::fs::write(place.path().join("s.toml"), "name = \"other\"").unwrap();
    let original = "out/traffic.workers=5/ndp/seed-2";
    let manifest = format!("{original}/manifest.json");
    let again = place.punctual(&["replay", &manifest, "--out", "again", "-q"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    let stdout = text(&again.stdout);
    assert!(stdout.starts_with("replayed in again/ndp-2\nidentical: flows.csv, "), "{stdout}");
    for file in ["flows.parquet", "flows.csv", "queues.parquet", "gauges.parquet", "summary.json"] {
        let read = |dir: &str| std::fs::read(place.path().join(dir).join(file)).unwrap();
        assert!(read(original) == read("again/ndp-2"), "{file} differs");
        assert!(stdout.contains(file), "{stdout}");
    }
    // Also one of a search, at a value that the sweep does not list, with a seed beyond its own.
    std::fs::write(place.path().join("s.toml"), SCENARIO).unwrap();
    let search =
        ["capacity", "s.toml", "--vary", "traffic.workers", "--until", "fct_p99_us < 90us"];
    let searched =
        place.punctual(&[&search[..], &["-q", "--out", "found", "--from", "4"]].concat());
    assert!(matches!(searched.status.code(), Some(0 | 4)), "{}", text(&searched.stderr));
    let probe = "found/traffic.workers=4/ndp/seed-4";
    let again = place.punctual(&["replay", probe, "--out", "again", "-q"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert!(text(&again.stdout).contains("identical: "), "{}", text(&again.stdout));

    // A run that differs from its manifest is detected.
    let summary = place.path().join(original).join("summary.json");
    let changed = std::fs::read_to_string(&summary).unwrap().replacen('1', "2", 1);
    std::fs::write(&summary, changed).unwrap();
    let again = place.punctual(&["replay", original, "--out", "again", "-q", "--json"]);
    assert_eq!(again.status.code(), Some(5), "{}", text(&again.stderr));
    assert!(text(&again.stdout).contains("\"different\":[\"summary.json\"]"));
    assert!(text(&again.stderr).starts_with("summary.json differ"), "{}", text(&again.stderr));
}

/// Also with queues by transport, from the file and from the command line.
#[test]
fn a_replay_has_the_same_queues() {
    let scenario = SCENARIO
        .replace("[\"tcp\", \"ndp\"]", "[\"tcp\", \"dctcp\"]")
        .replace("[run]", "[queue.dctcp]\nmark_above = \"2packets\"\n[run]");
    let place = Place::new(&scenario);
    std::fs::write(place.path().join("sizes.txt"), "1000 0\n20000 0.5\n90000 1\n").unwrap();
    let check = place.punctual(&["check", "s.toml", "--set", "queue.tcp.limit=4packets"]);
    let told = text(&check.stdout);
    assert!(told.contains(r#"queue {"kind":"drop-tail","limit":"4packets"}"#), "{told}");
    assert!(told.contains(r#""mark_above":"2packets""#), "{told}");
    let run = ["run", "s.toml", "-q", "--out", "out", "--set", "queue.tcp.limit=4packets"];
    let run = place.punctual(&run);
    assert!(run.status.success(), "{}", text(&run.stderr));
    for name in ["tcp", "dctcp"] {
        let original = format!("out/traffic.workers=5/{name}/seed-1");
        let again = place.punctual(&["replay", &original, "--out", "again", "-q"]);
        assert!(again.status.success(), "{}", text(&again.stderr));
        assert!(text(&again.stdout).contains("identical: "), "{}", text(&again.stdout));
    }
    let told = place.punctual(&["explain", "out/traffic.workers=5/dctcp/seed-1", "-q"]);
    assert!(told.status.success(), "{}", text(&told.stderr));
    // Another queue is another run, and a run that is there is neither reused nor replaced.
    let again = ["run", "s.toml", "--json", "--out", "out", "--set", "queue.tcp.limit=5packets"];
    let refused = place.punctual(&again);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("`queue.tcp.limit` is"), "{}", text(&refused.stderr));
    let again = place.punctual(&[&again[..], &["--fresh"]].concat());
    let lines = text(&again.stdout);
    assert!(again.status.success() && !lines.is_empty(), "{}", text(&again.stderr));
    let manifest = place.path().join("out/traffic.workers=5/tcp/seed-1/manifest.json");
    assert!(std::fs::read_to_string(manifest).unwrap().contains("queue.tcp.limit=5packets"));
}

#[test]
fn what_cannot_be_replayed_says_why() {
    let place = Place::new(SCENARIO);
    let refused = |args: &[&str], code, says: &str| {
        let output = place.punctual(args);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(says), "{}", text(&output.stderr));
    };
    refused(&["replay", "nowhere/manifest.json"], 1, "nowhere does not exist");
    refused(&["replay", "s.toml"], 2, "give a manifest.json, or its directory");
    refused(&["replay", "s.toml", "--seed", "3"], 2, "unexpected argument '--seed'");
}

#[test]
fn shells_and_man_know_every_command() {
    let place = Place::new(SCENARIO);
    for shell in ["bash", "zsh", "fish"] {
        let output = place.punctual(&["completions", shell]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        for word in ["capacity", "replay", "report"] {
            assert!(text(&output.stdout).contains(word), "{shell}: {word}");
        }
    }
    let output = place.punctual(&["man", "pages"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(place.path().join("pages/punctual-compare.1")).unwrap();
    assert!(page.contains(".TH punctual-compare 1") && page.contains("repetitions"), "{page}");
    let page = std::fs::read_to_string(place.path().join("pages/punctual.1")).unwrap();
    assert!(page.contains("Exit codes") && page.contains("punctual\\-replay"), "{page}");
}

#[test]
fn every_command_and_exit_code_is_documented() {
    let docs = include_str!("../../../../docs/commands.md");
    let help = text(&Place::new(SCENARIO).punctual(&["--help"]).stdout);
    let part = |from: &str, to: &str| {
        let rest = help.split_once(from).expect("the heading").1;
        rest.split_once(to).expect("the next heading").0.to_owned()
    };
    let commands = part("Commands:\n", "\n\n");
    let names = commands.lines().filter(|line| !line.starts_with("    "));
    let names: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names.iter().filter(|name| **name != "help") {
        assert!(docs.contains(&format!("`{name}")), "{name}");
    }
    let codes = part("Exit codes:\n", "\n\n");
    let codes = codes.lines().filter_map(|line| line.split_whitespace().next());
    for code in codes.filter(|code| code.parse::<u8>().is_ok()) {
        assert!(docs.contains(&format!("| {code} |")), "{code}");
    }
}

#[test]
fn colours_are_for_terminals_and_not_with_no_color() {
    let place = Place::new(&SCENARIO.replace("{ file = \"sizes.txt\" }", "\"20KB\""));
    let command = format!(
        "{} compare s.toml -q --set run.repetitions=8 --out out",
        env!("CARGO_BIN_EXE_punctual")
    );
    // A terminal of its own.
    let on_terminal = |no_color: Option<&str>| {
        let mut script = std::process::Command::new("script");
        script.current_dir(place.path()).args(["-qec", &command, "/dev/null"]);
        script.env_remove("NO_COLOR").envs(no_color.map(|value| ("NO_COLOR", value)));
        script.stdin(std::process::Stdio::null()).output()
    };
    let Ok(output) = on_terminal(None) else {
        eprintln!("SKIPPED: there is no `script` here to make a terminal with");
        assert!(std::env::var_os("PUNCTUAL_NO_SKIPS").is_none(), "skips are failures here");
        return;
    };
    let has_escapes = |text: &[u8]| text.contains(&0x1b);
    assert!(output.status.success() && has_escapes(&output.stdout), "{}", text(&output.stdout));
    assert!(has_escapes(&on_terminal(Some("")).unwrap().stdout), "nothing is not set");
    let plain = on_terminal(Some("1")).unwrap().stdout;
    assert!(text(&plain).contains("Deadlines") && !has_escapes(&plain), "{}", text(&plain));
    let repetitions = ["--set", "run.repetitions=8"];
    let piped =
        place.punctual(&[&["compare", "s.toml", "-q", "--out", "out"], &repetitions[..]].concat());
    assert!(!has_escapes(&piped.stdout));
}

#[cfg(target_os = "linux")]
#[test]
fn a_report_is_opened_by_the_desktop() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new(&SCENARIO.replace("{ file = \"sizes.txt\" }", "\"20KB\""));
    let run = place.punctual(&["run", "s.toml", "-q", "--out", "out"]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    // A fake opener that records its argument.
    let opener = place.path().join("xdg-open");
    let opens = |how: &str| {
        std::fs::write(&opener, format!("#!/bin/sh\n{how}\n")).unwrap();
        std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", place.path().display());
        let mut command = place.command(&["report", "out", "--open"]);
        command.env("PATH", path).output().expect("the program starts")
    };
    let opened = opens("printf %s \"$1\" > asked");
    assert!(opened.status.success(), "{}", text(&opened.stderr));
    assert_eq!(std::fs::read_to_string(place.path().join("asked")).unwrap(), "out/report.html");
    let failed = opens("exit 3");
    assert_eq!(failed.status.code(), Some(1));
    assert!(text(&failed.stderr).contains("open it in a browser yourself"));
    assert!(text(&failed.stdout).contains("report: out/report.html"), "it is written all the same");
}
