//! The token queue of a host: which flow gets the next token, one per packet time.

use super::{PhostConfig, TokenPolicy};
use punctual_core::{BitRing, Duration, FlowId, HostId, Instant, NicInfo, Slab};
use std::collections::VecDeque;

/// Durations derived from the parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// A full packet on the host's line.
    pub(super) packet: Duration,
    pub(super) token_life: Duration,
    downgrade: Duration,
    reissue: Duration,
}

impl Times {
    pub(super) fn new(config: &PhostConfig, nic: &NicInfo) -> Self {
        let packet = nic.rate.transmission_time(nic.mtu + nic.framing);
        let times = |n: f64| Duration::from_picos((packet.as_picos() as f64 * n) as u64);
        Times {
            packet,
            token_life: times(config.token_life),
            downgrade: times(config.downgrade),
            reissue: times(config.reissue),
        }
    }
}

/// All incomplete flows that a host receives.
#[derive(Debug)]
pub struct TokenQueue {
    times: Times,
    window: u32,
    /// Whether windows and timeouts follow from measured RTTs.
    measures: bool,
    policy: TokenPolicy,
    flows: Slab<FlowTokens>,
    /// Those in use, in order of arrival.
    active: Vec<u32>,
    /// The next token may leave from here on.
    next_at: Instant,
    /// When the driver will call.
    armed_at: Instant,
}

/// How many packets after the first missing one a flow may receive before that one is requested
/// again. It bounds the state of a flow.
const SPAN_PACKETS: u64 = 1024;
/// The greatest number of tokens of a flow whose issue times are kept.
const TIMED_MAX: usize = 1024;
/// The newest of these packets may still be in flight then.
const RECENT_PACKETS: u64 = 64;

/// Token state of one receiving flow.
#[derive(Debug)]
struct FlowTokens {
    flow: FlowId,
    peer: HostId,
    packets: u64,
    received: BitRing,
    missing: u64,
    /// Tokens that exist: free ones, then those sent.
    issued: u32,
    /// The first that has not been answered, as far as is known: numbers of answered ones are
    /// below.
    answered: u32,
    /// Tokens that may exist before it is time to wait for what is missing.
    goal: u64,
    /// Waiting for it until then.
    reissue_at: Option<Instant>,
    granted_at: Instant,
    /// The packet that the last token was for; none before the first.
    cursor: Option<u64>,
    /// When it last went back because of [`SPAN_PACKETS`], and from where, until it is there
    /// again.
    back_at: Instant,
    back_from: Option<u64>,
    trips: Trips,
}

/// RTTs of a flow's tokens, from issue to the arrival of the data.
#[derive(Debug, Default)]
struct Trips {
    /// When those from `first` on were issued.
    issued_at: VecDeque<Instant>,
    first: u32,
    /// The longest of all.
    longest: Duration,
    /// As many packets as that has room for.
    packets: u32,
}

impl Trips {
    fn issue(&mut self, token: u32, now: Instant) {
        if self.issued_at.is_empty() {
            self.first = token;
        }
        if self.issued_at.len() >= TIMED_MAX {
            self.issued_at.pop_front();
            self.first += 1;
        }
        self.issued_at.push_back(now);
    }

    fn answer(&mut self, token: u32, now: Instant, packet: Duration) {
        let Some(place) = token.checked_sub(self.first) else { return };
        let Some(at) = self.issued_at.get(place as usize) else { return };
        let trip = now.saturating_since(*at);
        if trip > self.longest {
            self.longest = trip;
            let packets = trip.as_picos().div_ceil(packet.as_picos().max(1));
            self.packets = u32::try_from(packets).unwrap_or(u32::MAX);
        }
        self.issued_at.drain(..=place as usize);
        self.first = token + 1;
    }
}

/// A token to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) flow: FlowId,
    pub(super) peer: HostId,
    pub(super) packet: u64,
    pub(super) token: u32,
    pub(super) missing: u64,
}

/// What an arrival of data meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Duplicate,
    Fresh,
    Last,
}

impl FlowTokens {
    /// Whether it may get a token now; otherwise the earliest time. PHOST-R06 to R08.
    fn may_have(&mut self, now: Instant, window: u32, times: &Times) -> Result<(), Instant> {
        if let Some(at) = self.reissue_at {
            if at > now {
                return Err(at);
            }
            self.reissue_at = None;
            self.goal = u64::from(self.issued) + self.missing;
        }
        let window = window.max(self.trips.packets); // PHOST-R14
        if self.outstanding() >= window {
            let at = self.granted_at + times.downgrade.max(self.trips.longest * 3);
            if at > now {
                return Err(at);
            }
            // Unanswered tokens count as lost, one at a time.
            self.answered = self.issued - (window - 1);
        }
        Ok(())
    }

    fn outstanding(&self) -> u32 {
        self.issued - self.answered
    }

    /// The next packet that is missing, after the one asked for last.
    fn next_missing(&self) -> u64 {
        let base = self.received.base();
        let after = self.cursor.map_or(base, |cursor| (cursor + 1).max(base));
        let missing = |n: &u64| !self.received.contains(*n);
        (after..self.packets).find(missing).or_else(|| (base..after).find(missing)).unwrap_or(base)
    }

    /// After going back: the next that must have been lost.
    fn next_old(&mut self) -> Option<u64> {
        let from = self.back_from?;
        let base = self.received.base();
        let after = self.cursor.map_or(base, |cursor| (cursor + 1).max(base));
        let mut old = after..from.saturating_sub(RECENT_PACKETS);
        let lost = old.find(|n| !self.received.contains(*n));
        if lost.is_none() {
            self.cursor = self.back_from.take();
        }
        lost
    }

