//! What a client and the daemon say to each other: a greeting over the Unix socket, then frames in
//! shared memory. After the greeting, a byte over the socket is a wake-up and its end is the end of
//! the other process.

use super::ring::{HEADER_WORDS, Header};
use crate::endpoint::{
    HostTransport, Outcome, PingAnswer, ReceiveError, SendError, SendOptions, Service, Times,
};
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

/// The version of the frames. Both ends must have the same.
pub const VERSION: u32 = 3;

/// Bytes of either greeting.
pub(super) const GREETING_BYTES: usize = 64;
const MAGIC: [u8; 8] = *b"pnctlhd\0";

/// Bytes of a message that the daemon passes on before its reader has read any of them.
pub(super) const CREDIT: u64 = 256 << 10;
/// Most sends of one client at once.
pub(super) const SENDS_MAX: usize = 4_096;

/// The client's greeting.
pub(super) fn hello() -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_ne_bytes());
    bytes
}

/// The version in a client's greeting; `None` if it is none.
pub(super) fn version_of(bytes: &[u8; GREETING_BYTES]) -> Option<u32> {
    let version = bytes[8..12].try_into().map(u32::from_ne_bytes);
    version.ok().filter(|_| bytes[..8] == MAGIC)
}

/// Why the daemon does not serve a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    OtherVersion,
    TooManyClients,
    Stopping,
    NoMemory,
}

const REFUSALS: [Refusal; 4] =
    [Refusal::OtherVersion, Refusal::TooManyClients, Refusal::Stopping, Refusal::NoMemory];

/// The daemon's greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Welcome {
    pub(super) refusal: Option<Refusal>,
    pub(super) version: u32,
    /// The address of the daemon's UDP socket.
    pub(super) local: SocketAddr,
    /// Capacity of each ring, in words.
    pub(super) capacity: u64,
    /// Memory for messages that the client sends.
    pub(super) send_memory: u64,
}

impl Welcome {
    pub(super) fn to_bytes(self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_ne_bytes());
        let refusal = REFUSALS.iter().position(|r| Some(*r) == self.refusal);
        bytes[12] = refusal.map_or(0, |at| at as u8 + 1);
        let [a, b, c] = address_words(self.local);
        for (i, word) in [a, b, c, self.capacity, self.send_memory].iter().enumerate() {
            bytes[16 + 8 * i..24 + 8 * i].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    pub(super) fn of(bytes: &[u8; GREETING_BYTES]) -> Option<Self> {
        let version = version_of(bytes)?;
        let word = |i: usize| {
            bytes[16 + 8 * i..24 + 8 * i].try_into().map(u64::from_ne_bytes).unwrap_or_default()
        };
        let refusal = match bytes[12] {
            0 => None,
            number => Some(*REFUSALS.get(usize::from(number) - 1)?),
        };
        let local = address_of([word(0), word(1), word(2)])?;
        Some(Welcome { refusal, version, local, capacity: word(3), send_memory: word(4) })
    }
}

fn address_words(address: SocketAddr) -> [u64; 3] {
    let (bits, scope) = match address {
        SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped().to_bits(), 0),
        SocketAddr::V6(v6) => (v6.ip().to_bits(), v6.scope_id()),
    };
    let flags = u64::from(address.port()) | u64::from(address.is_ipv6()) << 16;
    [(bits >> 64) as u64, bits as u64, flags | u64::from(scope) << 32]
}

fn address_of([high, low, flags]: [u64; 3]) -> Option<SocketAddr> {
    let ip = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
    let port = flags as u16;
    match flags >> 16 & 0xffff {
        0 => Some(SocketAddr::from((ip.to_ipv4_mapped()?, port))),
        1 => Some(SocketAddrV6::new(ip, port, 0, (flags >> 32) as u32).into()),
        _ => None,
    }
}

fn time_word(time: Option<Duration>) -> u64 {
    // Zero means none.
    time.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1))
}

fn time_of(word: u64) -> Option<Duration> {
    (word != 0).then(|| Duration::from_nanos(word))
}

/// A frame from a client. Tokens are chosen by the client, ids of messages by the daemon.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Request {
    /// Send a message of `len` bytes, of which the payload is the first. `at` is when the
    /// application asked for it, in nanoseconds of the system's monotonic clock.
    Submit {
        token: u64,
        peer: SocketAddr,
        len: u64,
        at: u64,
        wants_response: bool,
        options: SendOptions,
    },
    /// Send the response to a request that arrived.
    Respond {
        token: u64,
        message: u64,
        len: u64,
        at: u64,
        deadline: Option<Duration>,
    },
    /// The next bytes of a message to send are the payload.
    Bytes {
        token: u64,
    },
    Cancel {
        token: u64,
    },
    SetDeadline {
        token: u64,
        deadline: Option<Duration>,
    },
    Listen {
        service: Service,
    },
    /// The application has read this many more bytes of a message.
    Read {
        message: u64,
        bytes: u64,
    },
    Release {
        message: u64,
    },
    Ping {
        token: u64,
        peer: SocketAddr,
    },
    Stats,
    /// The client ends as intended; its sends go on.
    Goodbye,
}

