//! Tests of TCP, DCTCP (also over lossless Ethernet), D2TCP and TCPpr: each rule, closed forms, properties.

mod config;
mod d2tcp;
mod dctcp;
mod lossless;
mod props;
mod rules;
mod tcppr;

use super::*;
use punctual_core::{Duration, FlowId, Instant};
use punctual_testkit::{Pair, PairPath, Traced};

/// Full data packets take 1.2 µs.
const DATA: Duration = Duration::from_nanos(1200);
/// Packets without data take 32 ns.
const BARE: Duration = Duration::from_nanos(32);
const DELAY: Duration = Duration::from_micros(50);
/// Data bytes in a full packet.
const MSS: u64 = 1460;

/// 10 Gb/s, 1500 B and 50 µs: 84 packets fill the round trip.
fn path() -> PairPath {
    PairPath { delay: DELAY, ..PairPath::default() }
}

/// From a full packet's first bit to its acknowledgement's last.
fn round_trip() -> Duration {
    DATA + DELAY + BARE + DELAY
}

/// When the acknowledgement of packet `n` of a burst that starts at 0 is back.
fn ack_back(n: u64) -> Instant {
    Instant::ZERO + DATA * n + round_trip()
}

fn late() -> Instant {
    Instant::ZERO + Duration::from_secs(1000)
}

/// TCP without handshake.
fn plain() -> TcpConfig {
    TcpConfig { handshake: false, ..TcpConfig::default() }
}

fn packets(n: u64) -> Bytes {
    Bytes::new(n * MSS)
}

/// A pair with one flow of that size.
fn pair<T: Transport>(config: T, size: Bytes) -> (Pair<T>, FlowId) {
    let mut pair = Pair::new(config, path());
    let flow = pair.start(pair.spec(size));
    (pair, flow)
}

fn header(packet: &Packet) -> TcpHeader {
    packet.header.get()
}

fn is_data(packet: &Packet) -> bool {
    !packet.is_to_sender() && !header(packet).has(TcpFlags::SYN)
}

/// Number of the full segment that a data packet carries.
fn number(packet: &Packet) -> u64 {
    header(packet).seq / MSS
}

/// When each data packet left, and its number.
fn sent<T: Transport>(pair: &Pair<T>) -> Vec<(Instant, u64)> {
    let data = pair.trace().iter().filter(|t| is_data(&t.packet));
    data.map(|t| (t.at, number(&t.packet))).collect()
}

/// Headers of the ACKs, in order.
fn acks<T: Transport>(pair: &Pair<T>) -> Vec<TcpHeader> {
    let to_sender = |t: &&Traced| t.packet.is_to_sender();
    pair.trace().iter().filter(to_sender).map(|t| header(&t.packet)).collect()
}

#[test]
fn every_rule_has_its_test_and_every_test_its_rule() {
    let sources = [
        include_str!("rules.rs"),
        include_str!("dctcp.rs"),
        include_str!("d2tcp.rs"),
        include_str!("lossless.rs"),
        include_str!("tcppr.rs"),
        include_str!("props.rs"),
    ];
    crate::testing::assert_rules_match(
        &["tcp_r", "dctcp_r", "dctcpl_r", "d2tcp_r", "tcppr_r"],
        include_str!("../rules.md"),
        &sources,
    );
}
