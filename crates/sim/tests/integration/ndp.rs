//! NDP as its paper measured it: incasts, permutations, what they do to others, failures. Each test
//! prints its table for `docs/transports/ndp.md`; studies that take long are ignored.

use crate::common::*;
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Class, Duration, FlowSpec, Instant, Limit, PortId, QueueSpec};
use punctual_net::{ClosLinks, ClosShape, Network, Tier};
use punctual_sim::{LinkChange, LinkFault, Outcome, Sampling, Setup};
use punctual_testkit::{assert_figure, claimed, print_figure, published};
use punctual_transports::AnyTransport;
use punctual_transports::ndp::NdpConfig;

/// Data and header of a full packet.
const PACKET: u64 = 9064;

fn ndp(change: impl FnOnce(NdpConfig) -> NdpConfig) -> AnyTransport {
    let base =
        NdpConfig { payload: Some(Bytes::new(9000)), initial_window: 23, ..NdpConfig::default() };
    AnyTransport::Ndp(change(base))
}

fn unchecked(network: Network, transport: AnyTransport, flows: Vec<FlowSpec>) -> Setup {
    Setup { check: false, ..setup(network, vec![transport], flows) }
}

fn ms(time: Instant) -> f64 {
    time.as_secs_f64() * 1e3
}

fn first_and_last(outcome: &Outcome) -> (f64, f64) {
    let ends: Vec<Instant> = outcome.flows.iter().map(|f| f.ended.expect("done")).collect();
    (ms(*ends.iter().min().expect("flows")), ms(*ends.iter().max().expect("flows")))
}

/// When the first flow from another rack than the receiver's ended. A sender in the same rack is
/// 30 µs ahead of all others and gets a dozen packets through before they come.
fn first_from_afar(outcome: &Outcome) -> f64 {
    let afar = outcome.flows.iter().filter(|f| f.spec.src.0 >= 6);
    ms(afar.map(|f| f.ended.expect("done")).min().expect("flows"))
}

fn timeouts(outcome: &Outcome) -> u64 {
    outcome.flows.iter().map(|f| u64::from(f.timeouts)).sum()
}

/// What the receiver's link takes to carry `packets` full packets, in ms.
fn link_ms(packets: u64) -> f64 {
    GBPS10.transmission_time(Bytes::new(packets * PACKET)).as_secs_f64() * 1e3
}

/// Rates of flows over a run of so many ms, in Gb/s of data, from the slowest.
fn rates(outcome: &Outcome, run_ms: u64) -> Vec<f64> {
    let gbps = |bytes: Bytes| bytes.get() as f64 * 8.0 / (run_ms as f64 * 1e6);
    let mut rates: Vec<f64> = outcome.flows.iter().map(|f| gbps(f.delivered)).collect();
    rates.sort_by(f64::total_cmp);
    rates
}

/// The last so many of 432 hosts, as the authors' program takes them: up to 426 of them, none is in
/// the rack of host 0.
fn last_of_432(senders: u32) -> Vec<u32> {
    (432 - senders..432).collect()
}

