//! A file that is being received.

use crate::intake::Intake;
use crate::partial::PartialFile;
use crate::stream::{Answer, Nonce, Offer, Verdict, safe_name};
use crate::{Hash, HostError};
use punctual_core::RangeSet;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes between two notes of how much of the file is there, for a later transfer to continue.
const CHECKPOINT_BYTES: u64 = 4 << 20;

/// A file that is being received.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) peer: SocketAddr,
    pub(crate) offer: Offer,
    intake: Intake,
    arrived: RangeSet,
    pub(crate) started_at: Instant,
    /// When its sender was last heard.
    pub(crate) heard_at: Instant,
    /// Bytes that an earlier transfer left.
    pub(crate) resumed: u64,
    noted: u64,
    error: Option<io::Error>,
}

impl Transfer {
    /// Creates the file for an offer, or continues that of an earlier transfer.
    pub(crate) fn begin(
        peer: SocketAddr,
        offer: Offer,
        out: &Path,
        overwrite: bool,
        resumes: bool,
    ) -> Result<Self, HostError> {
        let (partial, have) = match resumes {
            true => PartialFile::resume(out, overwrite, offer.hash, offer.len)?,
            false => (PartialFile::create(out, overwrite)?, 0),
        };
        let resumed = if offer.is_fresh { 0 } else { have };
        let intake = Intake::resume(partial, resumed).map_err(|e| HostError::writing(out, e))?;
        let mut arrived = RangeSet::default();
        arrived.insert(0, resumed, |_, _| {});
        let now = Instant::now();
        Ok(Transfer {
            peer,
            offer,
            intake,
            arrived,
            started_at: now,
            heard_at: now,
            resumed,
            noted: resumed,
            error: None,
        })
    }

    pub(crate) fn is_named(&self, peer: SocketAddr, nonce: &Nonce) -> bool {
        self.peer == peer && self.offer.nonce == *nonce
    }

    /// Whether bytes of the file have arrived in this transfer.
    pub(crate) fn has_begun(&self) -> bool {
        self.arrived.total() > self.resumed
    }

    pub(crate) fn out(&self) -> &Path {
        self.intake.partial.out()
    }

    /// The name of the file, as its sender gives it.
    pub(crate) fn name(&self) -> Option<String> {
        safe_name(&self.offer.name).map(str::to_owned)
    }

    /// Leaves what has arrived for a later transfer. Returns its name, if it is worth keeping.
    pub(crate) fn leave(mut self) -> Option<PathBuf> {
        self.settle();
        self.intake.partial.kept_as().map(Path::to_path_buf)
    }

    fn settle(&mut self) {
        if self.error.is_some() {
            self.intake.partial.discard();
            return;
        }
        // What arrived in order is hashed and counts.
        while self.intake.catch_up(self.arrived.prefix_end(), true).unwrap_or(false) {}
        if self.intake.hashed() > self.noted {
            self.note();
        }
    }

    /// An answer to its sender.
    pub(crate) fn answer(&self, verdict: Verdict) -> Answer {
        let (hash, have) = (self.intake.hash(), self.intake.hashed());
        Answer { nonce: self.offer.nonce, verdict, hash, have, storing_us: 0 }
    }

    /// Stores bytes of the file. Bytes that have arrived before are not written again: they may be
    /// hashed already. An error shows when the file is stored.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let Some(end) = offset.checked_add(data.len() as u64).filter(|end| *end <= self.offer.len)
        else {
            return self.fail(io::ErrorKind::InvalidData.into());
        };
        let (mut failed, intake) = (None, &mut self.intake);
        self.arrived.insert(offset, end, |from, to| {
            let fresh = &data[(from - offset) as usize..(to - offset) as usize];
            if let Err(error) = intake.put(from, fresh) {
                failed = Some(error);
            }
        });
        if let Some(error) = failed {
            self.fail(error);
        }
        self.heard_at = Instant::now();
    }

    fn fail(&mut self, error: io::Error) {
        self.error.get_or_insert(error);
    }

    /// Whether its file cannot be written.
    pub(crate) fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Hashes some of what arrived out of order. Returns whether more is left to hash.
    pub(crate) fn catch_up(&mut self) -> bool {
        if self.error.is_some() {
            return false;
        }
        let is_behind = self.intake.catch_up(self.arrived.prefix_end(), false);
        let is_behind = is_behind.unwrap_or_else(|error| {
            self.fail(error);
            false
        });
        if self.intake.hashed() >= self.noted + CHECKPOINT_BYTES {
            self.note();
        }
        is_behind
    }

    fn note(&mut self) {
        self.noted = self.intake.hashed();
        if let Err(error) = self.intake.partial.checkpoint(self.noted) {
            self.fail(error);
        }
    }

    /// Whether every byte has arrived, or nothing more can be stored.
    pub(crate) fn is_complete(&self) -> bool {
        self.error.is_some() || self.arrived.prefix_end() == self.offer.len
    }

    /// Takes the error of its file, which ends the transfer.
    pub(crate) fn take_error(&mut self) -> Option<HostError> {
        let error = self.error.take()?;
        self.intake.partial.discard();
        Some(HostError::writing(self.intake.partial.out(), error))
    }

    /// Verifies the hash of the complete file, writes it to the disk and names it.
    pub(crate) fn store(&mut self) -> Result<(), HostError> {
        if let Some(error) = self.take_error() {
            return Err(error);
        }
        let stored = self.try_store();
        if stored.is_err() {
            self.intake.partial.discard();
        }
        stored
    }

    fn try_store(&mut self) -> Result<(), HostError> {
        let end = self.arrived.prefix_end();
        loop {
            match self.intake.catch_up(end, true) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Err(HostError::writing(self.out(), error)),
            }
        }
        if self.intake.hashed() != self.offer.len || self.intake.hash() != self.offer.hash {
            return Err(HostError::HashMismatch(self.out().into()));
        }
        self.intake.partial.keep()
    }
}

