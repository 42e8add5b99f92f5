//! Queue disciplines of output ports. A discipline knows packets by what every switch may know:
//! size, class, ECN and whether they may be trimmed; never a protocol's own header.

mod classes;
mod cut_payload;
mod model;
mod other;

use other::Other;
use punctual_core::rng::Stream;
use punctual_core::{
    Bytes, Class, Ecn, Fifo, Limit, Packet, PacketArena, PacketFlags, PacketId, QueueSpec,
};

/// Bytes left of a trimmed packet.
pub const TRIMMED_BYTES: u16 = 64;

/// What a discipline did with a packet, when it did more than queue it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Not queued; the caller disposes of it.
    Dropped,
    /// Not queued: the caller sends it back to its sender, marked as bounced.
    Bounced,
    /// Queued without its payload.
    Trimmed,
    /// Queued with an ECN mark.
    Marked,
}

/// The packet that the port is sending while another arrives: it still takes up room.
#[derive(Clone, Copy, Debug, Default)]
pub struct InService {
    /// Its bytes; 0 when the port is idle.
    pub bytes: u32,
    /// Whether it is a control packet or trimmed header.
    pub is_control: bool,
}

/// A limit in four bytes: bytes, or packets when the top bit is set.
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

    /// Whether a queue, with what is in service and the arrival, is within the limit.
    #[inline]
    fn holds(self, queue: &Fifo, in_service_bytes: u32, arrival_bytes: u16) -> bool {
        if self.0 & Cap::IN_PACKETS == 0 {
            queue.bytes() + in_service_bytes + u32::from(arrival_bytes) <= self.0
        } else {
            let packets = queue.packets() + u32::from(in_service_bytes > 0) + 1;
            packets <= self.0 - Cap::IN_PACKETS
        }
    }

    /// The largest packet that an otherwise empty queue holds.
    fn lone_packet_bytes(self) -> u32 {
        match self.0 {
            Cap::IN_PACKETS => 0,
            cap if cap & Cap::IN_PACKETS != 0 => u32::MAX,
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

/// What is too large to be in a port, or too rare to make choosing among the rest slower.
#[derive(Debug)]
enum Boxed {
    Priority(Priority),
    Other(Other),
}

#[derive(Debug)]
struct Priority {
    fifos: [Fifo; Class::COUNT],
    cap: Cap,
}

#[derive(Debug)]
struct Trim {
    data: Fifo,
    headers: Fifo,
    data_cap: Cap,
    header_cap: Cap,
    mark: Cap,
    /// Whose turn it is when both queues wait: of every eleven, ten are headers.
    turn: u8,
    coin: Stream,
}

/// A packet's fate, reported for whichever packet it befell.
pub type Fates = Vec<(PacketId, Fate)>;

impl Queue {
    /// An empty queue; `seed` is that of the port's own random stream.
    pub fn new(spec: &QueueSpec, seed: u64) -> Self {
        let fifo = Fifo::default();
        Queue(match *spec {
            QueueSpec::DropTail { limit } => {
                Kind::Single { fifo, cap: Cap::new(limit), mark: Cap::NONE }
            }
            QueueSpec::Ecn { limit, mark_above } => {
                Kind::Single { fifo, cap: Cap::new(limit), mark: Cap::new(mark_above) }
            }
            QueueSpec::Priority { limit } => Kind::priority(Cap::new(limit)),
            QueueSpec::Trim { data, headers, mark_above } => {
                Kind::Trim(Trim::new(data, headers, mark_above, seed))
            }
            ref other => Kind::Boxed(Box::new(Boxed::Other(Other::new(other, seed)))),
        })
    }

    /// Tells a discipline with classes which transports, a bit each, want their packets trimmed.
    pub fn set_trimming(&mut self, transports: u64) {
        if let Kind::Boxed(queue) = &mut self.0
            && let Boxed::Other(queue) = &mut **queue
        {
            queue.set_trimming(transports);
        }
    }

    /// The queue of a host's NIC: classes in strict order, as long as need be.
    pub fn nic() -> Self {
        Queue(Kind::priority(Cap::NONE))
    }

    /// Takes in an arrival. Whatever happens to it or to another packet besides being queued is
    /// added to `fates`.
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
                Boxed::Priority(queue) => {
                    let (class, bytes) = (packets[id].class, packets[id].wire_bytes);
                    let fifo = &mut queue.fifos[usize::from(class.0) % Class::COUNT];
                    if queue.cap.holds(fifo, in_service.bytes, bytes) {
                        fifo.push_back(packets, id);
                    } else {
                        fates.push((id, Fate::Dropped));
                    }
                }
                Boxed::Other(queue) => queue.enqueue(id, in_service, packets, fates),
            },
        }
    }

    /// A packet of at most this many bytes that finds the port idle and this queue empty may
    /// pass without being queued: the discipline would do nothing to it.
    pub fn idle_pass_bytes(&self) -> u32 {
        let least = |caps: &[Cap]| caps.iter().map(|c| c.lone_packet_bytes()).min().unwrap_or(0);
        match &self.0 {
            Kind::Single { cap, mark, .. } => least(&[*cap, *mark]),
            Kind::Trim(queue) => least(&[queue.data_cap, queue.header_cap, queue.mark]),
            Kind::Boxed(queue) => match &**queue {
                Boxed::Priority(queue) => least(&[queue.cap]),
                // Some keep books on every packet.
                Boxed::Other(_) => 0,
            },
        }
    }

    /// Takes out the packet to send next.
    #[inline(always)]
    pub fn dequeue(&mut self, packets: &PacketArena) -> Option<PacketId> {
        match &mut self.0 {
            Kind::Single { fifo, .. } => fifo.pop_front(packets),
            Kind::Trim(queue) => queue.dequeue(packets),
            Kind::Boxed(queue) => match &mut **queue {
                Boxed::Priority(queue) => {
                    queue.fifos.iter_mut().find_map(|fifo| fifo.pop_front(packets))
                }
                Boxed::Other(queue) => queue.dequeue(packets),
            },
        }
    }

    /// The packet that will probably be sent next.
    #[inline]
    pub fn front(&self) -> Option<PacketId> {
        match &self.0 {
            Kind::Single { fifo, .. } => fifo.front(),
            Kind::Trim(queue) => queue.headers.front().or(queue.data.front()),
            Kind::Boxed(queue) => match &**queue {
                Boxed::Priority(queue) => queue.fifos.iter().find_map(Fifo::front),
                Boxed::Other(_) => None,
            },
        }
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Kind::Single { fifo, .. } => fifo.is_empty(),
            Kind::Trim(queue) => queue.data.is_empty() && queue.headers.is_empty(),
            Kind::Boxed(queue) => match &**queue {
                Boxed::Priority(queue) => queue.fifos.iter().all(Fifo::is_empty),
                Boxed::Other(queue) => queue.waiting().1 == 0,
            },
        }
    }

    /// Bytes and packets waiting.
    pub fn waiting(&self) -> (Bytes, u32) {
        let (bytes, packets) = match &self.0 {
            Kind::Single { fifo, .. } => (fifo.bytes(), fifo.packets()),
            Kind::Trim(queue) => queue.waiting(),
            Kind::Boxed(queue) => match &**queue {
                Boxed::Priority(queue) => queue
                    .fifos
                    .iter()
                    .fold((0, 0), |(b, p), fifo| (b + fifo.bytes(), p + fifo.packets())),
                Boxed::Other(queue) => queue.waiting(),
            },
        };
        (Bytes::new(u64::from(bytes)), packets)
    }
}

