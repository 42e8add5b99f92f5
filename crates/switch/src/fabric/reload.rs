//! A fabric at work goes on with another configuration.
//!
//! Nodes are known again by their names, and links by the names of their ends. A packet stays where
//! it is, in a queue or on a link, as long as that port exists. Where the new configuration has no
//! way on for it, it ends at the end of its link and is counted.

use super::{FOREIGN, Fabric, Slot};
use crate::config::SwitchConfig;
use crate::context::What;
use punctual_core::{HostId, Packet, PacketFlags, PacketId, PortId, TransportId};
use punctual_net::{Network, Port};
use std::collections::BTreeMap;

/// The host of packets whose host has been removed. No network has so many.
const REMOVED: HostId = HostId(u32::MAX);

/// What has become of hosts and ports, by their old number.
struct Moves {
    hosts: Vec<Option<HostId>>,
    ports: Vec<Option<PortId>>,
    /// Whether all nodes and links are the same, in the same order: routes are, too.
    are_none: bool,
}

impl Moves {
    fn between(old: &Network, new: &Network) -> Moves {
        let names = |network: &Network| network.names[..network.hosts as usize].to_vec();
        let by_name: BTreeMap<String, usize> =
            names(new).into_iter().enumerate().map(|(h, name)| (name, h)).collect();
        let hosts: Vec<Option<HostId>> =
            names(old).iter().map(|name| by_name.get(name).map(|h| HostId::from(*h))).collect();
        let by_ends: BTreeMap<_, PortId> = ends(new).zip((0..).map(PortId)).collect();
        let ports: Vec<Option<PortId>> =
            ends(old).map(|ends| by_ends.get(&ends).copied()).collect();
        let is_same = |(old, new): (usize, Option<usize>)| new == Some(old);
        let are_none = old.names == new.names
            && old.links.len() == new.links.len()
            && ports.iter().map(|p| p.map(|p| p.index())).enumerate().all(is_same);
        Moves { hosts, ports, are_none }
    }

    fn host(&self, old: HostId) -> Option<HostId> {
        self.hosts.get(old.index()).copied().flatten()
    }
}

/// The names of the two ends of each port, and its number among parallel links.
fn ends(network: &Network) -> impl Iterator<Item = (String, usize)> + '_ {
    let mut seen = BTreeMap::new();
    (0..network.links.len()).map(move |port| {
        let name = network.port_name(PortId::from(port));
        let count = seen.entry(name.clone()).or_insert(0);
        *count += 1;
        (name, *count)
    })
}

impl Fabric {
    /// Goes on with the configuration `new` instead of `old`. MTU and framing must be the same.
    /// Returns how many packets were lost with the links that they were on.
    pub fn reload(&mut self, old: &SwitchConfig, new: &SwitchConfig) -> u64 {
        for p in 0..self.ports.len() {
            self.ports[p].catch_up(PortId::from(p), &mut self.cx);
        }
        let epoch = self.epoch;
        let mut before = std::mem::replace(self, Fabric::new(new, epoch));
        let moves = Moves::between(&before.network, &self.network);
        self.cx.now = before.cx.now;
        std::mem::swap(&mut self.cx.packets, &mut before.cx.packets);
        std::mem::swap(&mut self.ext, &mut before.ext);
        std::mem::swap(&mut self.slots, &mut before.slots);
        std::mem::swap(&mut self.choice, &mut before.choice);
        self.addresses.learn_from(&before.addresses, |host| moves.host(host));
        for (h, counters) in before.host_counters.iter().enumerate() {
            if let Some(host) = moves.hosts[h] {
                self.host_counters[host.index()] = *counters;
            }
        }
        let mut waiting = Vec::new();
        for (p, port) in before.ports.drain(..).enumerate() {
            if let Some(id) = moves.ports[p] {
                let keeps_queue = old.queues[p] == new.queues[id.index()];
                waiting.extend(self.take_port(id, port, keeps_queue));
                self.port_counters[id.index()] = before.port_counters[p];
            }
        }
        let lost = self.take_packets(&moves, old, new);
        for (at, what) in before.cx.events.into_ordered() {
            if let What::Enters(id) | What::Arrives(id) = what
                && self.slots[id.index()].is_live
            {
                self.cx.events.push(at, what);
            }
        }
        // A controller goes on where its port has the same rate and its transport the same
        // parameters. Others begin anew, as after a restart of a switch.
        let moved = moves.ports.iter().enumerate().filter_map(|(p, new)| Some(((*new)?, p)));
        let old_of: BTreeMap<PortId, usize> = moved.collect();
        let same = |transport: usize, port: PortId| {
            let from = *old_of.get(&port)?;
            let rates = [before.network.links[from].rate, self.network.link(port).rate];
            let known = old.transports.iter().position(|t| *t == new.transports[transport])?;
            (rates[0] == rates[1]).then_some((known, PortId::from(from)))
        };
        self.controllers.take_over(before.controllers, same, &mut self.cx);
        for (port, id) in waiting {
            self.place(port, id);
        }
        lost
    }

