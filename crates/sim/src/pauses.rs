//! How long ports were paused, and whether they wait for each other in a circle.

use crate::engine::Engine;
use crate::lossless::Lossless;
use crate::record::{PauseCycle, PauseTotals};
use crate::tap::Tap;
use punctual_core::{Class, Duration, Instant, PortId};

/// When a port was paused, class by class, and for how long in all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PauseClock {
    /// A bit for each class that is paused.
    paused: u8,
    since: [Instant; Class::COUNT],
    /// Since when any class has been.
    any_since: Instant,
    totals: PauseTotals,
}

impl Default for PauseClock {
    fn default() -> Self {
        PauseClock {
            paused: 0,
            since: [Instant::ZERO; Class::COUNT],
            any_since: Instant::ZERO,
            totals: PauseTotals::default(),
        }
    }
}

impl PauseClock {
    pub(crate) fn count_sent(&mut self) {
        self.totals.sent += 1;
    }

    pub(crate) fn set(&mut self, class: Class, is_pause: bool, now: Instant) {
        let line = usize::from(class.0) % Class::COUNT;
        if is_pause {
            self.totals.received += 1;
            self.since[line] = now;
            if self.paused == 0 {
                self.any_since = now;
            }
            self.paused |= 1 << line;
            return;
        }
        self.paused &= !(1 << line);
        if self.paused == 0 {
            self.totals = self.totals_at(now, self.any_since);
        }
    }

    fn totals_at(&self, now: Instant, since: Instant) -> PauseTotals {
        let time = now.saturating_since(since);
        PauseTotals {
            time: self.totals.time + time,
            longest: self.totals.longest.max(time),
            ..self.totals
        }
    }

    /// Sums up to now, a pause that lasts included.
    pub(crate) fn totals(&self, now: Instant) -> PauseTotals {
        let since = if self.paused == 0 { now } else { self.any_since };
        self.totals_at(now, since)
    }

    fn paused_since(&self, class: Class) -> Option<Instant> {
        let line = usize::from(class.0) % Class::COUNT;
        (self.paused & 1 << line != 0).then_some(self.since[line])
    }
}

impl<T: Tap> Engine<T> {
    /// Time that a port was paused, up to now.
    pub(crate) fn paused_time(&self, port: PortId) -> Duration {
        let clock = self.lossless.as_ref().map(|lossless| lossless.clock(port));
        clock.map_or(Duration::ZERO, |clock| clock.totals(self.line.now).time)
    }

    /// Sums over pauses, by port.
    pub(crate) fn count_pauses(&mut self) {
        let Some(lossless) = &self.lossless else { return };
        for (port, totals) in self.port_totals.iter_mut().enumerate() {
            totals.pauses = lossless.clock(PortId::from(port)).totals(self.line.now);
            self.totals.paused += totals.pauses.time;
            self.totals.longest_pause = self.totals.longest_pause.max(totals.pauses.longest);
        }
    }

    /// Circles of ports that are paused and cannot go on, because each is paused for what waits
    /// at the next.
    ///
    /// A port goes on when its link has little enough in the buffer of the switch behind. Of what
    /// its link has there, that which waits at ports that cannot go on stays. So: of all paused
    /// ports, put aside those whose links would get below the limit if all paused ports stayed
    /// as they are and all others sent what they have; then again with those that are left, until
    /// none can be put aside. What is left waits for itself: there is a circle in it.
    pub(crate) fn pause_cycles(&self) -> Vec<PauseCycle> {
        let Some(lossless) = &self.lossless else { return Vec::new() };
        let mut cycles = Vec::new();
        for class in (0..Class::COUNT as u8).map(Class) {
            let mut stuck: Vec<bool> = (0..self.ports.len())
                .map(|p| self.is_held(lossless, PortId::from(p), class))
                .collect();
            if !stuck.contains(&true) {
                continue;
            }
            loop {
                let free: Vec<usize> = (0..stuck.len())
                    .filter(|p| stuck[*p] && !self.stays(lossless, *p, class, &stuck))
                    .collect();
                if free.is_empty() {
                    break;
                }
                free.into_iter().for_each(|p| stuck[p] = false);
            }
            cycles.extend(self.cycle_in(lossless, class, &stuck));
        }
        cycles
    }

    /// A port is paused, has something to send, and nobody has told it to go on.
    fn is_held(&self, lossless: &Lossless, port: PortId, class: Class) -> bool {
        let waits = self.ports[port.index()].queue.waiting_in(class);
        lossless.clock(port).paused_since(class).is_some()
            && lossless.is_pausing(port, class)
            && self.network.link(port).from.0 >= self.network.hosts
            && waits.is_some_and(|fifo| !fifo.is_empty())
    }

    /// What came by the link of `from` and waits at `at`.
    fn waiting_from(&self, from: usize, at: usize, class: Class) -> u64 {
        let Some(fifo) = self.ports[at].queue.waiting_in(class) else { return 0 };
        let packets = &self.line.packets;
        let came = fifo.iter(packets).filter(|id| packets[*id].port.index() == from);
        came.map(|id| u64::from(packets[id].wire_bytes)).sum()
    }

    /// Ports of the switch behind a link.
    fn behind(&self, port: usize) -> impl Iterator<Item = usize> + '_ {
        let switch = self.ports[port].to;
        (0..self.ports.len()).filter(move |p| self.network.links[*p].from == switch)
    }

    /// Whether too much of what a link has in the buffer behind it waits at ports that are stuck.
    fn stays(&self, lossless: &Lossless, port: usize, class: Class, stuck: &[bool]) -> bool {
        let at_stuck = self.behind(port).filter(|q| stuck[*q]);
        let bytes: u64 = at_stuck.map(|q| self.waiting_from(port, q, class)).sum();
        bytes > lossless.limits().resume_below().get()
    }

    /// A circle among ports each of which is paused for what waits at others of them.
    fn cycle_in(&self, lossless: &Lossless, class: Class, stuck: &[bool]) -> Option<PauseCycle> {
        let mut way = vec![stuck.iter().position(|s| *s)?];
        loop {
            let last = *way.last()?;
            let mut next = self.behind(last).filter(|q| stuck[*q]);
            let next = next.find(|q| self.waiting_from(last, *q, class) > 0)?;
            if let Some(start) = way.iter().position(|p| *p == next) {
                let ports: Vec<PortId> = way[start..].iter().map(|p| PortId::from(*p)).collect();
                let since = ports.iter().filter_map(|p| lossless.clock(*p).paused_since(class));
                return Some(PauseCycle { class, since: since.max()?, ports });
            }
            way.push(next);
        }
    }
}
