//! No transport does better than the optimum.

use crate::common::{Ran, one, shipped, study, text};
use punctual_core::rng::Stream;
use punctual_results::RunKind;
use punctual_transports::AnyTransport;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Random cases of packets against the optimum, each with every transport.
const CASES: u64 = 10_000;

fn transports() -> String {
    let names = AnyTransport::catalogue().iter().map(|t| format!("\"{}\"", t.name));
    names.chain(["\"optimal\"".to_owned()]).collect::<Vec<_>>().join(", ")
}

/// Flows to one host of a random network, all at once, with deadlines so tight that some must be
/// late, or just not.
fn case(number: u64) -> String {
    let mut draw = Stream::named(11, "optimal", number);
    let mut pick = |of: &[&str]| of[draw.below(of.len() as u64) as usize].to_owned();
    let network = pick(&[
        "topology = \"star\"\nhosts = 6\nrate = \"1Gbps\"\ndelay = \"1us\"",
        "topology = \"star\"\nhosts = 6\nrate = \"10Gbps\"\ndelay = \"0us\"",
        "topology = \"tree\"\nrate = \"1Gbps\"\ndelay = \"0.1us\"\nprocessing = \"25us\"",
        "topology = \"bottleneck\"\nsenders = 5\nrate = \"10Gbps\"\nbottleneck_rate = \"2Gbps\"\ndelay = \"1us\"",
    ]);
    let framing = pick(&["0B", "38B"]);
    let mtu = pick(&["1500B", "9000B"]);
    // Mostly few packets, so that ten thousand cases are soon run.
    let (low, high) = match draw.below(16) {
        0..6 => ("1B", "3KB"),
        6..14 => ("2KB", "50KB"),
        14 => ("50KB", "198KB"),
        _ => ("1KB", "500KB"),
    };
    let workers = 1 + draw.below(12);
    // From about what one flow needs to what all need.
    let mean = 1 << draw.below(14);
    let floor = 1 + draw.below(200);
    let receiver = if network.contains("bottleneck") { 5 } else { 0 };
    format!(
        "transports = [{}]\n[network]\n{network}\nframing = \"{framing}\"\nmtu = \"{mtu}\"\n\
         [transport.d3]\nquenching = {}\n\
         [[traffic]]\npattern = \"incast\"\nreceiver = {receiver}\nworkers = {workers}\n\
         sizes = {{ uniform = [\"{low}\", \"{high}\"] }}\n\
         deadlines = {{ exponential = {{ mean = \"{mean}us\", floor = \"{floor}us\" }} }}\n\
         [run]\nduration = \"2s\"\nseed = {number}\n",
        transports(),
        number.is_multiple_of(2),
    )
}

/// The results of some cases.
#[derive(Default)]
struct Tally {
    flows: usize,
    met: BTreeMap<String, usize>,
}

impl Tally {
    fn add(&mut self, number: u64) {
        let text_of_case = case(number);
        let study = study(&text_of_case);
        let mut plan = study.runs();
        let optimal = one(&study, plan.pop().expect("the optimum comes last"), None);
        assert_eq!(optimal.kind, RunKind::Optimum, "{text_of_case}");
        self.count(&optimal);
        self.flows += optimal.outcome.flows.len();
        // Once the last deadline has passed and the optimum is done, a transport can neither meet
        // more deadlines nor finish earlier.
        let deadlines = optimal.outcome.flows.iter().filter_map(|f| f.spec.deadline);
        let until = deadlines.max().max(Some(last(&optimal)));
        for run in plan {
            let ran = one(&study, run, until);
            assert!(ran.met() <= optimal.met(), "{} beats it: {text_of_case}", ran.name());
            let sooner = all_done(&ran) && last(&ran) < last(&optimal);
            assert!(!sooner, "{} is done sooner: {text_of_case}", ran.name());
            self.count(&ran);
        }
    }

    fn count(&mut self, ran: &Ran) {
        *self.met.entry(ran.name().to_owned()).or_default() += ran.met();
    }

    fn merge(mut self, other: Tally) -> Tally {
        self.flows += other.flows;
        for (name, met) in other.met {
            *self.met.entry(name).or_default() += met;
        }
        self
    }
}

#[test]
fn no_transport_beats_the_optimum_in_random_cases() {
    let next = AtomicU64::new(0);
    let some = || {
        let mut tally = Tally::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= CASES {
                return tally;
            }
            tally.add(number);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let Tally { flows, met } = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(some)).collect();
        let tallies = others.into_iter().map(|thread| thread.join().expect("its cases hold"));
        some().merge(tallies.fold(Tally::default(), Tally::merge))
    });
    println!("{CASES} cases, {flows} deadlines; met: {met:?}");
    assert_eq!(met.len(), AnyTransport::catalogue().len() + 1, "each transport and the optimum");
    // The cases are neither trivial nor infeasible: the optimum meets some deadlines and misses
    // some, and every transport meets some.
    assert!(0 < met["optimal"] && met["optimal"] < flows, "{met:?}");
    assert!(met.values().all(|met| *met > 0), "{met:?}");
}

fn all_done(ran: &Ran) -> bool {
    ran.outcome.flows.iter().all(|f| f.status == punctual_sim::FlowStatus::Completed)
}

fn last(ran: &Ran) -> punctual_core::Instant {
    ran.outcome.flows.iter().filter_map(|f| f.ended).max().unwrap()
}

