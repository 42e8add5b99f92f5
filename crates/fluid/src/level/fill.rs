//! Weighted max-min shares by progressive filling.
//!
//! All rates grow together, each in proportion to its weight, until a link is full or a path has
//! its maximum rate. The paths concerned keep their rate, the others go on. The *level* of a link
//! is the rate per weight at which it fills; freezing a path never lowers the level of a link, so
//! that a heap with outdated levels finds the next one.

use super::PathTable;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A path to fill.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) path: u32,
    pub(super) weight: f64,
    /// The most that it may get.
    pub(super) rate_max: f64,
    /// What it gets.
    pub(super) rate: f64,
    pub(super) is_frozen: bool,
}

/// A link while it fills.
#[derive(Clone, Debug, Default)]
struct LinkState {
    residual: f64,
    weight: f64,
    open: u32,
    /// The items on it: a range of `Fill::members`.
    first: u32,
    end: u32,
}

/// Memory for progressive filling, kept from one call to the next.
#[derive(Debug, Default)]
pub(super) struct Fill {
    links: Vec<LinkState>,
    members: Vec<u32>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    by_maximum: Vec<u32>,
}

impl Fill {
    /// Shares the residual of each link among the items.
    ///
    /// `links` names the links of all items and their residuals; `slot_of` gives the position of a
    /// link in it.
    pub(super) fn share(
        &mut self,
        items: &mut [Item],
        links: &[(u32, f64)],
        slot_of: &[u32],
        paths: &PathTable,
    ) {
        self.links.clear();
        self.links.extend(links.iter().map(|(_, residual)| LinkState {
            residual: residual.max(0.0),
            ..LinkState::default()
        }));
        let slots = |path: u32| {
            let links = paths.links_and_parts(path);
            links.map(|(link, part)| (slot_of[link as usize] as usize, part))
        };
        for item in &*items {
            for (slot, part) in slots(item.path) {
                self.links[slot].open += 1;
                self.links[slot].weight += item.weight * part;
            }
        }
        let mut end = 0;
        for link in &mut self.links {
            (link.first, link.end) = (end, end);
            end += link.open;
        }
        self.members.clear();
        self.members.resize(end as usize, 0);
        for (i, item) in items.iter().enumerate() {
            for (slot, _) in slots(item.path) {
                let link = &mut self.links[slot];
                self.members[link.end as usize] = i as u32;
                link.end += 1;
            }
        }
        self.heap.clear();
        for (slot, link) in self.links.iter().enumerate() {
            if link.open > 0 {
                self.heap.push(Reverse((link.level().to_bits(), slot as u32)));
            }
        }
        let maximum = |item: &Item| item.rate_max / item.weight;
        self.by_maximum.clear();
        self.by_maximum.extend(0..items.len() as u32);
        self.by_maximum.sort_unstable_by_key(|i| (maximum(&items[*i as usize]).to_bits(), *i));
        let mut next_maximum = 0;
        while let Some(Reverse((stored, slot))) = self.heap.pop() {
            let link = &self.links[slot as usize];
            if link.open == 0 {
                continue;
            }
            let level = link.level();
            if level.to_bits() > stored {
                self.heap.push(Reverse((level.to_bits(), slot)));
                continue;
            }
            // Paths whose maximum comes first keep it.
            let mut has_frozen = false;
            while let Some(i) = self.by_maximum.get(next_maximum).map(|i| *i as usize) {
                if maximum(&items[i]) > level {
                    break;
                }
                next_maximum += 1;
                if !items[i].is_frozen {
                    let rate = items[i].rate_max;
                    let own = slots(items[i].path);
                    freeze(&mut items[i], rate, &mut self.links, own);
                    has_frozen = true;
                }
            }
            if has_frozen {
                self.heap.push(Reverse((stored, slot)));
                continue;
            }
            let members = self.links[slot as usize].first..self.links[slot as usize].end;
            for m in members {
                let i = self.members[m as usize] as usize;
                if !items[i].is_frozen {
                    let rate = level * items[i].weight;
                    let own = slots(items[i].path);
                    freeze(&mut items[i], rate, &mut self.links, own);
                }
            }
        }
    }
}

impl LinkState {
    /// The rate per weight at which the link is full.
    fn level(&self) -> f64 {
        self.residual.max(0.0) / self.weight
    }
}

fn freeze(
    item: &mut Item,
    rate: f64,
    links: &mut [LinkState],
    slots: impl Iterator<Item = (usize, f64)>,
) {
    item.is_frozen = true;
    item.rate = rate;
    for (slot, part) in slots {
        let link = &mut links[slot];
        link.residual -= rate * part;
        link.weight -= item.weight * part;
        link.open -= 1;
    }
}