impl Kind {
    fn priority(cap: Cap) -> Self {
        let fifos = [Fifo::default(); Class::COUNT];
        Kind::Boxed(Box::new(Boxed::Priority(Priority { fifos, cap })))
    }
}

fn is_control(packet: &Packet) -> bool {
    packet.class == Class::CONTROL || packet.is_trimmed()
}

fn cut_payload(packet: &mut Packet) {
    cut_to(packet, TRIMMED_BYTES);
}

fn cut_to(packet: &mut Packet, bytes: u16) {
    packet.wire_bytes = packet.wire_bytes.min(bytes);
    packet.flags.set(PacketFlags::TRIMMED);
    packet.class = Class::CONTROL;
}

impl Trim {
    fn new(data: Limit, headers: Limit, mark_above: Option<Limit>, seed: u64) -> Self {
        Trim {
            data: Fifo::default(),
            headers: Fifo::default(),
            data_cap: Cap::new(data),
            header_cap: Cap::new(headers),
            mark: mark_above.map_or(Cap::NONE, Cap::new),
            turn: 0,
            coin: Stream::from_seed(seed),
        }
    }

    /// Bytes and packets waiting.
    fn waiting(&self) -> (u32, u32) {
        (self.data.bytes() + self.headers.bytes(), self.data.packets() + self.headers.packets())
    }

