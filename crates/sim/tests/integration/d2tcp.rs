//! D2TCP and TCPpr in the simulator: against DCTCP, against themselves, beside TCP.

use crate::common::*;
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Duration, FlowSpec, Instant, Limit, QueueSpec, Rate, TransportId};
use punctual_net::{ClosLinks, ClosShape, Network};
use punctual_sim::{FlowStatus, Outcome, Setup};
use punctual_transports::AnyTransport;
use punctual_transports::tcp::{D2tcpConfig, DctcpConfig, TcpConfig, TcpprConfig};

fn after_ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// One switch, 1 Gb/s, 20 µs a link: a round trip of about 100 µs.
fn star_1g(hosts: u32) -> Network {
    star_1g_with(hosts, Duration::from_micros(20))
}

fn star_1g_with(hosts: u32, delay: Duration) -> Network {
    let links = ClosLinks::uniform(Rate::from_gbps(1), delay);
    ClosShape::star(hosts).build(&links, Bytes::new(1500), Bytes::ZERO)
}

fn d2tcp(d_min: f64, d_max: f64) -> AnyTransport {
    AnyTransport::D2tcp(D2tcpConfig { d_min, d_max, ..D2tcpConfig::default() })
}

fn dctcp() -> AnyTransport {
    AnyTransport::Dctcp(DctcpConfig::default())
}

/// Query aggregation with deadlines: `count` flows of 2–200 KB to host 0.
fn queries(count: u64, seed: u64) -> Vec<FlowSpec> {
    let mut draw = Stream::named(seed, "queries", 0);
    (0..count)
        .map(|n| FlowSpec {
            start: Instant::ZERO + Duration::from_micros(draw.below(2_000)),
            deadline: Some(after_ms(3 + draw.below(30))),
            ..flow(1 + (n % 8) as u32, 0, 2_000 + draw.below(198_000))
        })
        .collect()
}

fn outcome(transport: AnyTransport, flows: &[FlowSpec], seed: u64) -> Outcome {
    let mut setup = setup(star_1g(9), vec![transport], flows.to_vec());
    setup.seed = seed;
    run(setup)
}

fn assert_same(a: &Outcome, b: &Outcome) {
    assert_eq!(a.flows, b.flows);
    assert_eq!(a.totals, b.totals);
    assert_eq!(a.ports, b.ports);
}

#[test]
fn d_of_one_and_no_deadline_are_dctcp() {
    let (mut marks, mut differ) = (0, 0);
    for (count, seed) in [8, 40].into_iter().flat_map(|n| (0..20).map(move |seed| (n, seed))) {
        let with = queries(count, seed);
        let without: Vec<_> =
            with.iter().map(|flow| FlowSpec { deadline: None, ..*flow }).collect();
        let base = outcome(dctcp(), &with, seed);
        assert_same(&outcome(d2tcp(1.0, 1.0), &with, seed), &base);
        marks += base.totals.marks;
        differ += u32::from(outcome(d2tcp(0.5, 2.0), &with, seed).flows != base.flows);
        let base = outcome(dctcp(), &without, seed);
        assert_same(&outcome(d2tcp(0.5, 2.0), &without, seed), &base);
    }
    println!("{marks} marks; {differ} of 40 runs differ where deadlines count");
    assert!(marks > 10_000 && differ > 5);
}

/// Mb/s of each flow between 100 ms and `to_ms`; flows are endless.
fn long_flow_mbps(
    transports: &[AnyTransport],
    flows: &[FlowSpec],
    queue: Option<QueueSpec>,
    seed: u64,
) -> Vec<f64> {
    const FROM_MS: u64 = 100;
    const TO_MS: u64 = 1100;
    let delivered = |ms| {
        let mut setup = Setup {
            stop: until_ms(ms),
            seed,
            check: false,
            ..setup(star_1g(9), transports.to_vec(), flows.to_vec())
        };
        if let Some(queue) = queue {
            setup.switch_queue = queue;
        }
        run(setup).flows.iter().map(|f| f.delivered.get()).collect::<Vec<_>>()
    };
    let (early, late) = (delivered(FROM_MS), delivered(TO_MS));
    let mbps = |(a, b): (&u64, &u64)| (b - a) as f64 * 8.0 / (TO_MS - FROM_MS) as f64 / 1e3;
    early.iter().zip(&late).map(mbps).collect()
}

