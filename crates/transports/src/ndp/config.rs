//! Parameters of NDP, with their sources.

use super::header::HEADER_BYTES;
use punctual_core::{Bytes, Duration, NicInfo};
use serde::{Deserialize, Serialize};

/// Parameters of NDP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NdpConfig {
    /// The initial window, in packets, sent before any pull. The paper's text uses 30, its scripts 23.
    pub initial_window: u32,
    /// Data bytes in a full packet; by default the MTU less the header. The
    /// paper's simulations carry 9000 in packets of 9064.
    pub payload: Option<Bytes>,
    /// The least retransmission timeout. The paper argues that with small queues no RTT exceeds
    /// 400 µs, so that 1 ms is safe.
    pub rto: Duration,
    /// Time between two pulls of one host; by default the transmission time of a full packet on the
    /// host's link, header and framing included.
    pub pull_spacing: Option<Duration>,
    /// Distribution of the time between pulls, as pairs of cumulative probability and time: 1 % of
    /// the intervals are shorter than the time given for 0.01. Linear in between, constant beyond
    /// both ends. Empty: always `pull_spacing`.
    pub pull_jitter: Vec<(f64, Duration)>,
    /// Who chooses the path of a packet.
    pub paths: PathPolicy,
    /// Whether senders avoid paths with more trimming or loss than the others.
    pub scoreboard: bool,
    /// TIME-WAIT: how long both hosts keep the name of an ended connection, longer than a packet's
    /// lifetime. The paper says less than 1 ms.
    pub time_wait: Duration,
    /// Reordering buffer of a flow at the receiver: packets beyond it are refused and retransmitted
    /// later. By default 65,536 packets.
    pub receive_memory: Option<Bytes>,
    /// Defaults of the keys below: `"punctual"`, the default, with our additional rules, or
    /// `"paper"` without them.
    pub variant: NdpVariant,
    /// Whether a spurious retransmission costs the sender its next pull (NDP-R18). Default true, with
    /// `variant = "paper"` false.
    pub repay_duplicates: Option<bool>,
    /// The path of ACKs, NACKs and pulls (NDP-R25). Default `"data-path"`, with
    /// `variant = "paper"` `"spray"`.
    pub answer_paths: Option<AnswerPaths>,
    /// How the retransmission timeout adapts above `rto` (NDP-R26). Default `"slowest"`, with
    /// `variant = "paper"` `"fixed"`, with `path_window` `"rtt"`.
    pub timer: Option<NdpTimer>,
    /// Whether a trimmed header delays the next pull by its transmission time (NDP-R27). Default
    /// true, with `variant = "paper"` false.
    pub charge_headers: Option<bool>,
    /// For paths longer or less reliable than a datacenter's: the largest window, in packets, of a
    /// flow whose window follows its path (NDP-R28), and which notices losses by later ACKs
    /// (NDP-R29). By default the window is `initial_window` on every path.
    pub path_window: Option<u32>,
    /// How many pulls a receiver that was late may send back to back (NDP-R31). Default 0: a missed
    /// slot is lost.
    pub pull_burst: u32,
}

/// Which rules NDP follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NdpVariant {
    /// The paper's and ours: NDP-R18, R25, R26 and R27.
    #[default]
    Punctual,
    /// The paper's only.
    Paper,
}

/// The path of a receiver's ACKs, NACKs and pulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerPaths {
    /// The path of the data they answer, in reverse.
    DataPath,
    /// Every path in turn.
    Spray,
}

/// How the retransmission timeout adapts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NdpTimer {
    /// It is `rto`.
    Fixed,
    /// Twice the longest recent delay of feedback on packets that were trimmed, returned or
    /// spuriously retransmitted; at least `rto`.
    Slowest,
    /// `SRTT + 4 · RTTVAR` over all feedback; at least `rto`, and `20 · rto` before the first, with
    /// `path_window` `4 · rto`.
    Rtt,
}

/// A receiver refuses packet numbers this far beyond the first missing one, which bounds its memory;
/// no sender that obeys pulls reaches it.
pub(super) const AHEAD_MAX: u64 = 1 << 16;

/// The largest `pull_burst`: what a port with the default queue of an initial window can hold.
const PULL_BURST_MAX: u32 = 64;

/// The largest `path_window`. Data packets echo 16 bits of the pull number, of which the nearer half
/// counts as old.
const PATH_WINDOW_MAX: u32 = 1 << 14;

/// Who chooses the path of a data packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathPolicy {
    /// The sender: each path once per round, in random order.
    Permuted,
    /// Each switch, at random per packet.
    SwitchRandom,
    /// One path for the whole flow.
    Single,
}

impl Default for NdpConfig {
    fn default() -> Self {
        NdpConfig {
            initial_window: 30,
            payload: None,
            rto: Duration::from_millis(1),
            pull_spacing: None,
            pull_jitter: Vec::new(),
            paths: PathPolicy::Permuted,
            scoreboard: true,
            time_wait: Duration::from_millis(1),
            receive_memory: None,
            variant: NdpVariant::Punctual,
            repay_duplicates: None,
            answer_paths: None,
            timer: None,
            charge_headers: None,
            path_window: None,
            pull_burst: 0,
        }
    }
}

impl NdpConfig {
    /// The parameters for sockets on real paths: round trips of any length, losses, and processes
    /// that the scheduler may suspend for tens of milliseconds.
    pub fn for_sockets() -> NdpConfig {
        NdpConfig {
            rto: Duration::from_millis(50),
            path_window: Some(4096),
            pull_burst: 64,
            ..NdpConfig::default()
        }
    }

