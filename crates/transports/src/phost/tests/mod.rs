//! Tests of pHost: each rule, properties.

mod rules;

use super::*;
use punctual_core::{Duration, FlowId, Instant};
use punctual_testkit::{Pair, PairPath, Traced};

/// Full data packets take 1.2 µs.
const DATA: Duration = Duration::from_nanos(1200);
/// Packets without data take 32 ns.
const BARE: Duration = Duration::from_nanos(32);
const DELAY: Duration = Duration::from_nanos(1500);
/// Data bytes in a full packet.
const PAYLOAD: u64 = 1460;

/// 10 Gb/s, 1500 B and 1.5 µs: a round trip is less than eight packets.
fn path() -> PairPath {
    PairPath { delay: DELAY, ..PairPath::default() }
}

fn late() -> Instant {
    Instant::ZERO + Duration::from_secs(1000)
}

fn packets(n: u64) -> Bytes {
    Bytes::new(n * PAYLOAD)
}

/// A pair with one flow of that size.
fn pair(config: PhostConfig, size: Bytes) -> (Pair<PhostConfig>, FlowId) {
    let mut pair = Pair::new(config, path());
    let flow = pair.start(pair.spec(size));
    (pair, flow)
}

fn header(packet: &Packet) -> PhostHeader {
    packet.header.get()
}

/// What was sent of one kind, in order, as it left its host.
fn sent(pair: &Pair<PhostConfig>, kind: u8) -> Vec<Traced> {
    let of_kind = |t: &&Traced| header(&t.packet).kind == kind;
    pair.trace().iter().filter(of_kind).copied().collect()
}

#[test]
fn every_rule_has_its_test_and_every_test_its_rule() {
    let sources = [include_str!("rules.rs")];
    crate::testing::assert_rules_match(&["phost_r"], include_str!("../rules.md"), &sources);
}
