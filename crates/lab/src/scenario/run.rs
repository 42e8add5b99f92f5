//! `[run]`: duration, repetitions and what to record.

use crate::diagnostic::Diagnostic;
use crate::document::{Node, decode};
use crate::flow_run::is_awaited;
use punctual_core::{Duration, FlowId, FlowSpec, Instant, PortId};
use punctual_net::{Network, Tier};
use punctual_sim::{Measure, Sampling, Stop};
use punctual_testbed::{HostSockets, KernelTcp};
use serde::{Deserialize, Serialize};

/// The `[run]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSection {
    /// The longest simulated time.
    pub duration: Duration,
    /// What is simulated: packets or whole flows.
    #[serde(default)]
    pub level: Level,
    /// Where it runs: in the simulator, or with real packets on a testbed.
    #[serde(default)]
    pub on: RunOn,
    /// On a testbed, how many times slower than the machine's the clock of the run is; chosen by the
    /// rates if absent.
    pub time_scale: Option<u32>,
    /// On a testbed, what runs in the place of `tcp`.
    #[serde(default = "kernel_tcps")]
    pub kernel_tcp: Vec<KernelTcp>,
    /// On a testbed, how hosts send and receive packets of our transports. Not written if it is the
    /// default, so that older results stay the same.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sockets: HostSockets,
    /// When to stop earlier.
    #[serde(default)]
    pub stop: StopWhen,
    /// Seed of the first repetition; each further repetition adds 1.
    #[serde(default = "one_u64")]
    pub seed: u64,
    /// Number of runs of each transport, each with its own seed.
    #[serde(default = "one_u32")]
    pub repetitions: u32,
    /// Whether to check invariants during the run.
    #[serde(default)]
    pub check: bool,
    /// The measured window: which flows are measured, and when counters of the network count.
    #[serde(default)]
    pub measure: MeasureSection,
    /// The interval at which queue lengths are sampled; never if absent.
    pub sample: Option<Duration>,
    /// The tiers whose ports are sampled.
    #[serde(default = "host_down")]
    pub sample_at: Vec<TierName>,
    /// The flows whose transport state is sampled; the first ones if absent.
    pub sample_flows: Option<Vec<u32>>,
    /// Whether to record the activity of all ports over time, in the first repetition. If absent,
    /// small networks are recorded.
    pub network_trace: Option<bool>,
    /// Whether to record the latency of data packets, from first transmission to acknowledgement.
    #[serde(default)]
    pub packet_latency: bool,
}

/// `run.measure`: the measured window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasureSection {
    /// When it begins.
    #[serde(default)]
    pub from: Duration,
    /// When it ends; at the end of the run if absent.
    pub until: Option<Duration>,
}

fn one_u64() -> u64 {
    1
}

fn one_u32() -> u32 {
    1
}

fn is_default(sockets: &HostSockets) -> bool {
    *sockets == HostSockets::default()
}

fn kernel_tcps() -> Vec<KernelTcp> {
    vec![KernelTcp::Reno, KernelTcp::Cubic]
}

/// Where a scenario runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunOn {
    /// In the simulator.
    #[default]
    Simulator,
    /// With real packets on this machine: network namespaces, joined by the software switch.
    Testbed,
}

/// Number of flows whose transport state is sampled by default.
const FLOWS_SAMPLED: u32 = 32;

fn host_down() -> Vec<TierName> {
    vec![TierName::HostDown]
}

/// Networks of up to this many hosts are recorded by default.
const NETWORK_TRACE_HOSTS_DEFAULT: u32 = 64;
/// Limit on the hosts of a recorded network, because a report cannot draw more.
pub(super) const NETWORK_TRACE_HOSTS_MAX: u32 = 256;

/// What a run simulates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Packets, queues and the transports' own code.
    #[default]
    Packet,
    /// Whole flows, by the transports' models.
    Flow,
}

impl Level {
    /// The name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Level::Packet => "packet",
            Level::Flow => "flow",
        }
    }
}

/// When a run ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopWhen {
    /// When every flow that is neither endless nor background has ended, or with `measure.until`
    /// every measured flow.
    #[default]
    Done,
    /// At the end of `duration`.
    Duration,
}

/// The tier of a link in the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TierName {
    /// From hosts.
    HostUp,
    /// From rack switches towards the core.
    RackUp,
    /// From aggregation switches to the core.
    PodUp,
    /// From the core.
    CoreDown,
    /// From aggregation switches to racks.
    PodDown,
    /// To hosts.
    HostDown,
    /// Between switches of a network without tiers.
    Middle,
}

impl TierName {
    const ALL: [TierName; 7] = [
        TierName::HostUp,
        TierName::RackUp,
        TierName::PodUp,
        TierName::CoreDown,
        TierName::PodDown,
        TierName::HostDown,
        TierName::Middle,
    ];

    /// The tier with this name.
    pub fn tier(self) -> Tier {
        match self {
            TierName::HostUp => Tier::HostUp,
            TierName::RackUp => Tier::RackUp,
            TierName::PodUp => Tier::PodUp,
            TierName::CoreDown => Tier::CoreDown,
            TierName::PodDown => Tier::PodDown,
            TierName::HostDown => Tier::HostDown,
            TierName::Middle => Tier::Middle,
        }
    }

