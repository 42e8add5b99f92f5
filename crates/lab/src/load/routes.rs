//! The links on flows' paths, with load spread evenly over the paths.

use punctual_core::{FlowSpec, HostId, PortId};
use punctual_net::Network;
use std::collections::BTreeMap;

/// Limit on routes per traffic: with more pairs of hosts, each pair uses fewer of its paths.
const ROUTES_MAX: usize = 1 << 18;

/// Spreads a quantity of flows over the ports on their paths.
pub(super) struct Spread<'a> {
    network: &'a Network,
    known: BTreeMap<(HostId, HostId, u32), Vec<PortId>>,
}

impl<'a> Spread<'a> {
    pub(super) fn new(network: &'a Network) -> Self {
        Spread { network, known: BTreeMap::new() }
    }

    /// Adds `of(flow)` to the ports on each flow's paths, divided evenly over the paths.
    pub(super) fn add(
        &mut self,
        flows: &[&FlowSpec],
        of: impl Fn(&FlowSpec) -> f64,
        ports: &mut [f64],
    ) {
        let mut pairs: BTreeMap<(HostId, HostId), f64> = BTreeMap::new();
        for flow in flows {
            *pairs.entry((flow.src, flow.dst)).or_default() += of(flow);
        }
        let most = (ROUTES_MAX / pairs.len().max(1)).max(1) as u32;
        for ((src, dst), value) in pairs {
            let paths = self.network.paths(src, dst).max(1);
            let used = paths.min(most);
            // Pairs that use only some of the paths start at different ones.
            let first = (src.0.wrapping_mul(31).wrapping_add(dst.0)) % paths;
            for n in 0..used {
                let path = (first + n) % paths;
                let network = self.network;
                let route = || network.path_links(src, dst, path);
                for port in self.known.entry((src, dst, path)).or_insert_with(route) {
                    ports[port.index()] += value / f64::from(used);
                }
            }
        }
    }
}
