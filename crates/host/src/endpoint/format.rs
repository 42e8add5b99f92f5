//! The prologue of a message and the packets of the host stack.

use crate::seal::Key;
use punctual_core::{Class, PacketFlags};
use punctual_wire::{Codec, Datagram, ENVELOPE_BYTES, Envelope, Kind, NdpCodec, WireName};
use std::net::SocketAddr;

/// What a flow carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Message,
    Request,
    Response,
}

/// The first bytes of every flow, before the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prologue {
    pub(super) purpose: Purpose,
    /// The receiving process for which the message is; `None` if its sender does not know it.
    pub(super) to_incarnation: Option<u16>,
    /// Time left until the deadline when the flow began, in microseconds; 0 without a deadline.
    pub(super) deadline_us: u64,
    /// Ties a response to its request.
    pub(super) id: u64,
    /// The number of the service at the receiving host; 0 if its sender names none.
    pub(super) service: u32,
    /// The number of a response from the receiving host that has arrived. It replaces the
    /// acknowledgement of that response.
    pub(super) confirms: Option<u32>,
}

/// What the first bytes of a flow are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    Message(Prologue),
    OtherVersion,
}

const VERSION: u8 = 0xa2;
/// Set in the byte of the purpose if `confirms` is valid.
const CONFIRMS_BIT: u8 = 0x80;

impl Prologue {
    pub(super) const BYTES: usize = 28;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = VERSION;
        bytes[1] = self.purpose as u8 | if self.confirms.is_some() { CONFIRMS_BIT } else { 0 };
        bytes[2..4].copy_from_slice(&self.to_incarnation.unwrap_or(0).to_be_bytes());
        bytes[4..8].copy_from_slice(&self.service.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.deadline_us.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.id.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.confirms.unwrap_or(0).to_be_bytes());
        bytes
    }
}

impl Opening {
    pub(super) fn of(bytes: &[u8; Prologue::BYTES]) -> Opening {
        let number = |at: usize| {
            bytes[at..at + 8].iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
        };
        let half = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let purpose = match (bytes[0], bytes[1] & !CONFIRMS_BIT) {
            (VERSION, 0) => Purpose::Message,
            (VERSION, 1) => Purpose::Request,
            (VERSION, 2) => Purpose::Response,
            _ => return Opening::OtherVersion,
        };
        let to = u16::from_be_bytes([bytes[2], bytes[3]]);
        let to_incarnation = (to != 0).then_some(to);
        Opening::Message(Prologue {
            purpose,
            to_incarnation,
            deadline_us: number(8),
            id: number(16),
            service: half(4),
            confirms: (bytes[1] & CONFIRMS_BIT != 0).then(|| half(24)),
        })
    }
}

/// Proves that its sender receives packets at its address.
pub(super) type Token = [u8; 16];

/// How a flow ended, as its receiver reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The receiver has every byte.
    Done,
    /// The receiver does not have the message and will not take it.
    Gone,
    /// The receiver has discarded the message, as its sender asked.
    Cancelled,
    NotListening,
    TooLarge,
    /// The receiving application has closed the message.
    Refused,
    OtherVersion,
    /// The receiver has another MTU, and the transport needs the same one.
    OtherMtu,
}

const ENDS: [End; 8] = [
    End::Done,
    End::Gone,
    End::Cancelled,
    End::NotListening,
    End::TooLarge,
    End::Refused,
    End::OtherVersion,
    End::OtherMtu,
];

/// A packet of the host stack. Kinds 8 to 15 on the wire, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Control {
    /// To a flow's sender: send the token back, then start again. Microseconds since the receiver
    /// started.
    Retry {
        token: Token,
        uptime_us: u64,
    },
    /// The token of a `Retry` or `Challenge`.
    Token(Token),
    /// To a flow's sender: how it ended.
    Ended(End),
    /// To a flow's receiver: discard it.
    Cancel,
    /// Asks for a `Pong` with the same number.
    Ping(u64),
    Pong(u64),
    /// To the sender of a request: send the token back; the response waits for it.
    Challenge(Token),
    /// To a flow's sender: the receiver is alive but has no room.
    Wait,
}

impl Control {
    fn kind(&self) -> u8 {
        8 + match self {
            Control::Retry { .. } => 0,
            Control::Token(_) => 1,
            Control::Ended(_) => 2,
            Control::Cancel => 3,
            Control::Ping(_) => 4,
            Control::Pong(_) => 5,
            Control::Challenge(_) => 6,
            Control::Wait => 7,
        }
    }

