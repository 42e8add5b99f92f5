//! Queue disciplines of output ports. A discipline sees only what every switch may see: size,
//! class, ECN bits and whether a packet may be trimmed. `FairClasses` also reads the transport id.
//! No discipline reads a transport's own header.

mod classes;
mod cut_payload;
mod model;
mod priority;
mod rare;
mod red;
mod trim;

use priority::Priority;
use punctual_core::{
    Bytes, Class, Ecn, Fifo, Limit, Packet, PacketArena, PacketFlags, PacketId, QueueSpec,
    prefetch_all,
};
use rare::RareQueue;
use red::Red;
use trim::Trim;

/// Bytes left of a trimmed packet.
pub const TRIMMED_BYTES: u16 = 64;

/// What a queue did with a packet other than queueing it unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Not queued; the caller frees it.
    Dropped,
    /// Not queued; the caller returns it to its sender, marked as bounced.
    Bounced,
    /// Queued without its payload.
    Trimmed,
    /// Queued with an ECN mark.
    Marked,
}

/// The packet that the port is transmitting. It still occupies buffer space.
#[derive(Clone, Copy, Debug, Default)]
pub struct InService {
    /// Its bytes; 0 when the port is idle.
    pub bytes: u32,
    /// Whether it is a control packet or trimmed header.
    pub is_control: bool,
}

/// A [`Limit`] packed into four bytes: packets if the top bit is set, otherwise bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cap(u32);

impl Cap {
    const NONE: Cap = Cap(Cap::IN_PACKETS - 1);
    const IN_PACKETS: u32 = 1 << 31;

    fn new(limit: Limit) -> Self {
        let most = u64::from(Cap::NONE.0);
        match limit {
            Limit::Bytes(b) => Cap(b.get().min(most) as u32),
            Limit::Packets(packets) => Cap(packets.min(Cap::NONE.0) | Cap::IN_PACKETS),
        }
    }

    /// Whether the queue plus the packet in service plus the arrival is within the limit.
    #[inline]
    fn holds(self, queue: &Fifo, in_service_bytes: u32, arrival_bytes: u16) -> bool {
        if self.0 & Cap::IN_PACKETS == 0 {
            queue.bytes() + in_service_bytes + u32::from(arrival_bytes) <= self.0
        } else {
            let packets = queue.packets() + u32::from(in_service_bytes > 0) + 1;
            packets <= self.0 - Cap::IN_PACKETS
        }
    }

    /// The largest packet that an empty queue accepts, in bytes. A limit of one packet or more is a
    /// number above the size of any packet.
    fn lone_packet_bytes(self) -> u32 {
        match self.0 {
            Cap::IN_PACKETS => 0,
            cap => cap,
        }
    }
}

/// The queue of one output port.
#[derive(Debug)]
pub struct Queue(Kind);

#[derive(Debug)]
enum Kind {
    Single { fifo: Fifo, cap: Cap, mark: Cap },
    Trim(Trim),
    Boxed(Box<Boxed>),
}

/// Disciplines kept behind a pointer, because they are large or rare.
#[derive(Debug)]
enum Boxed {
    Priority(Priority),
    Red(Red),
    Rare(RareQueue),
}

/// Fates of the arrival and of the packets that it displaced.
pub type Fates = Vec<(PacketId, Fate)>;

impl Queue {
    /// An empty queue. `seed` seeds the port's own random stream.
    pub fn new(spec: &QueueSpec, seed: u64) -> Self {
        let fifo = Fifo::default();
        Queue(match *spec {
            QueueSpec::DropTail { limit } => {
                Kind::Single { fifo, cap: Cap::new(limit), mark: Cap::NONE }
            }
            QueueSpec::Ecn { limit, mark_above } => {
                Kind::Single { fifo, cap: Cap::new(limit), mark: Cap::new(mark_above) }
            }
            QueueSpec::Priority { limit } => Kind::priority(Cap::new(limit), Cap::NONE),
            QueueSpec::Lossless { red: Some(red), .. } => {
                Kind::Boxed(Box::new(Boxed::Red(Red::new(red, seed))))
            }
            QueueSpec::Lossless { mark_above, .. } => {
                Kind::priority(Cap::NONE, mark_above.map_or(Cap::NONE, Cap::new))
            }
            QueueSpec::Trim { data, headers, mark_above } => {
                Kind::Trim(Trim::new(data, headers, mark_above, seed))
            }
            ref rare => Kind::Boxed(Box::new(Boxed::Rare(RareQueue::new(rare, seed)))),
        })
    }