const PRIORITY_NONE: u64 = 0xff;

fn transport_word(transport: HostTransport) -> u64 {
    u64::from(transport.place())
}

fn transport_of(word: u64) -> Option<HostTransport> {
    HostTransport::at(u8::try_from(word).ok()?)
}

impl Request {
    pub(super) fn to_words(self) -> Header {
        let mut words = [0; HEADER_WORDS];
        let mut set = |values: &[u64]| words[..values.len()].copy_from_slice(values);
        match self {
            Request::Submit { token, peer, len, at, wants_response, options } => {
                let [a, b, c] = address_words(peer);
                let flags = u64::from(wants_response)
                    | u64::from(options.give_up_late) << 1
                    | options.priority.map_or(PRIORITY_NONE, u64::from) << 8
                    | transport_word(options.transport) << 16
                    | u64::from(options.service.get()) << 32;
                let [deadline, patience] = [options.deadline, options.patience].map(time_word);
                set(&[1, token, a, b, c, len, at, flags, deadline, patience]);
            }
            Request::Respond { token, message, len, at, deadline } => {
                set(&[2, token, message, len, at, time_word(deadline)]);
            }
            Request::Bytes { token } => set(&[3, token]),
            Request::Cancel { token } => set(&[4, token]),
            Request::SetDeadline { token, deadline } => set(&[5, token, time_word(deadline)]),
            Request::Listen { service } => set(&[7, u64::from(service.get())]),
            Request::Read { message, bytes } => set(&[8, message, bytes]),
            Request::Release { message } => set(&[9, message]),
            Request::Ping { token, peer } => {
                let [a, b, c] = address_words(peer);
                set(&[10, token, a, b, c]);
            }
            Request::Stats => set(&[11]),
            Request::Goodbye => set(&[12]),
        }
        words
    }

    /// The token of the send that a frame begins, if it begins one.
    pub(super) fn begun_by(words: &Header) -> Option<u64> {
        matches!(words[0] as u32, 1 | 2).then_some(words[1])
    }

    /// The request in a frame; `None` if it is none.
    pub(super) fn of(words: &Header) -> Option<Self> {
        let [kind, a, b, c, d, e, f, g, h, i] = *words;
        let service = |word: u64| u32::try_from(word).ok().map(Service::number);
        Some(match kind as u32 {
            1 => Request::Submit {
                token: a,
                peer: address_of([b, c, d])?,
                len: e,
                at: f,
                wants_response: g & 1 == 1,
                options: SendOptions {
                    deadline: time_of(h),
                    give_up_late: g >> 1 & 1 == 1,
                    priority: Some(g >> 8 & 0xff).filter(|p| *p != PRIORITY_NONE).map(|p| p as u8),
                    patience: time_of(i),
                    transport: transport_of(g >> 16 & 0xff)?,
                    service: service(g >> 32)?,
                },
            },
            2 => Request::Respond { token: a, message: b, len: c, at: d, deadline: time_of(e) },
            3 => Request::Bytes { token: a },
            4 => Request::Cancel { token: a },
            5 => Request::SetDeadline { token: a, deadline: time_of(b) },
            7 => Request::Listen { service: service(a)? },
            8 => Request::Read { message: a, bytes: b },
            9 => Request::Release { message: a },
            10 => Request::Ping { token: a, peer: address_of([b, c, d])? },
            11 => Request::Stats,
            12 => Request::Goodbye,
            _ => return None,
        })
    }
}

/// A frame from the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// How a send ended; the payload is a text of its error. Fields of [`Ended`].
    Ended { token: u64, ended: Ended },
    /// The next bytes of the response to a request are the payload.
    Response { token: u64 },
    /// A message has arrived. `deadline` is a time of the system's monotonic clock, 0 if none.
    Arrived {
        message: u64,
        peer: SocketAddr,
        len: u64,
        deadline: u64,
        is_request: bool,
        service: Service,
    },
    /// The next bytes of a message are the payload; the last ones if `is_end`.
    Bytes { message: u64, is_end: bool },
    /// A message will not be completed.
    Failed { message: u64, error: ReceiveError },
    /// Whether this client has a service for which it listens.
    Listens { service: Service, is_ours: bool },
    /// The answer to a ping.
    Pong { token: u64, answer: PingAnswer },
    /// Datagrams sent, received, dropped, with errors; memory for messages in and out, and their
    /// numbers; peers.
    Stats([u64; 9]),
}

