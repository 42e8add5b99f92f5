//! The sending end: paces at the rate granted, probes while paused, gives up what is hopeless,
//! and sends again what was lost.

use super::Pdq;
use super::config::{Criticality, RoundTrip};
use super::header::{
    HEADER_BYTES, NOBODY, PROBE_UNIT, PdqHeader, deadline_field, earlier, expected_field, kbps,
    rate, rtt_field, time_field,
};
use punctual_core::rng::Stream;
use punctual_core::{
    Bytes, Class, Duration, Endpoint, FlowEvent, FlowId, FlowRoute, FlowSpec, Header, HostCx,
    HostId, Instant, Packet, PortId, Rate, Transport, Wait,
};

mod segments;
use crate::pacing::Pacer;
use crate::rtt::{RtoBounds, RttEstimate};
use segments::{News, Segments};

/// A round trip is taken to last at least this, so that probes cannot follow each other at once.
const RTT_MIN: Duration = Duration::from_micros(1);
/// What aging counts waiting in.
const AGING_UNIT: Duration = Duration::from_millis(100);

/// State of a flow's sending end.
#[derive(Clone, Debug)]
pub struct Sender {
    flow: FlowId,
    peer: HostId,
    path: u16,
    class: Class,
    deadline: Option<Instant>,
    segments: Segments,
    /// No less than what the rest ever takes at the highest rate.
    whole: Duration,
    /// The criticality drawn, where it is random.
    draw: u32,

    /// R_S, at most the line's rate, and when it lets the next packet go.
    pacer: Pacer,
    /// P_S: who pauses the flow.
    pauser: u32,
    /// I_S: the time between probes, in thousandths of a round trip.
    probe_interval: u32,
    /// When the packet left whose answer was heeded last.
    heeded: Option<u32>,
    rtt: RttEstimate,
    /// How long it has been paused until `paused_since`, and since when it is.
    waited: Duration,
    paused_since: Option<Instant>,

    /// When the SYN left, until anything is answered.
    syn_sent_at: Option<Instant>,
    term: Term,
    /// When a packet that asks ports left last; with `ask_now` the next goes at once.
    asked_at: Instant,
    ask_now: bool,
    /// Its packet is due and waits for the NIC.
    waits_for_nic: bool,

    last_progress: Instant,
}

/// The packet by which a flow leaves the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Term {
    /// To be sent when nothing else is: ports may know the flow.
    Due,
    Sent {
        at: Instant,
    },
    Acked,
}

impl Sender {
    /// Starts a flow with a SYN, unless it is hopeless already.
    pub(super) fn open(flow: &FlowSpec, route: &FlowRoute, cx: &mut HostCx<'_, Pdq>) -> Self {
        let draw = match cx.config.criticality {
            Criticality::Random => (Stream::from_seed(route.seed).bits() >> 32) as u32,
            _ => 0,
        };
        let segments = Segments::new(flow.size.get(), cx.shared.segment_bytes());
        let around = u64::from(HEADER_BYTES) + cx.shared.nic.framing.get();
        let whole = cx.shared.nic.rate.transmission_time(Bytes::new(segments.most_left(around)));
        let mut sender = Sender {
            flow: flow.id,
            peer: route.peer,
            // Below the number of paths, as the ECMP path is.
            path: (route.ecmp_path & u32::from(u16::MAX)) as u16,
            class: flow.class,
            deadline: flow.deadline,
            segments,
            whole,
            draw,
            pauser: NOBODY,
            probe_interval: 0,
            heeded: None,
            rtt: RttEstimate::default(),
            waited: Duration::ZERO,
            paused_since: Some(cx.now),
            syn_sent_at: None,
            term: Term::Due,
            asked_at: cx.now,
            ask_now: false,
            pacer: Pacer::new(cx.now),
            waits_for_nic: false,
            last_progress: cx.now,
        };
        if sender.is_hopeless(cx) {
            cx.emit(FlowEvent::Abandoned); // No port knows it, so none need be told.
            return sender;
        }
        sender.send_syn(cx);
        sender.set_timer(cx);
        sender
    }

