//! D3's headers: a fixed header, and a block of rates in packets that carry a rate request (RRQ)
//! or its answer.
//!
//! Rates are whole bits per second, whereas the paper's wire format has one byte for each (8 Mb/s
//! steps and a scale factor); with `integer_rates` ports and senders round to the values of such a
//! byte. Packets have the paper's sizes on links: 40 bytes of TCP/IP-like header, and 22 more with
//! a block.

use punctual_core::{Content, Duration, ExtBlock, Instant, Packet, Rate};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of the header that every packet has.
pub const PLAIN_HEADER_BYTES: u16 = 40;
/// Bytes that a block of rates adds (§5, Fig. 6).
pub const RATE_BLOCK_BYTES: u16 = 22;
/// The step of rates that have one byte on the wire: 1 B/µs (§5).
pub const RATE_UNIT: Rate = Rate::from_mbps(8);
/// Allocating ports that a path may have, the sending host's included (§5).
pub const HOPS_MAX: usize = 6;

/// The header of every packet.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct D3Header {
    /// To the receiver: offset of the first byte carried, or of the first unsent byte if none is
    /// carried. An acknowledgement repeats it.
    pub seq: u64,
    /// To the sender: every byte below has arrived.
    pub ack: u64,
    /// When the packet was sent, in picoseconds; an acknowledgement repeats it.
    pub timestamp: u64,
    /// The path of the flow's packets; acknowledgements take it in reverse.
    pub path: u32,
    /// Number of the rate request carried or answered.
    pub request: u16,
    /// Flags: the constants below.
    pub flags: u8,
    /// Zero.
    pub reserved: u8,
}

impl D3Header {
    /// The flow is new to the ports on its path.
    pub const SYN: u8 = 1;
    /// The flow leaves the ports on its path; in an acknowledgement, the receiver knows that.
    pub const FIN: u8 = 1 << 1;
    /// The packet ends where the flow ends.
    pub const END: u8 = 1 << 2;
    /// Its block carries a rate request.
    pub const REQUEST: u8 = 1 << 3;
    /// Its block carries the answer to a rate request.
    pub const FEEDBACK: u8 = 1 << 4;
    /// The packet is an acknowledgement.
    pub const ACK: u8 = 1 << 5;
    /// The packet acknowledged carried data.
    pub const DATA: u8 = 1 << 6;

    /// What a packet carries or acknowledges.
    pub(crate) fn content(packet: &Packet) -> Content {
        let header: D3Header = packet.header.get();
        if !packet.is_to_sender() {
            return Content::Data(header.seq);
        }
        let named = header.has(Self::DATA).then_some(header.seq);
        Content::Ack { below: header.ack, named }
    }

    /// Whether all these flags are set.
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}

/// A port's grant: a rate that the port counts, or the base rate of one header per RTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// This rate, which the port counts as allocated until it is returned.
    Rate(Rate),
    /// The base rate, which no port counts: 0 and a mark on the wire.
    Base,
}

impl Grant {
    /// The rate that the port counts.
    #[inline]
    pub fn counted(self) -> Rate {
        match self {
            Grant::Rate(rate) => rate,
            Grant::Base => Rate::ZERO,
        }
    }
}

/// The allocation vector: the grants along a path, in order from the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    rates: [Rate; HOPS_MAX],
    base_marks: u8,
    len: u8,
}

impl Grants {
    /// The grant of the port at `hop`; nothing if the path has no such port.
    #[inline]
    pub fn get(&self, hop: usize) -> Option<Grant> {
        if hop >= usize::from(self.len) {
            None
        } else if self.base_marks >> hop & 1 == 1 {
            Some(Grant::Base)
        } else {
            Some(Grant::Rate(self.rates[hop]))
        }
    }

    /// Appends a grant. The caller has checked that there is room.
    pub fn push(&mut self, grant: Grant) {
        let hop = usize::from(self.len);
        self.rates[hop] = grant.counted();
        self.base_marks |= u8::from(grant == Grant::Base) << hop;
        self.len += 1;
    }

    /// Replaces all grants by one: the lowest of them and `rate`. For RCP, whose ports share one
    /// field.
    pub fn lower_to(&mut self, rate: Rate) {
        let rate = match self.lowest() {
            Grant::Rate(before) => before.min(rate),
            Grant::Base => rate,
        };
        *self = Grants::default();
        self.push(Grant::Rate(rate));
    }

