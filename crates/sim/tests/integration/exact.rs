//! Runs whose outcome arithmetic gives.

use crate::common::*;
use punctual_core::{Bytes, Duration, Instant, Limit, QueueSpec};
use punctual_sim::FlowStatus;

/// Last byte of a lone NDP flow that fits its first window: packets leave back to back, the last
/// crosses each link after the one before it, then its own way is store-and-forward.
fn ndp_lone_flow(hops: u64, packets: u64) -> Instant {
    let tx = GBPS10.transmission_time(Bytes::new(9064));
    // The last packet has left the NIC after packets·tx; each further hop adds tx and delay.
    Instant::ZERO + tx * (packets + hops - 1) + US * hops
}

#[test]
fn ndp_lone_flow_in_a_rack_and_across_a_fat_tree() {
    for (dst, hops) in [(1, 2), (2, 4), (15, 6)] {
        for packets in [1, 10, 23] {
            let network = fat_tree(4, 9064);
            let outcome = run(setup(network, vec![ndp_9k(23)], vec![flow(0, dst, packets * 9000)]));
            assert_eq!(outcome.flows[0].status, FlowStatus::Completed);
            assert_eq!(outcome.flows[0].ended, Some(ndp_lone_flow(hops, packets)));
            assert_eq!(outcome.totals.trims + outcome.totals.drops, 0);
        }
    }
}

/// Beyond the first window, pulls clock the sender: while the window lasts longer than the round
/// trip, packets still leave back to back, and the pulls' spacing (data alone) is the faster.
#[test]
fn ndp_lone_flow_beyond_its_window_keeps_the_line_full() {
    let outcome = run(setup(star(2, 9064), vec![ndp_9k(23)], vec![flow(0, 1, 200 * 9000)]));
    assert_eq!(outcome.flows[0].ended, Some(ndp_lone_flow(2, 200)));
}

/// The same for window transports: handshake, then slow start rounds that are gone once the
/// window covers the round trip.
fn tcp_lone_flow(hops: u64, packets: u64, window: u64) -> Instant {
    let line = |bytes: u64| GBPS10.transmission_time(Bytes::new(bytes));
    let path = |bytes: u64| (line(bytes) + US) * hops;
    let handshake = path(40) * 2;
    // Data of each round leaves back to back; the round after starts with the first ACK back.
    let round_trip = path(1500) + path(40);
    let (mut at, mut left, mut window) = (Instant::ZERO + handshake, packets, window);
    loop {
        let burst = line(1500) * window;
        if left <= window {
            return at + line(1500) * (left - 1) + path(1500);
        }
        if burst >= round_trip {
            // The window covers the round trip: back to back to the end.
            return at + line(1500) * (left - 1) + path(1500);
        }
        left -= window;
        at += round_trip;
        window *= 2;
    }
}

#[test]
fn tcp_and_its_relatives_lone_flow() {
    for name in ["tcp", "tcppr", "dctcp", "d2tcp"] {
        for (dst, hops) in [(1, 2), (15, 6)] {
            for packets in [1, 10] {
                let network = fat_tree(4, 1500);
                let size = packets * 1460;
                let outcome = run(setup(network, vec![transport(name)], vec![flow(0, dst, size)]));
                let expected = tcp_lone_flow(hops, packets, 10);
                assert_eq!(outcome.flows[0].ended, Some(expected), "{name} {packets} {hops}");
            }
        }
    }
}

/// n senders of the same size to one receiver: its link is the bottleneck, and NDP keeps it busy
/// to the end.
#[test]
fn ndp_incast_takes_what_the_link_takes() {
    for senders in [100u64, 200] {
        let flows = (1..=senders).map(|s| flow(s as u32, 0, 450_000)).collect();
        let outcome = run(setup(star(senders as u32 + 1, 9064), vec![ndp_9k(30)], flows));
        let last = outcome.flows.iter().filter_map(|f| f.ended).max().expect("done");
        let wire = GBPS10.transmission_time(Bytes::new(senders * 50 * 9064));
        let base_rtt = (GBPS10.transmission_time(Bytes::new(9064 + 64)) + US * 2) * 2;
        let ideal = Instant::ZERO + wire + base_rtt;
        let over = last.saturating_since(ideal).as_secs_f64() / ideal.as_secs_f64();
        println!("incast {senders}: last {last}, ideal {ideal}, over {:.3} %", over * 100.0);
        assert!(over < 0.02, "{over}");
        assert!(last > Instant::ZERO + wire, "faster than the link");
    }
}

