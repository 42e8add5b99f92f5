//! Timers: of flows, of what a host's flows share, of controllers, and of the driver itself.

use super::flow::Life;
use super::{Application, Driver, DriverError, HERE, WireSet};
use crate::sys::BATCH;
use crate::timers::Alarm;
use punctual_core::{Call, FlowEvent, FlowStack as _, Instant, TimerChange};
use punctual_wire::WireName;

impl<S: WireSet> Driver<S> {
    /// Calls what is due.
    pub(super) fn fire<A: Application>(&mut self, app: &mut A) -> Result<(), DriverError> {
        let now = self.clock.now();
        self.read_at = now;
        let mut count = 0;
        while count < BATCH
            && let Some((at, alarm)) =
                self.timers.pop_due(now).or_else(|| self.forgets.pop_due(now))
        {
            count += 1;
            // A wake-up is late by tens of microseconds. Timers see the time for which they were set,
            // so that pulls keep their rate, but not an older time than a short burst allows.
            self.now = self.now.max(at).max(self.nics[0].earliest(now));
            if let Alarm::Host(_) | Alarm::Flow(_) | Alarm::Port(..) = alarm {
                app.note_lateness(now.saturating_since(at));
            }
            let call = Call { now: self.now, host: HERE, ext: &mut self.ext, out: &mut self.out };
            match alarm {
                Alarm::Host(lane) => {
                    self.lanes[lane].stack.host_timeout(call);
                    self.drain(lane, None, None, app)?;
                }
                Alarm::Flow(id) => {
                    let Some(flow) = self.flows.get(&id) else { continue };
                    let lane = flow.lane;
                    if flow.life == Life::Ended {
                        continue;
                    }
                    self.lanes[lane].stack.handle_timeout(flow.name.end(), flow.slot, call);
                    self.drain(lane, Some(id), None, app)?;
                    if self.lanes[lane].has_ports() {
                        // A granted rate is kept by timers. A packet that was due leaves at the time
                        // of its timer, so that a late wake-up does not postpone those that follow.
                        self.transmit_until(self.now, app)?;
                    }
                }
                Alarm::Port(lane, at) => {
                    let nic = usize::from(at);
                    let next = self.lanes[lane].fire(nic, &self.nics[nic], self.now);
                    if let Some(next) = next {
                        self.timers.apply(alarm, TimerChange::Set(next.max(self.now)));
                    }
                }
                Alarm::Answers => {
                    self.queue_answers();
                }
                Alarm::Paths => {
                    let name = WireName { flow: 0, incarnation: self.incarnation };
                    if let Some(at) = self.paths.look(name, &self.sockets, self.now) {
                        self.timers.apply(Alarm::Paths, TimerChange::Set(at));
                    }
                    self.send_path_messages();
                }
                Alarm::Forget(id) => {
                    let Some(flow) = self.flows.get_mut(&id) else { continue };
                    if flow.life != Life::Open {
                        self.remove(id);
                        continue;
                    }
                    let at = match flow.is_complete {
                        true => flow.heard_at.saturating_add(self.options.time_wait),
                        // Packets that bring nothing new do not keep a flow open, unless the
                        // application has not taken what came before them.
                        false if !flow.parked.is_empty() && app.holds_up(id) => {
                            flow.progress_at = now;
                            now.saturating_add(self.options.stall_max)
                        }
                        false => self.pauses.silent_at(flow.progress_at, self.options.stall_max),
                    };
                    if at > now {
                        self.forgets.apply(alarm, TimerChange::Set(coarse(at)));
                        continue;
                    }
                    let is_complete = flow.is_complete;
                    self.close(id);
                    if !is_complete {
                        app.handle_event(id, now, FlowEvent::Abandoned);
                    }
                }
            }
        }
        if self.paced > 0 {
            self.transmit_until(now, app)?;
        }
        self.now();
        Ok(())
    }
}

/// A time up to 4.3 ms later, such that many timers that need no precision fire together: a wake-up
/// for each ended flow would cost more than the flow.
pub(super) fn coarse(at: Instant) -> Instant {
    Instant::from_picos(at.as_picos() | 0xffff_ffff)
}
