//! The configuration of a switch: a TOML file with units, and errors that point at the line.

use crate::address::parse_mac;
use crate::trim_rule::TrimRule;
use punctual_core::{Bytes, Duration, Limit, QueueSpec, Rate, TransportSet as _};
use punctual_net::{LinkEntry, Network, NodeEntry, Topology, TopologyError, TopologyFile};
use punctual_transports::{AnyTransport, TransportSettings};
use punctual_wire::AnyCodec;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::ops::Range;
use toml::Spanned;

/// Everything a switch needs to know.
#[derive(Clone, Debug)]
pub struct SwitchConfig {
    /// Hosts, switches, links and routes.
    pub network: Network,
    /// The interface of each host.
    pub hosts: Vec<HostPort>,
    /// The queue of each output port, those of the hosts' links into the network included.
    pub queues: Vec<QueueSpec>,
    /// The faults of each link, by port.
    pub faults: Vec<LinkFaults>,
    /// Transports whose packets the ports know: whose controllers run, and which may be trimmed.
    pub transports: Vec<AnyTransport>,
    /// Whether the controllers of the hosts' links into the network run here. They run in the hosts
    /// otherwise.
    pub uplink_controllers: bool,
    /// How frames are trimmed.
    pub trim: TrimRule,
    /// Seed of the ports' random choices.
    pub seed: u64,
    /// Whether the thread spins instead of sleeping while nothing happens.
    pub spin: bool,
    /// A departure is late if it is this many MTU times of its port behind its virtual time.
    pub late_after_packets: u64,
    /// The run is invalid if more than this share of the departures is late, in per cent.
    pub late_percent_max: f64,
}

/// A host and its interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// The name of the host.
    pub name: String,
    /// The name of the interface to it.
    pub interface: String,
    /// Its Ethernet address; learned if absent.
    pub mac: Option<[u8; 6]>,
}

/// Faults that a link has on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkFaults {
    /// The probability with which it loses a packet.
    pub loss: f64,
    /// Whether it is cut: everything sent on it is lost.
    pub is_down: bool,
}

/// Why a configuration is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ConfigError {
    /// The file and the line, or the file alone.
    pub place: String,
    /// What is wrong, and what to do.
    pub message: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default = "default_mtu")]
    mtu: Bytes,
    #[serde(default = "default_framing")]
    framing: Bytes,
    #[serde(default = "default_queue")]
    queue: Spanned<QueueSpec>,
    #[serde(default = "default_uplink_queue")]
    uplink_queue: Spanned<QueueSpec>,
    #[serde(default)]
    transports: Vec<Spanned<String>>,
    #[serde(default = "yes")]
    uplink_controllers: bool,
    #[serde(default)]
    trim: TrimRule,
    #[serde(default)]
    seed: u64,
    #[serde(default = "yes")]
    spin: bool,
    #[serde(default = "ten")]
    late_after_packets: u64,
    #[serde(default = "one")]
    late_percent_max: f64,
    #[serde(default)]
    transport: TransportSettings,
    #[serde(default)]
    host: Vec<HostEntry>,
    #[serde(default)]
    switch: Vec<NodeEntry>,
    #[serde(default)]
    link: Vec<Spanned<WireEntry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostEntry {
    name: Spanned<String>,
    interface: Spanned<String>,
    mac: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireEntry {
    between: [String; 2],
    rate: Rate,
    delay: Duration,
    /// The queue of its switch ports.
    queue: Option<Spanned<QueueSpec>>,
    /// The queue of the port at its second end, if that is another one.
    reverse_queue: Option<Spanned<QueueSpec>>,
    /// The probability with which it loses a packet, in each direction.
    #[serde(default)]
    loss: f64,
    /// Whether it is cut.
    #[serde(default)]
    down: bool,
}

fn yes() -> bool {
    true
}
fn ten() -> u64 {
    10
}
fn one() -> f64 {
    1.0
}
fn default_mtu() -> Bytes {
    Bytes::new(1500)
}
/// Ethernet header, FCS, preamble and gap.
fn default_framing() -> Bytes {
    Bytes::new(38)
}
fn default_queue() -> Spanned<QueueSpec> {
    Spanned::new(0..0, QueueSpec::DropTail { limit: Limit::Packets(100) })
}
/// As long as the transmit queue of an interface.
fn default_uplink_queue() -> Spanned<QueueSpec> {
    Spanned::new(0..0, QueueSpec::Priority { limit: Limit::Packets(1000) })
}

/// The text of a file, to name the lines of mistakes in it.
struct Source<'a> {
    name: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn error(&self, at: Range<usize>, message: impl Into<String>) -> ConfigError {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        ConfigError { place: format!("{}:{line}", self.name), message: message.into() }
    }

    fn check_queue(
        &self,
        queue: &Spanned<QueueSpec>,
        trim: &TrimRule,
    ) -> Result<QueueSpec, ConfigError> {
        let spec = match trim.profile {
            None => *queue.get_ref(),
            Some(profile) => profile
                .applied_to(*queue.get_ref())
                .map_err(|problem| self.error(queue.span(), problem))?,
        };
        let problem = match spec {
            QueueSpec::Lossless { .. } => Some(
                "a software switch cannot pause the interfaces of its hosts (PFC); choose a queue \
                 that drops or trims"
                    .to_owned(),
            ),
            _ => spec.validate().err(),
        };
        problem.map_or(Ok(spec), |problem| Err(self.error(queue.span(), problem)))
    }
}