/// An [`Outcome`] in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    kind: u8,
    error: u8,
    /// A time in nanoseconds or a number of bytes.
    detail: u64,
    elapsed: u64,
    deadline: u64,
    retransmits: u64,
}

const RECEIVE_ERRORS: [ReceiveError; 5] = [
    ReceiveError::SenderGone,
    ReceiveError::Cancelled,
    ReceiveError::Closed,
    ReceiveError::DaemonGone,
    ReceiveError::ServiceTaken,
];

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Ended {
    /// The words and the text of an outcome. `age` is the time between the application's call and
    /// the submission to the engine.
    pub(super) fn of(outcome: &Outcome, age: Duration) -> (Self, String) {
        let times = outcome.times();
        let (kind, error) = match outcome {
            Outcome::Done(_) => (0, None),
            Outcome::Met(_) => (1, None),
            Outcome::Missed(_) => (2, None),
            Outcome::GivenUp(_) => (3, None),
            Outcome::Failed(error, _) => (4, Some(error)),
            Outcome::Unknown(error, _) => (5, Some(error)),
        };
        let mut text = String::new();
        let (error, detail) = match error {
            None => (0, 0),
            Some(SendError::PeerSilent { waited, last_error, .. }) => {
                text = last_error.clone().unwrap_or_default();
                (1, nanos(*waited))
            }
            Some(SendError::NotListening(_)) => (2, 0),
            Some(SendError::Restarted(_)) => (3, 0),
            Some(SendError::Refused(_)) => (4, 0),
            Some(SendError::TooLarge(_)) => (5, 0),
            Some(SendError::OtherVersion(_)) => (6, 0),
            Some(SendError::NoResponse { waited, .. }) => (7, nanos(*waited)),
            Some(SendError::DeadlinePast) => (8, 0),
            Some(SendError::SendMemoryFull { waiting }) => (9, *waiting as u64),
            Some(SendError::Closed(reason)) => {
                text.clone_from(reason);
                (10, 0)
            }
            Some(SendError::PeerUnreachable { error, .. }) => {
                text.clone_from(error);
                (11, 0)
            }
            Some(SendError::OtherMtu(_)) => (12, 0),
            #[allow(unreachable_patterns)] // Errors of a later version become their text.
            Some(other) => {
                text = other.to_string();
                (10, 0)
            }
        };
        let deadline = times.deadline.map(|deadline| deadline.saturating_add(age));
        let ended = Ended {
            kind,
            error,
            detail,
            elapsed: nanos(times.elapsed.saturating_add(age)),
            deadline: time_word(deadline),
            retransmits: times.retransmits,
        };
        text.truncate(text.floor_char_boundary(1_024));
        (ended, text)
    }

    /// The outcome of a send to `peer`; `None` if the words are none.
    pub(super) fn outcome(self, peer: SocketAddr, text: &[u8]) -> Option<Outcome> {
        let times = Times {
            elapsed: Duration::from_nanos(self.elapsed),
            deadline: time_of(self.deadline),
            retransmits: self.retransmits,
        };
        let text = String::from_utf8_lossy(text).into_owned();
        let waited = Duration::from_nanos(self.detail);
        let error = || {
            Some(match self.error {
                1 => {
                    let last_error = (!text.is_empty()).then(|| text.clone());
                    SendError::PeerSilent { peer, waited, last_error }
                }
                2 => SendError::NotListening(peer),
                3 => SendError::Restarted(peer),
                4 => SendError::Refused(peer),
                5 => SendError::TooLarge(peer),
                6 => SendError::OtherVersion(peer),
                7 => SendError::NoResponse { peer, waited },
                8 => SendError::DeadlinePast,
                9 => SendError::SendMemoryFull { waiting: self.detail as usize },
                10 => SendError::Closed(text.clone()),
                11 => SendError::PeerUnreachable { peer, error: text.clone() },
                12 => SendError::OtherMtu(peer),
                _ => return None,
            })
        };
        Some(match self.kind {
            0 => Outcome::Done(times),
            1 => Outcome::Met(times),
            2 => Outcome::Missed(times),
            3 => Outcome::GivenUp(times),
            4 => Outcome::Failed(error()?, times),
            5 => Outcome::Unknown(error()?, times),
            _ => return None,
        })
    }
}

