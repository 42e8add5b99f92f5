use super::*;
use crate::palette::Palette;
use punctual_core::{
    Bytes, Class, Duration, FlowId, FlowSpec, HostId, Instant, PortId, TransportId,
};
use punctual_record::{FlowRecord, FlowStatus, GaugeOf, Outcome, PortSample, Totals};
use punctual_results::{
    Explained, ExplainedFlow, ExplainedPart, FlowRow, GaugeRow, Plan, PlanPoint, PlanRun, Run,
    RunFacts, WriteOptions, summarise, write,
};
use std::path::PathBuf;

/// A catalogue as a program has it.
fn palette() -> Palette {
    Palette::new(["tcp", "tcppr", "dctcp", "d2tcp", "d3", "ndp"], ["ideal-edf", "optimal"])
}

/// The page of a directory, in the looks of [`palette`].
fn html(dir: &Path) -> Result<String, ReportError> {
    super::html(dir, &palette(), 2)
}

fn page(results: &Results, name: &str) -> Result<Page, ReportError> {
    super::page(results, name, &palette(), 2)
}

fn micros(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

/// Flows with FCTs of 1 µs, 2 µs … and deadlines after 40 µs.
fn outcome(flows: u32) -> Outcome {
    let record = |i: u32| FlowRecord {
        spec: FlowSpec {
            id: FlowId(i),
            src: HostId(0),
            dst: HostId(1),
            size: Bytes::new(1_000),
            start: micros(5),
            deadline: Some(micros(45)),
            transport: TransportId(0),
            class: Class::DATA,
            background: false,
            pattern: 0,
        },
        status: if i == 3 { FlowStatus::Abandoned } else { FlowStatus::Completed },
        ended: Some(micros(6 + u64::from(i))),
        delivered: Bytes::new(1_000),
        retransmits: 0,
        retransmits_by: Default::default(),
        timeouts: 0,
        trims: 0,
        bounces: 0,
        in_window: Default::default(),
    };
    let totals = Totals { ended_at: micros(1000), ..Totals::default() };
    Outcome { flows: (0..flows).map(record).collect(), totals, ..Outcome::default() }
}

fn write_run(dir: &Path, transport: &str, seed: u64, flows: u32) {
    write_sampled(dir, transport, seed, flows, &[], &[]);
}

fn write_sampled(
    dir: &Path,
    transport: &str,
    seed: u64,
    flows: u32,
    queues: &[PortSample],
    gauges: &[GaugeRow],
) {
    let outcome = outcome(flows);
    let rows = FlowRow::all(&outcome, &[transport], |_| Some(Duration::from_micros(1)));
    let facts = RunFacts { transport, seed, ..RunFacts::default() };
    let summary = summarise(&outcome, &rows, &facts);
    let directory = format!("{transport}/seed-{seed}");
    let manifest = Manifest { directory, ..Manifest::new("name = \"x\"", transport, seed) };
    let run = Run { gauges, ..Run::new(&rows, queues, &summary, &manifest) };
    write(dir, &run, WriteOptions::default()).unwrap();
}

fn plan(name: &str, transports: &[&str], seeds: u64) -> Plan {
    let run = |transport: &str, seed| PlanRun {
        directory: format!("{transport}/seed-{seed}"),
        transport: transport.to_owned(),
        seed,
    };
    let runs = transports.iter().flat_map(|t| (1..=seeds).map(|seed| run(t, seed))).collect();
    let point = PlanPoint { runs, ..PlanPoint::default() };
    Plan { points: vec![point], ..Plan::new(name, "about it", "name = \"x\"", &[]) }
}

/// A place with the runs of a plan.
fn place(plan: &Plan) -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("results");
    for run in plan.points.iter().flat_map(|point| &point.runs) {
        write_run(&dir.join(&run.directory), &run.transport, run.seed, 60);
    }
    plan.write(&dir).unwrap();
    (place, dir)
}

/// The data within a page.
fn data(html: &str) -> serde_json::Value {
    let (_, rest) = html.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

fn section<'a>(data: &'a serde_json::Value, id: &str) -> &'a serde_json::Value {
    data["sections"].as_array().unwrap().iter().find(|s| s["id"] == id).unwrap()
}

