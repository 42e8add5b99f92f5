//! PFC pause cycles, and which of them are deadlocks.
//!
//! When routes form a cycle, each port may wait for buffer space that the next one never frees: a
//! PFC deadlock. Port A *depends on* port B if both are paused and packets that came by A's link
//! wait at B: A resumes only when B has sent them. A cycle of such dependencies is a pause cycle.
//!
//! A paused port sends nothing, so a dependency lasts until one of the two ports resumes. It begins
//! when a port is paused, or when a packet arrives at a paused port. These are the only moments at
//! which a cycle can form, and a port that resumes is the only way for it to end.

use crate::engine::Engine;
use crate::lossless::Lossless;
use crate::tap::Tap;
use punctual_core::{Class, Duration, Instant, PortId, TransportSet};
use punctual_net::{Network, Tier};
use punctual_record::PauseCycle;

/// The maximum number of different cycles recorded; further ones are only counted.
const RECORDED_MAX: usize = 256;
/// The maximum number of dependencies that one search follows, so that a dense network of paused
/// ports does not stall the run.
const STEPS_MAX: u32 = 4096;

/// The pause cycles of a run.
#[derive(Debug)]
pub(crate) struct PauseCycles {
    /// By node, its ports that lead to switches.
    switch_ports: Vec<Vec<PortId>>,
    found: Vec<PauseCycle>,
    /// Indices in `found` of the cycles that have not ended.
    standing: Vec<usize>,
    /// Cycles beyond [`RECORDED_MAX`].
    unrecorded: u64,
}

impl PauseCycles {
    /// `None` for a network whose paths go up and then down: it has no cycle.
    pub(crate) fn new(network: &Network) -> Option<Self> {
        let is_tree = network.links.iter().all(|link| link.tier != Tier::Middle);
        if is_tree {
            return None;
        }
        let mut switch_ports = vec![Vec::new(); network.names.len()];
        for (port, link) in network.links.iter().enumerate() {
            if link.from.0 >= network.hosts && link.to.0 >= network.hosts {
                switch_ports[link.from.index()].push(PortId::from(port));
            }
        }
        Some(PauseCycles { switch_ports, found: Vec::new(), standing: Vec::new(), unrecorded: 0 })
    }

    /// Records a cycle that forms now, unless it exists already.
    fn record(&mut self, class: Class, path: &[PortId], now: Instant) {
        let mut ports = path.to_vec();
        let first = (0..ports.len()).min_by_key(|n| ports[*n]).unwrap_or(0);
        ports.rotate_left(first);
        let known = self.found.iter().position(|c| c.class == class && c.ports == ports);
        let place = match known {
            Some(place) if self.found[place].ended.is_none() => return,
            Some(place) => place,
            None if self.found.len() >= RECORDED_MAX => {
                self.unrecorded += 1;
                return;
            }
            None => {
                self.found.push(PauseCycle {
                    class,
                    ports,
                    first: now,
                    since: now,
                    ended: None,
                    times: 0,
                    longest: Duration::ZERO,
                    is_deadlock: false,
                });
                self.found.len() - 1
            }
        };
        let cycle = &mut self.found[place];
        (cycle.since, cycle.ended) = (now, None);
        cycle.times += 1;
        self.standing.push(place);
    }

    /// A port resumes: ends every cycle that it is in.
    pub(crate) fn resume(&mut self, port: PortId, class: Class, now: Instant) {
        let found = &mut self.found;
        self.standing.retain(|place| {
            let cycle = &mut found[*place];
            if cycle.class != class || !cycle.ports.contains(&port) {
                return true;
            }
            cycle.ended = Some(now);
            cycle.longest = cycle.longest.max(now.saturating_since(cycle.since));
            false
        });
    }
}

/// A depth-first search for paths of dependencies from a port back to itself.
struct Search {
    path: Vec<PortId>,
    /// Ports from which no path leads back to the first.
    dead: Vec<PortId>,
    closed: Vec<Vec<PortId>>,
    steps: u32,
}

impl<S: TransportSet, T: Tap> Engine<S, T> {
    /// Records the cycles that form because a port is paused, or because a packet has arrived at a
    /// paused port.
    pub(crate) fn find_pause_cycles(&mut self, port: PortId, class: Class) {
        let Some(mut cycles) = self.fabric.lossless.as_mut().and_then(Lossless::take_pause_cycles)
        else {
            return;
        };
        let mut search =
            Search { path: vec![port], dead: Vec::new(), closed: Vec::new(), steps: 0 };
        self.search(&cycles, class, &mut search);
        for path in &search.closed {
            cycles.record(class, path, self.cx.now);
        }
        if let Some(lossless) = &mut self.fabric.lossless {
            lossless.put_pause_cycles(cycles);
        }
    }

