//! The links that flows cross, for simulators of whole flows.

use crate::idle_network::route_by;
use punctual_core::{FlowRoute, HostId, PathUse, PortId, Rate};
use punctual_net::Network;
use std::collections::BTreeMap;

/// The links of flows on a network: ports, and groups of ports that act as one link.
#[derive(Debug)]
pub(crate) struct FlowLinks<'a> {
    network: &'a Network,
    /// The index of each group of several ports.
    groups: BTreeMap<Vec<PortId>, u32>,
    /// The groups between two hosts, or between two racks without the hosts' own links.
    between: BTreeMap<(u32, u32), Vec<u32>>,
    /// The rate of each link.
    rates: Vec<Rate>,
}

impl<'a> FlowLinks<'a> {
    pub(crate) fn new(network: &'a Network) -> Self {
        let rates = network.links.iter().map(|link| link.rate).collect();
        FlowLinks { network, groups: BTreeMap::new(), between: BTreeMap::new(), rates }
    }

    /// The rate of each link: those of ports by port id, then those of groups.
    pub(crate) fn into_rates(self) -> Vec<Rate> {
        self.rates
    }

    /// The rate of a link: of a port, or of all ports of a group.
    pub(crate) fn rate(&self, link: u32) -> Rate {
        self.rates[link as usize]
    }

    /// The paths of a flow, each as a list of links.
    pub(crate) fn paths(&mut self, route: &FlowRoute, paths: PathUse) -> Vec<Vec<u32>> {
        match paths {
            PathUse::Hashed => vec![self.ports(route, route.ecmp_path)],
            PathUse::Sprayed if self.has_parts(paths) => {
                (0..route.paths.max(1)).map(|path| self.ports(route, path)).collect()
            }
            PathUse::Sprayed => vec![self.sprayed(route.local, route.peer)],
            PathUse::Subflows(count) => {
                // Several subflows on one path act as one.
                let count = count.clamp(1, route.paths.max(1));
                let chosen = route.subflow_paths(count);
                chosen.into_iter().map(|path| self.ports(route, path)).collect()
            }
        }
    }

    /// Whether flows send parts of their rate on several paths that differ in length, so that the
    /// ports of all paths do not act as one link at each hop.
    pub(crate) fn has_parts(&self, paths: PathUse) -> bool {
        paths == PathUse::Sprayed && !self.network.has_equal_paths()
    }

    /// The links by which answers to the packets of a path come back.
    pub(crate) fn reverse(&mut self, route: &FlowRoute, path: &[u32], paths: PathUse) -> Vec<u32> {
        match paths {
            PathUse::Sprayed if !self.has_parts(paths) => self.sprayed(route.peer, route.local),
            _ => path.iter().map(|port| self.network.links[*port as usize].twin.0).collect(),
        }
    }

    /// The ports on one path.
    pub(crate) fn ports(&self, route: &FlowRoute, path: u32) -> Vec<u32> {
        let ports = route_by(self.network, route.local, route.peer, path);
        ports.into_iter().map(|port| port.0).collect()
    }

    /// The links between two hosts if a flow takes all paths alike: at each hop, the ports of all
    /// paths act as one link.
    pub(crate) fn sprayed(&mut self, src: HostId, dst: HostId) -> Vec<u32> {
        // Hosts of a rack share everything but their own links.
        let Some(rack) = self.network.rack_size() else {
            return self.groups_between(src, dst, (src.0, dst.0));
        };
        let key = (src.0 / rack, dst.0 / rack);
        let inner = match self.between.get(&key) {
            Some(inner) => inner.clone(),
            None => {
                let all = self.groups_between(src, dst, (u32::MAX, u32::MAX));
                let inner = all[1..all.len() - 1].to_vec();
                self.between.insert(key, inner.clone());
                inner
            }
        };
        let (up, down) = (self.network.nic(src), self.network.link(self.network.nic(dst)).twin);
        let mut links = vec![up.0];
        links.extend(inner);
        if down != up {
            links.push(down.0);
        }
        links
    }

    fn groups_between(&mut self, src: HostId, dst: HostId, key: (u32, u32)) -> Vec<u32> {
        if let Some(links) = self.between.get(&key) {
            return links.clone();
        }
        let mut hops: Vec<Vec<PortId>> = Vec::new();
        for path in 0..self.network.paths(src, dst) {
            let mut route = route_by(self.network, src, dst, path);
            if !self.network.has_equal_paths() {
                // Paths differ in length: only the links of the two hosts count, so that the
                // result is an upper bound.
                route = vec![route[0], route[route.len() - 1]];
            }
            for (hop, port) in route.into_iter().enumerate() {
                if hops.len() <= hop {
                    hops.push(Vec::new());
                }
                hops[hop].push(port);
            }
        }
        let mut links = Vec::with_capacity(hops.len());
        for mut ports in hops {
            ports.sort_unstable();
            ports.dedup();
            let link = match ports[..] {
                [port] => port.0,
                _ => self.group(ports),
            };
            if !links.contains(&link) {
                links.push(link);
            }
        }
        if key != (u32::MAX, u32::MAX) {
            self.between.insert(key, links.clone());
        }
        links
    }

    fn group(&mut self, ports: Vec<PortId>) -> u32 {
        let next = self.rates.len() as u32;
        let rate: u64 = ports.iter().map(|port| self.network.link(*port).rate.as_bps()).sum();
        let link = *self.groups.entry(ports).or_insert(next);
        if link == next {
            self.rates.push(Rate::from_bps(rate));
        }
        link
    }
}

/// The links of several paths, each with the part of the paths that cross it: a flow that sends
/// equal parts on all paths sends that part of its rate there.
pub(crate) fn parts_of(paths: &[Vec<u32>]) -> Vec<(u32, f64)> {
    let mut crossed: BTreeMap<u32, u32> = BTreeMap::new();
    for link in paths.iter().flatten() {
        *crossed.entry(*link).or_default() += 1;
    }
    let part = |(link, count)| (link, f64::from(count) / paths.len() as f64);
    crossed.into_iter().map(part).collect()
}