    /// Goes on with a port and its queue. If the discipline has changed, returns the packets that
    /// waited, to be queued again.
    fn take_port(&mut self, id: PortId, port: Port, keeps_queue: bool) -> Vec<(PortId, PacketId)> {
        let link = *self.network.link(id);
        let own = &mut self.ports[id.index()];
        let fresh = std::mem::replace(own, port);
        own.set_rate(link.rate);
        (own.delay, own.to) = (link.delay, link.to);
        own.needs_arrival_checks = fresh.needs_arrival_checks;
        own.needs_departure_checks = fresh.needs_departure_checks;
        own.reverse_has_controller = fresh.reverse_has_controller;
        if keeps_queue {
            own.queue.set_trimming(self.trimming);
            return Vec::new();
        }
        let mut old = own.replace_queue(fresh.queue);
        let packets = &self.cx.packets;
        std::iter::from_fn(|| old.dequeue(packets)).map(|packet| (id, packet)).collect()
    }

    /// Gives the packets their new numbers and ways. Returns how many were lost.
    fn take_packets(&mut self, moves: &Moves, old: &SwitchConfig, new: &SwitchConfig) -> u64 {
        let transport = |id: TransportId| {
            let name = old.transports.get(id.index())?.name();
            let found = new.transports.iter().position(|transport| transport.name() == name)?;
            Some(TransportId(found as u8))
        };
        let mut lost = 0;
        for index in 0..self.slots.len() {
            if !self.slots[index].is_live {
                continue;
            }
            let id = PacketId::from(index);
            let Some(at) = moves.ports[self.slots[index].at.index()] else {
                lost += 1;
                self.dispose(id);
                continue;
            };
            let (slot, packet) = (&mut self.slots[index], &mut self.cx.packets[id]);
            packet.transport = transport(packet.transport).unwrap_or(FOREIGN);
            if packet.transport == FOREIGN {
                slot.codec = None;
            }
            let from = moves.host(slot.from);
            (slot.at, packet.port, slot.from) = (at, at, from.unwrap_or(REMOVED));
            if !moves.are_none {
                let to = moves.host(packet.dst);
                packet.dst = to.unwrap_or(REMOVED);
                slot.is_stranded = to.is_none() || !route(&self.network, slot, packet, from);
            }
            // Also of an earlier change: the ports of the new configuration do not know of it.
            if slot.is_stranded {
                self.ports[at.index()].needs_arrival_checks = true;
            }
        }
        lost
    }
}

/// Finds a way for a packet from the port where it is to its host, and writes it into the packet.
/// It is the way that the packet asked for, if that still leads by this port.
fn route(network: &Network, slot: &Slot, packet: &mut Packet, from: Option<HostId>) -> bool {
    let dst = packet.dst;
    let wanted = match &slot.layers.ours {
        Some(ours) => u32::from(ours.envelope.path),
        None => slot.layers.hash,
    };
    let is_reverse = packet.flags.has(PacketFlags::REVERSE_PATH);
    let all = (0..network.hosts).map(HostId);
    for src in from.into_iter().chain(all).filter(|src| *src != dst) {
        let (first, last) = if is_reverse { (dst, src) } else { (src, dst) };
        let paths = network.paths(first, last);
        for n in (0..paths).map(|n| (wanted % paths + n) % paths) {
            let mut links = network.path_links(first, last, n);
            if is_reverse {
                links.reverse();
                links.iter_mut().for_each(|port| *port = network.link(*port).twin);
            }
            if let Some(hop) = links.iter().position(|port| *port == slot.at) {
                packet.path = n;
                network.enter(src, packet, |_| n);
                packet.hop = hop as u8;
                return true;
            }
        }
    }
    false
}
