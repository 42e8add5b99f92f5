//! The sender: paces at the granted rate, probes while paused, abandons flows that cannot meet
//! their deadline, and retransmits lost segments.

use super::PdqConfig;
use super::config::{Criticality, RoundTrip};
use super::header::{
    HEADER_BYTES, NO_DEADLINE, NOBODY, PATHS_MAX, PROBE_UNIT, PdqHeader, deadline_field, earlier,
    expected_field, rate, rtt_field, time_field,
};
use crate::paced::{Ack, AckOutcome, PacedFlow, Release, Segments};
use punctual_core::rng::Stream;
use punctual_core::{
    Bytes, Class, Duration, Endpoint, FlowEvent, FlowRoute, FlowSpec, Header, HostCx, Instant,
    Packet, PortId, Rate, Transport, Wait,
};

/// The least RTT, so that probes never follow each other immediately.
const RTT_MIN: Duration = Duration::from_micros(1);
/// The unit of waiting time for aging.
const AGING_UNIT: Duration = Duration::from_millis(100);

/// What a timeout has shown to be lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expired {
    /// The SYN.
    pub(crate) syn: bool,
    /// All data in flight, or the TERM.
    pub(crate) data: bool,
}

/// State of a PDQ sender.
#[derive(Clone, Debug)]
pub struct PdqSender {
    pub(crate) flow: PacedFlow,
    /// The field `route` of its headers.
    route: u16,
    /// Whether it abandons the flow when it cannot meet its deadline; not if it is a subflow.
    terminates_early: bool,
    deadline: Option<Instant>,
    /// Upper bound of the expected transmission time at any time.
    whole: Duration,
    /// Upper bound of the expected transmission time now.
    rest_at_most: Duration,
    /// The criticality, if it is random.
    draw: u32,
    /// P_S: the port that pauses the flow.
    pauser: u32,
    /// I_S: the time between probes, in thousandths of an RTT.
    probe_interval: u32,
    /// Timestamp of the packet whose acknowledgement was applied last.
    last_applied: Option<u32>,
    /// The shortest RTT measured.
    rtt_least: Option<Duration>,
    /// Time paused before `paused_since`, and the start of the present pause.
    waited: Duration,
    paused_since: Option<Instant>,

    /// When the SYN was sent, until anything is acknowledged.
    syn_sent_at: Option<Instant>,
    /// When the last packet with a scheduling header was sent; with `ask_now` the next probe is
    /// due immediately.
    asked_at: Instant,
    ask_now: bool,
}

impl PdqSender {
    /// Opens a sender with a SYN, unless the flow cannot meet its deadline.
    pub(super) fn open(flow: &FlowSpec, route: &FlowRoute, cx: &mut HostCx<'_, PdqConfig>) -> Self {
        let segments = PdqSender::segments(flow, cx);
        let mut sender = PdqSender::new(flow, route, 0, segments, cx);
        sender.terminates_early = cx.config.terminates_early();
        if sender.is_hopeless(cx) {
            cx.emit(FlowEvent::Abandoned); // No port has the flow in its list.
            return sender;
        }
        sender.send_syn(cx);
        sender.set_timer(cx);
        sender
    }

    /// The segments of a flow.
    pub(crate) fn segments(flow: &FlowSpec, cx: &HostCx<'_, PdqConfig>) -> Segments {
        let segments = Segments::new(flow.size.get(), cx.shared.segment_bytes());
        segments.at_most(u64::from(u32::MAX))
    }

    /// A sender that has sent nothing and abandons nothing, of one of the flow's subflows.
    pub(crate) fn new(
        flow: &FlowSpec,
        route: &FlowRoute,
        subflow: u32,
        segments: Segments,
        cx: &HostCx<'_, PdqConfig>,
    ) -> Self {
        let draw = match cx.config.criticality {
            Criticality::Random => (Stream::from_seed(route.seed).bits() >> 32) as u32,
            _ => 0,
        };
        let overhead = cx.shared.overhead_bytes();
        let whole = Bytes::new(segments.left_bytes_max(overhead));
        let whole = cx.shared.line.transmission_time(whole);
        let route = FlowRoute { ecmp_path: route.ecmp_path % PATHS_MAX, ..*route };
        let mut sender = PdqSender {
            route: PdqHeader::route(route.ecmp_path, subflow),
            flow: PacedFlow::new(flow, &route, segments, cx.now),
            terminates_early: false,
            deadline: None,
            whole,
            rest_at_most: whole,
            draw,
            pauser: NOBODY,
            probe_interval: 0,
            last_applied: None,
            rtt_least: None,
            waited: Duration::ZERO,
            paused_since: Some(cx.now),
            syn_sent_at: None,
            asked_at: cx.now,
            ask_now: false,
        };
        sender.set_deadline(flow.deadline);
        sender
    }

