//! Tests of D3 and RCPdc: the allocator on its own, each rule of `rules.md`, and properties.

mod allocator;
mod props;
mod rules;
mod wire;

use super::{D3Header, Params, RateBlock, Rcpdc};
use punctual_core::{Bytes, Duration, FlowId, Instant, Rate};
use punctual_testkit::{Direction, Line, Pair, Traced};

/// 1 Gb/s links with the testbed's round-trip time of about 500 µs, spread over them.
fn testbed(switches: usize) -> Line {
    Line {
        rate: Rate::from_gbps(1),
        delay: Duration::from_micros(240) / (switches as u64 + 1),
        switches,
        ..Line::default()
    }
}

fn pair(line: Line) -> Pair<Rcpdc> {
    Pair::new(Rcpdc::default(), line)
}

/// Capacities stay where they start.
fn fixed_capacity() -> Rcpdc {
    Rcpdc(Params { alpha: 0.0, beta: 0.0, ..Params::default() })
}

fn start(pair: &mut Pair<Rcpdc>, size: u64) -> FlowId {
    pair.start(pair.spec(Bytes::new(size)))
}

fn seconds(s: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(s)
}

fn header(traced: &Traced) -> D3Header {
    traced.packet.header.get()
}

fn block(traced: &Traced) -> RateBlock {
    RateBlock::from_block(&traced.ext.expect("a block")).expect("a sound block")
}

/// What host 0 sent.
fn forward(pair: &Pair<Rcpdc>) -> Vec<Traced> {
    pair.trace().iter().filter(|t| t.direction == Direction::Forward).copied().collect()
}

/// What host 1 sent.
fn backward(pair: &Pair<Rcpdc>) -> Vec<Traced> {
    pair.trace().iter().filter(|t| t.direction == Direction::Backward).copied().collect()
}

/// The rate requests of host 0.
fn requests(pair: &Pair<Rcpdc>) -> Vec<Traced> {
    forward(pair).into_iter().filter(|t| header(t).has(D3Header::REQUEST)).collect()
}
