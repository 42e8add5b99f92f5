//! Parameters of D3 and RCPdc, with their sources.

use crate::paced::RetransmissionConfig;
use crate::rtt::RtoBounds;
use crate::validated::{ConfigError, check};
use punctual_core::{Bytes, Duration, Rate};
use serde::{Deserialize, Serialize};

/// How a port adapts the capacity C that it hands out (D3-R19, D3-R20, D3-R42 to D3-R44).
///
/// L is the line rate, u the bytes sent in an interval of length T, q the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CapacityRule {
    /// `C + α(C − u/T) − β·q/T` as the paper prints it: nothing raises C again once a queue
    /// has lowered it, because fully used grants make u/T equal C.
    Printed,
    /// `C + α(L − u/T) − β·q/T`: an idle line raises C, as in RCP and XCP.
    #[default]
    LineRate,
    /// [`CapacityRule::LineRate`], but C rises only if the grants reached 95 % of it when the
    /// interval began: the paper's law assumes that a flow is bottlenecked at the port.
    Gated,
    /// [`CapacityRule::LineRate`] without making twice the changes that have yet to show in u
    /// and q (D3-R42, D3-R43).
    Predictive,
}

/// Which queue the capacity law subtracts (D3-R37).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum QueueMeasure {
    /// The least that any packet of the interval found waiting: the standing queue, as XCP
    /// measures it.
    Least,
    /// What waits at the end of the interval, as the paper words it. Paced packets of several
    /// hosts that happen to arrive together count as congestion.
    Instant,
}

/// Where packets of one host that are due at the same time wait (D3-R03).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Pacing {
    /// In the NIC's queue, which is how the NIC's controller learns that it granted too much.
    #[default]
    Flow,
    /// With their flows, until the NIC is free: its queue stays empty, flows that collided once
    /// are apart from then on, and nothing lowers the NIC's capacity.
    Host,
}

/// Parameters that D3 and RCPdc share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct D3CommonConfig {
    /// T, how often a port adapts its capacity; must exceed the propagation round-trip time.
    /// 800 µs (§4.4, footnote 4).
    pub update_interval: Duration,
    /// α, the weight of unused capacity, without unit. 0.1 (§4.4, footnote 4).
    pub alpha: f64,
    /// β, the weight of the queue, without unit. 1 (§4.4, footnote 4).
    pub beta: f64,
    /// Which form of the law that α and β weigh. With the line's rate: the simplest that is not
    /// clearly worse than another (`docs/transports/d3.md`).
    pub capacity_rule: CapacityRule,
    /// Which queue that law subtracts. Without a value, the rule's own: see
    /// [`D3CommonConfig::effective_queue_measure`].
    pub queue_measure: Option<QueueMeasure>,
    /// Lowest capacity, as a share of the line rate. 0.1, ours.
    pub capacity_min: f64,
    /// Highest capacity, as a share of the line rate. 2, ours: above 1 so that others can use
    /// what a flow limited elsewhere was granted and leaves.
    pub capacity_max: f64,
    /// Intervals T without any rate request after which a port forgets its counters. 4, ours;
    /// the paper resets them "during periods of low load" (§4.4).
    pub reset_intervals: u32,
    /// What a flow gets where nothing is left: one header per round-trip time (§4.2). 992 kb/s,
    /// that is 62 bytes in the testbed's 500 µs.
    pub base_rate: Rate,
    /// Where packets of one host that are due at the same time wait. In the NIC's queue (D3-R03).
    pub pacing: Pacing,
    /// What a switch port's queue holds. 128 KB (§5).
    pub buffer: Bytes,
    /// Retransmission timeout until there is a round-trip time. 10 ms, ours.
    pub rto_initial: Duration,
    /// Shortest retransmission timeout. 10 ms: the shorter of the two that the paper gives TCP
    /// (§6.1.2); it names none for D3.
    pub rto_min: Duration,
    /// Longest retransmission timeout, backing off included. 1 s, ours.
    pub rto_max: Duration,
    /// Packets sent later that must be acknowledged before a packet counts as lost. 3, as TCP's.
    pub loss_threshold: u8,
}

impl Default for D3CommonConfig {
    fn default() -> Self {
        D3CommonConfig {
            update_interval: Duration::from_micros(800),
            alpha: 0.1,
            beta: 1.0,
            capacity_rule: CapacityRule::default(),
            queue_measure: None,
            capacity_min: 0.1,
            capacity_max: 2.0,
            reset_intervals: 4,
            base_rate: Rate::from_bps(992_000),
            pacing: Pacing::Flow,
            buffer: Bytes::new(128_000),
            rto_initial: Duration::from_millis(10),
            rto_min: Duration::from_millis(10),
            rto_max: Duration::from_secs(1),
            loss_threshold: 3,
        }
    }
}

/// What senders need of the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3SenderConfig {
    /// See [`D3CommonConfig::pacing`].
    pub pacing: Pacing,
    /// See [`D3CommonConfig::base_rate`].
    pub base_rate: Rate,
    /// Timeouts and loss detection.
    pub retransmission: RetransmissionConfig,
}

