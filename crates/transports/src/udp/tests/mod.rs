//! Tests of UDP: each rule of `rules.md`.

mod rules;

use super::{UDP_IP_HEADER_BYTES, UdpConfig};
use punctual_core::{Bytes, Duration, Instant, Rate};
use punctual_testkit::{Pair, PairPath};

const RATE: Rate = Rate::from_mbps(100);

fn pair() -> Pair<UdpConfig> {
    let line = PairPath {
        rate: Rate::from_gbps(1),
        delay: Duration::from_micros(5),
        ..PairPath::default()
    };
    Pair::new(UdpConfig { rate: RATE, ..UdpConfig::default() }, line)
}

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// What a full datagram carries.
fn payload(pair: &Pair<UdpConfig>) -> u64 {
    pair.path().mtu.get() - u64::from(UDP_IP_HEADER_BYTES)
}

#[test]
fn every_rule_has_its_test_and_every_test_its_rule() {
    let sources = [include_str!("rules.rs")];
    crate::testing::assert_rules_match(&["udp_r"], include_str!("../rules.md"), &sources);
}
