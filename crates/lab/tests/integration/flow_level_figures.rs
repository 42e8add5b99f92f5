//! Flow level beside packet level, and the figures of the PDQ paper that it made at flow level.

use crate::common::{Ran, text};
use punctual_testkit::{assert_figure, markdown_table, print_figure};

/// Links of PDQ's evaluation (§5.1): 1 Gb/s, 0.1 µs propagation and 25 µs processing.
fn network(topology: &str) -> String {
    format!("[network]\n{topology}\nrate = \"1Gbps\"\ndelay = \"25.1us\"\nmtu = \"1500B\"\n")
}

const TREE: &str = "topology = \"tree\"";
const UNIFORM: &str = "{ uniform = [\"2KB\", \"198KB\"] }";
const PARETO: &str = "{ pareto = { mean = \"100KB\", shape = 1.1, cap = \"10MB\" } }";

struct Experiment<'a> {
    transports: &'a str,
    network: String,
    settings: &'a str,
    traffic: String,
    repetitions: u32,
}

impl Experiment<'_> {
    fn run(&self, level: &str) -> Vec<Ran> {
        let Experiment { transports, network, settings, traffic, repetitions } = self;
        text(&format!(
            "transports = [{transports}]\n{network}{settings}[[traffic]]\n{traffic}\n[run]\n\
             level = \"{level}\"\nduration = \"60s\"\nrepetitions = {repetitions}\n\
             network_trace = false\n"
        ))
    }
}

/// The mean over the runs of a transport.
fn mean(runs: &[Ran], name: &str, of: impl Fn(&Ran) -> f64) -> f64 {
    let own: Vec<f64> = runs.iter().filter(|ran| ran.name() == name).map(of).collect();
    own.iter().sum::<f64>() / own.len() as f64
}

fn aggregation(flows: u32, sizes: &str) -> String {
    format!("pattern = \"incast\"\nreceiver = 0\nworkers = {flows}\nsizes = {sizes}")
}

fn ten_each(sizes: &str) -> String {
    format!("pattern = \"permutation\"\nflows_each = 10\nsizes = {sizes}")
}

/// Mean completion times of both levels: within 10 % for PDQ and RCP, or a known difference.
#[test]
#[ignore = "study: cargo xtask figures"]
fn flow_and_packet_level() {
    let transports = "\"pdq\", \"rcpdc\", \"d3\", \"dctcp\", \"ndp\"";
    let names = ["pdq", "rcpdc", "d3", "dctcp", "ndp"];
    let long = "{ uniform = [\"20KB\", \"1980KB\"] }";
    let fat_tree = || network("topology = \"fat-tree\"\nk = 8");
    let mut rows = Vec::new();
    for (id, what, network, traffic, repetitions) in [
        ("tree", "tree, 10 flows to one host", network(TREE), aggregation(10, UNIFORM), 20),
        ("fat-tree", "fat tree of 128, 10 flows each", fat_tree(), ten_each(UNIFORM), 2),
        ("fat-tree-long", "the same, 1 MB on average", fat_tree(), ten_each(long), 1),
    ] {
        let settings = "";
        let experiment = Experiment { transports, network, settings, traffic, repetitions };
        let (packet, flow) = (experiment.run("packet"), experiment.run("flow"));
        let mut row = vec![what.to_owned()];
        for name in names {
            let (packet, flow) =
                (mean(&packet, name, Ran::mean_fct_ms), mean(&flow, name, Ran::mean_fct_ms));
            let difference = flow / packet - 1.0;
            row.push(format!("{packet:.2}, {flow:.2}: {:+.0} %", difference * 100.0));
            if ["pdq", "rcpdc"].contains(&name) {
                assert_figure(&format!("flow-level-{id}-{name}"), difference, -0.1..=0.1);
            }
        }
        rows.push(row);
    }
    let head = ["FCT mean, packet, flow (ms)", "PDQ", "RCP (RCPdc)", "D3", "DCTCP", "NDP"];
    print_figure("flow-level-agreement", &markdown_table(&head, &rows));
}