    /// The granted rate; zero while paused.
    pub fn rate(&self) -> Rate {
        self.flow.pacer.rate()
    }

    /// The port that pauses the flow, if any.
    pub fn pauser(&self) -> Option<u32> {
        Some(self.pauser).filter(|pauser| *pauser != NOBODY)
    }

    /// Total time that the flow has been paused.
    pub fn waited(&self, now: Instant) -> Duration {
        let since = self.paused_since.map_or(Duration::ZERO, |since| now.saturating_since(since));
        self.waited + since
    }

    pub(crate) fn established(&self) -> bool {
        self.syn_sent_at.is_none()
    }

    /// RTT_S, or zero before the first sample (PDQ-R29).
    pub(crate) fn round_trip(&self, cx: &HostCx<'_, PdqConfig>) -> Duration {
        match cx.config.round_trip {
            RoundTrip::Least => self.rtt_least.unwrap_or_default(),
            RoundTrip::Smoothed => self.flow.rtt.smoothed_or_zero(),
        }
    }

    // Headers (PDQ-R02).

    /// T_S: the transmission time of the remaining bytes at line rate, headers included.
    fn expected(&self, cx: &HostCx<'_, PdqConfig>) -> Duration {
        cx.shared.line.transmission_time(self.flow.left_link_bytes(cx.shared.overhead_bytes()))
    }

    /// T_H, or its substitute if sizes count as unknown (PDQ-R23).
    fn expected_field(&self, cx: &HostCx<'_, PdqConfig>) -> u32 {
        match cx.config.criticality {
            Criticality::Deadline => expected_field(self.expected(cx)),
            Criticality::Random => self.draw,
            Criticality::Estimated => {
                let step = cx.config.estimate_step.get();
                let sent = self.flow.segments.sent_bytes() / step * step;
                expected_field(cx.shared.line.transmission_time(Bytes::new(sent)))
            }
        }
    }

    /// The exponent by which aging divides T (PDQ-R24).
    fn age_field(&self, cx: &HostCx<'_, PdqConfig>) -> u8 {
        if cx.config.aging == 0.0 {
            return 0;
        }
        let units = self.waited(cx.now).as_secs_f64() / AGING_UNIT.as_secs_f64();
        (8.0 * cx.config.aging * units).min(255.0) as u8
    }

    pub(crate) fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// D_S, as its header field.
    #[inline]
    fn deadline_field(&self, cx: &HostCx<'_, PdqConfig>) -> u32 {
        match cx.config.criticality {
            Criticality::Random => NO_DEADLINE,
            _ => deadline_field(self.deadline, cx.now),
        }
    }

    fn header(&self, seq: u32, flags: u8, cx: &HostCx<'_, PdqConfig>) -> PdqHeader {
        PdqHeader {
            seq,
            time: time_field(cx.now),
            rate: cx.shared.line_kbps,
            pauser: self.pauser,
            deadline: self.deadline_field(cx),
            expected: self.expected_field(cx),
            rtt: rtt_field(self.round_trip(cx)),
            route: self.route,
            flags,
            age: self.age_field(cx),
        }
    }

    fn packet(&self, class: Class, header: PdqHeader) -> Packet {
        self.flow.packet(class, Header::new(header), HEADER_BYTES)
    }

    // Packets.

    pub(crate) fn send_syn(&mut self, cx: &mut HostCx<'_, PdqConfig>) {
        self.syn_sent_at = Some(cx.now);
        self.asked_at = cx.now;
        let header = self.header(self.flow.segments.next_new() as u32, PdqHeader::SYN, cx);
        cx.send(self.packet(Class::CONTROL, header));
    }

    fn send_probe(&mut self, cx: &mut HostCx<'_, PdqConfig>) {
        self.asked_at = cx.now;
        self.ask_now = false;
        self.flow.release = Release::Due;
        let header = self.header(self.flow.segments.next_new() as u32, 0, cx);
        cx.send(self.packet(Class::CONTROL, header));
    }

    /// The TERM of a flow that has sent everything. It has the class of the data, so that it cannot
    /// overtake them.
    fn term_packet(&mut self, cx: &HostCx<'_, PdqConfig>) -> Packet {
        self.flow.release = Release::Sent { at: cx.now, segment: None };
        let flags = PdqHeader::TERM | PdqHeader::END;
        let header = self.header(self.flow.segments.count() as u32, flags, cx);
        self.packet(self.flow.class, header)
    }

