//! Offered load against arithmetic, and warnings about misleading loads.

use punctual_core::Duration;
use punctual_lab::{Limited, OfferedLoad, Study};
use std::path::Path;

/// Four hosts at 1 Gb/s.
const STAR: &str = r#"
transports = ["ideal-fair"]
[network]
topology = "star"
hosts = 4
rate = "1Gbps"
delay = "10us"
[run]
duration = "100ms"
"#;

fn load_of(text: &str) -> OfferedLoad {
    let study = Study::from_text("test", text, Path::new("."), &[]);
    let study = study.unwrap_or_else(|e| panic!("{e}"));
    study.offered_load(&study.points()[0].scenario).unwrap_or_else(|e| panic!("{e}"))
}

fn on_star(traffic: &str) -> OfferedLoad {
    load_of(&format!("{STAR}\n[[traffic]]\n{traffic}"))
}

/// A link that is slow from the start has its own rate; one that becomes slow later does not. Host 3
/// gets 0.843 of 1 Gb/s, 4.2 times what 200 Mb/s carry.
#[test]
fn a_link_that_is_slow_from_the_start_counts_with_its_rate() {
    let traffic =
        "pattern = 'stride'\nstride = 1\narrivals = { periodic = '1ms' }\nsizes = '100KB'";
    let link = "[[link]]\nbetween = ['host 3', 'rack 0']\nrate = '200Mbps'";
    // Ideal schedulers refuse such links.
    let star = STAR.replace("ideal-fair", "tcp");
    let slow = load_of(&format!("{star}\n[[traffic]]\n{traffic}\n{link}"));
    let busiest = slow.busiest_receiver.expect("flows arrive");
    assert!(
        busiest.name == "host 3" && (busiest.load - 5.0 * 0.843_056).abs() < 1e-5,
        "{busiest:?}"
    );
    assert!(slow.warnings[0].starts_with("offered load is 4.22 at host 3"), "{:?}", slow.warnings);
    let later = load_of(&format!("{star}\n[[traffic]]\n{traffic}\n{link}\nat = '50ms'"));
    assert_eq!(later.warnings, Vec::<String>::new());
}

/// 100,000 B are 69 packets, each with 40 B of headers and 38 B of framing: 105,382 B, which take
/// a link of 1 Gb/s 843 µs.
#[test]
fn load_is_bytes_on_the_wire_over_time_and_rate() {
    let load =
        on_star("pattern = 'stride'\nstride = 1\narrivals = { periodic = '1ms' }\nsizes = '100KB'");
    let tiers: Vec<(&str, f64)> = load.tiers.iter().map(|t| (&*t.tier, t.mean)).collect();
    assert_eq!(tiers.len(), 2, "{tiers:?}");
    for (tier, mean) in tiers {
        assert!((mean - 0.843_056).abs() < 1e-6, "{tier}: {mean}");
    }
    assert_eq!(load.warnings, Vec::<String>::new());
}

/// An incast of three: each sender's link has a third of the receiver's load.
#[test]
fn the_busiest_host_is_named() {
    let load = on_star(
        "pattern = 'incast'\nreceiver = 2\narrivals = { periodic = '4ms' }\nsizes = '100KB'",
    );
    let receiver = load.busiest_receiver.clone().expect("somebody receives");
    assert_eq!(receiver.name, "host 2");
    assert!((receiver.load - 3.0 * 0.843_056 / 4.0).abs() < 1e-6, "{receiver:?}");
    let sender = load.busiest_sender.clone().expect("somebody sends");
    assert!((sender.load - 0.843_056 / 4.0).abs() < 1e-6, "{sender:?}");
    assert!(load.to_string().contains("host 2 receives 0.63"), "{load}");
    assert_eq!(load.warnings, Vec::<String>::new());
}

#[test]
fn load_above_one_is_said_where_it_is_not_chance() {
    let above = on_star(
        "pattern = 'incast'\nreceiver = 2\narrivals = { periodic = '2ms' }\nsizes = '100KB'",
    );
    assert_eq!(above.warnings.len(), 1, "{above:?}");
    assert!(above.warnings[0].starts_with("offered load is 1.26 at host 2 (receiving)"));
    // Deadlines are what a queue makes flows miss, and there are none.
    assert_eq!(above.doubt(Limited::Deadlines), None);
    // A few flows of 100 KB at 0.5: some host will have drawn more than it can carry.
    for seed in 1..20 {
        let few = format!(
            "pattern = 'random'\narrivals = {{ poisson-load = 0.5 }}\nsizes = '2MB'\n[run]\n\
             duration = '100ms'\nseed = {seed}"
        );
        let text = STAR.replace("[run]\nduration = \"100ms\"\n", "");
        let few = load_of(&format!("{text}\n[[traffic]]\n{few}"));
        assert_eq!(few.warnings, Vec::<String>::new(), "{few}");
    }
    // With many flows a load of 1.3 is not chance.
    let many = on_star("pattern = 'random'\narrivals = { poisson-load = 1.3 }\nsizes = '10KB'");
    assert!(many.warnings.iter().any(|w| w.starts_with("offered load is 1.")), "{many:?}");
}

