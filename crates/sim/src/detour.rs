//! What routing knows of links that are gone: packets are led around them, once it has been told.

use punctual_core::{HostId, Packet, PacketFlags, PortId};
use punctual_net::Network;

/// Longer ways than this are loops.
const HOPS_MAX: u8 = 64;

/// The links that routing has withdrawn.
#[derive(Debug, Default)]
pub(crate) struct Detours {
    /// By port; empty until the first.
    withdrawn: Vec<bool>,
    count: u32,
}

impl Detours {
    /// Whether every link is in use, as far as routing knows.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Routing learns that a link is gone, or back.
    pub(crate) fn set(&mut self, port: PortId, is_withdrawn: bool, ports: usize) {
        self.withdrawn.resize(ports, false);
        let known = &mut self.withdrawn[port.index()];
        self.count -= u32::from(*known);
        *known = is_withdrawn;
        self.count += u32::from(is_withdrawn);
    }

    /// Starts a packet on its way, on the path it names or the next one that has no withdrawn
    /// link: so an answer that names its data's path still follows it. Without any it goes where it is lost. `random` gives a number below its argument.
    pub(crate) fn enter(
        &self,
        network: &Network,
        src: HostId,
        packet: &mut Packet,
        mut random: impl FnMut(u32) -> u32,
    ) {
        let paths = network.paths(src, packet.dst).max(1);
        if packet.flags.has(PacketFlags::SWITCH_PATH) {
            // Switches would each choose at random among what is left: so does this, at once.
            packet.flags = packet.flags.toggled(PacketFlags::SWITCH_PATH);
            packet.path = random(paths);
        }
        let wanted = packet.path;
        for step in 0..paths {
            let mut tried = *packet;
            tried.path = (wanted + step) % paths;
            network.enter(src, &mut tried, &mut random);
            if self.is_clear(network, src, tried) {
                *packet = tried;
                return;
            }
        }
        network.enter(src, packet, random);
    }

    /// Whether the way of a packet that has entered the network has no withdrawn link.
    fn is_clear(&self, network: &Network, src: HostId, mut packet: Packet) -> bool {
        let mut port = network.nic(src);
        while !self.withdrawn[port.index()] && packet.hop < HOPS_MAX {
            let node = network.link(port).to;
            if node.0 < network.hosts {
                return true;
            }
            packet.hop += 1;
            port = network.next_port(node, &mut packet, |_| 0);
        }
        false
    }
}
