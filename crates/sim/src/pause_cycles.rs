//! Circles of paused ports, found when they form: each holds what the one before is paused for.
//!
//! A paused port is paused for what came by its link and waits in the switch behind. It leads on
//! to another if some of that waits there and that one is paused as well. As a paused port sends
//! nothing, such a connection lasts until one of the two goes on, and comes to be only when a port
//! is paused or when what was on its way to a paused port arrives there. So these are the only
//! moments at which a circle can close, and a port that goes on is the only way for it to end.

use crate::engine::Engine;
use crate::lossless::Lossless;
use crate::record::PauseCycle;
use crate::tap::Tap;
use punctual_core::{Class, Duration, Instant, PortId};
use punctual_net::{Network, Tier};

/// Different circles that are told of; the rest are merely counted.
const TOLD_MAX: usize = 256;
/// Ports looked at for one answer, lest a dense network of pauses has the run stand still.
const STEPS_MAX: u32 = 4096;

/// The circles of a run.
#[derive(Debug)]
pub(crate) struct Circles {
    /// By node, its ports that lead to switches.
    ways: Vec<Vec<PortId>>,
    found: Vec<PauseCycle>,
    /// Places in `found` of those that stand.
    standing: Vec<usize>,
    /// Those beyond [`TOLD_MAX`].
    untold: u64,
}

impl Circles {
    /// None for a network in which ways go up and then down: no circle can close there.
    pub(crate) fn new(network: &Network) -> Option<Self> {
        let is_tree = network.links.iter().all(|link| link.tier != Tier::Middle);
        if is_tree {
            return None;
        }
        let mut ways = vec![Vec::new(); network.names.len()];
        for (port, link) in network.links.iter().enumerate() {
            if link.from.0 >= network.hosts && link.to.0 >= network.hosts {
                ways[link.from.index()].push(PortId::from(port));
            }
        }
        Some(Circles { ways, found: Vec::new(), standing: Vec::new(), untold: 0 })
    }

