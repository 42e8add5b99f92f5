//! Hop counts between nodes, computed from the links alone.

use punctual_core::{HostId, NodeId};
use punctual_net::{Link, Network};
use std::collections::VecDeque;

/// Hop counts from any node to any host. Hosts do not forward.
#[derive(Debug)]
pub(super) struct Distances {
    hosts: u32,
    /// The switch of each host.
    switches: Vec<NodeId>,
    /// The neighbours of each node.
    neighbours: Vec<Vec<NodeId>>,
    /// By switch, the hops to it from every node; computed on first use.
    to_switch: Vec<Option<Vec<u32>>>,
}

/// The distance of a node from which there is no path.
const UNREACHABLE: u32 = u32::MAX / 2;

impl Distances {
    pub(super) fn new(network: &Network) -> Self {
        let nodes = network.names.len();
        let mut neighbours = vec![Vec::new(); nodes];
        for Link { from, to, .. } in &network.links {
            neighbours[from.index()].push(*to);
        }
        let nics = network.all_nics().iter().step_by(network.nics_per_host() as usize);
        let switches = nics.map(|nic| network.link(*nic).to).collect();
        Distances { hosts: network.hosts, switches, neighbours, to_switch: vec![None; nodes] }
    }

    /// Hops from a node to a host.
    pub(super) fn to(&mut self, host: HostId, from: NodeId) -> u32 {
        if from.0 == host.0 {
            return 0;
        }
        let last = self.switches[host.index()];
        if last.0 == from.0 {
            return 1;
        }
        // Another host's first link leads to its switch.
        let (first, links) = match self.switches.get(from.index()) {
            Some(switch) => (*switch, 2),
            None => (from, 1),
        };
        let distances = match &mut self.to_switch[last.index()] {
            Some(known) => known,
            unknown => unknown.insert(breadth_first(&self.neighbours, self.hosts, last)),
        };
        distances[first.index()].saturating_add(links)
    }
}

/// Hops from every switch to the switch `to`.
fn breadth_first(neighbours: &[Vec<NodeId>], hosts: u32, to: NodeId) -> Vec<u32> {
    let mut distances = vec![UNREACHABLE; neighbours.len()];
    distances[to.index()] = 0;
    let mut queue = VecDeque::from([to]);
    while let Some(node) = queue.pop_front() {
        for next in neighbours[node.index()].iter().filter(|next| next.0 >= hosts) {
            if distances[next.index()] == UNREACHABLE {
                distances[next.index()] = distances[node.index()] + 1;
                queue.push_back(*next);
            }
        }
    }
    distances
}
