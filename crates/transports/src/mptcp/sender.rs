//! The sender: assigns the connection's segments to subflows, and reinjects those of subflows that
//! timed out.

use super::header::MptcpHeader;
use super::subflow::Subflow;
use super::{Coupling, Lia, MptcpConfig, SubflowJoin, choose_paths};
use crate::rtt::RttEstimator;
use crate::tcp::{Reaction, TCP_IP_HEADER_BYTES, TcpFlags, Window, rtt_since};
use punctual_core::{
    Class, Endpoint, FlowEvent, FlowId, FlowRoute, FlowSpec, Header, HostCx, HostId, Instant,
    Packet, RetransmitCause,
};

/// ACKs after which the coupling is recomputed for changed RTTs, if no window has changed.
const LIA_ACKS: u32 = 16;

/// State of an MPTCP sender.
#[derive(Clone, Debug)]
pub struct MptcpSender {
    flow: FlowId,
    receiver: HostId,
    class: Class,
    size_bytes: u64,
    mss_bytes: u64,
    subflows: Vec<Subflow>,
    /// Number of segments of the connection; one if it is empty.
    segments: u64,
    /// First segment of the connection that is not assigned to a subflow.
    next_new: u64,
    /// Every byte of the connection below this has arrived.
    data_acked: u64,
    /// The subflow that sent last.
    last: usize,
    /// Bitmap of the subflows with segments to reinject.
    offering: u64,
    /// The coupling of the windows, and for how many more ACKs it is valid.
    lia: Lia,
    lia_left: u32,
    /// When the driver's timer fires: at or before the earliest timeout of a subflow.
    timer_at: Option<Instant>,
    /// NICs of this host: path p leaves by NIC p modulo `nics`.
    nics: u32,
    /// A bit for each NIC that it waits for.
    asked: u32,
}

impl MptcpSender {
    pub(super) fn open(
        flow: &FlowSpec,
        route: &FlowRoute,
        cx: &mut HostCx<'_, MptcpConfig>,
    ) -> Self {
        let host = &*cx.shared;
        let (settings, mss_bytes) = (host.settings, host.mss_bytes);
        let paths = choose_paths(cx.config.subflows, route);
        let size_bytes = flow.size.get();
        let mut sender = MptcpSender {
            flow: flow.id,
            receiver: flow.dst,
            class: flow.class,
            size_bytes,
            mss_bytes,
            last: paths.len() - 1,
            subflows: paths.iter().map(|p| Subflow::new(&settings, mss_bytes, *p)).collect(),
            segments: size_bytes.div_ceil(mss_bytes).max(1),
            next_new: 0,
            data_acked: 0,
            offering: 0,
            lia: Lia::default(),
            lia_left: 0,
            timer_at: None,
            nics: route.nics,
            asked: 0,
        };
        match (settings.handshake, cx.config.join) {
            (true, SubflowJoin::AtOnce) => sender.join_others(cx),
            (true, SubflowJoin::AfterFirst) => sender.send_syn(0, cx),
            (false, _) => sender.ask(cx),
        }
        sender
    }

    /// The number of subflows.
    pub fn subflows(&self) -> usize {
        self.subflows.len()
    }

    /// The path of a subflow.
    pub fn path(&self, subflow: usize) -> u32 {
        self.subflows[subflow].path
    }

    /// The congestion window of a subflow.
    pub fn window(&self, subflow: usize) -> &Window {
        self.subflows[subflow].flight.window()
    }

    /// The RTT estimate of a subflow.
    pub fn rtt(&self, subflow: usize) -> &RttEstimator {
        self.subflows[subflow].flight.rtt()
    }

    /// Bytes of the connection that have arrived without a gap.
    pub fn acked_bytes(&self) -> u64 {
        self.data_acked
    }

    fn packet(&self, subflow: usize, flags: u8, now: Instant) -> (Packet, MptcpHeader) {
        let header = MptcpHeader {
            timestamp_picos: now.as_picos(),
            flags,
            subflow: subflow as u8,
            ..MptcpHeader::default()
        };
        let mut packet = Packet::new(self.flow, self.receiver, Header::new(header));
        packet.wire_bytes = TCP_IP_HEADER_BYTES as u16;
        packet.class = self.class;
        packet.path = self.subflows[subflow].path;
        (packet, header)
    }

    fn send_syn(&mut self, subflow: usize, cx: &mut HostCx<'_, MptcpConfig>) {
        cx.send(self.packet(subflow, TcpFlags::SYN, cx.now).0); // MPTCP-R02
        self.subflows[subflow].flight.start_timer(cx.now);
        self.keep_timer(subflow, cx);
    }

    /// Sends a SYN on each subflow that has sent none. MPTCP-R02.
    fn join_others(&mut self, cx: &mut HostCx<'_, MptcpConfig>) {
        for subflow in 0..self.subflows.len() {
            let flight = &self.subflows[subflow].flight;
            if flight.is_connecting() && flight.rto_at().is_none() {
                self.send_syn(subflow, cx);
            }
        }
    }