#[test]
fn a_plan_is_shown_in_its_order_and_in_known_colours() {
    let (_place, dir) = place(&Plan { complete: true, ..plan("x", &["tcp", "ndp"], 2) });
    let data = data(&html(&dir).unwrap());
    assert_eq!(data["warnings"], serde_json::json!([]));
    assert_eq!(data["transports"][0]["name"], "tcp");
    let style = palette().styles(["ndp"])[0];
    assert_eq!(data["transports"][1]["colour"], style.colour.light.to_string());
    assert_eq!(data["transports"][1]["dark"], style.colour.dark.to_string());
    let curve = &section(&data, "fct")["body"]["views"][0]["series"][1];
    assert_eq!(curve["transport"], 1);
    // Of two runs with 60 flows each, one of them given up.
    assert_eq!(curve["x"].as_array().unwrap().len(), 59);
    assert_eq!(curve["y"][58], 0.98333);
    let scatter = &section(&data, "deadlines")["body"]["views"][0]["series"][0];
    assert_eq!(scatter["x"].as_array().unwrap().len(), 120);
    assert_eq!(scatter["crosses"].as_array().unwrap().len(), 2);
    let table = &section(&data, "summary")["body"];
    assert_eq!(table["header"][1], "Deadlines met (%)");
    assert_eq!(table["rows"][0]["cells"][0], "tcp");
}

#[test]
fn a_mix_is_shown_in_parts() {
    let place = tempfile::tempdir().unwrap();
    let mut outcome = outcome(40);
    outcome.flows.iter_mut().step_by(4).for_each(|flow| flow.spec.transport = TransportId(1));
    let rows = FlowRow::all(&outcome, &["d3", "tcp"], |_| None);
    let facts = RunFacts { transport: "d3+tcp", seed: 1, ..RunFacts::default() };
    let summary = summarise(&outcome, &rows, &facts);
    let transports = vec!["d3".to_owned(), "tcp".to_owned()];
    let manifest = Manifest { transports, ..Manifest::new("", "d3+tcp", 1) };
    let run = Run::new(&rows, &[], &summary, &manifest);
    write(&place.path().join("d3+tcp/seed-1"), &run, WriteOptions::default()).unwrap();
    let data = data(&html(place.path()).unwrap());
    let names: Vec<_> =
        data["transports"].as_array().unwrap().iter().map(|t| t["name"].clone()).collect();
    assert_eq!(names, ["d3+tcp", "d3", "tcp"]);
    let parts = &section(&data, "parts")["body"]["rows"];
    assert_eq!((&parts[1]["cells"][0], &parts[1]["transport"]), (&"tcp".into(), &2.into()));
    // A quarter of the flows.
    let curves = &section(&data, "fct")["body"]["views"][0]["series"];
    let flows = |t: u64| curves.as_array().unwrap().iter().find(|c| c["transport"] == t).unwrap();
    assert_eq!(flows(2)["x"].as_array().unwrap().len(), 10);
    assert_eq!(flows(1)["x"].as_array().unwrap().len(), 29);
}

#[test]
fn what_is_missing_makes_it_incomplete() {
    let (_place, dir) = place(&plan("x", &["tcp", "ndp"], 2));
    std::fs::remove_dir_all(dir.join("ndp/seed-2")).unwrap();
    let warnings = data(&html(&dir).unwrap())["warnings"].to_string();
    assert!(warnings.contains("Incomplete: 1 of 4 runs are not there"), "{warnings}");
    // A damaged one is left out too, and so is one of other settings.
    std::fs::write(dir.join("tcp/seed-1/flows.parquet"), "PAR1").unwrap();
    let warnings = data(&html(&dir).unwrap())["warnings"].to_string();
    assert!(warnings.contains("Incomplete: 1 runs cannot be read"), "{warnings}");
    let other = Plan { overrides: vec!["a=1".into()], ..plan("x", &["tcp", "ndp"], 2) };
    other.write(&dir).unwrap();
    assert!(matches!(html(&dir), Err(ReportError::Nothing(_))));
}

