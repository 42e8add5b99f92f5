//! What is kept of a flow while it is followed.

use super::chain::{Again, Cause, Node, Stretch};
use super::{Behind, Part, What};
use crate::tap::End;
use punctual_core::{FlowSpec, Instant, PortId, TimerChange, Wait};
use std::collections::VecDeque;
use std::rc::Rc;

/// Points kept of how far a flow was. Beyond these, every other is forgotten.
const PROGRESS_KEPT: usize = 1024;

/// A flow that is followed.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) spec: FlowSpec,
    pub(super) nic: PortId,
    pub(super) sender: EndState,
    pub(super) receiver: EndState,
    /// The call in which the sender said that it was ready, and what its NIC has sent since.
    pub(super) ready: Option<(Rc<Node>, u64)>,
    /// The call in which data was made last, and until when the NIC sends it.
    pub(super) last_data: Option<Rc<Node>>,
    pub(super) nic_until: Instant,
    /// The call since which it has been held to a rate.
    pacing_since: Option<Rc<Node>>,
    /// Why the sender may not send at all, and since which call.
    pub(super) hold: Option<Hold>,
    /// When it might not, before.
    pub(super) holds: Vec<Part>,
    /// Data lost or trimmed and not sent again yet, the oldest first.
    pub(super) losses: VecDeque<Lost>,
    /// The call that made the answer or request that was lost last, and where.
    pub(super) lost_control: Option<(Rc<Node>, PortId)>,
    /// The ports that asked about its data on their last way to the receiver.
    pub(super) route: Vec<PortId>,
    /// Calls that wait for the receiver's host to ask for more, and who was asked since.
    pub(super) turns: VecDeque<(Rc<Node>, u64)>,
    delivered: u64,
    pub(super) progress: Vec<(Instant, u64)>,
}

/// One of its ends.
#[derive(Debug, Default)]
pub(super) struct EndState {
    pub(super) last: Option<Rc<Node>>,
    /// When its timer fires, and the call that first set it to that instant.
    pub(super) timer: Option<(Instant, Rc<Node>)>,
    pub(super) told: Wait,
}

/// A sender has no rate.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) since: Rc<Node>,
    pub(super) what: What,
    pub(super) port: Option<PortId>,
    pub(super) behind: Behind,
}

/// A packet of data that did not arrive as it was.
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

    /// A timer of one end has fired: what it waited for, and since which call.
    pub(super) fn timer_fired(&mut self, end: End, now: Instant) -> Option<Rc<Node>> {
        let state = self.end(end);
        let setter = state.timer.take().map(|(_, node)| node).or_else(|| state.last.clone())?;
        let told = state.told;
        let what = match (end, told) {
            (End::Sender, Wait::Pacing(hop)) => return Some(self.paced(setter, now, hop)),
            (_, Wait::Grant(_)) => What::Grant,
            (_, Wait::Paused(_)) => What::Paused,
            // Whoever waits for its turn is not called by a timer of its own: this is silence.
            (_, Wait::Pull | Wait::Token) => What::Timeout,
            (_, Wait::Timer | Wait::Pacing(_)) => What::Timer,
        };
        Some(Node::after(now, setter, what))
    }

    /// A port of its path, counted from its host's own.
    fn port_at(&self, hop: Option<u8>) -> Option<PortId> {
        self.route.get(usize::from(hop?)).copied()
    }

    /// The time of the last packet at the sender's rate is over. That time counts from when the
    /// packet was made, or since it may send at all, even if the rate was changed on the way.
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

    /// A retransmission timer has fired in this call: what it waited for was lost, and the time
    /// went since that was made.
    pub(super) fn timed_out(&mut self, call: &Rc<Node>) {
        let timer = call.link.borrow().parent.clone();
        // An answer lost long before the timer was set has done no harm: others followed it.
        let control = self.lost_control.take();
        let control = control.filter(|(made, _)| timer.as_ref().is_none_or(|t| made.at >= t.at));
        let lost = self.losses.front().map(|lost| (lost.made.clone(), lost.again.port));
        let lost = lost.or(control.map(|(made, port)| (made, Some(port))));
        let Some((since, port)) = lost.or(timer.map(|timer| (timer, None))) else { return };
        call.relink(since, Cause::wait(What::Timeout, call.at, port, Behind::default()));
        if let Some(hold) = &mut self.hold {
            // What was waited for until here is told by the timeout.
            hold.since = call.clone();
        }
    }

    /// What the sender says at the end of a call that it waits for.
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
        if is_paced(wait) && !is_paced(self.sender.told) {
            self.pacing_since = Some(call.clone());
        }
        self.sender.told = wait;
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