    /// The next data packet, which leaves now.
    fn next_packet(&mut self, cx: &mut HostCx<'_, PdqConfig>) -> Option<Packet> {
        let segment = self.flow.segments.send_next(cx.now)?;
        if !self.flow.segments.has_lost() {
            self.rest_at_most = self.expected(cx);
        }
        let end = if segment.is_end { PdqHeader::END } else { 0 };
        let again = if segment.again.is_some() { PdqHeader::AGAIN } else { 0 };
        let header = self.header(segment.number as u32, PdqHeader::DATA | end | again, cx);
        let packet = self.flow.data_packet(&segment, Header::new(header), HEADER_BYTES);
        self.flow.release = Release::Due;
        self.asked_at = cx.now;
        self.flow.packet_left(&packet, &segment, cx.shared.nic.framing, cx);
        Some(packet)
    }

    pub(crate) fn term_due(&self) -> bool {
        self.established() && self.flow.segments.left() == 0 && self.flow.release == Release::Due
    }

    /// When the next probe is due, unless another packet is sent before (PDQ-R04).
    #[inline]
    fn next_probe(&self) -> Instant {
        if !self.established() || self.flow.segments.left() == 0 {
            return Instant::NEVER;
        }
        if self.ask_now {
            self.asked_at
        } else {
            self.asked_at.saturating_add(self.probing_interval())
        }
    }

    /// The time between probes.
    #[inline]
    fn probing_interval(&self) -> Duration {
        // The smoothed RTT, queueing included: the next probe must follow the answer to the last.
        let rtt = self.flow.rtt.smoothed_or_zero().max(RTT_MIN);
        if self.flow.pacer.is_paused() && self.probe_interval > PROBE_UNIT {
            rtt.mul_f64(f64::from(self.probe_interval) / f64::from(PROBE_UNIT))
        } else {
            rtt
        }
    }

    /// The time after which an answer is overdue, if the flow asks for a rate.
    pub(crate) fn patience(&self, cx: &HostCx<'_, PdqConfig>) -> Duration {
        self.rto(cx) + self.probing_interval()
    }

    /// Sends everything that the state permits now, and sets the timer.
    pub(crate) fn pump(&mut self, cx: &mut HostCx<'_, PdqConfig>) {
        let now = cx.now;
        let departure = self.flow.next_departure();
        if self.term_due() || departure <= now {
            if !self.flow.waits_for_nic {
                // The packet carries a scheduling header once the NIC is free: no probe for an
                // interval.
                self.asked_at = now;
                self.ask_now = false;
            }
            self.flow.waits_for_nic = true;
            cx.ready(self.flow.class);
        }
        let mut probe = self.next_probe();
        if probe <= now {
            self.send_probe(cx);
            probe = self.next_probe();
        }
        self.set_timer_for(departure, probe, cx);
    }

    // Early Termination (PDQ-R06).

    /// The time that must be left until the deadline: T_S, and at least an RTT while paused.
    fn needed(&self, cx: &HostCx<'_, PdqConfig>) -> Duration {
        let rest = if cx.config.sizes_known() { self.expected(cx) } else { Duration::ZERO };
        if self.flow.pacer.is_paused() { rest.max(self.round_trip(cx)) } else { rest }
    }

    /// When the deadline becomes impossible to meet, if nothing changes; never if a missed deadline
    /// does not end the flow.
    fn hopeless_at(&self, cx: &HostCx<'_, PdqConfig>) -> Instant {
        let Some(deadline) = self.deadline else { return Instant::NEVER };
        if !self.terminates_early || self.flow.segments.left() == 0 {
            return Instant::NEVER;
        }
        let last = deadline.as_picos().checked_sub(self.needed(cx).as_picos());
        last.map_or(Instant::ZERO, |last| Instant::from_picos(last.saturating_add(1)))
    }

    fn is_hopeless(&self, cx: &HostCx<'_, PdqConfig>) -> bool {
        self.hopeless_at(cx) <= cx.now
    }

    /// Whether the deadline can certainly be met at `at`: a cheap, conservative test.
    #[inline]
    fn has_time(&self, at: Instant, cx: &HostCx<'_, PdqConfig>) -> bool {
        let Some(deadline) = self.deadline else { return true };
        let mut needed = self.rest_at_most;
        if self.flow.pacer.is_paused() {
            needed = needed.max(self.round_trip(cx));
        }
        at.saturating_add(needed) <= deadline
    }

