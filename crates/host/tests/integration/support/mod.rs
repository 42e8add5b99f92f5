//! A faulty network: a seeded UDP relay that drops, duplicates, reorders, corrupts and trims.

pub(crate) mod namespaces;
pub(crate) mod relay;

use punctual_core::PacketFlags;
use punctual_core::rng::Stream;
use punctual_wire::{NDP_HEADER_BYTES, set_flags};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Probabilities, per datagram and direction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) drop: f64,
    pub(crate) duplicate: f64,
    pub(crate) reorder: f64,
    pub(crate) corrupt: f64,
    pub(crate) trim: f64,
    /// Whether `drop` is only the most: each second has a probability of its own, from 0 on.
    pub(crate) drop_varies: bool,
}

/// Counts of a relay's faults.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Done {
    pub(crate) forwarded: u64,
    pub(crate) dropped: u64,
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
    pub(crate) corrupted: u64,
    pub(crate) trimmed: u64,
    /// Whether the relay ended before it was told to: a transfer through it stalls from then on.
    pub(crate) expired: bool,
}

/// Relays between one sender and a receiver, on loopback, until dropped or for 60 s at most.
pub(crate) struct Lossy {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Done>>,
}

/// What tests see and change while a relay runs.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Whether every datagram is dropped.
    outage: AtomicBool,
    /// Whether every datagram to the sender is dropped.
    mute: AtomicBool,
    forwarded: AtomicU64,
}

/// How long a relay runs and how many datagrams it forwards, at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) life: Duration,
    pub(crate) datagrams: u64,
}

const LIMITS: Limits = Limits { life: Duration::from_secs(60), datagrams: 1_000_000 };
/// A delayed datagram leaves after this many others, or this much time.
const HELD_FOR: u64 = 5;
const HELD_AT_MOST: Duration = Duration::from_millis(2);

impl Lossy {
    pub(crate) fn start(receiver: SocketAddr, faults: Faults, seed: u64) -> Self {
        Lossy::start_within(receiver, faults, seed, LIMITS)
    }

    pub(crate) fn start_within(
        receiver: SocketAddr,
        faults: Faults,
        seed: u64,
        limits: Limits,
    ) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        let back = UdpSocket::bind("127.0.0.1:0").unwrap();
        front.set_nonblocking(true).unwrap();
        back.set_nonblocking(true).unwrap();
        let address = front.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let relay = Relay {
            limits,
            faults,
            stream: Stream::named(seed, "lossy", 0),
            done: Done::default(),
            held: Vec::new(),
            drop: faults.drop,
            drop_until: Instant::now(),
        };
        let seen = shared.clone();
        let thread = std::thread::spawn(move || relay.run(&front, &back, receiver, &seen));
        Lossy { address, shared, thread: Some(thread) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Datagrams forwarded so far.
    pub(crate) fn forwarded(&self) -> u64 {
        self.shared.forwarded.load(Ordering::Relaxed)
    }

    /// Begins or ends an outage in both directions.
    pub(crate) fn set_outage(&self, outage: bool) {
        self.shared.outage.store(outage, Ordering::Relaxed);
    }

    /// Begins or ends an outage in the direction of the sender.
    pub(crate) fn set_mute(&self, mute: bool) {
        self.shared.mute.store(mute, Ordering::Relaxed);
    }

    pub(crate) fn finish(mut self) -> Done {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

struct Held {
    bytes: Vec<u8>,
    forward: bool,
    after: u64,
    at: Instant,
}

struct Relay {
    limits: Limits,
    faults: Faults,
    stream: Stream,
    done: Done,
    held: Vec<Held>,
    /// The probability of a loss, until then.
    drop: f64,
    drop_until: Instant,
}

impl Relay {
    fn run(
        mut self,
        front: &UdpSocket,
        back: &UdpSocket,
        receiver: SocketAddr,
        shared: &Shared,
    ) -> Done {
        let end = Instant::now() + self.limits.life;
        let mut sender = None;
        let mut buffer = vec![0; 1 << 16];
        while !shared.stop.load(Ordering::Relaxed)
            && Instant::now() < end
            && self.done.forwarded < self.limits.datagrams
        {
            let mut idle = true;
            for forward in [true, false] {
                let from = if forward { front } else { back };
                if let Ok((len, peer)) = from.recv_from(&mut buffer) {
                    idle = false;
                    if forward {
                        sender = Some(peer);
                    }
                    let mute = !forward && shared.mute.load(Ordering::Relaxed);
                    if mute || shared.outage.load(Ordering::Relaxed) {
                        self.done.dropped += 1;
                        continue;
                    }
                    for bytes in self.spoil(&buffer[..len], forward) {
                        put(front, back, receiver, sender, &bytes, forward);
                        self.done.forwarded += 1;
                    }
                }
            }
            let now = Instant::now();
            let count = self.done.forwarded;
            for held in self.held.extract_if(.., |h| h.after <= count || h.at <= now) {
                put(front, back, receiver, sender, &held.bytes, held.forward);
                self.done.forwarded += 1;
            }
            shared.forwarded.store(self.done.forwarded, Ordering::Relaxed);
            if idle {
                std::thread::sleep(Duration::from_micros(20));
            }
        }
        self.done.expired = !shared.stop.load(Ordering::Relaxed);
        self.done
    }

    /// Applies faults to a datagram. Returns none, one or two datagrams.
    fn spoil(&mut self, bytes: &[u8], forward: bool) -> Vec<Vec<u8>> {
        let mut bytes = bytes.to_vec();
        let faults = self.faults;
        if faults.drop_varies && Instant::now() >= self.drop_until {
            self.drop = faults.drop * self.stream.unit();
            self.drop_until = Instant::now() + Duration::from_secs(1);
        }
        if self.stream.chance(self.drop) {
            self.done.dropped += 1;
            return vec![];
        }
        if bytes.len() > NDP_HEADER_BYTES && self.stream.chance(faults.trim) {
            self.done.trimmed += 1;
            // Half of the time like a switch that sets the flag, half like one that only cuts.
            if self.stream.coin() {
                let flags = PacketFlags::TRIMMABLE.with(PacketFlags::TRIMMED);
                set_flags(&mut bytes, flags).unwrap();
            }
            bytes.truncate(NDP_HEADER_BYTES);
        }
        if self.stream.chance(faults.corrupt) {
            self.done.corrupted += 1;
            for _ in 0..1 + self.stream.below(3) {
                let bit = self.stream.below(bytes.len() as u64 * 8);
                bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
            }
        }
        if self.stream.chance(faults.reorder) {
            self.done.reordered += 1;
            let after = self.done.forwarded + 1 + self.stream.below(HELD_FOR);
            self.held.push(Held { bytes, forward, after, at: Instant::now() + HELD_AT_MOST });
            return vec![];
        }
        if self.stream.chance(faults.duplicate) {
            self.done.duplicated += 1;
            return vec![bytes.clone(), bytes];
        }
        vec![bytes]
    }
}

fn put(
    front: &UdpSocket,
    back: &UdpSocket,
    receiver: SocketAddr,
    sender: Option<SocketAddr>,
    bytes: &[u8],
    forward: bool,
) {
    // A full socket buffer loses the datagram.
    let _ = match (forward, sender) {
        (true, _) => back.send_to(bytes, receiver),
        (false, Some(sender)) => front.send_to(bytes, sender),
        (false, None) => Ok(0),
    };
}