/// The load of random arrivals is the expected one. With web-search sizes, whose mean of 1.7 MB is
/// made by a few large flows, the flows that a short run draws bring far less or far more.
#[test]
fn heavy_tails_do_not_hide_a_load_above_one() {
    let network = STAR.replace("hosts = 4", "hosts = 128").replace("1Gbps", "10Gbps");
    for seed in 1..6 {
        let network = network.replace("[run]", &format!("[run]\nseed = {seed}"));
        let traffic = "pattern = 'random'\narrivals = { poisson-load = 1.3 }\n\
                       sizes = 'web-search'\nstop = '2ms'\ndeadlines = '20ms'";
        let load = load_of(&format!("{network}\n[[traffic]]\n{traffic}"));
        // 1.3 is of payload; headers and framing add 78 B to each packet of 1460 B at most.
        let tier = |name: &str| load.tiers.iter().find(|t| t.tier == name).expect(name).mean;
        assert!((1.3..1.3 * 1.1).contains(&tier("host-up")), "{load}");
        assert!((1.3..1.3 * 1.1).contains(&tier("host-down")), "{load}");
        assert!(load.warnings.iter().any(|w| w.starts_with("offered load is 1.")), "{load:?}");
        assert!(load.doubt(Limited::Deadlines).is_some(), "{load:?}");
    }
    // Eight senders at 0.3 each make 2.4 at their receiver, whatever they draw.
    let network = STAR.replace("hosts = 4", "hosts = 9").replace("1Gbps", "10Gbps");
    let traffic = "pattern = 'incast'\nreceiver = 0\nworkers = 8\n\
                   arrivals = { poisson-load = 0.3 }\nsizes = 'web-search'\nstop = '20ms'";
    let load = load_of(&format!("{network}\n[[traffic]]\n{traffic}"));
    let receiver = load.busiest_receiver.clone().expect("a receiver").load;
    assert!((2.4..2.4 * 1.1).contains(&receiver), "{load}");
    assert!(load.warnings.iter().any(|w| w.starts_with("offered load is 2.")), "{load:?}");
}

#[test]
fn arrivals_that_end_too_soon_are_said() {
    let with = |load: f64, stop: &str, rest: &str| {
        on_star(&format!(
            "pattern = 'random'\narrivals = {{ poisson-load = {load} }}\nsizes = '10KB'\nstop = '{stop}'\n{rest}"
        ))
    };
    let deadlines = "deadlines = '20ms'";
    let short = with(0.6, "50ms", deadlines);
    let said = "traffic 1: flows arrive for 50ms only, less than 3 deadlines of 20ms";
    assert!(short.warnings[0].starts_with(said), "{short:?}");
    assert_eq!(short.doubt(Limited::Deadlines), None);
    assert_eq!(with(0.6, "60ms", deadlines).warnings, Vec::<String>::new());
    assert_eq!(with(0.6, "50ms", "").warnings, Vec::<String>::new());
    // Two links of 10 µs there and back, and packets on them: some 65 µs.
    assert!(with(0.6, "500us", "").warnings[0].contains("round trips"));
    let both = with(1.4, "50ms", deadlines);
    assert_eq!(both.warnings.len(), 2, "{both:?}");
}

