//! Networks whose ports are those of our software switch, on a thread of this process.

use super::Namespace;
use nix::sched::{CloneFlags, setns};
use punctual_switch::{Interfaces, Switch, SwitchConfig, SwitchReport, host_mac, interface_name};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

/// Hosts around a switch. Its thread ends with this value, and with this process.
#[derive(Debug)]
pub(crate) struct Switched {
    pub(crate) hosts: Vec<Namespace>,
    _switch: Namespace,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<SwitchReport>>,
}

impl Switched {
    /// The hosts of a configuration, each in a namespace, and the switch between them.
    pub(crate) fn new(config: SwitchConfig) -> Switched {
        let switch = Namespace::new();
        let hosts: Vec<Namespace> = (0..config.network.hosts).map(|_| Namespace::new()).collect();
        for (host, number) in hosts.iter().zip(0..) {
            let (port, mac) = (interface_name(number), host_mac(number));
            switch.sh(&format!("ip link add {port} type veth peer name eth0 address {mac}"));
            switch.sh(&format!("ip link set eth0 netns {}", host.path().display()));
            switch.sh(&format!("ip link set {port} up"));
            host.sh(&format!("ip addr add 10.0.0.{}/24 dev eth0", number + 1));
            host.sh("ip link set eth0 up");
            // The switch forwards frames as they are: whole, and with their checksums.
            host.sh("ethtool -K eth0 tx off tso off gso off gro off");
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = channel();
        let (until, namespace) = (stop.clone(), switch.file());
        let thread = std::thread::spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET).expect("setns");
            let names = config.hosts.iter().map(|host| host.interface.as_str());
            let interfaces = Interfaces::open(names, config.network.mtu.get() as usize);
            let mut switch = Switch::new(config.clone(), interfaces.expect("interfaces"));
            let _ = ready.send(());
            switch.run(&until, &mut |_| {});
            switch.report()
        });
        is_ready.recv().expect("the switch starts");
        Switched { hosts, _switch: switch, stop, thread: Some(thread) }
    }

    /// Stops the switch.
    pub(crate) fn finish(mut self) -> SwitchReport {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it runs").join().expect("the switch")
    }
}

impl Drop for Switched {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
