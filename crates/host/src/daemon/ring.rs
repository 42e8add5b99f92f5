//! Rings of frames in shared memory, each with one writer and one reader in different processes.
//!
//! A frame is a header of [`HEADER_WORDS`] words and a payload. The writer publishes whole frames
//! only. Neither end trusts the other: each keeps its own index in private memory, checks the index
//! and the lengths that the other one wrote, and copies a frame once before it looks at it. An
//! impossible value is [`Broken`].

use super::memory::Memory;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

/// Words of a frame's header. The upper half of the first one is the length of the payload.
pub(super) const HEADER_WORDS: usize = 10;
/// The header of a frame.
pub(super) type Header = [u64; HEADER_WORDS];
/// Most bytes of a payload.
pub(super) const PAYLOAD_MAX: usize = 32 << 10;

/// The other process wrote something impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken;

/// Places of a ring's own words. Each has a cache line for itself.
const HEAD: usize = 0;
const TAIL: usize = 8;
const READER_SLEEPS: usize = 16;
const WRITER_WAITS: usize = 24;
const DATA: usize = 32;

/// Words of memory for two rings of this capacity.
pub(super) fn memory_words(capacity: usize) -> usize {
    2 * (DATA + capacity)
}

/// Whether a capacity in words is possible.
pub(super) fn is_capacity(words: usize) -> bool {
    words.is_power_of_two() && (2 * PAYLOAD_MAX / 8..=1 << 24).contains(&words)
}

#[derive(Debug)]
struct Ring {
    memory: Arc<Memory>,
    base: usize,
    capacity: usize,
}

impl Ring {
    /// The first or second ring of a memory.
    fn new(memory: Arc<Memory>, capacity: usize, is_second: bool) -> Self {
        let base = if is_second { DATA + capacity } else { 0 };
        Ring { memory, base, capacity }
    }

    fn own(&self, place: usize) -> &std::sync::atomic::AtomicU64 {
        &self.memory.words()[self.base + place]
    }

    fn data(&self, index: u64) -> &std::sync::atomic::AtomicU64 {
        let at = (index as usize) & (self.capacity - 1);
        &self.memory.words()[self.base + DATA + at]
    }
}

/// The writing end of a ring.
#[derive(Debug)]
pub(super) struct Writer {
    ring: Ring,
    head: u64,
}

impl Writer {
    pub(super) fn new(memory: Arc<Memory>, capacity: usize, is_second: bool) -> Self {
        Writer { ring: Ring::new(memory, capacity, is_second), head: 0 }
    }

    fn free_words(&self) -> Result<usize, Broken> {
        let used = self.head.wrapping_sub(self.ring.own(TAIL).load(Acquire));
        self.ring.capacity.checked_sub(usize::try_from(used).unwrap_or(usize::MAX)).ok_or(Broken)
    }

    /// Most bytes of payload that a frame may have now; `None` if there is no room for a frame.
    pub(super) fn room(&self) -> Result<Option<usize>, Broken> {
        let words = self.free_words()?.checked_sub(HEADER_WORDS);
        Ok(words.map(|words| (8 * words).min(PAYLOAD_MAX)))
    }

    /// Writes a frame. False if there is no room for it.
    pub(super) fn push(&mut self, header: &Header, payload: &[u8]) -> Result<bool, Broken> {
        debug_assert!(payload.len() <= PAYLOAD_MAX);
        if self.room()?.is_none_or(|room| payload.len() > room) {
            return Ok(false);
        }
        let mut at = self.head;
        let mut write = |word: u64| {
            self.ring.data(at).store(word, Relaxed);
            at = at.wrapping_add(1);
        };
        write(header[0] | (payload.len() as u64) << 32);
        header[1..].iter().copied().for_each(&mut write);
        let mut chunks = payload.chunks_exact(8);
        for chunk in &mut chunks {
            write(chunk.try_into().map_or(0, u64::from_ne_bytes));
        }
        if !chunks.remainder().is_empty() {
            let mut last = [0; 8];
            last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
            write(u64::from_ne_bytes(last));
        }
        self.head = at;
        self.ring.own(HEAD).store(self.head, SeqCst);
        Ok(true)
    }

    /// Bytes ever written, in words: the position after the last frame.
    pub(super) fn position(&self) -> u64 {
        self.head
    }