/// PDQ and RCP on fat trees of growing size, at both levels.
#[test]
#[ignore = "study: cargo xtask figures"]
fn pdq_figures_8a_and_8b() {
    let transports = "\"pdq\", \"rcpdc\", \"d3\"";
    let settings = "[transport.d3]\nquenching = true\n";
    let deadlines = "deadlines = { exponential = { mean = \"20ms\", floor = \"3ms\" } }";
    let mut rows = Vec::new();
    let mut times = Vec::new();
    for k in [4, 6, 8, 10, 12, 16] {
        let hosts = k * k * k / 4;
        for level in ["packet", "flow"] {
            if level == "packet" && k > 8 {
                continue;
            }
            let network = || network(&format!("topology = \"fat-tree\"\nk = {k}"));
            let repetitions = 2;
            let traffic = format!("{}\n{deadlines}", ten_each(UNIFORM));
            let experiment =
                Experiment { transports, network: network(), settings, traffic, repetitions };
            let runs = experiment.run(level);
            let met = |name| {
                let share = |ran: &Ran| ran.met() as f64 / ran.outcome.flows.len() as f64;
                mean(&runs, name, share) * 100.0
            };
            let mut row = vec![format!("{hosts}, {level}")];
            row.extend(["pdq", "d3", "rcpdc"].map(|name| format!("{:.1}", met(name))));
            rows.push(row);
            assert!(met("pdq") > met("d3") && met("d3") > met("rcpdc"), "{hosts} {level}");
            let traffic = ten_each(UNIFORM);
            let experiment =
                Experiment { transports, network: network(), settings, traffic, repetitions };
            let runs = experiment.run(level);
            let fct = |name| mean(&runs, name, Ran::mean_fct_ms);
            let mut row = vec![format!("{hosts}, {level}")];
            row.extend(["pdq", "d3", "rcpdc"].map(|name| format!("{:.2}", fct(name))));
            assert!(fct("pdq") < fct("d3") && fct("pdq") < fct("rcpdc"), "{hosts} {level}");
            times.push(row);
        }
    }
    let head = ["deadlines met (%), servers", "PDQ", "D3, quenching", "RCP (RCPdc)"];
    print_figure("pdq-figure-8a", &markdown_table(&head, &rows));
    let head = ["FCT mean (ms), servers", "PDQ", "D3", "RCP (RCPdc)"];
    print_figure("pdq-figure-8b", &markdown_table(&head, &times));
}

/// The completion time of each flow with PDQ over that with RCP, 128 servers, flow level.
#[test]
fn pdq_figure_8e() {
    let experiment = Experiment {
        transports: "\"pdq\", \"rcpdc\"",
        network: network("topology = \"fat-tree\"\nk = 8"),
        settings: "",
        traffic: ten_each(UNIFORM),
        repetitions: 1,
    };
    let runs = experiment.run("flow");
    let (pdq, rcp) = (runs[0].fcts_ms(), runs[1].fcts_ms());
    let ratios: Vec<f64> = pdq.iter().zip(&rcp).map(|(pdq, rcp)| pdq / rcp).collect();
    let share = |is: fn(f64) -> bool| {
        ratios.iter().filter(|r| is(**r)).count() as f64 / ratios.len() as f64
    };
    let worst = ratios.iter().copied().fold(0.0, f64::max);
    let (half, above, twice) = (share(|r| r <= 0.5), share(|r| r > 1.0), share(|r| r > 2.0));
    assert_figure("pdq-figure-8e-half", half, 0.3..=0.5);
    assert_figure("pdq-figure-8e-slower", above, 0.05..=0.15);
    assert_figure("pdq-figure-8e-twice", twice, 0.0..=0.009);
    let per_cent = |share: f64| format!("{:.1} %", share * 100.0);
    let rows = [
        vec!["at most half".to_owned(), "about 40 %".to_owned(), per_cent(half)],
        vec!["slower".to_owned(), "5 to 15 %".to_owned(), per_cent(above)],
        vec!["more than twice".to_owned(), "at most 0.9 %".to_owned(), per_cent(twice)],
        vec!["slowest".to_owned(), "2.57".to_owned(), format!("{worst:.2}")],
    ];
    let head = ["FCT with PDQ over FCT with RCP", "paper", "flow level"];
    print_figure("pdq-figure-8e", &markdown_table(&head, &rows));
}

