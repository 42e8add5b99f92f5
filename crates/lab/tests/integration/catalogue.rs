//! The catalogue of experiments in `experiments/`.

use punctual_lab::catalogue::{Catalogue, ClaimVerdict, On, ReproduceError, Test};
use punctual_transports::AnyTransport;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

fn catalogue() -> Catalogue {
    Catalogue::load(&folder()).unwrap_or_else(|e| panic!("{e}"))
}

/// An error with the place in its file.
fn told(error: &ReproduceError) -> String {
    match error {
        ReproduceError::SetUp { source, .. } => format!("{error}\n{}", source.render(false)),
        other => other.to_string(),
    }
}

/// The specification's tables have 14 rows of D3, 17 and the two blind figures of D2TCP, 19 of PDQ
/// and 21 of NDP. The matrix of all transports has 7 workloads.
#[test]
fn every_row_of_the_evaluation_tables_has_a_claim() {
    let catalogue = catalogue();
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &catalogue.rows {
        *rows.entry(&row.paper).or_default() += 1;
    }
    let expected = [("d2tcp", 19), ("d3", 14), ("matrix", 7), ("ndp", 21), ("pdq", 19)];
    assert_eq!(rows.into_iter().collect::<Vec<_>>(), expected);
    let uncovered = catalogue.uncovered();
    assert!(uncovered.is_empty(), "rows without a claim: {uncovered:?}");
}

