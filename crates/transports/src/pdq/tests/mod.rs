//! Tests of PDQ: ports on their own, each rule of `rules.md`, the wire, and properties.

mod ports;
mod props;
mod rules;
mod wire;

use super::{Pdq, PdqHeader};
use punctual_core::{Bytes, Duration, FlowId, Instant, Rate};
use punctual_testkit::{Direction, Line, Pair, Traced};

const GBPS: Rate = Rate::from_gbps(1);
/// Data in a full packet.
const SEGMENT: u64 = 1500 - 60;

/// 1 Gb/s links of 25.1 µs, the paper's.
fn testbed(switches: usize) -> Line {
    Line { rate: GBPS, delay: Duration::from_nanos(25_100), switches, ..Line::default() }
}

fn pair(switches: usize) -> Pair<Pdq> {
    Pair::new(Pdq::default(), testbed(switches))
}

fn start(pair: &mut Pair<Pdq>, size: u64) -> FlowId {
    pair.start(pair.spec(Bytes::new(size)))
}

fn start_by(pair: &mut Pair<Pdq>, size: u64, deadline: Instant) -> FlowId {
    let mut spec = pair.spec(Bytes::new(size));
    spec.deadline = Some(deadline);
    pair.start(spec)
}

fn at_us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(us)
}

fn seconds(s: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(s)
}

fn header(traced: &Traced) -> PdqHeader {
    traced.packet.header.get()
}

/// What host 0 sent.
fn forward(pair: &Pair<Pdq>) -> Vec<Traced> {
    pair.trace().iter().filter(|t| t.direction == Direction::Forward).copied().collect()
}

/// What host 1 sent.
fn backward(pair: &Pair<Pdq>) -> Vec<Traced> {
    pair.trace().iter().filter(|t| t.direction == Direction::Backward).copied().collect()
}

fn of_flow(list: Vec<Traced>, flow: FlowId) -> Vec<Traced> {
    list.into_iter().filter(|t| t.packet.flow == flow).collect()
}

/// Whether it neither carries data nor starts or ends the flow.
fn is_probe(traced: &Traced) -> bool {
    header(traced).flags == 0
}