    /// Abandons the flow if it cannot meet its deadline; returns whether it did.
    #[inline]
    fn gives_up(&mut self, cx: &mut HostCx<'_, PdqConfig>) -> bool {
        !self.has_time(cx.now, cx) && self.abandon_if_hopeless(cx)
    }

    fn abandon_if_hopeless(&mut self, cx: &mut HostCx<'_, PdqConfig>) -> bool {
        if !self.is_hopeless(cx) {
            return false;
        }
        self.send_last_term(cx);
        cx.clear_timer();
        cx.emit(FlowEvent::Abandoned);
        true
    }

    /// Sends a TERM that is not retransmitted: the ports forget a flow that ends before its end.
    pub(crate) fn send_last_term(&mut self, cx: &mut HostCx<'_, PdqConfig>) {
        let header = self.header(self.flow.segments.next_new() as u32, PdqHeader::TERM, cx);
        cx.send(self.packet(self.flow.class, header));
    }

    // Answers.

    /// Sets R_S, P_S, I_S and RTT_S from an acknowledgement, unless a later one has been applied.
    fn apply_answer(&mut self, header: &PdqHeader, cx: &HostCx<'_, PdqConfig>) {
        if self.last_applied.is_some_and(|last| earlier(header.time, last)) {
            return;
        }
        let rtt = Duration::from_nanos(u64::from(time_field(cx.now).wrapping_sub(header.time)));
        if rtt > cx.config.rto_max.saturating_mul(2) {
            return; // Older than the timestamp can represent.
        }
        self.last_applied = Some(header.time);
        self.flow.sample_rtt(rtt);
        self.rtt_least = Some(self.rtt_least.map_or(rtt, |least| least.min(rtt)));
        if header.has(PdqHeader::TERM) {
            return; // Ports grant no rate on a TERM.
        }
        if header.has(PdqHeader::SYN) && !cx.config.syn_grants {
            self.ask_now = true;
            return;
        }
        let is_held = header.has(PdqHeader::HELD);
        if header.pauser != NOBODY && !is_held {
            self.ask_now = true; // PDQ-R30
        }
        self.pauser = if is_held { header.pauser } else { NOBODY };
        self.probe_interval = header.deadline;
        self.flow.pacer.set_rate(if header.pauser == NOBODY {
            rate(header.rate).min(cx.shared.nic.rate)
        } else {
            Rate::ZERO
        });
        self.note_pause(cx.now);
    }

    /// Counts the time that the flow is paused.
    #[inline]
    fn note_pause(&mut self, now: Instant) {
        match (self.flow.pacer.is_paused(), self.paused_since) {
            (true, None) => self.paused_since = Some(now),
            (false, Some(_)) => {
                self.waited = self.waited(now);
                self.paused_since = None;
            }
            _ => {}
        }
    }

    /// Sends no data until an acknowledgement grants a rate, but a probe at once: nothing is known
    /// of the path, or no port knows the flow any more.
    pub(crate) fn ask_again(&mut self, cx: &HostCx<'_, PdqConfig>) {
        self.flow.pacer.set_rate(Rate::ZERO);
        self.note_pause(cx.now);
        self.ask_now = true;
        self.flow.release = Release::Due;
    }

    /// Ports will have to be told of the flow's end.
    pub(crate) fn release_later(&mut self) {
        self.flow.release = Release::Due;
    }

    /// Handles an acknowledgement; false if it is malformed.
    #[inline(always)]
    pub(crate) fn handle_answer(
        &mut self,
        packet: &Packet,
        cx: &mut HostCx<'_, PdqConfig>,
    ) -> bool {
        let header: PdqHeader = packet.header.get();
        let outcome = if packet.is_to_sender() && header.has(PdqHeader::ACK) {
            let named = header.has(PdqHeader::DATA).then_some(u64::from(header.seq));
            let ack = Ack { below: u64::from(header.expected), named };
            let was_sent_before = |sent_at| earlier(time_field(sent_at), header.time);
            self.flow.handle_ack(ack, cx.config.loss_threshold, was_sent_before, cx.now)
        } else {
            AckOutcome::Malformed
        };
        match outcome {
            AckOutcome::Progress | AckOutcome::Stale => {}
            AckOutcome::Malformed => {
                cx.shared.counters.malformed += 1;
                return false;
            }
        }
        if self.flow.segments.has_lost() {
            self.rest_at_most = self.whole;
        }
        self.syn_sent_at = None;
        self.apply_answer(&header, cx);
        if header.has(PdqHeader::TERM) && matches!(self.flow.release, Release::Sent { .. }) {
            self.flow.release = Release::Acked;
            self.flow.last_progress = cx.now;
        }
        true
    }

