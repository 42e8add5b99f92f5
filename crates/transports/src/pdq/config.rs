//! Parameters of PDQ, with their sources.

use crate::paced::RetransmissionConfig;
use crate::rtt::RtoBounds;
use crate::validated::{ConfigError, check};
use punctual_core::{Bytes, Duration, Rate};
use serde::{Deserialize, Serialize};

/// Which of the paper's optimisations are on (§5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PdqVariant {
    /// None of them.
    Basic,
    /// Early Start.
    Es,
    /// Early Start and Early Termination.
    EsEt,
    /// Early Start, Early Termination and Suppressed Probing.
    #[default]
    Full,
}

/// What makes one flow more critical than another (§3.3, §5.6, §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Criticality {
    /// The earlier deadline, then the shorter expected time, then the lower flow id.
    #[default]
    Deadline,
    /// A number drawn when the flow starts. Sizes count as unknown.
    Random,
    /// The fewer bytes sent so far, updated every [`PdqConfig::estimate_step`]. Sizes count as
    /// unknown.
    Estimated,
}

/// How a port sums the rates of more critical flows (PDQ-R09, PDQ-R12, PDQ-R13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Availability {
    /// Three corrections. A flow paused here, or accepted but not yet answered, counts with the
    /// rate it requests. Only a flow that sends can be nearly completed, in RTTs of the flow that
    /// waits. Flows that other ports pause get the rate that this port has for them.
    #[default]
    Corrected,
    /// Algorithms 1 and 2 as printed in the paper: only granted rates count.
    Printed,
}

/// How RTT_S is computed from RTT samples (PDQ-R29).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoundTrip {
    /// The minimum: the delay of the control loop without queues.
    #[default]
    Least,
    /// The exponential mean, queueing included, as in the paper.
    Smoothed,
}

