//! The format of a file transfer: a preamble before the file, and the receiver's answer.
//!
//! The flow begins with a [`Preamble`] that describes the file. The receiver responds with an
//! [`Answer`] in a second flow. Transports know neither.

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

/// A random number that the sender draws and only the receiver of its flow learns. A verdict that
/// has it comes from that receiver.
pub(crate) type Nonce = [u8; 16];

/// The first bytes of a file's flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Preamble {
    pub(crate) nonce: Nonce,
    /// Bytes of the file, which follows.
    pub(crate) len: u64,
    pub(crate) hash: Hash,
    /// Time left until the deadline when the flow began, in whole microseconds.
    pub(crate) deadline: Option<Duration>,
}

/// The first bytes of every version's preamble. The version and the nonce follow.
const PREAMBLE_MAGIC: [u8; 7] = *b"pnctual";
const PREAMBLE_VERSION: u8 = b'2';

/// What the first bytes of a flow turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    File(Preamble),
    /// A file in the format of another version.
    OtherVersion(Nonce),
    /// Not a file.
    Foreign,
}

impl Preamble {
    pub(crate) const BYTES: usize = 72;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let micros = match self.deadline {
            // Zero means no deadline.
            Some(deadline) => (deadline.as_nanos() / 1_000).max(1),
            None => 0,
        };
        bytes[..7].copy_from_slice(&PREAMBLE_MAGIC);
        bytes[7] = PREAMBLE_VERSION;
        bytes[8..24].copy_from_slice(&self.nonce);
        bytes[24..32].copy_from_slice(&self.len.to_be_bytes());
        bytes[32..64].copy_from_slice(&self.hash.0);
        bytes[64..].copy_from_slice(&micros.to_be_bytes());
        bytes
    }
}

impl Opening {
    pub(crate) fn of(bytes: &[u8; Preamble::BYTES]) -> Opening {
        let number = |at: usize| {
            bytes[at..at + 8].iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
        };
        if bytes[..7] != PREAMBLE_MAGIC {
            return Opening::Foreign;
        }
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&bytes[8..24]);
        if bytes[7] != PREAMBLE_VERSION {
            return Opening::OtherVersion(nonce);
        }
        let mut hash = [0; 32];
        hash.copy_from_slice(&bytes[32..64]);
        let deadline = match number(64) {
            0 => None,
            micros => Some(Duration::from_picos(micros.saturating_mul(1_000_000))),
        };
        Opening::File(Preamble { nonce, len: number(24), hash: Hash(hash), deadline })
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
    OtherVersion,
    /// Another sender's file was stored first.
    Busy,
}

impl Verdict {
    const ALL: [Verdict; 7] = [
        Verdict::Verified,
        Verdict::HashMismatch,
        Verdict::DiskFull,
        Verdict::WriteFailed,
        Verdict::TooLarge,
        Verdict::OtherVersion,
        Verdict::Busy,
    ];

    pub(crate) fn reason(self) -> &'static str {
        match self {
            Verdict::Verified => "nothing is wrong",
            Verdict::HashMismatch => "the received file differs from what was sent",
            Verdict::DiskFull => "its disk is full",
            Verdict::WriteFailed => "it cannot write its file",
            Verdict::TooLarge => "the file is larger than it accepts",
            Verdict::OtherVersion => {
                "it expects another file format; run the same version at both ends"
            }
            Verdict::Busy => "it stored the file of another sender",
        }
    }
}

/// The receiver's answer to one transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The nonce of the preamble.
    pub(crate) nonce: Nonce,
    pub(crate) verdict: Verdict,
    /// Hash of what the receiver has.
    pub(crate) hash: Hash,
}

const ANSWER_MAGIC: [u8; 7] = *b"pnctlV2";

impl Answer {
    pub(crate) const BYTES: usize = 56;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..7].copy_from_slice(&ANSWER_MAGIC);
        bytes[7] = Verdict::ALL.iter().position(|v| *v == self.verdict).unwrap_or(0) as u8;
        bytes[8..24].copy_from_slice(&self.nonce);
        bytes[24..].copy_from_slice(&self.hash.0);
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        if bytes[..7] != ANSWER_MAGIC {
            return None;
        }
        let verdict = Verdict::ALL.get(usize::from(bytes[7])).copied()?;
        let mut answer = Answer { nonce: [0; 16], verdict, hash: Hash([0; 32]) };
        answer.nonce.copy_from_slice(&bytes[8..24]);
        answer.hash.0.copy_from_slice(&bytes[24..]);
        Some(answer)
    }
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn bytes__go_both_ways() {
        for deadline in [None, Some(Duration::from_millis(50))] {
            let preamble = Preamble { nonce: [9; 16], len: 1 << 40, hash: Hash([7; 32]), deadline };
            assert_eq!(Opening::of(&preamble.to_bytes()), Opening::File(preamble));
        }
        for verdict in Verdict::ALL {
            let answer = Answer { nonce: [3; 16], verdict, hash: Hash([5; 32]) };
            assert_eq!(Answer::from_bytes(&answer.to_bytes()), Some(answer));
        }
    }

    #[test]
    fn opening__of_other_flows() {
        assert_eq!(Opening::of(&[0; Preamble::BYTES]), Opening::Foreign);
        let mut other = [4; Preamble::BYTES];
        other[..8].copy_from_slice(b"pnctual9");
        assert_eq!(Opening::of(&other), Opening::OtherVersion([4; 16]));
        let mut unknown = [0; Answer::BYTES];
        unknown[..8].copy_from_slice(b"pnctlV2\xff");
        assert_eq!(Answer::from_bytes(&unknown), None);
    }
}