/// Query aggregation, run by run, and the order that the PDQ paper gives at 25 flows.
#[test]
fn aggregation_stays_below_optimal() {
    let changes = ["run.repetitions=10", "sweep.traffic.workers=[5, 25]"];
    let runs = shipped("aggregation", &changes);
    let key = |ran: &Ran| (ran.point().to_owned(), ran.run.seed);
    let best: BTreeMap<_, _> = runs
        .iter()
        .filter(|ran| ran.kind != RunKind::Packets)
        .map(|ran| (key(ran), ran.met()))
        .collect();
    let mut met = BTreeMap::<String, usize>::new();
    for ran in &runs {
        assert!(ran.met() <= best[&key(ran)], "{}", ran.run.title());
        if ran.point() == "25" {
            *met.entry(ran.name().to_owned()).or_default() += ran.met();
        }
    }
    println!("aggregation of 25, met of 250: {met:?}");
    assert!(met["pdq"] > met["d3"] && met["d3"] > met["rcpdc"] && met["d3"] > met["tcp"]);
}

/// Random arrivals on networks with several paths: no transport exceeds the bound.
#[test]
fn nobody_beats_the_bound_on_networks() {
    for (n, network) in [
        "topology = \"leaf-spine\"\nracks = 3\nhosts_per_rack = 4\nspines = 2\nrate = \"10Gbps\"\ndelay = \"1us\"",
        "topology = \"fat-tree\"\nk = 4\noversubscription = 2\nrate = \"10Gbps\"\ndelay = \"1us\"",
    ]
    .iter()
    .enumerate()
    {
        let runs = text(&format!(
            "transports = [\"tcp\", \"dctcp\", \"pdq\", \"rcpdc\", \"ndp\", \"ideal-edf\", \"ideal-fair\", \"optimal\"]\n\
             [network]\n{network}\n\
             [[traffic]]\npattern = \"random\"\narrivals = {{ poisson-load = 0.7 }}\nstop = \"2ms\"\n\
             sizes = {{ uniform = [\"2KB\", \"200KB\"] }}\n\
             deadlines = {{ exponential = {{ mean = \"400us\", floor = \"50us\" }} }}\n\
             [run]\nduration = \"1s\"\nseed = {n}\n"
        ));
        let optimal = runs.last().unwrap();
        assert_eq!(optimal.kind, RunKind::Bound);
        for ran in &runs {
            println!("{}: {} of {}", ran.name(), ran.met(), ran.outcome.flows.len());
            assert_eq!(ran.outcome.flows.len(), optimal.outcome.flows.len());
            assert!(ran.met() <= optimal.met(), "{}", ran.name());
        }
        // It is a bound, not a platitude.
        assert!(optimal.met() < optimal.outcome.flows.len());
    }
}

/// All ideal schedulers get the same flows, and the bytes that they carry add up.
#[test]
fn ideal_runs_have_the_same_flows_and_conserve_bytes() {
    let runs = text(
        "transports = [\"ndp\", \"ideal-fair\", \"ideal-edf\", \"ideal-sjf\", \"ideal-reservation\"]\n\
         [network]\ntopology = \"star\"\nhosts = 4\nrate = \"1Gbps\"\ndelay = \"1us\"\nframing = \"0B\"\n\
         [[traffic]]\npattern = \"incast\"\nreceiver = 0\nworkers = 5\nsizes = \"14600B\"\ndeadlines = \"1ms\"\nbackground = true\n\
         [[traffic]]\npattern = \"pairs\"\npairs = [[1, 0]]\nsizes = \"endless\"\nbackground = true\n\
         [run]\nduration = \"2ms\"\nstop = \"duration\"\nmeasure = { from = \"1ms\" }\n",
    );
    let specs = |ran: &Ran| {
        let mut specs: Vec<_> = ran.outcome.flows.iter().map(|f| f.spec).collect();
        specs.iter_mut().for_each(|spec| spec.transport = punctual_core::TransportId(0));
        specs
    };
    for ran in &runs[1..] {
        assert_eq!(specs(ran), specs(&runs[0]), "{}", ran.name());
        // A gigabit a second for two milliseconds, 1460 bytes of 1500 being data.
        let delivered: u64 = ran.outcome.flows.iter().map(|f| f.delivered.get()).sum();
        let room = 250_000 * 1460 / 1500;
        assert!(delivered.abs_diff(room) < 20, "{}: {delivered} of {room}", ran.name());
        assert!(ran.outcome.totals.delivered_wire_bytes.abs_diff(125_000) < 20, "{}", ran.name());
        assert!(ran.outcome.totals.delivered_bytes.abs_diff(room / 2) < 20, "{}", ran.name());
    }
}

/// One host is sent to all the time and another once: each is half of the capacity, if both are
/// sent to in the measured window.
#[test]
fn utilisation_of_uneven_traffic_is_over_every_receiver() {
    let utilisation = |start: &str| {
        let runs = text(&format!(
            "transports = [\"ideal-fair\"]\n\
             [network]\ntopology = \"star\"\nhosts = 4\nrate = \"1Gbps\"\ndelay = \"1us\"\nframing = \"0B\"\n\
             [[traffic]]\npattern = \"pairs\"\npairs = [[0, 1]]\nsizes = \"endless\"\n\
             [[traffic]]\npattern = \"pairs\"\npairs = [[2, 3]]\nsizes = \"1460B\"\nstart = \"{start}\"\n\
             [run]\nduration = \"20ms\"\nstop = \"duration\"\nmeasure = {{ from = \"1ms\", until = \"19ms\" }}\n",
        ));
        punctual_lab::utilisation(&runs[0].run.scenario.network, &runs[0].outcome).unwrap()
    };
    assert!((utilisation("2ms") - 0.5).abs() < 1e-3);
    for outside in ["0ms", "19.5ms"] {
        assert!((utilisation(outside) - 1.0).abs() < 1e-3, "{outside}");
    }
}
