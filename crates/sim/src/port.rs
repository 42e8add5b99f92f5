//! The state of an output port while a simulation runs.

use punctual_core::{Bytes, Duration, HostId, Instant, NodeId, PortId, PortView, Rate};
use punctual_net::{InService, Link, Queue};

#[derive(Debug)]
pub(crate) struct PortState {
    pub(crate) busy_until: Instant,
    /// Time of one byte, when that is a whole number of picoseconds; else 0.
    picos_per_byte: u64,
    pub(crate) delay: Duration,
    /// Bytes sent since the start, framing included.
    pub(crate) sent_bytes: u64,
    pub(crate) in_service: InService,
    /// Packets up to this size pass an idle port at once.
    pub(crate) idle_pass_bytes: u32,
    framing: u32,
    pub(crate) to: NodeId,
    pub(crate) twin: PortId,
    /// An event is due for when the port falls idle: something waits.
    pub(crate) free_pending: bool,
    /// Controllers watch this port.
    pub(crate) has_controllers: bool,
    /// The link may lose packets.
    pub(crate) is_faulty: bool,
    /// The host whose NIC it is.
    pub(crate) nic_of: Option<HostId>,
    pub(crate) rate: Rate,
    pub(crate) queue: Queue,
}

impl PortState {
    pub(crate) fn new(link: &Link, framing: Bytes, queue: Queue, nic_of: Option<HostId>) -> Self {
        let mut port = PortState {
            busy_until: Instant::ZERO,
            picos_per_byte: 0,
            delay: link.delay,
            sent_bytes: 0,
            in_service: InService::default(),
            idle_pass_bytes: queue.idle_pass_bytes(),
            framing: framing.get() as u32,
            to: link.to,
            twin: link.twin,
            free_pending: false,
            has_controllers: false,
            is_faulty: false,
            nic_of,
            rate: Rate::ZERO,
            queue,
        };
        port.set_rate(link.rate);
        port
    }

    pub(crate) fn set_rate(&mut self, rate: Rate) {
        const PICO_BITS: u64 = 8_000_000_000_000;
        self.rate = rate;
        let bps = rate.as_bps().max(1);
        self.picos_per_byte = if PICO_BITS.is_multiple_of(bps) { PICO_BITS / bps } else { 0 };
    }

    /// Bytes a packet takes on this link.
    #[inline]
    pub(crate) fn link_bytes(&self, wire_bytes: u16) -> u64 {
        u64::from(wire_bytes) + u64::from(self.framing)
    }

    #[inline]
    pub(crate) fn transmission_time(&self, link_bytes: u64) -> Duration {
        if self.picos_per_byte != 0 {
            Duration::from_picos(link_bytes * self.picos_per_byte)
        } else {
            self.rate.transmission_time(Bytes::new(link_bytes))
        }
    }

    /// The packet in service at `now`.
    #[inline]
    pub(crate) fn in_service_at(&self, now: Instant) -> InService {
        if self.busy_until > now { self.in_service } else { InService::default() }
    }

    pub(crate) fn view(&self, port: PortId, now: Instant) -> PortView {
        PortView {
            port,
            now,
            rate: self.rate,
            queue_bytes: self.queue.waiting().0.get(),
            sent_bytes: self.sent_bytes,
        }
    }
}
