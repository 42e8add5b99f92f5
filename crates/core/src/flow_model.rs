//! How a transport shares the network when whole flows are simulated instead of packets.
//!
//! A transport declares its model on its `impl Transport`
//! ([`Transport::flow_model`](crate::Transport::flow_model)); the flow-level simulator knows models
//! and no transport. All constants of a protocol's model stand in its [`FlowModel`], so that one
//! table lists them.

use crate::{Bytes, Duration, Rate};

/// The model of a transport at flow level.
///
/// ```text
/// completion = start + set-up + (wire bytes / rate, integrated) + tail
/// ```
///
/// * set-up = `setup_rtts` · RTT, from the start until the first data packet leaves;
/// * wire bytes = size + packets · (`header` + framing), packets = size / `payload`, rounded up;
/// * tail = delays of the path and store and forward of the last packet;
/// * `answers` of `header` bytes come back for each data packet and take capacity from data.
///
/// RTT is that of a header on an idle path and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowModel {
    /// How links divide their capacity.
    pub sharing: Sharing,
    /// Which paths a flow uses.
    pub paths: PathUse,
    /// RTTs from the start of a flow with a deadline until its first data packet leaves.
    pub setup_rtts: f64,
    /// RTTs from the start of a flow without a deadline until its first data packet leaves.
    pub setup_rtts_without_deadline: f64,
    /// RTTs between the release of a paused flow and its next data packet.
    pub resume_rtts: f64,
    /// Data bytes in a full packet.
    pub payload: Bytes,
    /// Header bytes of each packet.
    pub header: Bytes,
    /// Packets of `header` bytes that a receiver returns for each data packet.
    pub answers: f64,
    /// What limits the bytes in flight.
    pub window: FlowWindow,
    /// The rate that a receiver accepts, if below its line rate.
    pub receiver_rate: Option<Rate>,
}

/// The most wire bytes that a flow sends in the RTT of a full packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowWindow {
    /// No limit.
    Unlimited,
    /// Always this many.
    Fixed(Bytes),
    /// Slow start: this many in the first RTT, twice as many in each that follows.
    Doubling(Bytes),
}

/// Which of the paths between two hosts a flow uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathUse {
    /// One path, chosen by hashing the flow's addresses.
    Hashed,
    /// All paths in equal parts. Where all paths have one length, the ports of all paths act as one
    /// link at each hop.
    Sprayed,
    /// This many paths, at most as many as there are, each with a rate of its own. Load moves
    /// between them without delay.
    Subflows(u32),
}

/// How links divide their capacity among flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sharing {
    /// Max-min fair shares.
    Fair,
    /// Weighted max-min shares. The weight of a flow is `α^−d` with
    ///
    /// ```text
    /// α = √(2 / W), at most 1      W = (C · RTT + K) / N packets, the least on the path
    /// d = left / (rate · time to the deadline), within [d_min, d_max]; 1 without deadline
    /// ```
    ///
    /// Weights are computed again every 16 RTTs, the time constant of α.
    Weighted {
        /// The least d.
        d_min: f64,
        /// The greatest d.
        d_max: f64,
        /// d after the deadline.
        d_after_miss: f64,
        /// K, the packets in a queue above which a port marks.
        mark_above: f64,
    },
    /// First come, first served reservations of `left / (time to the deadline − RTT)`; what is left
    /// is shared max-min. A flow with a deadline sends at its reservation from `setup_rtts` on and
    /// gets a share from `setup_rtts_without_deadline` on. Requests are computed again every RTT.
    Reserved {
        /// Whether a flow is abandoned when it would need more than its NIC's rate, or when its
        /// deadline has passed.
        quenching: bool,
    },
    /// Flows in order of criticality; each gets `min(maximum rate, least residual on its path)`.
    Critical {
        /// What makes a flow critical.
        order: CriticalOrder,
        /// α: waiting divides the expected time by `2^(α · waited / 100 ms)`, in steps of ⅛ in the
        /// exponent; 0 for no aging.
        aging: f64,
        /// Whether a flow is abandoned when it cannot meet its deadline any more.
        early_termination: bool,
    },
}

/// What makes one flow more critical than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CriticalOrder {
    /// The earlier deadline, then the shorter expected time, then the lower id.
    Deadline,
    /// A number drawn when the flow starts.
    Random,
    /// The earlier deadline, then the fewer bytes sent so far, in steps of this size.
    Estimated(Bytes),
}

/// The unit of waiting time for aging.
pub const AGING_UNIT: Duration = Duration::from_millis(100);