    /// Sets which transports belong to the trimming class of `FairClasses`, one bit each.
    pub fn set_trimming(&mut self, transports: u64) {
        if let Kind::Boxed(queue) = &mut self.0
            && let Boxed::Rare(queue) = &mut **queue
        {
            queue.set_trimming(transports);
        }
    }

    /// The port sends a packet that has not been in its queue.
    pub fn note_bypass(&mut self, packet: &Packet) {
        if let Kind::Boxed(queue) = &mut self.0
            && let Boxed::Rare(RareQueue::FairClasses(queue)) = &mut **queue
        {
            queue.note_bypass(packet);
        }
    }

    /// The queue of a host's NIC: strict priority by class, unbounded.
    pub fn nic() -> Self {
        Queue(Kind::priority(Cap::NONE, Cap::NONE))
    }

    /// Enqueues an arrival. If the arrival or another packet is dropped, bounced, trimmed or
    /// marked, that is appended to `fates`.
    #[inline(always)]
    pub fn enqueue(
        &mut self,
        id: PacketId,
        in_service: InService,
        packets: &mut PacketArena,
        fates: &mut Fates,
    ) {
        match &mut self.0 {
            Kind::Single { fifo, cap, mark } => {
                let packet = &mut packets[id];
                if !cap.holds(fifo, in_service.bytes, packet.wire_bytes) {
                    fates.push((id, Fate::Dropped));
                    return;
                }
                if !mark.holds(fifo, in_service.bytes, packet.wire_bytes)
                    && packet.ecn() == Ecn::Capable
                {
                    packet.flags.set(PacketFlags::ECN_MARKED);
                    fates.push((id, Fate::Marked));
                }
                fifo.push_back(packets, id);
            }
            Kind::Trim(queue) => queue.enqueue(id, in_service, packets, fates),
            Kind::Boxed(queue) => match &mut **queue {
                Boxed::Priority(queue) => queue.enqueue(id, in_service, packets, fates),
                Boxed::Red(queue) => queue.enqueue(id, in_service, packets, fates),
                Boxed::Rare(queue) => queue.enqueue(id, in_service, packets, fates),
            },
        }
    }

    /// The largest packet that may skip an empty queue of an idle port, because the discipline
    /// would neither drop, trim nor mark it.
    pub fn idle_pass_bytes(&self) -> u32 {
        let least = |caps: &[Cap]| caps.iter().map(|c| c.lone_packet_bytes()).min().unwrap_or(0);
        match &self.0 {
            Kind::Single { cap, mark, .. } => least(&[*cap, *mark]),
            Kind::Trim(queue) => least(&queue.all_caps()),
            Kind::Boxed(queue) => match &**queue {
                Boxed::Priority(queue) if queue.is_paused() => 0,
                Boxed::Priority(queue) => least(&queue.caps()),
                // Some keep state about every packet.
                Boxed::Rare(_) | Boxed::Red(_) => 0,
            },
        }
    }

    /// Removes the packet to send next.
    #[inline(always)]
    pub fn dequeue(&mut self, packets: &PacketArena) -> Option<PacketId> {
        match &mut self.0 {
            Kind::Single { fifo, .. } => fifo.pop_front(packets),
            Kind::Trim(queue) => queue.dequeue(packets),
            Kind::Boxed(queue) => match &mut **queue {
                Boxed::Priority(queue) => queue.dequeue(packets),
                Boxed::Red(queue) => queue.classes.dequeue(packets),
                Boxed::Rare(queue) => queue.dequeue(packets),
            },
        }
    }

    /// The packet that will probably be sent next, as a prefetch hint.
    #[inline]
    pub fn front(&self) -> Option<PacketId> {
        match &self.0 {
            Kind::Single { fifo, .. } => fifo.front(),
            Kind::Trim(queue) => queue.headers().front().or(queue.data().front()),
            Kind::Boxed(queue) => match &**queue {
                Boxed::Priority(queue) => queue.front(),
                Boxed::Red(queue) => queue.classes.front(),
                Boxed::Rare(_) => None,
            },
        }
    }

