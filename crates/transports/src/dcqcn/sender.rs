//! The sender: paces at the rate of the rate machine, with go-back-N loss recovery.

use super::header::{DATA_HEADER_BYTES, DcqcnFlags, DcqcnHeader};
use super::{DcqcnConfig, DcqcnHost, RateMachine};
use punctual_core::{
    Bytes, Class, Duration, Endpoint, FlowEvent, FlowId, FlowRoute, FlowSpec, Header, HostCx,
    HostId, Instant, Packet, PacketFlags, RetransmitCause, Wait,
};

/// State of a DCQCN sender.
#[derive(Clone, Debug)]
pub struct DcqcnSender {
    flow: FlowId,
    receiver: HostId,
    path: u32,
    class: Class,
    size_bytes: u64,
    /// The receiver has everything below this.
    acked: u64,
    /// The next byte to send; go-back-N resets it.
    next: u64,
    /// The first byte never sent.
    highest: u64,
    /// Why it went back last.
    went_back: RetransmitCause,
    /// Whether the last packet has been sent since the last go-back.
    is_all_sent: bool,
    machine: RateMachine,
    /// When the last packet left, and its bytes on the link, which pace the next.
    sent_at: Instant,
    sent_bytes: u64,
    /// Whether it waits for the NIC.
    asked: bool,
    /// When the retransmission timeout expires.
    rto_at: Option<Instant>,
    timeouts: u32,
}

/// The greatest number of doublings of the timeout.
const DOUBLINGS_MAX: u32 = 6;

impl DcqcnSender {
    pub(super) fn open(
        flow: &FlowSpec,
        route: &FlowRoute,
        cx: &mut HostCx<'_, DcqcnConfig>,
    ) -> Self {
        let mut sender = DcqcnSender {
            flow: flow.id,
            receiver: flow.dst,
            path: route.ecmp_path,
            class: flow.class,
            size_bytes: flow.size.get(),
            acked: 0,
            next: 0,
            highest: 0,
            went_back: RetransmitCause::Timeout,
            is_all_sent: false,
            machine: RateMachine::new(&cx.shared.machine),
            sent_at: cx.now,
            sent_bytes: 0,
            asked: false,
            rto_at: None,
            timeouts: 0,
        };
        sender.go_on(cx);
        sender
    }

    /// The rate machine.
    pub fn machine(&self) -> &RateMachine {
        &self.machine
    }

    /// Bytes that the receiver has acknowledged.
    pub fn acked_bytes(&self) -> u64 {
        self.acked
    }

    /// When the next packet may leave. DCQCN-R02.
    fn due(&self) -> Instant {
        self.sent_at + self.machine.current().transmission_time(Bytes::new(self.sent_bytes))
    }

    /// Requests the NIC if a packet is due, and sets the timer.
    fn go_on(&mut self, cx: &mut HostCx<'_, DcqcnConfig>) {
        let mut call_at = self.machine.next_timeout();
        if let Some(rto_at) = self.rto_at {
            call_at = call_at.min(rto_at);
        }
        if !self.is_all_sent && !self.asked {
            let due = self.due();
            if due <= cx.now {
                self.asked = true;
                cx.ready(self.class);
            } else {
                call_at = call_at.min(due);
            }
        }
        if call_at == Instant::NEVER {
            cx.clear_timer();
        } else {
            cx.set_timer(call_at);
        }
    }

    fn rto(&self, config: &DcqcnConfig) -> Duration {
        config.rto.saturating_mul(1 << self.timeouts.min(DOUBLINGS_MAX))
    }

    /// Go-back-N: resends everything from the first unacknowledged byte. DCQCN-R11.
    fn go_back(&mut self, cause: RetransmitCause) {
        self.next = self.acked;
        self.went_back = cause;
        self.is_all_sent = false;
    }

    fn handle_ack(&mut self, header: &DcqcnHeader, cx: &mut HostCx<'_, DcqcnConfig>) {
        let ack = header.offset;
        if ack < self.acked || ack > self.highest {
            return; // Old, or of bytes never sent.
        }
        if header.has(DcqcnFlags::COMPLETE) && ack == self.size_bytes {
            cx.clear_timer();
            return cx.emit(FlowEvent::Finished);
        }
        if ack > self.acked {
            self.acked = ack;
            self.next = self.next.max(ack);
            self.timeouts = 0;
            let is_in_flight = self.acked < self.highest || self.is_all_sent;
            self.rto_at = is_in_flight.then(|| cx.now + self.rto(cx.config));
        }
        if header.has(DcqcnFlags::NAK) {
            self.go_back(RetransmitCause::Nack);
        }
        self.go_on(cx);
    }
}

impl Endpoint<DcqcnConfig> for DcqcnSender {
    fn gauges(&self, _: &DcqcnHost, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("rate_bps", self.machine.current().as_bps() as f64);
        tell("target_bps", self.machine.target().as_bps() as f64);
        tell("alpha", self.machine.alpha().as_f64());
    }

    fn waits_for(&self) -> Wait {
        if self.is_all_sent { Wait::Timer } else { Wait::Pacing(None) }
    }

    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, DcqcnConfig>) {
        let header: DcqcnHeader = packet.header.get();
        if packet.is_bounced() {
            return;
        }
        if header.has(DcqcnFlags::CNP) {
            self.machine.handle_cnp(cx.now, &cx.shared.machine);
            return self.go_on(cx);
        }
        if header.has(DcqcnFlags::ACK) {
            self.handle_ack(&header, cx);
        }
    }

    fn handle_timeout(&mut self, cx: &mut HostCx<'_, DcqcnConfig>) {
        self.machine.handle_timeout(cx.now, &cx.shared.machine);
        if self.rto_at.is_some_and(|at| at <= cx.now) {
            cx.emit(FlowEvent::TimedOut);
            self.timeouts += 1;
            self.rto_at = Some(cx.now + self.rto(cx.config));
            self.go_back(RetransmitCause::Timeout);
        }
        self.go_on(cx);
    }

    fn poll_transmit(&mut self, cx: &mut HostCx<'_, DcqcnConfig>) -> Option<Packet> {
        self.asked = false;
        if self.is_all_sent || self.due() > cx.now {
            // Acknowledged or slowed down since it asked.
            self.go_on(cx);
            return None;
        }
        let payload_bytes = cx.shared.payload_bytes.min(self.size_bytes - self.next);
        let end = self.next + payload_bytes;
        let flags = if end == self.size_bytes { DcqcnFlags::LAST } else { 0 };
        let header = DcqcnHeader { offset: self.next, flags, ..DcqcnHeader::default() };
        let mut packet = Packet::new(self.flow, self.receiver, Header::new(header));
        packet.payload_bytes = payload_bytes as u16;
        packet.wire_bytes = payload_bytes as u16 + DATA_HEADER_BYTES;
        packet.class = self.class;
        packet.path = self.path; // DCQCN-R10
        packet.flags.set(PacketFlags::ECN_CAPABLE);
        if self.next < self.highest {
            cx.emit(FlowEvent::Retransmitted(self.went_back));
        }
        self.next = end;
        self.highest = self.highest.max(end);
        self.is_all_sent = end == self.size_bytes;
        self.sent_at = cx.now;
        self.sent_bytes = u64::from(packet.wire_bytes) + cx.shared.framing_bytes;
        self.machine.count_sent(u64::from(packet.wire_bytes), &cx.shared.machine);
        if self.rto_at.is_none() {
            self.rto_at = Some(cx.now + self.rto(cx.config));
        }
        self.go_on(cx);
        Some(packet)
    }
}
