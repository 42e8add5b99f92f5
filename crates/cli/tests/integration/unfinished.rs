//! Unfinished flows do not count as fast flows.

use crate::common::{Place, text};

/// Eight senders share one link of 10 Gb/s. With web-search sizes some flows are of many megabytes,
/// and at a load of 0.3 of each sender's line 2.4 times what the link carries is asked of it, so
/// that about half of the flows are unfinished when a run of 20 ms ends.
const OVERLOADED: &str = r#"
name = "overloaded"
transports = ["dctcp"]
[network]
topology = "star"
hosts = 9
rate = "10Gbps"
delay = "1us"
[[traffic]]
pattern = "incast"
receiver = 0
senders = 8
arrivals = { poisson-load = 0.3 }
sizes = "web-search"
stop = "20ms"
[run]
duration = "20ms"
"#;

const LOAD: &str = "traffic.arrivals.poisson-load";

#[test]
fn a_capacity_does_not_hold_for_flows_that_never_end() {
    let place = Place::new(OVERLOADED);
    let ask = |more: &[&str]| {
        let until = ["--until", "fct_p99_us <= 20ms", "--from", "0.3", "--to", "1.2"];
        let args = ["capacity", "s.toml", "--vary", LOAD, "--step", "0.3"];
        place.punctual(&[&args[..], &until, more].concat())
    };
    let json = ask(&["--json", "-q"]);
    assert_eq!(json.status.code(), Some(4), "{}", text(&json.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&json.stdout).expect("an object");
    assert_eq!((&answer["outcome"], &answer["holds_to"]), (&"never".into(), &None::<u8>.into()));
    let estimate = &answer["estimate"];
    assert_eq!(
        (&estimate["mean"], &estimate["reason"]),
        (&None::<u8>.into(), &"unfinished".into())
    );
    assert!(estimate["at_least"].as_f64().is_some_and(|us| us < 20_000.0), "{answer}");
    let share = |e: &serde_json::Value| e["unfinished"].as_f64().zip(e["flows"].as_f64());
    assert!(share(estimate).is_some_and(|(open, all)| open > 0.2 * all), "{answer}");

    let table = ask(&[]);
    let (stdout, stderr) = (text(&table.stdout), text(&table.stderr));
    assert!(stdout.contains("never") && stdout.contains("unfinished"), "{stdout}");
    assert!(stdout.contains("flows unfinished when the run ended"), "{stdout}");
    assert!(stderr.contains("fails, not surely"), "{stderr}");
    let page = std::fs::read_to_string(place.path().join("results/overloaded/report.html"));
    assert!(page.expect("a report").contains("Unfinished there"));
}

#[test]
fn a_comparison_shows_a_bound_and_the_unfinished_flows() {
    let place = Place::new(OVERLOADED);
    let compared = place.punctual(&["compare", "s.toml", "-q", "--set", "run.repetitions=2"]);
    let stdout = text(&compared.stdout);
    assert!(compared.status.success(), "{}", text(&compared.stderr));
    let header: Vec<&str> = stdout.lines().skip(1).take(2).collect();
    assert!(header[0].contains(" Flows ") && header[1].contains(" unfinished "), "{stdout}");
    assert!(stdout.contains(" > "), "{stdout}");
    assert!(stdout.contains("> x: at least x."), "{stdout}");
    let run = place.punctual(&["run", "s.toml", "-q", "--json"]);
    let line: serde_json::Value = serde_json::from_slice(&run.stdout).expect("an object");
    assert!(line["fct_p99_us"].is_null() && line["fct_mean_us"].is_null(), "{line}");
    assert!(line["at_least"]["fct_p99_us"].is_number(), "{line}");
    assert!(line["at_least"]["fct_mean_us"].is_number(), "{line}");
    let shown = text(&place.punctual(&["run", "s.toml", "-q"]).stdout);
    assert!(shown.contains(" unfinished, ") && shown.contains("p99 > "), "{shown}");
}