    /// The hop with the lowest grant; nothing if it is unknown, as with RCP's single field.
    pub fn tightest(&self) -> Option<u8> {
        let rate = |hop: &u8| self.get(usize::from(*hop)).map_or(Rate::ZERO, Grant::counted);
        (0..self.len).min_by_key(rate).filter(|_| self.len > 1)
    }

    /// The number of grants.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether there is no grant.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The grants, in order.
    pub fn iter(&self) -> impl Iterator<Item = Grant> + '_ {
        (0..self.len()).filter_map(|hop| self.get(hop))
    }

    /// The grant of the whole path: the lowest rate, or the base rate if any port granted only
    /// that.
    pub fn lowest(&self) -> Grant {
        let mut lowest = None;
        for grant in self.iter() {
            match grant {
                Grant::Base => return Grant::Base,
                Grant::Rate(rate) => lowest = Some(lowest.map_or(rate, |low: Rate| low.min(rate))),
            }
        }
        lowest.map_or(Grant::Base, Grant::Rate)
    }
}

/// The block of rates, at full precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateBlock {
    /// The rate desired for the next interval, r(t+1); 0 without deadline.
    pub desired: Rate,
    /// The rate desired for the present interval, r(t), which ports subtract.
    pub desired_before: Rate,
    /// Ports passed so far: the index of the next port's grants.
    pub index: u8,
    /// Whether the path has more ports than fit.
    pub overflow: bool,
    /// Factor of one-byte rates, or 0 for rates in whole bits per second.
    pub scale: u8,
    /// Whether ports reserve its demand first (D3-R36). On the wire this would be a bit of the
    /// scale.
    pub important: bool,
    /// The flow's deadline, for ports that count inversions. Not in the paper's wire format.
    pub deadline: Option<Instant>,
    /// The flow's RTT, zero while unknown, for RCP's ports. Not in D3's wire format.
    pub rtt: Duration,
    /// Grants for the next interval, a(t+1), which ports append.
    pub granted: Grants,
    /// Grants for the present interval, a(t), which ports subtract.
    pub granted_before: Grants,
    /// In an answer: the grants of the request.
    pub feedback: Grants,
}

const GRANTED: usize = 3;
const BEFORE: usize = GRANTED + HOPS_MAX;
const FEEDBACK: usize = BEFORE + HOPS_MAX;
const OPTIONS: usize = FEEDBACK + HOPS_MAX;
const DEADLINE: usize = OPTIONS + 1;
const RTT: usize = DEADLINE + 1;

impl RateBlock {
    /// The block as the packet carries it.
    ///
    /// Words: 0 desired, 1 desired before, 2 counts and marks (one byte each: index, overflow,
    /// then length and base marks of the three vectors), then six rates for each vector, then
    /// the scale with two bits above it (important, has a deadline), then the deadline,
    /// then the round-trip time.
    pub fn to_block(&self) -> ExtBlock {
        let mut block = ExtBlock([0; 24]);
        let words = &mut block.0;
        words[0] = self.desired.as_bps();
        words[1] = self.desired_before.as_bps();
        words[2] = self.counts();
        write_rates(words, GRANTED, &self.granted);
        write_rates(words, BEFORE, &self.granted_before);
        write_rates(words, FEEDBACK, &self.feedback);
        let (important, timed) = (u64::from(self.important), u64::from(self.deadline.is_some()));
        words[OPTIONS] = u64::from(self.scale) | important << 8 | timed << 9;
        words[RTT] = self.rtt.as_picos();
        words[DEADLINE] = self.deadline.map_or(0, Instant::as_picos);
        block
    }

    fn counts(&self) -> u64 {
        let [g, b, f] = [&self.granted, &self.granted_before, &self.feedback];
        u64::from_le_bytes([
            self.index,
            u8::from(self.overflow),
            g.len,
            g.base_marks,
            b.len,
            b.base_marks,
            f.len,
            f.base_marks,
        ])
    }

    /// Parses a block; nothing if it is not a block of rates.
    pub fn from_block(block: &ExtBlock) -> Option<RateBlock> {
        let mut rates = RateBlock::for_port(block)?;
        read_rates(&block.0, FEEDBACK, &mut rates.feedback);
        Some(rates)
    }

