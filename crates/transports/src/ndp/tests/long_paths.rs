//! Paths that are longer than a datacenter's or lose packets: NDP-R28, NDP-R29.

use super::*;
use punctual_core::Rate;
use punctual_testkit::FaultOdds;

/// A file of 20 MB.
const FILE: u64 = 20_000_000;

/// A path of one link each way.
fn path(rate: Rate, rtt: Duration, seed: u64) -> PairPath {
    PairPath { rate, delay: rtt / 2, seed, ..PairPath::default() }
}

/// Runs a flow of `size` bytes with packets of both directions lost with probability `drop`, and
/// duplicated with probability `duplicate`. Returns its completion time and how often it was sent.
fn run(config: NdpConfig, path: PairPath, size: u64, odds: FaultOdds) -> (Duration, u64) {
    let seed = path.seed;
    let mut pair = Pair::new(config, path);
    pair.set_events_max(50_000_000);
    pair.set_faults(odds.rule(seed));
    let spec = pair.spec(Bytes::new(size));
    let flow = pair.start(spec);
    assert!(pair.run_until_done(Instant::ZERO + Duration::from_secs(100)), "unfinished");
    let done = pair.result(flow).completed_at.expect("complete");
    (done.saturating_since(Instant::ZERO), data(&pair).len() as u64)
}

fn lossless(config: NdpConfig, path: PairPath, size: u64) -> Duration {
    run(config, path, size, FaultOdds::default()).0
}

fn drop(share: f64) -> FaultOdds {
    FaultOdds { drop: share, ..FaultOdds::default() }
}

/// The least time for the file's data on the path, with headers and half a round trip.
fn ideal(path: &PairPath, size: u64) -> Duration {
    let bytes = size + size.div_ceil(PAYLOAD) * u64::from(HEADER_BYTES);
    path.rate.transmission_time(Bytes::new(bytes)) + path.delay
}

#[test]
fn ndp_r28_the_window_follows_the_path() {
    let long = path(Rate::from_mbps(200), Duration::from_millis(20), 1);
    let took = lossless(NdpConfig::for_sockets(), long, FILE);
    // Eighty percent of the path's rate, the first round trips included.
    let ideal = ideal(&long, FILE);
    assert!(took.as_secs_f64() <= ideal.as_secs_f64() / 0.8, "{took}, ideally {ideal}");
    // The initial window alone: 30 packets each round trip.
    let fixed = NdpConfig { path_window: None, ..NdpConfig::for_sockets() };
    let slow = lossless(fixed, long, FILE);
    let round_trips = FILE.div_ceil(30 * PAYLOAD);
    assert!(slow >= Duration::from_millis(20) * (round_trips - 1), "{slow}");
}

#[test]
fn ndp_r28_a_window_that_suffices_stays() {
    // 10 Gb/s · 10 µs are 9 packets: as many are sent at the same times as without the rule.
    let short = path(Rate::from_gbps(10), Duration::from_micros(10), 1);
    let fixed = NdpConfig { path_window: None, ..NdpConfig::for_sockets() };
    assert_eq!(lossless(NdpConfig::for_sockets(), short, FILE), lossless(fixed, short, FILE));
}

#[test]
fn ndp_r28_pulls_keep_the_pace_of_the_link() {
    let long = path(Rate::from_mbps(200), Duration::from_millis(20), 1);
    let config = NdpConfig { pull_burst: 0, ..NdpConfig::for_sockets() };
    let mut pair = Pair::new(config, long);
    let spec = pair.spec(Bytes::new(FILE / 4));
    pair.start(spec);
    assert!(pair.run_until_done(LIMIT));
    let pulls: Vec<(Instant, u32)> = sent(&pair, Direction::Backward)
        .iter()
        .filter(|(_, h, _)| h.kind == kind::PULL || h.has(flags::PULL))
        .map(|(at, h, _)| (*at, h.pull))
        .collect();
    let spacing = long.transmission_time(PAYLOAD + u64::from(HEADER_BYTES));
    for pair in pulls.windows(2) {
        assert_eq!(pair[1].1, pair[0].1 + 1);
        // A pull waits for the transmission of at most one other answer.
        let late = long.transmission_time(u64::from(HEADER_BYTES));
        assert!(pair[1].0.saturating_since(pair[0].0) + late >= spacing, "{pair:?}");
    }
}

