//! The state of a followed flow.

use super::chain::{Again, Cause, Node, Stretch};
use super::{Behind, Part, What};
use punctual_core::{End, FlowSpec, Instant, PortId, TimerChange, Wait};
use std::collections::VecDeque;
use std::rc::Rc;

/// The maximum number of progress points kept. Beyond it, every other one is removed.
const PROGRESS_KEPT: usize = 1024;

/// A flow that is followed.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) spec: FlowSpec,
    pub(super) nic: PortId,
    pub(super) sender: EndState,
    pub(super) receiver: EndState,
    /// The call in which the sender became ready, and where in its NIC's log that begins.
    pub(super) ready: Option<(Rc<Node>, u64)>,
    /// The last call in which a data packet was created.
    pub(super) last_data: Option<Rc<Node>>,
    /// When the NIC has sent the flow's last data packet.
    pub(super) nic_until: Instant,
    /// The call since which it has been paced.
    pacing_since: Option<Rc<Node>>,
    /// Why the sender may not send at all, and since which call.
    pub(super) hold: Option<Hold>,
    /// Earlier intervals in which the sender could not send.
    pub(super) holds: Vec<Part>,
    /// Data lost or trimmed and not yet retransmitted, the oldest first.
    pub(super) losses: VecDeque<Lost>,
    /// The call that created the control packet that was lost last, and where it was lost.
    pub(super) lost_control: Option<(Rc<Node>, PortId)>,
    /// The ports with controllers that its last packet to the receiver passed.
    pub(super) route: Vec<PortId>,
    /// Calls that wait for a pull or token, and where in the host's log each wait begins.
    pub(super) turns: VecDeque<(Rc<Node>, u64)>,
    delivered: u64,
    pub(super) progress: Vec<(Instant, u64)>,
}

/// The state of one end of a followed flow.
#[derive(Debug, Default)]
pub(super) struct EndState {
    pub(super) last: Option<Rc<Node>>,
    /// When its timer fires, and the call that first set it to that instant.
    pub(super) timer: Option<(Instant, Rc<Node>)>,
    /// What it waits for, as reported after its last call.
    pub(super) wait: Wait,
}

/// An interval in which the sender has no rate.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) since: Rc<Node>,
    pub(super) what: What,
    pub(super) port: Option<PortId>,
    pub(super) behind: Behind,
}

/// A data packet that was lost or trimmed.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) made: Rc<Node>,
    pub(super) again: Again,
}

impl Followed {
    pub(super) fn new(spec: FlowSpec, nic: PortId) -> Self {
        Followed {
            nic,
            sender: EndState::default(),
            receiver: EndState::default(),
            ready: None,
            last_data: None,
            nic_until: spec.start,
            pacing_since: None,
            hold: None,
            holds: Vec::new(),
            losses: VecDeque::new(),
            lost_control: None,
            route: Vec::new(),
            turns: VecDeque::new(),
            delivered: 0,
            progress: Vec::new(),
            spec,
        }
    }

    pub(super) fn end(&mut self, end: End) -> &mut EndState {
        match end {
            End::Sender => &mut self.sender,
            End::Receiver => &mut self.receiver,
        }
    }

    /// The last call of either end.
    pub(super) fn last(&self) -> Option<&Rc<Node>> {
        let calls = [&self.sender.last, &self.receiver.last];
        calls.into_iter().flatten().max_by_key(|node| node.at)
    }

    /// A timer of one end has fired: returns the call, with the wait that led to it.
    pub(super) fn timer_fired(&mut self, end: End, now: Instant) -> Option<Rc<Node>> {
        let state = self.end(end);
        let setter = state.timer.take().map(|(_, node)| node).or_else(|| state.last.clone())?;
        let wait = state.wait;
        let what = match (end, wait) {
            (End::Sender, Wait::Pacing(hop)) => return Some(self.paced(setter, now, hop)),
            (_, Wait::Grant(_)) => What::Grant,
            (_, Wait::Paused(_)) => What::Paused,
            // A pull or token comes from a host timer, so a timer of its own is a timeout.
            (_, Wait::Pull | Wait::Token) => What::Timeout,
            (_, Wait::Timer | Wait::Pacing(_)) => What::Timer,
        };
        Some(Node::after(now, setter, what))
    }