impl SwitchConfig {
    /// Parses a configuration. `name` is the name of the file, for messages.
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        let source = Source { name, text };
        let file: File = toml::from_str(text).map_err(|error| {
            source.error(error.span().unwrap_or(0..0), error.message().to_owned())
        })?;
        let topology = topology(&file, &source)?;
        let (mut queues, mut faults) = (Vec::new(), Vec::new());
        let default = source.check_queue(&file.queue, &file.trim)?;
        let uplink = source.check_queue(&file.uplink_queue, &file.trim)?;
        for (port, link) in topology.links.iter().enumerate() {
            // A link of the file is two links of the network, one after the other.
            let entry = file.link[port / 2].get_ref();
            let reverse = entry.reverse_queue.as_ref().filter(|_| port % 2 == 1);
            let own = reverse.or(entry.queue.as_ref());
            let own = own.map(|queue| source.check_queue(queue, &file.trim)).transpose()?;
            let is_uplink = link.from.0 < topology.hosts;
            queues.push(if is_uplink { uplink } else { own.unwrap_or(default) });
            if !(0.0..=1.0).contains(&entry.loss) {
                let message = format!("loss = {}: a probability is 0 to 1", entry.loss);
                return Err(source.error(file.link[port / 2].span(), message));
            }
            faults.push(LinkFaults { loss: entry.loss, is_down: entry.down });
        }
        if let Some(dscp) = file.trim.dscp.filter(|dscp| *dscp > 63) {
            return Err(source.error(0..0, format!("trim.dscp = {dscp}: a DSCP is 0 to 63")));
        }
        if !(64..=9216).contains(&file.mtu.get()) {
            return Err(source.error(0..0, format!("mtu = \"{}\": must be 64B to 9216B", file.mtu)));
        }
        let network = Network::from_topology(topology, file.mtu, file.framing)
            .map_err(|error| source.error(0..0, error.to_string()))?;
        Ok(SwitchConfig {
            hosts: hosts(&file, &source)?,
            transports: transports(&file, &source)?,
            network,
            queues,
            faults,
            uplink_controllers: file.uplink_controllers,
            trim: file.trim,
            seed: file.seed,
            spin: file.spin,
            late_after_packets: file.late_after_packets,
            late_percent_max: file.late_percent_max,
        })
    }

    /// The MTU time of the port to a host.
    pub fn packet_time(&self, host: punctual_core::HostId) -> Duration {
        let network = &self.network;
        let down = network.link(network.nic(host)).twin;
        network.link(down).rate.transmission_time(network.mtu + network.framing)
    }
}

