//! The controller of every output port, the hosts' included: it lets the most critical flows send
//! and pauses the others.

mod list;
mod rate;

#[cfg(test)]
pub(crate) use list::VISITED;
pub use list::{FlowEntry, FlowKey, FlowList, FlowRank};
pub use rate::RateController;

use super::config::{Availability, PdqConfig};
use super::header::{NOBODY, PROBE_UNIT, PdqHeader, expected_nanos, round_trips, rtt_field};
use list::visited;
use punctual_core::{
    Bytes, Controller, ControllerState, Duration, ExtArena, FlowId, Instant, Packet, PortId,
    PortView, Rate,
};

/// The parameters that a port uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params {
    /// K and X; 0 if they are off.
    early_start: f64,
    probe_spread: f64,
    dampening: f64,
    update_rtts: f64,
    share_min: f64,
    rcp_alpha: f64,
    rcp_beta: f64,
    rtt_initial: Duration,
    list_min: u32,
    list_max: u32,
    purge_intervals: u32,
    corrected: bool,
    syn_grants: bool,
}

impl Params {
    fn new(config: &PdqConfig) -> Self {
        Params {
            early_start: config.early_start_rtts(),
            probe_spread: config.probe_spread_rtts(),
            dampening: config.dampening,
            update_rtts: config.update_rtts,
            share_min: config.share_min,
            rcp_alpha: config.rcp_alpha,
            rcp_beta: config.rcp_beta,
            rtt_initial: config.rtt_initial,
            list_min: config.list_min,
            list_max: config.list_max,
            purge_intervals: config.purge_intervals,
            corrected: config.availability == Availability::Corrected,
            syn_grants: config.syn_grants,
        }
    }
}

/// The flow for which [`PdqPort::available`] computes a rate.
#[derive(Clone, Copy, Debug)]
struct Asker {
    /// Its RTT in nanoseconds, or 0.
    rtt: u32,
    /// Whether no port pauses it.
    runs: bool,
}

/// PDQ's controller of a port: flow list, capacity, and the flow accepted last.
#[derive(Clone, Debug)]
pub struct PdqPort {
    params: Params,
    list: FlowList,
    rates: RateController,
    /// The paused flow accepted last, and when.
    accepted: Option<(FlowKey, Instant)>,
}

impl PdqPort {
    /// A port without flows.
    pub fn new(config: &PdqConfig) -> Self {
        let params = Params::new(config);
        PdqPort {
            params,
            list: FlowList::default(),
            rates: RateController::new(&params),
            accepted: None,
        }
    }

    /// The flow list.
    pub fn list(&self) -> &FlowList {
        &self.list
    }

    /// C, the capacity for the flows in the list.
    pub fn capacity(&self) -> Rate {
        super::header::rate(self.rates.capacity())
    }

    /// The rate of each flow beyond the list.
    pub fn share_beyond(&self) -> Rate {
        super::header::rate(self.rates.share())
    }

    /// The mean RTT of the flows.
    pub fn rtt(&self) -> Duration {
        self.rates.rtt()
    }

    /// The present size limit of the list (PDQ-R10).
    fn room(&self) -> usize {
        let room = (2 * self.list.sending()).max(self.params.list_min as usize);
        room.min(self.params.list_max as usize)
    }

    #[inline(never)]
    fn forget(&mut self, flow: FlowKey) {
        if let Some(place) = self.list.find(flow) {
            self.list.remove(place);
        }
    }

    /// Algorithm 2: the capacity, in kb/s, that the flows before `place` leave for `asker` (PDQ-R12,
    /// PDQ-R13).
    #[inline(always)]
    fn available(&self, place: usize, asker: Asker, me: u32) -> u32 {
        let nearly_done = self.params.early_start;
        let corrected = self.params.corrected;
        let mean_rtt = rtt_field(self.rates.rtt());
        let capacity = u64::from(self.rates.capacity());
        let (mut overlooked, mut taken) = (0.0, 0u64);
        for entry in &self.list.entries()[..place] {
            visited(1);
            // The gap to fill is the time until the waiting flow has probed, received the answer,
            // and its data arrive.
            let rtt = if corrected { asker.rtt } else { entry.rtt };
            let may_be_overlooked = entry.rate > 0 || !corrected;
            if may_be_overlooked && overlooked < nearly_done {
                let left = round_trips(entry.expected, if rtt > 0 { rtt } else { mean_rtt });
                if left < nearly_done {
                    overlooked += left;
                    continue;
                }
            }
            // Dampening keeps the flow accepted last: it must not yield to a dampened flow.
            let gives_way = entry.dampened && asker.runs;
            let waits_here = corrected && entry.pauser == me && !gives_way;
            taken += if waits_here {
                self.reserved(entry, if rtt > 0 { rtt } else { mean_rtt })
            } else {
                u64::from(entry.rate)
            };
            if taken >= capacity {
                return 0;
            }
        }
        (capacity - taken) as u32
    }