fn drawn(hosts: u32, senders: u32) -> Vec<u32> {
    let mut hosts: Vec<u32> = (1..hosts).collect();
    Stream::named(1, "senders", 0).shuffle(&mut hosts);
    hosts.truncate(senders as usize);
    hosts
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// On Ethernet with packets of 1,500 bytes, pulls bring what the receiver's link carries and no
/// more: nothing but the first windows is trimmed. Of their 120 packets eight fit in the queue.
#[test]
fn pulls_bring_no_more_than_the_link_carries() {
    let links = ClosLinks::uniform(GBPS10, US);
    let network = ClosShape::star(5).build(&links, Bytes::new(1500), Bytes::new(38));
    let flows = (1..=4).map(|s| flow(s, 0, 4_000_000)).collect();
    let outcome = run(setup(network, vec![transport("ndp")], flows));
    let (_, last) = first_and_last(&outcome);
    let packets = 4 * 4_000_000u64.div_ceil(1436);
    let ideal = GBPS10.transmission_time(Bytes::new(packets * 1538)).as_secs_f64() * 1e3;
    println!(
        "4 MB from 4 with packets of 1500 B: {} trimmed, last {:+.2} % of ideal",
        outcome.totals.trims,
        (last / ideal - 1.0) * 100.0
    );
    assert!(outcome.totals.trims <= 112, "{}", outcome.totals.trims);
    assert!(last / ideal < 1.01, "{last} against {ideal}");
    assert_eq!(timeouts(&outcome), 0);
}

/// A header queue of eight packets has as many bytes as eight full packets, not eight headers.
#[test]
fn eight_packets_of_headers_are_the_bytes_of_eight_full_packets() {
    let bounces = |headers: Limit| {
        let flows = (1..=40).map(|s| flow(s, 0, 135_000)).collect();
        let mut setup = unchecked(star(41, PACKET), ndp(|c| c), flows);
        let data = Limit::Bytes(Bytes::new(72_000));
        setup.switch_queue = QueueSpec::Trim { data, headers, mark_above: None };
        run(setup).totals.bounces
    };
    // 600 packets come: 1,133 headers have room, 8 have not.
    assert_eq!(bounces(Limit::Packets(8)), 0);
    assert!(bounces(Limit::Bytes(Bytes::new(8 * 64))) > 400);
}

/// Figure 16: n senders of 450 KB to one host, 432 hosts. From the senders that the paper has, and
/// from hosts drawn at random, of which a few are in the receiver's rack.
#[test]
fn figure_16_incasts_of_450_kb() {
    let mut table =
        "| senders | which hosts | last flow ms | over ideal | last over first | last over \
                     first from another rack |\n|--:|---|--:|--:|--:|--:|\n"
            .to_owned();
    for senders in [101u32, 201, 431] {
        let far = last_of_432(senders);
        for (which, hosts) in [("the last", far), ("drawn", drawn(432, senders))] {
            let flows = hosts.into_iter().map(|s| flow(s, 0, 450_000)).collect();
            let outcome = run(unchecked(fat_tree(12, PACKET), ndp(|c| c), flows));
            let (first, last) = first_and_last(&outcome);
            let first_afar = first_from_afar(&outcome);
            let ideal = link_ms(u64::from(senders) * 50);
            table += &format!(
                "| {senders} | {which} | {last:.2} | {:.2} % | {:.3} | {:.3} |\n",
                (last / ideal - 1.0) * 100.0,
                last / first,
                last / first_afar
            );
            let id = |what: &str| format!("ndp-fig-16-{what}-{senders}");
            let spread = || claimed("ndp/fig16", &format!("ndp-spread-{senders}"));
            let near_ideal = || claimed("ndp/fig16", &format!("ndp-last-{senders}"));
            if which == "drawn" {
                assert_figure(&id("drawn-last-over-first"), last / first, spread());
                assert!(spread().contains(last / first_afar), "{first_afar} to {last}");
                assert!(near_ideal().contains(last / ideal), "{last} against {ideal}");
            } else {
                assert_figure(&id("last-over-first"), last / first, spread());
                assert_figure(&id("last-over-ideal"), last / ideal, near_ideal());
            }
            assert_eq!(timeouts(&outcome), 0);
        }
    }
    print_figure("ndp-figure-16", &table);
}

/// Figure 16 with one sender more urgent than the others: the first of the last hosts, which the paper
/// prefers and which among 431 is in the receiver's rack, and one from afar.
#[test]
fn figure_16_a_prioritised_sender() {
    let mut table =
        "| senders | prioritised host | ends after ms | paper |\n|--:|--:|--:|--:|\n".to_owned();
    for (senders, claim) in [(100u32, "prioritised-100"), (431, "prioritised-432")] {
        let paper = published("ndp/fig16", claim);
        let hosts = last_of_432(senders);
        let mut sum = 0.0;
        for urgent in [hosts[0], 431] {
            let class = |host| Class(if host == urgent { 1 } else { 2 });
            let specs = hosts.iter().map(|s| (class(*s), flow(*s, 0, 450_000)));
            let flows = specs.map(|(class, spec)| FlowSpec { class, ..spec }).collect();
            let outcome = run(unchecked(fat_tree(12, PACKET), ndp(|c| c), flows));
            let record = outcome.flows.iter().find(|f| f.spec.src.0 == urgent).expect("one");
            let ended = ms(record.ended.expect("done"));
            table += &format!("| {senders} | {urgent} | {ended:.2} | {paper} |\n");
            sum += ended;
            assert_eq!(timeouts(&outcome), 0);
        }
        let id = format!("ndp-fig-16-prioritised-{senders}");
        assert_figure(&id, sum / 2.0, claimed("ndp/fig16", claim));
    }
    print_figure("ndp-figure-16-prioritised", &table);
}

/// Figure 4: 135 KB from each of 100, all of it in the first window; and from more and fewer.
///
/// Six links bring at most 6 × (1 packet + 10 headers) in the time in which the seventh takes one
/// such round on to the host, so a sixth leaves while the rest comes; the port holds 7 packets and
/// 1,125 headers. What is left returns.
#[test]
fn figure_4_incast_of_one_window() {
    let mut table =
        "| senders | last packet µs | over ideal | packets trimmed | headers returned | by \
                     arithmetic |\n|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
    for senders in [80, 100, 129] {
        let flows = last_of_432(senders).into_iter().map(|s| flow(s, 0, 135_000)).collect();
        let outcome = run(unchecked(fat_tree(12, PACKET), ndp(|c| c), flows));
        let (_, last) = first_and_last(&outcome);
        let packets = f64::from(senders) * 15.0;
        let ideal = link_ms(u64::from(senders) * 15);
        let bounces = outcome.totals.bounces as f64;
        let left = (packets * 5.0 / 6.0 - 7.0 - 1125.0).max(0.0);
        table += &format!(
            "| {senders} | {:.0} | {:.2} % | {} | {bounces} ({:.1} %) | {left:.0} |\n",
            last * 1e3,
            (last / ideal - 1.0) * 100.0,
            outcome.totals.trims,
            bounces / outcome.totals.trims as f64 * 100.0
        );
        assert!(claimed("ndp/fig4", "incast-last").contains(last / ideal), "{last}");
        assert!((bounces - left).abs() < 0.02 * packets, "{bounces} against {left}");
        assert_eq!(timeouts(&outcome), 0);
    }
    print_figure("ndp-figure-4", &table);
}

/// Figure 14: a permutation on 432 hosts.
#[test]
#[ignore = "study: cargo xtask figures"]
fn figure_14_permutation() {
    let run_ms = 60;
    let [mean_of_paper, rank_5, rank_216] =
        ["mean", "rank-5", "rank-216"].map(|what| published("ndp/fig14", &format!("ndp-{what}")));
    let mut table = format!(
        "| first window | mean Gb/s | slowest | rank 5 | rank 216 |\n|--:|--:|--:|--:|--:|\n\
         | paper | {mean_of_paper} | | {rank_5} | {rank_216} |\n"
    );
    for window in [23, 30] {
        let mut setup = unchecked(
            fat_tree(12, PACKET),
            ndp(|c| NdpConfig { initial_window: window, ..c }),
            permutation(432, 1),
        );
        setup.stop = until_ms(run_ms);
        let rates = rates(&run(setup), run_ms);
        table += &format!(
            "| {window} | {:.2} | {:.2} | {:.2} | {:.2} |\n",
            mean(&rates),
            rates[0],
            rates[4],
            rates[215]
        );
        for (what, gbps) in [("mean", mean(&rates)), ("rank-5", rates[4]), ("rank-216", rates[215])]
        {
            let id = format!("ndp-fig-14-{what}-window-{window}");
            assert_figure(&id, gbps, claimed("ndp/fig14", &format!("ndp-{what}")));
        }
    }
    print_figure("ndp-figure-14", &table);
}

/// The paper's text in §6.1.1: a permutation beside an incast without end.
#[test]
#[ignore = "study: cargo xtask figures"]
fn permutation_beside_a_long_incast() {
    let run_ms = 30;
    let utilisation = |incast: u32| {
        let mut flows = permutation(432, 1);
        let victim = 17;
        flows.extend(
            (0..432)
                .filter(|h| h % 4 == 1 && *h != victim)
                .take(incast as usize)
                .map(|h| flow(h, victim, u64::MAX)),
        );
        let mut setup = unchecked(fat_tree(12, PACKET), ndp(|c| c), flows);
        setup.stop = until_ms(run_ms);
        setup.measure.from = Instant::ZERO + Duration::from_millis(5);
        let outcome = run(setup);
        outcome.totals.delivered_wire_bytes as f64 * 8.0
            / (432.0 * (run_ms - 5) as f64 * 1e-3 * GBPS10.as_bps() as f64)
    };
    let (alone, beside) = (utilisation(0), utilisation(100));
    print_figure(
        "ndp-beside-incast",
        &format!(
            "| | alone | beside a 100:1 incast |\n|---|--:|--:|\n| paper | 92 % | {} % |\n\
             | here | {:.1} % | {:.1} % |\n",
            published("ndp/text-beside-incast", "ndp"),
            alone * 100.0,
            beside * 100.0
        ),
    );
    let accepted = claimed("ndp/text-beside-incast", "ndp");
    assert_figure("ndp-text-beside-incast", beside * 100.0, accepted);
}

/// Figure 19: a long flow to one host, then 64 flows of 450 KB to its neighbour.
#[test]
fn figure_19_an_incast_next_door() {
    let network = fat_tree(12, PACKET);
    let down = |host: u32| {
        let at = network.links.iter().position(|l| l.to.0 == host && l.tier == Tier::HostDown);
        PortId::from(at.expect("a link"))
    };
    let (to_long, to_incast) = (down(0), down(1));
    let mut flows = vec![flow(431, 0, u64::MAX)];
    let begins = Instant::ZERO + Duration::from_millis(10);
    flows.extend((72..136).map(|s| FlowSpec { start: begins, ..flow(s, 1, 450_000) }));
    let mut setup = unchecked(network, ndp(|c| NdpConfig { initial_window: 15, ..c }), flows);
    setup.stop = until_ms(40);
    let every = Duration::from_millis(1);
    setup.sampling = Some(Sampling { every, ports: vec![to_long, to_incast] });
    let outcome = run(setup);
    let bins = |port: PortId| -> Vec<f64> {
        let sent: Vec<u64> =
            outcome.samples.iter().filter(|s| s.port == port).map(|s| s.sent_bytes).collect();
        sent.windows(2).map(|w| (w[1] - w[0]) as f64 * 8.0 / 1e6).collect()
    };
    let (long, incast) = (bins(to_long), bins(to_incast));
    let during = &long[9..];
    let worst = during.iter().copied().fold(f64::INFINITY, f64::min);
    let dipped = during.iter().filter(|gbps| **gbps < 9.5).count();
    let busy = incast.iter().filter(|gbps| **gbps > 5.0).count();
    print_figure(
        "ndp-figure-19-window-15",
        &format!(
            "| | lowest Gb/s in 1 ms | bins below 9.5 Gb/s | incast busy for ms |\n|---|--:|--:|--:|\n\
             | paper | {} | {} | {} |\n| here | {worst:.2} | {dipped} | {busy} |\n",
            published("ndp/fig19", "ndp-dip"),
            published("ndp/fig19", "ndp-one-bin"),
            published("ndp/fig19", "ndp-incast"),
        ),
    );
    assert!(claimed("ndp/fig19", "ndp-one-bin").contains(dipped as f64), "{long:?}");
    assert_figure("ndp-fig-19-dip", worst, claimed("ndp/fig19", "ndp-dip"));
    // 3,200 packets take 23.2 ms.
    assert!((23..=24).contains(&busy), "{incast:?}");
}

/// Figure 21: A sends to B, C, D and E, F to E: both A's uplink and E's downlink are full.
#[test]
fn figure_21_a_sender_with_more_to_do_than_it_can() {
    let (a, e, f) = (0, 4, 5);
    let mut flows: Vec<FlowSpec> = (1..=4).map(|to| flow(a, to, u64::MAX)).collect();
    flows.push(flow(f, e, u64::MAX));
    let mut setup = unchecked(star(6, PACKET), ndp(|c| c), flows);
    let run_ms = 100;
    setup.stop = until_ms(run_ms);
    let outcome = run(setup);
    let gbps: Vec<f64> = outcome
        .flows
        .iter()
        .map(|f| f.delivered.get() as f64 / 9000.0 * PACKET as f64 * 8.0 / (run_ms as f64 * 1e6))
        .collect();
    print_figure(
        "ndp-figure-21",
        &format!(
            "| | A→B | A→C | A→D | A→E | F→E |\n|---|--:|--:|--:|--:|--:|\n\
             | Gb/s on the wire | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |\n",
            gbps[0], gbps[1], gbps[2], gbps[3], gbps[4]
        ),
    );
    assert!(gbps[..4].iter().sum::<f64>() > 9.8, "A's uplink is full: {gbps:?}");
    assert!(gbps[3] + gbps[4] > 9.8, "E's downlink is full: {gbps:?}");
    assert!(gbps[..4].iter().all(|a| (2.4..2.6).contains(a)), "A's flows are alike: {gbps:?}");
}

/// Figure 22: one link from the core into a pod at a tenth of its rate. Bytes delivered to each
/// flow in so many ms.
fn slow_core_link(scoreboard: bool, rto: Duration, run_ms: u64) -> Vec<u64> {
    let network = fat_tree(8, PACKET);
    let slow = network.links.iter().position(|l| l.tier == Tier::CoreDown).expect("a core");
    let transport = ndp(|c| NdpConfig { initial_window: 15, scoreboard, rto, ..c });
    let mut setup = unchecked(network, transport, permutation(128, 1));
    setup.stop = until_ms(run_ms);
    setup.link_changes = vec![LinkChange {
        at: Instant::ZERO,
        port: PortId::from(slow),
        what: LinkFault::Rate(punctual_core::Rate::from_gbps(1)),
    }];
    run(setup).flows.iter().map(|f| f.delivered.get()).collect()
}

/// Rates over so many ms, in Gb/s, from the slowest, and their row of the table.
fn slow_core_link_row(what: &str, bytes: &[u64], over_ms: u64) -> (Vec<f64>, String) {
    let mut rates: Vec<f64> =
        bytes.iter().map(|b| *b as f64 * 8.0 / (over_ms as f64 * 1e6)).collect();
    rates.sort_by(f64::total_cmp);
    let row = format!(
        "| {what} | {:.2} | {:.2} | {:.2} | {:.2} | {} |\n",
        rates[0],
        rates[9],
        rates[63],
        mean(&rates),
        rates.iter().filter(|gbps| **gbps < 4.0).count()
    );
    (rates, row)
}

/// Flows of the permutation that enter the first pod of 16 hosts from outside.
fn into_first_pod(hosts: u32) -> usize {
    let flows = permutation(hosts, 1);
    flows.iter().filter(|f| f.dst.0 < 16 && f.src.0 >= 16).count()
}

/// Without the scoreboard a sixteenth of the packets of the flows that can use the link wait there
/// for half a millisecond and more, and their windows with them.
#[test]
fn figure_22_a_core_link_at_a_tenth_of_its_rate() {
    let mut table = "| | rank 1 Gb/s | rank 10 | rank 64 | mean | flows below 4 Gb/s |\n\
                     |---|--:|--:|--:|--:|--:|\n"
        .to_owned();
    let (ours, none) = (Duration::from_millis(1), Duration::from_secs(10));
    for (timer, rto) in [("timer of 1 ms", ours), ("no timer", none)] {
        let bytes = slow_core_link(false, rto, 50);
        let (rates, row) = slow_core_link_row(&format!("no scoreboard, {timer}"), &bytes, 50);
        let collapsed = rates.iter().filter(|gbps| **gbps < 4.0).count();
        assert_eq!(collapsed, into_first_pod(128), "every flow that can use the link");
        table += &row;
    }
    let early = slow_core_link(true, ours, 50);
    let all = slow_core_link(true, ours, 100);
    let (rates, row) = slow_core_link_row("scoreboard, the first 50 ms", &early, 50);
    assert!(rates[0] > 4.0, "{}", rates[0]);
    table += &row;
    let late: Vec<u64> = all.iter().zip(&early).map(|(all, early)| all - early).collect();
    let (rates, row) = slow_core_link_row("scoreboard, the next 50 ms", &late, 50);
    assert!(rates[0] > 8.0, "{}", rates[0]);
    print_figure("ndp-figure-22", &(table + &row));
}

/// Figure 20: 8,000 senders of 270 KB to one host, 8,192 hosts.
#[test]
#[ignore = "study: cargo xtask figures"]
fn figure_20_large_incasts() {
    let mut table =
        "| senders | over ideal | retransmissions per packet | for NACKs | for bounces | for \
                     timeouts |\n|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
    for senders in [1u32, 8, 100, 1000, 8000] {
        let flows = drawn(8192, senders).into_iter().map(|s| flow(s, 0, 270_000)).collect();
        let outcome = run(unchecked(fat_tree(32, PACKET), ndp(|c| c), flows));
        let (_, last) = first_and_last(&outcome);
        let packets = u64::from(senders) * 30;
        let ideal = link_ms(packets) + 0.042_256;
        let per_packet = |count: u64| count as f64 / packets as f64;
        let sum = |of: fn(&punctual_sim::FlowRecord) -> u32| -> u64 {
            outcome.flows.iter().map(|f| u64::from(of(f))).sum()
        };
        table += &format!(
            "| {senders} | {:.3} % | {:.3} | {:.3} | {:.3} | {:.5} |\n",
            (last / ideal - 1.0) * 100.0,
            per_packet(sum(|f| f.retransmits)),
            per_packet(sum(|f| f.trims)),
            per_packet(sum(|f| f.bounces)),
            per_packet(timeouts(&outcome))
        );
        assert!(last / ideal <= 1.02, "{last} against {ideal}");
    }
    print_figure("ndp-figure-20", &table);
}
