//! The sender: requests a rate once per RTT, paces at the lowest grant and retransmits lost
//! segments.

use super::config::Pacing;
use super::header::{
    D3Header, Feedback, Grant, Grants, PLAIN_HEADER_BYTES, RATE_BLOCK_BYTES, RateBlock,
};
use super::{FlowDemand, RequestPlan, RequestPolicy};
use crate::paced::{AckOutcome, PacedFlow, Release, Segments};
use punctual_core::{
    Bytes, Class, Duration, Endpoint, FlowEvent, FlowRoute, FlowSpec, Header, HostCx, Instant,
    Packet, Rate, Wait,
};

/// State of a D3, RCPdc or RCP sender.
#[derive(Clone, Debug)]
pub struct D3Sender {
    flow: PacedFlow,
    deadline: Option<Instant>,
    /// Time from the flow's start to its first deadline; zero without a deadline.
    allowance: Duration,
    important: bool,
    /// The grants that it holds, which the next request returns.
    held: Grants,
    /// The desired rate of the request that was granted, which the next request returns.
    desired: Rate,
    /// The unanswered request.
    asked: Option<Request>,
    /// When the next request must be sent, with or without data.
    ask_by: Instant,
    requests_sent: u16,
    established: bool,
    /// Whether the last request has been sent.
    closing: bool,
    /// Whether the flow ends before all its data are sent.
    quenched: bool,
    /// Whether the application has abandoned the flow.
    cancelled: bool,
    /// The last desired rate, and in how many successive requests it has risen.
    asked_before: Rate,
    increases: u32,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    number: u16,
    sent_at: Instant,
    desired: Rate,
}

impl D3Sender {
    /// Opens a sender, whose first packet is a request (D3-R01).
    pub(crate) fn open<T: RequestPolicy>(
        flow: &FlowSpec,
        route: &FlowRoute,
        cx: &mut HostCx<'_, T>,
    ) -> Self {
        let deadline = flow.deadline.filter(|_| flow.size != Bytes::ENDLESS);
        let segments = Segments::new(flow.size.get(), cx.shared.segment_bytes());
        let mut sender = D3Sender {
            flow: PacedFlow::new(flow, route, segments, cx.now),
            deadline,
            allowance: deadline.map_or(Duration::ZERO, |at| at.saturating_since(flow.start)),
            important: cx.config.is_important(flow),
            held: Grants::default(),
            desired: Rate::ZERO,
            asked: None,
            ask_by: cx.now,
            requests_sent: 0,
            established: false,
            closing: false,
            quenched: false,
            cancelled: false,
            asked_before: Rate::ZERO,
            increases: 0,
        };
        if sender.flow.segments.left() > 0 && sender.plan(cx) == RequestPlan::GiveUp {
            // D3-R31: no port has counted the flow, so nothing need be returned.
            cx.emit(FlowEvent::Abandoned);
            return sender;
        }
        sender.send_request_alone(cx);
        sender.set_timer(cx);
        sender
    }

    /// The granted rate; zero while paused.
    pub fn rate(&self) -> Rate {
        self.flow.pacer.rate()
    }

    /// The grants that it holds, beginning with its own host's port.
    pub fn grants(&self) -> &Grants {
        &self.held
    }

    // Requests.

    /// Decides the next request, and extends the deadline if the decision is so.
    fn plan<T: RequestPolicy>(&mut self, cx: &HostCx<'_, T>) -> RequestPlan {
        let overhead = u64::from(PLAIN_HEADER_BYTES) + cx.shared.nic.framing.get();
        let need = FlowDemand {
            now: cx.now,
            deadline: self.deadline,
            allowance: self.allowance,
            remaining: self.flow.left_link_bytes(overhead),
            rate: self.flow.pacer.rate(),
            rtt: self.flow.rtt.smoothed_or_zero(),
        };
        let mut plan = cx.config.plan(&need, &cx.shared.nic);
        if let RequestPlan::Extend(deadline) = plan {
            self.deadline = Some(deadline);
            plan = cx.config.plan(&FlowDemand { deadline: self.deadline, ..need }, &cx.shared.nic);
        }
        plan
    }

