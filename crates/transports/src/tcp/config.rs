//! Parameters of TCP, DCTCP, D2TCP and TCPpr, with their units and sources.

use crate::rtt::RtoBounds;
use punctual_core::{Bytes, Duration, FlowModel, FlowWindow, NicInfo, PathUse, Sharing};
use serde::{Deserialize, Serialize};

/// A parameter outside its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TcpConfigError {
    /// Zero, with which nothing could be sent.
    #[error("initial_window = 0: must be 1 packet or more")]
    NoInitialWindow,
    /// Segments without data.
    #[error("mss = 0B: must be 1B or more; remove the key to fill the MTU")]
    NoMss,
    /// Zero, with which nothing could be sent.
    #[error("window_max = 0B: must hold a packet; remove the key for no bound")]
    NoWindowMax,
    /// Zero, with which every ACK would signal a loss.
    #[error("duplicate_acks = 0: must be 1 or more; RFC 5681 has 3")]
    NoDuplicateAcks,
    /// A timer that would fire without end.
    #[error("{0} = 0: must be longer; the papers use 1ms to 300ms")]
    NoTimeout(&'static str),
    /// Bounds in the wrong order.
    #[error("{0} = {1} is above rto_max = {2}: lower it or raise rto_max")]
    AboveRtoMax(&'static str, Duration, Duration),
    /// A weight outside its range.
    #[error("gain = {0}: must be above 0 and at most 1; RFC 8257 has 0.0625")]
    Gain(f64),
    /// A fraction outside its range.
    #[error("initial_alpha = {0}: must be from 0 to 1")]
    InitialAlpha(f64),
    /// A window that could be cut to zero.
    #[error("window_min = 0: must be 1 packet or more")]
    NoWindowMin,
    /// A value of d for which the penalty is not accurate.
    #[error("{0} = {1}: must be from 0.25 to 4; D2TCP has 0.5 to 2")]
    Imminence(&'static str, f64),
    /// Bounds in the wrong order.
    #[error("d_min = {0} is above d_max = {1}: lower it or raise d_max")]
    ImminenceOrder(f64, f64),
    /// An unsupported number of classes.
    #[error("levels = {0}: must be 2, 3 or 4")]
    Levels(u8),
    /// Zero, with which all deadlines would be in one class.
    #[error("mean_deadline = 0: must be longer; D3 has 20ms to 40ms")]
    NoMeanDeadline,
    /// A number of cuts that does not match the number of classes.
    #[error("cuts: {0} given, but levels = {1} needs {2}; remove the key to cut at mean_deadline")]
    Cuts(usize, u8, usize),
    /// No subflow, or more than the header can number.
    #[error("subflows = {0}: must be from 1 to 64; NDP's comparison has 8")]
    Subflows(u32),
    /// Cuts in the wrong order.
    #[error("cuts: must be above 0 and rise from one to the next")]
    CutOrder,
}

/// The parameters common to all TCP variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpSettings {
    pub(crate) handshake: bool,
    pub(crate) mss: Option<Bytes>,
    pub(crate) initial_window: u32,
    pub(crate) initial_ssthresh: Option<Bytes>,
    pub(crate) window_max: Option<Bytes>,
    pub(crate) duplicate_acks: u32,
    pub(crate) rto_initial: Duration,
    pub(crate) rto_min: Duration,
    pub(crate) rto_max: Duration,
    pub(crate) rto_tick: Option<Duration>,
    pub(crate) delayed_ack: Option<Duration>,
    pub(crate) small_queues: bool,
}

impl TcpSettings {
    /// Data bytes in a full packet with `header_bytes` of headers.
    pub(crate) fn mss_bytes(&self, nic: &NicInfo, header_bytes: u64) -> u64 {
        // Packet sizes are 16-bit.
        let mtu_bytes = nic.mtu.get().min(u64::from(u16::MAX));
        let room_bytes = mtu_bytes.saturating_sub(header_bytes).max(1);
        self.mss.map_or(room_bytes, |mss| mss.get().min(room_bytes))
    }

    /// The model at flow level: a handshake, then a window that doubles each RTT until the flow
    /// has its share.
    pub(crate) fn flow_model(&self, sharing: Sharing, nic: &NicInfo) -> FlowModel {
        let header = super::TCP_IP_HEADER_BYTES;
        let payload = self.mss_bytes(nic, header);
        let packet = payload + header + nic.framing.get();
        let window = packet.saturating_mul(u64::from(self.initial_window));
        let setup_rtts = if self.handshake { 1.0 } else { 0.0 };
        FlowModel {
            sharing,
            paths: PathUse::Hashed,
            setup_rtts,
            setup_rtts_without_deadline: setup_rtts,
            resume_rtts: 0.0,
            payload: Bytes::new(payload),
            header: Bytes::new(header),
            answers: if self.delayed_ack.is_some() { 0.5 } else { 1.0 },
            window: FlowWindow::Doubling(Bytes::new(window)),
            receiver_rate: None,
        }
    }

    /// Bounds of the retransmission timeout.
    pub(crate) fn rto(&self) -> RtoBounds {
        RtoBounds { initial: self.rto_initial, min: self.rto_min, max: self.rto_max }
    }

    pub(crate) fn validate(&self) -> Result<(), TcpConfigError> {
        if self.initial_window == 0 {
            return Err(TcpConfigError::NoInitialWindow);
        }
        if self.mss == Some(Bytes::ZERO) {
            return Err(TcpConfigError::NoMss);
        }
        if self.window_max == Some(Bytes::ZERO) {
            return Err(TcpConfigError::NoWindowMax);
        }
        if self.duplicate_acks == 0 {
            return Err(TcpConfigError::NoDuplicateAcks);
        }
        for (name, timeout) in [
            ("rto_min", Some(self.rto_min)),
            ("rto_initial", Some(self.rto_initial)),
            ("rto_tick", self.rto_tick),
            ("delayed_ack", self.delayed_ack),
        ] {
            if timeout == Some(Duration::ZERO) {
                return Err(TcpConfigError::NoTimeout(name));
            }
        }
        for (name, rto) in [("rto_min", self.rto_min), ("rto_initial", self.rto_initial)] {
            if rto > self.rto_max {
                return Err(TcpConfigError::AboveRtoMax(name, rto, self.rto_max));
            }
        }
        Ok(())
    }
}

/// Defines the configuration of a TCP variant: the common fields and its own, in one flat table,
/// because `serde(flatten)` and `deny_unknown_fields` exclude each other.
macro_rules! tcp_config {
    (
        $(#[$doc:meta])*
        $name:ident $([rto = $rto:expr])? {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        // Derives functions instead of the traits, which below add validation.
        #[serde(remote = "Self", default, deny_unknown_fields)]
        pub struct $name {
            /// Whether a SYN and SYN-ACK precede the data. Default true.
            pub handshake: bool,
            /// Data bytes in a full packet; at most the MTU less 40 B, which is the default.
            pub mss: Option<Bytes>,
            /// Packets sent before the first acknowledgement. Default 10 (RFC 6928 and NDP's
            /// simulator); 2 when D3 was published.
            pub initial_window: u32,
            /// The initial slow-start threshold. Default unbounded (RFC 5681 §3.1); NDP's simulator
            /// has 10 packets for DCTCP's incasts and 15 for its permutations.
            pub initial_ssthresh: Option<Bytes>,
            /// The largest window, a constant receive window; at least a packet. Default unbounded.
            pub window_max: Option<Bytes>,
            /// Duplicate ACKs that signal a loss. Default 3 (RFC 5681 §3.2).
            pub duplicate_acks: u32,
            /// Retransmission timeout before the first RTT sample. Default 10 ms, 1 s on lossless
            /// networks: RFC 6298 has 1 s, for the Internet; NDP's simulator 3 s, and 10 ms for
            /// DCTCP.
            pub rto_initial: Duration,
            /// Smallest retransmission timeout. Default 10 ms (D3 §6.1.2), 1 s on lossless
            /// networks; D2TCP has 20 ms, Linux 200 ms, RFC 6298 1 s.
            pub rto_min: Duration,
            /// Largest retransmission timeout. Default 60 s (RFC 6298 §2.5).
            pub rto_max: Duration,
            /// Timer granularity: a timeout takes effect at the next multiple of this time. Default
            /// off: immediately. NDP's simulator has 1 ms for
            /// incasts and 10 ms elsewhere, BSD had 500 ms.
            pub rto_tick: Option<Duration>,
            /// Delayed ACK: acknowledge every second packet, or after this time. Default off.
            pub delayed_ack: Option<Duration>,
            /// TCP small queues: whether data waits at its flow until the NIC is free, as in Linux.
            /// Default true. If false, the whole window goes to the NIC's queue immediately and
            /// counts as in flight, as in ns-2 and NDP's simulator; set `window_max`, because that
            /// queue is unbounded and does not mark.
            pub small_queues: bool,
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                let given: Option<Duration> = None $(.or(Some($rto)))?;
                let rto = given.unwrap_or(Duration::from_millis(10));
                $name {
                    handshake: true,
                    mss: None,
                    initial_window: 10,
                    initial_ssthresh: None,
                    window_max: None,
                    duplicate_acks: 3,
                    rto_initial: rto,
                    rto_min: rto,
                    rto_max: Duration::from_secs(60),
                    rto_tick: None,
                    delayed_ack: None,
                    small_queues: true,
                    $($field: $default,)*
                }
            }
        }

        impl $name {
            pub(super) fn settings(&self) -> TcpSettings {
                TcpSettings {
                    handshake: self.handshake,
                    mss: self.mss,
                    initial_window: self.initial_window,
                    initial_ssthresh: self.initial_ssthresh,
                    window_max: self.window_max,
                    duplicate_acks: self.duplicate_acks,
                    rto_initial: self.rto_initial,
                    rto_min: self.rto_min,
                    rto_max: self.rto_max,
                    rto_tick: self.rto_tick,
                    delayed_ack: self.delayed_ack,
                    small_queues: self.small_queues,
                }
            }

            /// Checks every parameter; reading a scenario file calls it.
            pub fn validate(&self) -> Result<(), TcpConfigError> {
                self.settings().validate()?;
                self.validate_own()
            }
        }

        crate::validated::validated_when_read!($name);
    };
}

pub(crate) use tcp_config;

tcp_config! {
    /// Parameters of TCP NewReno.
    TcpConfig {}
}

impl TcpConfig {
    fn validate_own(&self) -> Result<(), TcpConfigError> {
        Ok(())
    }
}

tcp_config! {
    /// Parameters of DCTCP.
    DctcpConfig {
        /// g, the weight of the newest window in α, the mean fraction of marked bytes. Default 1/16
        /// (RFC 8257 §4.2); held as a multiple of 2⁻²⁰.
        gain: f64 = 1.0 / 16.0,
        /// α when a flow starts. Default 1 (RFC 8257 §4.2, Linux); NDP's simulator
        /// and ns-2 scripts have 0.
        initial_alpha: f64 = 1.0,
        /// The least window after a cut, in packets. Default 2 (Linux); ns-3 and NDP's
        /// simulator have 1.
        window_min: u32 = 2,
        /// Whether to cut at the end of every window while α > 0, also without marks, as in NDP's
        /// simulator; stricter than RFC 8257. Default false.
        cut_every_window: bool = false,
    }
}

tcp_config! {
    /// Parameters of DCTCP over lossless Ethernet (PFC), which NDP's comparison calls DCQCN. The
    /// timeout is long because a packet can wait behind pauses as long as an incast lasts, and a
    /// timeout would only retransmit packets that are not lost.
    DctcpLosslessConfig [rto = Duration::from_secs(1)] {
        /// g, the weight of the newest window in α, the mean fraction of marked bytes. Default 1/16
        /// (RFC 8257 §4.2); held as a multiple of 2⁻²⁰.
        gain: f64 = 1.0 / 16.0,
        /// α when a flow starts. Default 1 (RFC 8257 §4.2, Linux); NDP's simulator
        /// and ns-2 scripts have 0.
        initial_alpha: f64 = 1.0,
        /// The least window after a cut, in packets. Default 2 (Linux); ns-3 and NDP's
        /// simulator have 1.
        window_min: u32 = 2,
        /// Whether to cut at the end of every window while α > 0, also without marks, as in NDP's
        /// simulator; stricter than RFC 8257. Default false.
        cut_every_window: bool = false,
    }
}

impl DctcpLosslessConfig {
    fn validate_own(&self) -> Result<(), TcpConfigError> {
        validate_marks(self.gain, self.initial_alpha, self.window_min)
    }
}

fn validate_marks(gain: f64, initial_alpha: f64, window_min: u32) -> Result<(), TcpConfigError> {
    if !(gain > 0.0 && gain <= 1.0) {
        return Err(TcpConfigError::Gain(gain));
    }
    if !(0.0..=1.0).contains(&initial_alpha) {
        return Err(TcpConfigError::InitialAlpha(initial_alpha));
    }
    if window_min == 0 {
        return Err(TcpConfigError::NoWindowMin);
    }
    Ok(())
}

impl DctcpConfig {
    fn validate_own(&self) -> Result<(), TcpConfigError> {
        validate_marks(self.gain, self.initial_alpha, self.window_min)
    }
}

tcp_config! {
    /// Parameters of D2TCP.
    D2tcpConfig {
        /// g, the weight of the newest window in α, the mean fraction of marked bytes. Default 1/16
        /// (RFC 8257 §4.2); held as a multiple of 2⁻²⁰.
        gain: f64 = 1.0 / 16.0,
        /// α when a flow starts. Default 1 (RFC 8257 §4.2, Linux); NDP's simulator
        /// and ns-2 scripts have 0.
        initial_alpha: f64 = 1.0,
        /// The least window after a cut, in packets. Default 2 (Linux); ns-3 and NDP's
        /// simulator have 1.
        window_min: u32 = 2,
        /// Whether to cut at the end of every window while α > 0, also without marks, as in NDP's
        /// simulator; stricter than RFC 8257. Default false.
        cut_every_window: bool = false,
        /// The least d, for distant deadlines. Default 0.5 (public kernel and ns-3 code); 0.25 at
        /// least. Held as a multiple of 2⁻¹⁶.
        d_min: f64 = 0.5,
        /// The greatest d, for near deadlines. Default 2 (public kernel and ns-3 code); 4 at most.
        d_max: f64 = 2.0,
        /// d after the deadline. Default 1 (kernel code): a flow that has missed its deadline must
        /// not displace others; 2 in the ns-3 code.
        d_after_miss: f64 = 1.0,
    }
}

impl D2tcpConfig {
    fn validate_own(&self) -> Result<(), TcpConfigError> {
        validate_marks(self.gain, self.initial_alpha, self.window_min)?;
        for (name, d) in
            [("d_min", self.d_min), ("d_max", self.d_max), ("d_after_miss", self.d_after_miss)]
        {
            if !(0.25..=4.0).contains(&d) {
                return Err(TcpConfigError::Imminence(name, d));
            }
        }
        if self.d_min > self.d_max {
            return Err(TcpConfigError::ImminenceOrder(self.d_min, self.d_max));
        }
        Ok(())
    }
}

tcp_config! {
    /// Parameters of TCPpr.
    TcpprConfig {
        /// Classes of strict priority. 2: two by deadline, with flows without deadline in the
        /// lower. 3: a third class for those. 4: three classes by deadline. Default 2 (D3 §6.1,
        /// which uses 3 with background traffic and finds no gain with 4).
        levels: u8 = 2,
        /// The mean deadline, from a flow's start: the boundary between classes unless `cuts` is
        /// set; with 4 levels half of it is another. Default 30 ms (D3 §6.1's moderate deadlines).
        /// The paper does not give the boundaries.
        mean_deadline: Duration = Duration::from_millis(30),
        /// The boundaries between classes: the longest deadline of each class but the last. Default
        /// empty: see `mean_deadline`.
        cuts: Vec<Duration> = Vec::new(),
    }
}

impl TcpprConfig {
    fn validate_own(&self) -> Result<(), TcpConfigError> {
        let needed = match self.levels {
            2 | 3 => 1,
            4 => 2,
            levels => return Err(TcpConfigError::Levels(levels)),
        };
        if self.mean_deadline.is_zero() {
            return Err(TcpConfigError::NoMeanDeadline);
        }
        if self.cuts.is_empty() {
            return Ok(());
        }
        if self.cuts.len() != needed {
            return Err(TcpConfigError::Cuts(self.cuts.len(), self.levels, needed));
        }
        if self.cuts[0].is_zero() || !self.cuts.is_sorted_by(|a, b| a < b) {
            return Err(TcpConfigError::CutOrder);
        }
        Ok(())
    }
}
