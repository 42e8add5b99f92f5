//! BCube(n, k): a server-centric network in which hosts forward packets for each other.
//!
//! A host's address has k + 1 digits in base n, so there are n^(k+1) hosts. Two hosts that differ
//! in digit l only are joined by a switch of level l. A host has one NIC per level, a switch has n
//! ports, and each of the k + 1 levels has n^k switches.
//!
//! The k + 1 paths of a pair are those of BCube's source routing (Guo et al., SIGCOMM'09, §3.3).
//! Path p leaves by the NIC of level p:
//!
//! ```text
//! digits differ at p:  correct p, p−1, …, 0, k, …, p+1
//! digits agree at p:   change p to the next digit, correct p−1, …, 0, k, …, p+1, then p
//! ```
//!
//! No two paths of a pair share a host or a switch besides the ends. The paths differ in length: h
//! differing digits take 2h links, or 2(h + 2) if digit p agrees. The next hop is computed from the
//! addresses, so that routes take no memory.

use crate::network::{Link, Network, Routing, Tier};
use punctual_core::{Bytes, Duration, HostId, NodeId, Packet, PacketFlags, PortId, Rate};

/// The shape of a BCube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BcubeShape {
    /// Ports per switch: the base of addresses.
    pub n: u32,
    /// The highest level: hosts have k + 1 NICs.
    pub k: u32,
}

/// Why there is no such BCube.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BcubeError {
    /// A switch needs two ports at least.
    #[error("n = {0}: a switch of a BCube needs at least 2 ports")]
    Ports(u32),
    /// Addresses of hosts do not fit.
    #[error("n = {n}, k = {k}: a BCube has n^(k+1) hosts, and these are more than {HOSTS_MAX}")]
    Hosts {
        /// Ports per switch.
        n: u32,
        /// The highest level.
        k: u32,
    },
}

/// Most hosts of a BCube.
const HOSTS_MAX: u32 = 1 << 20;

impl BcubeShape {
    /// Number of hosts, or why there is no such BCube.
    pub fn hosts(&self) -> Result<u32, BcubeError> {
        let BcubeShape { n, k } = *self;
        if n < 2 {
            return Err(BcubeError::Ports(n));
        }
        let hosts = k.checked_add(1).and_then(|digits| n.checked_pow(digits));
        hosts.filter(|hosts| *hosts <= HOSTS_MAX).ok_or(BcubeError::Hosts { n, k })
    }

    /// Builds the network. Every link has this rate and this delay.
    ///
    /// `processing` is added to the delay of links to switches. Hosts forward without delay.
    pub fn build(
        &self,
        rate: Rate,
        delay: Duration,
        processing: Duration,
        mtu: Bytes,
        framing: Bytes,
    ) -> Result<Network, BcubeError> {
        let hosts = self.hosts()?;
        let bcube = Bcube::new(*self, hosts);
        let levels = self.k + 1;
        let mut names: Vec<String> = (0..hosts).map(|host| format!("host {host}")).collect();
        let mut links = Vec::new();
        let mut link = |from: u32, to: u32, delay: Duration, tier| {
            let (from, to, twin) = (NodeId(from), NodeId(to), PortId(u32::MAX));
            links.push(Link { from, to, twin, rate, delay, tier });
        };
        for host in 0..hosts {
            for level in 0..levels {
                let switch = hosts + bcube.switch_of(host, level);
                link(host, switch, delay + processing, Tier::HostUp);
            }
        }
        for level in 0..levels {
            for index in 0..bcube.switches_per_level {
                names.push(format!("level {level} switch {index}"));
                let switch = level * bcube.switches_per_level + index;
                for digit in 0..self.n {
                    link(hosts + switch, bcube.host_below(switch, digit), delay, Tier::HostDown);
                }
            }
        }
        Ok(Network::new(hosts, names, links, mtu, framing, Routing::Bcube(bcube)))
    }
}