/// Defines a transport's parameters: those of PDQ, and the transport's own with their defaults.
macro_rules! pdq_config {
    (
        $(#[$doc:meta])*
        $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(remote = "Self", default, deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
            /// The optimisations in use. All.
            pub variant: PdqVariant,
            /// What makes a flow critical. Deadline (EDF), then expected time (SJF).
            pub criticality: Criticality,
            /// Bytes sent between two updates of an estimated size. 50 KB (§5.6).
            pub estimate_step: Bytes,
            /// α, how fast waiting raises criticality: T counts as `T / 2^(α·waited / 100 ms)`, in steps
            /// of ⅛ in the exponent. 0: no aging (§7; the formula is ours).
            pub aging: f64,
            /// K, the RTTs of nearly completed flows that Early Start ignores; 0 turns Early Start off. 2
            /// (§3.3.2).
            pub early_start: f64,
            /// X, RTTs between probes for each more critical flow. 0.2 (§3.3.2).
            pub probe_spread: f64,
            /// Dampening: how long after accepting a paused flow a port accepts no other, in its mean RTTs.
            /// Flows shorter than an RTT are exempt. 0.5, ours; the paper says "small" (§3.3.3).
            pub dampening: f64,
            /// How Algorithm 2 sums rates. Corrected, ours.
            pub availability: Availability,
            /// How RTT_S is computed. Least, ours; the paper uses the mean (§3.2).
            pub round_trip: RoundTrip,
            /// Whether ports grant a rate on the SYN, so that data may follow it by one RTT. True.
            pub syn_grants: bool,
            /// The least size of a port's list, also if few flows send. 64, ours.
            pub list_min: u32,
            /// M, the largest size of a port's list. 1000, ours; the paper gives no number.
            pub list_max: u32,
            /// Time between two updates of a port's capacity, in its mean RTTs. 2 (§3.3.4).
            pub update_rtts: f64,
            /// The mean RTT of a port before its first sample. 150 µs (§5.1).
            pub rtt_initial: Duration,
            /// Probing intervals without a packet after which a port removes a flow. 4, ours.
            pub purge_intervals: u32,
            /// The least capacity for PDQ beside other transports, as a share of the line rate. 0.1, ours.
            pub share_min: f64,
            /// RCP's gain of unused capacity, for flows beyond the list. 0.1.
            pub rcp_alpha: f64,
            /// RCP's gain of the queue, for flows beyond the list. 1.
            pub rcp_beta: f64,
            /// The rate that a receiver accepts, if below its line rate.
            pub receiver_rate: Option<Rate>,
            /// Queue limit of a switch port. 4 MB (§5.1).
            pub buffer: Bytes,
            /// Retransmission timeout before the first RTT sample. 1 ms, ours.
            pub rto_initial: Duration,
            /// Shortest retransmission timeout. 1 ms, ours.
            pub rto_min: Duration,
            /// Longest retransmission timeout, backing off included. 1 s, ours.
            pub rto_max: Duration,
            /// Packets sent later that must be acknowledged before a packet counts as lost. 3, as TCP's.
            pub loss_threshold: u8,
        }

        impl Default for $name {
            fn default() -> Self {
                $name {
                    $($field: $default,)*
                    variant: PdqVariant::Full,
                    criticality: Criticality::Deadline,
                    estimate_step: Bytes::new(50_000),
                    aging: 0.0,
                    early_start: 2.0,
                    probe_spread: 0.2,
                    dampening: 0.5,
                    availability: Availability::Corrected,
                    round_trip: RoundTrip::Least,
                    syn_grants: true,
                    list_min: 64,
                    list_max: 1000,
                    update_rtts: 2.0,
                    rtt_initial: Duration::from_micros(150),
                    purge_intervals: 4,
                    share_min: 0.1,
                    rcp_alpha: 0.1,
                    rcp_beta: 1.0,
                    receiver_rate: None,
                    buffer: Bytes::new(4_000_000),
                    rto_initial: Duration::from_millis(1),
                    rto_min: Duration::from_millis(1),
                    rto_max: Duration::from_secs(1),
                    loss_threshold: 3,
                }
            }
        }
    };
}

pub(crate) use pdq_config;

pdq_config! {
    /// Parameters of PDQ.
    PdqConfig {}
}

/// Makes PDQ's parameters from those that [`pdq_config`] defined for another transport.
macro_rules! pdq_part {
    ($config:expr) => {{
        let config = $config;
        $crate::pdq::PdqConfig {
            variant: config.variant,
            criticality: config.criticality,
            estimate_step: config.estimate_step,
            aging: config.aging,
            early_start: config.early_start,
            probe_spread: config.probe_spread,
            dampening: config.dampening,
            availability: config.availability,
            round_trip: config.round_trip,
            syn_grants: config.syn_grants,
            list_min: config.list_min,
            list_max: config.list_max,
            update_rtts: config.update_rtts,
            rtt_initial: config.rtt_initial,
            purge_intervals: config.purge_intervals,
            share_min: config.share_min,
            rcp_alpha: config.rcp_alpha,
            rcp_beta: config.rcp_beta,
            receiver_rate: config.receiver_rate,
            buffer: config.buffer,
            rto_initial: config.rto_initial,
            rto_min: config.rto_min,
            rto_max: config.rto_max,
            loss_threshold: config.loss_threshold,
        }
    }};
}

pub(crate) use pdq_part;

impl PdqConfig {
    /// The parameters for sockets on real paths:
    ///
    /// * The scheduler may suspend a process for tens of milliseconds, which must not count as loss. A
    ///   flow keeps its place in the lists of ports meanwhile.
    /// * What varies in a round trip is the time until a process wakes up, not queues, so that the mean
    ///   counts and not the minimum.
    /// * A flow that misses its deadline is not abandoned: its application decides on that.
    pub fn for_sockets() -> PdqConfig {
        PdqConfig {
            variant: PdqVariant::Es,
            round_trip: RoundTrip::Smoothed,
            purge_intervals: 200,
            rto_initial: Duration::from_millis(50),
            rto_min: Duration::from_millis(50),
            ..PdqConfig::default()
        }
    }

    /// Timeouts and loss detection of senders.
    #[inline]
    pub fn retransmission(&self) -> RetransmissionConfig {
        let PdqConfig { rto_initial: initial, rto_min: min, rto_max: max, .. } = *self;
        RetransmissionConfig {
            rto: RtoBounds { initial, min, max },
            loss_threshold: self.loss_threshold,
        }
    }

    /// Checks every parameter; reading a scenario file calls it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let between = |name, value: f64, low: f64, high: f64, expected| {
            check((low..=high).contains(&value), name, &value, expected)
        };
        let step = self.estimate_step;
        check(step > Bytes::ZERO, "estimate_step", &step, "above 0")?;
        between("aging", self.aging, 0.0, 1000.0, "between 0 and 1000")?;
        between("early_start", self.early_start, 0.0, 100.0, "between 0 and 100")?;
        between("probe_spread", self.probe_spread, 0.0, 100.0, "between 0 and 100")?;
        between("dampening", self.dampening, 0.0, 10.0, "between 0 and 10")?;
        let (min, max) = (self.list_min, self.list_max);
        check(min > 0, "list_min", &min, "1 or more")?;
        check(max >= min, "list_max", &max, "list_min or more")?;
        between("update_rtts", self.update_rtts, 0.1, 100.0, "between 0.1 and 100")?;
        let rtt = self.rtt_initial;
        check(rtt >= Duration::from_nanos(1), "rtt_initial", &rtt, "1 ns or longer")?;
        let n = self.purge_intervals;
        check(n > 1, "purge_intervals", &n, "2 or more")?;
        between("share_min", self.share_min, 0.001, 1.0, "between 0.001 and 1")?;
        between("rcp_alpha", self.rcp_alpha, 0.0, 1.0, "between 0 and 1")?;
        between("rcp_beta", self.rcp_beta, 0.0, 100.0, "between 0 and 100")?;
        if let Some(rate) = self.receiver_rate {
            check(rate >= Rate::from_bps(1000), "receiver_rate", &rate, "1 Kbps or more")?;
        }
        let buffer = self.buffer;
        check(buffer > Bytes::ZERO, "buffer", &buffer, "above 0")?;
        self.retransmission().validate()?;
        let (rto, rto_max) = (self.rto_max, Duration::from_secs(1));
        check(rto <= rto_max, "rto_max", &rto, "1 s or less, because header timestamps wrap at 4 s")
    }

    /// K, or 0 if Early Start is off or sizes are unknown.
    pub fn early_start_rtts(&self) -> f64 {
        if self.variant == PdqVariant::Basic || !self.sizes_known() {
            0.0
        } else {
            self.early_start
        }
    }

    /// X, or 0 if probing is not suppressed.
    pub fn probe_spread_rtts(&self) -> f64 {
        if self.variant == PdqVariant::Full { self.probe_spread } else { 0.0 }
    }

    /// Whether senders abandon flows that cannot meet their deadline.
    pub fn terminates_early(&self) -> bool {
        matches!(self.variant, PdqVariant::EsEt | PdqVariant::Full)
    }

    /// Whether senders know how much is left to send.
    pub fn sizes_known(&self) -> bool {
        self.criticality == Criticality::Deadline
    }
}

crate::validated::validated_when_read!(PdqConfig);
