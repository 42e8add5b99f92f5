//! What a testbed cannot do.

use crate::{HostSockets, TestbedSetup, time_scale};
use punctual_core::{Class, QueueSpec};
use punctual_sim::Setup;
use punctual_transports::AnyTransport;

/// The most hosts of a testbed.
pub const HOSTS_MAX: u32 = 64;

/// Transports with a wire format, and `tcp`, for which the kernel's TCP runs.
pub(crate) const SUPPORTED: [&str; 5] = ["ndp", "d3", "rcpdc", "pdq", "tcp"];

/// Something that a testbed cannot do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unsupported {
    /// The key of the scenario that asks for it.
    pub key: &'static str,
    /// What it is.
    pub message: String,
    /// What to do.
    pub help: String,
}

/// Whether packets of a transport run on a testbed; for `tcp` the kernel's do.
pub fn is_supported(transport: &str) -> bool {
    SUPPORTED.contains(&transport)
}

/// The first thing of a set-up that a testbed cannot do; none if it can run.
pub fn unsupported(setup: &Setup) -> Option<Unsupported> {
    let refuse = |key, message: String, help: &str| {
        Some(Unsupported { key, message, help: help.to_owned() })
    };
    let network = &setup.network;
    if network.hosts > HOSTS_MAX {
        let message = format!("a testbed has at most {HOSTS_MAX} hosts, not {}", network.hosts);
        return refuse("network", message, "use a smaller network, or the simulator");
    }
    if network.hosts_forward() || network.nics_per_host() > 1 {
        let message = "a testbed has one interface per host".to_owned();
        return refuse("network.topology", message, "use a network without BCube's hosts");
    }
    if !(576..=9_000).contains(&network.mtu.get()) {
        let message = format!("a testbed has MTUs of 576B to 9000B, not {}", network.mtu);
        return refuse("network.mtu", message, "set `mtu` to 1500B or 9000B");
    }
    let names = setup.transports.iter().map(AnyTransport::name);
    if let Some(name) = names.into_iter().find(|name| !is_supported(name)) {
        let message = format!("`{name}` has no wire format and cannot run on a testbed");
        let help = format!("transports of a testbed: {} (the kernel's TCP)", SUPPORTED.join(", "));
        return refuse("transports", message, &help);
    }
    let queues = setup.port_queues.iter().chain([&setup.switch_queue]);
    if queues.into_iter().any(|queue| matches!(queue, QueueSpec::Lossless { .. })) {
        let message = "a testbed cannot pause the interfaces of its hosts".to_owned();
        return refuse("queue", message, "choose a queue that drops or trims");
    }
    if !setup.link_changes.is_empty() {
        let message = "links of a testbed do not change, fail or lose packets".to_owned();
        return refuse("link", message, "remove the [[link]], or use the simulator");
    }
    if !setup.switch_resets.is_empty() || !setup.legacy_switches.is_empty() {
        let message = "switches of a testbed do not restart, and none is legacy".to_owned();
        return refuse("switch", message, "remove the [[switch]], or use the simulator");
    }
    None
}

