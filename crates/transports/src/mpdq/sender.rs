//! The sender: gives the flow's segments to subflows, moves load between them, and ends the flow.

use super::load::{self, Move};
use super::subflow::Subflow;
use super::{MpdqConfig, MpdqHost, pdq_cx};
use crate::paced::Scoreboard;
use crate::pdq::{Expired, PdqConfig, PdqHeader, PdqSender};
use punctual_core::{
    Bytes, Class, Duration, Endpoint, FlowEvent, FlowRoute, FlowSpec, HostCx, Instant, Packet,
    PortId, Rate, Wait,
};

/// The least time between two moves of load.
const PERIOD_MIN: Duration = Duration::from_micros(1);

/// State of an M-PDQ sender.
#[derive(Clone, Debug)]
pub struct MpdqSender {
    class: Class,
    deadline: Option<Instant>,
    has_one_nic: bool,
    board: Scoreboard,
    subflows: Vec<Subflow>,
    /// The subflow that sent last.
    last: usize,
    /// When load was moved last, and when the next move is due; never if none is possible.
    moved_at: Instant,
    move_at: Instant,
    /// Segments that were moved between subflows.
    moved: u64,
}

impl MpdqSender {
    /// Opens a sender with a SYN on each subflow that has load, unless the flow cannot meet its
    /// deadline.
    pub(super) fn open(
        flow: &FlowSpec,
        route: &FlowRoute,
        cx: &mut HostCx<'_, MpdqConfig>,
    ) -> Self {
        let paths = route.subflow_paths(cx.config.subflows);
        let inner = pdq_cx(cx);
        let segments = PdqSender::segments(flow, &inner);
        let shares = load::split(segments.count(), paths.len() as u64);
        let subflows = paths.iter().zip(shares).enumerate().map(|(number, (path, share))| {
            let route = FlowRoute { ecmp_path: *path, ..*route };
            let part = segments.subflow(share);
            let pdq = PdqSender::new(flow, &route, number as u32, part, &inner);
            Subflow::new(pdq, path % route.nics)
        });
        let mut sender = MpdqSender {
            class: flow.class,
            deadline: flow.deadline,
            has_one_nic: route.nics == 1,
            subflows: subflows.collect(),
            board: segments.into_board(),
            last: paths.len() - 1,
            moved_at: cx.now,
            move_at: Instant::NEVER,
            moved: 0,
        };
        if sender.is_hopeless(cx) {
            cx.emit(FlowEvent::Abandoned); // No port has the flow in its list.
            return sender;
        }
        for number in 0..sender.subflows.len() {
            // A flow without data has one TERM to send.
            if sender.subflows[number].load() > 0 || number == 0 {
                sender.open_subflow(number, cx);
            }
        }
        sender.set_timer(cx);
        sender
    }

    /// The number of subflows.
    pub fn subflows(&self) -> usize {
        self.subflows.len()
    }

    /// The granted rate of a subflow; zero while it is paused.
    pub fn rate(&self, subflow: usize) -> Rate {
        self.subflows[subflow].pdq.rate()
    }

    /// The path of a subflow.
    pub fn path(&self, subflow: usize) -> u32 {
        self.subflows[subflow].pdq.flow.path()
    }

    /// Segments that a subflow has left to send.
    pub fn load(&self, subflow: usize) -> u64 {
        self.subflows[subflow].load()
    }

    /// Segments that were moved from one subflow to another.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    fn call<R>(
        &mut self,
        number: usize,
        cx: &mut HostCx<'_, MpdqConfig>,
        call: impl FnOnce(&mut PdqSender, &mut HostCx<'_, PdqConfig>) -> R,
    ) -> R {
        self.subflows[number].call(&mut self.board, &mut pdq_cx(cx), call)
    }

    fn open_subflow(&mut self, number: usize, cx: &mut HostCx<'_, MpdqConfig>) {
        self.subflows[number].is_open = true;
        self.call(number, cx, |subflow, cx| {
            subflow.release_later();
            subflow.send_syn(cx);
            subflow.set_timer(cx);
        });
    }

    // Load.

    /// The time between two moves of load: the shortest RTT of a subflow.
    fn period(&self, host: &MpdqHost) -> Duration {
        let rtts = self.subflows.iter().filter_map(|s| s.pdq.flow.rtt.smoothed());
        rtts.min().unwrap_or(host.config.rtt_initial).max(PERIOD_MIN)
    }

    fn move_load(&mut self, next: Move, cx: &mut HostCx<'_, MpdqConfig>) {
        self.moved += load::carry_out(&mut self.subflows, next);
        if !next.wakes {
            // The one that gave may have nothing left, and the one that got it more time.
            for number in [next.from, next.to] {
                if self.subflows[number].is_open && !self.subflows[number].is_connecting() {
                    self.call(number, cx, |subflow, cx| subflow.pump(cx));
                }
            }
        } else if self.subflows[next.to].is_open {
            self.subflows[next.to].note_answer(cx.now); // It waits for one from now on.
            self.call(next.to, cx, |subflow, cx| {
                subflow.ask_again(cx);
                subflow.pump(cx);
            });
        } else {
            self.open_subflow(next.to, cx);
        }
    }