    /// Sets the driver's timer if it would fire after a subflow's timeout.
    #[inline]
    fn keep_timer(&mut self, subflow: usize, cx: &mut HostCx<'_, MptcpConfig>) {
        if let Some(at) = self.subflows[subflow].flight.rto_at()
            && self.timer_at.is_none_or(|timer_at| timer_at > at)
        {
            self.timer_at = Some(at);
            cx.set_timer(at);
        }
    }

    /// Whether a subflow could send a new or reinjected segment.
    #[inline]
    fn has_fresh(&self, subflow: usize) -> bool {
        self.next_new < self.segments || self.offering & !(1 << subflow) != 0
    }

    #[inline]
    fn may_send(&self, subflow: usize) -> bool {
        self.subflows[subflow].may_send(self.has_fresh(subflow)).is_some()
    }

    /// The NIC that a subflow's packets leave by.
    #[inline]
    fn nic_of(&self, subflow: usize) -> u32 {
        if self.nics == 1 { 0 } else { self.subflows[subflow].path % self.nics }
    }

    /// The next subflow in turn that may send by this NIC. MPTCP-R03.
    #[inline]
    fn next_subflow(&self, nic: u32) -> Option<usize> {
        let after = self.last + 1;
        let mut in_turn = (after..self.subflows.len()).chain(0..after);
        in_turn.find(|subflow| self.nic_of(*subflow) == nic && self.may_send(*subflow))
    }

    /// Requests each NIC by which some subflow may send.
    fn ask(&mut self, cx: &mut HostCx<'_, MptcpConfig>) {
        for nic in 0..self.nics {
            if self.asked >> nic & 1 == 0 && self.next_subflow(nic).is_some() {
                self.take_turn(nic, cx);
            }
        }
    }

    /// Requests the NIC if this subflow may send: cheaper than [`MptcpSender::ask`].
    #[inline]
    fn ask_for(&mut self, subflow: usize, cx: &mut HostCx<'_, MptcpConfig>) {
        let nic = self.nic_of(subflow);
        if self.asked >> nic & 1 == 0 && self.may_send(subflow) {
            self.take_turn(nic, cx);
        }
    }

    /// Waits for the NIC, or sends everything into the NIC's queue without small queues.
    #[inline]
    fn take_turn(&mut self, nic: u32, cx: &mut HostCx<'_, MptcpConfig>) {
        if cx.shared.settings.small_queues {
            self.asked |= 1 << nic;
            cx.ready_on(self.class, nic);
        } else {
            while let Some(packet) = self.next_packet(nic, cx) {
                cx.send(packet);
            }
        }
    }

    /// The segment of the connection that a subflow sends next, one to reinject or else a new one,
    /// and whether another subflow has sent it.
    fn take_fresh(&mut self, subflow: usize) -> Option<(u64, bool)> {
        let others = self.offering & !(1 << subflow);
        if others != 0 {
            let other = &mut self.subflows[others.trailing_zeros() as usize];
            let data = other.offered()?;
            other.take_offered();
            self.settle_offers();
            return Some((data, true));
        }
        (self.next_new < self.segments).then(|| {
            self.next_new += 1;
            (self.next_new - 1, false)
        })
    }

    /// Skips segments to reinject that have arrived, and clears bits of `offering` accordingly.
    fn settle_offers(&mut self) {
        let mut left = self.offering;
        while left != 0 {
            let index = left.trailing_zeros();
            left &= left - 1;
            let subflow = &mut self.subflows[index as usize];
            loop {
                match subflow.offered() {
                    Some(data) if data.saturating_mul(self.mss_bytes) < self.data_acked => {
                        subflow.take_offered();
                    }
                    Some(_) => break,
                    None => {
                        self.offering &= !(1 << index);
                        break;
                    }
                }
            }
        }
    }

    /// The reaction of a subflow's window to an ACK. MPTCP-R06, R07.
    #[inline]
    fn reaction(&mut self, subflow: usize, coupling: Coupling) -> Reaction {
        let window = *self.subflows[subflow].flight.window();
        if coupling == Coupling::None || window.in_slow_start() {
            return Reaction::GROW;
        }
        if self.lia_left == 0 {
            self.lia_left = LIA_ACKS;
            let flights = self.subflows.iter().map(|subflow| &subflow.flight);
            self.lia = Lia::new(
                flights.filter_map(|f| Some((f.window().cwnd_bytes(), f.rtt().smoothed()?))),
            );
        }
        self.lia_left -= 1;
        Reaction::Grow { share: self.lia.share(window.cwnd_bytes()) }
    }