    /// `min(1, T/RTT) · desired rate`, in kb/s: the rate to reserve for a flow that waits here. A
    /// full line rate reserved for each short flow would admit only one of them per RTT (PDQ-R12).
    #[inline]
    fn reserved(&self, entry: &FlowEntry, rtt_nanos: u32) -> u64 {
        let (asked, rtt) = (u64::from(entry.asked), u64::from(rtt_nanos));
        if self.is_short(entry.expected, rtt_nanos) {
            asked * expected_nanos(entry.expected) / rtt
        } else {
            asked
        }
    }

    /// Whether T < RTT, so that the flow ends before a pause reaches it. Always false without Early
    /// Start, which lets flows overlap.
    #[inline]
    fn is_short(&self, expected: u32, rtt_nanos: u32) -> bool {
        let applies = self.params.corrected && self.params.early_start > 0.0;
        applies && expected_nanos(expected) < u64::from(rtt_nanos)
    }

    /// Lowers the desired rate of a flow that another port pauses to the rate available here
    /// (PDQ-R09): that port may be about to accept it, without asking this one.
    #[inline(never)]
    fn lower_paused_elsewhere(&self, header: &mut PdqHeader, flow: FlowKey, me: u32, now: Instant) {
        let rank = FlowRank::of(header, flow, now);
        let place = self.list.place_of(&rank);
        let available = if place == self.list.len() && place >= self.room() {
            self.rates.share()
        } else {
            self.available(place, Asker { rtt: header.rtt, runs: false }, me)
        };
        header.rate = header.rate.min(available);
    }

    /// The flow's place in the list, into which it is inserted if there is room (PDQ-R10).
    fn enlist(
        &mut self,
        header: &PdqHeader,
        flow: FlowKey,
        me: u32,
        now: Instant,
    ) -> Option<usize> {
        let rank = FlowRank::of(header, flow, now);
        let place = match self.list.find(flow) {
            Some(place) => self.list.rerank(place, rank),
            None => {
                if self.list.len() >= self.room() && !self.list.precedes_last(&rank) {
                    return None;
                }
                let runs = header.has(PdqHeader::DATA);
                let entry = FlowEntry {
                    rank,
                    rate: if runs { header.rate } else { 0 },
                    asked: header.rate,
                    pauser: if runs { NOBODY } else { me },
                    dampened: false,
                    expected: header.expected,
                    rtt: header.rtt,
                    seen: now,
                };
                let place = self.list.insert(entry);
                self.list.truncate(self.room());
                if place >= self.list.len() {
                    return None;
                }
                place
            }
        };
        self.list.note(place, header, now);
        Some(place)
    }

    /// Algorithm 1: grants a rate to, or pauses, the flow of a packet to the receiver.
    fn schedule(
        &mut self,
        header: &mut PdqHeader,
        flow: FlowKey,
        wire_bytes: u16,
        port: &PortView,
    ) {
        let me = port.port.0;
        if header.has(PdqHeader::TERM) {
            return self.forget(flow); // PDQ-R16
        }
        if header.has(PdqHeader::SYN) && !self.params.syn_grants {
            return; // PDQ-R01
        }
        if header.pauser != NOBODY && header.pauser != me {
            self.forget(flow); // PDQ-R09
            if self.params.corrected {
                self.lower_paused_elsewhere(header, flow, me, port.now);
            }
            return;
        }
        let Some(place) = self.enlist(header, flow, me, port.now) else {
            // PDQ-R21: beyond the list.
            self.rates.count_beyond(flow, wire_bytes, header.pauser == me);
            header.rate = header.rate.min(self.rates.share());
            if header.rate == 0 {
                header.pause(me);
            } else {
                header.pauser = NOBODY;
            }
            return;
        };
        let paused = self.list.entries()[place].pauser != NOBODY;
        let asker = Asker { rtt: header.rtt, runs: !paused };
        let granted = self.available(place, asker, me).min(header.rate);
        let dampened = granted > 0 && paused && self.is_dampened(header, flow, port.now);
        if granted > 0 && !dampened {
            header.pauser = NOBODY;
            header.rate = granted;
            if paused {
                self.accepted = Some((flow, port.now));
                self.list.update(place, |entry| entry.dampened = false);
            }
        } else {
            header.pause(me);
            self.list.update(place, |entry| {
                entry.pauser = me;
                entry.dampened = dampened;
            });
        }
    }

