//! Parameters of D3 and RCPdc, with their sources.

use super::header::RATE_UNIT;
use crate::paced::RetransmissionConfig;
use crate::rtt::RtoBounds;
use crate::validated::{ConfigError, check};
use punctual_core::{Bytes, Duration, NicInfo, Rate};
use serde::{Deserialize, Serialize};

/// How a port adapts the capacity C that it allocates (D3-R19, D3-R20, D3-R42 to D3-R44).
///
/// L is the line rate, u the bytes sent in an interval of length T, q the queue, and α and β are
/// the gains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CapacityRule {
    /// `C ← C + α(C − u/T) − β·q/T`, as printed in the paper. Nothing raises C after a queue has
    /// lowered it, because fully used grants make u/T equal to C.
    Printed,
    /// `C ← C + α(L − u/T) − β·q/T`: an idle line raises C, as in RCP and XCP.
    LineRate,
    /// [`CapacityRule::LineRate`], but C rises only if the grants had reached 95 % of C when the
    /// interval began: the paper's law assumes that some flow is bottlenecked at the port.
    Gated,
    /// [`CapacityRule::LineRate`] with the changes of C subtracted that do not show in u and q
    /// yet, so that none is made twice (D3-R42, D3-R43).
    #[default]
    Predictive,
}

/// Which queue the capacity law subtracts (D3-R37).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum QueueMeasure {
    /// The shortest queue that a packet of the interval found: the standing queue, as in XCP.
    Least,
    /// The queue at the end of the interval, as in the paper. Paced packets of several hosts that
    /// arrive together by chance count as congestion.
    Instant,
}

/// Where packets of one host that are due at the same time wait (D3-R03).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Pacing {
    /// In the NIC's queue, which shows the NIC's controller that it granted too much.
    #[default]
    Flow,
    /// At their flows, until the NIC is free. The NIC's queue stays empty, flows that collided once
    /// stay apart, and nothing lowers the NIC's capacity.
    Host,
}

/// Parameters of both D3 and RCPdc.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct D3CommonConfig {
    /// T, the time between two updates of a port's capacity; must exceed the propagation RTT.
    /// 800 µs (§4.4, footnote 4).
    pub update_interval: Duration,
    /// α, the gain of unused capacity. 0.1 (§4.4, footnote 4).
    pub alpha: f64,
    /// β, the gain of the queue. 1 (§4.4, footnote 4).
    pub beta: f64,
    /// The capacity law. `"predictive"`: the simplest that is not clearly worse than another
    /// (`docs/validation/d3.md`).
    pub capacity_rule: CapacityRule,
    /// The queue that the capacity law subtracts. By default it depends on the law: see
    /// [`D3CommonConfig::effective_queue_measure`].
    pub queue_measure: Option<QueueMeasure>,
    /// Lowest capacity, as a share of the line rate. 0.1, ours.
    pub capacity_min: f64,
    /// Highest capacity, as a share of the line rate. 2, ours: above 1 so that flows can use what
    /// a flow with a bottleneck elsewhere was granted and leaves unused.
    pub capacity_max: f64,
    /// Intervals T without a request after which a port resets its sums. 4, ours;
    /// the paper resets them "during periods of low load" (§4.4).
    pub reset_intervals: u32,
    /// The least grant: one header per RTT (§4.2). 992 kb/s, that is 62 bytes in the testbed's
    /// RTT of 500 µs.
    pub base_rate: Rate,
    /// Where packets of one host that are due at the same time wait. In the NIC's queue (D3-R03).
    pub pacing: Pacing,
    /// Queue limit of a switch port. 128 KB (§5).
    pub buffer: Bytes,
    /// Retransmission timeout before the first RTT sample. 10 ms, ours.
    pub rto_initial: Duration,
    /// Shortest retransmission timeout. 10 ms: the shorter of the paper's two values for TCP
    /// (§6.1.2); it gives none for D3.
    pub rto_min: Duration,
    /// Longest retransmission timeout, backing off included. 1 s, ours.
    pub rto_max: Duration,
    /// Packets sent later that must be acknowledged before a packet counts as lost. 3, as TCP's.
    pub loss_threshold: u8,
    /// Whether rates are one byte, as in the prototype (§5): steps of 1 B/µs times a factor that the
    /// sender derives from its line rate. Off: whole bits per second.
    pub integer_rates: bool,
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
            integer_rates: false,
        }
    }
}

