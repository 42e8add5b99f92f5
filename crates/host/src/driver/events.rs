//! What endpoints ask of the driver: packets, timers and events.

use super::timeouts::coarse;
use super::{ANSWER_DELAY, ANSWERS_MAX, Application, Driver, DriverError, WireSet, receive};
use crate::timers::Alarm;
use punctual_core::{ByteRange, Class, ExtArena, FlowEvent, FlowId, Instant, Packet, TimerChange};
use std::io;
use std::net::SocketAddr;

impl<S: WireSet> Driver<S> {
    /// Empties the outbox after a call of a transport. `arrived` is the data of the packet just handled.
    pub(super) fn drain<A: Application>(
        &mut self,
        lane: u8,
        flow: Option<FlowId>,
        arrived: Option<(ByteRange, &[u8])>,
        app: &mut A,
    ) -> Result<(), DriverError> {
        let host_timer = core::mem::take(&mut self.out.host_timer);
        self.timers.apply(Alarm::Host(lane), host_timer);
        let timer = core::mem::take(&mut self.out.timer);
        let ready = self.out.ready.take();
        let ready_nics = core::mem::take(&mut self.out.ready_nics);
        let mut events = core::mem::take(&mut self.out.events);
        let mut ended = false;
        let mut result = Ok(());
        if let Some(id) = flow {
            self.timers.apply(Alarm::Flow(id), timer);
            if let Some(class) = ready {
                // No bit means the NIC of the flow's own path, which is the first one.
                self.queue_ready(id, class, ready_nics.max(1));
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
                    for packet in self.out.packets.drain(..) {
                        discard(&packet, &mut self.ext);
                    }
                    if let DriverError::Write(error) = error
                        && error.kind() == io::ErrorKind::ConnectionAborted
                    {
                        result = Ok(());
                        ended = true;
                    }
                    break;
                }
                app.handle_event(id, self.now, event);
                // Where ports keep state of a flow, its end is urgent.
                if event == FlowEvent::Completed
                    && app.delays_answer(id)
                    && !self.lanes[lane].has_ports()
                {
                    self.delay_answer(id);
                }
            }
        }
        events.clear();
        self.out.events = events;
        self.queue_packets();
        if let (true, Some(id)) = (ended, flow) {
            self.end(id);
        }
        result
    }

    /// Queues a sender at each NIC that it is ready for, or at the one that works in its place.
    fn queue_ready(&mut self, id: FlowId, class: Class, nics: u32) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let new = nics & !flow.ready_nics;
        flow.ready_nics |= nics;
        for wanted in (0..self.nics.len() as u32).filter(|nic| new >> nic & 1 == 1) {
            let nic = match flow.is_spread && self.nics.len() > 1 {
                true => self.paths.nic_for(flow.name.peer, wanted as usize, &self.sockets),
                false => self.sockets.nic_of(flow.via.socket),
            };
            self.nics[nic].push_ready(id, class, wanted);
        }
    }

    /// Queues the packets of the outbox at the NICs by which they leave.
    pub(super) fn queue_packets(&mut self) {
        let has_one = self.nics.len() == 1;
        let mut packets = std::mem::take(&mut self.out.packets);
        for mut packet in packets.drain(..) {
            let nic = match self.flows.get(&packet.flow) {
                Some(flow) if !has_one => self.sockets.nic_of(flow.way_back(packet.path).socket),
                _ => 0,
            };
            self.pass_port(nic, &mut packet);
            self.push_packet(nic, packet);
        }
        self.out.packets = packets;
    }

    /// Queues a packet at a NIC, or drops it if too many wait there.
    pub(super) fn push_packet(&mut self, nic: usize, packet: Packet) {
        if !self.nics[nic].push(packet) {
            discard(&packet, &mut self.ext);
            *self.traffic.dropped.entry("interface_full").or_default() += 1;
        }
    }

    /// Shows a packet to its transport's controller at the NIC by which it will leave.
    pub(super) fn pass_port(&mut self, nic: usize, packet: &mut Packet) {
        let Some(flow) = self.flows.get(&packet.flow) else { return };
        let lane = flow.lane;
        let state = &self.nics[nic];
        let next = self.lanes[lane].forward(nic, state, packet, self.now, &mut self.ext);
        if let Some(next) = next {
            self.timers.apply(Alarm::Port(lane, nic as u8), TimerChange::Set(next));
        }
    }

    /// Keeps the answer that was just made to the last packet of a flow.
    fn delay_answer(&mut self, id: FlowId) {
        let Some(at) = self.out.packets.iter().rposition(|packet| packet.flow == id) else {
            return;
        };
        let Some(flow) = self.flows.get_mut(&id) else { return };
        flow.delayed = Some(self.out.packets.remove(at));
        let at = match self.delayed.len() {
            0 => self.now.saturating_add(ANSWER_DELAY),
            // Enough for one message with segments.
            ANSWERS_MAX => self.now,
            _ => Instant::NEVER,
        };
        if at != Instant::NEVER {
            self.timers.apply(Alarm::Answers, TimerChange::Set(at));
        }
        self.delayed.push(id);
    }

    /// Queues the answers that were delayed.
    pub(super) fn queue_answers(&mut self) {
        for id in self.delayed.drain(..) {
            if let Some(packet) = self.flows.get_mut(&id).and_then(|f| f.delayed.take()) {
                self.out.packets.push(packet);
            }
        }
        self.queue_packets();
    }

    /// Takes the delayed answer to a flow of this peer. Returns the flow's number, which the caller
    /// reports to the peer by other means.
    pub(crate) fn take_answer(&mut self, peer: SocketAddr) -> Option<u32> {
        let flows = &mut self.flows;
        let at = self.delayed.iter().position(|id| {
            flows.get(id).is_some_and(|flow| flow.name.peer == peer && flow.delayed.is_some())
        })?;
        let flow = flows.get_mut(&self.delayed.swap_remove(at))?;
        if let Some(answer) = flow.delayed.take() {
            discard(&answer, &mut self.ext);
        }
        Some(flow.name.number)
    }

    /// Discards the delayed answer of a flow: the peer will know without it.
    pub(crate) fn discard_answer(&mut self, id: FlowId) {
        let answer = self.flows.get_mut(&id).and_then(|flow| flow.delayed.take());
        if let Some(answer) = answer {
            discard(&answer, &mut self.ext);
        }
    }

    fn start_time_wait(&mut self, id: FlowId) {
        self.flows_changed = true;
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.is_complete = true;
            // Copies of data that has arrived: the application counts their memory no longer.
            flow.parked = Vec::new();
        }
        let at = self.now.saturating_add(self.options.time_wait);
        self.forgets.apply(Alarm::Forget(id), TimerChange::Set(coarse(at)));
    }
}

/// Frees what a packet has beside itself, when it does not leave.
pub(super) fn discard(packet: &Packet, ext: &mut ExtArena) {
    if let Some(block) = packet.ext {
        ext.free(block);
    }
}
