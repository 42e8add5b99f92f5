//! One test a rule of `rules.md`, and what follows from them.

use super::*;
use crate::d3::{D3Header, RateBlock};
use punctual_core::{Bytes, Controller, FlowId};
use punctual_testkit::{FaultOdds, Pair};

#[test]
fn rcp_r01_ports_stamp_the_lowest_rate_into_one_place() {
    // Eight ports: there is no limit on the path as D3 has it.
    let mut pair = Pair::new(RcpConfig::default(), testbed(7));
    let flow = pair.start(pair.spec(Bytes::new(20_000)));
    assert!(pair.run_until_done(ms(1_000)));
    assert!(pair.result(flow).finished_at.is_some());
    let mut answers = 0;
    for traced in pair.trace().iter().filter(|t| t.packet.is_to_sender()) {
        if traced.packet.header.get::<D3Header>().has(D3Header::FEEDBACK) {
            let block = RateBlock::from_block(&traced.ext.unwrap()).unwrap();
            assert!(block.feedback.len() == 1 && !block.overflow);
            answers += 1;
        }
    }
    assert!(answers >= 2);
}

#[test]
fn rcp_r02_the_rate_follows_unused_line_and_queue() {
    // 62 500 B in 500 µs are 1 Gb/s.
    assert_eq!(step(400, 500, 62_500, 0), 400_000_000, "full line, no queue: stay");
    assert_eq!(step(400, 500, 31_250, 0), 420_000_000, "half unused: 0.1 of half more");
    assert_eq!(step(400, 500, 62_500, 6_250), 360_000_000, "a tenth of a round trip waits");
    assert_eq!(step(400, 250, 15_625, 0), 410_000_000, "T/d = 1/2");
    assert_eq!(step(400, 500, 75_000, 0), 392_000_000, "more came than fits");
}

#[test]
fn rcp_r03_the_rate_stays_between_a_header_a_round_trip_and_the_line() {
    assert_eq!(step(990, 500, 0, 0), 1_000_000_000);
    assert_eq!(step(400, 500, 62_500, 128_000), 992_000);
}

#[test]
fn rcp_r04_ports_learn_the_round_trip_time() {
    let mut pair = Pair::new(
        RcpConfig::default(),
        PairPath { delay: Duration::from_micros(50), ..testbed(1) },
    );
    pair.start(pair.spec(Bytes::new(5_000_000)));
    pair.run_until(ms(20));
    let port = pair.forward_controllers().next().unwrap().unwrap();
    let rtt = port.share().rtt.as_secs_f64() * 1e6;
    assert!((200.0..260.0).contains(&rtt), "{rtt}");
}

#[test]
fn rcp_r05_a_lone_flow_starts_at_the_line_rate_after_one_round_trip() {
    let mut pair = Pair::new(RcpConfig::default(), testbed(0));
    let flow = pair.start(pair.spec(Bytes::new(14_380)));
    assert!(pair.run_until_done(ms(1_000)));
    let header_trip = (pair.path().transmission_time(62) + pair.path().delay) * 2;
    let data: Duration = pair
        .trace()
        .iter()
        .filter(|t| t.packet.payload_bytes > 0)
        .map(|t| pair.path().transmission_time(t.packet.wire_bytes.into()))
        .fold(Duration::ZERO, |sum, time| sum + time);
    let took = pair.result(flow).completed_at.unwrap().since_start();
    assert_eq!(took, header_trip + data + pair.path().delay);
}

#[test]
fn rcp_r06_ports_fall_silent_after_flows() {
    let mut pair = Pair::new(RcpConfig::default(), testbed(2));
    for _ in 0..5 {
        pair.start(pair.spec(Bytes::new(40_000)));
    }
    assert!(pair.run_until_done(ms(1_000)));
    pair.run_until(pair.now() + Duration::from_millis(10));
    for port in pair.forward_controllers() {
        assert_eq!(port.unwrap().next_timeout(), None);
    }
    assert_eq!(pair.extensions(), 0);
}

#[test]
fn flows_complete_whatever_happens_to_packets() {
    for seed in 0..60 {
        let mut pair = Pair::new(RcpConfig::default(), testbed(seed as usize % 4));
        let odds = FaultOdds { drop: 0.15, duplicate: 0.1, delay: 0.2, ..FaultOdds::default() };
        pair.set_faults(odds.rule(seed));
        let flows: Vec<FlowId> =
            (0..4).map(|n| pair.start(pair.spec(Bytes::new(1 + n * 30_000)))).collect();
        assert!(pair.run_until_done(ms(120_000)), "{seed}");
        assert!(flows.iter().all(|flow| pair.result(*flow).finished_at.is_some()));
    }
}

#[test]
fn bad_parameters_are_named() {
    assert_eq!(RcpConfig::default().validate(), Ok(()));
    for (config, name) in [
        (RcpConfig { update_interval: Duration::ZERO, ..RcpConfig::default() }, "update_interval"),
        (RcpConfig { alpha: -0.1, ..RcpConfig::default() }, "alpha"),
        (RcpConfig { beta: f64::INFINITY, ..RcpConfig::default() }, "beta"),
        (RcpConfig { rtt_initial: Duration::ZERO, ..RcpConfig::default() }, "rtt_initial"),
        (RcpConfig { rate_min: Rate::ZERO, ..RcpConfig::default() }, "rate_min"),
        (RcpConfig { buffer: Bytes::ZERO, ..RcpConfig::default() }, "buffer"),
        (RcpConfig { rto_min: Duration::ZERO, ..RcpConfig::default() }, "rto_min"),
        (RcpConfig { loss_threshold: 0, ..RcpConfig::default() }, "loss_threshold"),
    ] {
        assert_eq!(config.validate().unwrap_err().name, name);
    }
}
