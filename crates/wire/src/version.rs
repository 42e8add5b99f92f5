//! The answer to a datagram of another version of the envelope.

use crate::check::crc16;
use crate::envelope::{ENVELOPE_BYTES, MAGIC, VERSION};
use crate::layout::FieldLayout;

/// Tells a sender that its datagram has another version of the envelope than this host reads.
///
/// All versions keep three things: the magic number and the version in byte 0, the flow number in
/// bytes 4 to 7, and this answer, whose version is 0.
///
/// ```text
/// 0xd0, version that the host reads, 0, 0, flow number (4), CRC-16 of the others (2), 0, 0
/// ```
///
/// It is shorter than every datagram that causes it, and nothing answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionAnswer {
    /// The version that the answering host reads.
    pub version: u8,
    /// The flow number of the datagram that it could not read.
    pub flow: u32,
}

const CHECK_AT: usize = 8;

/// The fields of the answer after byte 0, in order.
pub const VERSION_ANSWER_LAYOUT: &[FieldLayout] = &[
    FieldLayout::new("reads", 1, 1, "version that the host reads"),
    FieldLayout::new("reserved", 2, 2, "0"),
    FieldLayout::new("flow", 4, 4, "flow number of the datagram that it could not read"),
    FieldLayout::new("check", CHECK_AT, 2, "CRC-16 of the other bytes, with 0 here"),
    FieldLayout::new("padding", 10, 2, "0"),
];

/// No answer is larger than its cause.
const _: () = assert!(VersionAnswer::BYTES < ENVELOPE_BYTES);

impl VersionAnswer {
    /// Bytes of the answer.
    pub const BYTES: usize = 12;

    /// The answer to a datagram. `None` if the datagram needs none: it has this version, is itself
    /// an answer, is of no version of this protocol, or is shorter than an envelope.
    pub fn to(datagram: &[u8]) -> Option<VersionAnswer> {
        let first = *datagram.first()?;
        let is_ours = first >> 4 == MAGIC && datagram.len() >= ENVELOPE_BYTES;
        if !is_ours || matches!(first & 15, 0 | VERSION) {
            return None;
        }
        let flow = datagram.get(4..8)?.first_chunk()?;
        Some(VersionAnswer { version: VERSION, flow: u32::from_be_bytes(*flow) })
    }

    /// The datagram of this answer.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        (bytes[0], bytes[1]) = (MAGIC << 4, self.version);
        bytes[4..8].copy_from_slice(&self.flow.to_be_bytes());
        let check = crc16(&[&bytes]);
        bytes[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
        bytes
    }

    /// The answer in a datagram. `None` if it is none.
    pub fn parse(datagram: &[u8]) -> Option<VersionAnswer> {
        let bytes: &[u8; Self::BYTES] = datagram.try_into().ok()?;
        let flow = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let answer = VersionAnswer { version: bytes[1], flow };
        (answer.to_bytes() == *bytes).then_some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_answer__goes_both_ways() {
        let answer = VersionAnswer { version: 7, flow: 0x1234_5678 };
        let bytes = answer.to_bytes();
        assert_eq!(VersionAnswer::parse(&bytes), Some(answer));
        for bit in 0..8 * bytes.len() {
            let mut wrong = bytes;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(VersionAnswer::parse(&wrong), None, "bit {bit}");
        }
    }

    /// Only whole envelopes of other versions have an answer, which is shorter and has none itself.
    #[test]
    fn version_answer__answers_other_versions_only() {
        let mut datagram = [0x11; ENVELOPE_BYTES];
        for version in 0..16 {
            datagram[0] = MAGIC << 4 | version;
            let expected = (version != 0 && version != VERSION)
                .then_some(VersionAnswer { version: VERSION, flow: 0x1111_1111 });
            assert_eq!(VersionAnswer::to(&datagram), expected, "version {version}");
            assert_eq!(VersionAnswer::to(&datagram[1..]), None);
        }
        datagram[0] = 0xc3;
        assert_eq!(VersionAnswer::to(&datagram), None);
        assert_eq!(VersionAnswer::to(&[]), None);
    }
}
