//! Packets that links carried.

use punctual_core::{ExtBlock, Instant, Packet, PortId};

/// A packet that a port sent.
#[derive(Clone, Debug)]
pub struct CapturedPacket {
    /// When its first bit left.
    pub at: Instant,
    /// The port.
    pub port: PortId,
    /// The packet as it left.
    pub packet: Packet,
    /// Its header extension, if it had one.
    pub block: Option<Box<ExtBlock>>,
}