impl D3CommonConfig {
    /// What senders need of them.
    #[inline]
    pub fn for_senders(&self) -> D3SenderConfig {
        D3SenderConfig {
            pacing: self.pacing,
            base_rate: self.base_rate,
            retransmission: self.retransmission(),
        }
    }

    /// Timeouts and loss detection of senders.
    #[inline]
    pub fn retransmission(&self) -> RetransmissionConfig {
        let D3CommonConfig { rto_initial: initial, rto_min: min, rto_max: max, .. } = *self;
        RetransmissionConfig {
            rto: RtoBounds { initial, min, max },
            loss_threshold: self.loss_threshold,
        }
    }

    /// Which queue the capacity law subtracts: the chosen one, or else the instantaneous one for
    /// the printed rule, as §4.4 has it, and the least of the interval for the others (D3-R37).
    pub fn effective_queue_measure(&self) -> QueueMeasure {
        self.queue_measure.unwrap_or(match self.capacity_rule {
            CapacityRule::Printed => QueueMeasure::Instant,
            _ => QueueMeasure::Least,
        })
    }

    /// Checks every parameter. Reading from a file does this too.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let t = self.update_interval;
        check(!t.is_zero(), "update_interval", &t, "longer than the round-trip time, above 0")?;
        let a = self.alpha;
        check((0.0..=1.0).contains(&a), "alpha", &a, "between 0 and 1")?;
        let b = self.beta;
        check(b.is_finite() && b >= 0.0, "beta", &b, "0 or more")?;
        let min = self.capacity_min;
        check(min > 0.0 && min <= 1.0, "capacity_min", &min, "above 0 and at most 1")?;
        let max = self.capacity_max;
        check((1.0..=100.0).contains(&max), "capacity_max", &max, "between 1 and 100")?;
        let n = self.reset_intervals;
        check(n > 0, "reset_intervals", &n, "1 or more")?;
        let base = self.base_rate;
        check(base > Rate::ZERO, "base_rate", &base, "above 0; about one header per RTT")?;
        let buffer = self.buffer;
        check(buffer > Bytes::ZERO, "buffer", &buffer, "above 0")?;
        self.retransmission().validate()
    }
}

/// RCPdc: D3 in which every flow asks for a fair share only, whatever its deadline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RcpdcConfig(pub D3CommonConfig);

impl RcpdcConfig {
    /// What is wrong with the parameters, if anything.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.0.validate()
    }
}

/// What a flow does once its deadline has passed, where it is not quenched (D3-R30, D3-R34).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AfterDeadline {
    /// It asks for nothing and goes on with its fair share.
    #[default]
    FairShare,
    /// It gives itself a new deadline (`extension`) and asks for what that takes.
    Extend,
}

/// D3: a flow asks for the rate that it needs to meet its deadline.
///
/// In a file the parameters that it shares with RCPdc stand beside its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct D3Config {
    /// What it shares with RCPdc.
    #[serde(flatten)]
    pub params: D3CommonConfig,
    /// Whether a flow ends early when it needs more than its uplink has, or its deadline has
    /// passed (§6.1.3). Off, as in all experiments of the paper but one.
    pub quenching: bool,
    /// A flow also ends early when its desired rate has risen this many requests in a row; 0 for
    /// never. Off, ours.
    pub speculative_quenching: u32,
    /// What a flow that is late does (§7). Fair share, as §4.1 has it for flows without deadline.
    pub after_deadline: AfterDeadline,
    /// How much time a flow gets anew with `after_deadline = "extend"`, as a share of what it had
    /// at first. 0.5, ours.
    pub extension: f64,
    /// Whether rates have the prototype's one byte (§5): steps of 1 B/µs times a factor that the
    /// sender takes from its line rate. Off: whole bits per second.
    pub integer_rates: bool,
    /// Whether demands of flows in a class better than ordinary data are met first (§7). Off.
    pub two_stage: bool,
    /// Whether ports count priority inversions, for which they keep a list of flows that the
    /// protocol does not need. Off.
    pub count_inversions: bool,
}

impl Default for D3Config {
    fn default() -> Self {
        D3Config {
            params: D3CommonConfig::default(),
            quenching: false,
            speculative_quenching: 0,
            after_deadline: AfterDeadline::FairShare,
            extension: 0.5,
            integer_rates: false,
            two_stage: false,
            count_inversions: false,
        }
    }
}

impl D3Config {
    /// What is wrong with the parameters, if anything.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.params.validate()?;
        let share = self.extension;
        check(share > 0.0 && share.is_finite(), "extension", &share, "above 0")?;
        let extends_quenched = self.quenching && self.after_deadline == AfterDeadline::Extend;
        let expected = "\"fair-share\" where quenching = true ends flows that are late";
        check(!extends_quenched, "after_deadline", &"extend", expected)
    }
}

crate::validated::validated_when_read!(D3CommonConfig, D3Config);