    /// The desired rate of a request now; nothing if the flow is to end.
    fn next_desire<T: RequestPolicy>(&mut self, cx: &HostCx<'_, T>) -> Option<Rate> {
        let desired = match self.plan(cx) {
            RequestPlan::Ask(desired) => desired,
            RequestPlan::Extend(_) => Rate::ZERO,
            RequestPlan::GiveUp => return None,
        };
        let max = cx.config.increases_max();
        if max > 0 {
            // D3-R35: rises of up to 2 % are rounding to whole packets.
            let before = self.asked_before.as_bps();
            let risen = before > 0 && desired.as_bps() > before + before / 50;
            self.increases = if risen { self.increases + 1 } else { 0 };
            self.asked_before = desired;
            if self.increases >= max {
                return None;
            }
        }
        Some(desired)
    }

    /// Ends the flow before all its data are sent: returns its grants (D3-R31).
    fn quench<T: RequestPolicy>(&mut self, cx: &mut HostCx<'_, T>) {
        self.quenched = true;
        self.send_fin_alone(cx);
    }

    /// Whether the flow is to end because its deadline has passed. It first waits for the answer to
    /// its request, whose grant could not be returned otherwise.
    fn is_too_late(&self, gives_up_late: bool, now: Instant) -> bool {
        gives_up_late
            && !self.quenched
            && self.asked.is_none()
            && self.flow.segments.left() > 0
            && self.deadline.is_some_and(|at| at <= now)
    }

    /// Adds a request for `desired` to a packet, which returns the grants held; without `desired`,
    /// the flow's last request.
    fn attach_request<T: RequestPolicy>(
        &mut self,
        packet: &mut Packet,
        header: &mut D3Header,
        desired: Option<Rate>,
        cx: &mut HostCx<'_, T>,
    ) {
        self.requests_sent = self.requests_sent.wrapping_add(1);
        let number = self.requests_sent;
        header.request = number;
        header.flags |= D3Header::REQUEST;
        match desired {
            // With `asks_always` requests may follow the last one; no answer is awaited.
            Some(_) if self.closing => {}
            Some(desired) => self.asked = Some(Request { number, sent_at: cx.now, desired }),
            None => {
                header.flags |= D3Header::FIN;
                let segment = (packet.payload_bytes > 0)
                    .then(|| header.seq / self.flow.segments.segment_bytes());
                self.flow.release = Release::Sent { at: cx.now, segment };
                self.closing = true;
                if cx.config.asks_always() {
                    self.asked = None;
                }
            }
        }
        let block = RateBlock {
            desired: desired.unwrap_or_default(),
            desired_before: self.desired,
            granted_before: self.held,
            scale: cx.config.scale(&cx.shared.nic),
            important: self.important,
            deadline: self.deadline,
            rtt: self.flow.rtt.smoothed_or_zero(),
            ..RateBlock::default()
        };
        packet.ext = Some(cx.ext.alloc(block.to_block()));
        packet.wire_bytes += RATE_BLOCK_BYTES;
    }

    /// Sends a request without data: the first, while paused or slow, or after a loss. It is not
    /// paced: the base rate, which no port counts, is reserved for it.
    fn send_request_alone<T: RequestPolicy>(&mut self, cx: &mut HostCx<'_, T>) {
        let Some(desired) = self.next_desire(cx) else { return self.quench(cx) };
        let mut header = self.header(self.flow.segments.sent_bytes(), cx.now);
        if !self.established {
            header.flags |= D3Header::SYN;
        }
        let mut packet = self.flow.packet(Class::CONTROL, Header::default(), PLAIN_HEADER_BYTES);
        self.attach_request(&mut packet, &mut header, Some(desired), cx);
        packet.header = Header::new(header);
        cx.send(packet);
    }

    /// Sends the last request without data: if an answer arrived after the last data packet was
    /// sent, if the last request was lost, or if there is no data.
    fn send_fin_alone<T: RequestPolicy>(&mut self, cx: &mut HostCx<'_, T>) {
        let mut header = self.header(self.flow.segments.size_bytes(), cx.now);
        header.flags |= D3Header::END;
        let mut packet = self.flow.packet(Class::CONTROL, Header::default(), PLAIN_HEADER_BYTES);
        self.attach_request(&mut packet, &mut header, None, cx);
        packet.header = Header::new(header);
        cx.send(packet);
    }

