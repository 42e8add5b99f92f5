//! Path selection: each path once per round, in random order, except paths that the scoreboard
//! excludes.

use super::PathPolicy;
use super::scoreboard::Scoreboard;
use punctual_core::rng::Stream;
use punctual_core::{FlowRoute, prefetch};

/// Chooses paths.
#[derive(Debug)]
pub(super) struct Paths {
    pub(super) policy: PathPolicy,
    order: Vec<u16>,
    next: usize,
    /// The path of the next packet, if [`Paths::plan`] has chosen it.
    planned: Option<u16>,
    stream: Stream,
    pub(super) board: Scoreboard,
}

impl Paths {
    pub(super) fn new(policy: PathPolicy, keeps_score: bool, route: &FlowRoute) -> Self {
        let mut stream = Stream::from_seed(route.seed);
        let mut order: Vec<u16> = match policy {
            PathPolicy::Permuted if route.paths > 1 => {
                (0..route.paths.min(1 << 16)).map(|p| p as u16).collect()
            }
            PathPolicy::Permuted => vec![route.ecmp_path as u16],
            PathPolicy::SwitchRandom => vec![0],
            PathPolicy::Single => vec![route.ecmp_path as u16],
        };
        stream.shuffle(&mut order);
        // Without a choice there is nothing to keep score for.
        let scored = if keeps_score && order.len() > 1 { order.len() } else { 0 };
        Paths { policy, order, next: 0, planned: None, stream, board: Scoreboard::new(scored) }
    }

    /// Prefetches the path of the next packet.
    #[inline]
    pub(super) fn prefetch(&self) {
        if let Some(path) = self.order.get(self.next) {
            prefetch(path);
        }
    }

    /// Chooses the path of the next packet ahead, so that the sender can wait for its NIC.
    pub(super) fn plan(&mut self) -> u32 {
        let path = match self.planned {
            Some(path) => path,
            None => self.choose(),
        };
        self.planned = Some(path);
        u32::from(path)
    }

    #[inline]
    fn choose(&mut self) -> u16 {
        if self.board.is_clear() { self.step() } else { self.good_step() }
    }

    /// The next path other than `taken`, on which the packet was lost.
    // NDP-R04, NDP-R05
    #[inline]
    pub(super) fn next(&mut self, taken: Option<u16>) -> u32 {
        let mut path = match self.planned.take() {
            Some(path) => path,
            None => self.choose(),
        };
        if taken == Some(path) {
            path = self.other_than(path);
        }
        u32::from(path)
    }

    /// The path that the scoreboard offers, or another if that is `taken`.
    #[cold]
    fn other_than(&mut self, taken: u16) -> u16 {
        let offered = self.good_step();
        if offered != taken || self.order.len() < 2 {
            return offered;
        }
        loop {
            let path = self.step();
            if path != taken {
                return path;
            }
        }
    }

    /// The next path that is not excluded, or else the one with the shortest exclusion.
    // NDP-R19
    #[inline(never)]
    fn good_step(&mut self) -> u16 {
        for _ in 0..self.order.len() {
            let path = self.step();
            if !self.board.skips(path) {
                return path;
            }
        }
        self.board.least_avoided().unwrap_or_else(|| self.step())
    }

    #[inline]
    fn step(&mut self) -> u16 {
        if self.next == self.order.len() {
            self.next = 0;
            self.stream.shuffle(&mut self.order);
        }
        self.next += 1;
        self.order[self.next - 1]
    }
}
