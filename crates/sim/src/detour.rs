//! Routes around links that routing has withdrawn because they failed.

use punctual_core::rng::derive;
use punctual_core::{HostId, Packet, PacketFlags, PortId};
use punctual_net::Network;

/// A path with more hops than this is a loop.
const HOPS_MAX: u8 = 64;

/// The links that routing has withdrawn.
#[derive(Debug, Default)]
pub(crate) struct Detours {
    /// By port; empty until the first.
    withdrawn: Vec<bool>,
    count: u32,
    /// A bit for each transport that sprays its packets.
    spraying: u64,
    /// By source, the number of sprayed packets moved to another path: data, then answers.
    turns: Vec<[u32; 2]>,
    seed: u64,
}

impl Detours {
    /// No link withdrawn yet. `spraying` has a bit for each transport that sprays its packets.
    pub(crate) fn new(hosts: u32, spraying: u64, seed: u64) -> Self {
        Detours { spraying, seed, turns: vec![[0; 2]; hosts as usize], ..Detours::default() }
    }

    /// Whether every link is in use, as far as routing knows.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Withdraws a link from routing, or puts it back.
    pub(crate) fn set(&mut self, port: PortId, is_withdrawn: bool, ports: usize) {
        self.withdrawn.resize(ports, false);
        let known = &mut self.withdrawn[port.index()];
        self.count -= u32::from(*known);
        *known = is_withdrawn;
        self.count += u32::from(is_withdrawn);
    }

    /// Starts a packet on the path it names or, if routing has withdrawn that, on another.
    ///
    /// All paths left get an equal share:
    /// * where switches choose the path, the choice is random;
    /// * packets of a spraying transport take each path in turn;
    /// * others are hashed: packets of one flow that name one path stay together, and so do the
    ///   answers that name it.
    ///
    /// If no path is left, a packet takes a withdrawn one. `random` gives a number below its
    /// argument.
    pub(crate) fn enter(
        &mut self,
        network: &Network,
        src: HostId,
        packet: &mut Packet,
        mut random: impl FnMut(u32) -> u32,
    ) {
        let paths = network.paths(src, packet.dst).max(1);
        let is_switch_path = packet.flags.has(PacketFlags::SWITCH_PATH);
        if is_switch_path {
            // Each switch would choose at random among the paths left: draw once for all switches.
            packet.flags = packet.flags.toggled(PacketFlags::SWITCH_PATH);
            packet.path = random(paths);
        }
        let named = *packet;
        let withdrawn = &self.withdrawn;
        let entered_on = |path: u32| {
            let mut tried = named;
            tried.path = path;
            network.enter(src, &mut tried, |_| 0);
            is_clear(withdrawn, network, src, tried).then_some(tried)
        };
        if let Some(entered) = entered_on(named.path) {
            *packet = entered;
            return;
        }
        let left = (0..paths).filter(|path| entered_on(*path).is_some()).count() as u32;
        if left == 0 {
            network.enter(src, packet, random);
            return;
        }
        let nth = if is_switch_path {
            random(left)
        } else if self.spraying >> (packet.transport.0 & 63) & 1 == 1 {
            let is_answer = packet.flags.has(PacketFlags::TO_SENDER);
            let turn = &mut self.turns[src.index()][usize::from(is_answer)];
            *turn = turn.wrapping_add(1);
            *turn % left
        } else {
            self.hash(packet, left)
        };
        let chosen = (0..paths).filter_map(entered_on).nth(nth as usize);
        *packet = chosen.expect("fewer than are left");
    }

    /// A number below `left`, the same for all packets of a flow that name one path.
    fn hash(&self, packet: &Packet, left: u32) -> u32 {
        let name = u64::from(packet.flow.0) << 32 | u64::from(packet.path);
        let hash = derive(self.seed, "detour", name);
        ((u128::from(hash) * u128::from(left)) >> 64) as u32
    }
}

/// Whether the path of a packet that has entered the network has no withdrawn link.
fn is_clear(withdrawn: &[bool], network: &Network, src: HostId, mut packet: Packet) -> bool {
    let mut port = network.first_port(src, &packet);
    while !withdrawn[port.index()] && packet.hop < HOPS_MAX {
        let node = network.link(port).to;
        if node.0 == packet.dst.0 {
            return true;
        }
        packet.hop += 1;
        port = network.next_port(node, &mut packet, |_| 0);
    }
    false
}
