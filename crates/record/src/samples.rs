//! Time series of ports and of transports' gauges.

use punctual_core::{Duration, FlowId, Instant, PortId, TransportId};

/// One port at one sampling instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortSample {
    /// When.
    pub at: Instant,
    /// Which port.
    pub port: PortId,
    /// Bytes waiting or in service.
    pub queue_bytes: u64,
    /// Packets waiting or in service.
    pub queue_packets: u32,
    /// Bytes sent since the start.
    pub sent_bytes: u64,
    /// Time that it was paused since the start.
    pub paused: Duration,
}

/// The owner of a gauge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GaugeOf {
    /// A flow's sending end.
    Sender(FlowId),
    /// A flow's receiving end.
    Receiver(FlowId),
    /// A transport's controller at a port.
    Port(PortId),
}

/// One gauge of a transport at one sampling instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GaugeSample {
    /// When.
    pub at: Instant,
    /// The transport.
    pub transport: TransportId,
    /// Its owner.
    pub of: GaugeOf,
    /// Its name, which ends in its unit.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
}
