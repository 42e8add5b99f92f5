//! Which links flows pass, spread evenly over equal paths.

use crate::ideal::route_by;
use punctual_core::{FlowSpec, HostId, PortId};
use punctual_net::Network;
use std::collections::BTreeMap;

/// Routes looked up at most for one traffic: with more pairs of hosts, each has fewer paths.
const ROUTES_MAX: usize = 1 << 18;

/// Brings flows' bytes to the ports that they pass.
pub(super) struct Spread<'a> {
    network: &'a Network,
    known: BTreeMap<(HostId, HostId, u32), Vec<PortId>>,
}

impl<'a> Spread<'a> {
    pub(super) fn new(network: &'a Network) -> Self {
        Spread { network, known: BTreeMap::new() }
    }

    /// Adds what `of` says of each flow to each port it passes.
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
            // Pairs that use only some of the paths do not all use the same.
            let first = (src.0.wrapping_mul(31).wrapping_add(dst.0)) % paths;
            for n in 0..used {
                let path = (first + n) % paths;
                let network = self.network;
                let route = || route_by(network, src, dst, path);
                for port in self.known.entry((src, dst, path)).or_insert_with(route) {
                    ports[port.index()] += value / f64::from(used);
                }
            }
        }
    }
}
