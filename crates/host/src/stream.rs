//! The format of a file transfer, in messages of an [`Endpoint`](crate::Endpoint).
//!
//! The sender *offers* a file in a request. The receiver's [`Answer`] accepts it and says how much
//! of it is there already. Then *parts* follow as messages. The last bytes are in the request to
//! *store* the file, whose answer is the outcome.

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

/// A random number that the sender draws and only the receiver of its file learns. An answer that
/// has it comes from that receiver.
pub(crate) type Nonce = [u8; 16];

/// The first bytes of every version's messages. The version follows.
const MAGIC: [u8; 7] = *b"pnctual";
const VERSION: u8 = b'3';

/// A file that a sender offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) nonce: Nonce,
    /// Bytes of the file.
    pub(crate) len: u64,
    pub(crate) hash: Hash,
    /// Time left until the deadline when it was offered, in whole microseconds.
    pub(crate) deadline: Option<Duration>,
    /// Whether the receiver must not continue an earlier transfer: what it has is wrong.
    pub(crate) is_fresh: bool,
    /// The file's name, without its directory.
    pub(crate) name: Vec<u8>,
}

/// What the first bytes of a message turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// The rest of an offer follows.
    Offer,
    /// Bytes of a file from `offset` on follow.
    Part { nonce: Nonce, offset: u64 },
    /// The last bytes of a file follow. Then it is to be stored.
    Store { nonce: Nonce, offset: u64 },
    /// A message in the format of another version.
    OtherVersion(Nonce),
    /// No message of a file transfer.
    Foreign,
}

const OFFER: u8 = 0;
const PART: u8 = 1;
const STORE: u8 = 2;

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0u64, |value, byte| value << 8 | u64::from(*byte))
}

fn head(kind: u8, is_fresh: bool, nonce: Nonce, value: u64) -> [u8; Head::BYTES] {
    let mut bytes = [0; Head::BYTES];
    bytes[..7].copy_from_slice(&MAGIC);
    (bytes[7], bytes[8], bytes[9]) = (VERSION, kind, u8::from(is_fresh));
    bytes[16..32].copy_from_slice(&nonce);
    bytes[32..].copy_from_slice(&value.to_be_bytes());
    bytes
}

impl Head {
    pub(crate) const BYTES: usize = 40;

    pub(crate) fn of(bytes: &[u8; Self::BYTES]) -> Head {
        if bytes[..7] != MAGIC {
            return Head::Foreign;
        }
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&bytes[16..32]);
        let offset = number(&bytes[32..]);
        match (bytes[7], bytes[8]) {
            (VERSION, OFFER) => Head::Offer,
            (VERSION, PART) => Head::Part { nonce, offset },
            (VERSION, STORE) => Head::Store { nonce, offset },
            (VERSION, _) => Head::Foreign,
            _ => Head::OtherVersion(nonce),
        }
    }

    /// The first bytes of a part.
    pub(crate) fn part(nonce: Nonce, offset: u64) -> [u8; Self::BYTES] {
        head(PART, false, nonce, offset)
    }

    /// The first bytes of the request to store a file.
    pub(crate) fn store(nonce: Nonce, offset: u64) -> [u8; Self::BYTES] {
        head(STORE, false, nonce, offset)
    }
}

impl Offer {
    /// Bytes of the longest offer: file names have at most 255 bytes.
    pub(crate) const BYTES_MAX: usize = Self::FIXED + 255;
    const FIXED: usize = Head::BYTES + 40;

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let micros = match self.deadline {
            // Zero means no deadline.
            Some(deadline) => (deadline.as_nanos() / 1_000).max(1),
            None => 0,
        };
        let mut bytes = head(OFFER, self.is_fresh, self.nonce, self.len).to_vec();
        bytes.extend_from_slice(&self.hash.0);
        bytes.extend_from_slice(&micros.to_be_bytes());
        bytes.extend_from_slice(&self.name);
        bytes
    }

    /// The offer in a message whose head is [`Head::Offer`].
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Offer> {
        let fixed = bytes.first_chunk::<{ Self::FIXED }>()?;
        let mut offer = Offer {
            nonce: [0; 16],
            len: number(&fixed[32..]),
            hash: Hash([0; 32]),
            deadline: None,
            is_fresh: fixed[9] & 1 == 1,
            name: bytes.get(Self::FIXED..Self::BYTES_MAX.min(bytes.len()))?.to_vec(),
        };
        offer.nonce.copy_from_slice(&fixed[16..32]);
        offer.hash.0.copy_from_slice(&fixed[40..72]);
        offer.deadline = match number(&fixed[72..]) {
            0 => None,
            micros => Some(Duration::from_picos(micros.saturating_mul(1_000_000))),
        };
        Some(offer)
    }
}

/// What a receiver says about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The file is stored and its hash matches.
    Stored,
    /// The receiver takes the file and has its first bytes, whose count and hash the answer has.
    Accepted,
    HashMismatch,
    DiskFull,
    WriteFailed,
    TooLarge,
    OtherVersion,
    /// Another sender's file was stored first, or too many files arrive.
    Busy,
    /// A file of this name exists.
    Exists,
    /// The name of the file is not acceptable.
    BadName,
    /// Parts are missing, or the receiver does not know the transfer.
    Incomplete,
}

impl Verdict {
    const ALL: [Verdict; 11] = [
        Verdict::Stored,
        Verdict::Accepted,
        Verdict::HashMismatch,
        Verdict::DiskFull,
        Verdict::WriteFailed,
        Verdict::TooLarge,
        Verdict::OtherVersion,
        Verdict::Busy,
        Verdict::Exists,
        Verdict::BadName,
        Verdict::Incomplete,
    ];

