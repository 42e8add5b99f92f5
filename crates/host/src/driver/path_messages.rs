//! The packets by which two hosts agree on further paths between them. They are longer forms of the
//! ping and its answer (kinds 12 and 13).
//!
//! ```text
//! Ask     sender -> receiver   which addresses have you, and where do I seem to be?
//! Offer   receiver -> sender   a token for your address, your address, my other addresses
//! Join    new path             I am the process at this address, here is its token
//! Joined  new path             a token for this source: send it back; or: this path is yours
//! ```
//!
//! The receiver keeps no state until a `Join` has both tokens, so that its sender has proven that
//! it receives packets at both addresses.

use punctual_core::{Class, PacketFlags};
use punctual_wire::{Datagram, ENVELOPE_BYTES, Envelope, Kind, WireName};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Proves that its sender receives packets at its address.
pub(super) type Token = [u8; 16];

/// A packet about paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathMessage {
    Ask { number: u64 },
    Offer { number: u64, token: Token, seen: SocketAddr, more: Vec<SocketAddr> },
    Join { number: u64, token: Token, main: SocketAddr, own: Token },
    Joined { number: u64, own: Token, answer: JoinAnswer },
}

/// The answer to a `Join`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JoinAnswer {
    /// Send the token back.
    Prove,
    /// The path may be used.
    Done,
    /// The token of the main address is too old: ask again.
    AskAgain,
}

const ASK: u8 = 1;
const JOIN: u8 = 2;
const PING: u8 = 12;
const PONG: u8 = 13;

/// Bytes of an `Ask`, so large that its answer is not three times as long.
const ASK_BYTES: usize = 100;
/// Most addresses in an offer.
pub(super) const OFFERED_MAX: usize = 8;
const ADDRESS_BYTES: usize = 19;

impl PathMessage {
    /// The datagram of this packet.
    pub(super) fn to_bytes(&self, transport: u8, name: WireName) -> Vec<u8> {
        let mut bytes = vec![0; ENVELOPE_BYTES];
        let kind = match self {
            PathMessage::Ask { number } => {
                bytes.extend_from_slice(&number.to_be_bytes());
                bytes.push(ASK);
                bytes.resize(ENVELOPE_BYTES + ASK_BYTES, 0);
                PING
            }
            PathMessage::Join { number, token, main, own } => {
                bytes.extend_from_slice(&number.to_be_bytes());
                bytes.push(JOIN);
                bytes.extend_from_slice(token);
                bytes.extend_from_slice(own);
                put_address(&mut bytes, *main);
                PING
            }
            PathMessage::Offer { number, token, seen, more } => {
                bytes.extend_from_slice(&number.to_be_bytes());
                bytes.push(ASK);
                bytes.extend_from_slice(token);
                put_address(&mut bytes, *seen);
                more.iter().take(OFFERED_MAX).for_each(|address| put_address(&mut bytes, *address));
                PONG
            }
            PathMessage::Joined { number, own, answer } => {
                bytes.extend_from_slice(&number.to_be_bytes());
                bytes.push(JOIN);
                bytes.extend_from_slice(own);
                bytes.push(*answer as u8);
                PONG
            }
        };
        let flags = if kind == PONG { PacketFlags::TO_SENDER } else { PacketFlags::empty() };
        let envelope = Envelope {
            transport,
            kind: Kind::new(kind),
            class: Class::CONTROL,
            flags,
            is_syn: false,
            keyed: None,
            name,
            path: 0,
            payload_bytes: (bytes.len() - ENVELOPE_BYTES) as u16,
        };
        envelope.seal(&mut bytes, 0);
        bytes
    }

    /// The packet about paths in a datagram; `None` if it is none.
    pub(super) fn of(datagram: &Datagram<'_>) -> Option<PathMessage> {
        let is_answer = match datagram.envelope.kind.number() {
            PING => false,
            PONG => true,
            _ => return None,
        };
        let (number, rest) = datagram.payload.split_first_chunk::<8>()?;
        let number = u64::from_be_bytes(*number);
        let (kind, rest) = rest.split_first()?;
        match (*kind, is_answer) {
            (ASK, false) if datagram.payload.len() >= ASK_BYTES => {
                Some(PathMessage::Ask { number })
            }
            (ASK, true) => {
                let (token, rest) = rest.split_first_chunk::<16>()?;
                let (seen, rest) = take_address(rest)?;
                let mut more = Vec::new();
                let mut rest = rest;
                while let Some((address, after)) = take_address(rest)
                    && more.len() < OFFERED_MAX
                {
                    more.push(address);
                    rest = after;
                }
                Some(PathMessage::Offer { number, token: *token, seen, more })
            }
            (JOIN, false) => {
                let (token, rest) = rest.split_first_chunk::<16>()?;
                let (own, rest) = rest.split_first_chunk::<16>()?;
                let (main, _) = take_address(rest)?;
                Some(PathMessage::Join { number, token: *token, main, own: *own })
            }
            (JOIN, true) => {
                let (own, rest) = rest.split_first_chunk::<16>()?;
                let answer = match rest.first()? {
                    0 => JoinAnswer::Prove,
                    1 => JoinAnswer::Done,
                    2 => JoinAnswer::AskAgain,
                    _ => return None,
                };
                Some(PathMessage::Joined { number, own: *own, answer })
            }
            _ => None,
        }
    }
}