    /// The rate it may send at; zero while it is paused.
    pub fn rate(&self) -> Rate {
        self.pacer.rate()
    }

    /// The port that pauses it, if one does.
    pub fn pauser(&self) -> Option<u32> {
        Some(self.pauser).filter(|pauser| *pauser != NOBODY)
    }

    /// How long it has been paused in all.
    pub fn waited(&self, now: Instant) -> Duration {
        let since = self.paused_since.map_or(Duration::ZERO, |since| now.saturating_since(since));
        self.waited + since
    }

    fn established(&self) -> bool {
        self.syn_sent_at.is_none()
    }

    /// RTT_S, or zero before anything was answered (PDQ-R29).
    fn round_trip(&self, cx: &HostCx<'_, Pdq>) -> Duration {
        match cx.config.round_trip {
            RoundTrip::Least => self.rtt.least(),
            RoundTrip::Smoothed => self.rtt.smoothed(),
        }
    }

    // Headers (PDQ-R02).

    /// T_S: how long the rest takes at the highest rate, headers included.
    fn expected(&self, cx: &HostCx<'_, Pdq>) -> Duration {
        let nic = &cx.shared.nic;
        let around = u64::from(HEADER_BYTES) + nic.framing.get();
        let headers = self.segments.left().saturating_mul(around);
        let bytes = self.segments.left_bytes().saturating_add(headers);
        nic.rate.transmission_time(Bytes::new(bytes))
    }

    /// T_H, or what stands for it where sizes count as unknown (PDQ-R23).
    fn expected_field(&self, cx: &HostCx<'_, Pdq>) -> u32 {
        match cx.config.criticality {
            Criticality::Deadline => expected_field(self.expected(cx)),
            Criticality::Random => self.draw,
            Criticality::Estimated => {
                let step = cx.config.estimate_step.get();
                let sent = self.segments.sent_bytes() / step * step;
                expected_field(cx.shared.nic.rate.transmission_time(Bytes::new(sent)))
            }
        }
    }

    /// What aging takes off T (PDQ-R24).
    fn age_field(&self, cx: &HostCx<'_, Pdq>) -> u8 {
        if cx.config.aging == 0.0 {
            return 0;
        }
        let units = self.waited(cx.now).as_secs_f64() / AGING_UNIT.as_secs_f64();
        (8.0 * cx.config.aging * units).min(255.0) as u8
    }

    fn header(&self, seq: u32, flags: u8, cx: &HostCx<'_, Pdq>) -> PdqHeader {
        let deadline = match cx.config.criticality {
            Criticality::Random => None,
            _ => self.deadline,
        };
        PdqHeader {
            seq,
            time: time_field(cx.now),
            rate: kbps(cx.shared.nic.rate),
            pauser: self.pauser,
            deadline: deadline_field(deadline),
            expected: self.expected_field(cx),
            rtt: rtt_field(self.round_trip(cx)),
            path: self.path,
            flags,
            age: self.age_field(cx),
        }
    }

    fn packet(&self, class: Class, header: PdqHeader) -> Packet {
        let mut packet = Packet::new(self.flow, self.peer, Header::new(header));
        packet.path = u32::from(self.path);
        packet.class = class;
        packet.wire_bytes = HEADER_BYTES;
        packet
    }

    // Packets.

    fn send_syn(&mut self, cx: &mut HostCx<'_, Pdq>) {
        self.syn_sent_at = Some(cx.now);
        self.asked_at = cx.now;
        let header = self.header(self.segments.next_new(), PdqHeader::SYN, cx);
        cx.send(self.packet(Class::CONTROL, header));
    }