    /// Whether the reader has taken all frames up to this position.
    pub(super) fn is_taken(&self, position: u64) -> bool {
        self.head.wrapping_sub(self.ring.own(TAIL).load(Acquire))
            <= self.head.wrapping_sub(position)
    }

    /// Whether the reader sleeps and has to be woken up. The next call returns false.
    pub(super) fn takes_wake_up(&self) -> bool {
        self.ring.own(READER_SLEEPS).load(SeqCst) == 1
            && self.ring.own(READER_SLEEPS).swap(0, SeqCst) == 1
    }

    /// Has the reader wake up this end when it has taken frames.
    pub(super) fn wait_for_room(&self) {
        self.ring.own(WRITER_WAITS).store(1, SeqCst);
    }
}

/// The reading end of a ring.
#[derive(Debug)]
pub(super) struct Reader {
    ring: Ring,
    tail: u64,
}

impl Reader {
    pub(super) fn new(memory: Arc<Memory>, capacity: usize, is_second: bool) -> Self {
        Reader { ring: Ring::new(memory, capacity, is_second), tail: 0 }
    }

    /// Takes the next frame. Its payload goes to `payload`, which is cleared first. When this
    /// returns, the writer can know that the frame was taken.
    pub(super) fn pop(&mut self, payload: &mut Vec<u8>) -> Result<Option<Header>, Broken> {
        payload.clear();
        let available = self.ring.own(HEAD).load(Acquire).wrapping_sub(self.tail);
        if available == 0 {
            return Ok(None);
        }
        if available > self.ring.capacity as u64 || available < HEADER_WORDS as u64 {
            return Err(Broken);
        }
        let header: Header =
            std::array::from_fn(|i| self.ring.data(self.tail.wrapping_add(i as u64)).load(Relaxed));
        let len = (header[0] >> 32) as usize;
        let words = HEADER_WORDS + len.div_ceil(8);
        if len > PAYLOAD_MAX || words as u64 > available {
            return Err(Broken);
        }
        let start = self.tail.wrapping_add(HEADER_WORDS as u64);
        payload.reserve(8 * len.div_ceil(8));
        for i in 0..len.div_ceil(8) as u64 {
            let word = self.ring.data(start.wrapping_add(i)).load(Relaxed);
            payload.extend_from_slice(&word.to_ne_bytes());
        }
        payload.truncate(len);
        self.tail = self.tail.wrapping_add(words as u64);
        self.ring.own(TAIL).store(self.tail, SeqCst);
        Ok(Some(header))
    }

    fn is_empty(&self) -> bool {
        self.ring.own(HEAD).load(SeqCst) == self.tail
    }

    /// Has the writer wake up this end at its next frame. False if there is a frame already.
    pub(super) fn sleep(&self) -> bool {
        self.ring.own(READER_SLEEPS).store(1, SeqCst);
        self.is_empty()
    }

    /// Notes that this end is awake, so that it need not be woken up.
    pub(super) fn wake(&self) {
        self.ring.own(READER_SLEEPS).store(0, Relaxed);
    }

    /// Whether the writer waits for room and has to be woken up. The next call returns false.
    pub(super) fn takes_wake_up(&self) -> bool {
        self.ring.own(WRITER_WAITS).load(SeqCst) == 1
            && self.ring.own(WRITER_WAITS).swap(0, SeqCst) == 1
    }
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;
    use punctual_core::rng::Stream;

    const CAPACITY: usize = 2 * PAYLOAD_MAX / 8;

    fn pair() -> (Arc<Memory>, Writer, Reader) {
        let (file, ours) = Memory::create(memory_words(CAPACITY)).unwrap();
        let theirs = Arc::new(Memory::open(&file, memory_words(CAPACITY)).unwrap());
        let writer = Writer::new(Arc::new(ours), CAPACITY, true);
        (theirs.clone(), writer, Reader::new(theirs, CAPACITY, true))
    }

    fn frame(number: u64) -> (Header, Vec<u8>) {
        let mut stream = Stream::named(number, "frame", 0);
        let len = (stream.bits() % (PAYLOAD_MAX as u64 + 1)) >> (stream.bits() % 12);
        ([number & 0xff, number, 3, 4, 5, 6, 7, 8, 9, !0], vec![number as u8; len as usize])
    }