fn topology(file: &File, source: &Source<'_>) -> Result<Topology, ConfigError> {
    let node = |host: &HostEntry| NodeEntry { name: host.name.get_ref().clone() };
    let link = |entry: &Spanned<WireEntry>| {
        let WireEntry { between, rate, delay, .. } = entry.get_ref();
        LinkEntry { between: between.clone(), rate: *rate, delay: *delay }
    };
    let plain = TopologyFile {
        host: file.host.iter().map(node).collect(),
        switch: file.switch.clone(),
        link: file.link.iter().map(link).collect(),
    };
    Topology::from_file(&plain).map_err(|error| {
        let at = match &error {
            TopologyError::UnknownNode { link, .. }
            | TopologyError::ToItself { link, .. }
            | TopologyError::ZeroRate { link, .. } => file.link[link - 1].span(),
            TopologyError::HostLinks { name, .. } | TopologyError::TwiceName(name) => {
                let mut named = file.host.iter().filter(|host| host.name.get_ref() == name);
                named.next_back().map_or(0..0, |host| host.name.span())
            }
            _ => 0..0,
        };
        source.error(at, error.to_string())
    })
}

fn hosts(file: &File, source: &Source<'_>) -> Result<Vec<HostPort>, ConfigError> {
    let mut interfaces = BTreeSet::new();
    let mut hosts = Vec::new();
    for host in &file.host {
        let interface = host.interface.get_ref();
        if interface.is_empty() || interface.len() > 15 || interface.contains(['/', ' ']) {
            let message = format!("interface = \"{interface}\": must be the name of an interface");
            return Err(source.error(host.interface.span(), message));
        }
        if !interfaces.insert(interface) {
            let message = format!("two hosts have the interface `{interface}`; each needs its own");
            return Err(source.error(host.interface.span(), message));
        }
        let mac = match &host.mac {
            None => None,
            Some(text) => match parse_mac(text.get_ref()) {
                Some(mac) if mac[0] & 1 == 0 => Some(mac),
                _ => {
                    let message = format!(
                        "mac = \"{}\": must be six bytes of a single interface, such as \
                         02:00:00:00:00:01",
                        text.get_ref()
                    );
                    return Err(source.error(text.span(), message));
                }
            },
        };
        let name = host.name.get_ref().clone();
        hosts.push(HostPort { name, interface: interface.clone(), mac });
    }
    Ok(hosts)
}

