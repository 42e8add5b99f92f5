//! Counters of how often and how long ports were paused, by class.

use crate::engine::Engine;
use crate::tap::Tap;
use punctual_core::{Class, Duration, Instant, PortId, TransportSet};
use punctual_record::{PauseTotals, PortPauses};

/// The pauses of a port: which classes are paused now, how often and how long they were.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PauseClock {
    /// A bit for each class that is paused.
    paused: u8,
    classes: [Intervals; Class::COUNT],
    /// Intervals in which at least one class was paused.
    any: Intervals,
    /// Frames sent that paused the port at the other end.
    sent: u64,
}

/// A count of intervals and their total time.
#[derive(Debug, Clone, Copy)]
struct Intervals {
    count: u64,
    /// When the last interval began.
    since: Instant,
    /// Total time of the intervals that are over.
    time: Duration,
    longest: Duration,
}

impl Intervals {
    const NONE: Intervals =
        Intervals { count: 0, since: Instant::ZERO, time: Duration::ZERO, longest: Duration::ZERO };

    fn begin(&mut self, now: Instant) {
        self.count += 1;
        self.since = now;
    }

    fn end(&mut self, now: Instant) {
        let time = now.saturating_since(self.since);
        self.time += time;
        self.longest = self.longest.max(time);
    }

    /// These counters with the current interval, if one `lasts`, ended now.
    fn until(mut self, now: Instant, lasts: bool) -> Intervals {
        if lasts {
            self.end(now);
        }
        self
    }
}

impl Default for PauseClock {
    fn default() -> Self {
        PauseClock {
            paused: 0,
            classes: [Intervals::NONE; Class::COUNT],
            any: Intervals::NONE,
            sent: 0,
        }
    }
}

impl PauseClock {
    pub(crate) fn count_sent(&mut self) {
        self.sent += 1;
    }

    pub(crate) fn set(&mut self, class: Class, is_pause: bool, now: Instant) {
        let index = usize::from(class.0) % Class::COUNT;
        let before = self.paused;
        if is_pause {
            self.paused |= 1 << index;
            self.classes[index].begin(now);
        } else {
            self.paused &= !(1 << index);
            self.classes[index].end(now);
        }
        match (before, self.paused) {
            (0, 1..) => self.any.begin(now),
            (1.., 0) => self.any.end(now),
            _ => {}
        }
    }

    /// Totals up to now, a current pause included.
    pub(crate) fn totals(&self, now: Instant) -> PauseTotals {
        let any = self.any.until(now, self.paused != 0);
        PauseTotals {
            sent: self.sent,
            received: self.classes.iter().map(|class| class.count).sum(),
            time: any.time,
            longest: any.longest,
        }
    }

    #[inline]
    pub(crate) fn is_paused(&self, class: Class) -> bool {
        self.paused & 1 << (usize::from(class.0) % Class::COUNT) != 0
    }

    /// The pauses of each class that was ever paused.
    fn by_class(&self, port: PortId, now: Instant) -> impl Iterator<Item = PortPauses> + '_ {
        let classes = (0..Class::COUNT as u8).map(Class).zip(&self.classes);
        classes.filter(|(_, class)| class.count > 0).map(move |(class, intervals)| {
            let lasts = self.is_paused(class);
            let intervals = intervals.until(now, lasts);
            let Intervals { count, time, longest, .. } = intervals;
            PortPauses { port, class, pauses: count, time, longest, lasts }
        })
    }
}

impl<S: TransportSet, T: Tap> Engine<S, T> {
    /// Time that a port was paused, up to now.
    pub(crate) fn paused_time(&self, port: PortId) -> Duration {
        let clock = self.fabric.lossless.as_ref().map(|lossless| lossless.clock(port));
        clock.map_or(Duration::ZERO, |clock| clock.totals(self.cx.now).time)
    }

    /// Pauses of the whole run, by port and class.
    pub(crate) fn pauses_by_class(&self) -> Vec<PortPauses> {
        let Some(lossless) = &self.fabric.lossless else { return Vec::new() };
        let ports = (0..self.fabric.ports.len()).map(PortId::from);
        ports.flat_map(|port| lossless.clock(port).by_class(port, self.cx.now)).collect()
    }
}
