//! Cuts a network into shares, one for each thread.

use punctual_core::NodeId;
use punctual_net::Network;

/// The share of a node that has none yet.
const UNKNOWN: u16 = u16::MAX;

/// The share that each node belongs to, of at most `shares` shares of about equal work.
///
/// Hosts are cut by their numbers, whole racks where there are enough. A switch belongs to the share
/// to which most of its links towards the hosts lead. Switches that lead to several shares alike, as
/// those of a core do, are dealt out so that the shares get equal numbers of ports.
pub(crate) fn partition(network: &Network, shares: usize) -> Vec<u16> {
    let hosts = network.hosts as usize;
    let shares = shares.clamp(1, hosts.clamp(1, usize::from(UNKNOWN)));
    let mut neighbours = vec![Vec::new(); network.names.len()];
    for link in &network.links {
        neighbours[link.from.index()].push(link.to);
    }
    let mut cut = Cut { owners: vec![UNKNOWN; neighbours.len()], ports: vec![0; shares] };
    let rack = network.rack_size().unwrap_or(1).max(1) as usize;
    let group = if hosts.div_ceil(rack) >= shares { rack } else { 1 };
    let groups = hosts.div_ceil(group);
    for (host, links) in neighbours.iter().enumerate().take(hosts) {
        cut.give(host, host / group * shares / groups, links.len());
    }
    for node in from_hosts_up(&neighbours, hosts) {
        let links = &neighbours[node];
        let share = cut.share_of_most(links).unwrap_or_else(|| cut.least_loaded());
        cut.give(node, share, links.len());
    }
    cut.owners
}

/// A cut in the making.
struct Cut {
    /// By node.
    owners: Vec<u16>,
    /// By share, the number of its ports.
    ports: Vec<usize>,
}

impl Cut {
    fn give(&mut self, node: usize, share: usize, ports: usize) {
        self.owners[node] = share as u16;
        self.ports[share] += ports;
    }

    /// The share to which more than half of these nodes belong, of those that belong to any.
    fn share_of_most(&self, nodes: &[NodeId]) -> Option<usize> {
        let mut counts = vec![0usize; self.ports.len()];
        for node in nodes {
            if let Some(count) = counts.get_mut(usize::from(self.owners[node.index()])) {
                *count += 1;
            }
        }
        let all: usize = counts.iter().sum();
        counts.iter().position(|count| count * 2 > all)
    }

    fn least_loaded(&self) -> usize {
        (0..self.ports.len()).min_by_key(|share| self.ports[*share]).unwrap_or(0)
    }
}

/// All nodes but hosts, those nearest to a host first.
fn from_hosts_up(neighbours: &[Vec<NodeId>], hosts: usize) -> Vec<usize> {
    let mut is_known = vec![false; neighbours.len()];
    is_known[..hosts].fill(true);
    let mut order: Vec<usize> = (0..hosts).collect();
    let mut next = 0;
    while next < order.len() {
        for to in &neighbours[order[next]] {
            if !std::mem::replace(&mut is_known[to.index()], true) {
                order.push(to.index());
            }
        }
        next += 1;
    }
    order.extend((0..neighbours.len()).filter(|node| !is_known[*node]));
    order.split_off(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::{Bytes, Duration, Rate};
    use punctual_net::{ClosLinks, ClosShape};

    fn cut(k: u32, shares: usize) -> (Network, Vec<u16>) {
        let links = ClosLinks::uniform(Rate::from_gbps(10), Duration::from_micros(1));
        let network = ClosShape::fat_tree(k, 1).build(&links, Bytes::new(1500), Bytes::new(38));
        let owners = partition(&network, shares);
        (network, owners)
    }

    /// Two shares of a fat tree: whole pods, the core by halves, and half of the packets' hops in
    /// each.
    #[test]
    fn shares_are_equal() {
        for (k, shares) in [(4, 2), (8, 2), (8, 4), (8, 3), (12, 5)] {
            let (network, owners) = cut(k, shares);
            let mut ports = vec![0f64; shares];
            for link in &network.links {
                ports[usize::from(owners[link.from.index()])] += 1.0;
            }
            let fair = network.links.len() as f64 / shares as f64;
            for count in ports {
                assert!((count / fair - 1.0).abs() < 0.25, "{k} {shares}: {count} of {fair}");
            }
        }
    }

    #[test]
    fn racks_and_pods_stay_together() {
        let (network, owners) = cut(8, 2);
        let between = |tier| {
            let links = network.links.iter().filter(|link| link.tier == tier);
            links.filter(|link| owners[link.from.index()] != owners[link.to.index()]).count()
        };
        use punctual_net::Tier;
        assert_eq!(between(Tier::HostUp), 0);
        assert_eq!(between(Tier::RackUp), 0);
        assert_eq!(between(Tier::PodUp) * 2, network.links.len() / 6, "half of the core's links");
    }

    #[test]
    fn there_are_no_more_shares_than_hosts() {
        let (_, owners) = cut(4, 100);
        assert!(owners.iter().all(|owner| *owner < 16));
    }
}
