//! Tests of PDQ: ports on their own, each rule of `rules.md`, the wire, and properties.

mod bench;
mod bounds;
mod ports;
mod props;
mod reports;
mod rules;
mod wire;

use super::{PdqConfig, PdqHeader};
use crate::paced::tests::{at_us, backward, forward, seconds, start};
use punctual_core::{Bytes, Duration, FlowId, Instant, Rate};
use punctual_testkit::{Pair, PairPath, Traced};

const GBPS: Rate = Rate::from_gbps(1);
/// Data in a full packet.
const SEGMENT: u64 = 1500 - 60;

/// 1 Gb/s links of 25.1 µs, the paper's.
fn testbed(switches: usize) -> PairPath {
    PairPath { rate: GBPS, delay: Duration::from_nanos(25_100), switches, ..PairPath::default() }
}

fn pair(switches: usize) -> Pair<PdqConfig> {
    Pair::new(PdqConfig::default(), testbed(switches))
}

fn start_by(pair: &mut Pair<PdqConfig>, size: u64, deadline: Instant) -> FlowId {
    let mut spec = pair.spec(Bytes::new(size));
    spec.deadline = Some(deadline);
    pair.start(spec)
}

fn header(traced: &Traced) -> PdqHeader {
    traced.packet.header.get()
}

fn of_flow(list: Vec<Traced>, flow: FlowId) -> Vec<Traced> {
    list.into_iter().filter(|t| t.packet.flow == flow).collect()
}

/// Whether it neither carries data nor starts or ends the flow.
fn is_probe(traced: &Traced) -> bool {
    header(traced).flags & !PdqHeader::HELD == 0
}

#[test]
fn every_rule_has_its_test_and_every_test_its_rule() {
    let sources = [
        include_str!("bounds.rs"),
        include_str!("ports.rs"),
        include_str!("props.rs"),
        include_str!("rules.rs"),
        include_str!("wire.rs"),
        include_str!("../../../../sim/tests/integration/exact.rs"),
        include_str!("../../../../sim/tests/integration/pdq/robust.rs"),
    ];
    crate::testing::assert_rules_match(&["pdq_r"], include_str!("../rules.md"), &sources);
}
