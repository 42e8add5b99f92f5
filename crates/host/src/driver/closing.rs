//! The end of flows.

use super::events::discard;
use super::flow::Life;
use super::{Driver, HERE, WireSet};
use crate::timers::Alarm;
use punctual_core::{Call, Duration, FlowEvent, FlowId, FlowStack as _, TimerChange};

/// How long a closed flow has for leaving the ports on its path, and how long its last packet has for
/// leaving this host.
const CLOSING: Duration = Duration::from_millis(200);
const FAREWELL: Duration = Duration::from_millis(5);

impl<S: WireSet> Driver<S> {
    /// Closes a flow and removes its state. A sender of which ports keep state leaves them first.
    pub fn close(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let lane = &mut self.lanes[flow.lane];
        if !flow.name.sent_from_here || !lane.has_ports() {
            return self.remove(id);
        }
        if flow.life != Life::Open {
            return;
        }
        flow.life = Life::Leaving;
        let slot = flow.slot;
        let now = self.now;
        let call = Call { now, host: HERE, ext: &mut self.ext, out: &mut self.out };
        lane.stack.handle_cancel(slot, call);
        let timer = std::mem::take(&mut self.out.timer);
        (self.out.ready, self.out.ready_nics) = (None, 0);
        let is_end = |event: FlowEvent| matches!(event, FlowEvent::Finished | FlowEvent::Abandoned);
        let has_ended = self.out.events.drain(..).any(is_end);
        self.timers.apply(Alarm::Flow(id), timer);
        self.queue_packets();
        match has_ended {
            true => self.end(id),
            false => {
                let at = now.saturating_add(CLOSING);
                self.forgets.apply(Alarm::Forget(id), TimerChange::Set(at));
            }
        }
    }

    /// The endpoint of a flow has ended.
    pub(super) fn end(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        if !flow.name.sent_from_here || !self.lanes[flow.lane].has_ports() {
            return self.remove(id);
        }
        flow.life = Life::Ended;
        self.timers.apply(Alarm::Flow(id), TimerChange::Clear);
        let at = self.now.saturating_add(FAREWELL);
        self.forgets.apply(Alarm::Forget(id), TimerChange::Set(at));
    }

    /// Removes the state of a flow.
    pub(super) fn remove(&mut self, id: FlowId) {
        let Some(flow) = self.flows.remove(&id) else { return };
        if let Some(answer) = &flow.delayed {
            discard(answer, &mut self.ext);
        }
        self.flows_changed = true;
        self.paced -= usize::from(self.lanes[flow.lane].has_ports());
        self.names.remove(&flow.name);
        if flow.is_spread {
            self.paths.close(flow.name.peer);
        }
        if let Some(peer) = self.peers.get_mut(&flow.name.peer) {
            peer.flows -= 1;
            if peer.flows == 0 {
                self.peers.remove(&flow.name.peer);
            }
        }
        self.timers.apply(Alarm::Flow(id), TimerChange::Clear);
        self.forgets.apply(Alarm::Forget(id), TimerChange::Clear);
        self.lanes[flow.lane].stack.close(flow.name.end(), flow.slot, HERE);
    }
}