/// An endless flow from `src` to host 0, with a deadline that is never reached.
fn endless(src: u32, transport: u8) -> FlowSpec {
    FlowSpec {
        deadline: Some(after_ms(100_000)),
        transport: TransportId(transport),
        ..flow(src, 0, u64::MAX)
    }
}

#[test]
fn near_and_far_split_the_bottleneck() {
    let pairs = [(1.0, 1.0), (1.5, 0.75), (2.0, 0.5), (4.0, 0.25)];
    for (near, far) in pairs {
        let transports = [d2tcp(near, near), d2tcp(far, far)];
        let mut ratios = Vec::new();
        let mut sums = Vec::new();
        for seed in 1..=5 {
            let mbps = long_flow_mbps(&transports, &[endless(1, 0), endless(2, 1)], None, seed);
            ratios.push(mbps[0] / mbps[1]);
            sums.push(mbps[0] + mbps[1]);
        }
        let ratio = ratios.iter().sum::<f64>() / ratios.len() as f64;
        let least = sums.iter().copied().fold(f64::MAX, f64::min);
        println!(
            "d {near} against {far}: ratio {ratio:.2} {ratios:.2?}, sum at least {least:.0} Mb/s"
        );
        assert!(least > 900.0);
        if near == 1.0 {
            assert!((0.9..1.1).contains(&ratio), "{ratio}");
        }
        if near == 2.0 {
            assert!(ratio > 2.0, "{ratio}");
        }
    }
}

/// `count` of eight flows are TCP's, the rest another's: Mb/s of TCP's in all and of the others',
/// mean over seeds.
fn tcp_beside(count: u32, other: &AnyTransport, queue: QueueSpec) -> (f64, f64) {
    let flows: Vec<_> = (1..=8).map(|src| endless(src, u8::from(src > count))).collect();
    let mut sums = (0.0, 0.0);
    const SEEDS: u64 = 5;
    for seed in 1..=SEEDS {
        let mbps = long_flow_mbps(&[transport("tcp"), other.clone()], &flows, Some(queue), seed);
        let (tcp, others) = mbps.split_at(count as usize);
        sums.0 += tcp.iter().sum::<f64>() / SEEDS as f64;
        sums.1 += others.iter().sum::<f64>() / SEEDS as f64;
    }
    sums
}

#[test]
fn tcp_keeps_its_share_beside_d2tcp() {
    for (count, limit) in [(4, 100), (1, 100), (1, 250), (4, 30), (1, 30)] {
        let queue = QueueSpec::Ecn { limit: Limit::Packets(limit), mark_above: Limit::Packets(20) };
        let (beside_dctcp, others) = tcp_beside(count, &dctcp(), queue);
        println!(
            "{limit} packets, {count} of 8 are TCP: {beside_dctcp:.0} beside DCTCP {others:.0}"
        );
        // The measure tells: beside flows that do not yield to marks TCP has less.
        let (beside_tcp, _) = tcp_beside(count, &transport("tcp"), queue);
        assert!(beside_tcp < 0.9 * beside_dctcp, "{beside_tcp} {beside_dctcp}");
        for d in [0.5, 2.0] {
            let (tcp, others) = tcp_beside(count, &d2tcp(d, d), queue);
            let ratio = tcp / beside_dctcp;
            println!("  {tcp:.0} beside D2TCP with d = {d} {others:.0}: ratio {ratio:.3}");
            assert!((0.9..1.1).contains(&ratio), "{ratio}");
        }
    }
}

/// Share of deadlines met by query aggregation.
fn share_met(transport: &AnyTransport, count: u64) -> f64 {
    let (mut met, mut all) = (0, 0);
    for seed in 0..30 {
        for record in outcome(transport.clone(), &queries(count, seed), seed).flows {
            assert_eq!(record.status, FlowStatus::Completed);
            met += u32::from(record.met_deadline() == Some(true));
            all += 1;
        }
    }
    f64::from(met) / f64::from(all)
}

#[test]
fn priorities_by_deadline_help_tcp() {
    let mean = Duration::from_millis(18);
    let tcppr = |levels| {
        AnyTransport::Tcppr(TcpprConfig { levels, mean_deadline: mean, ..TcpprConfig::default() })
    };
    for count in [8, 16, 24] {
        let tcp = share_met(&transport("tcp"), count);
        let of_tcppr = [2, 3, 4].map(|levels| share_met(&tcppr(levels), count));
        println!("{count} flows: TCP {tcp:.3}, TCPpr 2/3/4 levels {of_tcppr:.3?}");
        assert!(of_tcppr[0] > tcp, "{of_tcppr:?} {tcp}");
    }
}