    fn send_probe(&mut self, cx: &mut HostCx<'_, Pdq>) {
        self.asked_at = cx.now;
        self.ask_now = false;
        self.term = Term::Due;
        let header = self.header(self.segments.next_new(), 0, cx);
        cx.send(self.packet(Class::CONTROL, header));
    }

    /// The TERM of a flow that has sent everything. Of the data's class, lest it overtake them.
    fn term_packet(&mut self, cx: &HostCx<'_, Pdq>) -> Packet {
        self.term = Term::Sent { at: cx.now };
        let flags = PdqHeader::TERM | PdqHeader::END;
        let header = self.header(self.segments.count(), flags, cx);
        self.packet(self.class, header)
    }

    /// The next data packet, which leaves now.
    fn next_packet(&mut self, cx: &mut HostCx<'_, Pdq>) -> Option<Packet> {
        let segment = self.segments.send_next(cx.now)?;
        let end = if segment.is_end { PdqHeader::END } else { 0 };
        let again = if segment.again { PdqHeader::AGAIN } else { 0 };
        let header = self.header(segment.number, PdqHeader::DATA | end | again, cx);
        let mut packet = self.packet(self.class, header);
        packet.payload_bytes = segment.len;
        packet.wire_bytes += segment.len;
        self.term = Term::Due;
        self.asked_at = cx.now;
        let link_bytes = u64::from(packet.wire_bytes) + cx.shared.nic.framing.get();
        self.pacer.sent(cx.now, Bytes::new(link_bytes));
        if segment.again {
            cx.emit(FlowEvent::Retransmitted);
        }
        Some(packet)
    }

    /// When the next data packet may go, if there is one and it may (PDQ-R03).
    fn next_departure(&self) -> Option<Instant> {
        if self.segments.left() == 0 {
            return None;
        }
        self.pacer.next_departure()
    }

    fn term_due(&self) -> bool {
        self.established() && self.segments.left() == 0 && self.term == Term::Due
    }

    /// When a probe goes, unless something else has gone by then (PDQ-R04).
    fn next_probe(&self) -> Option<Instant> {
        if !self.established() || self.segments.left() == 0 {
            return None;
        }
        // As measured, queues and all: the next probe must know what the last one brought.
        let rtt = self.rtt.smoothed().max(RTT_MIN);
        let interval = if self.pacer.is_paused() && self.probe_interval > PROBE_UNIT {
            rtt.mul_f64(f64::from(self.probe_interval) / f64::from(PROBE_UNIT))
        } else {
            rtt
        };
        Some(if self.ask_now { self.asked_at } else { self.asked_at.saturating_add(interval) })
    }

    /// Sends whatever the state allows now.
    fn pump(&mut self, cx: &mut HostCx<'_, Pdq>) {
        let now = cx.now;
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let departure = self.next_departure();
        if self.term_due() || due(departure) {
            if !self.waits_for_nic {
                // It asks ports as soon as the NIC lets it: no probe until then, or for long.
                self.asked_at = now;
                self.ask_now = false;
            }
            self.waits_for_nic = true;
            cx.ready(self.class);
        }
        let mut probe = self.next_probe();
        if due(probe) {
            self.send_probe(cx);
            probe = self.next_probe();
        }
        self.set_timer_for(departure, probe, cx);
    }

    // Early Termination (PDQ-R06).

    /// What must be left until the deadline: time to send the rest, and while paused a round trip.
    fn needed(&self, cx: &HostCx<'_, Pdq>) -> Duration {
        let rest = if cx.config.sizes_known() { self.expected(cx) } else { Duration::ZERO };
        if self.pacer.is_paused() { rest.max(self.round_trip(cx)) } else { rest }
    }