    /// Whether dampening holds back a paused flow because another was just accepted (PDQ-R14).
    /// Dampening prevents oscillation between flows. Short flows end too soon to oscillate, and are
    /// exempt: dampening would bound how many of them a port admits per second.
    fn is_dampened(&self, header: &PdqHeader, flow: FlowKey, now: Instant) -> bool {
        let Some((last, at)) = self.accepted else { return false };
        let mean = self.rates.rtt();
        let rtt = if header.rtt > 0 { header.rtt } else { rtt_field(mean) };
        last != flow
            && now.saturating_since(at) < mean.mul_f64(self.params.dampening)
            && !self.is_short(header.expected, rtt)
    }

    /// Algorithm 3: records the grant or pause that an acknowledgement carries.
    fn record_answer(&mut self, header: &mut PdqHeader, flow: FlowKey, me: u32) {
        if header.pauser != NOBODY {
            header.rate = 0;
            if header.pauser != me {
                return self.forget(flow);
            }
        }
        let place = self.list.find(flow);
        let spread = self.params.probe_spread * f64::from(PROBE_UNIT);
        let interval = |index: usize| (spread * index as f64) as u32;
        // PDQ-R15. In an acknowledgement the field `deadline` is I.
        if let Some(place) = place {
            self.list.update(place, |entry| {
                entry.pauser = header.pauser;
                entry.rate = header.rate;
            });
            header.deadline = header.deadline.max(interval(place));
        } else if header.pauser == me {
            header.deadline = header.deadline.max(interval(self.list.len()));
        }
    }

    /// Removes flows that have sent nothing for several probing intervals (PDQ-R17).
    fn purge(&mut self, port: &PortView) {
        let spread = self.params.probe_spread;
        let patience = f64::from(self.params.purge_intervals);
        let mean = self.rates.rtt();
        // RTTs in headers exclude queueing; probes wait for answers that pass our queue.
        let queue = port.rate.transmission_time(Bytes::new(port.queue_bytes));
        for place in (0..self.list.len()).rev() {
            let entry = &self.list.entries()[place];
            let silence = port.now.saturating_since(entry.seen);
            if silence <= mean {
                continue; // Too soon: `patience` is at least one interval.
            }
            let rtt = Duration::from_nanos(u64::from(entry.rtt)).max(mean) + queue;
            let interval = rtt.mul_f64(patience * (spread * place as f64).max(1.0));
            if silence > interval {
                self.list.remove(place);
            }
        }
    }
}

impl Controller for PdqPort {
    fn gauges(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("listed_flows", self.list.len() as f64);
        tell("sending_flows", self.list.sending() as f64);
        tell("capacity_bps", f64::from(self.rates.capacity()) * 1e3);
    }

    /// The more critical flows that send. A flow beyond the list comes after all in it.
    fn flows_ahead(&self, of: FlowId, tell: &mut dyn FnMut(FlowId)) {
        let entries = self.list.entries();
        let of_flow = |entry: &FlowEntry| entry.rank.flow() == of.0;
        let before = &entries[..entries.iter().rposition(of_flow).unwrap_or(entries.len())];
        for (place, entry) in before.iter().enumerate() {
            let flow = entry.rank.flow();
            // Subflows of one flow are one flow here.
            let is_told = |other: &FlowEntry| other.rate > 0 && other.rank.flow() == flow;
            if entry.rate > 0 && !of_flow(entry) && !before[..place].iter().any(is_told) {
                tell(FlowId(flow));
            }
        }
    }

    fn handle_forward(&mut self, packet: &mut Packet, port: &PortView, _ext: &mut ExtArena) {
        if packet.is_to_sender() {
            return;
        }
        let header: &mut PdqHeader = packet.header.get_mut();
        self.rates.count(&self.params, port, packet.wire_bytes, header.has(PdqHeader::AGAIN));
        let key = FlowKey::new(packet.flow.0, header.subflow());
        self.schedule(header, key, packet.wire_bytes, port);
    }

    fn reads_answers(&self) -> bool {
        true
    }

    fn handle_reverse(&mut self, packet: &mut Packet, port: PortId) {
        let header: &mut PdqHeader = packet.header.get_mut();
        if header.has(PdqHeader::ACK) {
            let key = FlowKey::new(packet.flow.0, header.subflow());
            self.record_answer(header, key, port.0);
        }
    }

    fn handle_timeout(&mut self, port: &PortView) {
        if self.next_timeout().is_some_and(|at| at <= port.now) {
            self.purge(port);
            self.rates.update(&self.params, port, self.list.entries());
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.rates.next_update()
    }

    fn reset(&mut self) {
        self.list.clear();
        self.rates.reset(&self.params);
        self.accepted = None;
    }

    fn state(&self) -> ControllerState {
        let flows = self.list.entries().len() as u64;
        let sending = Some(self.list.sending() as u64);
        ControllerState { flows, sending, ..ControllerState::default() }
    }
}
