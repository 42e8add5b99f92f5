//! The configuration of a switch that has the network of a scenario.

use punctual_core::{Bytes, Duration, PortId, QueueSpec, Rate};
use punctual_net::{Network, NodeEntry};
use punctual_transports::TransportSettings;
use punctual_wire::AnyCodec;
use serde::Serialize;

/// What a configuration is written from.
#[allow(missing_debug_implementations)]
pub struct ConfigSource<'a> {
    /// The network.
    pub network: &'a Network,
    /// The queue of each switch port.
    pub queue_of: &'a dyn Fn(PortId) -> QueueSpec,
    /// The transports. Those without packets that switches read are left out.
    pub transports: &'a [&'a str],
    /// Their parameters.
    pub settings: &'a TransportSettings,
    /// Whether the thread spins instead of sleeping while nothing happens.
    pub spin: bool,
}

#[derive(Serialize)]
struct File<'a> {
    mtu: Bytes,
    framing: Bytes,
    transports: Vec<&'a str>,
    spin: bool,
    transport: toml::Table,
    switch: Vec<NodeEntry>,
    host: Vec<Host>,
    link: Vec<Wire<'a>>,
}

#[derive(Serialize)]
struct Host {
    name: String,
    interface: String,
    mac: String,
}

#[derive(Serialize)]
struct Wire<'a> {
    between: [&'a str; 2],
    rate: Rate,
    delay: Duration,
    queue: QueueSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    reverse_queue: Option<QueueSpec>,
}

/// The interface of a host in the switch's namespace.
pub fn interface_name(host: u32) -> String {
    format!("port{host}")
}

/// The Ethernet address of a host.
pub fn host_mac(host: u32) -> String {
    let [a, b, c, d, e, f] = mac_of(host);
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

/// The bytes of [`host_mac`].
pub fn mac_of(host: u32) -> [u8; 6] {
    let [_, b, c, d] = (host + 1).to_be_bytes();
    [0x02, 0x70, 0, b, c, d]
}

impl ConfigSource<'_> {
    /// The configuration file.
    pub fn text(&self) -> String {
        let network = self.network;
        let hosts = network.hosts;
        let name = |node: punctual_core::NodeId| network.names[node.index()].as_str();
        let has_codec = |name: &&str| AnyCodec::of(name, network.mtu).is_some();
        let transports: Vec<&str> = self.transports.iter().copied().filter(has_codec).collect();
        let mut settings = toml::Table::try_from(self.settings).unwrap_or_default();
        settings.retain(|name, _| transports.contains(&name));
        let mut link = Vec::new();
        for (p, l) in network.links.iter().enumerate() {
            // A link and its twin are one entry.
            if PortId::from(p) < l.twin {
                let from_switch = if l.from.0 < hosts { l.twin } else { PortId::from(p) };
                let queue = (self.queue_of)(from_switch);
                let reverse_queue = Some((self.queue_of)(l.twin)).filter(|other| *other != queue);
                link.push(Wire {
                    between: [name(l.from), name(l.to)],
                    rate: l.rate,
                    delay: l.delay,
                    queue,
                    reverse_queue,
                });
            }
        }
        let file = File {
            mtu: network.mtu,
            framing: network.framing,
            transports,
            spin: self.spin,
            transport: settings,
            switch: network.names[hosts as usize..]
                .iter()
                .map(|name| NodeEntry { name: name.clone() })
                .collect(),
            host: (0..hosts)
                .map(|h| Host {
                    name: network.names[h as usize].clone(),
                    interface: interface_name(h),
                    mac: host_mac(h),
                })
                .collect(),
            link,
        };
        toml::to_string(&file).expect("texts and numbers")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SwitchConfig;
    use punctual_core::Limit;
    use punctual_net::{ClosLinks, ClosShape};

    #[test]
    fn text__reads_back_as_the_same_network() {
        let links = ClosLinks::uniform(Rate::from_mbps(100), Duration::from_micros(2));
        let network = ClosShape::fat_tree(4, 1).build(&links, Bytes::new(1500), Bytes::new(38));
        let queue = QueueSpec::Trim {
            data: Limit::Packets(8),
            headers: Limit::Packets(8),
            mark_above: None,
        };
        let source = ConfigSource {
            network: &network,
            queue_of: &|_| queue,
            transports: &["ndp", "tcp", "d3"],
            settings: &TransportSettings::default(),
            spin: true,
        };
        let text = source.text();
        let config = SwitchConfig::parse("t.toml", &text).expect("valid");
        assert_eq!(config.network.names, network.names);
        assert_eq!(config.network.links.len(), network.links.len());
        assert_eq!(config.transports.len(), 2);
        let (near, far) = (punctual_core::HostId(0), punctual_core::HostId(15));
        assert_eq!(config.network.paths(near, far), network.paths(near, far));
        assert_eq!(config.hosts[15].interface, "port15");
        assert_eq!(config.hosts[0].mac, Some([2, 0x70, 0, 0, 0, 1]));
    }
}
