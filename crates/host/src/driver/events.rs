//! What endpoints ask of the driver: packets, timers and events.

use super::{ANSWER_DELAY, Application, Driver, DriverError, coarse, receive};
use crate::timers::Alarm;
use punctual_core::{ByteRange, FlowEvent, FlowId, TimerChange, Transport};
use punctual_wire::Codec;
use std::io;

impl<T: Transport, C: Codec> Driver<T, C> {
    /// Empties the outbox. `arrived` is the data of the packet just handled.
    pub(super) fn drain<A: Application>(
        &mut self,
        flow: Option<FlowId>,
        arrived: Option<(ByteRange, &[u8])>,
        app: &mut A,
    ) -> Result<(), DriverError> {
        let host_timer = core::mem::take(&mut self.out.host_timer);
        self.timers.apply(Alarm::Host, host_timer);
        let timer = core::mem::take(&mut self.out.timer);
        let ready = self.out.ready.take();
        self.out.ready_nics = 0; // There is one NIC.
        let mut events = core::mem::take(&mut self.out.events);
        let mut ended = false;
        let mut result = Ok(());
        if let Some(id) = flow {
            self.timers.apply(Alarm::Flow(id), timer);
            if let (Some(class), Some(flow)) = (ready, self.flows.get_mut(&id))
                && !core::mem::replace(&mut flow.is_ready, true)
            {
                self.nic.push_ready(id, class);
            }
            for event in events.drain(..) {
                match event {
                    FlowEvent::Delivered(range) => {
                        if let Some(flow) = self.flows.get_mut(&id) {
                            flow.progress_at = self.now;
                        }
                        result = receive::write(id, range, arrived, app);
                    }
                    FlowEvent::Completed => self.start_time_wait(id),
                    FlowEvent::Finished | FlowEvent::Abandoned => ended = true,
                    _ => {}
                }
                if let Err(error) = &result {
                    // Bytes that are not stored must not be acknowledged.
                    self.out.packets.clear();
                    if let DriverError::Write(error) = error
                        && error.kind() == io::ErrorKind::ConnectionAborted
                    {
                        result = Ok(());
                        ended = true;
                    }
                    break;
                }
                app.handle_event(id, self.now, event);
                if event == FlowEvent::Completed && app.delays_answer(id) {
                    self.delay_answer(id);
                }
            }
        }
        events.clear();
        self.out.events = events;
        for packet in self.out.packets.drain(..) {
            if !self.nic.push(packet) {
                *self.traffic.dropped.entry("interface_full").or_default() += 1;
            }
        }
        if let (true, Some(id)) = (ended, flow) {
            self.close(id);
        }
        result
    }

    /// Keeps the answer that was just made to the last packet of a flow.
    fn delay_answer(&mut self, id: FlowId) {
        let Some(at) = self.out.packets.iter().rposition(|packet| packet.flow == id) else {
            return;
        };
        let Some(flow) = self.flows.get_mut(&id) else { return };
        flow.delayed = Some(self.out.packets.remove(at));
        if self.delayed.is_empty() {
            let at = self.now.saturating_add(ANSWER_DELAY);
            self.timers.apply(Alarm::Answers, TimerChange::Set(at));
        }
        self.delayed.push(id);
    }

    /// Discards the delayed answer of a flow: the peer will know without it.
    pub(crate) fn discard_answer(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.delayed = None;
        }
    }

    fn start_time_wait(&mut self, id: FlowId) {
        self.flows_changed = true;
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.is_complete = true;
        }
        let at = self.now.saturating_add(self.options.time_wait);
        self.timers.apply(Alarm::Forget(id), TimerChange::Set(coarse(at)));
    }
}
