//! Keyed mode: packets are authenticated with a pre-shared key.
//!
//! A packet has two tags of 16 bytes, so that a trimmed packet still verifies:
//!
//! ```text
//! header tag  = BLAKE3(key, header without what switches may change)
//! payload tag = BLAKE3(key, header tag, payload)
//! ```
//!
//! Each packet of a process has another number in its header. A [`ReplayWindow`] per peer refuses
//! a number that it has seen, and numbers far below the highest.
//!
//! No tag covers addresses, because NAT changes them. A recorded packet that comes from another
//! address is refused by its header tag, if that is among the last [`RecentTags::SPAN`]. An older
//! one begins nothing: a new peer has to answer a fresh token, and its messages name the process
//! that they are for (`endpoint::state`).

use ahash::{HashMap, HashSet};
use punctual_core::PacketFlags;
use punctual_wire::{Datagram, ENVELOPE_BYTES, TAG_BYTES};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

/// A pre-shared key, from a file that only the processes of one service can read.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    /// Does not print the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// Fewest bytes of key material.
    pub const BYTES_MIN: usize = 16;

    /// The key for this material, which should be random and has at least
    /// [`Key::BYTES_MIN`] bytes.
    pub fn new(material: &[u8]) -> io::Result<Key> {
        if material.len() < Key::BYTES_MIN {
            let message = format!(
                "the key has {} bytes; at least {} are needed, for example from \
                 `head -c 32 /dev/urandom`",
                material.len(),
                Key::BYTES_MIN
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(Key(blake3::derive_key("punctual 2026 packet authentication v1", material)))
    }

    /// Reads the key from a file: all its bytes, without white space at the end.
    pub fn from_file(path: &Path) -> io::Result<Key> {
        let material = std::fs::read(path)?;
        Key::new(material.trim_ascii_end())
    }
}

/// Most peers whose replay windows are kept.
const PEERS_MAX: usize = 1 << 14;

/// Adds and verifies the tags of packets.
#[derive(Debug)]
pub(crate) struct Seal {
    key: Key,
    /// The number of the next packet.
    next: u32,
    /// Replay windows, and when they were last used, by address and incarnation.
    windows: HashMap<(SocketAddr, u16), (ReplayWindow, u64)>,
    /// Packets verified: the time of `windows`.
    verified: u64,
    received: RecentTags,
    sent: RecentTags,
}

impl Seal {
    pub(crate) fn new(key: Key) -> Self {
        Seal {
            key,
            next: 0,
            windows: HashMap::default(),
            verified: 0,
            received: RecentTags::default(),
            sent: RecentTags::default(),
        }
    }

    /// Bytes that the tags add to a packet.
    pub(crate) const BYTES: u64 = 2 * TAG_BYTES as u64;

    fn tag(&self, parts: &[&[u8]]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key.0);
        parts.iter().for_each(|part| {
            hasher.update(part);
        });
        hasher.finalize()
    }

    /// Turns a datagram without tags into one with tags.
    pub(crate) fn seal(&mut self, bytes: &mut Vec<u8>, switch_fields_at: usize) {
        let Ok(plain) = Datagram::parse(bytes) else { return };
        let (mut envelope, fields_bytes) = (plain.envelope, plain.fields.len());
        envelope.keyed = Some(self.next);
        self.next = self.next.wrapping_add(1);
        let header_bytes = ENVELOPE_BYTES + fields_bytes;
        let has_payload = bytes.len() > header_bytes;
        bytes.splice(header_bytes..header_bytes, [0; TAG_BYTES]);
        envelope.seal(bytes, fields_bytes);
        if has_payload {
            bytes.extend_from_slice(&[0; TAG_BYTES]);
        }
        let Ok(keyed) = Datagram::parse(bytes) else { return };
        let (header, len) = keyed.authenticated_header(switch_fields_at);
        let header_tag = self.tag(&[&header[..len]]);
        let header_tag: [u8; TAG_BYTES] = truncated(&header_tag);
        self.sent.insert(&header_tag);
        let payload_tag: [u8; TAG_BYTES] = truncated(&self.tag(&[&header_tag, keyed.payload]));
        bytes[header_bytes..header_bytes + TAG_BYTES].copy_from_slice(&header_tag);
        if has_payload {
            let at = bytes.len() - TAG_BYTES;
            bytes[at..].copy_from_slice(&payload_tag);
        }
    }

    /// Verifies a datagram from a peer, which may be this process (`is_own`). The error is the name
    /// of the reason to drop it.
    pub(crate) fn verify(
        &mut self,
        datagram: &Datagram<'_>,
        peer: SocketAddr,
        is_own: bool,
        switch_fields_at: usize,
    ) -> Result<(), &'static str> {
        let (Some(tag), Some(number)) = (datagram.header_tag, datagram.envelope.keyed) else {
            return Err("not_keyed");
        };
        let (header, len) = datagram.authenticated_header(switch_fields_at);
        if !is_equal(&self.tag(&[&header[..len]]), tag) {
            return Err("header_tag");
        }
        if let Some(payload_tag) = datagram.payload_tag
            && !is_equal(&self.tag(&[tag, datagram.payload]), payload_tag)
        {
            return Err("payload_tag");
        }
        // Both ends have the same key, so that a packet of this process verifies, too. Only a switch
        // returns one, to its sender.
        let flags = datagram.envelope.flags;
        let is_returned = flags.has(PacketFlags::BOUNCED) && flags.has(PacketFlags::TO_SENDER);
        if !is_own && self.sent.contains(tag) != is_returned {
            return Err("reflected");
        }
        // First, so that copies from forged addresses take no places of windows.
        if !self.received.insert(tag) {
            return Err("replayed");
        }
        let place = (peer, datagram.envelope.name.incarnation);
        if self.windows.len() >= PEERS_MAX && !self.windows.contains_key(&place) {
            self.forget_oldest();
        }
        self.verified += 1;
        let new = || (ReplayWindow::starting(number), 0);
        let (window, used) = self.windows.entry(place).or_insert_with(new);
        *used = self.verified;
        if window.insert(number) { Ok(()) } else { Err("replayed") }
    }

    /// Forgets the quarter of the windows that were not used for the longest time.
    fn forget_oldest(&mut self) {
        let mut used: Vec<u64> = self.windows.values().map(|(_, used)| *used).collect();
        let quarter = used.len() / 4;
        let (_, last, _) = used.select_nth_unstable(quarter);
        let last = *last;
        self.windows.retain(|_, (_, used)| *used > last);
    }
}