#[test]
fn ndp_r28_the_first_round_trip_has_the_initial_window_only() {
    let long = path(Rate::from_mbps(200), Duration::from_millis(20), 1);
    let mut pair = Pair::new(NdpConfig::for_sockets(), long);
    let spec = pair.spec(Bytes::new(FILE));
    pair.start(spec);
    pair.run_until(Instant::ZERO + Duration::from_millis(20));
    assert_eq!(data(&pair).len(), 30);
}

#[test]
fn ndp_r28_packets_that_the_network_duplicates_are_pulled_for_once() {
    let long = path(Rate::from_mbps(200), Duration::from_millis(20), 1);
    let odds = FaultOdds { duplicate: 0.3, ..FaultOdds::default() };
    // Twice 200 Mb/s · 20 ms in packets of 1,500 bytes, and a packet's time on each link.
    let most = 2 * 336;
    let mut pair = Pair::new(NdpConfig::for_sockets(), long);
    pair.set_faults(odds.rule(1));
    let spec = pair.spec(Bytes::new(FILE / 2));
    let flow = pair.start(spec);
    let mut at = Instant::ZERO;
    while !pair.run_until_done(at) && at < LIMIT {
        at += Duration::from_millis(5);
        let in_flight = pair.sender(flow).map_or(0, NdpSender::in_flight);
        assert!(in_flight <= most, "{in_flight} packets");
    }
}

#[test]
fn ndp_r29_no_loss_takes_twice_the_time() {
    let paths = [
        (Rate::from_gbps(10), Duration::from_micros(10)),
        (Rate::from_gbps(1), Duration::from_micros(100)),
        (Rate::from_mbps(200), Duration::from_millis(20)),
    ];
    for (rate, rtt) in paths {
        let alone = lossless(NdpConfig::for_sockets(), path(rate, rtt, 1), FILE);
        for share in [0.0003, 0.001, 0.003, 0.01] {
            for seed in 0..punctual_testkit::cases(8).into() {
                let config = NdpConfig::for_sockets();
                let (took, _) = run(config, path(rate, rtt, seed), FILE, drop(share));
                assert!(took <= alone * 2, "{rate} {rtt} {share} seed {seed}: {took}, not {alone}");
            }
        }
    }
}

/// With a datacenter's parameters, on a datacenter's path.
#[test]
fn ndp_r07_no_loss_takes_twice_the_time() {
    let path = |seed| path(Rate::from_gbps(10), Duration::from_micros(10), seed);
    let alone = lossless(NdpConfig::default(), path(1), FILE);
    for share in [0.0003, 0.001, 0.003, 0.01] {
        for seed in 0..punctual_testkit::cases(24).into() {
            let (took, _) = run(NdpConfig::default(), path(seed), FILE, drop(share));
            assert!(took <= alone * 2, "{share} seed {seed}: {took}, not {alone}");
        }
    }
}

#[test]
fn ndp_r29_a_loss_is_noticed_by_later_acks() {
    let long = path(Rate::from_mbps(200), Duration::from_millis(20), 1);
    let mut pair = Pair::new(NdpConfig::for_sockets(), long);
    pair.set_faults(nth(kind::DATA, 5, Fault::Drop));
    start(&mut pair, 200);
    assert!(pair.run_until_done(LIMIT));
    let sent: Vec<Instant> =
        data(&pair).iter().filter(|(_, h, _)| h.seq == 5).map(|(at, ..)| *at).collect();
    // A round trip, a quarter of one for reordering, and the packets before and behind it.
    let most = Duration::from_millis(20 + 5 + 3);
    assert!(sent.len() == 2 && sent[1].saturating_since(sent[0]) <= most, "{sent:?}");
}

#[test]
fn ndp_r29_the_last_packet_is_probed_for() {
    let short = path(Rate::from_gbps(1), Duration::from_micros(100), 1);
    let mut pair = Pair::new(NdpConfig::for_sockets(), short);
    pair.set_faults(nth(kind::DATA, 199, Fault::Drop));
    let flow = start(&mut pair, 200);
    assert!(pair.run_until_done(LIMIT));
    assert_eq!(pair.result(flow).retransmitted, 1);
    let sent: Vec<Instant> =
        data(&pair).iter().filter(|(_, h, _)| h.seq == 199).map(|(at, ..)| *at).collect();
    // Two round trips and a millisecond after the last feedback, itself a round trip later. A round
    // trip has 100 µs and the time of a window of 30 packets of 12 µs, less than half a millisecond.
    let most = Duration::from_micros(3 * 500 + 1000);
    assert!(sent.len() == 2 && sent[1].saturating_since(sent[0]) <= most, "{sent:?}");
}
