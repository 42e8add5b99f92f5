//! Networks of namespaces without names: they end with this process.

use nix::sched::{CloneFlags, setns, unshare};
use punctual_kernel::{LoadOptions, OBJECT, Paths, load, unload};
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::process::Command;

/// A network namespace.
#[derive(Debug)]
pub(crate) struct Namespace(File);

impl Namespace {
    pub(crate) fn new() -> Namespace {
        let made = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("network namespace");
            File::open("/proc/thread-self/ns/net").expect("network namespace")
        });
        let namespace = Namespace(made.join().expect("thread"));
        namespace.sh("ip link set lo up");
        namespace
    }

    /// Another handle of it.
    pub(crate) fn file(&self) -> File {
        self.0.try_clone().expect("a descriptor")
    }

    /// A path by which other processes find it.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }

    /// Runs a function on a thread in this namespace.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                setns(&self.0, CloneFlags::CLONE_NEWNET).expect("setns");
                work()
            });
            thread.join().expect("thread in the namespace")
        })
    }

    /// Runs a command line in this namespace and returns what it prints.
    pub(crate) fn sh(&self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let output = self.run(|| Command::new(words[0]).args(&words[1..]).output());
        let output = output.unwrap_or_else(|error| panic!("{line}: {error}"));
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {message}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A value of `/proc/sys/net/ipv4` here.
    pub(crate) fn sysctl(&self, name: &str) -> String {
        let path = format!("/proc/sys/net/ipv4/{name}");
        self.run(|| std::fs::read_to_string(path).expect("sysctl").trim().to_owned())
    }

    /// A counter of `/proc/net/netstat` here.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let text = self.run(|| std::fs::read_to_string("/proc/thread-self/net/netstat"));
        let text = text.expect("netstat");
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        // A line of names, then a line of values.
        let value = |pair: &[Vec<&str>]| {
            let at = pair[0].iter().position(|word| *word == name)?;
            pair[1].get(at)?.parse().ok()
        };
        lines.chunks_exact(2).find_map(value).unwrap_or_else(|| panic!("no counter {name}"))
    }

    pub(crate) fn set_sysctl(&self, name: &str, value: &str) {
        let path = format!("/proc/sys/net/ipv4/{name}");
        self.run(|| std::fs::write(path, value).expect("sysctl"));
    }
}

/// Senders and a receiver around a bridge whose link to the receiver is the bottleneck, which marks
/// above K packets.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) senders: Vec<Namespace>,
    pub(crate) receiver: Namespace,
    pub(crate) bridge: Namespace,
    marker: Paths,
}

/// The bottleneck marks above this many packets of 1514 B.
pub(crate) const MARK_PACKETS: u32 = 30;

impl Network {
    /// A network with a bottleneck of so many Mb/s. The marker is a load of its own.
    pub(crate) fn new(marker: LoadOptions, senders: usize, mbits: u32) -> Network {
        let network = Network {
            senders: (0..senders).map(|_| Namespace::new()).collect(),
            receiver: Namespace::new(),
            bridge: Namespace::new(),
            marker: marker.paths.clone(),
        };
        network.bridge.sh("ip link add br0 type bridge");
        network.bridge.sh("ip link set br0 up");
        for (index, namespace) in network.hosts().enumerate() {
            let (port, number) = (format!("p{index}"), index + 1);
            let peer = namespace.path();
            let bridge = &network.bridge;
            bridge.sh(&format!("ip link add {port} type veth peer name eth0"));
            bridge.sh(&format!("ip link set eth0 netns {}", peer.display()));
            bridge.sh(&format!("ip link set {port} master br0 up"));
            namespace.sh(&format!("ip addr add 10.0.0.{number}/24 dev eth0"));
            namespace.sh(&format!("ip addr add fd00::{number}/64 dev eth0 nodad"));
            namespace.sh("ip link set eth0 up");
            // Otherwise a mark hits a super-packet of 64 kB.
            bridge.sh(&format!("ethtool -K {port} tso off gso off gro off"));
            namespace.sh("ethtool -K eth0 tso off gso off gro off");
        }
        let last = format!("p{senders}");
        network.bridge.sh(&format!(
            "tc qdisc add dev {last} root tbf rate {mbits}mbit burst 4kb limit 600000"
        ));
        let options = LoadOptions {
            netns: Some(network.bridge.path()),
            mark_devices: vec![last],
            mark_bytes: MARK_PACKETS * 1514,
            marker_only: true,
            ..marker
        };
        load(OBJECT, &options).unwrap_or_else(|error| panic!("marker: {error}"));
        network
    }

    fn hosts(&self) -> impl Iterator<Item = &Namespace> {
        self.senders.iter().chain([&self.receiver])
    }

    /// The receiver's IPv4 address.
    pub(crate) fn address(&self) -> IpAddr {
        IpAddr::from([10, 0, 0, u8::try_from(self.senders.len() + 1).expect("few senders")])
    }

    /// The receiver's IPv6 address.
    pub(crate) fn address_v6(&self) -> IpAddr {
        let number = u16::try_from(self.senders.len() + 1).expect("few senders");
        IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, number])
    }

    /// What the marker saw.
    pub(crate) fn marks(&self) -> punctual_kernel::Marks {
        let status = punctual_kernel::status(&self.marker).expect("status").expect("loaded");
        status.marks
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = unload(&self.marker);
    }
}