    /// A circle that closes now, unless it is closed already.
    fn close(&mut self, class: Class, path: &[PortId], now: Instant) {
        let mut ports = path.to_vec();
        let first = (0..ports.len()).min_by_key(|n| ports[*n]).unwrap_or(0);
        ports.rotate_left(first);
        let known = self.found.iter().position(|c| c.class == class && c.ports == ports);
        let place = match known {
            Some(place) if self.found[place].ended.is_none() => return,
            Some(place) => place,
            None if self.found.len() >= TOLD_MAX => {
                self.untold += 1;
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
        let circle = &mut self.found[place];
        (circle.since, circle.ended) = (now, None);
        circle.times += 1;
        self.standing.push(place);
    }

    /// A port goes on: so ends every circle that it is in.
    pub(crate) fn go_on(&mut self, port: PortId, class: Class, now: Instant) {
        let found = &mut self.found;
        self.standing.retain(|place| {
            let circle = &mut found[*place];
            if circle.class != class || !circle.ports.contains(&port) {
                return true;
            }
            circle.ended = Some(now);
            circle.longest = circle.longest.max(now.saturating_since(circle.since));
            false
        });
    }
}

/// A search for ways from a port back to itself.
struct Search {
    path: Vec<PortId>,
    /// Ports from which there is no way back, whatever came before.
    dead: Vec<PortId>,
    closed: Vec<Vec<PortId>>,
    steps: u32,
}

impl<T: Tap> Engine<T> {
    /// A port has been paused, or something has come to wait at one that is: the circles that this
    /// closes.
    pub(crate) fn look_for_circles(&mut self, port: PortId, class: Class) {
        let Some(mut circles) = self.lossless.as_mut().and_then(Lossless::take_circles) else {
            return;
        };
        let mut search =
            Search { path: vec![port], dead: Vec::new(), closed: Vec::new(), steps: 0 };
        self.search(&circles, class, &mut search);
        for path in &search.closed {
            circles.close(class, path, self.line.now);
        }
        if let Some(lossless) = &mut self.lossless {
            lossless.put_circles(circles);
        }
    }

    /// Goes on from the end of the path. Whether there is, or may be when one comes another way, a
    /// way back.
    fn search(&self, circles: &Circles, class: Class, search: &mut Search) -> bool {
        let Some((&first, &last)) = search.path.first().zip(search.path.last()) else {
            return false;
        };
        let mut has_hope = false;
        for &next in &circles.ways[self.ports[last.index()].to.index()] {
            search.steps += 1;
            if search.steps > STEPS_MAX {
                return true;
            }
            if search.dead.contains(&next) || !self.leads_on(last, next, class) {
                continue;
            }
            if next == first {
                search.closed.push(search.path.clone());
                has_hope = true;
            } else if search.path.contains(&next) {
                has_hope = true;
            } else {
                search.path.push(next);
                has_hope |= self.search(circles, class, search);
                search.path.pop();
            }
        }
        if !has_hope {
            search.dead.push(last);
        }
        has_hope
    }

    /// Whether both ports are paused, and something that came by the link of one waits at the
    /// other.
    fn leads_on(&self, from: PortId, at: PortId, class: Class) -> bool {
        let Some(lossless) = &self.lossless else { return false };
        lossless.clock(from).is_paused(class)
            && lossless.clock(at).is_paused(class)
            && self.waiting_from(from, at, class).next().is_some()
    }

    /// Bytes of the packets that came by one link and wait at a port.
    fn waiting_from(
        &self,
        from: PortId,
        at: PortId,
        class: Class,
    ) -> impl Iterator<Item = u64> + '_ {
        let packets = &self.line.packets;
        let fifo = self.ports[at.index()].queue.waiting_in(class);
        let ids = fifo.into_iter().flat_map(|fifo| fifo.iter(packets));
        let came = ids.filter(move |id| packets[*id].port == from);
        came.map(|id| u64::from(packets[id].wire_bytes))
    }

    /// All circles of the run, and how many more there were; those that stand are deadlocks where
    /// nothing can dissolve them.
    ///
    /// A port goes on when its link has little enough in the buffer of the switch behind. Of what
    /// its link has there, that which waits at ports that cannot go on stays. So: of all paused
    /// ports, put aside those whose links would get below the limit if all paused ports stayed
    /// as they are and all others sent what they have; then again with those that are left, until
    /// none can be put aside. What is left waits for itself, for ever.
    pub(crate) fn conclude_circles(&mut self) -> (Vec<PauseCycle>, u64) {
        let circles = self.lossless.as_mut().and_then(Lossless::take_circles);
        let Some(mut circles) = circles else { return (Vec::new(), 0) };
        for class in (0..Class::COUNT as u8).map(Class) {
            let stuck = self.stuck(&circles, class);
            let found = &mut circles.found;
            for &place in &circles.standing {
                let circle = &mut found[place];
                circle.is_deadlock |=
                    circle.class == class && circle.ports.iter().all(|p| stuck.contains(p));
            }
            let is_told = found.iter().any(|c| c.class == class && c.is_deadlock);
            debug_assert!(stuck.is_empty() || is_told || circles.untold > 0, "{stuck:?}");
        }
        let now = self.line.now;
        for &place in &circles.standing {
            let circle = &mut circles.found[place];
            circle.longest = circle.longest.max(now.saturating_since(circle.since));
        }
        (circles.found, circles.untold)
    }

    /// Paused ports of a class that can never go on.
    fn stuck(&self, circles: &Circles, class: Class) -> Vec<PortId> {
        let Some(lossless) = &self.lossless else { return Vec::new() };
        let held = |port: &&PortId| {
            let waits = self.ports[port.index()].queue.waiting_in(class);
            lossless.clock(**port).is_paused(class)
                && lossless.is_pausing(**port, class)
                && waits.is_some_and(|fifo| !fifo.is_empty())
        };
        let mut stuck: Vec<PortId> = circles.ways.iter().flatten().filter(held).copied().collect();
        loop {
            let stays = |port: &PortId| {
                let behind = &circles.ways[self.ports[port.index()].to.index()];
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
