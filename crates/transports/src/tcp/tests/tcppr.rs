//! One test for each rule of TCPpr in `rules.md`.

use super::*;
use punctual_core::Class;

fn class(config: &TcpprConfig, deadline_ms: Option<u64>, background: bool) -> u8 {
    let spec = Pair::new(plain(), path()).spec(Bytes::new(1));
    let start = Instant::ZERO + Duration::from_millis(500);
    let deadline = deadline_ms.map(|ms| start + Duration::from_millis(ms));
    config.params().class(&FlowSpec { start, deadline, background, ..spec }).0
}

fn levels(levels: u8) -> TcpprConfig {
    TcpprConfig { levels, ..TcpprConfig::default() }
}

#[test]
fn tcppr_r01_short_deadlines_go_first() {
    for n in 2..=4 {
        assert_eq!(class(&levels(n), Some(1), false), 1);
    }
    // The mean, 30 ms, belongs to the class above the cut.
    assert_eq!(class(&levels(2), Some(30), false), 1);
    assert_eq!(class(&levels(2), Some(31), false), 2);
    assert_eq!(class(&levels(3), Some(31), false), 2);
    let at_40 = TcpprConfig { mean_deadline: Duration::from_millis(40), ..levels(3) };
    assert_eq!(class(&at_40, Some(31), false), 1);
    assert_eq!(class(&at_40, Some(41), false), 2);
    let past = FlowSpec {
        start: late(),
        deadline: Some(Instant::ZERO),
        ..Pair::new(plain(), path()).spec(Bytes::new(1))
    };
    assert_eq!(levels(2).params().class(&past), Class::DATA);
}

#[test]
fn tcppr_r02_flows_without_deadline_and_background_are_lowest() {
    for n in 2..=4 {
        assert_eq!(class(&levels(n), None, false), n);
        assert_eq!(class(&levels(n), None, true), n);
        assert_eq!(class(&levels(n), Some(1), true), n);
    }
    assert_eq!(class(&levels(3), Some(10_000), false), 2, "above background");
    assert_eq!(class(&levels(4), Some(10_000), false), 3, "above background");
}

#[test]
fn tcppr_r03_cuts_may_be_given() {
    let ms = Duration::from_millis;
    let four = levels(4);
    let of = |config: &TcpprConfig, all: [u64; 4]| all.map(|d| class(config, Some(d), false));
    assert_eq!(of(&four, [15, 16, 30, 31]), [1, 2, 2, 3]);
    let given = TcpprConfig { cuts: vec![ms(5), ms(50)], ..four.clone() };
    assert_eq!(given.validate(), Ok(()));
    assert_eq!(of(&given, [5, 6, 50, 51]), [1, 2, 2, 3]);
    let given = TcpprConfig { cuts: vec![ms(5)], ..levels(2) };
    assert_eq!(of(&given, [5, 6, 50, 51]), [1, 2, 2, 2]);
    for bad in [
        levels(1),
        levels(5),
        TcpprConfig { cuts: vec![ms(5)], ..four.clone() },
        TcpprConfig { cuts: vec![ms(5), ms(5)], ..four.clone() },
        TcpprConfig { cuts: vec![Duration::ZERO, ms(5)], ..four },
        TcpprConfig { mean_deadline: Duration::ZERO, ..levels(2) },
    ] {
        assert!(bad.validate().is_err(), "{bad:?}");
    }
}

#[test]
fn tcppr_r04_all_packets_of_a_flow_have_its_class() {
    let mut pair = Pair::new(levels(3), path());
    let deadlines = [Some(Duration::from_millis(5)), Some(Duration::from_millis(50)), None];
    for deadline in deadlines {
        // What the flow asks for does not count.
        let spec = FlowSpec { class: Class(6), ..pair.spec(packets(30)) };
        pair.start(FlowSpec { deadline: deadline.map(|d| Instant::ZERO + d), ..spec });
    }
    assert!(pair.run_until_done(late()));
    for t in pair.trace() {
        assert_eq!(t.packet.class, Class(1 + t.packet.flow.0 as u8));
    }
    // One host's flows: the most urgent is through first.
    let end = |n: u32| pair.result(FlowId(n)).completed_at.unwrap();
    assert!(end(0) < end(1) && end(1) < end(2));
}

#[test]
fn tcppr_r05_otherwise_it_is_tcp() {
    for size in [1, 100_000, 3_000_000] {
        let (mut tcppr, flow) = pair(TcpprConfig::default(), Bytes::new(size));
        let (mut tcp, _) = pair(TcpConfig::default(), Bytes::new(size));
        assert!(tcppr.run_until_done(late()) && tcp.run_until_done(late()));
        assert_eq!(tcppr.result(flow).finished_at, tcp.result(flow).finished_at);
        assert_eq!(sent(&tcppr), sent(&tcp));
    }
}

#[test]
fn tcppr_r06_default_queue_is_strict_priority() {
    let queue =
        |gbps| TcpprConfig::default().default_queue(Rate::from_gbps(gbps), Bytes::new(1500));
    assert_eq!(queue(1), QueueSpec::Priority { limit: Limit::Packets(100) });
    assert_eq!(queue(10), QueueSpec::Priority { limit: Limit::Packets(200) });
}