impl Drop for Transfer {
    /// Leaves what has arrived for a later transfer.
    fn drop(&mut self) {
        self.settle();
    }
}

/// The hash in an answer to a transfer that failed.
pub(crate) const NO_HASH: Hash = Hash([0; 32]);

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;
    use punctual_core::rng::Stream;

    fn contents(len: usize) -> Vec<u8> {
        let mut stream = Stream::named(len as u64, "transfer", 0);
        (0..len).map(|_| stream.bits() as u8).collect()
    }

    fn begin(out: &Path, data: &[u8], is_fresh: bool) -> Transfer {
        let hash = Hash(*blake3::hash(data).as_bytes());
        let (len, name) = (data.len() as u64, b"n".to_vec());
        let offer = Offer { nonce: [1; 16], len, hash, deadline: None, is_fresh, name };
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        Transfer::begin(peer, offer, out, false, true).unwrap()
    }

    /// Interrupted at random places, each transfer continues where the last one ended.
    #[test]
    fn transfer__is_continued_until_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let data = contents(9_000_000);
        let mut stream = Stream::named(1, "interruptions", 0);
        let (mut rounds, mut resumed) = (0, 0);
        loop {
            let mut transfer = begin(&out, &data, false);
            assert!(transfer.resumed >= resumed, "nothing is lost");
            assert_eq!(
                transfer.answer(Verdict::Accepted).hash.0,
                *blake3::hash(&data[..transfer.resumed as usize]).as_bytes()
            );
            resumed = transfer.resumed;
            let mut at = transfer.resumed as usize;
            let end = at + 1_500_000 + stream.below(1_500_000) as usize;
            while at < end.min(data.len()) {
                let to = (at + 40_000).min(data.len());
                transfer.write(at as u64, &data[at..to]);
                while transfer.catch_up() {}
                at = to;
            }
            rounds += 1;
            if transfer.is_complete() {
                transfer.store().unwrap();
                break;
            }
        }
        assert!(rounds > 3, "{rounds}");
        assert!(std::fs::read(&out).unwrap() == data);
        assert_eq!(dir.path().read_dir().unwrap().count(), 1);
    }

    /// Bytes that arrive twice with other contents do not change what was verified.
    #[test]
    fn transfer__bytes_are_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let data = contents(300_000);
        let mut transfer = begin(&out, &data, false);
        transfer.write(0, &data[..200_000]);
        while transfer.catch_up() {}
        transfer.write(0, &vec![0; 250_000]);
        transfer.write(200_000, &data[200_000..]);
        assert!(transfer.is_complete());
        assert!(matches!(transfer.store(), Err(HostError::HashMismatch(_))));
        drop(transfer);
        let mut transfer = begin(&out, &data, false);
        transfer.write(0, &data);
        transfer.write(0, &vec![0; 250_000]);
        transfer.store().unwrap();
        assert!(std::fs::read(&out).unwrap() == data);
        let beyond = &mut begin(&dir.path().join("other"), &data, false);
        beyond.write(299_999, &[0; 2]);
        assert!(beyond.store().is_err());
    }

    #[test]
    fn transfer__starts_again_when_its_sender_asks() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let data = contents(3_000_000);
        let mut wrong = begin(&out, &data, false);
        wrong.write(0, &vec![0; 2_000_000]);
        while wrong.catch_up() {}
        drop(wrong);
        assert_eq!(dir.path().read_dir().unwrap().count(), 1);
        let mut transfer = begin(&out, &data, true);
        assert_eq!(transfer.resumed, 0);
        transfer.write(0, &data);
        transfer.store().unwrap();
        assert!(std::fs::read(&out).unwrap() == data);
        assert_eq!(dir.path().read_dir().unwrap().count(), 1);
    }
}
