//! A flow that may turn out to be a file.

use crate::HostError;
use crate::driver::Offer;
use crate::intake::Intake;
use crate::stream::{Nonce, Opening, Preamble};
use punctual_core::{Bytes, FlowId, Instant, RangeSet};
use std::io;
use std::net::SocketAddr;

/// An incoming flow and the file that it fills.
pub(crate) struct Candidate {
    pub(crate) flow: FlowId,
    pub(crate) peer: SocketAddr,
    /// Bytes of the flow.
    size: u64,
    pub(crate) intake: Intake,
    preamble_bytes: [u8; Preamble::BYTES],
    /// What its first bytes are, once they have arrived.
    pub(crate) opening: Option<Opening>,
    pub(crate) arrived: RangeSet,
    pub(crate) started_at: Instant,
    pub(crate) completed_at: Option<Instant>,
    /// Whether nothing new has arrived for too long.
    pub(crate) is_stalled: bool,
    /// Whether bytes have arrived that are not hashed yet.
    pub(crate) is_behind: bool,
    pub(crate) trims: u64,
    error: Option<io::Error>,
}

/// How far a candidate has come.
pub(crate) enum Progress {
    /// More is to come.
    Underway,
    /// The file is complete and has the right hash.
    Complete(Preamble),
    /// The flow is no file.
    Foreign,
    /// Nothing new has arrived for too long.
    Stalled,
    /// It is a file that this host cannot accept.
    Failed(Nonce, HostError),
}

impl Candidate {
    pub(crate) fn new(offer: &Offer, intake: Intake) -> Self {
        Candidate {
            flow: offer.flow,
            peer: offer.peer,
            size: offer.size.get(),
            intake,
            preamble_bytes: [0; Preamble::BYTES],
            opening: None,
            arrived: RangeSet::default(),
            started_at: offer.at,
            completed_at: None,
            is_stalled: false,
            is_behind: false,
            trims: 0,
            error: None,
        }
    }

    /// The nonce of its preamble, if it is a file.
    pub(crate) fn nonce(&self) -> Option<Nonce> {
        match self.opening? {
            Opening::File(preamble) => Some(preamble.nonce),
            Opening::OtherVersion(nonce) => Some(nonce),
            Opening::Foreign => None,
        }
    }

    /// Stores bytes of the flow. An error shows in [`judge`](Candidate::judge).
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let preamble_len = Preamble::BYTES as u64;
        let start = offset.min(preamble_len) as usize;
        let (head, tail) = data.split_at(data.len().min(Preamble::BYTES - start));
        self.preamble_bytes[start..start + head.len()].copy_from_slice(head);
        if !tail.is_empty() {
            let file_offset = (offset + head.len() as u64).saturating_sub(preamble_len);
            if let Err(error) = self.intake.put(file_offset, tail) {
                self.error.get_or_insert(error);
            }
        }
        self.arrived.insert(offset, offset + data.len() as u64, |_, _| {});
        if self.opening.is_none() && self.arrived.prefix_end() >= preamble_len {
            self.opening = Some(Opening::of(&self.preamble_bytes));
        }
    }

    /// Hashes some of what has arrived, and says how far the transfer is.
    pub(crate) fn judge(&mut self, size_max: Bytes) -> Progress {
        let preamble = match self.opening {
            None if self.completed_at.is_some() => return Progress::Foreign,
            None if self.is_stalled => return Progress::Stalled,
            None => return Progress::Underway,
            Some(Opening::Foreign) => return Progress::Foreign,
            Some(Opening::OtherVersion(nonce)) => {
                return Progress::Failed(nonce, HostError::NotOurs(self.peer));
            }
            Some(Opening::File(preamble)) => preamble,
        };
        if preamble.len.checked_add(Preamble::BYTES as u64) != Some(self.size) {
            return Progress::Foreign;
        }
        let offered = Bytes::new(preamble.len);
        if offered > size_max {
            let error = HostError::TooLarge { offered, accepted: size_max };
            return Progress::Failed(preamble.nonce, error);
        }
        let end = self.arrived.prefix_end();
        let complete = end.saturating_sub(Preamble::BYTES as u64);
        let result = match self.error.take() {
            Some(error) => Err(error),
            None => self.intake.catch_up(complete, self.completed_at.is_some()),
        };
        match result {
            Err(error) => {
                let error = HostError::writing(self.intake.partial.out(), error);
                return Progress::Failed(preamble.nonce, error);
            }
            Ok(is_behind) => self.is_behind = is_behind,
        }
        if self.completed_at.is_none() || self.is_behind {
            return if self.is_stalled { Progress::Stalled } else { Progress::Underway };
        }
        if end != self.size {
            return Progress::Foreign;
        }
        if self.intake.hash() != preamble.hash {
            let error = HostError::HashMismatch(self.intake.partial.out().into());
            return Progress::Failed(preamble.nonce, error);
        }
        Progress::Complete(preamble)
    }
}