    /// The answer to the request in a block: a block with the grants as feedback.
    #[inline]
    pub fn answer(request: &ExtBlock) -> Option<ExtBlock> {
        let counts = Counts::of(request)?;
        let mut block = ExtBlock([0; 24]);
        let overflow = u8::from(counts.overflow);
        let Grants { len, base_marks, .. } = counts.granted;
        block.0[2] = u64::from_le_bytes([0, overflow, 0, 0, 0, 0, len, base_marks]);
        let granted = &request.0[GRANTED..GRANTED + HOPS_MAX];
        block.0[FEEDBACK..FEEDBACK + HOPS_MAX].copy_from_slice(granted);
        Some(block)
    }

    /// Parses a block without the rates of the feedback, which ports do not read. For the hot
    /// path: every port calls it for every request.
    #[inline]
    pub fn for_port(block: &ExtBlock) -> Option<RateBlock> {
        let words = &block.0;
        let Counts { index, overflow, options, mut granted, mut granted_before, feedback } =
            Counts::of(block)?;
        read_rates(words, GRANTED, &mut granted);
        read_rates(words, BEFORE, &mut granted_before);
        let timed = options >> 9 & 1 == 1;
        Some(RateBlock {
            desired: Rate::from_bps(words[0]),
            desired_before: Rate::from_bps(words[1]),
            index,
            overflow,
            scale: options as u8,
            important: options >> 8 & 1 == 1,
            rtt: Duration::from_picos(words[RTT]),
            deadline: timed.then_some(Instant::from_picos(words[DEADLINE])),
            granted,
            granted_before,
            feedback,
        })
    }

    /// Writes the fields that ports change, grants and counts, back into the block.
    #[inline]
    pub fn write_grants(&self, block: &mut ExtBlock) {
        block.0[2] = self.counts();
        write_rates(&mut block.0, GRANTED, &self.granted);
    }
}

/// The fields of a block without its rates, which are 0 here.
struct Counts {
    index: u8,
    overflow: bool,
    options: u64,
    granted: Grants,
    granted_before: Grants,
    feedback: Grants,
}

impl Counts {
    /// Parses the fields; nothing if it is not a block of rates.
    #[inline]
    fn of(block: &ExtBlock) -> Option<Counts> {
        let [index, overflow, counts @ ..] = block.0[2].to_le_bytes();
        let options = block.0[OPTIONS];
        let mut is_sound = usize::from(index) <= HOPS_MAX && overflow <= 1 && options >> 10 == 0;
        let mut vector = |at: usize| {
            let (len, base_marks) = (counts[at], counts[at + 1]);
            is_sound &= usize::from(len) <= HOPS_MAX && u32::from(base_marks) >> (len & 15) == 0;
            Grants { rates: [Rate::ZERO; HOPS_MAX], base_marks, len }
        };
        let (granted, granted_before, feedback) = (vector(0), vector(2), vector(4));
        let overflow = overflow == 1;
        is_sound.then_some(Counts { index, overflow, options, granted, granted_before, feedback })
    }
}

/// The fields of an answer that a sender reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Feedback {
    /// The grants along the path.
    pub(super) granted: Grants,
    /// Whether the path has more ports than fit.
    pub(super) overflow: bool,
}

impl Feedback {
    /// Parses a block; nothing if it is not a block of rates.
    #[inline]
    pub(super) fn from_block(block: &ExtBlock) -> Option<Feedback> {
        let Counts { overflow, feedback: mut granted, .. } = Counts::of(block)?;
        read_rates(&block.0, FEEDBACK, &mut granted);
        Some(Feedback { granted, overflow })
    }
}

#[inline]
fn write_rates(words: &mut [u64; 24], start: usize, grants: &Grants) {
    for (word, rate) in words[start..start + HOPS_MAX].iter_mut().zip(grants.rates) {
        *word = rate.as_bps();
    }
}

#[inline]
fn read_rates(words: &[u64; 24], start: usize, grants: &mut Grants) {
    for (rate, &bps) in grants.rates.iter_mut().zip(&words[start..start + HOPS_MAX]) {
        *rate = Rate::from_bps(bps);
    }
}