    pub(crate) fn reason(self) -> &'static str {
        match self {
            Verdict::Stored | Verdict::Accepted => "nothing is wrong",
            Verdict::HashMismatch => "the received file differs from what was sent",
            Verdict::DiskFull => "its disk is full",
            Verdict::WriteFailed => "it cannot write its file",
            Verdict::TooLarge => "the file is larger than it accepts",
            Verdict::OtherVersion => {
                "it expects another file format; run the same version at both ends"
            }
            Verdict::Busy => "it stored the file of another sender",
            Verdict::Exists => {
                "a file of that name exists there; `receive --overwrite` replaces it"
            }
            Verdict::BadName => {
                "it does not accept the file's name: hidden files and control characters are refused"
            }
            Verdict::Incomplete => "it gave the transfer up; send the file again",
        }
    }
}

/// The receiver's answer to an offer, or to the request to store a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The nonce of the offer.
    pub(crate) nonce: Nonce,
    pub(crate) verdict: Verdict,
    /// Hash of the bytes that the receiver has.
    pub(crate) hash: Hash,
    /// Bytes from the beginning of the file that the receiver has.
    pub(crate) have: u64,
    /// Microseconds from the arrival of the last byte until the file was stored.
    pub(crate) storing_us: u64,
}

const ANSWER_MAGIC: [u8; 7] = *b"pnctlV3";

impl Answer {
    pub(crate) const BYTES: usize = 72;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..7].copy_from_slice(&ANSWER_MAGIC);
        bytes[7] = Verdict::ALL.iter().position(|v| *v == self.verdict).unwrap_or(0) as u8;
        bytes[8..24].copy_from_slice(&self.nonce);
        bytes[24..56].copy_from_slice(&self.hash.0);
        bytes[56..64].copy_from_slice(&self.have.to_be_bytes());
        bytes[64..].copy_from_slice(&self.storing_us.to_be_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        if bytes[..7] != ANSWER_MAGIC {
            return None;
        }
        let verdict = Verdict::ALL.get(usize::from(bytes[7])).copied()?;
        let mut answer = Answer {
            nonce: [0; 16],
            verdict,
            hash: Hash([0; 32]),
            have: number(&bytes[56..]),
            storing_us: number(&bytes[64..]),
        };
        answer.nonce.copy_from_slice(&bytes[8..24]);
        answer.hash.0.copy_from_slice(&bytes[24..56]);
        Some(answer)
    }
}

/// The name under which a receiver stores a file that its sender names; `None` if the name could
/// surprise: a path, a hidden file, control characters or characters that reverse the direction of
/// text.
pub(crate) fn safe_name(name: &[u8]) -> Option<&str> {
    let name = core::str::from_utf8(name).ok()?;
    let is_odd = |c: char| {
        c.is_control()
            || c == '/'
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let is_fine = !name.is_empty() && name.len() <= 255 && !name.starts_with('.');
    (is_fine && !name.contains(is_odd)).then_some(name)
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn bytes__go_both_ways() {
        for deadline in [None, Some(Duration::from_millis(50))] {
            for (is_fresh, name) in [(false, &b""[..]), (true, &[b'n'; 255])] {
                let (nonce, hash) = ([9; 16], Hash([7; 32]));
                let name = name.to_vec();
                let offer = Offer { nonce, len: 1 << 40, hash, deadline, is_fresh, name };
                let bytes = offer.to_bytes();
                assert!(bytes.len() <= Offer::BYTES_MAX);
                assert_eq!(Head::of(bytes.first_chunk().unwrap()), Head::Offer);
                assert_eq!(Offer::from_bytes(&bytes), Some(offer));
                assert_eq!(Offer::from_bytes(&bytes[..79]), None);
            }
        }
        let (nonce, offset) = ([3; 16], u64::MAX);
        assert_eq!(Head::of(&Head::part(nonce, offset)), Head::Part { nonce, offset });
        assert_eq!(Head::of(&Head::store(nonce, offset)), Head::Store { nonce, offset });
        for verdict in Verdict::ALL {
            let hash = Hash([5; 32]);
            let answer = Answer { nonce, verdict, hash, have: 7, storing_us: 8 };
            assert_eq!(Answer::from_bytes(&answer.to_bytes()), Some(answer));
        }
    }

    #[test]
    fn head__of_other_messages() {
        assert_eq!(Head::of(&[0; Head::BYTES]), Head::Foreign);
        let mut other = [4; Head::BYTES];
        other[..8].copy_from_slice(b"pnctual9");
        assert_eq!(Head::of(&other), Head::OtherVersion([4; 16]));
        other[..9].copy_from_slice(b"pnctual3\xff");
        assert_eq!(Head::of(&other), Head::Foreign);
        let mut unknown = [0; Answer::BYTES];
        unknown[..8].copy_from_slice(b"pnctlV3\xff");
        assert_eq!(Answer::from_bytes(&unknown), None);
        assert_eq!(Answer::from_bytes(&[]), None);
    }

    #[test]
    fn safe_name__refuses_surprises() {
        for name in ["a", "a b.txt", "größe.bin", "-rf", "a..b", &"x".repeat(255)] {
            assert_eq!(safe_name(name.as_bytes()), Some(name));
        }
        let long = "x".repeat(256);
        for name in
            ["", ".", "..", ".bashrc", "a/b", "/etc", "../a", "a\0", "a\nb", "\u{202e}a", &long]
        {
            assert_eq!(safe_name(name.as_bytes()), None, "{name:?}");
        }
        assert_eq!(safe_name(b"\xff"), None);
    }
}
