//! Routes, and the completion time of a flow that has the network to itself.

use punctual_core::{Bytes, Duration, HostId, PortId, Rate};
use punctual_net::Network;

/// The ports on the shortest path between two hosts, or on the first of the shortest ones.
pub fn route(network: &Network, src: HostId, dst: HostId) -> Vec<PortId> {
    let paths = if network.has_equal_paths() { 1 } else { network.paths(src, dst) };
    let routes = (0..paths.max(1)).map(|path| network.path_links(src, dst, path));
    routes.min_by_key(Vec::len).unwrap_or_default()
}

/// The ports on one of the paths between two hosts; `path` counts from 0.
pub fn route_by(network: &Network, src: HostId, dst: HostId, path: u32) -> Vec<PortId> {
    network.path_links(src, dst, path)
}

/// A lower bound of a flow's completion time, equal for all transports.
///
/// It is the sum of the delays along the path, the transmission of the data on the slowest link,
/// and the transmission of one packet on each other link (store and forward). Headers, handshakes
/// and queueing are not included. Where hosts have several NICs, the data are divided evenly over
/// as many paths.
pub fn completion_time(network: &Network, src: HostId, dst: HostId, size: Bytes) -> Duration {
    let packet = Bytes::new(size.get().min(network.mtu.get())) + network.framing;
    let mut slowest = Rate::from_bps(u64::MAX);
    let (mut delays, mut forwarding) = (Duration::ZERO, Duration::ZERO);
    for port in route(network, src, dst) {
        let link = network.link(port);
        delays += link.delay;
        forwarding += link.rate.transmission_time(packet);
        slowest = slowest.min(link.rate);
    }
    let elsewhere = forwarding.saturating_sub(slowest.transmission_time(packet));
    let share = Bytes::new(size.get() / u64::from(network.nics_per_host()));
    delays + elsewhere + slowest.transmission_time(share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_net::{ClosLinks, ClosShape};

    fn fat_tree() -> Network {
        let links = ClosLinks::uniform(Rate::from_gbps(10), Duration::from_micros(1));
        ClosShape::fat_tree(4, 1).build(&links, Bytes::new(9000), Bytes::ZERO)
    }

    #[test]
    fn routes_have_the_hops_of_the_tree() {
        let network = fat_tree();
        let hops = |dst| route(&network, HostId(0), HostId(dst)).len();
        assert_eq!((hops(1), hops(2), hops(4)), (2, 4, 6));
    }

    #[test]
    fn routes_of_any_shape_end_at_their_destination() {
        let pair = punctual_net::Topology::pair(Rate::from_gbps(10), Duration::from_micros(1));
        let network = Network::from_topology(pair, Bytes::new(1500), Bytes::ZERO).unwrap();
        assert_eq!(route(&network, HostId(0), HostId(1)).len(), 1);
        let time = completion_time(&network, HostId(0), HostId(1), Bytes::new(3000));
        assert_eq!(time.as_nanos(), 2 * 1200 + 1000);
    }

    #[test]
    fn completion_times_of_an_idle_network_match_arithmetic() {
        let network = fat_tree();
        let time = |dst, size| {
            completion_time(&network, HostId(0), HostId(dst), Bytes::new(size)).as_nanos()
        };
        // 9000 B take 7.2 µs to transmit; the path has two links of 1 µs each.
        assert_eq!(time(1, 9000), 2 * 7200 + 2 * 1000);
        assert_eq!(time(1, 90_000), 11 * 7200 + 2 * 1000);
        assert_eq!(time(4, 100), 6 * 80 + 6 * 1000);
    }
}