    /// When there will be no hope left to be on time, if nothing changes until then; none where
    /// missing a deadline does not end the flow.
    fn hopeless_at(&self, cx: &HostCx<'_, Pdq>) -> Option<Instant> {
        let deadline = self.deadline?;
        if !cx.config.terminates_early() || self.segments.left() == 0 {
            return None;
        }
        let last = deadline.as_picos().checked_sub(self.needed(cx).as_picos());
        Some(last.map_or(Instant::ZERO, |last| Instant::from_picos(last.saturating_add(1))))
    }

    fn is_hopeless(&self, cx: &HostCx<'_, Pdq>) -> bool {
        !self.has_time(cx.now) && self.hopeless_at(cx).is_some_and(|at| at <= cx.now)
    }

    /// Whether there is hope at `at` without a doubt: most of the time, and told without dividing.
    #[inline]
    fn has_time(&self, at: Instant) -> bool {
        self.deadline.is_none_or(|deadline| at.saturating_add(self.whole) <= deadline)
            && !self.pacer.is_paused()
    }

    /// Gives the flow up if it cannot be on time; tells whether it did.
    fn gives_up(&mut self, cx: &mut HostCx<'_, Pdq>) -> bool {
        if !self.is_hopeless(cx) {
            return false;
        }
        let header = self.header(self.segments.next_new(), PdqHeader::TERM, cx);
        cx.send(self.packet(self.class, header));
        cx.clear_timer();
        cx.emit(FlowEvent::Abandoned);
        true
    }

    // Answers.

    /// R_S, P_S, I_S and RTT_S from an answer, unless a later one has come before.
    fn heed(&mut self, header: &PdqHeader, cx: &HostCx<'_, Pdq>) {
        if self.heeded.is_some_and(|last| earlier(header.time, last)) {
            return;
        }
        let rtt = Duration::from_nanos(u64::from(time_field(cx.now).wrapping_sub(header.time)));
        if rtt > cx.config.rto_max.saturating_mul(2) {
            return; // Older than the clock in the header can tell.
        }
        self.heeded = Some(header.time);
        self.rtt.sample(rtt);
        if header.has(PdqHeader::TERM) {
            return; // Ports rule on everything else.
        }
        if header.has(PdqHeader::SYN) && !cx.config.syn_grants {
            self.ask_now = true;
            return;
        }
        self.pauser = header.pauser;
        self.probe_interval = header.deadline;
        self.pacer.set_rate(if header.pauser == NOBODY {
            rate(header.rate).min(cx.shared.nic.rate)
        } else {
            Rate::ZERO
        });
        match (self.pacer.is_paused(), self.paused_since) {
            (true, None) => self.paused_since = Some(cx.now),
            (false, Some(_)) => {
                self.waited = self.waited(cx.now);
                self.paused_since = None;
            }
            _ => {}
        }
    }

    // Loss.

    fn rto(&self, cx: &HostCx<'_, Pdq>) -> Duration {
        let config = cx.config;
        self.rtt.rto(RtoBounds {
            initial: config.rto_initial,
            min: config.rto_min,
            max: config.rto_max,
        })
    }

    fn syn_deadline(&self, rto: Duration) -> Option<Instant> {
        self.syn_sent_at.map(|at| at.saturating_add(rto))
    }

    fn data_deadline(&self, rto: Duration) -> Option<Instant> {
        let oldest = match (self.segments.oldest_sent_at(), self.term) {
            (Some(sent_at), _) => sent_at,
            (None, Term::Sent { at }) => at,
            _ => return None,
        };
        Some(oldest.max(self.last_progress).saturating_add(rto))
    }

    fn set_timer(&self, cx: &mut HostCx<'_, Pdq>) {
        self.set_timer_for(self.next_departure(), self.next_probe(), cx);
    }