/// Two flows through one bottleneck cannot finish before their sum.
#[test]
fn nothing_beats_the_bottleneck() {
    for name in ["tcp", "tcppr", "dctcp", "dctcp-lossless", "d2tcp", "ndp", "dcqcn"] {
        let flows = vec![flow(0, 2, 3_000_000), flow(1, 2, 3_000_000)];
        let outcome = run(setup(star(3, 1500), vec![transport(name)], flows));
        let last = outcome.flows.iter().filter_map(|f| f.ended).max().expect("done");
        let least = GBPS10.transmission_time(Bytes::new(6_000_000));
        assert!(last > Instant::ZERO + least, "{name}");
        assert!(last < Instant::ZERO + least + Duration::from_millis(10), "{name} took {last}");
    }
}

/// RCPdc: the SYN is granted the base rate only, the next header the line; then packets go back
/// to back. In a flow of a round trip or less, only the last carries a request, 22 bytes more.
fn rcpdc_lone_flow(hops: u64, packets: u64) -> Instant {
    let line = |bytes: u64| GBPS10.transmission_time(Bytes::new(bytes));
    let header_trip = (line(62) + US) * hops * 2;
    let wire = |n: u64| if n + 1 == packets { 1500 } else { 1478 };
    let mut arrivals: Vec<Duration> = vec![header_trip * 2; packets as usize];
    for _ in 0..hops {
        let mut free = Duration::ZERO;
        for (n, arrival) in arrivals.iter_mut().enumerate() {
            free = free.max(*arrival) + line(wire(n as u64));
            *arrival = free + US;
        }
    }
    Instant::ZERO + arrivals[packets as usize - 1]
}

#[test]
fn rcpdc_lone_flow_on_a_pair_and_across_a_fat_tree() {
    for (network, dst, hops) in
        [(back_to_back(1500), 1, 1), (fat_tree(4, 1500), 1, 2), (fat_tree(4, 1500), 15, 6)]
    {
        for packets in [1, 2, 3] {
            let flows = vec![flow(0, dst, packets * 1438)];
            let outcome = run(setup(network.clone(), vec![transport("rcpdc")], flows));
            let expected = rcpdc_lone_flow(hops, packets);
            assert_eq!(outcome.flows[0].ended, Some(expected), "{packets} packets, {hops} hops");
        }
    }
}

/// PDQ: the SYN's answer brings the whole line; then packets go back to back.
#[test]
fn pdq_lone_flow_on_a_pair_and_across_a_fat_tree() {
    for (network, dst, hops) in
        [(back_to_back(1500), 1, 1), (fat_tree(4, 1500), 1, 2), (fat_tree(4, 1500), 15, 6)]
    {
        for packets in [1, 2, 200] {
            let flows = vec![flow(0, dst, packets * 1440)];
            let outcome = run(setup(network.clone(), vec![transport("pdq")], flows));
            let line = |bytes: u64| GBPS10.transmission_time(Bytes::new(bytes));
            let path = |bytes: u64| (line(bytes) + US) * hops;
            let expected = Instant::ZERO + path(60) * 2 + line(1500) * (packets - 1) + path(1500);
            assert_eq!(outcome.flows[0].ended, Some(expected), "{packets} packets, {hops} hops");
        }
    }
}

/// M-PDQ: a flow of one packet has one subflow, and takes as long as one of PDQ. Longer
/// ones are in `mpdq.rs`.
#[test]
fn mpdq_lone_flow_on_a_pair_and_across_a_fat_tree() {
    for (network, dst, hops) in
        [(back_to_back(1500), 1, 1), (fat_tree(4, 1500), 1, 2), (fat_tree(4, 1500), 15, 6)]
    {
        let outcome = run(setup(network, vec![transport("m-pdq")], vec![flow(0, dst, 1440)]));
        let path = |bytes: u64| (GBPS10.transmission_time(Bytes::new(bytes)) + US) * hops;
        let expected = Instant::ZERO + path(60) * 2 + path(1500);
        assert_eq!(outcome.flows[0].ended, Some(expected), "{hops} hops");
    }
}

/// DCQCN: back to back from the start.
#[test]
fn dcqcn_lone_flow_on_a_pair_and_across_a_fat_tree() {
    for (network, dst, hops) in
        [(back_to_back(1500), 1, 1), (fat_tree(4, 1500), 1, 2), (fat_tree(4, 1500), 15, 6)]
    {
        for packets in [1, 2, 1000] {
            let flows = vec![flow(0, dst, packets * 1456)];
            let outcome = run(setup(network.clone(), vec![transport("dcqcn")], flows));
            let tx = GBPS10.transmission_time(Bytes::new(1500));
            let expected = Instant::ZERO + tx * (packets + hops - 1) + US * hops;
            assert_eq!(outcome.flows[0].ended, Some(expected), "{packets} packets, {hops} hops");
        }
    }
}

