//! Tests of MPTCP: each rule, closed forms, properties.

mod props;
mod rules;

use super::*;
use crate::tcp::TcpFlags;
use punctual_core::{Duration, FlowId, Instant};
use punctual_testkit::{Pair, PairPath};

/// Full data packets take 1.2 µs.
const DATA: Duration = Duration::from_nanos(1200);
/// Packets without data take 32 ns.
const BARE: Duration = Duration::from_nanos(32);
const DELAY: Duration = Duration::from_micros(50);
/// Data bytes in a full packet.
const MSS: u64 = 1460;

/// 10 Gb/s, 1500 B and 50 µs, with so many paths.
fn path(paths: u32) -> PairPath {
    PairPath { delay: DELAY, paths, ..PairPath::default() }
}

fn late() -> Instant {
    Instant::ZERO + Duration::from_secs(1000)
}

/// MPTCP without handshake.
fn plain() -> MptcpConfig {
    MptcpConfig { handshake: false, ..MptcpConfig::default() }
}

fn packets(n: u64) -> Bytes {
    Bytes::new(n * MSS)
}

/// A pair of so many paths with one flow of that size.
fn pair(config: MptcpConfig, paths: u32, size: Bytes) -> (Pair<MptcpConfig>, FlowId) {
    let mut pair = Pair::new(config, path(paths));
    let flow = pair.start(pair.spec(size));
    (pair, flow)
}

fn header(packet: &Packet) -> MptcpHeader {
    packet.header.get()
}

fn is_data(packet: &Packet) -> bool {
    !packet.is_to_sender() && !header(packet).has(TcpFlags::SYN)
}

/// Headers of the data packets, in order.
fn sent(pair: &Pair<MptcpConfig>) -> Vec<MptcpHeader> {
    let data = pair.trace().iter().filter(|t| is_data(&t.packet));
    data.map(|t| header(&t.packet)).collect()
}

/// Headers of the ACKs, in order.
fn acks(pair: &Pair<MptcpConfig>) -> Vec<MptcpHeader> {
    let to_sender = pair.trace().iter().filter(|t| t.packet.is_to_sender());
    to_sender.map(|t| header(&t.packet)).collect()
}

#[test]
fn every_rule_has_its_test_and_every_test_its_rule() {
    let sources = [include_str!("rules.rs"), include_str!("props.rs")];
    crate::testing::assert_rules_match(&["mptcp_r"], include_str!("../rules.md"), &sources);
}
