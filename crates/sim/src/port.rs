//! What the simulator does with packets that ports send: an event at the end of the link, its next
//! hop, and a call of the observer.

use crate::events::EventQueue;
use crate::tap::{Observation, Tap};
use punctual_core::{Instant, NodeId, Packet, PacketArena, PacketFlags, PacketId, PortId};
use punctual_net::{Network, PortContext, Sent, Wire};

/// Simulation context shared by all ports: clock, packet arena, event queue, network,
/// observer.
#[derive(Debug)]
pub(crate) struct SimContext<T> {
    pub(crate) now: Instant,
    pub(crate) packets: PacketArena,
    pub(crate) events: EventQueue,
    pub(crate) network: Network,
    pub(crate) tap: T,
}

/// The parts of a [`SimContext`] that a transmission needs while its packet is borrowed.
pub(crate) struct Transmission<'a, T> {
    tap: &'a mut T,
    events: &'a mut EventQueue,
    network: &'a Network,
}

/// No next hop: it is to be found when the packet arrives.
pub(crate) const UNKNOWN_HOP: u32 = u32::MAX;

/// The port by which a packet on its way to switch `node` will leave that, or [`UNKNOWN_HOP`].
///
/// It is computed when the transmission starts, and the packet holds it in [`Packet::next`], which
/// only queues use otherwise.
#[inline(always)]
fn next_hop(packet: &Packet, node: NodeId, network: &Network) -> u32 {
    if packet.flags.has(PacketFlags::SWITCH_PATH) {
        return UNKNOWN_HOP;
    }
    network.expected_port(node, packet).map_or(UNKNOWN_HOP, |port| port.0)
}

impl<T: Tap> PortContext for SimContext<T> {
    type Wire<'a>
        = Transmission<'a, T>
    where
        T: 'a;

    const WATCHES_QUEUES: bool = T::WATCHES_QUEUES;

    #[inline(always)]
    fn now(&self) -> Instant {
        self.now
    }

    #[inline(always)]
    fn packets(&mut self) -> &mut PacketArena {
        &mut self.packets
    }

    #[inline(always)]
    fn split(&mut self) -> (&mut PacketArena, Transmission<'_, T>) {
        let SimContext { packets, tap, events, network, .. } = self;
        (packets, Transmission { tap, events, network })
    }

    #[inline(always)]
    fn queued(&mut self, port: PortId, id: PacketId) {
        let packet = &self.packets[id];
        self.tap.observe(Observation::PacketQueued { port, id, packet });
    }

    #[inline(always)]
    fn holds(&mut self, port: PortId, bytes: u64, packets: u32) {
        self.tap.observe(Observation::QueueLength { port, bytes, packets });
    }
}

impl<T: Tap> Wire for Transmission<'_, T> {
    #[inline(always)]
    fn sends(&mut self, packet: &mut Packet, sent: Sent) {
        let Sent { port, to, id, from, until, arrives_at, waited } = sent;
        let is_at_host = packet.dst.0 == to.0;
        if !is_at_host {
            packet.next = next_hop(packet, to, self.network);
        }
        self.tap.observe(Observation::PacketSent { port, id, packet, from, until, waited });
        if let Some(shard) = self.tap.shard_mut()
            && !shard.owns(to)
        {
            shard.send(to, id, packet, arrives_at, !is_at_host);
            return;
        }
        self.events.push_arrival(arrives_at, port, id, !is_at_host);
    }
}