#[test]
fn a_single_run_and_a_directory_without_plan_can_be_shown() {
    let (_place, dir) = place(&plan("x", &["tcp", "ndp"], 2));
    let one = data(&html(&dir.join("ndp/seed-1")).unwrap());
    assert_eq!(one["transports"].as_array().unwrap().len(), 1);
    std::fs::remove_file(dir.join("plan.json")).unwrap();
    let all = data(&html(&dir).unwrap());
    assert_eq!(all["transports"].as_array().unwrap().len(), 2);
    assert!(section(&all, "summary")["lead"].as_str().unwrap().contains("2 runs"));
    assert_eq!(all["points"], serde_json::json!([]));
    // Partial runs of an interrupted program are reported.
    std::fs::create_dir(dir.join("ndp/seed-3.partial-77")).unwrap();
    let warnings = data(&html(&dir).unwrap())["warnings"].to_string();
    assert!(warnings.contains("1 runs were interrupted"), "{warnings}");
}

#[test]
fn what_is_no_result_or_of_another_version_is_refused() {
    let place = tempfile::tempdir().unwrap();
    assert!(matches!(html(place.path()), Err(ReportError::Nothing(_))));
    let error = html(&place.path().join("nowhere")).unwrap_err().to_string();
    assert!(error.contains("does not exist"), "{error}");
    let error = html(&place.path().join("x.partial-3")).unwrap_err().to_string();
    assert!(error.contains("interrupted"), "{error}");
    write_run(&place.path().join("tcp/seed-1"), "tcp", 1, 3);
    let manifest = place.path().join("tcp/seed-1/manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let format = punctual_results::FORMAT;
    let older = text.replace(&format!("\"format\": {format}"), "\"format\": 1");
    assert_ne!(text, older);
    std::fs::write(&manifest, older).unwrap();
    let error = html(place.path()).unwrap_err().to_string();
    let expected = format!("has format 1 and this version reads format {format}");
    assert!(error.contains(&expected), "{error}");
}

#[test]
fn names_cannot_become_script() {
    let evil = "</script><script>alert(1)</script><!-- {{data}} & \"x\"";
    let mut plan = plan(evil, &["tcp"], 1);
    plan.description = evil.to_owned();
    let (_place, dir) = place(&plan);
    let page = html(&dir).unwrap();
    assert!(!page.contains("<script>alert"), "it is in the page");
    // The page's own two scripts and nothing else.
    assert_eq!(page.matches("</script>").count(), 2);
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(data(&page)["title"], evil);
    assert!(page.contains("&lt;/script&gt;&lt;script&gt;alert(1)"));
}

#[test]
fn a_page_of_many_flows_is_small() {
    let place = tempfile::tempdir().unwrap();
    let transports = ["tcp", "dctcp", "d2tcp", "d3", "pdq", "ndp", "rcp", "rcpdc"];
    for transport in transports {
        for seed in 1..=3 {
            write_run(
                &place.path().join(format!("{transport}/seed-{seed}")),
                transport,
                seed,
                20_000,
            );
        }
    }
    let page = html(place.path()).unwrap();
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    let lead = section(&data(&page), "deadlines")["lead"].as_str().unwrap().to_owned();
    assert!(lead.contains("12000 of 480000 flows are drawn"), "{lead}");
    assert_eq!(page, html(place.path()).unwrap(), "the same page again");
}

#[test]
fn a_page_of_a_large_sampled_sweep_is_small() {
    let gauge = |at: u64, flow: u32, name: usize| GaugeRow {
        at: micros(at),
        transport: "tcp".into(),
        of: GaugeOf::Sender(FlowId(flow)),
        gauge: format!("gauge_{name}_bps").into(),
        value: (at * 7919) as f64 * 1e3,
    };
    let sample = |at: u64, port: u32| PortSample {
        at: micros(at),
        port: PortId(port),
        queue_bytes: at * 31 + u64::from(port),
        queue_packets: 1,
        sent_bytes: at * 1250,
        paused: Duration::ZERO,
    };
    let times = || (0..40u64).map(|i| i * 10);
    let gauges: Vec<GaugeRow> = times()
        .flat_map(|at| (0..6).flat_map(move |flow| (0..12).map(move |name| (at, flow, name))))
        .map(|(at, flow, name)| gauge(at, flow, name))
        .collect();
    let queues: Vec<PortSample> = times()
        .flat_map(|at| (0..20).map(move |port| (at, port)))
        .map(|(at, p)| sample(at, p))
        .collect();
    let sized = |points: usize| {
        let place = tempfile::tempdir().unwrap();
        for point in 0..points {
            for transport in ["tcp", "dctcp", "d2tcp", "d3", "pdq", "ndp"] {
                let dir = place.path().join(format!("key={point}/{transport}/seed-1"));
                write_sampled(&dir, transport, 1, 400, &queues, &gauges);
            }
        }
        html(place.path()).unwrap()
    };
    let one = sized(1);
    assert!(one.contains("\"Transport state\"") && one.contains("\"Queue lengths\""));
    assert!(one.len() < 2_500_000, "{} bytes", one.len());
    let many = sized(20);
    assert!(many.len() < 5_000_000, "{} bytes", many.len());
    assert!(many.contains("\"Queue lengths\"") && !many.contains("\"Transport state\""));
    assert!(many.contains("is left out to limit the size of the page"));
}

#[test]
fn tables_and_texts_need_no_script() {
    let (_place, dir) = place(&plan("x <y>", &["tcp", "ndp"], 1));
    let page = html(&dir).unwrap();
    let (_, rest) = page.split_once("<noscript>").unwrap();
    let plain = rest.split_once("</noscript>").unwrap().0;
    let data = data(&page);
    for row in section(&data, "summary")["body"]["rows"].as_array().unwrap() {
        for cell in row["cells"].as_array().unwrap() {
            assert!(plain.contains(&format!(">{}</td>", escaped(cell.as_str().unwrap()))));
        }
    }
    assert!(plain.contains("<th scope=\"col\">Deadlines met (%)</th>"), "{plain}");
    assert!(plain.contains("<pre>name = &quot;x&quot;</pre>"), "{plain}");
    assert!(plain.contains("<p class=\"lead\">about it</p>"), "{plain}");
}

#[test]
fn the_page_asks_nothing_of_the_network() {
    let (_place, dir) = place(&plan("x", &["tcp"], 1));
    let page = html(&dir).unwrap();
    let addresses: Vec<_> = page.match_indices("http").collect();
    // The name of SVG's vocabulary is an address that nobody asks.
    for (at, _) in addresses {
        let rest = &page[at..];
        assert!(rest.starts_with("http://www.w3.org/2000/svg") || rest.starts_with("http-equiv"));
    }
}

#[test]
fn pages_do_not_depend_on_the_number_of_threads() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("results");
    for seed in 1..=7 {
        write_run(&dir.join(format!("tcp/seed-{seed}")), "tcp", seed, 3 + seed as u32 % 3);
        write_run(&dir.join(format!("ndp/seed-{seed}")), "ndp", seed, 2);
    }
    let page = |threads| super::html(&dir, &palette(), threads).unwrap();
    let one = page(1);
    assert!((2..=16).all(|threads| page(threads) == one));
    // The first damaged run is named, whichever thread finds it.
    for seed in [3, 5] {
        std::fs::write(dir.join(format!("tcp/seed-{seed}/summary.json")), "{").unwrap();
    }
    let damaged = page(1);
    assert!(damaged.contains("2 runs cannot be read") && damaged.contains("tcp/seed-3"));
    assert!(!damaged.contains("tcp/seed-5"));
    assert!((2..=16).all(|threads| page(threads) == damaged));
}