    /// The port at a hop of its path; hop 0 is its host's own port.
    fn port_at(&self, hop: Option<u8>) -> Option<PortId> {
        self.route.get(usize::from(hop?)).copied()
    }

    /// The pacing time of the sender's last packet is over: returns the call that follows.
    ///
    /// That time counts from the creation of the packet or, if later, from the start of pacing,
    /// even if the rate changed since.
    fn paced(&self, setter: Rc<Node>, now: Instant, hop: Option<u8>) -> Rc<Node> {
        let since = [&self.last_data, &self.pacing_since];
        let since = since.into_iter().flatten().max_by_key(|node| node.at);
        let since = since.cloned().unwrap_or(setter);
        let mut stretches = Vec::new();
        let own_until = self.nic_until.min(now);
        let behind = Behind::default;
        if own_until > since.at {
            let (what, port) = (What::Own, Some(self.nic));
            stretches.push(Stretch { what, until: own_until, port, behind: behind() });
        }
        if now > own_until.max(since.at) {
            let (what, port) = (What::Pacing, self.port_at(hop));
            stretches.push(Stretch { what, until: now, port, behind: behind() });
        }
        Node::new(now, Some(since), Cause::Wait(stretches))
    }

    pub(super) fn timer_set(&mut self, end: End, change: TimerChange, by: &Rc<Node>) {
        let timer = &mut self.end(end).timer;
        match change {
            TimerChange::Keep => {}
            TimerChange::Clear => *timer = None,
            TimerChange::Set(at) | TimerChange::Depart(at) => {
                if timer.as_ref().is_none_or(|(before, _)| *before != at) {
                    *timer = Some((at, by.clone()));
                }
            }
        }
    }

    /// A retransmission timer has fired in this call: blames the packet that was lost.
    ///
    /// The timeout counts from when that packet was created.
    pub(super) fn timed_out(&mut self, call: &Rc<Node>) {
        let timer = call.link.borrow().parent.clone();
        // A control packet created before the timer was set did no harm: later ones followed it.
        let control = self.lost_control.take();
        let control = control.filter(|(made, _)| timer.as_ref().is_none_or(|t| made.at >= t.at));
        let lost = self.losses.front().map(|lost| (lost.made.clone(), lost.again.port));
        let lost = lost.or(control.map(|(made, port)| (made, Some(port))));
        let Some((since, port)) = lost.or(timer.map(|timer| (timer, None))) else { return };
        call.relink(since, Cause::wait(What::Timeout, call.at, port, Behind::default()));
        if let Some(hold) = &mut self.hold {
            // The timeout covers the wait up to here.
            hold.since = call.clone();
        }
    }

    /// Records what the sender waits for at the end of a call.
    pub(super) fn sender_waits(&mut self, wait: Wait, ahead: Behind, call: &Rc<Node>) {
        let held = match wait {
            Wait::Grant(hop) => Some((What::Grant, self.port_at(hop))),
            Wait::Paused(port) => Some((What::Paused, Some(port))),
            _ => None,
        };
        match (&mut self.hold, held) {
            (Some(hold), Some(held)) if (hold.what, hold.port) == held => {
                hold.behind.merge(&ahead);
            }
            (hold, held) => {
                if let Some(over) = hold.take()
                    && over.since.at < call.at
                {
                    let Hold { since, what, port, behind } = over;
                    self.holds.push(Part {
                        what,
                        from: since.at,
                        to: call.at,
                        port,
                        behind: behind.clone(),
                    });
                    call.relink(since, Cause::wait(what, call.at, port, behind));
                }
                let since = call.clone();
                *hold = held.map(|(what, port)| Hold { since, what, port, behind: ahead });
            }
        }
        let is_paced = |wait| matches!(wait, Wait::Pacing(_));
        if is_paced(wait) && !is_paced(self.sender.wait) {
            self.pacing_since = Some(call.clone());
        }
        self.sender.wait = wait;
    }

    pub(super) fn delivered(&mut self, now: Instant, bytes: u64) {
        self.delivered += bytes;
        match self.progress.last_mut() {
            Some(last) if last.0 == now => last.1 = self.delivered,
            _ => self.progress.push((now, self.delivered)),
        }
        if self.progress.len() > PROGRESS_KEPT {
            let mut number = 0;
            self.progress.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
    }
}