    // Loss.

    fn rto(&self, cx: &HostCx<'_, PdqConfig>) -> Duration {
        self.flow.rtt.rto(&cx.config.retransmission().rto)
    }

    /// When the unanswered SYN counts as lost.
    #[inline]
    fn syn_deadline(&self, rto: Duration) -> Instant {
        self.syn_sent_at.map_or(Instant::NEVER, |at| at.saturating_add(rto))
    }

    /// When the data in flight, or else the TERM, counts as lost.
    #[inline]
    fn data_deadline(&self, rto: Duration) -> Instant {
        self.flow.expires_at(self.flow.segments.oldest_sent_at(), rto)
    }

    /// Counts as lost what has not been acknowledged in time.
    #[inline(always)]
    pub(crate) fn expire(&mut self, cx: &mut HostCx<'_, PdqConfig>) -> Expired {
        let rto = self.rto(cx);
        let syn_lost = self.syn_deadline(rto) <= cx.now;
        let data_lost = self.data_deadline(rto) <= cx.now;
        if data_lost {
            self.flow.mark_all_lost();
            self.rest_at_most = self.whole;
        }
        if syn_lost || data_lost {
            self.flow.rtt.back_off();
            cx.emit(FlowEvent::TimedOut);
        }
        Expired { syn: syn_lost, data: data_lost }
    }

    pub(crate) fn set_timer(&self, cx: &mut HostCx<'_, PdqConfig>) {
        self.set_timer_for(self.flow.next_departure(), self.next_probe(), cx);
    }

    /// Sets the timer, given when the next data packet and probe are due.
    #[inline(always)]
    fn set_timer_for(&self, departure: Instant, probe: Instant, cx: &mut HostCx<'_, PdqConfig>) {
        let rto = self.rto(cx);
        let departure = if self.flow.waits_for_nic { Instant::NEVER } else { departure };
        let mut other = self.syn_deadline(rto).min(self.data_deadline(rto)).min(probe);
        if !self.has_time(other.min(departure), cx) {
            other = other.min(self.hopeless_at(cx));
        }
        if departure < other {
            cx.set_departure(departure.max(cx.now));
        } else if other < Instant::NEVER {
            cx.set_timer(other.max(cx.now));
        } else {
            cx.clear_timer();
        }
    }
}

impl Endpoint<PdqConfig> for PdqSender {
    fn gauges(
        &self,
        _shared: &<PdqConfig as Transport>::Shared,
        tell: &mut dyn FnMut(&'static str, f64),
    ) {
        self.flow.gauges(tell);
        if self.pauser != NOBODY {
            tell("pausing_port", f64::from(self.pauser));
        }
    }

    fn waits_for(&self) -> Wait {
        match self.pauser() {
            _ if self.flow.segments.left() == 0 => Wait::Timer,
            Some(port) if self.flow.pacer.is_paused() => Wait::Paused(PortId(port)),
            _ if self.flow.pacer.is_paused() => Wait::Grant(None),
            _ => Wait::Pacing(None),
        }
    }

    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, PdqConfig>) {
        if !self.handle_answer(packet, cx) {
            return;
        }
        if self.flow.release == Release::Acked && self.flow.segments.all_acked() {
            cx.clear_timer();
            cx.emit(FlowEvent::Finished);
            return;
        }
        if !self.gives_up(cx) {
            self.pump(cx);
        }
    }

    fn handle_timeout(&mut self, cx: &mut HostCx<'_, PdqConfig>) {
        let lost = self.expire(cx);
        if self.gives_up(cx) {
            return;
        }
        if lost.syn {
            self.send_syn(cx);
        }
        self.pump(cx);
    }

    /// The next packet carries the new deadline to the ports.
    fn handle_deadline(&mut self, deadline: Option<Instant>, cx: &mut HostCx<'_, PdqConfig>) {
        self.set_deadline(deadline);
        if !self.gives_up(cx) {
            self.pump(cx);
        }
    }

    /// PDQ-R31: ports on the path forget it by a TERM, which is not retransmitted.
    fn handle_cancel(&mut self, cx: &mut HostCx<'_, PdqConfig>) {
        self.send_last_term(cx);
        cx.clear_timer();
        cx.emit(FlowEvent::Abandoned);
    }

    fn poll_transmit(&mut self, cx: &mut HostCx<'_, PdqConfig>) -> Option<Packet> {
        self.flow.waits_for_nic = false;
        if self.gives_up(cx) {
            return None;
        }
        // A pause, a lower rate or an acknowledgement may have arrived meanwhile.
        let due = self.flow.next_departure() <= cx.now;
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