    fn handle_ack(&mut self, header: &MptcpHeader, cx: &mut HostCx<'_, MptcpConfig>) {
        let subflow = usize::from(header.subflow);
        let rtt = rtt_since(header.timestamp_picos, cx.now);
        let first = self.subflows[subflow].flight.rtt().smoothed().is_none();
        let Some(advance) = self.subflows[subflow].advance(header.segment, rtt) else {
            return;
        };
        self.data_acked = self.data_acked.max(header.data.min(self.size_bytes));
        if self.offering != 0 {
            self.settle_offers();
        }
        if first {
            self.lia_left = 0;
        }
        let reaction = self.reaction(subflow, cx.config.coupling);
        let duplicate_acks = cx.shared.settings.duplicate_acks;
        let flight = &mut self.subflows[subflow].flight;
        let before = flight.window().cwnd_bytes();
        flight.react(advance, reaction, duplicate_acks, cx.now);
        if flight.window().cwnd_bytes() != before {
            self.lia_left = 0;
        }
        self.keep_timer(subflow, cx);
        self.ask_for(subflow, cx);
    }

    /// Sends a segment on the next subflow in turn that may send by this NIC.
    #[inline]
    fn next_packet(&mut self, nic: u32, cx: &mut HostCx<'_, MptcpConfig>) -> Option<Packet> {
        let subflow = self.next_subflow(nic)?;
        self.last = subflow;
        let segment = self.subflows[subflow].may_send(true)?;
        let (data_segment, elsewhere) = match self.subflows[subflow].mapped(segment) {
            Some(data_segment) => (data_segment, false),
            None => {
                let fresh = self.take_fresh(subflow)?;
                self.subflows[subflow].map(fresh.0);
                fresh
            }
        };
        let seq = segment * self.mss_bytes;
        let again = self.subflows[subflow].flight.send(seq, self.mss_bytes, cx.now);
        // Only segments of a subflow that timed out are reinjected.
        if let Some(cause) = again.or(elsewhere.then_some(RetransmitCause::Timeout)) {
            cx.emit(FlowEvent::Retransmitted(cause));
        }
        self.keep_timer(subflow, cx);

        let start = data_segment * self.mss_bytes;
        let payload_bytes = self.mss_bytes.min(self.size_bytes - start);
        let last = if data_segment + 1 == self.segments { TcpFlags::LAST } else { 0 };
        let (mut packet, header) = self.packet(subflow, last, cx.now);
        packet.header = Header::new(MptcpHeader { segment, data: start, ..header });
        packet.payload_bytes = payload_bytes as u16;
        packet.wire_bytes = (TCP_IP_HEADER_BYTES + payload_bytes) as u16;
        Some(packet)
    }

    fn time_out(&mut self, subflow: usize, cx: &mut HostCx<'_, MptcpConfig>) {
        cx.emit(FlowEvent::TimedOut);
        self.lia_left = 0;
        if self.subflows[subflow].flight.time_out(cx.now) {
            self.send_syn(subflow, cx);
            return self.join_others(cx); // the first may never open
        }
        self.subflows[subflow].offer_all(); // MPTCP-R05
        self.offering |= 1 << subflow;
        self.settle_offers();
    }
}

impl Endpoint<MptcpConfig> for MptcpSender {
    fn gauges(&self, _: &super::MptcpHost, tell: &mut dyn FnMut(&'static str, f64)) {
        let flights = || self.subflows.iter().map(|subflow| &subflow.flight);
        let cwnd_bytes: u64 = flights().map(|f| f.window().cwnd_bytes()).sum();
        let backed_off = flights().filter(|f| f.rtt().is_backed_off()).count();
        tell("cwnd_bytes", cwnd_bytes as f64);
        tell("flight_bytes", flights().map(|f| f.flight_bytes()).sum::<u64>() as f64);
        tell("stuck_subflows", backed_off as f64);
        tell("recovering_subflows", flights().filter(|f| f.in_recovery()).count() as f64);
    }

    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, MptcpConfig>) {
        let header: MptcpHeader = packet.header.get();
        let subflow = usize::from(header.subflow);
        if packet.is_bounced() || !header.has(TcpFlags::ACK) || subflow >= self.subflows.len() {
            return;
        }
        if header.has(TcpFlags::SYN) {
            let rtt = rtt_since(header.timestamp_picos, cx.now);
            if self.subflows[subflow].flight.connect(rtt) {
                self.join_others(cx);
                self.ask_for(subflow, cx);
            }
            return;
        }
        let sent_all = self.next_new == self.segments;
        if header.has(TcpFlags::COMPLETE) && sent_all && header.data == self.size_bytes {
            self.data_acked = self.size_bytes;
            cx.clear_timer();
            return cx.emit(FlowEvent::Finished); // MPTCP-R04
        }
        self.handle_ack(&header, cx);
    }

    fn handle_timeout(&mut self, cx: &mut HostCx<'_, MptcpConfig>) {
        self.timer_at = None;
        for subflow in 0..self.subflows.len() {
            if self.subflows[subflow].flight.rto_at().is_some_and(|at| at <= cx.now) {
                self.time_out(subflow, cx);
            }
            self.keep_timer(subflow, cx);
        }
        self.ask(cx);
    }

    fn poll_transmit(&mut self, cx: &mut HostCx<'_, MptcpConfig>) -> Option<Packet> {
        self.asked &= !(1 << cx.nic);
        let packet = self.next_packet(cx.nic, cx)?;
        self.ask(cx);
        Some(packet)
    }
}