    /// The datagram of this packet.
    pub(super) fn to_bytes(self, name: WireName) -> Vec<u8> {
        let mut bytes = vec![0; ENVELOPE_BYTES];
        match self {
            Control::Retry { token, uptime_us } => {
                bytes.extend_from_slice(&token);
                bytes.extend_from_slice(&uptime_us.to_be_bytes());
            }
            Control::Token(token) | Control::Challenge(token) => bytes.extend_from_slice(&token),
            Control::Ended(end) => bytes.push(end as u8),
            Control::Ping(number) | Control::Pong(number) => {
                bytes.extend_from_slice(&number.to_be_bytes());
            }
            Control::Cancel | Control::Wait => {}
        }
        let to_sender = !matches!(self, Control::Token(_) | Control::Cancel | Control::Ping(_));
        let flags = if to_sender { PacketFlags::TO_SENDER } else { PacketFlags::empty() };
        let envelope = Envelope {
            transport: NdpCodec::TRANSPORT,
            kind: Kind::new(self.kind()),
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

    /// The control packet in a datagram; `None` if it is none, or trimmed.
    pub(super) fn of(datagram: &Datagram<'_>) -> Option<Control> {
        let payload = datagram.payload;
        let token = || payload.first_chunk::<16>().copied();
        let number = |at: usize| {
            let bytes = payload.get(at..at + 8)?;
            Some(bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte)))
        };
        Some(match datagram.envelope.kind.number() {
            8 => Control::Retry { token: token()?, uptime_us: number(16)? },
            9 => Control::Token(token()?),
            10 => Control::Ended(*ENDS.get(usize::from(*payload.first()?))?),
            11 => Control::Cancel,
            12 => Control::Ping(number(0)?),
            13 => Control::Pong(number(0)?),
            14 => Control::Challenge(token()?),
            15 => Control::Wait,
            _ => return None,
        })
    }
}

/// Makes and verifies tokens without state per peer.
#[derive(Debug)]
pub(super) struct Tokens {
    secret: [u8; 32],
}

/// How long a token is valid, at least.
const TOKEN_SECS: u64 = 5;

impl Tokens {
    pub(super) fn new(secret: [u8; 32]) -> Self {
        Tokens { secret }
    }

    fn in_period(&self, peer: SocketAddr, period: u64) -> Token {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        match peer {
            SocketAddr::V4(v4) => hasher.update(&v4.ip().octets()),
            SocketAddr::V6(v6) => hasher.update(&v6.ip().octets()),
        };
        hasher.update(&peer.port().to_be_bytes());
        hasher.update(&period.to_be_bytes());
        let mut token = [0; 16];
        token.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        token
    }

    /// The token of an address, `secs` after the start.
    pub(super) fn make(&self, peer: SocketAddr, secs: u64) -> Token {
        self.in_period(peer, secs / TOKEN_SECS)
    }

    /// Whether this address has received the token recently.
    pub(super) fn is_valid(&self, peer: SocketAddr, secs: u64, token: &Token) -> bool {
        let period = secs / TOKEN_SECS;
        [Some(period), period.checked_sub(1)].into_iter().flatten().any(|period| {
            let expected = self.in_period(peer, period);
            expected.iter().zip(token).fold(0, |all, (a, b)| all | (a ^ b)) == 0
        })
    }
}

/// The largest datagram overhead of keyed mode.
pub(super) fn key_bytes(key: Option<&Key>) -> u64 {
    key.map_or(0, |_| crate::seal::Seal::BYTES)
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn controls__go_both_ways() {
        let name = WireName { flow: 7, incarnation: 9 };
        let controls = [
            Control::Retry { token: [3; 16], uptime_us: 1 << 40 },
            Control::Token([4; 16]),
            Control::Cancel,
            Control::Ping(5),
            Control::Pong(6),
            Control::Challenge([8; 16]),
            Control::Wait,
        ];
        for control in controls.into_iter().chain(ENDS.map(Control::Ended)) {
            let bytes = control.to_bytes(name);
            let datagram = Datagram::parse(&bytes).unwrap();
            assert_eq!(Control::of(&datagram), Some(control));
            assert_eq!(datagram.envelope.name, name);
            // Each answer is at most three times the smallest packet that causes one.
            assert!(bytes.len() <= 3 * ENVELOPE_BYTES);
        }
    }

    #[test]
    fn prologue__goes_both_ways() {
        for purpose in [Purpose::Message, Purpose::Request, Purpose::Response] {
            for to_incarnation in [None, Some(77)] {
                for confirms in [None, Some(0), Some(0xdead_beef)] {
                    let (id, service) = (1 << 60, 0x8000_0007);
                    let deadline_us = 5;
                    let prologue =
                        Prologue { purpose, to_incarnation, deadline_us, id, service, confirms };
                    assert_eq!(Opening::of(&prologue.to_bytes()), Opening::Message(prologue));
                }
            }
        }
        assert_eq!(Opening::of(&[0; Prologue::BYTES]), Opening::OtherVersion);
    }

    #[test]
    fn tokens__prove_one_address_for_some_seconds() {
        let tokens = Tokens::new([1; 32]);
        let [here, there] = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let token = tokens.make(here, 100);
        assert!(tokens.is_valid(here, 100, &token) && tokens.is_valid(here, 104, &token));
        assert!(!tokens.is_valid(there, 100, &token));
        assert!(!tokens.is_valid(here, 110, &token));
        assert!(!Tokens::new([2; 32]).is_valid(here, 100, &token));
    }
}
