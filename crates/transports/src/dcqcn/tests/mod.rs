//! Tests of DCQCN: the rate machine step by step, each rule, properties.

mod machine;
mod rules;

use super::*;
use punctual_core::{Duration, FlowId, Instant};
use punctual_testkit::{Pair, PairPath, Traced};

/// Full data packets take 1.2 µs.
const DATA: Duration = Duration::from_nanos(1200);
const DELAY: Duration = Duration::from_micros(5);
/// Data bytes in a full packet.
const PAYLOAD: u64 = 1456;
const LINE: Rate = Rate::from_gbps(10);

/// 10 Gb/s, 1500 B and 5 µs.
fn path() -> PairPath {
    PairPath { delay: DELAY, ..PairPath::default() }
}

fn at(us: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(us)
}

fn late() -> Instant {
    Instant::ZERO + Duration::from_secs(1000)
}

fn packets(n: u64) -> Bytes {
    Bytes::new(n * PAYLOAD)
}

/// A pair with one flow of that size.
fn pair(config: DcqcnConfig, size: Bytes) -> (Pair<DcqcnConfig>, FlowId) {
    let mut pair = Pair::new(config, path());
    let flow = pair.start(pair.spec(size));
    (pair, flow)
}

fn header(packet: &Packet) -> DcqcnHeader {
    packet.header.get()
}

/// When each data packet left, and the number of the full packet that it is.
fn sent(pair: &Pair<DcqcnConfig>) -> Vec<(Instant, u64)> {
    let data = pair.trace().iter().filter(|t| !t.packet.is_to_sender());
    data.map(|t| (t.at, header(&t.packet).offset / PAYLOAD)).collect()
}

/// What went back, by its flags.
fn answers(pair: &Pair<DcqcnConfig>, flags: u8) -> Vec<&Traced> {
    let has = |t: &&Traced| t.packet.is_to_sender() && header(&t.packet).has(flags);
    pair.trace().iter().filter(has).collect()
}

#[test]
fn every_rule_has_its_test_and_every_test_its_rule() {
    let sources = [include_str!("machine.rs"), include_str!("rules.rs")];
    crate::testing::assert_rules_match(&["dcqcn_r"], include_str!("../rules.md"), &sources);
}