    /// Sets the timer by when data and probe may go.
    fn set_timer_for(
        &self,
        departure: Option<Instant>,
        probe: Option<Instant>,
        cx: &mut HostCx<'_, Pdq>,
    ) {
        let rto = self.rto(cx);
        let departure = departure.filter(|_| !self.waits_for_nic);
        let resend = sooner(self.syn_deadline(rto), self.data_deadline(rto));
        let mut next = sooner(resend, sooner(departure, probe));
        if next.is_none_or(|at| !self.has_time(at)) {
            next = sooner(next, self.hopeless_at(cx));
        }
        match next {
            Some(at) => cx.set_timer(at.max(cx.now)),
            None => cx.clear_timer(),
        }
    }
}

/// The earlier of two instants, of which there may be none.
#[inline]
fn sooner(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Endpoint<Pdq> for Sender {
    fn gauges(
        &self,
        _shared: &<Pdq as Transport>::Shared,
        tell: &mut dyn FnMut(&'static str, f64),
    ) {
        tell("granted_bps", self.pacer.rate().as_bps() as f64);
        tell("paused", f64::from(u8::from(self.pacer.is_paused())));
        if self.pauser != NOBODY {
            tell("pausing_port", f64::from(self.pauser));
        }
    }

    fn waits_for(&self) -> Wait {
        match self.pauser() {
            _ if self.segments.left() == 0 => Wait::Timer,
            Some(port) if self.pacer.is_paused() => Wait::Paused(PortId(port)),
            _ if self.pacer.is_paused() => Wait::Grant(None),
            _ => Wait::Pacing(None),
        }
    }

    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, Pdq>) {
        let header: PdqHeader = packet.header.get();
        let news = if packet.is_to_sender() && header.has(PdqHeader::ACK) {
            self.segments.handle_ack(&header, cx.config.loss_threshold)
        } else {
            News::Nonsense
        };
        match news {
            News::Progress => {
                self.last_progress = cx.now;
                self.rtt.forget_timeouts();
            }
            News::Nothing => {}
            News::Nonsense => {
                cx.shared.counters.malformed += 1;
                return;
            }
        }
        self.syn_sent_at = None;
        self.heed(&header, cx);
        if header.has(PdqHeader::TERM) && matches!(self.term, Term::Sent { .. }) {
            self.term = Term::Acked;
            self.last_progress = cx.now;
        }
        if self.term == Term::Acked && self.segments.all_acked() {
            cx.clear_timer();
            cx.emit(FlowEvent::Finished);
            return;
        }
        if !self.gives_up(cx) {
            self.pump(cx);
        }
    }

    fn handle_timeout(&mut self, cx: &mut HostCx<'_, Pdq>) {
        let rto = self.rto(cx);
        let expired = |at: Option<Instant>| at.is_some_and(|at| at <= cx.now);
        let (syn_lost, data_lost) =
            (expired(self.syn_deadline(rto)), expired(self.data_deadline(rto)));
        if data_lost {
            self.segments.give_up_all();
            if matches!(self.term, Term::Sent { .. }) {
                self.term = Term::Due;
            }
        }
        if syn_lost || data_lost {
            self.rtt.count_timeout();
            cx.emit(FlowEvent::TimedOut);
        }
        if self.gives_up(cx) {
            return;
        }
        if syn_lost {
            self.send_syn(cx);
        }
        self.pump(cx);
    }

    /// Every packet tells ports the deadline, so that the next one tells them of the change.
    fn handle_deadline(&mut self, deadline: Option<Instant>, cx: &mut HostCx<'_, Pdq>) {
        self.deadline = deadline;
        if !self.gives_up(cx) {
            self.pump(cx);
        }
    }

    fn poll_transmit(&mut self, cx: &mut HostCx<'_, Pdq>) -> Option<Packet> {
        self.waits_for_nic = false;
        if self.gives_up(cx) {
            return None;
        }
        // A pause, a lower rate or an acknowledgement may have come meanwhile.
        let due = self.next_departure().is_some_and(|at| at <= cx.now);
        let packet = if self.term_due() {
            Some(self.term_packet(cx))
        } else if due {
            self.next_packet(cx)
        } else {
            None
        };
        self.pump(cx);
        packet
    }
}