/// pHost: short flows go at once, behind their request; longer ones wait for the first token.
#[test]
fn phost_lone_flow_on_a_pair_and_across_a_fat_tree() {
    for (network, dst, hops) in
        [(back_to_back(1500), 1, 1), (fat_tree(4, 1500), 1, 2), (fat_tree(4, 1500), 15, 6)]
    {
        for packets in [1, 8, 9, 40] {
            let mut settings = punctual_transports::TransportSettings::default();
            // Across six hops more than eight packets are under way.
            settings.phost.window = Some(32);
            let phost =
                punctual_transports::AnyTransport::by_name("phost", &settings).expect("phost");
            let flows = vec![flow(0, dst, packets * 1460)];
            let outcome = run(setup(network.clone(), vec![phost], flows));
            let line = |bytes: u64| GBPS10.transmission_time(Bytes::new(bytes));
            let path = |bytes: u64| (line(bytes) + US) * hops;
            let begin = if packets <= 8 { line(40) } else { path(40) * 2 };
            let expected = Instant::ZERO + begin + line(1500) * (packets - 1) + path(1500);
            assert_eq!(outcome.flows[0].ended, Some(expected), "{packets} packets, {hops} hops");
        }
    }
}

#[test]
fn tcp_dctcp_and_ndp_lone_flow_on_a_pair() {
    for packets in [1, 10] {
        for name in ["tcp", "tcppr", "dctcp", "d2tcp"] {
            let flows = vec![flow(0, 1, packets * 1460)];
            let outcome = run(setup(back_to_back(1500), vec![transport(name)], flows));
            assert_eq!(outcome.flows[0].ended, Some(tcp_lone_flow(1, packets, 10)), "{name}");
        }
        let flows = vec![flow(0, 1, packets * 9000)];
        let outcome = run(setup(back_to_back(9064), vec![ndp_9k(23)], flows));
        assert_eq!(outcome.flows[0].ended, Some(ndp_lone_flow(1, packets)));
    }
}

/// The simulator and the test driver share no code beyond the transports; a lone flow finishes
/// at the same picosecond in both, also where slow start or pulls make the sum hard to write.
#[test]
fn simulator_and_test_driver_agree() {
    use punctual_testkit::{Pair, PairPath};
    use punctual_transports::AnyTransport;
    use punctual_transports::d3::RcpdcConfig;
    use punctual_transports::dcqcn::DcqcnConfig;
    use punctual_transports::ndp::{NdpConfig, PathPolicy};
    use punctual_transports::pdq::PdqConfig;
    use punctual_transports::tcp::{D2tcpConfig, DctcpConfig, TcpConfig, TcpprConfig};

    fn by_pair<T: punctual_core::Transport>(config: T, switches: usize, size: u64) -> Instant {
        let mut pair = Pair::new(config, PairPath { switches, ..PairPath::default() });
        let spec = pair.spec(Bytes::new(size));
        let flow = pair.start(spec);
        assert!(pair.run_until_done(Instant::ZERO + Duration::from_secs(10)));
        pair.result(flow).completed_at.expect("completed")
    }

    // The test driver has one path, so packets must not overtake each other on several.
    let one_path = NdpConfig { paths: PathPolicy::Single, ..NdpConfig::default() };
    for (network, dst, switches) in
        [(back_to_back(1500), 1, 0), (star(2, 1500), 1, 1), (fat_tree(4, 1500), 15, 5)]
    {
        for size in [1, 1460, 20_000, 100_001, 1_000_000] {
            let expected = [
                ("tcp", by_pair(TcpConfig::default(), switches, size)),
                ("tcppr", by_pair(TcpprConfig::default(), switches, size)),
                ("dctcp", by_pair(DctcpConfig::default(), switches, size)),
                ("d2tcp", by_pair(D2tcpConfig::default(), switches, size)),
                ("dcqcn", by_pair(DcqcnConfig::default(), switches, size)),
                ("rcpdc", by_pair(RcpdcConfig::default(), switches, size)),
                ("pdq", by_pair(PdqConfig::default(), switches, size)),
                ("ndp", by_pair(one_path.clone(), switches, size)),
            ];
            for (name, ended) in expected {
                let flows = vec![flow(0, dst, size)];
                let transport = match name {
                    "ndp" => AnyTransport::Ndp(one_path.clone()),
                    name => transport(name),
                };
                let mut setup = setup(network.clone(), vec![transport], flows);
                // The test driver's ports send control packets first.
                setup.switch_queue = QueueSpec::Priority { limit: Limit::Packets(1_000_000) };
                let outcome = run(setup);
                let record = &outcome.flows[0];
                assert_eq!(record.ended, Some(ended), "{name}, {size} B, {switches} switches");
            }
        }
    }
}