    /// Extends the path from its last port. Whether a path leads back to the first port, or may do
    /// so from another predecessor.
    fn search(&self, cycles: &PauseCycles, class: Class, search: &mut Search) -> bool {
        let Some((&first, &last)) = search.path.first().zip(search.path.last()) else {
            return false;
        };
        let mut may_return = false;
        for &next in &cycles.switch_ports[self.fabric.ports[last.index()].to.index()] {
            search.steps += 1;
            if search.steps > STEPS_MAX {
                return true;
            }
            if search.dead.contains(&next) || !self.depends_on(last, next, class) {
                continue;
            }
            if next == first {
                search.closed.push(search.path.clone());
                may_return = true;
            } else if search.path.contains(&next) {
                may_return = true;
            } else {
                search.path.push(next);
                may_return |= self.search(cycles, class, search);
                search.path.pop();
            }
        }
        if !may_return {
            search.dead.push(last);
        }
        may_return
    }

    /// Whether one port depends on another: both are paused, and packets that came by the link of the
    /// first wait at the second.
    fn depends_on(&self, from: PortId, at: PortId, class: Class) -> bool {
        let Some(lossless) = &self.fabric.lossless else { return false };
        lossless.clock(from).is_paused(class)
            && lossless.clock(at).is_paused(class)
            && self.waiting_from(from, at, class).next().is_some()
    }

    /// Sizes in bytes of the packets that came by one link and wait at a port.
    fn waiting_from(
        &self,
        from: PortId,
        at: PortId,
        class: Class,
    ) -> impl Iterator<Item = u64> + '_ {
        let packets = &self.cx.packets;
        let fifo = self.fabric.ports[at.index()].queue.waiting_in(class);
        let ids = fifo.into_iter().flat_map(|fifo| fifo.iter(packets));
        let came = ids.filter(move |id| packets[*id].port == from);
        came.map(|id| u64::from(packets[id].wire_bytes))
    }

    /// All recorded cycles of the run, and how many more there were. A standing cycle is a deadlock if
    /// none of its ports can ever resume.
    ///
    /// A port resumes when its link holds little enough of the next switch's buffer. Start with all
    /// paused ports. Remove those whose links would fall below the limit if the ports of the set
    /// sent nothing and all others sent everything. Repeat until none can be removed. The ports
    /// that are left can never resume.
    pub(crate) fn conclude_pause_cycles(&mut self) -> (Vec<PauseCycle>, u64) {
        let cycles = self.fabric.lossless.as_mut().and_then(Lossless::take_pause_cycles);
        let Some(mut cycles) = cycles else { return (Vec::new(), 0) };
        for class in (0..Class::COUNT as u8).map(Class) {
            let stuck = self.stuck(&cycles, class);
            let found = &mut cycles.found;
            for &place in &cycles.standing {
                let cycle = &mut found[place];
                cycle.is_deadlock |=
                    cycle.class == class && cycle.ports.iter().all(|p| stuck.contains(p));
            }
            let is_recorded = found.iter().any(|c| c.class == class && c.is_deadlock);
            debug_assert!(stuck.is_empty() || is_recorded || cycles.unrecorded > 0, "{stuck:?}");
        }
        let now = self.cx.now;
        for &place in &cycles.standing {
            let cycle = &mut cycles.found[place];
            cycle.longest = cycle.longest.max(now.saturating_since(cycle.since));
        }
        (cycles.found, cycles.unrecorded)
    }

    /// Paused ports of a class that can never resume.
    fn stuck(&self, cycles: &PauseCycles, class: Class) -> Vec<PortId> {
        let Some(lossless) = &self.fabric.lossless else { return Vec::new() };
        let held = |port: &&PortId| {
            let waits = self.fabric.ports[port.index()].queue.waiting_in(class);
            lossless.clock(**port).is_paused(class)
                && lossless.is_pausing(**port, class)
                && waits.is_some_and(|fifo| !fifo.is_empty())
        };
        let mut stuck: Vec<PortId> =
            cycles.switch_ports.iter().flatten().filter(held).copied().collect();
        loop {
            let stays = |port: &PortId| {
                let behind = &cycles.switch_ports[self.fabric.ports[port.index()].to.index()];
                let at_stuck = behind.iter().filter(|at| stuck.contains(at));
                let bytes: u64 = at_stuck.flat_map(|at| self.waiting_from(*port, *at, class)).sum();
                bytes > lossless.limits().resume_below().get()
            };
            let left: Vec<PortId> = stuck.iter().filter(|port| stays(port)).copied().collect();
            if left.len() == stuck.len() {
                return stuck;
            }
            stuck = left;
        }
    }
}
