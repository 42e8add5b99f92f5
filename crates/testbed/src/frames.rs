//! Packets of endpoints as frames, and back.

use crate::namespaces::{ipv4, kernel_mac, own_mac};
use punctual_core::{ExtBlock, HostId, Packet};
use punctual_wire::{
    AnyCodec, DEFAULT_PORT, Outer, WireName, dscp_of, ecn_bits, entropy_port, write_frame,
};

/// The EtherType of frames by which switches learn addresses: IEEE's for local experiments.
const HELLO_TYPE: u16 = 0x88b5;

/// Writes packets as frames, into memory that is used again.
#[derive(Debug)]
pub(crate) struct FrameWriter {
    datagram: Vec<u8>,
    spare: Vec<Vec<u8>>,
}

/// Frames for which there is memory from the start.
const SPARE_FRAMES: usize = 256;

impl FrameWriter {
    /// A writer of frames of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> FrameWriter {
        let buffer = || Vec::with_capacity(bytes_max);
        FrameWriter { datagram: buffer(), spare: (0..SPARE_FRAMES).map(|_| buffer()).collect() }
    }

    /// The frame of a packet that `host` sends. `fill` writes its payload.
    pub(crate) fn write(
        &mut self,
        codec: &AnyCodec,
        host: HostId,
        packet: &Packet,
        block: Option<&ExtBlock>,
        incarnation: u16,
        fill: impl FnOnce(&mut [u8]),
    ) -> Vec<u8> {
        let flow = packet.flow.0;
        codec.emit(WireName { flow, incarnation }, packet, block, &mut self.datagram, fill);
        let mut frame = self.spare.pop().unwrap_or_default();
        let outer = Outer {
            mac: [own_mac(host.0), own_mac(packet.dst.0)],
            source: ipv4(host.0).into(),
            destination: ipv4(packet.dst.0).into(),
            source_port: entropy_port(flow, packet.path as u16),
            destination_port: DEFAULT_PORT,
            dscp: dscp_of(packet.class),
            ecn: ecn_bits(packet.ecn()),
        };
        write_frame(&outer, &self.datagram, &mut frame);
        frame
    }

    /// Takes back the memory of a frame.
    pub(crate) fn reuse(&mut self, frame: Vec<u8>) {
        self.spare.push(frame);
    }
}

/// A frame by which the switch learns where the endpoints of a host are. It goes to one other host,
/// whose kernel ignores it: a broadcast would be copied to all, and count at all ports.
pub(crate) fn hello(from: u32, to: u32) -> Vec<u8> {
    let mut frame = kernel_mac(to).to_vec();
    frame.extend_from_slice(&own_mac(from));
    frame.extend_from_slice(&HELLO_TYPE.to_be_bytes());
    frame.resize(60, 0);
    frame
}

/// A frame of `bytes` bytes from a host to another host's kernel, which ignores it.
pub(crate) fn filler(from: u32, to: u32, bytes: usize) -> Vec<u8> {
    let mut frame = kernel_mac(to).to_vec();
    frame.extend_from_slice(&kernel_mac(from));
    frame.extend_from_slice(&HELLO_TYPE.to_be_bytes());
    frame.resize(bytes.max(60), 0);
    frame
}

/// Whether a frame is for this host's endpoints of ours.
pub(crate) fn is_for(host: HostId, frame: &[u8]) -> bool {
    frame.first_chunk::<6>() == Some(&own_mac(host.0))
}