#[test]
fn explained_flows_are_bars_of_their_parts() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("results");
    write_run(&dir.join("tcp/seed-1"), "tcp", 1, 3);
    write_run(&dir.join("ndp/seed-1"), "ndp", 1, 3);
    let is_time = |section: &&Section| section.id == "time";
    let unexplained = page(&Results::of(&dir, 1).unwrap(), "x").unwrap();
    assert!(unexplained.sections.iter().find(is_time).is_none());
    let part = |what: &str, time_ps| ExplainedPart {
        what: what.into(),
        time_ps,
        ..ExplainedPart::default()
    };
    let mut explained = Explained::new("ndp", 1, "all 1");
    explained.flows.push(ExplainedFlow {
        flow: 2,
        time_ps: 5_000_000,
        parts: vec![part("queue", 1_000_000), part("pull", 3_000_000), part("queue", 1_000_000)],
        sentence: "took a while".into(),
        ..ExplainedFlow::default()
    });
    explained.write(&dir.join("ndp/seed-1")).unwrap();
    let page = page(&Results::of(&dir, 1).unwrap(), "x").unwrap();
    let Some(Section { body: Body::Stack(stack), .. }) = page.sections.iter().find(is_time) else {
        panic!("no such section");
    };
    let kinds: Vec<&str> = stack.kinds.iter().map(|kind| kind.name.as_str()).collect();
    assert_eq!(kinds, ["queue", "pull"]);
    let [means, flows] = &stack.views[..] else { panic!("two views") };
    assert_eq!((means.rows[0].label.as_str(), &means.rows[0].micros[..]), ("ndp", &[2.0, 3.0][..]));
    assert_eq!(flows.rows[0].about, "took a while");
    assert_eq!(page.transports[flows.rows[0].transport.unwrap()].name, "ndp");
    // Delay breakdowns of another version are refused, as its runs are.
    explained.format += 1;
    explained.write(&dir.join("ndp/seed-1")).unwrap();
    let error = html(&dir).unwrap_err().to_string();
    assert!(error.contains("explain.json"), "{error}");
}