/// Three senders at 0.35 of data in seven packets of 10 KB, each with 78 B of headers and framing:
/// a load of 1.05 · 10,546 / 10,000 = 1.107. In a time T the queue grows to 0.107 T.
#[test]
fn a_queue_that_does_not_reach_three_deadlines_leaves_a_doubt() {
    let with = |stop: &str| {
        let traffic = "pattern = 'incast'\nreceiver = 0\nsizes = '10KB'\ndeadlines = '1ms'";
        let arrivals = "arrivals = { poisson-load = 0.35 }";
        on_star(&format!("{traffic}\n{arrivals}\nstop = '{stop}'"))
    };
    let times = |us| Limited::Times(Duration::from_micros(us));
    // Flows arrive for 20 deadlines, and the queue grows to two.
    let short = with("20ms");
    let said = short.doubt(Limited::Deadlines).expect("a doubt");
    assert!(
        said.starts_with("offered load is 1.11 at host 0 (receiving), but traffic 1"),
        "{said}"
    );
    assert!(said.ends_with("the queue grows to 2.15ms, less than 3 deadlines of 1ms"), "{said}");
    assert_eq!(with("40ms").doubt(Limited::Deadlines), None);
    // A threshold on completion times counts instead of deadlines, for a condition on those.
    let said = short.doubt(times(1_000)).expect("a doubt");
    assert!(said.ends_with("less than 3 times 1ms"), "{said}");
    assert_eq!(short.doubt(times(700)), None);
    // Drops begin whenever the queue is full, and slowdowns have no time of their own.
    assert!(with("40ms").doubt(Limited::Other).is_some());
    let below =
        on_star("pattern = 'stride'\nstride = 1\narrivals = { periodic = '1ms' }\nsizes = '100KB'");
    assert_eq!(
        [Limited::Deadlines, times(1), Limited::Other].map(|l| below.doubt(l)),
        [const { None }; 3]
    );
}

#[test]
fn a_load_in_per_cent_is_asked_about() {
    for (written, meant) in [("60", "0.6"), ("6", "0.6"), ("130", "1.3")] {
        let load = on_star(&format!(
            "name = 'web'\npattern = 'random'\narrivals = {{ poisson-load = {written} }}\nsizes = '100KB'\nstop = '10ms'"
        ));
        let said = format!("did you mean {meant}?");
        assert!(load.warnings[0].starts_with("traffic `web`: poisson-load"), "{load:?}");
        assert!(load.warnings[0].ends_with(&said), "{load:?}");
    }
}

#[test]
fn bursts_and_endless_flows_have_no_load() {
    let burst = on_star("pattern = 'incast'\nreceiver = 0\nsizes = '100KB'");
    assert!(burst.tiers.is_empty() && burst.warnings.is_empty());
    let us = burst.burst_us.expect("a burst");
    assert!((us - 3.0 * 843.056).abs() < 1e-3, "{us}");
    let text = STAR.replace("ideal-fair", "tcp");
    let endless = "pattern = 'incast'\nreceiver = 0\nsizes = 'endless'";
    let endless = load_of(&format!("{text}\n[[traffic]]\n{endless}"));
    assert!(endless.follows_capacity && endless.tiers.is_empty());
    assert!(endless.to_string().contains("follows the capacity"));
}

/// Scenarios that are about more arrivals than the network carries, and why each needs them.
const OVERLOADED: [(&str, &str); 2] = [
    ("pdq-figure-5a", "its sweep raises the rate until deadlines are missed"),
    ("testbed-preemption", "the long flow must still be sending when the last short one starts"),
];

/// No scenario that comes with the program has a load above 1 or arrivals that end too soon,
/// unless it is about that. One that is has the warning, and its file says why.
#[test]
fn shipped_scenarios_have_no_warnings() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut warned = Vec::new();
    let mut overloaded = Vec::new();
    for entry in std::fs::read_dir(&dir).expect("scenarios") {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|ext| ext != "toml") {
            continue;
        }
        let study = Study::load(&path, &[]).unwrap_or_else(|e| panic!("{e}"));
        for point in study.points() {
            let load = study.offered_load(&point.scenario).expect("a load");
            println!("{}: {load}", study.name());
            if OVERLOADED.iter().any(|(name, _)| *name == study.name()) {
                let has_warning = load.warnings.iter().any(|w| w.starts_with("offered load is"));
                overloaded.extend(has_warning.then(|| study.name().to_owned()));
                continue;
            }
            warned.extend(load.warnings.iter().map(|w| format!("{}: {w}", study.name())));
        }
    }
    warned.sort();
    warned.dedup();
    assert_eq!(warned, Vec::<String>::new());
    overloaded.sort();
    overloaded.dedup();
    assert_eq!(overloaded, OVERLOADED.map(|(name, _)| name), "not overloaded: remove its entry");
    for (name, why) in OVERLOADED {
        let text = std::fs::read_to_string(dir.join(format!("{name}.toml"))).expect("its file");
        assert!(text.contains("punctual check"), "{name}: say that `check` warns, because {why}");
    }
}
