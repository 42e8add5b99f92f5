//! pHost across networks: NDP's permutation and incast on queues of eight packets.

use crate::common::*;
use punctual_core::{Bytes, Duration, FlowId, FlowSpec, Instant};
use punctual_sim::{FlowStatus, Outcome, Sampling};
use punctual_testkit::{assert_figure, claimed, markdown_table, print_figure, published};
use punctual_transports::AnyTransport;
use punctual_transports::phost::{FreeTokensFor, PhostConfig, PhostVariant, TokenPolicy};

/// As NDP's comparison ran it: every flow starts with a round trip's worth at line rate.
fn as_in_ndp() -> PhostConfig {
    PhostConfig { variant: PhostVariant::NdpPaper, ..PhostConfig::default() }
}

/// What became of a permutation on drop-tail queues of eight packets between 5 and `ms`.
struct Permutation {
    /// Share of the hosts' links that data fills.
    share: f64,
    outcome: Outcome,
}

fn permutation_of(config: PhostConfig, k: u32, mtu: u64, ms: u64) -> Permutation {
    let network = fat_tree(k, mtu);
    let hosts = network.hosts;
    let mut setup = setup(network, vec![AnyTransport::Phost(config)], permutation(hosts, 1));
    setup.switch_queue = drop_tail(8);
    setup.stop = until_ms(ms);
    setup.measure.from = Instant::ZERO + Duration::from_millis(5);
    setup.sampling = Some(Sampling { every: Duration::from_millis(ms), ports: Vec::new() });
    setup.sampled_flows = (0..hosts).map(FlowId).collect();
    setup.check = false;
    let outcome = run(setup);
    let seconds = (ms - 5) as f64 / 1e3;
    let share =
        outcome.totals.delivered_wire_bytes as f64 * 8.0 / (f64::from(hosts) * seconds * 1e10);
    Permutation { share, outcome }
}

impl Permutation {
    fn sum(&self, gauge: &str) -> f64 {
        self.outcome.gauges.iter().filter(|g| g.name == gauge).map(|g| g.value).sum()
    }

    fn most(&self, gauge: &str) -> f64 {
        let of = self.outcome.gauges.iter().filter(|g| g.name == gauge);
        of.map(|g| g.value).fold(0.0, f64::max)
    }

    /// A row of the table, under its name.
    fn row(&self, name: &str) -> Vec<String> {
        let millions = |count: f64| format!("{:.2} M", count / 1e6);
        println!("{name}: longest round trip {:.1} µs", self.most("round_trip_us"));
        vec![
            name.to_owned(),
            format!("{:.1} %", self.share * 100.0),
            millions(self.sum("tokens_used")),
            millions(self.sum("tokens_expired")),
            millions(self.outcome.totals.drops as f64),
        ]
    }
}

/// NDP's text has 70 %.
#[test]
#[ignore = "study: cargo xtask figures"]
fn permutation_of_432() {
    let fixed = |window| PhostConfig { window: Some(window), ..as_in_ndp() };
    let paper = format!("{} %", published("ndp/text-other", "phost-permutation"));
    let mut rows = vec![["the paper", &paper, "", "", ""].map(String::from).to_vec()];
    for (name, config) in [
        ("`variant = \"ndp-paper\"`", as_in_ndp()),
        ("`\"ndp-paper\"`, `window` 64", fixed(64)),
        ("`\"ndp-paper\"`, `window` 16", fixed(16)),
        ("`\"ndp-paper\"`, `window` 8", fixed(8)),
        ("`variant = \"authors\"`", PhostConfig::default()),
        ("`\"ndp-paper\"`, `token_life` 1,000", PhostConfig { token_life: 1000.0, ..as_in_ndp() }),
    ] {
        rows.push(permutation_of(config, 12, 9064, 50).row(name));
    }
    let rtt = Some(Duration::from_nanos(19_430));
    for (name, config) in [
        ("`\"authors\"`, packets of 1,500 B, 15 ms", PhostConfig::default()),
        ("`\"ndp-paper\"`, packets of 1,500 B, 15 ms", PhostConfig { rtt, ..as_in_ndp() }),
    ] {
        rows.push(permutation_of(config, 12, 1500, 15).row(name));
    }
    let head = ["", "of the hosts' links", "tokens used", "expired", "packets dropped"];
    print_figure("phost-permutation", &markdown_table(&head, &rows));
}

