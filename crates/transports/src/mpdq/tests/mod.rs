//! Tests of M-PDQ: each rule of `rules.md`, and properties.

mod props;
mod rules;

use super::MpdqConfig;
use crate::paced::tests::{at_us, forward, seconds, start};
use crate::pdq::PdqHeader;
use punctual_core::{Bytes, Duration, FlowId, FlowSpec, Instant, Rate};
use punctual_testkit::{Pair, PairPath, Traced};

const GBPS: Rate = Rate::from_gbps(1);
/// Data in a full packet.
const SEGMENT: u64 = 1500 - 60;

/// 1 Gb/s links of 25.1 µs, PDQ's, and `paths` path numbers, which all lead along them.
fn testbed(switches: usize, paths: u32) -> PairPath {
    PairPath {
        rate: GBPS,
        delay: Duration::from_nanos(25_100),
        switches,
        paths,
        ..PairPath::default()
    }
}

fn pair_of(subflows: u32, paths: u32) -> Pair<MpdqConfig> {
    Pair::new(MpdqConfig { subflows, ..MpdqConfig::default() }, testbed(1, paths))
}

fn header(traced: &Traced) -> PdqHeader {
    traced.packet.header.get()
}

/// Packets of a subflow that host 0 sent.
fn of_subflow(pair: &Pair<MpdqConfig>, subflow: u32) -> Vec<Traced> {
    forward(pair).into_iter().filter(|t| header(t).subflow() == subflow).collect()
}

#[test]
fn every_rule_has_its_test_and_every_test_its_rule() {
    let sources = [
        include_str!("props.rs"),
        include_str!("rules.rs"),
        include_str!("../../../../sim/tests/integration/mpdq.rs"),
    ];
    crate::testing::assert_rules_match(&["mpdq_r"], include_str!("../rules.md"), &sources);
}
