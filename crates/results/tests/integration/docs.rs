//! The documentation names every field of the files, and no other.

use punctual_record::Outcome;
use punctual_results::{
    Explained, ExplainedFlow, ExplainedPart, Group, LatencySummary, RunFacts, Summary, reference,
    summarise,
};
use punctual_testkit::print_figure;

const DOCS: &str = include_str!("../../../../docs/results.md");

fn documented(section: &str) -> Vec<String> {
    let start = DOCS.find(section).expect("the section");
    let text = &DOCS[start..];
    let end = text[1..].find("\n## ").map_or(text.len(), |e| e + 1);
    text[..end]
        .lines()
        .filter(|line| line.starts_with("| `"))
        .flat_map(|line| line.split('|').nth(1).unwrap_or("").split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_field_of_the_summary_is_documented() {
    let facts = RunFacts { transport: "ndp", seed: 1, ..RunFacts::default() };
    let summary: Summary = summarise(&Outcome::default(), &[], &facts);
    let json = serde_json::to_value(summary).expect("JSON");
    let mut fields: Vec<String> = json.as_object().expect("an object").keys().cloned().collect();
    // Absent unless a scenario asks for it.
    fields.push("packet_latency".to_owned());
    // Absent unless the timing of a testbed was invalid.
    fields.push("timing_problems".to_owned());
    let latency = serde_json::to_value(LatencySummary::default()).expect("JSON");
    fields.extend(latency.as_object().expect("an object").keys().cloned());
    let mut named = documented("## summary.json");
    fields.sort();
    named.sort();
    assert_eq!(fields, named);
}

/// `cargo xtask figures metrics` writes the table to the page.
#[test]
fn docs_have_the_table_of_metrics() {
    print_figure("metrics", &reference());
    let block = format!("<!-- figure: metrics -->\n{}<!-- /figure -->", reference());
    assert!(DOCS.contains(&block), "docs/results.md: run `cargo xtask figures metrics`");
}

#[test]
fn every_field_of_a_group_is_documented() {
    let json = serde_json::to_value(Group::default()).expect("JSON");
    let section = DOCS.split_once("### Results by traffic and size").expect("the section").1;
    let section = section.split_once("###").expect("the next section").0;
    for field in json.as_object().expect("an object").keys().filter(|field| *field != "name") {
        assert!(section.contains(&format!("`{field}`")), "{field}");
    }
}

#[test]
fn every_field_of_an_explained_flow_is_documented() {
    let json = serde_json::to_value(ExplainedFlow::default()).expect("JSON");
    let mut fields: Vec<String> = json.as_object().expect("an object").keys().cloned().collect();
    let mut named = documented("## explain.json");
    fields.sort();
    named.sort();
    assert_eq!(fields, named);
    let section = DOCS.split_once("## explain.json").expect("the section").1;
    let nested = [
        serde_json::to_value(ExplainedPart::default()).expect("JSON"),
        serde_json::to_value(&json["time_line"]).expect("JSON"),
        serde_json::to_value(Explained::default()).expect("JSON"),
    ];
    for field in nested.iter().flat_map(|object| object.as_object().expect("an object").keys()) {
        assert!(section.contains(&format!("`{field}`")), "{field}");
    }
}