    /// Moves load an RTT after the last move; at once if a subflow that sends has nothing left, or
    /// if the path of one with load may be dead.
    fn balance(&mut self, cx: &mut HostCx<'_, MpdqConfig>) {
        self.move_at = Instant::NEVER;
        let waits = |s: &Subflow| s.is_waiting(&cx.shared.pdq);
        if self.subflows.len() == 1 || !self.subflows.iter().any(waits) {
            return;
        }
        while let Some(next) = load::rescue(&self.subflows, &cx.shared.pdq) {
            let moved = self.moved;
            self.move_load(next, cx);
            if self.moved == moved {
                break; // Nothing can move.
            }
        }
        let host = &cx.shared.pdq;
        let Some(next) = load::next_move(&self.subflows, host) else { return };
        let runs_out = |s: &Subflow| s.runs_out() && s.is_granted(host);
        let is_urgent = self.subflows.iter().any(runs_out);
        let period = self.period(cx.shared);
        if is_urgent || self.moved_at.saturating_add(period) <= cx.now {
            self.moved_at = cx.now;
            self.move_load(next, cx);
        }
        self.move_at = self.moved_at.saturating_add(period);
    }

    // Early Termination (MPDQ-R07).

    /// The time that must be left until the deadline: that of all remaining segments at the line
    /// rate of all NICs that subflows can use at once, and at least an RTT while all subflows are paused.
    fn needed(&self, cx: &mut HostCx<'_, MpdqConfig>) -> Duration {
        let inner = pdq_cx(cx);
        let rest = if inner.config.sizes_known() {
            let overhead = inner.shared.overhead_bytes();
            let left = self.subflows.iter().map(Subflow::load).sum::<u64>();
            let bytes = self.board.bytes_of(left).saturating_add(left.saturating_mul(overhead));
            let nics = inner.shared.nic().nics.min(self.subflows.len() as u32).max(1);
            inner.shared.line_time(Bytes::new(bytes)) / u64::from(nics)
        } else {
            Duration::ZERO
        };
        if self.subflows.iter().any(|s| s.pdq.rate() > Rate::ZERO) {
            return rest;
        }
        let rtts = self.subflows.iter().map(|s| s.pdq.round_trip(&inner));
        rest.max(rtts.filter(|rtt| !rtt.is_zero()).min().unwrap_or_default())
    }

    /// When the deadline becomes impossible to meet, if nothing changes; never if a missed deadline
    /// does not end the flow.
    fn hopeless_at(&self, cx: &mut HostCx<'_, MpdqConfig>) -> Instant {
        let Some(deadline) = self.deadline else { return Instant::NEVER };
        let has_load = self.subflows.iter().any(|s| s.load() > 0);
        if !cx.shared.config.terminates_early() || !has_load {
            return Instant::NEVER;
        }
        let last = deadline.as_picos().checked_sub(self.needed(cx).as_picos());
        last.map_or(Instant::ZERO, |last| Instant::from_picos(last.saturating_add(1)))
    }

    fn is_hopeless(&self, cx: &mut HostCx<'_, MpdqConfig>) -> bool {
        self.hopeless_at(cx) <= cx.now
    }

    /// Abandons the flow if it cannot meet its deadline; returns whether it did.
    fn gives_up(&mut self, cx: &mut HostCx<'_, MpdqConfig>) -> bool {
        if self.deadline.is_none() || !self.is_hopeless(cx) {
            return false;
        }
        self.leave_ports(cx);
        cx.clear_timer();
        cx.emit(FlowEvent::Abandoned);
        true
    }

    // The end.

    /// Sends a TERM for each subflow that ports may still list.
    fn leave_ports(&mut self, cx: &mut HostCx<'_, MpdqConfig>) {
        for number in 0..self.subflows.len() {
            let subflow = &self.subflows[number];
            if subflow.is_open && !subflow.is_released() {
                self.call(number, cx, |subflow, cx| subflow.send_last_term(cx));
            }
        }
    }

    /// Ends the flow if every byte is acknowledged, and a TERM on each subflow that is heard of
    /// (MPDQ-R09); returns whether it did.
    fn finishes(&mut self, cx: &mut HostCx<'_, MpdqConfig>) -> bool {
        let is_alone = self.subflows.len() == 1;
        let is_over = |s: &Subflow| {
            !s.is_open || s.is_released() || !is_alone && (s.is_silent || s.is_connecting())
        };
        let is_told = |s: &Subflow| s.is_open && s.is_released();
        if !self.board.all_acked()
            || !self.subflows.iter().all(is_over)
            || self.board.count() == 0 && !self.subflows.iter().any(is_told)
        {
            return false;
        }
        self.leave_ports(cx);
        cx.clear_timer();
        cx.emit(FlowEvent::Finished);
        true
    }

