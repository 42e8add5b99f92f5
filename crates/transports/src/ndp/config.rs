//! NDP's parameters.

use super::header::HEADER_BYTES;
use punctual_core::{Bytes, Duration, NicInfo};
use serde::{Deserialize, Serialize};

/// NDP, with its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ndp {
    /// Packets pushed at the start, before any pull. The paper's text uses 30, its scripts 23.
    pub initial_window: u32,
    /// Data bytes in a full packet; without it, what the MTU leaves beside the header. The
    /// paper's simulations carry 9000 in packets of 9064.
    pub payload: Option<Bytes>,
    /// How a packet sent but not heard of is given up for lost. The paper argues that with small
    /// queues no round trip exceeds 400 µs, so that 1 ms is safe.
    pub rto: Duration,
    /// Time between two pulls of one host; without it, a full packet's data at line rate.
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

impl Default for Ndp {
    fn default() -> Self {
        Ndp {
            initial_window: 30,
            payload: None,
            rto: Duration::from_millis(1),
            pull_spacing: None,
            pull_jitter: Vec::new(),
            paths: PathPolicy::Permuted,
            scoreboard: true,
            time_wait: Duration::from_millis(1),
            receive_memory: None,
        }
    }
}

impl Ndp {
    /// Data bytes in a full packet on a network with this MTU.
    pub fn payload_for(&self, mtu: Bytes) -> u64 {
        match self.payload {
            Some(payload) => payload.get(),
            None => mtu.get().saturating_sub(u64::from(HEADER_BYTES)).max(1),
        }
    }

    /// Time between two pulls on this interface: `MTU·8/rate`.
    pub(super) fn spacing_for(&self, nic: &NicInfo) -> Duration {
        self.pull_spacing
            .unwrap_or_else(|| nic.rate.transmission_time(Bytes::new(self.payload_for(nic.mtu))))
    }

    /// Packets a receiver takes from the first one missing on.
    pub(super) fn room_for(&self, payload: u64) -> u64 {
        match self.receive_memory {
            Some(memory) => (memory.get() / payload.max(1)).clamp(1, AHEAD_MAX),
            None => AHEAD_MAX,
        }
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