    /// Whether the next data packet should carry a request: none is unanswered, and the answer
    /// would arrive before the flow's last packet is sent (D3-R06).
    fn request_pays<T: RequestPolicy>(&self, cx: &HostCx<'_, T>) -> bool {
        if cx.config.asks_always() {
            return true;
        }
        if self.asked.is_some() || self.closing {
            return false;
        }
        let full = self.flow.segments.segment_bytes() + u64::from(PLAIN_HEADER_BYTES);
        let full = full + cx.shared.nic.framing.get();
        let before_last = self.flow.segments.left().saturating_sub(1).saturating_mul(full);
        self.flow
            .pacer
            .rate()
            .takes_longer(Bytes::new(before_last), self.flow.rtt.smoothed_or_zero())
    }

    fn handle_feedback<T: RequestPolicy>(
        &mut self,
        header: &D3Header,
        feedback: &Feedback,
        cx: &mut HostCx<'_, T>,
    ) -> bool {
        // Only the answer to the latest request counts: that request returned the grants of the
        // earlier ones. Where nothing is returned, any answer counts.
        let latest = self.asked.filter(|asked| asked.number == header.request);
        let asked = match latest {
            Some(asked) => {
                self.asked = None;
                asked
            }
            None if cx.config.asks_always() => {
                let sent_at = Instant::from_picos(header.timestamp);
                Request { number: header.request, sent_at, desired: Rate::ZERO }
            }
            None => return false,
        };
        self.established = true;
        self.flow.sample_rtt(cx.now.saturating_since(asked.sent_at));
        self.ask_by = cx.now.saturating_add(self.flow.rtt.smoothed_or_zero());
        self.held = feedback.granted;
        self.desired = asked.desired;
        // D3-R03, D3-R05.
        self.flow.pacer.set_rate(match feedback.granted.lowest() {
            Grant::Rate(rate) => rate.min(cx.shared.nic.rate),
            Grant::Base => Rate::ZERO,
        });
        self.flow.last_progress = cx.now;
        true
    }

    /// D3-R46: returns the grants of a flow that the application has abandoned, once the answer to its
    /// request has shown them. A first request may have been refused, so that nothing answers it: its
    /// desired rate is returned at once. The last request is not repeated, as ports would count it
    /// twice.
    fn leave<T: RequestPolicy>(&mut self, cx: &mut HostCx<'_, T>) {
        if let Some(asked) = self.asked {
            if self.established {
                return self.set_timer(cx);
            }
            self.desired = asked.desired;
        }
        if self.flow.release == Release::Due {
            self.send_fin_alone(cx);
        }
        cx.clear_timer();
        cx.emit(FlowEvent::Abandoned);
    }

    /// Returns the grants and abandons a flow whose path has too many ports (D3-R09).
    fn abandon<T: RequestPolicy>(&mut self, cx: &mut HostCx<'_, T>) {
        cx.shared.counters.paths_too_long += 1;
        self.send_fin_alone(cx);
        cx.clear_timer();
        cx.emit(FlowEvent::Abandoned);
    }

    // Packets.

    fn header(&self, seq: u64, now: Instant) -> D3Header {
        let timestamp = now.as_picos();
        D3Header { seq, timestamp, path: self.flow.path(), ..D3Header::default() }
    }

    /// The next data packet, which leaves now.
    fn next_packet<T: RequestPolicy>(&mut self, cx: &mut HostCx<'_, T>) -> Option<Packet> {
        let desired = if self.request_pays(cx) {
            let desired = self.next_desire(cx);
            if desired.is_none() {
                self.quench(cx);
                return None;
            }
            desired
        } else {
            None
        };
        let segment = self.flow.segments.send_next(cx.now)?;
        let mut header = self.header(segment.number * self.flow.segments.segment_bytes(), cx.now);
        let mut packet = self.flow.data_packet(&segment, Header::default(), PLAIN_HEADER_BYTES);
        if segment.is_end {
            header.flags |= D3Header::END;
        }
        // D3-R06: the last packet carries the last request, unless a request is unanswered: its
        // grant must be returned, so the last request waits for the answer.
        let answered = self.asked.is_none() || cx.config.asks_always();
        let last = self.flow.segments.left() == 0 && answered && self.flow.release == Release::Due;
        if last || desired.is_some() {
            let desired = desired.filter(|_| !last);
            self.attach_request(&mut packet, &mut header, desired, cx);
        }
        packet.header = Header::new(header);
        self.flow.packet_left(&packet, &segment, cx.shared.nic.framing, cx);
        Some(packet)
    }

