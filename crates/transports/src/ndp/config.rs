//! NDP's parameters.

use super::header::HEADER_BYTES;
use punctual_core::{Bytes, Duration, NicInfo};
use serde::{Deserialize, Serialize};

/// NDP, with its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NdpConfig {
    /// Packets pushed at the start, before any pull. The paper's text uses 30, its scripts 23.
    pub initial_window: u32,
    /// Data bytes in a full packet; without it, what the MTU leaves beside the header. The
    /// paper's simulations carry 9000 in packets of 9064.
    pub payload: Option<Bytes>,
    /// How long a packet may be in flight without feedback before it is sent again, at least. The
    /// paper argues that with small queues no round trip exceeds 400 µs, so that 1 ms is safe.
    pub rto: Duration,
    /// Time between two pulls of one host; without it, the time that a full packet takes on the
    /// host's link, header and framing included.
    pub pull_spacing: Option<Duration>,
    /// How a pull's distance to the one before is distributed, as pairs of a share and a time:
    /// one pull in a hundred comes sooner than the time given for 0.01. Linear in between, level
    /// beyond both ends. Empty: always `pull_spacing`.
    pub pull_jitter: Vec<(f64, Duration)>,
    /// Who spreads packets over paths.
    pub paths: PathPolicy,
    /// Whether senders leave out paths that do worse than the others.
    pub scoreboard: bool,
    /// How long both ends remember a connection that has ended: longer than a packet can be on
    /// its way. The paper says less than 1 ms.
    pub time_wait: Duration,
    /// Memory a receiver has for a flow's packets that came before others: more is refused and
    /// sent again later. Without it, room for 65,536 packets.
    pub receive_memory: Option<Bytes>,
    /// Whether rules that the paper does not have apply where no key below decides:
    /// `"punctual"`, the default, or `"paper"`.
    pub variant: NdpVariant,
    /// Whether a sender pays for a needless retransmission with its next pull (NDP-R18). Default:
    /// yes, but not in the paper's variant.
    pub repay_duplicates: Option<bool>,
    /// Which way ACKs, NACKs and pulls go (NDP-R25). Default `"data-path"`, in the paper's variant
    /// `"spray"`.
    pub answer_paths: Option<AnswerPaths>,
    /// What the retransmission timer follows beyond `rto` (NDP-R26). Default `"slowest"`, in the
    /// paper's variant `"fixed"`.
    pub timer: Option<NdpTimer>,
    /// Whether a trimmed header delays the next pull by the time it took on the link (NDP-R27).
    /// Default: yes, but not in the paper's variant.
    pub charge_headers: Option<bool>,
}

/// Whose NDP it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NdpVariant {
    /// With the rules of ours: NDP-R18, R25, R26 and R27.
    #[default]
    Punctual,
    /// Without them.
    Paper,
}

/// Which way a receiver's answers go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerPaths {
    /// Back on the path of the data they answer.
    DataPath,
    /// On each path in turn.
    Spray,
}

/// What the retransmission timer follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NdpTimer {
    /// Nothing: it is `rto`.
    Fixed,
    /// Twice the slowest feedback of late on packets that were trimmed, returned or given up too
    /// soon; `rto` at least.
    Slowest,
    /// The smoothed round-trip time and four times its deviation, over all feedback; `rto` at
    /// least, and 20 times that before the first feedback.
    Rtt,
}

/// A receiver refuses packet numbers this far beyond the first one missing: no sender that keeps
/// to its pulls gets there, and memory stays bounded whatever arrives.
pub(super) const AHEAD_MAX: u64 = 1 << 16;

/// Who chooses a data packet's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathPolicy {
    /// The sender: each path once, in an order drawn anew each round.
    Permuted,
    /// Each switch, at random for each packet.
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
        }
    }
}

impl NdpConfig {
    /// Data bytes in a full packet on a network with this MTU.
    pub fn payload_for(&self, mtu: Bytes) -> u64 {
        let room = room_in(mtu);
        self.payload.map_or(room, |payload| payload.get().min(room))
    }

    /// Time between two pulls on this interface: that of a full packet on its link.
    // NDP-R12
    pub(super) fn spacing_for(&self, nic: &NicInfo) -> Duration {
        let on_link = self.payload_for(nic.mtu) + u64::from(HEADER_BYTES) + nic.framing.get();
        self.pull_spacing.unwrap_or_else(|| nic.rate.transmission_time(Bytes::new(on_link)))
    }

    /// Packets that a receiver can hold which came before others.
    pub(super) fn room_for(&self, payload: u64) -> u64 {
        match self.receive_memory {
            Some(memory) => (memory.get() / payload.max(1)).min(AHEAD_MAX),
            None => AHEAD_MAX,
        }
    }

    fn has_our_rules(&self) -> bool {
        self.variant == NdpVariant::Punctual
    }

    /// Whether a sender pays for needless retransmissions.
    pub(super) fn repays_duplicates(&self) -> bool {
        self.repay_duplicates.unwrap_or(self.has_our_rules())
    }

    /// Whether answers follow their data's path. Where switches choose it, nobody knows it.
    pub(super) fn echoes_paths(&self) -> bool {
        let ours = if self.has_our_rules() { AnswerPaths::DataPath } else { AnswerPaths::Spray };
        self.paths != PathPolicy::SwitchRandom
            && self.answer_paths.unwrap_or(ours) == AnswerPaths::DataPath
    }

    /// What the retransmission timer follows.
    pub(super) fn timer(&self) -> NdpTimer {
        let ours = if self.has_our_rules() { NdpTimer::Slowest } else { NdpTimer::Fixed };
        self.timer.unwrap_or(ours)
    }

    /// Whether trimmed headers delay pulls.
    pub(super) fn charges_headers(&self) -> bool {
        self.charge_headers.unwrap_or(self.has_our_rules())
    }

    /// What is wrong with the parameters, if anything.
    pub fn validate(&self) -> Result<(), String> {
        if self.initial_window == 0 {
            return Err("initial_window = 0: a sender must push at least 1 packet".into());
        }
        if self.rto.is_zero() {
            return Err("rto = 0: must be longer than a round trip, for example \"1ms\"".into());
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

    /// What is wrong with the parameters on an interface, if anything: which parameter, and why.
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