/// Computed routes of a BCube.
#[derive(Clone, Debug)]
pub(crate) struct Bcube {
    n: u32,
    levels: u32,
    hosts: u32,
    switches_per_level: u32,
    /// n^l, by level.
    powers: Vec<u32>,
}

/// `Packet::path` in the network: the number of the path, and these bits.
const NUMBER: u32 = 0xff;
/// The digits of the two ends agree at the path's number, so that the path makes a detour.
const DETOUR: u32 = 1 << 8;

impl Bcube {
    fn new(shape: BcubeShape, hosts: u32) -> Self {
        let powers = (0..=shape.k).map(|level| shape.n.pow(level)).collect();
        let switches_per_level = hosts / shape.n;
        Bcube { n: shape.n, levels: shape.k + 1, hosts, switches_per_level, powers }
    }

    /// Number of paths between two hosts; 0 from a host to itself.
    pub(crate) fn paths(&self, src: HostId, dst: HostId) -> u32 {
        if src == dst { 0 } else { self.levels }
    }

    #[inline]
    fn digit(&self, host: u32, level: u32) -> u32 {
        host / self.powers[level as usize] % self.n
    }

    /// The switch of a level that a host is joined to, counted from 0 over all levels.
    #[inline]
    fn switch_of(&self, host: u32, level: u32) -> u32 {
        let power = self.powers[level as usize];
        level * self.switches_per_level + host / (power * self.n) * power + host % power
    }

    /// The host with this digit at a switch.
    fn host_below(&self, switch: u32, digit: u32) -> u32 {
        let (level, index) = (switch / self.switches_per_level, switch % self.switches_per_level);
        let power = self.powers[level as usize];
        index / power * power * self.n + digit * power + index % power
    }

    /// Adds to a packet's path number what switches and hosts read besides.
    #[inline]
    pub(crate) fn enter(&self, src: HostId, packet: &mut Packet, random: impl FnOnce(u32) -> u32) {
        if packet.flags.has(PacketFlags::SWITCH_PATH) {
            packet.path = random(self.levels);
        }
        debug_assert!(packet.path < self.levels, "no such path");
        let level = packet.path.min(self.levels - 1);
        if self.digit(src.0, level) == self.digit(packet.dst.0, level) {
            packet.path |= DETOUR;
        }
    }

    /// The port by which `packet` leaves a host or switch.
    #[inline]
    pub(crate) fn next_port(&self, node: NodeId, packet: &Packet) -> PortId {
        if node.0 < self.hosts {
            return PortId(node.0 * self.levels + self.next_level(node.0, packet));
        }
        let switch = node.0 - self.hosts;
        let level = switch / self.switches_per_level;
        let mut digit = self.digit(packet.dst.0, level);
        let is_detour = packet.path & DETOUR != 0 && packet.path & NUMBER == level;
        if is_detour && self.switch_of(packet.dst.0, level) != switch {
            digit = (digit + 1) % self.n;
        }
        PortId(self.hosts * self.levels + switch * self.n + digit)
    }

    /// The digit that a packet at a host changes next.
    ///
    /// The order is that of the module documentation, or its reverse on a reverse path.
    #[inline]
    fn next_level(&self, host: u32, packet: &Packet) -> u32 {
        let (first, levels) = (packet.path & NUMBER, self.levels);
        let is_detour = packet.path & DETOUR != 0;
        if is_detour && self.digit(host, first) == self.digit(packet.dst.0, first) {
            return first; // It is at its source.
        }
        let is_reverse = packet.flags.has(PacketFlags::REVERSE_PATH);
        // A detour corrects digit `first` last, whatever the direction.
        let is_last = is_reverse || is_detour;
        let mut level = first;
        for step in 0..levels {
            let offset = step + u32::from(is_last);
            level = if is_reverse { first + offset } else { first + 2 * levels - offset } % levels;
            if self.digit(host, level) != self.digit(packet.dst.0, level) {
                break;
            }
        }
        level
    }
}
