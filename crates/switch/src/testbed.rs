//! A testbed: hosts as network namespaces, joined by one switch process.
//!
//! Every name begins with the testbed's prefix, so that [`Testbed::down`] finds what
//! [`Testbed::up`] made, also after a crash of either. Links between switches are in the memory of
//! the switch process, so a tree needs no more interfaces than a star with as many hosts.

use crate::config_text::{interface_name, mac_of};
use crate::namespace::{
    add_namespace, end_process, in_namespace, namespace_file, namespaces_with, processes_in,
    remove_namespace, spawn_in_namespace, turn_off_tx_checksum,
};
use crate::netlink::{Netlink, VethEnd};
use crate::ring::missing_capability;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Capabilities that a testbed needs.
const NEEDED: [&str; 3] = ["CAP_NET_ADMIN", "CAP_SYS_ADMIN", "CAP_NET_RAW"];

/// How long the switch may take to start, and processes to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a testbed cannot be built, used or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestbedError {
    /// A capability is missing.
    #[error("a testbed needs network namespaces: {0}")]
    Capability(String),
    /// It exists already.
    #[error("the testbed {0} is up already; take it down first with `punctual testbed down`")]
    Exists(String),
    /// It does not exist.
    #[error("the testbed {0} is not up; build it with `punctual testbed up`")]
    Absent(String),
    /// It has no such host.
    #[error("the testbed has no host `{0}`; its hosts are 0 to {1}")]
    NoHost(String, u32),
    /// The switch process ended or did not get ready.
    #[error("the switch did not start: {0}")]
    Switch(String),
    /// A file or a namespace.
    #[error("{what}: {source}")]
    Io {
        /// What was done.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

/// A testbed, whether it is up or not.
#[derive(Clone, Debug)]
pub struct Testbed {
    prefix: String,
    dir: PathBuf,
}

/// The state of a testbed.
#[derive(Clone, Debug)]
pub struct TestbedStatus {
    /// Its hosts' namespaces, in order.
    pub hosts: Vec<String>,
    /// The process of the switch, if it runs.
    pub switch: Option<u32>,
    /// The last report of the switch, as JSON.
    pub report: Option<String>,
}

impl Testbed {
    /// The testbed with this prefix: at most eight letters and digits.
    ///
    /// # Panics
    ///
    /// If the prefix has other characters.
    pub fn new(prefix: &str) -> Testbed {
        let is_sound = (1..=8).contains(&prefix.len())
            && prefix.bytes().all(|byte| byte.is_ascii_alphanumeric());
        assert!(is_sound, "a prefix has at most eight letters and digits");
        let dir = PathBuf::from("/run/punctual").join(prefix);
        Testbed { prefix: prefix.to_owned(), dir }
    }

    /// The namespace of a host.
    pub fn host_namespace(&self, host: u32) -> String {
        format!("{}-h{host}", self.prefix)
    }

    /// The namespace of the switch.
    pub fn switch_namespace(&self) -> String {
        format!("{}-sw", self.prefix)
    }

    /// The IPv4 address of a host.
    pub fn ipv4(host: u32) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, (host / 250) as u8, (host % 250 + 1) as u8)
    }

    /// The IPv6 address of a host.
    pub fn ipv6(host: u32) -> Ipv6Addr {
        let [low, high] = [(host + 1) as u16, ((host + 1) >> 16) as u16];
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, high, low)
    }

    /// Where the switch writes its report.
    pub fn report_file(&self) -> PathBuf {
        self.dir.join("report.json")
    }

    /// The configuration of the switch, which reads it again on SIGHUP.
    pub fn config_file(&self) -> PathBuf {
        self.dir.join("switch.toml")
    }

    /// Builds the namespaces of `hosts` hosts and starts `program` as their switch, with a
    /// configuration. If anything fails, all of it is removed again.
    pub fn up(
        &self,
        hosts: u32,
        mtu: u64,
        config: &str,
        program: &Path,
    ) -> Result<(), TestbedError> {
        if let Some(missing) = missing_capability(&NEEDED) {
            return Err(TestbedError::Capability(missing));
        }
        if self.dir.exists() || !self.namespaces()?.is_empty() {
            return Err(TestbedError::Exists(self.prefix.clone()));
        }
        let built = self.build(hosts, mtu, config, program);
        if built.is_err() {
            let _ = self.down();
        }
        built
    }

    fn build(
        &self,
        hosts: u32,
        mtu: u64,
        config: &str,
        program: &Path,
    ) -> Result<(), TestbedError> {
        // The directory comes first: from here on `down` has something to remove.
        fs::create_dir_all(&self.dir).map_err(failed(self.dir.display().to_string()))?;
        let config_file = self.config_file();
        fs::write(&config_file, config).map_err(failed(config_file.display().to_string()))?;
        let switch = self.switch_namespace();
        add_namespace(&switch).map_err(failed(format!("namespace {switch}")))?;
        // The switch's ends of the links have no addresses and send nothing on their own.
        let without_ipv6 = || fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        let _ = in_namespace(&switch, without_ipv6);
        for host in 0..hosts {
            let own = self.host_namespace(host);
            add_namespace(&own).map_err(failed(format!("namespace {own}")))?;
            self.build_host(host, hosts, mtu).map_err(failed(format!("namespace {own}")))?;
        }
        let turn_on = || {
            let mut netlink = Netlink::open()?;
            (0..hosts).try_for_each(|host| netlink.set_up(&interface_name(host), true))
        };
        in_namespace(&switch, turn_on).map_err(failed(format!("namespace {switch}")))?;
        let mut child = self.start_switch(&config_file, program)?;
        self.await_switch(&mut child)
    }

    /// Joins a host to the switch and gives it its addresses, and those of all other hosts: no ARP
    /// mixes with its traffic.
    fn build_host(&self, host: u32, hosts: u32, mtu: u64) -> io::Result<()> {
        let switch = namespace_file(&self.switch_namespace())?;
        let (port, others) = (interface_name(host), (0..hosts).filter(|other| *other != host));
        in_namespace(&self.host_namespace(host), || {
            let mut netlink = Netlink::open()?;
            let own = VethEnd { name: "eth0", mac: Some(mac_of(host)), namespace: None };
            let peer = VethEnd { name: &port, mac: None, namespace: Some(&switch) };
            netlink.add_veth([own, peer], u32::try_from(mtu).unwrap_or(u32::MAX))?;
            turn_off_tx_checksum("eth0")?;
            netlink.add_address("eth0", Self::ipv4(host).into(), 16)?;
            netlink.set_up("lo", true)?;
            netlink.set_up("eth0", true)?;
            // A kernel without IPv6 has no such addresses.
            let has_ipv6 = netlink.add_address("eth0", Self::ipv6(host).into(), 64).is_ok();
            for other in others {
                netlink.add_neighbour("eth0", Self::ipv4(other).into(), mac_of(other))?;
                if has_ipv6 {
                    netlink.add_neighbour("eth0", Self::ipv6(other).into(), mac_of(other))?;
                }
            }
            Ok(())
        })
    }

    fn start_switch(&self, config: &Path, program: &Path) -> Result<Child, TestbedError> {
        let log_file = self.dir.join("switch.log");
        let log = fs::File::create(&log_file).map_err(failed(log_file.display().to_string()))?;
        let log_too = log.try_clone().map_err(failed(log_file.display().to_string()))?;
        let mut command = Command::new(program);
        command.arg("switch").arg("--config").arg(config);
        command.arg("--report").arg(self.report_file()).arg("--priority");
        command.stdin(Stdio::null()).stdout(log).stderr(log_too);
        let child = spawn_in_namespace(&self.switch_namespace(), &mut command)
            .map_err(failed(program.display().to_string()))?;
        let pid = self.dir.join("switch.pid");
        fs::write(&pid, child.id().to_string()).map_err(failed(pid.display().to_string()))?;
        Ok(child)
    }

    /// Waits until the switch has written its first report.
    fn await_switch(&self, child: &mut Child) -> Result<(), TestbedError> {
        let begin = Instant::now();
        let log = || {
            let text = fs::read_to_string(self.dir.join("switch.log")).unwrap_or_default();
            text.trim().to_owned()
        };
        while !self.report_file().exists() {
            match child.try_wait() {
                Ok(None) if begin.elapsed() < PATIENCE => sleep(Duration::from_millis(20)),
                Ok(None) => return Err(TestbedError::Switch("it is not ready yet".into())),
                _ => return Err(TestbedError::Switch(log())),
            }
        }
        Ok(())
    }

    /// The namespaces that exist with this prefix.
    fn namespaces(&self) -> Result<Vec<String>, TestbedError> {
        namespaces_with(&format!("{}-", self.prefix)).map_err(failed("named namespaces".into()))
    }

    /// The process of the switch, if it runs: the number of another process that has taken its place
    /// does not count.
    fn switch_process(&self) -> Option<u32> {
        let pid: u32 = fs::read_to_string(self.dir.join("switch.pid")).ok()?.trim().parse().ok()?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let config = self.config_file();
        let config = config.to_str()?.as_bytes();
        line.split(|byte| *byte == 0).any(|word| word == config).then_some(pid)
    }

    /// What there is of the testbed.
    pub fn status(&self) -> Result<TestbedStatus, TestbedError> {
        let namespaces = self.namespaces()?;
        if namespaces.is_empty() && !self.dir.exists() {
            return Err(TestbedError::Absent(self.prefix.clone()));
        }
        let hosts = (0u32..).map(|host| self.host_namespace(host));
        let hosts = hosts.take_while(|name| namespaces.contains(name)).collect();
        let report = fs::read_to_string(self.report_file()).ok();
        Ok(TestbedStatus { hosts, switch: self.switch_process(), report })
    }

    /// The namespace of a host, by its number. Fails, too, if this process may not enter it.
    pub fn namespace_of(&self, host: &str) -> Result<String, TestbedError> {
        if let Some(missing) = missing_capability(&["CAP_SYS_ADMIN"]) {
            return Err(TestbedError::Capability(missing));
        }
        let hosts = self.status()?.hosts.len() as u32;
        let number = host.trim_start_matches('h').parse().ok().filter(|host| *host < hosts);
        let Some(number) = number else {
            return Err(TestbedError::NoHost(host.to_owned(), hosts.saturating_sub(1)));
        };
        Ok(self.host_namespace(number))
    }

    /// Stops the switch, so that it writes its last report. Returns the report.
    pub fn stop_switch(&self) -> Option<String> {
        if let Some(pid) = self.switch_process() {
            end_process(pid, false);
            let begin = Instant::now();
            while self.switch_process().is_some() && begin.elapsed() < PATIENCE {
                sleep(Duration::from_millis(20));
            }
            if let Some(pid) = self.switch_process() {
                end_process(pid, true);
            }
        }
        fs::read_to_string(self.report_file()).ok()
    }

    /// Starts the switch again with its configuration file, whether it runs, was stopped or has
    /// crashed. Frames that are in the switch meanwhile are lost; hosts and their sockets stay.
    pub fn restart_switch(&self, program: &Path) -> Result<(), TestbedError> {
        if let Some(missing) = missing_capability(&NEEDED) {
            return Err(TestbedError::Capability(missing));
        }
        let config_file = self.config_file();
        if !config_file.exists() {
            return Err(TestbedError::Absent(self.prefix.clone()));
        }
        self.stop_switch();
        let _ = fs::remove_file(self.report_file());
        let mut child = self.start_switch(&config_file, program)?;
        self.await_switch(&mut child)
    }

    /// Removes the switch, every process in the namespaces, the namespaces with their interfaces,
    /// and the files. Returns how many namespaces there were.
    pub fn down(&self) -> Result<usize, TestbedError> {
        if let Some(missing) = missing_capability(&NEEDED) {
            return Err(TestbedError::Capability(missing));
        }
        self.stop_switch();
        let namespaces = self.namespaces()?;
        for name in &namespaces {
            for pid in processes_in(name) {
                end_process(pid, true);
            }
        }
        for name in &namespaces {
            remove_namespace(name).map_err(failed(format!("namespace {name}")))?;
        }
        match fs::remove_dir_all(&self.dir) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(TestbedError::Io { what: self.dir.display().to_string(), source })
            }
            _ => Ok(namespaces.len()),
        }
    }
}

/// An error of a system call, with what was done.
fn failed(what: String) -> impl FnOnce(io::Error) -> TestbedError {
    move |source| TestbedError::Io { what, source }
}