    /// The name of a tier.
    ///
    /// # Panics
    /// Never: every tier has a name.
    pub fn of(tier: Tier) -> TierName {
        let name = Self::ALL.into_iter().find(|name| name.tier() == tier);
        name.expect("every tier has a name")
    }

    /// The name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            TierName::HostUp => "host-up",
            TierName::RackUp => "rack-up",
            TierName::PodUp => "pod-up",
            TierName::CoreDown => "core-down",
            TierName::PodDown => "pod-down",
            TierName::HostDown => "host-down",
            TierName::Middle => "middle",
        }
    }

    /// The ports of the tier, in order.
    pub fn ports(self, network: &Network) -> impl Iterator<Item = PortId> + '_ {
        let links = network.links.iter().enumerate();
        links.filter(move |(_, l)| l.tier == self.tier()).map(|(port, _)| PortId::from(port))
    }
}

impl RunSection {
    pub(crate) fn decode(node: &Node) -> Result<Self, Vec<Diagnostic>> {
        let run: RunSection = decode(node).map_err(|e| vec![e])?;
        let table = node.table().expect("a struct was read from it");
        let mut errors = Vec::new();
        let mut fail = |key: &str, message: String, help: &str| {
            let at = table.get(key).unwrap_or(node).span.clone();
            errors.push(Diagnostic::new(message).at(at).help(help));
        };
        if run.duration.is_zero() {
            fail("duration", "a run of no time shows nothing".into(), "give 1ms or more");
        }
        // Manifests and overrides are TOML, whose numbers end here.
        let last_seed = run.seed.saturating_add(u64::from(run.repetitions.max(1)) - 1);
        if last_seed > i64::MAX as u64 {
            let message = format!("the last of the seeds is {last_seed}");
            let help = "seeds go up to 9223372036854775807; repetition r has the seed `seed` + r";
            fail("seed", message, help);
        }
        if run.repetitions == 0 {
            fail("repetitions", "repetitions = 0: nothing would run".into(), "give 1 or more");
        }
        let MeasureSection { from, until } = run.measure;
        if from >= run.duration && !run.duration.is_zero() {
            let message = format!("measuring starts at {from}, the end of the run");
            fail("measure", message, "start measuring before `duration` is over");
        } else if until.is_some_and(|until| until <= from) {
            let message = format!("measuring ends at {}, before it starts", until.unwrap_or(from));
            fail("measure", message, "give `until` a time after `from`");
        } else if until.is_some_and(|until| until > run.duration) {
            let message = format!("measuring ends after the run, which lasts {}", run.duration);
            fail("measure", message, "give `duration` time for the measured flows to end");
        }
        if run.time_scale == Some(0) {
            let help = "give 1 for the machine's own time, or more";
            fail("time_scale", "time_scale = 0: time would stand still".into(), help);
        }
        if run.kernel_tcp.is_empty() {
            let help = "give one or more of reno, newreno, cubic, reno-tfo, cubic-tfo";
            fail("kernel_tcp", "kernel_tcp = []: nothing would run for `tcp`".into(), help);
        }
        if run.on == RunOn::Testbed && run.level == Level::Flow {
            let message = "a testbed has packets, not whole flows".into();
            fail("level", message, "remove `level` or `on`");
        }
        if run.sample == Some(Duration::ZERO) {
            fail("sample", "sample = 0: the interval must be positive".into(), "give 1us or more");
        }
        if errors.is_empty() { Ok(run) } else { Err(errors) }
    }

    /// When a run with these flows stops. If it need not wait for any of them, because all are
    /// endless or background flows, it lasts for its duration: it would end as it begins otherwise.
    pub(crate) fn stop(&self, flows: &[FlowSpec]) -> Stop {
        let measure = self.measure();
        let waits = measure.until.is_some() || flows.iter().any(|flow| is_awaited(flow, measure));
        let when_done = self.stop == StopWhen::Done && waits;
        Stop { at: Instant::ZERO + self.duration, when_done }
    }

    /// The measured window of the simulation.
    pub fn measure(&self) -> Measure {
        let MeasureSection { from, until } = self.measure;
        let at = |time: Duration| Instant::ZERO + time;
        Measure { from: at(from), until: until.map(at) }
    }

    /// The flows whose transport state is sampled.
    pub fn sampled_flows(&self) -> Vec<FlowId> {
        let first = || (0..FLOWS_SAMPLED).collect();
        let mut flows = self.sample_flows.clone().unwrap_or_else(first);
        flows.sort_unstable();
        flows.dedup();
        flows.into_iter().map(FlowId).collect()
    }

    /// Whether the activity of all ports of this network is recorded over time.
    pub fn has_network_trace(&self, network: &Network) -> bool {
        self.network_trace.unwrap_or(network.hosts <= NETWORK_TRACE_HOSTS_DEFAULT)
    }

    /// The interval and ports of queue samples; none without `sample`.
    pub fn sampling(&self, network: &Network) -> Option<Sampling> {
        let mut ports: Vec<PortId> =
            self.sample_at.iter().flat_map(|tier| tier.ports(network)).collect();
        ports.sort();
        ports.dedup();
        self.sample.map(|every| Sampling { every, ports })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_have_the_names_that_scenarios_use() {
        for name in TierName::ALL {
            assert_eq!(TierName::of(name.tier()), name);
            assert_eq!(serde_json::to_value(name).unwrap(), name.name());
        }
    }
}
