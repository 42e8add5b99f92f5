//! The format of a file transfer: a preamble before the file, and the receiver's verdict.
//!
//! The flow begins with a [`Preamble`] that describes the file. The receiver answers with a
//! [`Verdict`] in a second flow. Transports know neither.

use punctual_core::Duration;

/// A BLAKE3 hash of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hash(pub [u8; 32]);

impl core::fmt::Display for Hash {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl core::fmt::Debug for Hash {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

/// The first bytes of a file's flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Preamble {
    /// Bytes of the file, which follows.
    pub(crate) len: u64,
    pub(crate) hash: Hash,
    /// Deadline of the transfer, in whole microseconds.
    pub(crate) deadline: Option<Duration>,
}

const PREAMBLE_MAGIC: [u8; 8] = *b"pnctual1";

impl Preamble {
    pub(crate) const BYTES: usize = 56;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let micros = match self.deadline {
            // Zero means no deadline.
            Some(deadline) => (deadline.as_nanos() / 1_000).max(1),
            None => 0,
        };
        bytes[..8].copy_from_slice(&PREAMBLE_MAGIC);
        bytes[8..16].copy_from_slice(&self.len.to_be_bytes());
        bytes[16..48].copy_from_slice(&self.hash.0);
        bytes[48..].copy_from_slice(&micros.to_be_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let number = |at: usize| {
            bytes[at..at + 8].iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
        };
        if bytes[..8] != PREAMBLE_MAGIC {
            return None;
        }
        let mut hash = [0; 32];
        hash.copy_from_slice(&bytes[16..48]);
        let deadline = match number(48) {
            0 => None,
            micros => Some(Duration::from_picos(micros.saturating_mul(1_000_000))),
        };
        Some(Preamble { len: number(8), hash: Hash(hash), deadline })
    }
}

/// The outcome of a transfer, as the receiver reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The file is stored and its hash matches.
    Verified,
    HashMismatch,
    DiskFull,
    WriteFailed,
    TooLarge,
    NotAFile,
}

const VERDICT_MAGIC: [u8; 7] = *b"pnctlV1";

impl Verdict {
    pub(crate) const BYTES: usize = 8;

    const ALL: [Verdict; 6] = [
        Verdict::Verified,
        Verdict::HashMismatch,
        Verdict::DiskFull,
        Verdict::WriteFailed,
        Verdict::TooLarge,
        Verdict::NotAFile,
    ];

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..7].copy_from_slice(&VERDICT_MAGIC);
        bytes[7] = Self::ALL.iter().position(|v| *v == self).unwrap_or(0) as u8;
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        if bytes[..7] != VERDICT_MAGIC {
            return None;
        }
        Self::ALL.get(usize::from(bytes[7])).copied()
    }

    pub(crate) fn reason(self) -> &'static str {
        match self {
            Verdict::Verified => "nothing is wrong",
            Verdict::HashMismatch => "the received file differs from what was sent",
            Verdict::DiskFull => "its disk is full",
            Verdict::WriteFailed => "it cannot write its file",
            Verdict::TooLarge => "the file is larger than it accepts",
            Verdict::NotAFile => {
                "it expects another file format; run the same version at both ends"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_both_ways() {
        for deadline in [None, Some(Duration::from_millis(50))] {
            let preamble = Preamble { len: 1 << 40, hash: Hash([7; 32]), deadline };
            assert_eq!(Preamble::from_bytes(&preamble.to_bytes()), Some(preamble));
        }
        for verdict in Verdict::ALL {
            assert_eq!(Verdict::from_bytes(&verdict.to_bytes()), Some(verdict));
        }
        assert_eq!(Preamble::from_bytes(&[0; 56]), None);
        assert_eq!(Verdict::from_bytes(b"pnctlV1\xff"), None);
    }
}