/// A round trip of NDP's empty network, across six links of 1 µs: data there, a token back.
#[test]
fn eight_tokens_are_a_round_trip_of_large_packets_alone() {
    for (mtu, tokens) in [(9064, 8), (1500, 17)] {
        let trip = |bytes| (GBPS10.transmission_time(Bytes::new(bytes)) + US) * 6;
        let rtt = trip(mtu) + trip(40);
        let config = PhostConfig { rtt: Some(rtt), ..as_in_ndp() };
        let packet = GBPS10.transmission_time(Bytes::new(mtu));
        assert_eq!(config.free_tokens_at(packet), tokens, "{rtt} of {packet}");
    }
}

/// 10 ms of what NDP's text has 70 % for; its authors' window does not cover the queues.
#[test]
fn a_permutation_of_432_fills_seven_tenths() {
    let share = |config| permutation_of(config, 12, 9064, 10).share;
    let (ndp, authors) = (share(as_in_ndp()), share(PhostConfig::default()));
    println!("as in NDP {ndp:.3}, authors' {authors:.3}");
    let accepted = claimed("ndp/text-other", "phost-permutation");
    assert_figure("ndp-text-phost-permutation", ndp * 100.0, accepted);
    assert!(authors < ndp - 0.08, "{authors}");
}

/// 450 KB from each of n hosts to one: first and last, in ms.
fn incast(transport: AnyTransport, senders: u32, queue: Option<u32>) -> (f64, f64) {
    let flows: Vec<FlowSpec> = (1..=senders).map(|s| flow(s, 0, 450_000)).collect();
    let mut setup = setup(fat_tree(12, 9064), vec![transport], flows);
    if let Some(packets) = queue {
        setup.switch_queue = drop_tail(packets);
    }
    setup.check = false;
    let outcome = run(setup);
    let ms = |at: Instant| at.saturating_since(Instant::ZERO).as_secs_f64() * 1e3;
    let ends = outcome.flows.iter().map(|f| ms(f.ended.expect("it ended")));
    ends.fold((f64::MAX, 0.0), |(first, last), end| (first.min(end), last.max(end)))
}

/// NDP's text has 1 to 1.5 s for pHost at 432 to 1, and 140 ms for NDP.
#[test]
#[ignore = "study: cargo xtask figures"]
fn incast_of_450_kb() {
    let phost = AnyTransport::Phost;
    let fair = || PhostConfig { policy: TokenPolicy::Fair, ..as_in_ndp() };
    let short = || PhostConfig { free_for: Some(FreeTokensFor::Short), ..as_in_ndp() };
    let mut rows = vec![["the paper, 432 to 1", "", "1,000 to 1,500"].map(String::from).to_vec()];
    for (name, transport, queue) in [
        ("`variant = \"ndp-paper\"`", phost(as_in_ndp()), Some(8)),
        ("`\"ndp-paper\"`, `policy = \"fair\"`", phost(fair()), Some(8)),
        ("`\"ndp-paper\"`, `free_for = \"short\"`", phost(short()), Some(8)),
        ("`variant = \"authors\"`", phost(PhostConfig::default()), Some(8)),
        ("`variant = \"authors\"`, pHost's own queues", phost(PhostConfig::default()), None),
        ("NDP", ndp_9k(23), None),
    ] {
        let cell = |senders| {
            let (first, last) = incast(transport.clone(), senders, queue);
            format!("{last:.1} ({first:.1})")
        };
        rows.push(vec![name.to_owned(), cell(101), cell(431)]);
    }
    print_figure("phost-incast", &markdown_table(&["", "101", "431"], &rows));
}

/// Several times behind NDP, at the number of senders that NDP's text has.
#[test]
fn an_incast_of_431_is_several_times_behind_ndp() {
    let (_, ndp) = incast(ndp_9k(23), 431, None);
    let (_, phost) = incast(AnyTransport::Phost(as_in_ndp()), 431, Some(8));
    println!("NDP {ndp:.1} ms, pHost {phost:.1} ms");
    let seconds = claimed("ndp/text-other", "phost-incast");
    assert_figure("ndp-text-phost-incast-431", phost, seconds.times(1e3));
}

/// Where nothing is lost the line is full once tokens flow, and the short flow goes first.
#[test]
fn tokens_fill_the_line_and_prefer_the_short() {
    let flows = vec![flow(1, 0, 1_460_000), flow(2, 0, 146_000), flow(3, 0, 730_000)];
    let outcome = run(setup(star(4, 1500), vec![transport("phost")], flows));
    assert!(outcome.flows.iter().all(|f| f.status == FlowStatus::Completed));
    assert_eq!(outcome.totals.drops, 0);
    let end = |n: usize| outcome.flows[n].ended.expect("it ended").saturating_since(Instant::ZERO);
    assert!(end(1) < end(2) && end(2) < end(0));
    let line = GBPS10.transmission_time(Bytes::new(1_600 * 1500));
    assert!(end(0) > line && end(0) < line + Duration::from_micros(20), "{} {line}", end(0));
}