    /// What follows every call: the flow ends, or load moves, the NIC is requested and the timer
    /// set.
    fn go_on(&mut self, cx: &mut HostCx<'_, MpdqConfig>) {
        if self.finishes(cx) || self.gives_up(cx) {
            return;
        }
        self.balance(cx);
        for subflow in self.subflows.iter().filter(|s| s.is_open && s.pdq.flow.waits_for_nic) {
            cx.ready_on(self.class, subflow.nic);
        }
        self.set_timer(cx);
    }

    fn set_timer(&self, cx: &mut HostCx<'_, MpdqConfig>) {
        let timers = self.subflows.iter().map(Subflow::timer);
        let (at, is_departure) = timers.min().unwrap_or((Instant::NEVER, false));
        let other = self.move_at.min(self.hopeless_at(cx));
        // With several NICs a driver would not know which one the packet leaves by.
        if is_departure && self.has_one_nic && at < other {
            cx.set_departure(at.max(cx.now));
        } else if at.min(other) < Instant::NEVER {
            cx.set_timer(at.min(other).max(cx.now));
        } else {
            cx.clear_timer();
        }
    }

    /// A timer of a subflow has fired.
    fn time_out(&mut self, number: usize, cx: &mut HostCx<'_, MpdqConfig>) {
        let is_alone = self.subflows.len() == 1;
        let Expired { syn, data } = self.call(number, cx, |subflow, cx| {
            let lost = subflow.expire(cx);
            if lost.data && !is_alone {
                subflow.ask_again(cx); // MPDQ-R05
            }
            if lost.syn {
                subflow.send_syn(cx);
            }
            subflow.pump(cx);
            lost
        });
        if syn || data {
            self.subflows[number].is_silent = true;
            if self.board.count() == 0
                && let Some(next) = self.subflows.iter().position(|s| !s.is_open)
            {
                self.open_subflow(next, cx); // A flow without data has no load to move.
            }
        }
    }
}

impl Endpoint<MpdqConfig> for MpdqSender {
    fn gauges(&self, shared: &MpdqHost, tell: &mut dyn FnMut(&'static str, f64)) {
        let rates = self.subflows.iter().map(|s| s.pdq.rate().as_bps());
        let sending = self.subflows.iter().filter(|s| s.is_sending(&shared.pdq)).count();
        tell("granted_bps", rates.sum::<u64>() as f64);
        tell("sending_subflows", sending as f64);
    }

    fn waits_for(&self) -> Wait {
        let with_load = || self.subflows.iter().filter(|s| s.load() > 0);
        if with_load().next().is_none() {
            Wait::Timer
        } else if with_load().any(|s| s.pdq.rate() > Rate::ZERO) {
            Wait::Pacing(None)
        } else {
            let pauser = with_load().find_map(|s| s.pdq.pauser());
            pauser.map_or(Wait::Grant(None), |port| Wait::Paused(PortId(port)))
        }
    }

    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, MpdqConfig>) {
        let header: PdqHeader = packet.header.get();
        let number = header.subflow() as usize;
        if !self.subflows.get(number).is_some_and(|s| s.is_open) {
            pdq_cx(cx).shared.count_malformed();
            return;
        }
        if !self.call(number, cx, |subflow, cx| subflow.handle_answer(packet, cx)) {
            return;
        }
        self.subflows[number].note_answer(cx.now);
        for (other, subflow) in self.subflows.iter_mut().enumerate() {
            if other != number {
                subflow.pdq.flow.segments.drop_acked_elsewhere(&self.board);
            }
        }
        self.call(number, cx, |subflow, cx| subflow.pump(cx));
        self.go_on(cx);
    }

    fn handle_timeout(&mut self, cx: &mut HostCx<'_, MpdqConfig>) {
        for number in 0..self.subflows.len() {
            if self.subflows[number].timer().0 <= cx.now {
                self.time_out(number, cx);
                self.subflows[number].note_silence(&pdq_cx(cx));
            }
        }
        self.go_on(cx);
    }

    /// The next packets carry the new deadline to the ports.
    fn handle_deadline(&mut self, deadline: Option<Instant>, cx: &mut HostCx<'_, MpdqConfig>) {
        self.deadline = deadline;
        for number in 0..self.subflows.len() {
            self.call(number, cx, |subflow, _| subflow.set_deadline(deadline));
        }
        self.go_on(cx);
    }

    fn poll_transmit(&mut self, cx: &mut HostCx<'_, MpdqConfig>) -> Option<Packet> {
        if self.gives_up(cx) {
            return None;
        }
        let (count, first) = (self.subflows.len(), self.last + 1);
        let mut packet = None;
        for number in (first..first + count).map(|number| number % count) {
            let subflow = &self.subflows[number];
            if subflow.nic == cx.nic && subflow.wants_nic(cx.now) {
                packet = self.call(number, cx, |subflow, cx| subflow.poll_transmit(cx));
                if packet.is_some() {
                    self.last = number;
                    break;
                }
            }
        }
        self.go_on(cx);
        packet
    }
}
