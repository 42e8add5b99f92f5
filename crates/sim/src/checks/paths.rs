//! The paths that packets take in a network whose paths are not all shortest paths.
//!
//! A packet must take one of the paths that the network lists for its two hosts, or one of those of
//! the opposite direction in reverse. A listed path must be a chain of links from one host to the
//! other that meets no node twice. A returned header must go back by the links it came by.

use punctual_core::{HostId, NodeId, PacketId, PortId};
use punctual_net::Network;
use std::collections::{BTreeMap, BTreeSet};

/// The paths of all pairs of hosts in use, and how far each packet has come.
#[derive(Debug)]
pub(super) struct ListedPaths {
    network: Network,
    /// By packet slot.
    walks: Vec<Walk>,
    known: BTreeMap<(HostId, HostId), BTreeSet<Vec<PortId>>>,
}

/// The links that a packet has passed.
#[derive(Debug, Clone, Default)]
struct Walk {
    src: HostId,
    /// The network's code of its path.
    code: u32,
    passed: Vec<PortId>,
    is_returning: bool,
}

/// A packet that has passed more links than this goes in circles.
const LINKS_MAX: usize = 64;

impl ListedPaths {
    pub(super) fn new(network: &Network) -> Self {
        ListedPaths { network: network.clone(), walks: Vec::new(), known: BTreeMap::new() }
    }

    /// A packet is made at a host.
    pub(super) fn made(&mut self, id: PacketId, src: HostId, code: u32) {
        if self.walks.len() <= id.index() {
            self.walks.resize(id.index() + 1, Walk::default());
        }
        self.walks[id.index()] = Walk { src, code, ..Walk::default() };
    }

    /// Whether the packet in a slot was made for the path with this code.
    pub(super) fn is_on(&self, id: PacketId, code: u32) -> bool {
        self.walks.get(id.index()).is_none_or(|walk| walk.code == code)
    }

    /// Two packets have exchanged slots.
    pub(super) fn swapped(&mut self, a: PacketId, b: PacketId) {
        if a.index().max(b.index()) < self.walks.len() {
            self.walks.swap(a.index(), b.index());
        }
    }

    /// A switch returns a packet to its sender.
    pub(super) fn bounced(&mut self, id: PacketId) {
        if let Some(walk) = self.walks.get_mut(id.index()) {
            walk.is_returning = true;
        }
    }

    /// A packet to `dst` has reached the end of a link. Returns what is wrong with that.
    pub(super) fn passes(&mut self, id: PacketId, by: PortId, dst: HostId) -> Option<String> {
        let walk = self.walks.get_mut(id.index())?;
        if walk.is_returning {
            let expected = walk.passed.pop().map(|port| self.network.link(port).twin);
            let is_back = expected == Some(by);
            return (!is_back).then(|| "a returned header left the links it came by".to_owned());
        }
        walk.passed.push(by);
        if walk.passed.len() > LINKS_MAX {
            walk.passed.clear();
            return Some(format!("a packet to host {dst} passed {LINKS_MAX} links"));
        }
        let node = self.network.link(by).to;
        if node != NodeId::from(dst) {
            return None;
        }
        let (src, passed) = (walk.src, std::mem::take(&mut walk.passed));
        let known = self.known.entry((src, dst));
        let known = known.or_insert_with(|| paths_between(&self.network, src, dst));
        (!known.contains(&passed)).then(|| {
            format!("a packet from host {src} to host {dst} took a path that is none of theirs")
        })
    }
}

/// The paths from one host to another that are sound: of both directions, all as seen from `src`.
fn paths_between(network: &Network, src: HostId, dst: HostId) -> BTreeSet<Vec<PortId>> {
    let there = (0..network.paths(src, dst)).map(|path| network.path_links(src, dst, path));
    let back = (0..network.paths(dst, src)).map(|path| {
        let path = network.path_links(dst, src, path);
        path.iter().rev().map(|port| network.link(*port).twin).collect()
    });
    there.chain(back).filter(|path| is_sound(network, src, dst, path)).collect()
}

/// Whether these links lead from one host to the other and meet no node twice.
pub(super) fn is_sound(network: &Network, src: HostId, dst: HostId, path: &[PortId]) -> bool {
    let mut met = BTreeSet::from([NodeId::from(src)]);
    let mut at = NodeId::from(src);
    for port in path {
        let link = network.link(*port);
        if link.from != at || !met.insert(link.to) {
            return false;
        }
        at = link.to;
    }
    at == NodeId::from(dst)
}
