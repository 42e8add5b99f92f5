//! NDP's rules, one test each, and its behaviour under random faults.

mod hostile;
mod lone;
mod long_paths;
mod losses;
mod props;
mod robustness;
mod rules;

use super::*;
use punctual_core::{Duration, FlowId, Instant};
use punctual_testkit::{Direction, Fault, Pair, PairPath, Traced};

/// Data bytes of a full packet on the default line.
const PAYLOAD: u64 = 1436;
/// More than any test needs.
const LIMIT: Instant = Instant::from_picos(20_000_000_000_000);

fn pair(config: NdpConfig) -> Pair<NdpConfig> {
    Pair::new(config, PairPath::default())
}

fn window(initial_window: u32) -> NdpConfig {
    NdpConfig { initial_window, ..NdpConfig::default() }
}

/// Starts a flow of so many full packets.
fn start(pair: &mut Pair<NdpConfig>, packets: u64) -> FlowId {
    let spec = pair.spec(Bytes::new(packets * PAYLOAD));
    pair.start(spec)
}

fn sent(pair: &Pair<NdpConfig>, direction: Direction) -> Vec<(Instant, NdpHeader, Packet)> {
    pair.trace()
        .iter()
        .filter(|t: &&Traced| t.direction == direction)
        .map(|t| (t.at, NdpHeader::of(&t.packet), t.packet))
        .collect()
}

fn data(pair: &Pair<NdpConfig>) -> Vec<(Instant, NdpHeader, Packet)> {
    sent(pair, Direction::Forward)
}

fn control(pair: &Pair<NdpConfig>, kind: u8) -> Vec<(Instant, NdpHeader, Packet)> {
    sent(pair, Direction::Backward).into_iter().filter(|(_, h, _)| h.kind == kind).collect()
}

/// Numbers of the data packets sent, in order.
fn numbers(pair: &Pair<NdpConfig>) -> Vec<u64> {
    data(pair).iter().map(|(_, h, _)| h.seq).collect()
}

/// Does `fault` to the n-th packet of a kind.
fn nth(kind: u8, n: u64, fault: Fault) -> impl FnMut(&Packet, u64) -> Fault + 'static {
    let mut seen = 0;
    move |packet, _| {
        if NdpHeader::of(packet).kind != kind {
            return Fault::Deliver;
        }
        seen += 1;
        if seen == n + 1 { fault } else { Fault::Deliver }
    }
}

#[test]
fn every_rule_has_its_test_and_every_test_its_rule() {
    let sources = [
        include_str!("rules.rs"),
        include_str!("robustness.rs"),
        include_str!("losses.rs"),
        include_str!("long_paths.rs"),
        include_str!("hostile.rs"),
        include_str!("props.rs"),
    ];
    crate::testing::assert_rules_match(&["ndp_r"], include_str!("../rules.md"), &sources);
}