/// The parameters that senders use.
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
    /// The parameters for sockets on real paths. Rates are those of the wire, so that ports and
    /// senders count the same. The scheduler may suspend a process for tens of milliseconds, which
    /// must not count as loss; round trips between processes that sleep take up to a millisecond.
    pub fn for_sockets() -> D3CommonConfig {
        D3CommonConfig {
            update_interval: Duration::from_millis(2),
            rto_initial: Duration::from_millis(50),
            rto_min: Duration::from_millis(50),
            integer_rates: true,
            ..D3CommonConfig::default()
        }
    }

    /// The factor of one-byte rates on this interface, or 0 for whole bits per second (D3-R32).
    pub(crate) fn scale(&self, nic: &NicInfo) -> u8 {
        let most = RATE_UNIT.as_bps() * u64::from(u8::MAX);
        let scale = nic.rate.as_bps().div_ceil(most).clamp(1, u64::from(u8::MAX));
        if self.integer_rates { scale as u8 } else { 0 }
    }

    /// The parameters that senders use.
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

    /// The queue that the capacity law subtracts: the configured one; by default the instantaneous
    /// queue for the printed law (§4.4) and the least queue of the interval for the others
    /// (D3-R37).
    pub fn effective_queue_measure(&self) -> QueueMeasure {
        self.queue_measure.unwrap_or(match self.capacity_rule {
            CapacityRule::Printed => QueueMeasure::Instant,
            _ => QueueMeasure::Least,
        })
    }

    /// Checks every parameter; reading a scenario file calls it.
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

/// Parameters of RCPdc: D3 in which every flow requests only a fair share, with or without a
/// deadline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RcpdcConfig(pub D3CommonConfig);

impl RcpdcConfig {
    /// Checks every parameter; reading a scenario file calls it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.0.validate()
    }
}

/// What a flow does after its deadline, if it is not quenched (D3-R30, D3-R34).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AfterDeadline {
    /// It desires a rate of 0 and continues with its fair share.
    #[default]
    FairShare,
    /// It sets a new deadline (`extension`) and desires the rate to meet it.
    Extend,
}

/// Parameters of D3: a flow requests the rate that it needs to meet its deadline.
///
/// In a scenario the common parameters stand in the same table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct D3Config {
    /// The parameters of both D3 and RCPdc.
    #[serde(flatten)]
    pub params: D3CommonConfig,
    /// Whether a flow is abandoned when it needs more than its uplink's rate, or when its deadline
    /// has passed (§6.1.3). Off, as in all experiments of the paper but one.
    pub quenching: bool,
    /// A flow is also abandoned when its desired rate has risen in this many successive requests;
    /// 0 for never. Off, ours.
    pub speculative_quenching: u32,
    /// What a flow does after its deadline (§7). Fair share, as for flows without a deadline (§4.1).
    pub after_deadline: AfterDeadline,
    /// The extension with `after_deadline = "extend"`, as a share of the time from the flow's start
    /// to its first deadline. 0.5, ours.
    pub extension: f64,
    /// Whether ports reserve the demands of flows in a class above ordinary data first (§7). Off.
    pub two_stage: bool,
    /// Whether ports count priority inversions. This takes state per flow, which the protocol does
    /// not need. Off.
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
            two_stage: false,
            count_inversions: false,
        }
    }
}

impl D3Config {
    /// The parameters for sockets on real paths: see [`D3CommonConfig::for_sockets`].
    pub fn for_sockets() -> D3Config {
        D3Config { params: D3CommonConfig::for_sockets(), ..D3Config::default() }
    }

    /// Checks every parameter; reading a scenario file calls it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.params.validate()?;
        let share = self.extension;
        check(share > 0.0 && share.is_finite(), "extension", &share, "above 0")?;
        let extends_quenched = self.quenching && self.after_deadline == AfterDeadline::Extend;
        let expected = "\"fair-share\", because quenching = true abandons late flows";
        check(!extends_quenched, "after_deadline", &"extend", expected)
    }
}

crate::validated::validated_when_read!(D3CommonConfig, D3Config);