fn put_address(bytes: &mut Vec<u8>, address: SocketAddr) {
    let mut raw = [0; ADDRESS_BYTES];
    match address.ip() {
        IpAddr::V4(ip) => {
            raw[0] = 4;
            raw[1..5].copy_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            raw[0] = 6;
            raw[1..17].copy_from_slice(&ip.octets());
        }
    }
    raw[17..].copy_from_slice(&address.port().to_be_bytes());
    bytes.extend_from_slice(&raw);
}

fn take_address(bytes: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let (raw, rest) = bytes.split_first_chunk::<ADDRESS_BYTES>()?;
    let ip = match raw[0] {
        4 => IpAddr::from(Ipv4Addr::new(raw[1], raw[2], raw[3], raw[4])),
        6 => IpAddr::from(Ipv6Addr::from(*raw[1..17].first_chunk::<16>()?)),
        _ => return None,
    };
    Some((SocketAddr::new(ip, u16::from_be_bytes([raw[17], raw[18]])), rest))
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn messages__are_read_as_they_were_written() {
        let (v4, v6) = (
            SocketAddr::from(([10, 0, 0, 1], 7_000)),
            SocketAddr::from(([0xfe80, 0, 0, 0, 0, 0, 0, 1], 9)),
        );
        let messages = [
            PathMessage::Ask { number: 7 },
            PathMessage::Offer { number: 8, token: [1; 16], seen: v4, more: vec![v6, v4] },
            PathMessage::Join { number: 9, token: [2; 16], main: v6, own: [3; 16] },
            PathMessage::Joined { number: u64::MAX, own: [4; 16], answer: JoinAnswer::Done },
            PathMessage::Joined { number: 0, own: [0; 16], answer: JoinAnswer::AskAgain },
        ];
        for message in messages {
            let bytes = message.to_bytes(1, WireName { flow: 0, incarnation: 5 });
            let datagram = Datagram::parse(&bytes).unwrap();
            assert_eq!(PathMessage::of(&datagram), Some(message.clone()));
            for len in ENVELOPE_BYTES..bytes.len() {
                // Cut packets are trimmed ones: their payload is empty.
                if let Ok(cut) = Datagram::parse(&bytes[..len]) {
                    assert_eq!(PathMessage::of(&cut), None, "{message:?} cut to {len}");
                }
            }
        }
    }

    #[test]
    fn offers__are_at_most_three_times_as_long_as_what_asked_for_them() {
        let name = WireName::default();
        let seen = SocketAddr::from(([10, 0, 0, 1], 7_000));
        let offer =
            PathMessage::Offer { number: 8, token: [1; 16], seen, more: vec![seen; OFFERED_MAX] };
        let asked = PathMessage::Ask { number: 8 }.to_bytes(1, name).len();
        assert!(offer.to_bytes(1, name).len() <= 3 * asked);
    }

    /// A fuzz target: what is read from any payload is written and read again as it is.
    #[test]
    fn fuzz_path_messages() {
        bolero::check!().with_max_len(300).for_each(|bytes| {
            let Some((choice, rest)) = bytes.split_first() else { return };
            let mut datagram = vec![0; ENVELOPE_BYTES];
            datagram.extend_from_slice(rest);
            // The forms that a random byte seldom has: ask or join, and the family of an address.
            for (at, bit) in [(8, 1), (25, 2), (41, 3), (44, 4)] {
                if let Some(byte) = datagram.get_mut(ENVELOPE_BYTES + at) {
                    let one = choice >> bit & 1;
                    *byte = if at == 8 { ASK + one } else { 4 + 2 * one };
                }
            }
            let envelope = Envelope {
                transport: 1,
                kind: Kind::new(PING + (choice & 1)),
                class: Class::CONTROL,
                flags: PacketFlags::empty(),
                is_syn: false,
                keyed: None,
                name: WireName::default(),
                path: 0,
                payload_bytes: rest.len() as u16,
            };
            envelope.seal(&mut datagram, 0);
            let parsed = Datagram::parse(&datagram).expect("a sound envelope");
            let Some(message) = PathMessage::of(&parsed) else { return };
            if let PathMessage::Offer { more, .. } = &message {
                assert!(more.len() <= OFFERED_MAX);
            }
            let again = message.to_bytes(1, WireName::default());
            let again = Datagram::parse(&again).expect("our own packet");
            assert_eq!(PathMessage::of(&again), Some(message));
        });
    }
}