/// One transport's flows of [`outcome`] as a curve.
fn curve(name: &str, flows: u32) -> crate::Curve {
    let flows = FlowRow::all(&outcome(flows), &[name], |_| Some(Duration::from_micros(1)));
    crate::Curve { name: name.into(), flows }
}

fn met(name: &str, share: f64, half: f64) -> Repeated {
    let mut summary = Summary { transport: name.into(), ..Summary::default() };
    summary[punctual_results::Metric::DeadlinesMet] =
        punctual_results::Figure::known(Some(share), Some(half));
    Repeated { summary, repetitions: Vec::new() }
}

#[test]
fn files_have_names_units_intervals_and_the_line_at_99_per_cent() {
    let draw = || {
        let curves = vec![curve("ndp", 60), curve("tcp", 30)];
        let rows = [met("ndp", 0.997, 0.002), met("tcp", 0.433, 0.066)];
        crate::figures(&palette(), "incast", "40 senders to 1 receiver", curves, &rows)
    };
    let files = draw();
    // To look at: `FIGURES=dir cargo test -p punctual-report`.
    if let Some(dir) = std::env::var_os("FIGURES") {
        for (name, svg) in &files {
            std::fs::write(Path::new(&dir).join(name), svg).unwrap();
        }
    }
    let [("fct.svg", fct), ("deadlines.svg", met)] = &files[..] else { panic!("two files") };
    for part in ["ndp", "tcp", ">10 µs<", "deadline 40 µs", "Flows completed", "incast: flow"] {
        assert!(fct.contains(part), "{part} is not in {fct}");
    }
    for part in ["99.7 ± 0.2 %", "43.3 ± 6.6 %", ">100 %<", ">99 %<", "Deadlines met"] {
        assert!(met.contains(part), "{part} is not in {met}");
    }
    assert_eq!(files, draw());
}

#[test]
fn figures_with_nothing_to_show_are_left_out() {
    let none = crate::Curve { name: "tcp".into(), flows: Vec::new() };
    let rows = [Repeated { summary: Summary::default(), repetitions: Vec::new() }];
    assert!(crate::figures(&palette(), "x", "", vec![none], &rows).is_empty());
}

#[test]
fn names_in_figures_are_escaped_and_many_flows_make_a_small_file() {
    let long = "tcp <with> & a very long description of its parameters";
    let curves = vec![curve(long, 300_000)];
    let files = crate::figures(&palette(), "a < b", &long.repeat(5), curves, &[]);
    let svg = &files[0].1;
    assert!(svg.contains("a &lt; b") && svg.contains('…') && !svg.contains("<with>"));
    assert!(svg.len() < 100_000, "{} bytes", svg.len());
}
