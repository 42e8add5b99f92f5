//! `punctual explain`.

use crate::common::{Place, text};
use punctual_results::{Run, WriteOptions};

const SCENARIO: &str = r#"
name = "small"
transports = ["tcp", "pdq", "ndp", "ideal-fair"]
[network]
topology = "star"
hosts = 9
rate = "1Gbps"
delay = "5us"
[[traffic]]
pattern = "incast"
workers = 8
sizes = "60KB"
deadlines = "3ms"
[run]
duration = "100ms"
repetitions = 2
"#;

fn ran() -> Place {
    let place = Place::new(SCENARIO);
    let run = place.punctual(&["run", "s.toml", "-q", "--out", "out"]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    place
}

/// The sum of a flow's parts, and what it should be.
fn sums(line: &str) -> (u64, u64) {
    let flow: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let parts = flow["parts"].as_array().expect("parts");
    let sum = parts.iter().map(|part| part["time_ps"].as_u64().expect("a time")).sum();
    (sum, flow["time_ps"].as_u64().expect("a time"))
}

#[test]
fn the_worst_flows_of_a_run_are_explained_and_kept() {
    let place = ran();
    let output = place.punctual(&["explain", "out/tcp/seed-1", "--worst", "4"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    assert!(told.starts_with("tcp, seed 1: the worst 4 of 8\n"), "{told}");
    assert!(told.contains("missed by ") && told.contains("Behind flows"), "{told}");
    assert!(told.contains("the others in full"), "{told}");
    assert!(text(&output.stderr).contains("running tcp, seed 1 again, to follow the worst 4 of 8"));
    // The report of the study around it shows it at once.
    assert!(told.ends_with("report: out/report.html\n"), "{told}");
    let page = std::fs::read_to_string(place.path().join("out/report.html")).unwrap();
    assert!(page.contains("Delay breakdown"));
    // The last line of a table is the sum, which is the completion time.
    let json = place.punctual(&["explain", "out/tcp/seed-1", "--worst", "4", "--json", "-q"]);
    let lines: Vec<String> = text(&json.stdout).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 4);
    for line in &lines {
        let (sum, time) = sums(line);
        assert_eq!(sum, time);
        let micros = format!("{:.1}", time as f64 / 1e6);
        assert!(told.contains(&micros), "{micros} in {told}");
    }
    let kept = std::fs::read_to_string(place.path().join("out/tcp/seed-1/explain.json")).unwrap();
    assert!(lines.iter().all(|line| kept.contains(line.as_str())));
    // A run that was explained can be repeated.
    let again = place.punctual(&["run", "s.toml", "-q", "--fresh", "--out", "out"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert!(!place.path().join("out/tcp/seed-1/explain.json").exists());
}

#[test]
fn a_directory_is_summed_up_by_transport_and_reported() {
    let place = ran();
    let output = place.punctual(&["explain", "out", "--sample", "5", "-q"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    let header = told.lines().next().unwrap();
    let columns: Vec<&str> = header.split_whitespace().collect();
    assert_eq!(columns, ["Mean", "(µs)", "tcp", "pdq", "ndp"], "an ideal one has no packets");
    assert!(told.contains("paused by a port") && told.contains("waiting to be pulled"), "{told}");
    let counts = told.lines().find(|line| line.contains("flows explained")).unwrap();
    // Five flows of each of two runs. PDQ gives some up, which have no completion time.
    let counts: Vec<u32> =
        counts.split_whitespace().skip(2).map(|count| count.parse().unwrap()).collect();
    assert!(matches!(counts[..], [10, 5..10, 10]), "{counts:?}");
    let report = place.punctual(&["report", "out"]);
    assert!(report.status.success(), "{}", text(&report.stderr));
    let page = std::fs::read_to_string(place.path().join("out/report.html")).unwrap();
    assert!(page.contains("Delay breakdown"));
    // One transport alone.
    let output = place.punctual(&["explain", "out", "--transport", "ndp", "-q"]);
    assert!(text(&output.stdout).lines().next().unwrap().ends_with("ndp"));
}

#[test]
fn what_cannot_be_explained_is_said() {
    let place = ran();
    let refused = |args: &[&str], code: i32, message: &str| {
        let output = place.punctual(&[&["explain", "-q"], args].concat());
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stdout));
        let told = text(&output.stderr);
        assert!(told.contains(message), "{told}");
    };
    refused(&["out/tcp/seed-1", "99"], 2, "out/tcp/seed-1 has no flow 99; its flows are 0 to 7");
    refused(&["out/ideal-fair/seed-1", "3"], 2, "ideal-fair is an ideal scheduler without packets");
    refused(
        &["out", "--missed"],
        2,
        "out has 8 runs; name the one to explain flows of: out/tcp/seed-1, out/tcp/seed-2, \
         out/pdq/seed-1, …",
    );
    refused(&["out", "--transport", "udp"], 2, "out has no run of udp; it has runs of tcp, pdq");
    refused(&["out/ndp/seed-1", "--transport", "tcp"], 2, "out/ndp/seed-1 is a run of ndp");
    refused(&["nowhere"], 1, "nowhere");
    refused(&["out/tcp/seed-1", "1", "--worst", "3"], 2, "cannot be used with");
    refused(
        &["out/tcp/seed-1", "1", "--set", "network.delay=1us"],
        2,
        "unexpected argument '--set'",
    );
    let fine =
        place.punctual(&["run", "s.toml", "-q", "--out", "easy", "--set", "traffic.deadlines=9s"]);
    assert!(fine.status.success(), "{}", text(&fine.stderr));
    refused(&["easy/tcp/seed-1", "--missed"], 2, "easy/tcp/seed-1: no flow missed its deadline");

    // A changed manifest, and a manifest that does not match its flows.
    let dir = place.path().join("out/tcp/seed-1");
    let manifest = dir.join("manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("delay = \\\"5us\\\"", "delay = \\\"6us\\\"")).unwrap();
    refused(&["out/tcp/seed-1", "1"], 1, "is not as it was written");
    std::fs::write(&manifest, &text).unwrap();
    let mut files = punctual_results::read(&dir).unwrap();
    files.manifest.scenario = files.manifest.scenario.replace("\"5us\"", "\"6us\"");
    let run = Run::new(&files.flows, &files.queues, &files.summary, &files.manifest);
    let overwrite = WriteOptions { overwrite: true, csv: false };
    punctual_results::write(&dir, &run, overwrite).unwrap();
    refused(&["out/tcp/seed-1", "1"], 5, "has another result when its run is repeated");
    let format = format!("\"format\": {}", punctual_results::FORMAT);
    std::fs::write(&manifest, text.replace(&format, "\"format\": 1")).unwrap();
    refused(&["out/tcp/seed-1", "1"], 1, "format 1");
}