    fn grant(&mut self, now: Instant, times: &Times, measures: bool) -> Grant {
        let ahead = self.cursor.map_or(0, |cursor| cursor.saturating_sub(self.received.base()));
        let reissue = times.reissue.max(self.trips.longest); // PHOST-R14
        if ahead >= SPAN_PACKETS && now >= self.back_at + reissue {
            self.back_from = self.cursor.take();
            self.back_at = now;
        }
        let packet = self.next_old().unwrap_or_else(|| self.next_missing());
        let (token, missing) = (self.issued, self.missing);
        self.cursor = Some(packet);
        self.issued += 1;
        self.granted_at = now;
        if u64::from(self.issued) >= self.goal {
            self.reissue_at = Some(now + reissue);
        }
        if measures {
            self.trips.issue(token, now);
        }
        Grant { flow: self.flow, peer: self.peer, packet, token, missing }
    }
}

impl TokenQueue {
    pub(super) fn new(config: &PhostConfig, nic: &NicInfo) -> Self {
        TokenQueue {
            times: Times::new(config, nic),
            window: config.window_at_least(),
            measures: config.measures(),
            policy: config.policy,
            flows: Slab::default(),
            active: Vec::new(),
            next_at: Instant::ZERO,
            armed_at: Instant::NEVER,
        }
    }

    pub(super) fn times(&self) -> &Times {
        &self.times
    }

    /// Adds a flow, whose first `free` packets arrive without tokens: their time on the link is
    /// reserved. PHOST-R05.
    pub(super) fn open(
        &mut self,
        flow: FlowId,
        peer: HostId,
        packets: u64,
        free: u64,
        now: Instant,
    ) -> u32 {
        let packet = self.times.packet;
        self.next_at = self.next_at.max(now) + packet * free;
        let slot = self.flows.insert(FlowTokens {
            flow,
            peer,
            packets,
            received: BitRing::default(),
            missing: packets,
            issued: free as u32,
            answered: 0,
            goal: packets,
            reissue_at: (free == packets).then_some(now + packet * free * 2),
            granted_at: now,
            cursor: free.checked_sub(1),
            back_at: now,
            back_from: None,
            trips: Trips::default(),
        });
        self.active.push(slot);
        slot
    }

    /// Handles data of a flow that used this token.
    pub(super) fn arrive(&mut self, slot: u32, packet: u64, token: u32, now: Instant) -> Arrival {
        let Some(flow) = self.flows.get_mut(slot) else { return Arrival::Duplicate };
        if token < flow.issued {
            flow.answered = flow.answered.max(token + 1);
            flow.trips.answer(token, now, self.times.packet);
        }
        if packet >= flow.packets || !flow.received.insert(packet) {
            return Arrival::Duplicate;
        }
        flow.missing -= 1;
        if flow.missing > 0 { Arrival::Fresh } else { Arrival::Last }
    }

    /// Removes a flow that needs no more tokens.
    pub(super) fn close(&mut self, slot: u32) {
        self.active.retain(|s| *s != slot);
        self.flows.remove(slot);
    }

    /// When the driver should call, if it is to call earlier than it will. PHOST-R05.
    pub(super) fn arm(&mut self, now: Instant) -> Option<Instant> {
        let at = self.next_at.max(now);
        if self.active.is_empty() || at >= self.armed_at {
            return None;
        }
        self.armed_at = at;
        Some(at)
    }

    /// Handles the host's timer: the token to send, if any flow may get one, and when to call again.
    pub(super) fn serve(&mut self, now: Instant) -> (Option<Grant>, Option<Instant>) {
        self.armed_at = Instant::NEVER;
        if now < self.next_at {
            return (None, self.arm(now));
        }
        let mut best: Option<(u64, u32)> = None;
        let mut earliest = Instant::NEVER;
        for &slot in &self.active {
            let flow = self.flows.get_mut(slot).expect("active flows exist");
            match flow.may_have(now, self.window, &self.times) {
                Err(at) => earliest = earliest.min(at),
                Ok(()) => {
                    // PHOST-R04: the first of equals came first.
                    let key = match self.policy {
                        TokenPolicy::Shortest => flow.missing,
                        TokenPolicy::Fair => flow.granted_at.as_picos(),
                    };
                    if best.is_none_or(|(least, _)| key < least) {
                        best = Some((key, slot));
                    }
                }
            }
        }
        let Some((_, slot)) = best else {
            self.armed_at = earliest;
            return (None, (earliest != Instant::NEVER).then_some(earliest));
        };
        let flow = self.flows.get_mut(slot).expect("active flows exist");
        let grant = flow.grant(now, &self.times, self.measures);
        self.next_at = now + self.times.packet;
        self.armed_at = self.next_at;
        (Some(grant), Some(self.next_at))
    }

    /// Unanswered tokens of a flow, and its missing packets.
    pub fn state_of(&self, slot: u32) -> Option<(u32, u64)> {
        self.flows.get(slot).map(|flow| (flow.outstanding(), flow.missing))
    }

    /// The longest RTT of a flow's tokens, if RTTs are measured.
    pub fn round_trip_of(&self, slot: u32) -> Option<Duration> {
        self.flows.get(slot).map(|flow| flow.trips.longest).filter(|_| self.measures)
    }

    /// Tokens of a flow that exist: free ones and those sent.
    pub fn issued_of(&self, slot: u32) -> Option<u32> {
        self.flows.get(slot).map(|flow| flow.issued)
    }
}
