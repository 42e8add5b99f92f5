//! Strict priority with RED marking: the probability of a mark grows with the queue of the class.

use super::priority::Priority;
use super::{Cap, Ecn, Fate, Fates, InService, PacketArena, PacketFlags, PacketId};
use punctual_core::RedMarking;
use punctual_core::rng::Stream;

#[derive(Debug)]
pub(super) struct Red {
    pub(super) classes: Priority,
    from: u64,
    to: u64,
    /// Marking probability at `to`, as a fraction of [`CERTAIN`].
    most: u64,
    random: Stream,
}

/// A probability of one.
const CERTAIN: u64 = 1 << 32;

impl Red {
    pub(super) fn new(red: RedMarking, seed: u64) -> Self {
        Red {
            classes: Priority::new(Cap::NONE, Cap::NONE),
            from: red.from.get(),
            to: red.to.get(),
            most: CERTAIN * u64::from(red.most_percent) / 100,
            random: Stream::from_seed(seed),
        }
    }

    /// Marking probability of a packet that finds `bytes` queued, as a fraction of [`CERTAIN`]:
    /// 0 up to `from`, `most` × (bytes − from) / (to − from) up to `to`, and certain above.
    fn probability(&self, bytes: u64) -> u64 {
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
        let found = u64::from(self.classes.class_bytes(packet.class) + in_service.bytes);
        let probability = self.probability(found);
        if probability > 0
            && packet.ecn() == Ecn::Capable
            && self.random.below(CERTAIN) < probability
        {
            packet.flags.set(PacketFlags::ECN_MARKED);
            fates.push((id, Fate::Marked));
        }
        self.classes.enqueue(id, in_service, packets, fates);
    }
}
