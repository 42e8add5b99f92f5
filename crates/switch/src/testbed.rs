//! A testbed: hosts as network namespaces, joined by one switch process.
//!
//! Every name begins with the testbed's prefix, so that [`Testbed::down`] finds what
//! [`Testbed::up`] made, also after a crash of either. Namespaces and interfaces are made with
//! `ip` of iproute2, many commands in one process. Links between switches are in the memory of the
//! switch process, so a tree needs no more interfaces than a star with as many hosts.

use crate::config_text::{host_mac, interface_name};
use crate::namespace::{end_process, in_namespace, turn_off_tx_checksum};
use crate::ring::missing_capability;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
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
    /// A command failed.
    #[error("`{command}` failed: {message}")]
    Command {
        /// The command line.
        command: String,
        /// What it printed.
        message: String,
    },
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
    pub fn ipv4(host: u32) -> String {
        format!("10.0.{}.{}", host / 250, host % 250 + 1)
    }

    /// The IPv6 address of a host.
    pub fn ipv6(host: u32) -> String {
        format!("fd00::{:x}", host + 1)
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
        let failed = |what: String| move |source| TestbedError::Io { what, source };
        // The directory comes first: from here on `down` has something to remove.
        fs::create_dir_all(&self.dir).map_err(failed(self.dir.display().to_string()))?;
        let config_file = self.config_file();
        fs::write(&config_file, config).map_err(failed(config_file.display().to_string()))?;
        let switch = self.switch_namespace();
        ip(&["netns", "add", &switch])?;
        // The switch's ends of the links have no addresses and send nothing on their own.
        let without_ipv6 = || fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        let _ = in_namespace(&switch, without_ipv6);
        for host in 0..hosts {
            ip(&["netns", "add", &self.host_namespace(host)])?;
        }
        self.add_links(hosts, mtu)?;
        for host in 0..hosts {
            self.configure_host(host, hosts)?;
        }
        let mut child = self.start_switch(&config_file, program)?;
        self.await_switch(&mut child)
    }

    /// Joins the namespace of every host to that of the switch.
    fn add_links(&self, hosts: u32, mtu: u64) -> Result<(), TestbedError> {
        let switch = self.switch_namespace();
        let (mut links, mut ports) = (String::new(), String::new());
        for host in 0..hosts {
            let (own, port, mac) =
                (self.host_namespace(host), interface_name(host), host_mac(host));
            // One queue each way: a second one could reorder frames.
            let queues = "numtxqueues 1 numrxqueues 1";
            let _ = writeln!(
                links,
                "link add eth0 netns {own} {queues} address {mac} mtu {mtu} type veth peer name \
                 {port} netns {switch} mtu {mtu} {queues}"
            );
            let _ = writeln!(ports, "link set {port} up");
        }
        ip_batch(&[], &links)?;
        ip_batch(&["-n", &switch], &ports)
    }

    /// Gives a host its addresses, and those of all other hosts: no ARP mixes with its traffic.
    fn configure_host(&self, host: u32, hosts: u32) -> Result<(), TestbedError> {
        let own = self.host_namespace(host);
        in_namespace(&own, || turn_off_tx_checksum("eth0")).map_err(|source| TestbedError::Io {
            what: format!("transmit checksum offload of eth0 in {own}"),
            source,
        })?;
        let (ipv4, ipv6) = (Self::ipv4(host), Self::ipv6(host));
        let mut setup = format!("addr add {ipv4}/16 dev eth0\nlink set lo up\nlink set eth0 up\n");
        // A kernel without IPv6 has no such addresses.
        let mut setup_ipv6 = format!("addr add {ipv6}/64 dev eth0 nodad\n");
        for other in (0..hosts).filter(|other| *other != host) {
            let mac = host_mac(other);
            for (text, ip) in
                [(&mut setup, Self::ipv4(other)), (&mut setup_ipv6, Self::ipv6(other))]
            {
                let _ = writeln!(text, "neigh replace {ip} lladdr {mac} dev eth0 nud permanent");
            }
        }
        ip_batch(&["-n", &own], &setup)?;
        let _ = ip_batch(&["-n", &own], &setup_ipv6);
        Ok(())
    }

    fn start_switch(&self, config: &Path, program: &Path) -> Result<Child, TestbedError> {
        let failed = |what: String| move |source| TestbedError::Io { what, source };
        let log_file = self.dir.join("switch.log");
        let log = fs::File::create(&log_file).map_err(failed(log_file.display().to_string()))?;
        let log_too = log.try_clone().map_err(failed(log_file.display().to_string()))?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.switch_namespace()]).arg(program);
        command.arg("switch").arg("--config").arg(config);
        command.arg("--report").arg(self.report_file()).arg("--priority");
        command.stdin(Stdio::null()).stdout(log).stderr(log_too);
        let child = command.spawn().map_err(failed("ip netns exec".to_owned()))?;
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
        let listed = match fs::read_dir("/run/netns") {
            Ok(listed) => listed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(TestbedError::Io { what: "/run/netns".into(), source }),
        };
        let start = format!("{}-", self.prefix);
        let names = listed.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.filter(|name| name.starts_with(&start)).collect())
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

    /// A command to be run at a host, by its number.
    pub fn command(&self, host: &str, program: &str) -> Result<Command, TestbedError> {
        let hosts = self.status()?.hosts.len() as u32;
        let number = host.trim_start_matches('h').parse().ok().filter(|host| *host < hosts);
        let Some(number) = number else {
            return Err(TestbedError::NoHost(host.to_owned(), hosts.saturating_sub(1)));
        };
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.host_namespace(number), program]);
        Ok(command)
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
            ip(&["netns", "delete", name])?;
        }
        match fs::remove_dir_all(&self.dir) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(TestbedError::Io { what: self.dir.display().to_string(), source })
            }
            _ => Ok(namespaces.len()),
        }
    }
}

/// The processes in a namespace.
fn processes_in(namespace: &str) -> Vec<u32> {
    let output = Command::new("ip").args(["netns", "pids", namespace]).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn ip(args: &[&str]) -> Result<(), TestbedError> {
    ip_batch(args, "")
}

/// Runs `ip` with options and many commands, one a line, in one process; the first that fails ends
/// it. Without commands, the options are the command.
fn ip_batch(args: &[&str], commands: &str) -> Result<(), TestbedError> {
    let mut process = Command::new("ip");
    process.args(args);
    if !commands.is_empty() {
        process.args(["-batch", "-"]);
    }
    let command = || {
        let first = commands.lines().next().unwrap_or_default();
        format!("ip {} {first}", args.join(" ")).trim_end().to_owned()
    };
    let failed = |error: io::Error| TestbedError::Command {
        command: command(),
        message: format!("{error}; install iproute2"),
    };
    process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = process.spawn().map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        // A process that has failed already does not read all of it; its status says so.
        let _ = input.write_all(commands.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(TestbedError::Command { command: command(), message })
}
