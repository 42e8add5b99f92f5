//! Stores a file as it arrives, in large blocks, and hashes it in order.

use crate::Hash;
use crate::partial::PartialFile;
use std::io;

/// Bytes stored and hashed at once: large enough that system calls are rare, small enough that
/// packets do not wait long.
const STEP: usize = 1 << 16;

/// Merges adjacent packets and writes them together.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) partial: PartialFile,
    /// Bytes not yet written, and where they belong.
    pending: Vec<u8>,
    pending_at: u64,
    hasher: blake3::Hasher,
    /// Bytes hashed, from the file's beginning.
    hashed: u64,
    buffer: Vec<u8>,
}

impl Intake {
    pub(crate) fn new(partial: PartialFile) -> Self {
        Intake {
            partial,
            pending: Vec::with_capacity(STEP),
            pending_at: 0,
            hasher: blake3::Hasher::new(),
            hashed: 0,
            buffer: vec![0; STEP],
        }
    }

    /// Continues a file whose first `have` bytes are there, which are hashed again.
    pub(crate) fn resume(partial: PartialFile, have: u64) -> io::Result<Self> {
        let mut intake = Intake::new(partial);
        (intake.pending_at, intake.hashed) = (have, 0);
        while intake.hashed < have {
            let step = (have - intake.hashed).min(STEP as u64);
            let buffer = &mut intake.buffer[..step as usize];
            intake.partial.read_at(buffer, intake.hashed)?;
            intake.hasher.update(buffer);
            intake.hashed += step;
        }
        Ok(intake)
    }

    /// Bytes from the beginning of the file that have been written and hashed.
    pub(crate) fn hashed(&self) -> u64 {
        self.hashed
    }

    /// Adds bytes of the file. An error may concern bytes added earlier.
    pub(crate) fn put(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset != self.pending_at + self.pending.len() as u64 || self.pending.len() >= STEP {
            self.flush()?;
            self.pending_at = offset;
        }
        self.pending.extend_from_slice(data);
        Ok(())
    }

    /// Writes the pending bytes.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.partial.write_at(&self.pending, self.pending_at)?;
        if self.pending_at == self.hashed {
            self.hasher.update(&self.pending);
            self.hashed += self.pending.len() as u64;
        }
        self.pending_at += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Hashes up to [`STEP`] bytes that arrived out of order. All bytes below `complete` have
    /// arrived. Returns whether another step is left to hash or, at the `end`, any byte.
    pub(crate) fn catch_up(&mut self, complete: u64, end: bool) -> io::Result<bool> {
        if end {
            self.flush()?;
        }
        let written =
            if self.pending.is_empty() { complete } else { complete.min(self.pending_at) };
        let left = written.saturating_sub(self.hashed);
        let step = left.min(STEP as u64);
        if step == 0 || step < STEP as u64 && !end {
            return Ok(false);
        }
        let buffer = &mut self.buffer[..step as usize];
        self.partial.read_at(buffer, self.hashed)?;
        self.hasher.update(buffer);
        self.hashed += step;
        Ok(left - step >= STEP as u64 || end && left > step)
    }

    /// The hash of the bytes hashed so far.
    pub(crate) fn hash(&self) -> Hash {
        Hash(*self.hasher.finalize().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::RangeSet;
    use punctual_core::rng::Stream;

    #[test]
    fn any_order_gives_the_same_file_and_hash() {
        let dir = tempfile::tempdir().unwrap();
        for seed in 0..20 {
            let mut stream = Stream::named(seed, "intake", 0);
            let data: Vec<u8> = (0..500_000).map(|_| stream.bits() as u8).collect();
            let mut pieces: Vec<usize> = (0..data.len().div_ceil(1_400)).collect();
            // From in order to fully shuffled.
            for _ in 0..stream.below(40) * seed {
                let (a, b) = (stream.below(pieces.len() as u64), stream.below(10));
                let b = (a + b).min(pieces.len() as u64 - 1);
                pieces.swap(a as usize, b as usize);
            }
            let out = dir.path().join(seed.to_string());
            let mut intake = Intake::new(PartialFile::create(&out, false).unwrap());
            let mut arrived = RangeSet::default();
            for piece in pieces {
                let (start, end) = (piece * 1_400, data.len().min(piece * 1_400 + 1_400));
                intake.put(start as u64, &data[start..end]).unwrap();
                arrived.insert(start as u64, end as u64, |_, _| {});
                intake.catch_up(arrived.prefix_end(), false).unwrap();
            }
            while intake.catch_up(arrived.prefix_end(), true).unwrap() {}
            assert_eq!(intake.hash().0, *blake3::hash(&data).as_bytes());
            intake.partial.keep().unwrap();
            assert!(std::fs::read(&out).unwrap() == data);
        }
    }
}