    /// When the next data packet may leave; never if there is none, or the flow is paused or
    /// quenched.
    #[inline]
    fn next_departure(&self) -> Instant {
        if self.quenched { Instant::NEVER } else { self.flow.next_departure() }
    }

    /// Sends everything that the state permits now, and sets the timer.
    fn pump<T: RequestPolicy>(&mut self, cx: &mut HostCx<'_, T>) {
        if self.is_too_late(cx.config.gives_up_late(), cx.now) {
            self.quench(cx);
        }
        if self.next_departure() <= cx.now {
            match cx.config.params().pacing {
                Pacing::Host => {
                    self.flow.waits_for_nic = true;
                    cx.ready(self.flow.class);
                }
                Pacing::Flow => {
                    if let Some(packet) = self.next_packet(cx) {
                        cx.send(packet);
                    }
                }
            }
        }
        if self.established || self.quenched {
            self.ask_or_close(cx);
        }
        self.set_timer(cx);
    }

    /// Sends a request without data if no data packet will carry one in time.
    fn ask_or_close<T: RequestPolicy>(&mut self, cx: &mut HostCx<'_, T>) {
        if self.asked.is_some() {
            return;
        }
        if self.flow.segments.left() == 0 || self.quenched {
            if self.flow.release == Release::Due {
                self.send_fin_alone(cx);
            }
        } else if !self.closing {
            // D3-R04, D3-R05: the flow is paused, sends less than a packet per RTT, or has waited
            // for the NIC that long.
            let carried = self.next_departure() <= self.ask_by;
            if !carried || self.ask_by <= cx.now {
                self.send_request_alone(cx);
            }
        }
        if self.closing && self.flow.pacer.is_paused() {
            // Retransmissions after the last request go at the base rate, which needs no grant.
            self.flow.pacer.set_rate(cx.config.params().base_rate);
        }
    }

    // Loss.

    /// D3-R07: a last request that was lost with its segment is retransmitted with it.
    fn note_lost_fin(&mut self) {
        if let Release::Sent { segment: Some(number), .. } = self.flow.release
            && self.flow.segments.is_lost(number)
        {
            self.flow.release = Release::Due;
        }
    }

    fn rto<T: RequestPolicy>(&self, cx: &HostCx<'_, T>) -> Duration {
        self.flow.rtt.rto(&cx.config.params().retransmission.rto)
    }

    /// When the unanswered request counts as lost.
    #[inline]
    fn request_deadline(&self, rto: Duration) -> Instant {
        self.asked.map_or(Instant::NEVER, |asked| asked.sent_at.saturating_add(rto))
    }

    /// When the data in flight, or else the last request, counts as lost.
    #[inline]
    fn data_deadline(&self, rto: Duration) -> Instant {
        let oldest = if self.quenched { None } else { self.flow.segments.oldest_sent_at() };
        self.flow.expires_at(oldest, rto)
    }

    fn set_timer<T: RequestPolicy>(&self, cx: &mut HostCx<'_, T>) {
        let rto = self.rto(cx);
        let mut next = self.request_deadline(rto).min(self.data_deadline(rto));
        if !self.flow.waits_for_nic {
            next = next.min(self.next_departure());
        }
        if self.asked.is_none() && !self.closing && self.flow.segments.left() > 0 {
            next = next.min(self.ask_by);
            if let Some(deadline) = self.deadline
                && cx.config.gives_up_late()
                && !self.quenched
            {
                next = next.min(deadline);
            }
        }
        if next == Instant::NEVER {
            cx.clear_timer();
        } else {
            cx.set_timer(next.max(cx.now));
        }
    }
}

impl<T: RequestPolicy> Endpoint<T> for D3Sender {
    fn gauges(&self, _shared: &T::Shared, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("desired_bps", self.desired.as_bps() as f64);
        self.flow.gauges(tell);
    }