/// Flows of 2–6 MB, which live long enough for α to be learnt: percentage of deadlines met. Each
/// flow is 32 ms of the link on average; deadlines are uniform, from `least_ms` on over
/// `spread_ms`, for each flow that there is.
fn percent_met_long(
    transport: &AnyTransport,
    count: u64,
    (least_ms, spread_ms): (u64, u64),
    runs: u64,
) -> f64 {
    let mut met = 0;
    for seed in 0..runs {
        let mut draw = Stream::named(seed, "long queries", count);
        let flows = (0..count)
            .map(|n| FlowSpec {
                start: Instant::ZERO + Duration::from_micros(draw.below(1_000)),
                deadline: Some(after_ms(count * least_ms + draw.below(count * spread_ms))),
                ..flow(1 + n as u32, 0, 2_000_000 + draw.below(4_000_000))
            })
            .collect();
        let setup = setup(star_1g(count as u32 + 1), vec![transport.clone()], flows);
        let outcome = run(Setup { seed, check: false, ..setup });
        met += outcome.flows.iter().filter(|f| f.met_deadline() == Some(true)).count();
    }
    met as f64 / (runs * count) as f64 * 100.0
}

#[test]
fn deadlines_help_long_flows_where_they_differ() {
    let laws = [(20, 80), (25, 40)];
    for law in laws {
        let [dctcp, d2tcp] = [dctcp(), d2tcp(0.5, 2.0)].map(|t| percent_met_long(&t, 4, law, 60));
        println!("{law:?} ms: DCTCP {dctcp:.1}, D2TCP {d2tcp:.1}");
        assert!(d2tcp > dctcp + 1.0, "{law:?}: {dctcp} {d2tcp}");
    }
}

/// D3's burst (its Figure 10): U[2, 50] KB, deadlines exponential with mean 30 ms and a floor of
/// 5 ms, a round trip of 500 µs, 300 ms to a timeout. Percentage of deadlines met.
fn d3_burst(transport: &AnyTransport, queue: QueueSpec, senders: u64) -> f64 {
    const RUNS: u64 = 100;
    let mut met = 0;
    for seed in 0..RUNS {
        let mut draw = Stream::named(seed, "burst", senders);
        let flows = (0..senders)
            .map(|n| {
                let deadline = Duration::from_secs_f64(draw.exponential(30e-3).max(5e-3));
                FlowSpec {
                    deadline: Some(Instant::ZERO + deadline),
                    ..flow(1 + (n % 8) as u32, 0, 2_000 + draw.below(48_001))
                }
            })
            .collect();
        let network = star_1g_with(9, Duration::from_micros(120));
        let setup = setup(network, vec![transport.clone()], flows);
        let outcome = run(Setup { seed, check: false, switch_queue: queue, ..setup });
        met += outcome.flows.iter().filter(|f| f.met_deadline() == Some(true)).count();
    }
    met as f64 / (RUNS * senders) as f64 * 100.0
}

#[test]
fn d3_burst_of_tcp_and_tcppr() {
    let most = |transport: &AnyTransport, queue| {
        let enough = |n: &u64| d3_burst(transport, queue, *n) >= 95.0;
        (1..=20).map(|step| 2 * step).take_while(enough).last().unwrap_or(0)
    };
    let rto = Duration::from_millis(300);
    let room = |bytes| Limit::Bytes(Bytes::new(bytes));
    for initial_window in [2, 10] {
        let tcp =
            TcpConfig { initial_window, rto_min: rto, rto_initial: rto, ..TcpConfig::default() };
        let tcppr = |levels| {
            let common = TcpprConfig {
                initial_window,
                rto_min: rto,
                rto_initial: rto,
                ..TcpprConfig::default()
            };
            AnyTransport::Tcppr(TcpprConfig { levels, ..common })
        };
        let tcp = most(&AnyTransport::Tcp(tcp), QueueSpec::DropTail { limit: room(100_000) });
        let own = [2, 4].map(|n| most(&tcppr(n), QueueSpec::Priority { limit: room(100_000) }));
        let split = [2, 4]
            .map(|n| most(&tcppr(n), QueueSpec::Priority { limit: room(100_000 / u64::from(n)) }));
        println!(
            "senders at 95 %, initial window {initial_window}: TCP {tcp}; TCPpr of 2 and 4 levels {own:?} with 100 KB a class, {split:?} with 100 KB in all"
        );
        assert!(own[0] > tcp && own[1] >= own[0]);
    }
}