    /// Prefetches the packets that the arrival of `packet` will touch: those that wait at the ends of
    /// the queue.
    #[inline]
    pub fn prefetch(&self, packet: &Packet, packets: &PacketArena) {
        let ends = |fifo: &Fifo| {
            for id in fifo.ends() {
                packets.prefetch(id);
            }
        };
        match &self.0 {
            Kind::Single { fifo, .. } => ends(fifo),
            Kind::Trim(queue) => {
                let [first_header, _] = queue.headers().ends();
                let [first_data, _] = queue.data().ends();
                let [_, last] = queue.queue_of(packet.class).ends();
                for id in [first_header, first_data, last] {
                    packets.prefetch(id);
                }
            }
            Kind::Boxed(queue) => match &**queue {
                Boxed::Priority(queue) => ends(queue.class(packet.class)),
                Boxed::Red(queue) => ends(queue.classes.class(packet.class)),
                Boxed::Rare(_) => {}
            },
        }
    }

    /// Prefetches the state of the queue, if that is not in the queue itself.
    #[inline]
    pub fn prefetch_state(&self) {
        if let Kind::Boxed(queue) = &self.0 {
            prefetch_all(&**queue);
        }
    }

    /// The last packet of those that will probably be sent next, as a prefetch hint.
    #[inline]
    pub fn back(&self) -> Option<PacketId> {
        match &self.0 {
            Kind::Single { fifo, .. } => fifo.back(),
            Kind::Trim(queue) => queue.data().back(),
            Kind::Boxed(queue) => match &**queue {
                Boxed::Priority(queue) => queue.class(Class::CONTROL).back(),
                Boxed::Red(queue) => queue.classes.class(Class::CONTROL).back(),
                Boxed::Rare(_) => None,
            },
        }
    }

    /// The last packet queued with its payload, if an arrival may take its place and its slot
    /// (see [`Fifo::replace_back`]). For observers.
    pub fn trimming_tail(&self) -> Option<PacketId> {
        match &self.0 {
            Kind::Trim(queue) => queue.data().back(),
            Kind::Boxed(queue) => match &**queue {
                Boxed::Rare(queue) => queue.trimming_tail(),
                Boxed::Priority(_) | Boxed::Red(_) => None,
            },
            Kind::Single { .. } => None,
        }
    }

    /// Whether no packet may be sent: none is queued, or every queued class is paused.
    #[inline]
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Kind::Single { fifo, .. } => fifo.is_empty(),
            Kind::Trim(queue) => queue.is_empty(),
            Kind::Boxed(queue) => match &**queue {
                Boxed::Priority(queue) => queue.is_empty(),
                Boxed::Red(queue) => queue.classes.is_empty(),
                Boxed::Rare(queue) => queue.waiting().1 == 0,
            },
        }
    }

    /// Pauses or resumes a class. Only queues of lossless switches and NICs are ever paused;
    /// disciplines without classes ignore the call.
    pub fn set_paused(&mut self, class: Class, is_paused: bool) {
        if let Kind::Boxed(queue) = &mut self.0 {
            match &mut **queue {
                Boxed::Priority(queue) => queue.set_paused(class, is_paused),
                Boxed::Red(queue) => queue.classes.set_paused(class, is_paused),
                Boxed::Rare(_) => {}
            }
        }
    }

    /// The queued packets of a class; `None` if the discipline cannot pause classes.
    pub fn waiting_in(&self, class: Class) -> Option<&Fifo> {
        match &self.0 {
            Kind::Boxed(queue) => match &**queue {
                Boxed::Priority(queue) => Some(queue.class(class)),
                Boxed::Red(queue) => Some(queue.classes.class(class)),
                Boxed::Rare(_) => None,
            },
            _ => None,
        }
    }

    /// Queued bytes and packets, without the packet in service.
    #[inline]
    pub fn waiting(&self) -> (Bytes, u32) {
        let (bytes, packets) = match &self.0 {
            Kind::Single { fifo, .. } => (fifo.bytes(), fifo.packets()),
            Kind::Trim(queue) => queue.waiting(),
            Kind::Boxed(queue) => match &**queue {
                Boxed::Priority(queue) => queue.waiting(),
                Boxed::Red(queue) => queue.classes.waiting(),
                Boxed::Rare(queue) => queue.waiting(),
            },
        };
        (Bytes::new(u64::from(bytes)), packets)
    }
}

impl Kind {
    fn priority(cap: Cap, mark: Cap) -> Self {
        Kind::Boxed(Box::new(Boxed::Priority(Priority::new(cap, mark))))
    }
}

/// Trims a packet to at most `bytes`. A trimmed packet travels in the control class.
fn cut_to(packet: &mut Packet, bytes: u16) {
    packet.wire_bytes = packet.wire_bytes.min(bytes);
    packet.flags.set(PacketFlags::TRIMMED);
    packet.class = Class::CONTROL;
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests;