/// The first thing of a run that the host stack cannot do; none if it can, or is not used.
pub fn unsupported_by_host_stack(testbed: &TestbedSetup) -> Option<Unsupported> {
    if testbed.sockets == HostSockets::Packet {
        return None;
    }
    let setup = &testbed.setup;
    let refuse = |message: String, help: &str| {
        Some(Unsupported { key: "run.sockets", message, help: help.to_owned() })
    };
    let scale = testbed.time_scale.unwrap_or_else(|| time_scale(setup));
    if scale != 1 {
        let message = format!(
            "the host stack reads the machine's clock, and this run has a time scale of {scale}"
        );
        return refuse(message, "lower `network.rate`, or set `time_scale` to 1");
    }
    let flows = &setup.workload.flows;
    if flows.iter().any(|flow| flow.class != Class::DATA) {
        let message = "the event loop of the host stack sends all flows with one class".to_owned();
        return refuse(message, "set `sockets` to \"packet\", or remove `class`");
    }
    if flows.iter().any(|flow| setup.network.paths(flow.src, flow.dst) > 1) {
        let message = "on UDP sockets all flows between two hosts take one path".to_owned();
        return refuse(message, "set `sockets` to \"packet\", or choose a star or a tree");
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use punctual_core::{
        Bytes, Duration, FlowId, FlowSpec, HostId, Instant, Limit, NodeId, Rate, TransportId,
    };
    use punctual_net::{ClosLinks, ClosShape};
    use punctual_sim::{EngineOptions, Measure, Stop, SwitchReset};
    use punctual_transports::TransportSettings;
    use punctual_workload::Workload;

    /// A star with flows of 100 KB between these hosts, all at once.
    pub(crate) fn setup(transport: &str, hosts: u32, mbps: u64, pairs: &[(u32, u32)]) -> Setup {
        let links = ClosLinks::uniform(Rate::from_mbps(mbps), Duration::from_micros(5));
        let flow = |(n, (src, dst)): (usize, &(u32, u32))| FlowSpec {
            id: FlowId::from(n),
            src: HostId(*src),
            dst: HostId(*dst),
            size: Bytes::new(100_000),
            start: Instant::ZERO,
            deadline: None,
            transport: TransportId(0),
            class: Class::DATA,
            background: false,
            pattern: 0,
        };
        let transport = AnyTransport::by_name(transport, &TransportSettings::default());
        Setup {
            network: ClosShape::star(hosts).build(&links, Bytes::new(1500), Bytes::new(38)),
            switch_queue: QueueSpec::DropTail { limit: Limit::Packets(100) },
            port_queues: Vec::new(),
            transports: vec![transport.expect("a transport")],
            workload: Workload {
                flows: pairs.iter().enumerate().map(flow).collect(),
                ..Workload::default()
            },
            seed: 1,
            stop: Stop { at: Instant::ZERO + Duration::from_secs(1), when_done: true },
            link_changes: Vec::new(),
            switch_resets: Vec::new(),
            legacy_switches: Vec::new(),
            sampling: None,
            sampled_flows: Vec::new(),
            check: false,
            network_trace: false,
            packet_latency: false,
            capture_max: 0,
            measure: Measure::default(),
            engine: EngineOptions::default(),
        }
    }

    #[test]
    fn unsupported__names_the_key() {
        let pairs = [(1, 0)];
        for name in SUPPORTED {
            assert_eq!(unsupported(&setup(name, 4, 100, &pairs)), None, "{name}");
        }
        let key = |setup: &Setup| unsupported(setup).map(|refused| refused.key);
        assert_eq!(key(&setup("dctcp", 4, 100, &pairs)), Some("transports"));
        assert_eq!(key(&setup("ndp", 65, 100, &pairs)), Some("network"));
        let mut restarts = setup("ndp", 4, 100, &pairs);
        let reset = SwitchReset { at: Instant::ZERO, switch: NodeId(4) };
        restarts.switch_resets.push(reset);
        assert_eq!(key(&restarts), Some("switch"));
    }

    #[test]
    fn unsupported_by_host_stack__says_what_to_change() {
        let on = |setup: Setup, sockets| TestbedSetup {
            setup,
            time_scale: None,
            kernel_tcp: crate::KernelTcp::Reno,
            sockets,
        };
        let message = |setup: Setup| {
            let refused = unsupported_by_host_stack(&on(setup.clone(), HostSockets::Udp));
            assert_eq!(unsupported_by_host_stack(&on(setup, HostSockets::Packet)), None);
            refused.map_or(String::new(), |refused| refused.message)
        };
        let pairs = [(1, 0)];
        for name in SUPPORTED {
            assert_eq!(message(setup(name, 4, 100, &pairs)), "", "{name}");
        }
        assert!(message(setup("ndp", 4, 10_000, &pairs)).contains("time scale of 50"));
        let mut classes = setup("ndp", 4, 100, &pairs);
        classes.workload.flows[0].class = Class(2);
        assert!(message(classes).contains("one class"));
        let links = ClosLinks::uniform(Rate::from_mbps(100), Duration::from_micros(5));
        let mut paths = setup("ndp", 4, 100, &[(15, 0)]);
        paths.network = ClosShape::fat_tree(4, 1).build(&links, Bytes::new(1500), Bytes::new(38));
        assert!(message(paths).contains("one path"));
    }
}