    #[test]
    fn frames__arrive_whole_and_in_order_between_threads() {
        let (_, mut writer, mut reader) = pair();
        const COUNT: u64 = 20_000;
        let writing = std::thread::spawn(move || {
            for number in 0..COUNT {
                let (header, payload) = frame(number);
                while !writer.push(&header, &payload).unwrap() {
                    std::thread::yield_now();
                }
            }
            writer
        });
        let mut payload = Vec::new();
        for number in 0..COUNT {
            let header = loop {
                match reader.pop(&mut payload).unwrap() {
                    Some(header) => break header,
                    None => std::thread::yield_now(),
                }
            };
            let (mut expected, bytes) = frame(number);
            expected[0] |= (bytes.len() as u64) << 32;
            assert_eq!((header, &payload), (expected, &bytes));
        }
        assert_eq!(reader.pop(&mut payload), Ok(None));
        let writer = writing.join().unwrap();
        assert!(writer.is_taken(writer.position()));
    }

    #[test]
    fn room__is_what_the_reader_has_taken() {
        let (_, mut writer, mut reader) = pair();
        let (header, payload) = ([1; HEADER_WORDS], vec![9; PAYLOAD_MAX]);
        let header = Header::map(header, |word: u64| word);
        assert!(writer.push(&header, &payload).unwrap());
        let first = writer.position();
        // Two payloads fill the ring, so their headers do not fit.
        assert!(!writer.push(&header, &payload).unwrap());
        assert_eq!(writer.room(), Ok(Some(PAYLOAD_MAX - 2 * 8 * HEADER_WORDS)));
        assert!(!writer.is_taken(first));
        assert!(reader.pop(&mut Vec::new()).unwrap().is_some());
        assert!(writer.is_taken(first) && writer.push(&header, &payload).unwrap());
        assert!(!writer.is_taken(writer.position()));
    }

    #[test]
    fn wake_ups__are_asked_for_once() {
        let (_, mut writer, reader) = pair();
        assert!(!writer.takes_wake_up());
        assert!(reader.sleep());
        assert!(writer.takes_wake_up() && !writer.takes_wake_up());
        assert!(writer.push(&[0; HEADER_WORDS], &[]).unwrap());
        assert!(!reader.sleep(), "there is a frame");
        reader.wake();
        assert!(!writer.takes_wake_up());
        writer.wait_for_room();
        assert!(reader.takes_wake_up() && !reader.takes_wake_up());
    }

    #[test]
    fn hostile__impossible_indexes_and_lengths_are_noticed() {
        let base = DATA + CAPACITY;
        let full = CAPACITY as u64;
        for head in [full + 1, u64::MAX, 1, HEADER_WORDS as u64 - 1] {
            let (memory, _, mut reader) = pair();
            memory.words()[base + HEAD].store(head, Relaxed);
            assert_eq!(reader.pop(&mut Vec::new()), Err(Broken), "head {head}");
        }
        for len in [PAYLOAD_MAX as u64 + 1, 8 * (full - HEADER_WORDS as u64) + 1, 1 << 31] {
            let (memory, _, mut reader) = pair();
            memory.words()[base + DATA].store(len << 32, Relaxed);
            memory.words()[base + HEAD].store(full, Relaxed);
            assert_eq!(reader.pop(&mut Vec::new()), Err(Broken), "length {len}");
        }
        let (memory, mut writer, _) = pair();
        memory.words()[base + TAIL].store(1, Relaxed);
        assert_eq!(writer.push(&[0; HEADER_WORDS], &[]), Err(Broken), "a tail before the head");
    }

    /// Whatever the other process writes, this one gets a frame, nothing, or `Broken`.
    #[test]
    fn hostile__any_words_are_survived() {
        let mut broken = 0;
        for seed in 0..300 {
            let (memory, mut writer, mut reader) = pair();
            let mut stream = Stream::named(seed, "hostile ring", 0);
            let mut payload = Vec::new();
            for _ in 0..200 {
                let words = memory.words();
                let at = match stream.bits() % 3 {
                    0 => stream.bits() as usize % words.len(),
                    _ => memory.words().len() / 2 + (stream.bits() % 48) as usize,
                };
                let value = stream.bits() >> (stream.bits() % 64);
                words[at].store(value, Relaxed);
                match reader.pop(&mut payload) {
                    Ok(_) => assert!(payload.len() <= PAYLOAD_MAX),
                    Err(Broken) => broken += 1,
                }
                if writer.push(&[0; HEADER_WORDS], &vec![1; value as usize % 1_000]).is_err() {
                    broken += 1;
                }
            }
        }
        assert!(broken > 300, "impossible indexes are noticed");
    }
}