/// Every scenario of every part and reading is right, in full and quick, and every claim can be
/// computed from the runs that are planned.
#[test]
fn every_experiment_is_sound() {
    let catalogue = catalogue();
    let mut faults = Vec::new();
    for experiment in &catalogue.experiments {
        for quick in [false, true] {
            if let Err(error) = experiment.check::<AnyTransport>(quick, &catalogue.folder) {
                faults.push(told(&error));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

/// A claim names its source and a tolerance where it comes from; a blind one has none.
#[test]
fn claims_name_their_sources() {
    for experiment in &catalogue().experiments {
        for claim in &experiment.claims {
            let what = format!("{}, {}", experiment.id, claim.id);
            match &claim.test {
                Test::Number { .. } => {
                    assert!(!claim.source.is_empty() && !claim.paper.is_empty(), "{what}");
                    assert!(!claim.tolerance_from.is_empty(), "{what}: whose tolerance?");
                }
                Test::Order { .. } => assert!(!claim.paper.is_empty(), "{what}"),
                Test::Blind { .. } => assert!(claim.paper.is_empty(), "{what} is blind"),
                Test::Nothing => assert!(claim.cannot_run.is_some(), "{what}"),
            }
        }
    }
    assert_eq!(ClaimVerdict::CannotRun.name(), "cannot-run");
}

/// One seed is no evidence: what a claim rests on runs with several. On a testbed, where a run draws
/// nothing but real packets, the number of seeds is in the result.
#[test]
fn no_claim_rests_on_one_seed() {
    let catalogue = catalogue();
    let mut faults = Vec::new();
    for experiment in &catalogue.experiments {
        let simulated = experiment.parts.iter().filter(|part| part.on == On::Simulator);
        for (part, quick) in simulated.flat_map(|part| [(part, false), (part, true)]) {
            let study = experiment.study::<AnyTransport>(part, None, quick, &catalogue.folder);
            let study = study.unwrap_or_else(|e| panic!("{}", told(&e)));
            let seeds: BTreeSet<u64> = study.runs().iter().map(|run| run.seed).collect();
            if seeds.len() < 2 {
                faults.push(format!("{}, part {}, quick {quick}", experiment.id, part.name));
            }
        }
    }
    assert!(faults.is_empty(), "one seed: {faults:#?}");
}

/// What the papers leave open and verdicts may depend on, and a reading of each.
#[test]
fn what_papers_leave_open_has_readings() {
    let catalogue = catalogue();
    for (what, id, reading) in [
        ("phases of senders", "ndp/fig2", "clocks-100ppm"),
        ("buffers", "ndp/fig16", "released-law-large-buffer"),
        ("start times", "d3/fig16", "together"),
        ("who may end at a measured host", "ndp/fig15", "long-flows-end-anywhere"),
        ("which links are slowed", "ndp/fig22", "both-directions"),
        ("which links are slowed", "ndp/fig22", "another-pod"),
        ("gap distribution of closed loops", "ndp/fig23", "gaps-fixed"),
        ("TCP's initial window", "d3/fig11", "window-10"),
        ("whose rate it is", "d3/fig14", "both-senders"),
        ("whose rate it is", "d3/fig15", "both-senders"),
        ("the fan-in", "d2tcp/tighter", "fan-in-40"),
        ("flows per server", "pdq/fig4", "ten-per-server"),
        ("TCP's least timeout", "pdq/fig9", "rto-1ms"),
        ("the aging rate", "pdq/fig12", "aging-3"),
        ("buffers", "ndp/fig9", "buffer-20-packets"),
        ("marking thresholds", "ndp/fig15", "thresholds-of-the-text"),
        ("where an incast starts within a bin", "ndp/fig19", "starts-within-a-bin"),
    ] {
        let experiment = catalogue.experiments.iter().find(|e| e.id == id).expect(id);
        let has_reading = experiment.readings.iter().any(|own| own.name == reading);
        assert!(has_reading && !experiment.open.is_empty(), "{what}: {id}");
    }
}

/// Tests read what the catalogue expects with `claimed` of the testkit, which reads the files by
/// itself.
#[test]
fn tests_read_the_same_expectations() {
    use std::ops::Bound;
    for experiment in &catalogue().experiments {
        for claim in &experiment.claims {
            let end = |end: Option<f64>| end.map_or(Bound::Unbounded, Bound::Included);
            let expected = match claim.test {
                Test::Number { at_least, at_most, .. } => (end(at_least), end(at_most)),
                Test::Order { .. } => (Bound::Excluded(1.0), Bound::Unbounded),
                Test::Blind { .. } | Test::Nothing => continue,
            };
            // A claim that cannot run may have no bounds.
            if expected != (Bound::Unbounded, Bound::Unbounded) {
                let found = punctual_testkit::claimed(&experiment.id, &claim.id);
                assert_eq!(found.ends(), expected, "{}, {}", experiment.id, claim.id);
            }
            assert_eq!(punctual_testkit::published(&experiment.id, &claim.id), claim.paper);
        }
    }
}

/// Numbers of paragraphs that are arithmetic of the set-up: experiment, number, how it follows.
const ARITHMETIC: [(&str, &str, &str); 10] = [
    ("d2tcp/coexistence", "1", "alpha where every packet is marked"),
    ("d3/fig14", "0.83", "2 x 2000/s x 26 KB"),
    ("d3/multihop", "906", "3 x 302 Mb/s"),
    ("ndp/fig4", "1125", "72,000 bytes are 1,125 headers of 64"),
    ("ndp/fig10", "1.1", "200 KB at a seventh of 10 Gb/s"),
    ("ndp/fig13", "1.45", "200 x 9,064 bytes at 10 Gb/s"),
    ("ndp/fig17", "54000", "54KB in bytes"),
    ("ndp/fig17", "12000", "12KB in bytes"),
    ("ndp/fig23", "1.44", "1 ms / ln 2"),
    ("pdq/fig10", "50", "the step of estimated sizes, in KB"),
];

/// The numbers of a text, without thousands separators; names of experiments are no numbers.
fn numbers(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for word in text.split(|c: char| c.is_whitespace()).filter(|word| !word.contains("/fig")) {
        let parts = word.split(|c: char| !c.is_ascii_digit() && c != '.' && c != ',');
        for part in parts.map(|part| part.replace(',', "")) {
            let number = part.trim_matches('.');
            if number.contains(|c: char| c.is_ascii_digit()) {
                found.insert(number.to_owned());
            }
        }
    }
    found
}

/// A paragraph that explains a difference stands alone and quotes no measured number, which the next
/// results would make wrong: its numbers are those of the file, or arithmetic of them. What other
/// readings give is printed from the results.
#[test]
fn explanations_quote_no_measured_number() {
    let (mut faults, mut used) = (Vec::new(), BTreeSet::new());
    for experiment in &catalogue().experiments {
        let is_set_up = |line: &&str| !line.trim_start().starts_with("differs");
        let set_up: String =
            experiment.text.lines().filter(is_set_up).flat_map(|line| [line, "\n"]).collect();
        let known = numbers(&set_up);
        for claim in &experiment.claims {
            let place = format!("{}, {}", experiment.id, claim.id);
            if ["As above", "As the", "As for", "Likewise", "The same"]
                .iter()
                .any(|start| claim.differs.starts_with(start))
            {
                faults.push(format!("{place}: leans on another claim: {}", claim.differs));
            }
            for number in numbers(&claim.differs).difference(&known) {
                let own = ARITHMETIC.iter().find(|(id, n, _)| *id == experiment.id && n == number);
                match own {
                    Some((id, number, _)) => _ = used.insert((*id, *number)),
                    None => faults.push(format!("{place}: where is {number} from?")),
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for (id, number, how) in ARITHMETIC {
        assert!(used.contains(&(id, number)), "{id}: nothing says {number} ({how}): remove it");
    }
}

/// Settings of a transport or of its queue that differ between figures of a paper because the paper
/// says so: paper, setting, why.
const STATED: [(&str, &str, &str); 9] = [
    ("d3", "transport.tcppr.levels", "three levels beside background traffic"),
    ("d3", "transport.tcppr.mean_deadline", "the mean deadline of the figure"),
    ("d2tcp", "transport.d3.count_inversions", "a measurement"),
    ("ndp", "transport.ndp.initial_window", "23 and 15 in the authors' scripts, 30 in the text"),
    ("ndp", "transport.ndp.payload", "9000 bytes, whatever the MTU"),
    ("ndp", "transport.tcp.rto_min", "200 ms on the testbed"),
    ("ndp", "transport.tcp.rto_initial", "200 ms on the testbed"),
    ("pdq", "transport.m-pdq.subflows", "three in 11a; 11b and 11c vary them"),
    ("matrix", "", "each workload has the settings of its paper"),
];

/// Experiments with a set-up of their own: a stand-in for a trace, and a testbed of 1 Gb/s whose
/// marking threshold the paper gives.
const OWN_SET_UP: [&str; 2] = ["d3/fig4", "d2tcp/testbed"];

/// Experiments about a queue: a switch of their own, a queue that holds eight packets exactly, and the
/// sweep of the buffer.
const OWN_QUEUE: [&str; 3] = ["ndp/fig2", "ndp/fig3", "ndp/fig17"];

/// No protocol parameter has a value that only one figure wants: in all figures of a paper a
/// transport has the same settings, but for those that the paper varies itself.
#[test]
fn a_transport_has_the_same_settings_in_all_figures_of_a_paper() {
    let mut seen: BTreeMap<(String, String), BTreeMap<String, Vec<String>>> = BTreeMap::new();
    let catalogue = catalogue();
    for experiment in &catalogue.experiments {
        if OWN_SET_UP.contains(&&*experiment.id) {
            continue;
        }
        let file: toml::Table = toml::from_str(&experiment.text).expect("it was read before");
        let transports: Vec<&str> = file["transports"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|t| t.as_str())
            .collect();
        for section in ["transport", "queue"] {
            let none = toml::Table::new();
            let table = file.get(section).and_then(|t| t.as_table()).unwrap_or(&none);
            // A queue for all transports is the network's.
            if section == "queue" && !OWN_QUEUE.contains(&&*experiment.id) {
                let all = if table.contains_key("kind") { table } else { &none };
                let place = (experiment.paper().to_owned(), "queue".to_owned());
                let text = all.to_string().replace('\n', ", ");
                seen.entry(place).or_default().entry(text).or_default().push(experiment.id.clone());
            }
            if table.contains_key("kind") {
                continue;
            }
            for transport in &transports {
                let own = table.get(*transport).and_then(|t| t.as_table()).unwrap_or(&none);
                let mut own = own.clone();
                own.retain(|key, _| {
                    let name = format!("{section}.{transport}.{key}");
                    let paper = experiment.paper();
                    !STATED.iter().any(|(p, s, _)| *p == paper && (s.is_empty() || *s == name))
                });
                let place = (experiment.paper().to_owned(), format!("{section}.{transport}"));
                let text = own.to_string().replace('\n', ", ");
                seen.entry(place).or_default().entry(text).or_default().push(experiment.id.clone());
            }
        }
    }
    let several: Vec<_> = seen.iter().filter(|(_, settings)| settings.len() > 1).collect();
    assert!(several.is_empty(), "settings that differ between figures: {several:#?}");
}

/// Settings of a transport or a queue that a part or a sweep of an experiment changes, because the
/// paper's figure itself compares them: experiment, setting, why.
const VARIED: [(&str, &str, &str); 24] = [
    ("d3/fig1-2", "transport.d3.quenching", "Figure 2 compares both"),
    ("d3/fig9", "transport.tcppr.mean_deadline", "the mean deadline of each point"),
    ("d3/fig15", "transport.d3.quenching", "Figure 15 compares both"),
    ("d3/tab1", "transport.tcp.rto_min", "Table 1 has TCP with timeouts of 10 ms"),
    ("d3/tab1", "transport.tcp.rto_initial", "as above"),
    ("d2tcp/cap-on-d", "transport.d2tcp.d_min", "the sweep of the cap"),
    ("d2tcp/cap-on-d", "transport.d2tcp.d_max", "the sweep of the cap"),
    ("d2tcp/coexistence", "queue.tcp", "TCP's long flows pass the ports of the answers"),
    ("d2tcp/coexistence", "transport.tcp", "the timeouts of Figure 9"),
    ("pdq/fig3a", "transport.pdq.variant", "Figure 3a compares PDQ's variants"),
    ("pdq/fig3b", "transport.pdq.variant", "Figure 3b compares PDQ's variants"),
    ("pdq/fig3c", "transport.pdq.variant", "Figure 3c compares PDQ's variants"),
    ("pdq/fig5ab", "transport.pdq.variant", "Figure 5a compares PDQ's variants"),
    ("pdq/fig10", "transport.pdq.criticality", "Figure 10 compares known and unknown sizes"),
    ("pdq/fig12", "transport.pdq.aging", "the sweep of the aging rate"),
    ("ndp/fig2", "queue", "Figure 2 compares two switches"),
    ("ndp/fig11", "transport.ndp.initial_window", "the sweep of the window"),
    ("ndp/fig13", "transport.ndp.pull_jitter", "Figure 13 compares with and without"),
    ("ndp/fig17", "transport.ndp.initial_window", "the sweep of the window"),
    ("ndp/fig17", "transport.ndp.payload", "Figure 17 has packets of 1.5 KB too"),
    ("ndp/fig17", "queue", "the sweep of the buffer, and eight packets of 1.5 KB"),
    ("ndp/fig20", "transport.ndp.initial_window", "Figure 20 has windows of 23, 10 and 1"),
    ("ndp/fig22", "transport.ndp.scoreboard", "Figure 22 compares with and without"),
    ("ndp/text-other", "transport.ndp.paths", "the text compares who chooses paths"),
];

/// pHost is in one experiment of the NDP paper alone, with the set-up of that paper.
const OWN_OF_PHOST: [&str; 2] = ["phost-incast", "phost-permutation"];

/// What a part or a sweep changes of a transport or a queue is what the paper's figure compares.
#[test]
fn parts_change_only_what_their_figure_compares() {
    let mut changed: BTreeSet<(String, String)> = BTreeSet::new();
    let is_setting = |key: &str| key.starts_with("transport.") || key.starts_with("queue");
    for experiment in &catalogue().experiments {
        for part in experiment.parts.iter().filter(|part| part.scenario.is_none()) {
            let is_phost = experiment.id == "ndp/text-other" && OWN_OF_PHOST.contains(&&*part.name);
            let all = part.set.iter().chain(&part.quick);
            let keys = all.filter_map(|change| change.split('=').next());
            let keys = keys.filter(|key| is_setting(key) && !is_phost);
            changed.extend(keys.map(|key| (experiment.id.clone(), key.to_owned())));
        }
        let file: toml::Table = toml::from_str(&experiment.text).expect("it was read before");
        let mut axes = Vec::new();
        keys_below(file.get("sweep"), "", &mut axes);
        for axis in axes {
            // `linked.NAME.KEY`
            let key = match axis.strip_prefix("linked.") {
                Some(linked) => linked.split_once('.').expect("a name").1.to_owned(),
                None => axis,
            };
            if is_setting(&key) {
                changed.insert((experiment.id.clone(), key));
            }
        }
    }
    let is_listed = |(id, key): &&(String, String)| {
        VARIED.iter().any(|(own, setting, _)| {
            own == id && (key == setting || key.starts_with(&format!("{setting}.")))
        })
    };
    let unlisted: Vec<_> = changed.iter().filter(|change| !is_listed(change)).collect();
    assert!(unlisted.is_empty(), "settings that only one figure wants: {unlisted:#?}");
    for (id, setting, why) in VARIED {
        let is_used = changed.iter().any(|(own, key)| own == id && key.starts_with(setting));
        assert!(is_used, "{id} does not change {setting} ({why}): remove the entry");
    }
}

/// The dotted keys of all values below a table.
fn keys_below(value: Option<&toml::Value>, prefix: &str, keys: &mut Vec<String>) {
    match value {
        Some(toml::Value::Table(table)) => {
            for (key, value) in table {
                let dot = if prefix.is_empty() { "" } else { "." };
                keys_below(Some(value), &format!("{prefix}{dot}{key}"), keys);
            }
        }
        Some(_) => keys.push(prefix.to_owned()),
        None => {}
    }
}
