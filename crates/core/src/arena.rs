//! A growable slab with `u32` keys whose freed slots are used again.

/// Values with dense `u32` keys. Memory grows to the largest number of values held at once.
#[derive(Debug, Clone)]
pub struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Stores a value and returns its key.
    pub fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(key) => {
                self.slots[key as usize] = Some(value);
                key
            }
            None => {
                self.slots.push(Some(value));
                u32::try_from(self.slots.len() - 1).expect("more than 2^32 slots")
            }
        }
    }

    /// Takes a value out. Panics when the key is free, which is a bug of the driver.
    pub fn remove(&mut self, key: u32) -> T {
        let value = self.slots[key as usize].take().expect("slot is free");
        self.free.push(key);
        value
    }

    /// The value behind a key that is in use.
    #[inline]
    pub fn get(&self, key: u32) -> Option<&T> {
        self.slots.get(key as usize).and_then(Option::as_ref)
    }

    /// The value behind a key that is in use.
    #[inline]
    pub fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        self.slots.get_mut(key as usize).and_then(Option::as_mut)
    }

    /// Prefetches the value behind a key.
    #[inline]
    pub fn prefetch(&self, key: u32) {
        crate::prefetch_all_at(&self.slots, key as usize);
    }

    /// How many values are held.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether no value is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused() {
        let mut slab = Slab::default();
        let a = slab.insert('a');
        let b = slab.insert('b');
        assert_eq!(slab.remove(a), 'a');
        assert_eq!(slab.insert('c'), a);
        assert_eq!((slab.get(a), slab.get(b), slab.len()), (Some(&'c'), Some(&'b'), 2));
    }
}
