//! Interfaces, addresses, neighbours and routes of a network namespace, by netlink messages.

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol,
    RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

/// Numbers of the metrics `mtu` and `rto_min` in a mask of locked metrics.
const MTU_METRIC: u32 = 2;
const RTO_MIN_METRIC: u32 = 13;

/// A netlink socket in the network namespace of the thread that opened it.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

/// One end of a veth.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its Ethernet address; the kernel chooses one if absent.
    pub mac: Option<[u8; 6]>,
    /// The namespace where it is made; that of the socket if absent.
    pub namespace: Option<&'a File>,
}

/// A route for IPv4 with what the kernel's TCP is to assume of it.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4Route {
    /// The destinations: an address and the length of its prefix.
    pub to: (Ipv4Addr, u8),
    /// The source address of packets.
    pub from: Ipv4Addr,
    /// The largest packet. It is not discovered otherwise.
    pub mtu: u32,
    /// The largest TCP segment that peers are told.
    pub segment: u32,
    /// The shortest retransmission timeout of TCP.
    pub rto_min: Duration,
}

fn family(ip: IpAddr) -> AddressFamily {
    match ip {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

/// The number of an interface in the namespace of this thread.
fn index_of(interface: &str) -> io::Result<u32> {
    nix::net::if_::if_nametoindex(interface).map_err(|error| named(interface, error.into()))
}

/// An error with what was done.
fn named(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

impl Netlink {
    /// Opens a socket in the namespace of this thread, which must not enter another one while it
    /// uses the socket.
    pub fn open() -> io::Result<Netlink> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Netlink { socket, sequence: 0 })
    }

    /// Sends a request and waits until the kernel has done it. `what` begins the error otherwise.
    fn request(&mut self, what: &str, flags: u16, message: RouteNetlinkMessage) -> io::Result<()> {
        self.try_request(flags, message).map_err(|error| named(what, error))
    }

    fn try_request(&mut self, flags: u16, message: RouteNetlinkMessage) -> io::Result<()> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes)
                .map_err(|error| io::Error::other(error.to_string()))?;
            if answer.header.sequence_number != self.sequence {
                continue;
            }
            return match answer.payload {
                // Code 0 acknowledges the request.
                NetlinkPayload::Error(error) => match error.code {
                    None => Ok(()),
                    Some(_) => Err(error.to_io()),
                },
                _ => continue,
            };
        }
    }

    /// Joins two new interfaces. Each has one queue in each direction, because a second one could
    /// reorder frames.
    pub fn add_veth(&mut self, ends: [VethEnd<'_>; 2], mtu: u32) -> io::Result<()> {
        let [mut end, peer] = ends.map(|end| {
            let mut message = LinkMessage::default();
            message.attributes = vec![
                LinkAttribute::IfName(end.name.to_owned()),
                LinkAttribute::Mtu(mtu),
                LinkAttribute::NumTxQueues(1),
                LinkAttribute::NumRxQueues(1),
            ];
            let mac = end.mac.map(|mac| LinkAttribute::Address(mac.to_vec()));
            let namespace = end.namespace.map(|file| LinkAttribute::NetNsFd(file.as_raw_fd()));
            message.attributes.extend(mac.into_iter().chain(namespace));
            message
        });
        end.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        let what = format!("interfaces {} and {}", ends[0].name, ends[1].name);
        self.request(&what, NLM_F_CREATE | NLM_F_EXCL, RouteNetlinkMessage::NewLink(end))
    }

    /// Turns an interface on, or off.
    pub fn set_up(&mut self, interface: &str, is_up: bool) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index_of(interface)?;
        message.header.change_mask = LinkFlags::Up;
        message.header.flags = if is_up { LinkFlags::Up } else { LinkFlags::empty() };
        let what = format!("{interface} {}", if is_up { "up" } else { "down" });
        self.request(&what, 0, RouteNetlinkMessage::SetLink(message))
    }

    /// Gives an interface an address. An IPv6 address is usable at once, without detection of
    /// duplicates.
    pub fn add_address(&mut self, interface: &str, ip: IpAddr, prefix: u8) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = family(ip);
        message.header.prefix_len = prefix;
        message.header.index = index_of(interface)?;
        message.attributes = vec![AddressAttribute::Local(ip), AddressAttribute::Address(ip)];
        if ip.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        let what = format!("address {ip}/{prefix} of {interface}");
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.request(&what, flags, RouteNetlinkMessage::NewAddress(message))
    }

    /// Makes the Ethernet address of a neighbour known for good, so that nobody asks for it.
    pub fn add_neighbour(&mut self, interface: &str, ip: IpAddr, mac: [u8; 6]) -> io::Result<()> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(ip);
        message.header.ifindex = index_of(interface)?;
        message.header.state = NeighbourState::Permanent;
        let destination = match ip {
            IpAddr::V4(ip) => NeighbourAddress::Inet(ip),
            IpAddr::V6(ip) => NeighbourAddress::Inet6(ip),
        };
        message.attributes = vec![
            NeighbourAttribute::Destination(destination),
            NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
        ];
        let what = format!("neighbour {ip} of {interface}");
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.request(&what, flags, RouteNetlinkMessage::NewNeighbour(message))
    }

    /// Adds a route over an interface.
    pub fn add_route(&mut self, interface: &str, route: &Ipv4Route) -> io::Result<()> {
        let mut message = RouteMessage::default();
        message.header = RouteHeader {
            address_family: AddressFamily::Inet,
            destination_prefix_length: route.to.1,
            table: RouteHeader::RT_TABLE_MAIN,
            protocol: RouteProtocol::Boot,
            scope: RouteScope::Link,
            kind: RouteType::Unicast,
            ..RouteHeader::default()
        };
        let milliseconds = u32::try_from(route.rto_min.as_millis()).unwrap_or(u32::MAX);
        message.attributes = vec![
            RouteAttribute::Destination(RouteAddress::Inet(route.to.0)),
            RouteAttribute::PrefSource(RouteAddress::Inet(route.from)),
            RouteAttribute::Oif(index_of(interface)?),
            RouteAttribute::Metrics(vec![
                RouteMetric::Lock(1 << MTU_METRIC | 1 << RTO_MIN_METRIC),
                RouteMetric::Mtu(route.mtu),
                RouteMetric::Advmss(route.segment),
                RouteMetric::RtoMin(milliseconds),
            ]),
        ];
        let what = format!("route to {}/{} over {interface}", route.to.0, route.to.1);
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.request(&what, flags, RouteNetlinkMessage::NewRoute(message))
    }
}
