//! Tests of RCP: each rule of `rules.md`, and properties.

mod rules;

use super::{FairRate, RcpConfig};
use punctual_core::{Duration, Instant, Rate};
use punctual_testkit::PairPath;

const LINE: Rate = Rate::from_gbps(1);

fn testbed(switches: usize) -> PairPath {
    let delay = Duration::from_micros(240) / (switches as u64 + 1);
    PairPath { rate: LINE, delay, switches, ..PairPath::default() }
}

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn step(rate_mbps: u64, interval_us: u64, arrived: u64, queue: u64) -> u64 {
    let rtt = Duration::from_micros(500);
    let mut share = FairRate { rate: Rate::from_mbps(rate_mbps), rtt };
    share.adapt(&RcpConfig::default(), LINE, Duration::from_micros(interval_us), arrived, queue);
    share.rate.as_bps()
}

#[test]
fn every_rule_has_its_test_and_every_test_its_rule() {
    let sources = [include_str!("rules.rs")];
    crate::testing::assert_rules_match(&["rcp_r"], include_str!("../rules.md"), &sources);
}
