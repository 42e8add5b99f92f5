//! The network of a run: a namespace for each host and one for the switch, joined by veths.
//!
//! The namespaces have no names and live as long as the files that refer to them, so that nothing
//! is left of them when this process ends, however it ends.

use crate::TestbedRunError;
use nix::sched::{CloneFlags, setns, unshare};
use punctual_switch::{host_mac, interface_name, missing_capability, turn_off_tx_checksum};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Capabilities that a testbed needs.
const NEEDED: [&str; 3] = ["CAP_NET_ADMIN", "CAP_SYS_ADMIN", "CAP_NET_RAW"];

/// The interface of a host in its namespace.
pub(crate) const HOST_INTERFACE: &str = "eth0";

/// `tcp_fastopen`: clients and servers use it, without cookies.
const FAST_OPEN: &str = "1543";

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
}

/// The IPv4 address of a host.
pub(crate) fn ipv4(host: u32) -> Ipv4Addr {
    let [_, _, high, low] = (host + 1).to_be_bytes();
    Ipv4Addr::new(10, 0, high, low)
}

/// The Ethernet address of a host's kernel.
pub(crate) fn kernel_mac(host: u32) -> [u8; 6] {
    mac(0x70, host)
}

/// The Ethernet address under which a host's endpoints of ours send and receive. The kernel ignores
/// frames for it, because it is not that of its interface.
pub(crate) fn own_mac(host: u32) -> [u8; 6] {
    mac(0x71, host)
}

fn mac(kind: u8, host: u32) -> [u8; 6] {
    let [_, b, c, d] = (host + 1).to_be_bytes();
    [0x02, kind, 0, b, c, d]
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
        let up: String =
            (0..hosts).map(|host| format!("link set {} up\n", interface_name(host))).collect();
        inside(&made.switch, || ip(&up)).map_err(|error| failed("the switch's links", &error))?;
        Ok(made)
    }

    fn add_host(&self, host: u32, hosts: u32, links: Links) -> io::Result<()> {
        let Links { mtu, headroom, rto_min } = links;
        let (pid, switch) = (std::process::id(), self.switch.as_raw_fd());
        let (mac, port, wire) = (host_mac(host), interface_name(host), mtu + headroom);
        // One queue each way: a second one could reorder frames.
        let queues = "numtxqueues 1 numrxqueues 1";
        let own = ipv4(host);
        let mut batch = format!(
            "link add {HOST_INTERFACE} {queues} address {mac} mtu {wire} type veth \
             peer name {port} netns /proc/{pid}/fd/{switch} mtu {wire} {queues}\n\
             addr add {own}/32 dev {HOST_INTERFACE}\n\
             link set lo up\n\
             link set {HOST_INTERFACE} up\n\
             route add 10.0.0.0/16 dev {HOST_INTERFACE} src {own} mtu lock {mtu} advmss {} \
             rto_min {}ms\n",
            mtu.saturating_sub(40),
            rto_min.as_millis()
        );
        // The simulator has no ARP.
        for other in (0..hosts).filter(|other| *other != host) {
            batch += &format!(
                "neigh add {} lladdr {} dev {HOST_INTERFACE} nud permanent\n",
                ipv4(other),
                host_mac(other)
            );
        }
        inside(&self.hosts[host as usize], || {
            let _ = fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            let _ = fs::write("/proc/sys/net/ipv4/tcp_fastopen", FAST_OPEN);
            let _ = fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1");
            ip(&batch)?;
            turn_off_tx_checksum(HOST_INTERFACE)
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

/// A new network namespace, which lives as long as the file.
fn new_namespace() -> io::Result<File> {
    on_a_thread(|| {
        unshare(CloneFlags::CLONE_NEWNET)?;
        File::open("/proc/thread-self/ns/net")
    })
}

/// Runs `job` on a thread of its own in a namespace. Processes that it starts are there, too.
fn inside<T: Send>(namespace: &File, job: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    on_a_thread(|| {
        setns(namespace, CloneFlags::CLONE_NEWNET)?;
        job()
    })
}

fn on_a_thread<T: Send>(job: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(job);
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
    })
}

/// Runs commands of iproute2, one a line.
fn ip(batch: &str) -> io::Result<()> {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| io::Error::other(format!("`ip`: {error}; install iproute2")))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(batch.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::other(format!("`ip` failed: {message}")))
}