/// The header tags of the last packets. A tag tells packets apart, whatever their addresses.
#[derive(Debug, Default)]
struct RecentTags {
    tags: HashSet<u64>,
    order: VecDeque<u64>,
}

impl RecentTags {
    /// Packets remembered.
    const SPAN: usize = 1 << 16;

    fn short(tag: &[u8; TAG_BYTES]) -> u64 {
        u64::from_ne_bytes(*tag.first_chunk().unwrap_or(&[0; 8]))
    }

    fn contains(&self, tag: &[u8; TAG_BYTES]) -> bool {
        self.tags.contains(&RecentTags::short(tag))
    }

    /// Adds a tag. Returns false if it is known.
    fn insert(&mut self, tag: &[u8; TAG_BYTES]) -> bool {
        let tag = RecentTags::short(tag);
        if !self.tags.insert(tag) {
            return false;
        }
        if self.order.len() >= RecentTags::SPAN
            && let Some(oldest) = self.order.pop_front()
        {
            self.tags.remove(&oldest);
        }
        self.order.push_back(tag);
        true
    }
}

/// Random bytes from the system's generator (`getrandom`).
///
/// # Panics
///
/// If the system has no random generator, since tokens and nonces would be guessable.
pub(crate) fn random_bytes() -> [u8; 32] {
    let mut bytes = [0; 32];
    loop {
        match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
            // Up to 256 bytes are never cut.
            Ok(count) if count == bytes.len() => return bytes,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the system has no random numbers: {error}"),
        }
    }
}

fn truncated(hash: &blake3::Hash) -> [u8; TAG_BYTES] {
    let mut tag = [0; TAG_BYTES];
    tag.copy_from_slice(&hash.as_bytes()[..TAG_BYTES]);
    tag
}

/// Compares a tag in constant time.
fn is_equal(hash: &blake3::Hash, tag: &[u8; TAG_BYTES]) -> bool {
    let differs = hash.as_bytes().iter().zip(tag).fold(0, |all, (a, b)| all | (a ^ b));
    differs == 0
}

/// The numbers that were seen, of the last [`ReplayWindow::SPAN`] up to the highest.
#[derive(Debug, Clone)]
pub(crate) struct ReplayWindow {
    highest: u32,
    seen: [u64; ReplayWindow::SPAN as usize / 64],
}

impl ReplayWindow {
    /// Numbers that a packet may be behind the highest.
    pub(crate) const SPAN: u32 = 1_024;

    /// A window that has seen nothing, with numbers around `first` to come.
    pub(crate) fn starting(first: u32) -> Self {
        ReplayWindow { highest: first.wrapping_sub(1), seen: [0; _] }
    }

