//! The next end of a flow: a binary heap with one entry per flow, whose time can change.

/// No place in the heap.
const NONE: u32 = u32::MAX;

/// When each flow will have sent its last bit, if no rate changes.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Time and flow, as a binary heap.
    heap: Vec<(u64, u32)>,
    /// The place of each flow in the heap.
    places: Vec<u32>,
}

impl Ends {
    pub(super) fn new(flows: usize) -> Self {
        Ends { heap: Vec::new(), places: vec![NONE; flows] }
    }

    /// The earliest end; of equal ones that of the lowest flow.
    pub(super) fn first(&self) -> Option<(u64, u32)> {
        self.heap.first().copied()
    }

    /// Sets the end of a flow, or removes it.
    pub(super) fn set(&mut self, flow: u32, at: Option<u64>) {
        let place = self.places[flow as usize];
        match at {
            Some(at) if place == NONE => {
                self.heap.push((at, flow));
                self.up(self.heap.len() - 1);
            }
            Some(at) => {
                let place = place as usize;
                let is_earlier = (at, flow) < self.heap[place];
                self.heap[place] = (at, flow);
                if is_earlier { self.up(place) } else { self.down(place) }
            }
            None if place == NONE => {}
            None => {
                let place = place as usize;
                self.places[flow as usize] = NONE;
                let last = self.heap.pop().expect("it has an entry");
                if place < self.heap.len() {
                    let is_earlier = last < self.heap[place];
                    self.heap[place] = last;
                    self.places[last.1 as usize] = place as u32;
                    if is_earlier { self.up(place) } else { self.down(place) }
                }
            }
        }
    }

    fn up(&mut self, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 && entry < self.heap[(place - 1) / 2] {
            let parent = (place - 1) / 2;
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn down(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let left = 2 * place + 1;
            if left >= self.heap.len() {
                break;
            }
            let right = left + 1;
            let is_right = right < self.heap.len() && self.heap[right] < self.heap[left];
            let child = if is_right { right } else { left };
            if entry <= self.heap[child] {
                break;
            }
            self.put(place, self.heap[child]);
            place = child;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: (u64, u32)) {
        self.heap[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::rng::Stream;

    #[test]
    fn the_first_is_always_the_earliest() {
        let mut stream = Stream::named(1, "ends", 0);
        let mut ends = Ends::new(50);
        let mut all: Vec<Option<u64>> = vec![None; 50];
        for _ in 0..5000 {
            let flow = stream.below(50) as u32;
            let at = stream.chance(0.7).then(|| stream.below(1000));
            ends.set(flow, at);
            all[flow as usize] = at;
            let times = all.iter().enumerate().filter_map(|(f, at)| Some(((*at)?, f as u32)));
            assert_eq!(ends.first(), times.min());
        }
    }
}
