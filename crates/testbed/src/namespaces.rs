//! The network of a run: a namespace for each host and one for the switch, joined by veths.
//!
//! The namespaces have no names and live as long as the files that refer to them, so that nothing
//! is left of them when this process ends, however it ends.

use crate::TestbedRunError;
use nix::sched::{CloneFlags, setns};
use punctual_core::HostId;
use punctual_switch::{
    Ipv4Route, Netlink, VethEnd, interface_name, mac_of, missing_capability, new_namespace,
    on_a_thread, turn_off_tx_checksum,
};
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Capabilities that a testbed needs.
const NEEDED: [&str; 3] = ["CAP_NET_ADMIN", "CAP_SYS_ADMIN", "CAP_NET_RAW"];

/// The interface of a host in its namespace.
pub(crate) const HOST_INTERFACE: &str = "eth0";

/// `tcp_fastopen`: clients and servers use it, without cookies.
const FAST_OPEN: &str = "1543";

/// Settings by which Linux recovers from losses better than NewReno: selective acknowledgements, loss
/// detection by time (RACK), probes for a lost tail (TLP), and detection of needless timeouts.
const RECOVERY: [&str; 5] =
    ["tcp_sack", "tcp_dsack", "tcp_recovery", "tcp_early_retrans", "tcp_frto"];

/// The addresses of all hosts.
const NETWORK: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 0, 0, 0), 16);

/// The namespaces of a run.
pub(crate) struct Namespaces {
    switch: File,
    hosts: Vec<File>,
}

/// What the interfaces of hosts are like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Links {
    /// The largest IP packet of kernel TCP.
    pub(crate) mtu: u64,
    /// How much more the interfaces carry: headers may be longer on the wire than in the simulator.
    pub(crate) headroom: u64,
    /// The shortest retransmission timeout of the kernel's TCP.
    pub(crate) rto_min: Duration,
    /// Whether the kernel's TCP recovers from losses as RFC 6582 says, without what came later.
    pub(crate) recovers_as_new_reno: bool,
}

/// The IPv4 address of a host.
pub(crate) fn ipv4(host: u32) -> Ipv4Addr {
    let [_, _, high, low] = (host + 1).to_be_bytes();
    Ipv4Addr::new(10, 0, high, low)
}

/// The host with this address.
pub(crate) fn host_of(ip: IpAddr) -> Option<HostId> {
    let IpAddr::V4(ip) = ip else { return None };
    let [10, 0, high, low] = ip.octets() else { return None };
    u32::from_be_bytes([0, 0, high, low]).checked_sub(1).map(HostId)
}

/// The Ethernet address of a host's kernel.
pub(crate) fn kernel_mac(host: u32) -> [u8; 6] {
    mac_of(host)
}

/// The Ethernet address under which a host's endpoints of ours send and receive. The kernel ignores
/// frames for it, because it is not that of its interface.
pub(crate) fn own_mac(host: u32) -> [u8; 6] {
    let mut mac = mac_of(host);
    mac[1] = 0x71;
    mac
}

impl Namespaces {
    /// Builds the namespaces of some hosts and of a switch, and their links.
    pub(crate) fn build(hosts: u32, links: Links) -> Result<Namespaces, TestbedRunError> {
        if let Some(missing) = missing_capability(&NEEDED) {
            return Err(TestbedRunError::Capability(missing));
        }
        let new = |what: &str| new_namespace().map_err(|error| failed(what, &error));
        let switch = new("the namespace of the switch")?;
        let mut made = Namespaces { switch, hosts: Vec::new() };
        for host in 0..hosts {
            made.hosts.push(new(&format!("the namespace of host {host}"))?);
        }
        let without_ipv6 = || fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        // The switch's ends of the links have no addresses and send nothing on their own.
        let _ = inside(&made.switch, without_ipv6);
        for host in 0..hosts {
            made.add_host(host, hosts, links)
                .map_err(|error| failed(&format!("host {host}"), &error))?;
        }
        let turn_on = || {
            let mut netlink = Netlink::open()?;
            (0..hosts).try_for_each(|host| netlink.set_up(&interface_name(host), true))
        };
        inside(&made.switch, turn_on).map_err(|error| failed("the switch's links", &error))?;
        Ok(made)
    }

    fn add_host(&self, host: u32, hosts: u32, links: Links) -> io::Result<()> {
        let Links { mtu, headroom, rto_min, recovers_as_new_reno } = links;
        let (own, port) = (ipv4(host), interface_name(host));
        let bytes = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        inside(&self.hosts[host as usize], || {
            let _ = fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            let _ = fs::write("/proc/sys/net/ipv4/tcp_fastopen", FAST_OPEN);
            let _ = fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1");
            if recovers_as_new_reno {
                for name in RECOVERY {
                    fs::write(format!("/proc/sys/net/ipv4/{name}"), "0")?;
                }
            }
            let mut netlink = Netlink::open()?;
            let end =
                VethEnd { name: HOST_INTERFACE, mac: Some(kernel_mac(host)), namespace: None };
            let peer = VethEnd { name: &port, mac: None, namespace: Some(&self.switch) };
            netlink.add_veth([end, peer], bytes(mtu + headroom))?;
            turn_off_tx_checksum(HOST_INTERFACE)?;
            netlink.add_address(HOST_INTERFACE, own.into(), 32)?;
            netlink.set_up("lo", true)?;
            netlink.set_up(HOST_INTERFACE, true)?;
            let route = Ipv4Route {
                to: NETWORK,
                from: own,
                mtu: bytes(mtu),
                segment: bytes(mtu.saturating_sub(40)),
                rto_min,
            };
            netlink.add_route(HOST_INTERFACE, &route)?;
            // The simulator has no ARP.
            for other in (0..hosts).filter(|other| *other != host) {
                netlink.add_neighbour(HOST_INTERFACE, ipv4(other).into(), kernel_mac(other))?;
            }
            Ok(())
        })
    }

    /// Moves this thread into the namespace of the switch.
    pub(crate) fn enter_switch(&self) -> io::Result<()> {
        Ok(setns(&self.switch, CloneFlags::CLONE_NEWNET)?)
    }

    /// Moves this thread into the namespace of a host.
    pub(crate) fn enter_host(&self, host: u32) -> io::Result<()> {
        Ok(setns(&self.hosts[host as usize], CloneFlags::CLONE_NEWNET)?)
    }
}

/// An error of building.
pub(crate) fn failed(what: &str, error: &dyn std::fmt::Display) -> TestbedRunError {
    TestbedRunError::Build { what: what.to_owned(), message: error.to_string() }
}

/// Runs `job` on a thread of its own in a namespace.
fn inside<T: Send>(namespace: &File, job: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    on_a_thread(|| {
        setns(namespace, CloneFlags::CLONE_NEWNET)?;
        job()
    })
}
