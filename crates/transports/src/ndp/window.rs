//! The window of a flow that follows its path: how many packets a receiver keeps pulled.
//!
//! ```text
//! W = min(path_window, max(initial_window, g · R · RTT_min))
//! ```
//!
//! * R: the highest rate of arrivals, in packets, of the last rounds. A round lasts from a pull to
//!   the first packet that was sent after its sender had that pull.
//! * RTT_min: the shortest round of the last 10 to 20 seconds.
//! * g = 2 while R grows by a quarter in three rounds, then 3/2.
//!
//! A packet counts as outstanding from its pull to its arrival.

use punctual_core::{Duration, Instant};

/// How long a shortest round is remembered at least.
const RTT_EPOCH: Duration = Duration::from_secs(10);
/// How many rounds a highest rate is remembered at least.
const RATE_ROUNDS: u32 = 8;
/// Rounds without growth of the rate after which the path is full.
const FLAT_ROUNDS: u32 = 3;
/// Arrivals remembered, to recognise packets that the network duplicated.
const RECENT: usize = 32;
/// Bits of the pull number that a data packet echoes.
const ECHO_BITS: u32 = 16;

/// The pull number that a data packet echoes: the low bits of the last pull that its sender has.
#[inline]
pub(super) fn echo(pull: u32) -> u32 {
    pull & ((1 << ECHO_BITS) - 1)
}

/// Whether `echoed` is the number `pull` or one of the half-circle after it.
fn has_reached(echoed: u32, pull: u32) -> bool {
    echo(echoed.wrapping_sub(pull)) < 1 << (ECHO_BITS - 1)
}

/// An arrival, as the window sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    /// The packet's number and when its sender sent it, which together name a transmission.
    pub(super) seq: u64,
    pub(super) sent_at: u64,
    /// The pull that the sender had, see [`echo`].
    pub(super) echo: u32,
    pub(super) is_trimmed: bool,
    /// Packets of the flow that have not arrived; [`u64::MAX`] if unknown.
    pub(super) missing: u64,
}

/// What an arrival makes the receiver pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    /// Whether to pull a packet for the one that arrived.
    pub(super) pull: bool,
    /// Whether to pull one more when no other pull waits.
    pub(super) spare: bool,
}

/// A round: the pull that began it, when it was sent, and the arrivals until then.
#[derive(Debug, Clone, Copy)]
struct Round {
    pull: u32,
    from: Instant,
    arrivals: u64,
}

/// The window of one flow.
#[derive(Debug)]
pub(super) struct PathWindow {
    initial: u64,
    most: u64,
    window: u64,
    /// Pulls queued or sent.
    pulls: u64,
    arrivals: u64,
    round: Option<Round>,
    /// The shortest round of this epoch and of the one before, and when this one began.
    rtt_min: [Option<Duration>; 2],
    epoch_from: Instant,
    /// The highest rate of these rounds and of those before, in packets per second.
    rate: [u64; 2],
    rounds: u32,
    /// The rate when it last grew, and the rounds since.
    grown_to: u64,
    flat_rounds: u32,
    /// Whether a trimmed packet arrived in this round: the path is full.
    was_trimmed: bool,
    recent: [(u64, u64); RECENT],
}

impl PathWindow {
    pub(super) fn new(initial: u32, most: u32, now: Instant) -> Self {
        PathWindow {
            initial: u64::from(initial),
            most: u64::from(most),
            window: u64::from(initial),
            pulls: 0,
            arrivals: 0,
            round: None,
            rtt_min: [None; 2],
            epoch_from: now,
            rate: [0; 2],
            rounds: 0,
            grown_to: 0,
            flat_rounds: 0,
            was_trimmed: false,
            recent: [(u64::MAX, u64::MAX); RECENT],
        }
    }

    /// Packets pulled, or pushed as the initial window, that have not arrived.
    fn outstanding(&self) -> u64 {
        (self.initial + self.pulls).saturating_sub(self.arrivals)
    }