impl Event {
    pub(super) fn to_words(self) -> Header {
        let mut words = [0; HEADER_WORDS];
        let mut set = |values: &[u64]| words[..values.len()].copy_from_slice(values);
        match self {
            Event::Ended { token, ended } => {
                let Ended { kind, error, detail, elapsed, deadline, retransmits } = ended;
                let kinds = u64::from(kind) | u64::from(error) << 8;
                set(&[1, token, kinds, detail, elapsed, deadline, retransmits]);
            }
            Event::Response { token } => set(&[2, token]),
            Event::Arrived { message, peer, len, deadline, is_request, service } => {
                let [a, b, c] = address_words(peer);
                let flags = u64::from(is_request) | u64::from(service.get()) << 32;
                set(&[3, message, a, b, c, len, deadline, flags]);
            }
            Event::Bytes { message, is_end } => set(&[4, message, is_end.into()]),
            Event::Failed { message, error } => {
                let number = RECEIVE_ERRORS.iter().position(|e| *e == error).unwrap_or(0);
                set(&[5, message, number as u64]);
            }
            Event::Listens { service, is_ours } => {
                set(&[6, service.get().into(), is_ours.into()]);
            }
            Event::Pong { token, answer: PingAnswer::Pong } => set(&[7, token, 0, 0]),
            Event::Pong { token, answer: PingAnswer::OtherVersion(version) } => {
                set(&[7, token, 1, version.into()]);
            }
            Event::Stats(values) => {
                set(&[8]);
                words[1..].copy_from_slice(&values);
            }
        }
        words
    }

    /// The event in a frame; `None` if it is none.
    pub(super) fn of(words: &Header) -> Option<Self> {
        let [kind, a, b, c, d, e, f, g, ..] = *words;
        let service = |word: u64| u32::try_from(word).ok().map(Service::number);
        Some(match kind as u32 {
            1 => {
                let (kind, error) = (b as u8, (b >> 8) as u8);
                let (detail, elapsed, deadline, retransmits) = (c, d, e, f);
                let ended = Ended { kind, error, detail, elapsed, deadline, retransmits };
                Event::Ended { token: a, ended }
            }
            2 => Event::Response { token: a },
            3 => Event::Arrived {
                message: a,
                peer: address_of([b, c, d])?,
                len: e,
                deadline: f,
                is_request: g & 1 == 1,
                service: service(g >> 32)?,
            },
            4 => Event::Bytes { message: a, is_end: b == 1 },
            5 => {
                Event::Failed { message: a, error: *RECEIVE_ERRORS.get(usize::try_from(b).ok()?)? }
            }
            6 => Event::Listens { service: service(a)?, is_ours: b == 1 },
            7 => {
                let other = || u8::try_from(c).ok().map(PingAnswer::OtherVersion);
                let answer = if b == 0 { PingAnswer::Pong } else { other()? };
                Event::Pong { token: a, answer }
            }
            8 => Event::Stats(*words.last_chunk()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fuzz target: frames and greetings with any contents, as the other process may write them.
    #[test]
    fn fuzz_daemon_frames() {
        let peer = SocketAddr::from(([10, 0, 0, 1], 7_000));
        bolero::check!().with_max_len(8 * HEADER_WORDS + 64).for_each(|bytes| {
            let (first, text) = bytes.split_at(bytes.len().min(8 * HEADER_WORDS));
            let mut words = [0; HEADER_WORDS];
            for (word, part) in words.iter_mut().zip(first.chunks_exact(8)) {
                *word = part.try_into().map(u64::from_le_bytes).unwrap_or_default();
            }
            // Kinds that exist, addresses and outcomes are likely.
            if words[0] & 1 << 40 == 0 {
                words[0] %= 14;
                words[2] &= 0x0f07;
                words[4] &= !(0xffff << 16) | 1 << 16;
                words[7] &= !(0xff << 16);
                if words[4] & 1 << 16 == 0 {
                    // An IPv4 address, as IPv6 maps it.
                    (words[2], words[3]) = (0, 0xffff << 32 | words[3] >> 32);
                }
            }
            let _ = Request::begun_by(&words);
            if let Some(request) = Request::of(&words) {
                assert_eq!(Request::of(&request.to_words()), Some(request));
            }
            if let Some(event) = Event::of(&words) {
                assert_eq!(Event::of(&event.to_words()), Some(event));
                if let Event::Ended { ended, .. } = event
                    && let Some(outcome) = ended.outcome(peer, text)
                {
                    let (again, text) = Ended::of(&outcome, Duration::ZERO);
                    let again = again.outcome(peer, text.as_bytes()).expect("our own words");
                    assert_eq!(again.times(), outcome.times());
                }
            }
            let mut greeting = hello();
            for (byte, from) in greeting[12..].iter_mut().zip(bytes) {
                *byte = *from;
            }
            greeting[0] ^= text.first().copied().unwrap_or_default() & 1;
            if let Some(welcome) = Welcome::of(&greeting) {
                assert_eq!(Welcome::of(&welcome.to_bytes()), Some(welcome));
            }
        });
    }
}
