//! The path between the two hosts.

use punctual_core::{Bytes, Duration, Rate};

/// A full-duplex path between host 0 and host 1: one link, or several with switches between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairPath {
    /// Rate of every link.
    pub rate: Rate,
    /// One-way propagation delay of every link.
    pub delay: Duration,
    /// Largest packet.
    pub mtu: Bytes,
    /// Bytes that a link adds to each packet.
    pub framing: Bytes,
    /// Store-and-forward switches between the hosts, with unbounded queues.
    pub switches: usize,
    /// Number of equal-cost paths that flows see. All of them use the same links.
    pub paths: u32,
    /// Whether ports run the transport's controllers.
    pub controllers: bool,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Default for PairPath {
    /// 10 Gb/s, 1 µs, 1500 B, no framing, no switch, 4 paths, with controllers.
    fn default() -> Self {
        PairPath {
            rate: Rate::from_gbps(10),
            delay: Duration::from_micros(1),
            mtu: Bytes::new(1500),
            framing: Bytes::ZERO,
            switches: 0,
            paths: 4,
            controllers: true,
            seed: 1,
        }
    }
}

impl PairPath {
    /// Time that a packet of `wire_bytes` occupies a link.
    pub fn transmission_time(&self, wire_bytes: u64) -> Duration {
        self.rate.transmission_time(Bytes::new(wire_bytes) + self.framing)
    }
}
