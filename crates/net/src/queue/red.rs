//! Strict priorities that mark at random, the more likely the longer a class's queue is.

use super::priority::Priority;
use super::{Cap, Ecn, Fate, Fates, InService, PacketArena, PacketFlags, PacketId};
use punctual_core::RedMarking;
use punctual_core::rng::Stream;

#[derive(Debug)]
pub(super) struct Red {
    pub(super) lines: Priority,
    from: u64,
    to: u64,
    /// How likely a mark is at `to`, in draws of [`CERTAIN`].
    most: u64,
    dice: Stream,
}

/// A probability of one.
const CERTAIN: u64 = 1 << 32;

impl Red {
    pub(super) fn new(red: RedMarking, seed: u64) -> Self {
        Red {
            lines: Priority::new(Cap::NONE, Cap::NONE),
            from: red.from.get(),
            to: red.to.get(),
            most: CERTAIN * u64::from(red.most_percent) / 100,
            dice: Stream::from_seed(seed),
        }
    }

    /// How likely a packet is marked that finds so many bytes, in draws of [`CERTAIN`].
    fn odds(&self, bytes: u64) -> u64 {
        if bytes > self.to {
            return CERTAIN;
        }
        let (above, range) = (bytes.saturating_sub(self.from), self.to - self.from);
        (u128::from(self.most) * u128::from(above) / u128::from(range)) as u64
    }

    #[inline(never)]
    pub(super) fn enqueue(
        &mut self,
        id: PacketId,
        in_service: InService,
        packets: &mut PacketArena,
        fates: &mut Fates,
    ) {
        let packet = &mut packets[id];
        let found = u64::from(self.lines.class_bytes(packet.class) + in_service.bytes);
        let odds = self.odds(found);
        if odds > 0 && packet.ecn() == Ecn::Capable && self.dice.below(CERTAIN) < odds {
            packet.flags.set(PacketFlags::ECN_MARKED);
            fates.push((id, Fate::Marked));
        }
        self.lines.enqueue(id, in_service, packets, fates);
    }
}
