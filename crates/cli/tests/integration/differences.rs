//! `punctual compare A B`.

use crate::common::{Place, text};

const SCENARIO: &str = r#"
name = "small"
transports = ["tcp", "ndp"]
[network]
topology = "star"
hosts = 9
rate = "10Gbps"
delay = "1us"
[[traffic]]
pattern = "incast"
workers = 8
arrivals = { periodic = "500us" }
stop = "4ms"
sizes = { uniform = ["2KB", "50KB"] }
deadlines = { exponential = { mean = "300us", floor = "100us" } }
[run]
duration = "20ms"
repetitions = 5
"#;

fn run(place: &Place, out: &str, more: &[&str]) {
    let output = place.punctual(&[&["run", "s.toml", "-q", "--out", out], more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

fn lines(place: &Place, a: &str, b: &str) -> Vec<serde_json::Value> {
    let output = place.punctual(&["compare", a, b, "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|l| serde_json::from_str(l).expect("an object")).collect()
}

fn find<'a>(
    lines: &'a [serde_json::Value],
    transport: &str,
    figure: &str,
) -> &'a serde_json::Value {
    let same = |l: &&serde_json::Value| l["transport"] == transport && l["figure"] == figure;
    lines.iter().find(same).expect("the figure")
}

#[test]
fn what_differs_is_told_from_chance() {
    let place = Place::new(SCENARIO);
    run(&place, "a", &[]);
    run(&place, "same", &[]);
    run(&place, "slow", &["--set", "network.rate=5Gbps"]);
    run(&place, "seeds", &["--seed", "100"]);

    // The same runs: nothing differs.
    let same = lines(&place, "a", "same");
    assert!(same.len() > 10, "{same:?}");
    assert!(same.iter().all(|l| l["significant"] == false && l["difference"] == 0.0));
    assert_eq!(find(&same, "ndp", "fct_p99_us")["verdict"], "the same in every run");

    // Half the rate: worse, surely, in pairs.
    let slow = lines(&place, "a", "slow");
    let fct = find(&slow, "ndp", "fct_mean_us");
    assert_eq!((&fct["verdict"], &fct["test"]), (&"B worse".into(), &"paired t".into()));
    let (a, b) = (fct["a"].as_f64().unwrap(), fct["b"].as_f64().unwrap());
    assert!((fct["difference"].as_f64().unwrap() - (b - a)).abs() < 1e-9);
    let chance = find(&slow, "ndp", "chance_that_b_is_faster");
    assert!(chance["b"].as_f64() < Some(0.5) && chance["verdict"] == "B worse", "{chance}");
    // The other way round it is better by as much.
    let fast = lines(&place, "slow", "a");
    let better = find(&fast, "ndp", "fct_mean_us");
    assert_eq!(better["verdict"], "B better");
    assert_eq!(better["half_width"], fct["half_width"]);

    // 64 flows a run have no 99th percentile but their maximum.
    assert!(slow.iter().all(|l| (l["figure"] == "fct_p99_us" || l["figure"] == "slowdown_p99")
        == (l["a_is_maximum"] == true && l["b_is_maximum"] == true)));

    // Other seeds are other flows, which are no pairs.
    let seeds = lines(&place, "a", "seeds");
    let fct = find(&seeds, "ndp", "fct_mean_us");
    assert_eq!((&fct["verdict"], &fct["test"]), (&"not significant".into(), &"Welch's t".into()));

    let table = place.punctual(&["compare", "a", "slow"]);
    let stdout = text(&table.stdout);
    assert!(stdout.starts_with("A: a (small)\nB: slow (small, network.rate=5Gbps)\n"), "{stdout}");
    assert!(stdout.contains("B worse") && stdout.contains("differ significantly at 95 %"));
    assert!(stdout.contains("the same seeds"), "{stdout}");
    let p99 = stdout.lines().find(|line| line.contains("FCT p99")).expect("a line");
    assert_eq!(p99.matches("max ").count(), 2, "{p99}");
    assert!(stdout.contains("max x: the maximum"), "{stdout}");
    assert!(stdout.lines().all(|line| line.chars().count() <= 100), "{stdout}");
}

#[test]
fn what_cannot_be_compared_says_why() {
    let place = Place::new(SCENARIO);
    run(&place, "one", &["--set", "run.repetitions=1"]);
    run(&place, "tcp", &["--set", "transports=[\"tcp\"]", "--set", "run.repetitions=1"]);
    run(&place, "ndp", &["--set", "transports=[\"ndp\"]", "--set", "run.repetitions=1"]);
    let one = lines(&place, "one", "tcp");
    assert!(one.iter().all(|l| l["significant"] == false && l["transport"] == "tcp"));
    let stdout = text(&place.punctual(&["compare", "one", "tcp"]).stdout);
    assert!(stdout.contains("ndp is in A only"), "{stdout}");
    let refused = |args: &[&str], code, says: &str| {
        let output = place.punctual(args);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(says), "{}", text(&output.stderr));
    };
    refused(&["compare", "tcp", "ndp"], 2, "no transport and point in common");
    refused(&["compare", "tcp"], 2, "give a scenario file, or two directories");
    refused(&["compare", "tcp", "s.toml"], 2, "s.toml is not a directory");
    refused(&["compare", "s.toml", "nowhere"], 2, "s.toml is not a directory");
    refused(&["compare", "one", "tcp", "--seed", "2"], 2, "--set and --seed do not apply");
    std::fs::create_dir(place.path().join("empty")).unwrap();
    refused(&["compare", "tcp", "empty"], 1, "empty holds no results");
}

#[test]
fn a_table_fits_its_terminal() {
    let place = Place::new(SCENARIO);
    let args = ["compare", "s.toml", "-q", "--out", "out"];
    let table = |columns: &str, more: &[&str]| {
        let mut command = place.command(&[&args[..], more].concat());
        let output = command.env("COLUMNS", columns).output().expect("the program starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let stdout = text(&output.stdout);
        stdout.split("results in").next().unwrap_or_default().to_owned()
    };
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max();
    let narrow = table("80", &[]);
    assert!(widest(&narrow) <= Some(80), "{narrow}");
    assert!(narrow.contains(" not shown: Deadline flows met, Deadline flows late,"), "{narrow}");
    let wide = table("80", &["--wide"]);
    assert!(widest(&wide) > Some(110) && !wide.contains("not shown"), "{wide}");
}

#[test]
fn several_traffics_have_a_table_of_their_own() {
    let place = Place::new(SCENARIO);
    let output = place.punctual(&["compare", "s.toml", "-q", "--out", "one"]);
    assert!(!text(&output.stdout).contains("by traffic"), "{}", text(&output.stdout));
    let storage = "[[traffic]]\nname = \"storage\"\npattern = \"incast\"\nworkers = 2\n\
                   arrivals = { periodic = \"1ms\" }\nstop = \"4ms\"\nsizes = \"200KB\"\n[run]";
    let place = Place::new(&SCENARIO.replace("[run]", storage));
    let output = place.punctual(&["compare", "s.toml", "-q", "--out", "two"]);
    let stdout = text(&output.stdout);
    let (_, table) = stdout.split_once("by traffic\n").expect("the table");
    let named = |transport: &str, traffic: &str| {
        let mut words = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        words.any(|words| words.len() > 2 && words[..2] == [transport, traffic])
    };
    assert!(named("tcp", "incast") && named("ndp", "storage"), "{stdout}");
    let output = place.punctual(&["compare", "s.toml", "-q", "--out", "two", "--json"]);
    let line: serde_json::Value =
        serde_json::from_str(text(&output.stdout).lines().next().expect("a line")).expect("JSON");
    // Four requests to two workers, none of which has a deadline.
    let storage = &line["by_traffic"][1];
    assert_eq!((&storage["name"], &storage["flows"]), (&"storage".into(), &8.into()));
    assert!(storage["deadlines_met"].is_null() && storage["fct_p99_us"].is_number(), "{storage}");
    assert_eq!(line["by_size"][2]["name"], "100KB-1MB");
}