    /// Whether windows follow their paths, and losses are noticed by later ACKs.
    // NDP-R28, NDP-R29
    #[inline]
    pub(super) fn follows_path(&self) -> bool {
        self.path_window.is_some()
    }

    /// The most packets that a sender has in flight, whatever its receiver pulls.
    // NDP-R30
    pub(super) fn in_flight_max(&self) -> u32 {
        self.path_window.unwrap_or(AHEAD_MAX as u32)
    }

    /// The most doublings of a timeout.
    pub(super) fn backoff_max(&self) -> u32 {
        if self.follows_path() { 5 } else { 10 }
    }

    /// Data bytes in a full packet on a network with this MTU.
    pub fn payload_for(&self, mtu: Bytes) -> u64 {
        let room = room_in(mtu);
        self.payload.map_or(room, |payload| payload.get().min(room))
    }

    /// Time between two pulls: the transmission time of a full packet, at the rate of all interfaces
    /// together.
    // NDP-R12
    pub(super) fn spacing_for(&self, nic: &NicInfo) -> Duration {
        let on_link = self.payload_for(nic.mtu) + u64::from(HEADER_BYTES) + nic.framing.get();
        self.pull_spacing.unwrap_or_else(|| nic.total_rate().transmission_time(Bytes::new(on_link)))
    }

    /// Packets that fit into the reordering buffer.
    pub(super) fn room_for(&self, payload: u64) -> u64 {
        match self.receive_memory {
            Some(memory) => (memory.get() / payload.max(1)).min(AHEAD_MAX),
            None => AHEAD_MAX,
        }
    }

    fn has_our_rules(&self) -> bool {
        self.variant == NdpVariant::Punctual
    }

    /// Whether a spurious retransmission costs the sender a pull.
    pub(super) fn repays_duplicates(&self) -> bool {
        self.repay_duplicates.unwrap_or(self.has_our_rules())
    }

    /// Whether answers take their data's path, which is unknown if switches choose it.
    pub(super) fn echoes_paths(&self) -> bool {
        let ours = if self.has_our_rules() { AnswerPaths::DataPath } else { AnswerPaths::Spray };
        self.paths != PathPolicy::SwitchRandom
            && self.answer_paths.unwrap_or(ours) == AnswerPaths::DataPath
    }

    /// How the retransmission timeout adapts.
    pub(super) fn timer(&self) -> NdpTimer {
        let ours = match (self.follows_path(), self.has_our_rules()) {
            (true, _) => NdpTimer::Rtt,
            (false, true) => NdpTimer::Slowest,
            (false, false) => NdpTimer::Fixed,
        };
        self.timer.unwrap_or(ours)
    }

    /// Whether trimmed headers delay pulls.
    pub(super) fn charges_headers(&self) -> bool {
        self.charge_headers.unwrap_or(self.has_our_rules())
    }

    /// Checks every parameter.
    pub fn validate(&self) -> Result<(), String> {
        if self.initial_window == 0 {
            return Err("initial_window = 0: a sender must push at least 1 packet".into());
        }
        if self.rto.is_zero() {
            return Err("rto = 0: must be longer than a round trip, for example \"1ms\"".into());
        }
        if let Some(window) = self.path_window
            && !(self.initial_window..=PATH_WINDOW_MAX).contains(&window)
        {
            return Err(format!(
                "path_window = {window}: must be from initial_window, {}, to {PATH_WINDOW_MAX}; \
                 without the key the window is initial_window on every path",
                self.initial_window
            ));
        }
        if self.pull_burst > PULL_BURST_MAX {
            let burst = self.pull_burst;
            return Err(format!("pull_burst = {burst}: at most {PULL_BURST_MAX}"));
        }
        self.check_jitter()?;
        match self.payload.map(Bytes::get) {
            Some(0) => Err("payload = 0: a packet must carry at least 1 byte".into()),
            Some(p) if p > u64::from(u16::MAX - HEADER_BYTES) => {
                Err(format!("payload = {p} B: at most {} B", u16::MAX - HEADER_BYTES))
            }
            _ => Ok(()),
        }
    }

    /// Checks the parameters against an interface; the error names the parameter and the reason.
    pub fn check_nic(&self, nic: &NicInfo) -> Result<(), (&'static str, String)> {
        let room = room_in(nic.mtu);
        match self.payload.map(Bytes::get) {
            Some(payload) if payload > room => Err((
                "payload",
                format!(
                    "payload = {payload}B: an MTU of {} leaves {room}B beside a header of \
                     {HEADER_BYTES}B",
                    nic.mtu
                ),
            )),
            _ => Ok(()),
        }
    }

    fn check_jitter(&self) -> Result<(), String> {
        let table = &self.pull_jitter;
        let example = "for example [[0.05, \"7.26us\"], [0.5, \"7.3us\"], [0.95, \"7.34us\"]]";
        if let Some((share, _)) = table.iter().find(|(share, _)| !(0.0..=1.0).contains(share)) {
            return Err(format!("pull_jitter has {share}: shares are 0 to 1, {example}"));
        }
        let grows = |w: &[(f64, Duration)]| w[0].0 < w[1].0 && w[0].1 <= w[1].1;
        if !table.windows(2).all(grows) {
            return Err(format!("pull_jitter: shares and times must grow, {example}"));
        }
        Ok(())
    }
}

/// Data bytes that fit in a packet beside the header.
fn room_in(mtu: Bytes) -> u64 {
    mtu.get().min(u64::from(u16::MAX)).saturating_sub(u64::from(HEADER_BYTES)).max(1)
}