/// Unknown sizes: ten flows to one host.
#[test]
#[ignore = "study: cargo xtask figures"]
fn pdq_figure_10() {
    let mut rows = Vec::new();
    for (id, name, sizes) in [("uniform", "uniform", UNIFORM), ("pareto", "heavy-tailed", PARETO)] {
        for level in ["packet", "flow"] {
            let fct = |transport: &str, order: &str| {
                let settings = format!("[transport.pdq]\ncriticality = \"{order}\"\n");
                let experiment = Experiment {
                    transports: &format!("\"{transport}\""),
                    network: network(TREE),
                    settings: &settings,
                    traffic: aggregation(10, sizes),
                    repetitions: 200,
                };
                mean(&experiment.run(level), transport, Ran::mean_fct_ms)
            };
            let known = fct("pdq", "deadline");
            let estimated = fct("pdq", "estimated");
            let random = fct("pdq", "random");
            let rcp = fct("rcpdc", "deadline");
            rows.push(vec![
                format!("{name}, {level}"),
                format!("{known:.2}"),
                format!("{estimated:.2}"),
                format!("{random:.2}"),
                format!("{rcp:.2}"),
            ]);
            let figure = format!("pdq-figure-10-{id}-{level}-estimated");
            assert_figure(&figure, estimated / rcp, 0.0..1.0);
            assert!(known < estimated && known < rcp, "{name}, {level}");
        }
    }
    let head = ["FCT mean (ms)", "known", "estimated", "random", "RCP (RCPdc)"];
    print_figure("pdq-figure-10", &markdown_table(&head, &rows));
}

/// Aging on a fat tree of 250 servers: flows that all start together, and flows that keep arriving.
#[test]
#[ignore = "study: cargo xtask figures"]
fn pdq_figure_12() {
    let arriving = format!(
        "pattern = \"permutation\"\narrivals = {{ poisson-load = 0.7 }}\nstop = \"300ms\"\n\
         sizes = {UNIFORM}"
    );
    let mut rows = Vec::new();
    for (id, what, traffic) in [
        ("together", "10 each at once", ten_each(UNIFORM)),
        ("arriving", "arriving at 0.7", arriving),
    ] {
        let mut none = (0.0, 0.0);
        for aging in [0, 1, 3, 10] {
            let settings = format!("[transport.pdq]\naging = {aging}\n");
            let experiment = Experiment {
                transports: "\"pdq\"",
                network: network("topology = \"fat-tree\"\nk = 10"),
                settings: &settings,
                traffic: traffic.clone(),
                repetitions: 3,
            };
            let runs = experiment.run("flow");
            let worst = |ran: &Ran| ran.fcts_ms().into_iter().fold(0.0, f64::max);
            let (fct, longest) = (mean(&runs, "pdq", Ran::mean_fct_ms), mean(&runs, "pdq", worst));
            if aging == 0 {
                none = (fct, longest);
            }
            let (more, less) = (fct / none.0 - 1.0, longest / none.1 - 1.0);
            rows.push(vec![
                format!("{what}, {aging}"),
                format!("{fct:.2}"),
                format!("{:+.1} %", more * 100.0),
                format!("{longest:.1}"),
                format!("{:+.0} %", less * 100.0),
            ]);
            if aging == 1 {
                assert_figure(&format!("pdq-figure-12-{id}-longest"), less, -0.6..=-0.3);
                assert_figure(&format!("pdq-figure-12-{id}-mean"), more, -0.05..0.05);
            }
        }
    }
    let head = ["flows, aging", "FCT mean (ms)", "change", "longest FCT (ms)", "change"];
    print_figure("pdq-figure-12", &markdown_table(&head, &rows));
}