    fn waits_for(&self) -> Wait {
        match self.flow.segments.left() {
            0 => Wait::Timer,
            _ if self.flow.pacer.is_paused() => Wait::Grant(self.held.tightest()),
            _ => Wait::Pacing(self.held.tightest()),
        }
    }

    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, T>) {
        let header: D3Header = packet.header.get();
        let outcome = if packet.is_to_sender() && header.has(D3Header::ACK) {
            let named = header.has(D3Header::DATA).then_some(header.seq);
            let ack = self.flow.segments.ack_of_bytes(header.ack, named);
            let sent_at = Instant::from_picos(header.timestamp);
            let loss_threshold = cx.config.params().retransmission.loss_threshold;
            self.flow.handle_ack(ack, loss_threshold, |earlier| earlier < sent_at, cx.now)
        } else {
            AckOutcome::Malformed
        };
        match outcome {
            AckOutcome::Progress => self.note_lost_fin(),
            AckOutcome::Stale => {}
            AckOutcome::Malformed => {
                cx.shared.counters.malformed += 1;
                return;
            }
        }
        if header.has(D3Header::FEEDBACK) {
            match packet.ext.and_then(|id| Feedback::from_block(cx.ext.get(id))) {
                Some(feedback) => {
                    let is_current = self.handle_feedback(&header, &feedback, cx);
                    if is_current && feedback.overflow {
                        return self.abandon(cx);
                    }
                }
                None => cx.shared.counters.malformed += 1,
            }
        }
        if header.has(D3Header::FIN) && self.closing {
            self.flow.release = Release::Acked;
            self.flow.last_progress = cx.now;
        }
        if self.flow.release == Release::Acked && (self.quenched || self.flow.segments.all_acked())
        {
            let all = self.flow.segments.all_acked();
            cx.clear_timer();
            cx.emit(if all { FlowEvent::Finished } else { FlowEvent::Abandoned });
            return;
        }
        match self.cancelled {
            true => self.leave(cx),
            false => self.pump(cx),
        }
    }

    fn handle_timeout(&mut self, cx: &mut HostCx<'_, T>) {
        let rto = self.rto(cx);
        let request_lost = self.request_deadline(rto) <= cx.now;
        if self.cancelled {
            if request_lost {
                self.asked = None;
            }
            return self.leave(cx);
        }
        let data_lost = self.data_deadline(rto) <= cx.now;
        if data_lost {
            self.flow.mark_all_lost();
        }
        if request_lost {
            // D3-R07: the new request returns the same grants. A flow with nothing left to send
            // ends instead.
            self.asked = None;
            if !self.established || self.flow.segments.left() > 0 {
                self.send_request_alone(cx);
            }
        }
        if request_lost || data_lost {
            self.flow.rtt.back_off();
            cx.emit(FlowEvent::TimedOut);
        }
        self.pump(cx);
    }

    /// D3-R38: the next request, at most an RTT later, desires the rate for the new deadline.
    fn handle_deadline(&mut self, deadline: Option<Instant>, cx: &mut HostCx<'_, T>) {
        self.deadline =
            deadline.filter(|_| self.flow.segments.size_bytes() != Bytes::ENDLESS.get());
        if let Some(deadline) = self.deadline
            && self.allowance.is_zero()
        {
            self.allowance = deadline.saturating_since(cx.now);
        }
        // A rise caused by the application is no sign of congestion (D3-R35).
        (self.asked_before, self.increases) = (Rate::ZERO, 0);
        self.pump(cx);
    }

    fn handle_cancel(&mut self, cx: &mut HostCx<'_, T>) {
        (self.quenched, self.cancelled) = (true, true);
        self.leave(cx);
    }

    fn poll_transmit(&mut self, cx: &mut HostCx<'_, T>) -> Option<Packet> {
        self.flow.waits_for_nic = false;
        if self.cancelled {
            return None;
        }
        // A lower grant, a pause or an acknowledgement may have arrived meanwhile.
        let due = self.next_departure() <= cx.now;
        let packet = if due { self.next_packet(cx) } else { None };
        self.pump(cx);
        packet
    }
}