    /// The pulls and the arrivals counted.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.pulls, self.arrivals)
    }

    /// Counts pulls that the queue sends on its own.
    pub(super) fn add_pulls(&mut self, pulls: u32) {
        self.pulls += u64::from(pulls);
    }

    /// Counts a packet that arrived without being accepted.
    pub(super) fn refused(&mut self) {
        self.arrivals += 1;
    }

    /// A pull was sent. It begins a round if none is under way.
    pub(super) fn pull_sent(&mut self, number: u32, now: Instant) {
        if self.round.is_none() {
            self.round = Some(Round { pull: number, from: now, arrivals: self.arrivals });
        }
    }

    /// Counts an arrival and decides what to pull. Pulls that it grants are counted.
    // NDP-R28
    pub(super) fn arrived(&mut self, arrival: &Arrival, now: Instant) -> Due {
        let name = (arrival.seq, arrival.sent_at);
        if self.recent.contains(&name) {
            // The network duplicated it: its first copy was counted.
            return Due { pull: false, spare: false };
        }
        self.recent[self.arrivals as usize % RECENT] = name;
        self.arrivals += 1;
        self.was_trimmed |= arrival.is_trimmed;
        if let Some(round) = self.round
            && has_reached(arrival.echo, round.pull)
        {
            self.end_round(&round, now);
        }
        let outstanding = self.outstanding();
        let pull = outstanding < self.window;
        let spare = outstanding + 1 < self.window.min(arrival.missing) && !self.was_trimmed;
        self.pulls += u64::from(pull) + u64::from(spare);
        Due { pull, spare }
    }

    fn end_round(&mut self, round: &Round, now: Instant) {
        self.round = None;
        let took = now.saturating_since(round.from);
        if took.is_zero() {
            return;
        }
        let rtt_min = self.note_rtt(took, now);
        let arrivals = self.arrivals - round.arrivals;
        let rate = u128::from(arrivals) * u128::from(Duration::from_secs(1).as_picos())
            / u128::from(took.as_picos());
        self.note_rate(u64::try_from(rate).unwrap_or(u64::MAX));
        self.was_trimmed = false;
        // g · R · RTT_min, in halves of a packet and rounded up.
        let halves = if self.flat_rounds < FLAT_ROUNDS { 4 } else { 3 };
        let rate = self.rate[0].max(self.rate[1]);
        let wanted = u128::from(rate) * u128::from(rtt_min.as_picos()) * halves;
        let wanted = wanted.div_ceil(2 * u128::from(Duration::from_secs(1).as_picos()));
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        self.window = wanted.max(self.initial).min(self.most);
    }

    fn note_rtt(&mut self, took: Duration, now: Instant) -> Duration {
        if now.saturating_since(self.epoch_from) >= RTT_EPOCH {
            (self.rtt_min[1], self.rtt_min[0]) = (self.rtt_min[0], None);
            self.epoch_from = now;
        }
        let shortest = self.rtt_min[0].map_or(took, |min| min.min(took));
        self.rtt_min[0] = Some(shortest);
        self.rtt_min[1].map_or(shortest, |before| before.min(shortest))
    }

    fn note_rate(&mut self, rate: u64) {
        self.rounds += 1;
        if self.rounds >= RATE_ROUNDS {
            (self.rate[1], self.rate[0]) = (self.rate[0], 0);
            self.rounds = 0;
        }
        self.rate[0] = self.rate[0].max(rate);
        if rate / 5 >= self.grown_to / 4 {
            (self.grown_to, self.flat_rounds) = (rate, 0);
        } else {
            self.flat_rounds = self.flat_rounds.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_micros(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    fn arrival(seq: u64, echo: u32) -> Arrival {
        Arrival { seq, sent_at: seq, echo, is_trimmed: false, missing: u64::MAX }
    }

    /// Ends a round of 100 µs in which `arrivals` packets arrive.
    fn round(window: &mut PathWindow, number: u32, seq: &mut u64, arrivals: u64) {
        let start = at_micros(u64::from(number) * 100);
        window.pull_sent(number, start);
        for nth in 1..=arrivals {
            let echo = if nth == arrivals { number } else { number - 1 };
            window
                .arrived(&arrival(*seq, echo), start + Duration::from_micros(100 * nth / arrivals));
            *seq += 1;
        }
    }

    #[test]
    fn window_twice_the_rate_while_it_grows_then_half_as_much_again() {
        let mut window = PathWindow::new(30, 4096, Instant::ZERO);
        let mut seq = 0;
        round(&mut window, 1, &mut seq, 30);
        assert_eq!(window.window, 60);
        round(&mut window, 2, &mut seq, 60);
        assert_eq!(window.window, 120);
        for number in 3..6 {
            round(&mut window, number, &mut seq, 60);
        }
        assert_eq!(window.window, 90);
    }

    #[test]
    fn window_within_its_bounds() {
        let mut window = PathWindow::new(30, 100, Instant::ZERO);
        let mut seq = 0;
        round(&mut window, 1, &mut seq, 3);
        assert_eq!(window.window, 30);
        round(&mut window, 2, &mut seq, 90);
        assert_eq!(window.window, 100);
    }

    #[test]
    fn arrived_a_copy_of_the_network_pulls_nothing() {
        let mut window = PathWindow::new(4, 100, Instant::ZERO);
        assert!(window.arrived(&arrival(0, 0), at_micros(1)).pull);
        assert!(!window.arrived(&arrival(0, 0), at_micros(2)).pull);
        // A retransmission has another time.
        let again = Arrival { sent_at: 77, ..arrival(0, 0) };
        assert!(window.arrived(&again, at_micros(3)).pull);
    }

    #[test]
    fn arrived_nothing_spare_after_a_trim_or_at_the_end_of_the_flow() {
        let grown = || {
            let mut window = PathWindow::new(30, 4096, Instant::ZERO);
            let mut seq = 0;
            round(&mut window, 1, &mut seq, 30);
            window
        };
        let next = arrival(40, 1);
        assert!(grown().arrived(&next, at_micros(300)).spare);
        let trimmed = Arrival { is_trimmed: true, ..next };
        assert!(!grown().arrived(&trimmed, at_micros(300)).spare);
        let near_end = Arrival { missing: 29, ..next };
        assert!(!grown().arrived(&near_end, at_micros(300)).spare);
    }

    #[test]
    fn has_reached_around_the_wrap() {
        assert!(has_reached(echo(0x1_0000), 0xffff) && !has_reached(0xffff, 0x1_0000));
        assert!(has_reached(7, 7) && has_reached(0x7fff, 0) && !has_reached(0x8000, 0));
    }
}