fn transports(file: &File, source: &Source<'_>) -> Result<Vec<AnyTransport>, ConfigError> {
    let mut transports: Vec<AnyTransport> = Vec::new();
    for name in &file.transports {
        let at = || name.span();
        let text = name.get_ref();
        let Some(transport) = AnyTransport::by_name(text, &file.transport) else {
            return Err(source.error(at(), format!("no transport is called `{text}`")));
        };
        if AnyCodec::of(text, file.mtu).is_none() {
            let names: Vec<&str> =
                punctual_wire::CODECS.iter().map(|c| c.0).filter(|n| *n != "generic").collect();
            let message = format!(
                "`{text}` has no packets of its own for switches to read; choose among {}",
                names.join(", ")
            );
            return Err(source.error(at(), message));
        }
        if transports.iter().any(|other| other.name() == text) {
            return Err(source.error(at(), format!("`{text}` is named twice; remove one")));
        }
        transport.check_config().map_err(|error| source.error(at(), error))?;
        transports.push(transport);
    }
    Ok(transports)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAR: &str = r#"
transports = ["ndp"]
queue = { kind = "trim", data = "8packets", headers = "8packets" }

[[switch]]
name = "s"

[[host]]
name = "a"
interface = "va"

[[host]]
name = "b"
interface = "vb"
mac = "02:00:00:00:00:02"

[[link]]
between = ["a", "s"]
rate = "100Mbps"
delay = "1us"

[[link]]
between = ["b", "s"]
rate = "100Mbps"
delay = "1us"
queue = { kind = "drop-tail", limit = "5packets" }
"#;

    fn refused(from: &str, to: &str) -> String {
        assert!(STAR.contains(from), "{from}");
        let text = STAR.replacen(from, to, 1);
        SwitchConfig::parse("s.toml", &text).expect_err(to).to_string()
    }

    #[test]
    fn parse__queues_belong_to_switch_ports() {
        let config = SwitchConfig::parse("s.toml", STAR).expect("valid");
        let kinds: Vec<_> = config.queues.iter().map(|queue| format!("{queue:?}")).collect();
        let starts = ["Priority", "Trim", "Priority", "DropTail"];
        for (kind, start) in kinds.iter().zip(starts) {
            assert!(kind.starts_with(start), "{kinds:?}");
        }
        assert_eq!(config.hosts[1].mac, Some([2, 0, 0, 0, 0, 2]));
        // 1,538 bytes at 100 Mb/s.
        let packet = config.packet_time(punctual_core::HostId(0));
        assert_eq!(packet, Duration::from_nanos(123_040));
    }

    #[test]
    fn parse__errors_point_at_the_line() {
        let cases = [
            ("\"vb\"", "\"va\"", "s.toml:14:", "each needs its own"),
            ("\"ndp\"", "\"tcp\"", "s.toml:2:", "choose among ndp, d3, rcpdc, pdq"),
            ("\"ndp\"", "\"nbp\"", "s.toml:2:", "no transport is called `nbp`"),
            ("02:00:00:00:00:02", "03:00:00:00:00:02", "s.toml:15:", "six bytes"),
            ("[\"b\", \"s\"]", "[\"b\", \"t\"]", "s.toml:22:", "no node is called `t`"),
            ("100Mbps", "100", "s.toml:19:", "unit"),
            ("name = \"s\"", "nome = \"s\"", "s.toml:6:", "nome"),
            (
                "queue = { kind = \"drop",
                "loss = 1.5\nqueue = { kind = \"drop",
                "s.toml:22:",
                "0 to 1",
            ),
            ("[\"ndp\"]", "[\"ndp\"]\ntrim = { profile = \"cisco\" }", "s.toml:3:", "spectrum"),
            ("[\"ndp\"]", "[\"ndp\"]\ntrim = { dscp = 64 }", "s.toml:1:", "0 to 63"),
            (
                "headers = \"8packets\" }",
                "headers = \"8packets\", mark_above = \"9packets\" }\ntrim = { profile = \"sai\" }",
                "s.toml:3:",
                "trim-model",
            ),
            (
                "{ kind = \"drop-tail\", limit = \"5packets\" }",
                "{ kind = \"lossless\", buffer = \"9MB\", pause_above = \"1MB\", resume_below = \"1MB\" }",
                "s.toml:26:",
                "cannot pause",
            ),
        ];
        for (from, to, place, message) in cases {
            let error = refused(from, to);
            assert!(error.starts_with(place) && error.contains(message), "{to}: {error}");
        }
    }

    /// Bytes that have a meaning in TOML.
    const MARKS: &[u8] = b"0123456789-.\"[]={}\n";

    /// A valid file with bytes replaced, removed and repeated: an error or a configuration, never a
    /// panic.
    #[test]
    fn fuzz_config() {
        bolero::check!().with_max_len(512).for_each(|bytes| {
            let mut text = STAR.as_bytes().to_vec();
            for change in bytes.chunks_exact(4) {
                let at = (usize::from(change[0]) << 8 | usize::from(change[1])) % text.len().max(1);
                let len = usize::from(change[3] % 24).min(text.len() - at);
                match change[2] % 4 {
                    0 if at < text.len() => text[at] = change[3],
                    1 => drop(text.drain(at..at + len)),
                    2 => {
                        let copy = text[at..at + len].to_vec();
                        text.splice(at..at, copy);
                    }
                    _ => text.insert(at, MARKS[usize::from(change[3]) % MARKS.len()]),
                }
            }
            let text = String::from_utf8_lossy(&text);
            if let Err(error) = SwitchConfig::parse("s.toml", &text) {
                assert!(!error.to_string().is_empty());
            }
        });
    }

    /// `cargo test -p punctual-switch --lib corpus__write -- --ignored`
    #[test]
    #[ignore = "writes files"]
    fn corpus__write() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/__fuzz__/config__tests__config/corpus");
        std::fs::create_dir_all(dir).expect("a directory");
        // Each change has a place, a kind and a byte; kinds replace, remove, repeat and insert.
        for kind in 0..4u8 {
            let changes = (0..4u8).flat_map(|n| [0, 40 * n, kind, 7 + 11 * n]);
            let bytes: Vec<u8> = changes.collect();
            std::fs::write(format!("{dir}/kind-{kind}.bin"), bytes).expect("a file");
        }
        std::fs::write(format!("{dir}/unchanged.bin"), []).expect("a file");
    }
}