    fn enqueue(
        &mut self,
        id: PacketId,
        in_service: InService,
        packets: &mut PacketArena,
        fates: &mut Fates,
    ) {
        let packet = &mut packets[id];
        if is_control(packet) {
            self.enqueue_header(id, in_service, packets, fates);
            return;
        }
        let busy = if in_service.is_control { 0 } else { in_service.bytes };
        if self.data_cap.holds(&self.data, busy, packet.wire_bytes) {
            let over = !self.mark.holds(&self.data, busy, packet.wire_bytes);
            if over && packet.ecn() == Ecn::Capable {
                packet.flags.set(PacketFlags::ECN_MARKED);
                fates.push((id, Fate::Marked));
            }
            self.data.push_back(packets, id);
            return;
        }
        if !packet.flags.has(PacketFlags::TRIMMABLE) {
            fates.push((id, Fate::Dropped));
            return;
        }
        let trimmed = self.choose_victim(id, busy, packets);
        cut_payload(&mut packets[trimmed]);
        fates.push((trimmed, Fate::Trimmed));
        self.enqueue_header(trimmed, in_service, packets, fates);
    }

    /// Heads: the arrival loses its payload. Tails: the last data packet does, and the arrival
    /// takes its place, if it fits there.
    fn choose_victim(
        &mut self,
        arrival: PacketId,
        busy: u32,
        packets: &mut PacketArena,
    ) -> PacketId {
        let Some(tail) = self.data.back() else {
            return arrival;
        };
        let (tail_bytes, bytes) = (packets[tail].wire_bytes, packets[arrival].wire_bytes);
        let room = self.data.bytes() + busy - u32::from(tail_bytes) + u32::from(bytes);
        let fits = self.data_cap.0 & Cap::IN_PACKETS != 0 || room <= self.data_cap.0;
        let tail_may_go = packets[tail].flags.has(PacketFlags::TRIMMABLE) && fits;
        if self.coin.coin() || !tail_may_go {
            return arrival;
        }
        self.data.replace_back(packets, arrival).unwrap_or(arrival)
    }

    #[inline(always)]
    fn enqueue_header(
        &mut self,
        id: PacketId,
        in_service: InService,
        packets: &mut PacketArena,
        fates: &mut Fates,
    ) {
        let busy = if in_service.is_control { in_service.bytes } else { 0 };
        let packet = &packets[id];
        if self.header_cap.holds(&self.headers, busy, packet.wire_bytes) {
            self.headers.push_back(packets, id);
        } else if packet.is_trimmed() && !packet.is_bounced() {
            fates.push((id, Fate::Bounced));
        } else {
            fates.push((id, Fate::Dropped));
        }
    }

    fn dequeue(&mut self, packets: &PacketArena) -> Option<PacketId> {
        if self.data.is_empty() {
            return self.headers.pop_front(packets);
        }
        if !self.headers.is_empty() {
            self.turn = if self.turn >= 10 { 0 } else { self.turn + 1 };
            if self.turn < 10 {
                return self.headers.pop_front(packets);
            }
        }
        self.data.pop_front(packets)
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
#[allow(non_snake_case)]
mod tests;
