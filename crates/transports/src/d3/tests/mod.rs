//! Tests of D3 and RCPdc: the allocator on its own, each rule of `rules.md`, and properties.

mod allocator;
mod deadline;
mod props;
mod rules;
mod wire;

use super::{D3CommonConfig, D3Header, RateBlock, RcpdcConfig, RequestPolicy};
use crate::paced::tests::{backward, forward, seconds, start};
use punctual_core::{Bytes, Duration, FlowId, FlowSpec, Instant, Rate};
use punctual_testkit::{Direction, Pair, PairPath, Traced};

/// 1 Gb/s links with the testbed's round-trip time of about 500 µs, spread over them.
fn testbed(switches: usize) -> PairPath {
    PairPath {
        rate: Rate::from_gbps(1),
        delay: Duration::from_micros(240) / (switches as u64 + 1),
        switches,
        ..PairPath::default()
    }
}

fn pair(line: PairPath) -> Pair<RcpdcConfig> {
    Pair::new(RcpdcConfig::default(), line)
}

/// Capacities stay where they start.
fn fixed_capacity() -> RcpdcConfig {
    RcpdcConfig(D3CommonConfig { alpha: 0.0, beta: 0.0, ..D3CommonConfig::default() })
}

/// A flow that must end `deadline_us` after its start.
fn start_timed<T: RequestPolicy>(
    pair: &mut Pair<T>,
    size: u64,
    start_us: u64,
    deadline_us: u64,
) -> FlowId {
    let start = Instant::ZERO + Duration::from_micros(start_us);
    let deadline = Some(start + Duration::from_micros(deadline_us));
    let spec = pair.spec(Bytes::new(size));
    pair.start(FlowSpec { start, deadline, ..spec })
}

fn header(traced: &Traced) -> D3Header {
    traced.packet.header.get()
}

fn block(traced: &Traced) -> RateBlock {
    RateBlock::from_block(&traced.ext.expect("a block")).expect("a sound block")
}

/// The rate requests of host 0.
fn requests<T: RequestPolicy>(pair: &Pair<T>) -> Vec<Traced> {
    forward(pair).into_iter().filter(|t| header(t).has(D3Header::REQUEST)).collect()
}

#[test]
fn every_rule_has_its_test_and_every_test_its_rule() {
    let sources = [
        include_str!("allocator.rs"),
        include_str!("deadline.rs"),
        include_str!("props.rs"),
        include_str!("rules.rs"),
        include_str!("wire.rs"),
        include_str!("../../../../sim/tests/integration/d3.rs"),
        include_str!("../../../../sim/tests/integration/deadlines.rs"),
        include_str!("../../../../sim/tests/integration/exact.rs"),
        include_str!("../../../../sim/tests/integration/properties.rs"),
        include_str!("../../../../sim/tests/integration/d3_figures.rs"),
    ];
    crate::testing::assert_rules_match(&["d3_r"], include_str!("../rules.md"), &sources);
}