    fn place(number: u32) -> (usize, u64) {
        let bit = number % ReplayWindow::SPAN;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    /// How far a number is above the highest; negative if it is not.
    fn ahead(&self, number: u32) -> i32 {
        number.wrapping_sub(self.highest) as i32
    }

    /// Whether the number was seen.
    pub(crate) fn contains(&self, number: u32) -> bool {
        let (word, bit) = ReplayWindow::place(number);
        self.covers(number) && self.ahead(number) <= 0 && self.seen[word] & bit != 0
    }

    /// Whether the number is not too far below the highest.
    pub(crate) fn covers(&self, number: u32) -> bool {
        self.ahead(number) > -(ReplayWindow::SPAN as i32)
    }

    /// Whether the number is more than a window above the highest.
    pub(crate) fn is_far_ahead(&self, number: u32) -> bool {
        self.ahead(number) > ReplayWindow::SPAN as i32
    }

    /// Forgets that a number was seen.
    pub(crate) fn remove(&mut self, number: u32) {
        if self.contains(number) {
            let (word, bit) = ReplayWindow::place(number);
            self.seen[word] &= !bit;
        }
    }

    /// Adds a number. Returns false if it was seen or is too old to know.
    pub(crate) fn insert(&mut self, number: u32) -> bool {
        if !self.covers(number) || self.contains(number) {
            return false;
        }
        let ahead = self.ahead(number);
        if ahead >= ReplayWindow::SPAN as i32 {
            self.seen = [0; _];
        } else {
            for passed in 1..=ahead.max(0) as u32 {
                let (word, bit) = ReplayWindow::place(self.highest.wrapping_add(passed));
                self.seen[word] &= !bit;
            }
        }
        if ahead > 0 {
            self.highest = number;
        }
        let (word, bit) = ReplayWindow::place(number);
        self.seen[word] |= bit;
        true
    }
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;
    use punctual_core::rng::Stream;
    use std::collections::HashSet;

    #[test]
    fn window__accepts_each_number_once() {
        let mut stream = Stream::named(1, "replay", 0);
        let start = u32::MAX - 5_000;
        let mut window = ReplayWindow::starting(start);
        let mut seen = HashSet::new();
        let mut highest = 0u64;
        for _ in 0..100_000 {
            let near = highest + stream.below(40);
            let number = near.saturating_sub(stream.below(1_200));
            let short = start.wrapping_add(number as u32);
            let is_new = number + 1_024 > highest && !seen.contains(&number);
            assert_eq!(window.insert(short), is_new, "{number} of {highest}");
            if is_new {
                seen.insert(number);
                highest = highest.max(number);
            }
        }
        assert!(seen.len() > 1_000);
    }

    /// Whoever holds the key can open windows. The newest are kept.
    #[test]
    fn windows__the_oldest_are_forgotten_first() {
        let key = Key::new(&[7; 16]).unwrap();
        let mut seal = Seal::new(key);
        let address = |port| SocketAddr::from(([10, 0, 0, 1], port));
        for port in 0..PEERS_MAX as u16 {
            let window = ReplayWindow::starting(0);
            seal.windows.insert((address(port), 1), (window, u64::from(port)));
        }
        seal.forget_oldest();
        assert!(!seal.windows.contains_key(&(address(0), 1)));
        assert!(seal.windows.contains_key(&(address(PEERS_MAX as u16 - 1), 1)));
        assert_eq!(seal.windows.len(), PEERS_MAX - PEERS_MAX / 4 - 1);
    }

    #[test]
    fn tags__the_last_ones_are_known() {
        let mut tags = RecentTags::default();
        let tag = |n: usize| {
            let mut tag = [0; TAG_BYTES];
            tag[..8].copy_from_slice(&n.to_be_bytes());
            tag
        };
        for n in 0..=RecentTags::SPAN {
            assert!(tags.insert(&tag(n)));
            assert!(!tags.insert(&tag(n)) && tags.contains(&tag(n)));
        }
        assert!(!tags.contains(&tag(0)) && tags.contains(&tag(1)));
        assert_eq!(tags.tags.len(), RecentTags::SPAN);
    }

    #[test]
    fn random__bytes_differ() {
        let drawn: HashSet<[u8; 32]> = (0..100).map(|_| random_bytes()).collect();
        assert_eq!(drawn.len(), 100);
    }

    #[test]
    fn key__short_material_is_refused() {
        assert!(Key::new(b"short").unwrap_err().to_string().contains("at least 16"));
        assert!(Key::new(&[7; 16]).is_ok());
        assert_eq!(format!("{:?}", Key::new(&[7; 16]).unwrap()), "Key(..)");
    }
}
