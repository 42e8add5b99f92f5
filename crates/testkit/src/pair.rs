//! A minimal driver: two hosts connected by a path.

use crate::port::{NextSend, Port};
use crate::schedule::{Event, Schedule};
use crate::{Direction, Fault, FlowResult, PairPath, Traced};
use punctual_core::rng::derive;
use punctual_core::{
    Bytes, Call, Class, Controller, End, ExtArena, ExtId, FlowId, FlowRoute, FlowSpec, HostId,
    Instant, NicInfo, Outbox, Packet, PacketFlags, PortId, PortView, Stack, TimerChange, Transport,
    TransportId,
};

struct Flow {
    result: FlowResult,
    sender: Option<u32>,
    receiver: Option<u32>,
    sender_timer: Option<Instant>,
    receiver_timer: Option<Instant>,
    /// Whether its sender is queued at the NIC.
    is_queued: bool,
}

macro_rules! call {
    ($self:ident, $host:expr) => {
        Call { now: $self.now, host: $host, ext: &mut $self.ext, out: &mut $self.out }
    };
}

type FaultRule = Box<dyn FnMut(&Packet, u64) -> Fault>;

/// Two hosts with a [`Stack`] of one transport, connected by a [`PairPath`].
///
/// It follows the driver's side of the contract. Each host has an ideal NIC: control packets go
/// first, then packets and ready senders in FIFO order. Flows may go in either direction. After its
/// flow has ended, a sender is not called again, but tests can still inspect it.
pub struct Pair<T: Transport> {
    stack: Stack<T>,
    path: PairPath,
    now: Instant,
    schedule: Schedule,
    handled: u64,
    handled_max: u64,
    /// Links from host 0 to host 1 in order, then the opposite direction of the same links.
    ports: Vec<Port<T::Controller>>,
    flows: Vec<Flow>,
    host_timers: [Option<Instant>; 2],
    ext: ExtArena,
    out: Outbox,
    faults: FaultRule,
    sent: [u64; 2],
    trace: Vec<Traced>,
}

impl<T: Transport> Pair<T> {
    /// Two idle hosts at time zero.
    pub fn new(config: T, path: PairPath) -> Self {
        assert!(path.paths > 0, "`paths` is at least 1");
        let nics = [0, 1].map(|host| NicInfo {
            host: HostId(host),
            rate: path.rate,
            mtu: path.mtu,
            framing: path.framing,
            nics: 1,
        });
        let ports = (0..2 * (path.switches + 1))
            .map(|port| {
                let view = Port::<T::Controller>::new(None).view(port, Instant::ZERO, &path);
                Port::new(config.controller(&view).filter(|_| path.controllers))
            })
            .collect::<Vec<_>>();
        let mut pair = Pair {
            stack: Stack::new(config, &nics),
            path,
            now: Instant::ZERO,
            schedule: Schedule::default(),
            handled: 0,
            handled_max: 10_000_000,
            ports,
            flows: Vec::new(),
            host_timers: [None; 2],
            ext: ExtArena::default(),
            out: Outbox::default(),
            faults: Box::new(|_, _| Fault::Deliver),
            sent: [0; 2],
            trace: Vec::new(),
        };
        for port in 0..pair.ports.len() {
            pair.arm_controller(port);
        }
        pair
    }

    /// Sets the rule that chooses the fault of each packet from now on. The rule is called once per
    /// packet that leaves a host, with the number of packets sent before in that direction.
    /// [`Packet::is_to_sender`] distinguishes ACKs from data.
    pub fn set_faults(&mut self, rule: impl FnMut(&Packet, u64) -> Fault + 'static) {
        self.faults = Box::new(rule);
    }

    /// Sets the number of events after which a run panics as a livelock. The default is ten million.
    pub fn set_events_max(&mut self, events_max: u64) {
        self.handled_max = events_max;
    }

    /// A flow of `size` bytes from host 0 to host 1 that starts now. Change what the test needs and
    /// pass it to [`Pair::start`], which sets its id.
    pub fn spec(&self, size: Bytes) -> FlowSpec {
        FlowSpec {
            id: FlowId::default(),
            src: HostId(0),
            dst: HostId(1),
            size,
            start: self.now,
            deadline: None,
            transport: TransportId(0),
            class: Class::DATA,
            background: false,
            pattern: 0,
        }
    }

    /// Schedules a flow. Ids are assigned in order, and replace the id of the specification.
    pub fn start(&mut self, mut spec: FlowSpec) -> FlowId {
        assert!(spec.start >= self.now, "a flow cannot start in the past");
        assert!(
            spec.src != spec.dst && spec.src.index() < 2 && spec.dst.index() < 2,
            "a flow goes from host 0 to host 1 or back"
        );
        spec.id = FlowId::from(self.flows.len());
        self.flows.push(Flow {
            result: FlowResult::new(spec),
            sender: None,
            receiver: None,
            sender_timer: None,
            receiver_timer: None,
            is_queued: false,
        });
        self.schedule.add(spec.start, Event::Start { flow: spec.id.index() });
        spec.id
    }

    /// The current time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The path between the hosts.
    pub fn path(&self) -> &PairPath {
        &self.path
    }

    /// The transport's parameters and state.
    pub fn stack(&self) -> &Stack<T> {
        &self.stack
    }

    /// The result of a flow so far.
    pub fn result(&self, flow: FlowId) -> &FlowResult {
        &self.flows[flow.index()].result
    }

    /// The sender of a flow that has started. It stays available after the flow has ended.
    pub fn sender(&self, flow: FlowId) -> Option<&T::Sender> {
        self.stack.sender(self.flows[flow.index()].sender?)
    }

    /// The receiver of a flow, once its first packet has arrived.
    pub fn receiver(&self, flow: FlowId) -> Option<&T::Receiver> {
        self.stack.receiver(self.flows[flow.index()].receiver?)
    }

    /// The controllers of the ports from host 0 to host 1, in order, the NIC's first.
    pub fn forward_controllers(&self) -> impl Iterator<Item = Option<&T::Controller>> {
        self.ports[..self.links()].iter().map(|port| port.controller.as_ref())
    }

    /// Every packet that left a host, in order.
    pub fn trace(&self) -> &[Traced] {
        &self.trace
    }

    /// Header extensions in use by packets that are queued or on the path.
    pub fn extensions(&self) -> usize {
        self.ext.len()
    }

    /// Abandons a flow at its sender, unless that has ended.
    pub fn cancel(&mut self, flow: FlowId) {
        let state = &self.flows[flow.index()];
        let (spec, sender) = (state.result.spec, state.sender);
        if state.result.sender_ended() {
            return;
        }
        if let Some(slot) = sender {
            self.stack.handle_cancel(slot, call!(self, spec.src));
            self.drain(spec.src, Some((flow.index(), End::Sender)));
            self.kick(self.nic_port(spec.src));
        }
    }

    /// Handles all events up to and including `limit`, then sets the clock to `limit`.
    pub fn run_until(&mut self, limit: Instant) {
        while self.step(limit) {}
        self.now = self.now.max(limit);
    }

    /// Runs until [`Pair::is_done`], at most until `limit`. Returns whether all flows are done.
    pub fn run_until_done(&mut self, limit: Instant) -> bool {
        while !self.is_done() {
            if !self.step(limit) {
                self.now = self.now.max(limit);
                return false;
            }
        }
        true
    }

    /// Whether every finite flow has completed and its sender knows, or was abandoned.
    pub fn is_done(&self) -> bool {
        let mut finite = self.flows.iter().filter(|f| f.result.spec.size != Bytes::ENDLESS);
        finite.all(|flow| flow.result.is_done())
    }

    fn links(&self) -> usize {
        self.path.switches + 1
    }

    fn nic_port(&self, host: HostId) -> usize {
        if host.index() == 0 { 0 } else { 2 * self.links() - 1 }
    }

    /// The port of the opposite direction of a link.
    fn twin(&self, port: usize) -> usize {
        if port < self.links() { port + self.links() } else { port - self.links() }
    }

    /// The next port on the path; `None` if a host follows.
    fn next_port(&self, port: usize) -> Option<usize> {
        if port < self.links() {
            (port + 1 < self.links()).then_some(port + 1)
        } else {
            (port > self.links()).then(|| port - 1)
        }
    }

    /// Handles the next event, unless it is after `limit`. Returns whether it did.
    fn step(&mut self, limit: Instant) -> bool {
        let Some((at, event)) = self.schedule.next_until(limit) else {
            return false;
        };
        assert!(at >= self.now, "time went back");
        self.now = at;
        self.handled += 1;
        assert!(self.handled <= self.handled_max, "{} events: a livelock?", self.handled_max);
        match event {
            Event::Start { flow } => self.start_flow(flow),
            Event::PortFree { port } => {
                self.ports[port].is_busy = false;
                self.kick(port);
            }
            Event::Arrival { port, packet } => self.arrive(port, packet),
            Event::Timer { flow, end } => self.fire_timer(flow, end),
            Event::HostTimer { host } => {
                if self.host_timers[host] == Some(self.now) {
                    self.host_timers[host] = None;
                    let host = HostId::from(host);
                    self.stack.host_timeout(call!(self, host));
                    self.drain(host, None);
                    self.kick(self.nic_port(host));
                }
            }
            Event::ControllerTimer { port } => {
                if self.ports[port].controller_timer == Some(self.now) {
                    self.ports[port].controller_timer = None;
                    let view = self.view(port);
                    if let Some(controller) = &mut self.ports[port].controller {
                        controller.handle_timeout(&view);
                    }
                    self.arm_controller(port);
                }
            }
        }
        true
    }

    fn route(&self, spec: &FlowSpec, end: End) -> FlowRoute {
        let (local, peer, purpose) = match end {
            End::Sender => (spec.src, spec.dst, "sender"),
            End::Receiver => (spec.dst, spec.src, "receiver"),
        };
        let seed = derive(self.path.seed, purpose, u64::from(spec.id.0));
        let ecmp_path = (derive(seed, "ecmp", 0) % u64::from(self.path.paths)) as u32;
        FlowRoute { local, peer, paths: self.path.paths, ecmp_path, nics: 1, seed }
    }

    fn start_flow(&mut self, flow: usize) {
        let spec = self.flows[flow].result.spec;
        let route = self.route(&spec, End::Sender);
        let slot = self.stack.open_sender(&spec, &route, call!(self, spec.src));
        self.flows[flow].sender = Some(slot);
        self.drain(spec.src, Some((flow, End::Sender)));
        self.kick(self.nic_port(spec.src));
    }

    fn fire_timer(&mut self, flow: usize, end: End) {
        let state = &mut self.flows[flow];
        let spec = state.result.spec;
        let (timer, slot, host) = match end {
            End::Sender => (&mut state.sender_timer, state.sender, spec.src),
            End::Receiver => (&mut state.receiver_timer, state.receiver, spec.dst),
        };
        if *timer != Some(self.now) {
            return; // The timer was changed or cleared since.
        }
        *timer = None;
        let slot = slot.expect("only open ends set timers");
        if end == End::Sender && state.result.sender_ended() {
            return;
        }
        self.stack.handle_timeout(end, slot, call!(self, host));
        self.drain(host, Some((flow, end)));
        self.kick(self.nic_port(host));
    }

    /// Handles a packet that has reached the far end of the link of `port`.
    fn arrive(&mut self, port: usize, mut packet: Packet) {
        if packet.is_to_sender() {
            // The controller of the twin port handles the reverse path.
            self.control(self.twin(port), &mut packet, Way::Reverse);
        }
        match self.next_port(port) {
            Some(next) if !packet.is_bounced() => {
                self.enqueue(next, packet);
                self.kick(next);
            }
            _ => self.deliver(packet),
        }
    }

    fn deliver(&mut self, packet: Packet) {
        let (flow, host) = (packet.flow.index(), packet.dst);
        if packet.is_to_sender() {
            let state = &self.flows[flow];
            assert_eq!(host, state.result.spec.src, "packet for a sender at the wrong host");
            if !state.result.sender_ended() {
                let slot = state.sender.expect("a flow's packets come after its start");
                self.stack.handle_packet(End::Sender, slot, &packet, call!(self, host));
                self.drain(host, Some((flow, End::Sender)));
            }
        } else {
            let spec = self.flows[flow].result.spec;
            assert_eq!(host, spec.dst, "packet for a receiver at the wrong host");
            let slot = match self.flows[flow].receiver {
                Some(slot) => slot,
                None => {
                    let route = self.route(&spec, End::Receiver);
                    let slot = self.stack.open_receiver(&packet, &route, call!(self, host));
                    self.flows[flow].receiver = Some(slot);
                    self.drain(host, Some((flow, End::Receiver)));
                    slot
                }
            };
            self.stack.handle_packet(End::Receiver, slot, &packet, call!(self, host));
            self.drain(host, Some((flow, End::Receiver)));
        }
        self.free_ext(packet.ext);
        self.kick(self.nic_port(host));
    }

    fn free_ext(&mut self, ext: Option<ExtId>) {
        if let Some(id) = ext {
            self.ext.free(id);
        }
    }

    /// Empties the outbox.
    fn drain(&mut self, host: HostId, called: Option<(usize, End)>) {
        let nic = self.nic_port(host);
        let mut packets = std::mem::take(&mut self.out.packets);
        for packet in packets.drain(..) {
            let packet = self.check(packet, host);
            self.enqueue(nic, packet);
        }
        self.out.packets = packets;
        match std::mem::take(&mut self.out.host_timer) {
            TimerChange::Keep => {}
            TimerChange::Clear => self.host_timers[host.index()] = None,
            TimerChange::Set(at) | TimerChange::Depart(at) => {
                let at = at.max(self.now);
                self.host_timers[host.index()] = Some(at);
                self.schedule.add(at, Event::HostTimer { host: host.index() });
            }
        }
        let timer = std::mem::take(&mut self.out.timer);
        let ready = self.out.ready.take();
        self.out.ready_nics = 0; // There is one NIC.
        let Some((flow, end)) = called else {
            assert!(
                timer == TimerChange::Keep && ready.is_none() && self.out.events.is_empty(),
                "a host timeout must not set flow timers, send data or emit flow events"
            );
            return;
        };
        let state = &mut self.flows[flow];
        for event in self.out.events.drain(..) {
            state.result.record(self.now, event);
        }
        let slot = match end {
            End::Sender => &mut state.sender_timer,
            End::Receiver => &mut state.receiver_timer,
        };
        match timer {
            TimerChange::Keep => {}
            TimerChange::Clear => *slot = None,
            TimerChange::Set(at) | TimerChange::Depart(at) => {
                let at = at.max(self.now);
                // Setting an equal instant again needs no second event.
                if slot.replace(at) != Some(at) {
                    self.schedule.add(at, Event::Timer { flow, end });
                }
            }
        }
        if let Some(class) = ready {
            assert_eq!(end, End::Sender, "only senders may set `ready`");
            let state = &mut self.flows[flow];
            if !state.is_queued {
                state.is_queued = true;
                self.ports[nic].queue(class).push_back(NextSend::Poll(flow));
            }
        }
    }

    /// Checks the contract for a packet that a transport sends.
    fn check(&self, mut packet: Packet, from: HostId) -> Packet {
        let flow = packet.flow;
        let spec = &self.flows[flow.index()].result.spec;
        let dst = if packet.is_to_sender() { spec.src } else { spec.dst };
        assert_eq!(packet.dst, dst, "a packet of flow {flow} goes to the wrong host");
        assert_ne!(packet.dst, from, "a packet of flow {flow} goes to the host that sends it");
        assert!(
            packet.path < self.path.paths,
            "a packet of flow {flow} takes path {} of {}",
            packet.path,
            self.path.paths
        );
        assert!(packet.wire_bytes > 0, "a packet of flow {flow} has no size");
        assert!(
            u64::from(packet.wire_bytes) <= self.path.mtu.get(),
            "a packet of flow {flow} is larger than the MTU: {packet:?}"
        );
        assert!(
            packet.payload_bytes <= packet.wire_bytes,
            "a packet of flow {flow} carries more than its size"
        );
        assert!((packet.class.0 as usize) < Class::COUNT, "no such class: {:?}", packet.class);
        packet.transport = TransportId(0);
        packet.hop = 0;
        packet
    }

    fn enqueue(&mut self, port: usize, mut packet: Packet) {
        packet.port = PortId::from(port);
        if !packet.is_to_sender() {
            self.control(port, &mut packet, Way::Forward);
        }
        let state = &mut self.ports[port];
        state.queue_bytes += u64::from(packet.wire_bytes);
        state.queue_packets += 1;
        state.queue(packet.class).push_back(NextSend::Packet(packet));
    }

    /// Starts the next transmission of an idle port.
    fn kick(&mut self, port: usize) {
        while !self.ports[port].is_busy {
            let state = &mut self.ports[port];
            match state.pop() {
                None => return,
                Some(NextSend::Packet(packet)) => {
                    state.queue_bytes -= u64::from(packet.wire_bytes);
                    state.queue_packets -= 1;
                    self.transmit(port, packet);
                }
                Some(NextSend::Poll(flow)) => {
                    self.flows[flow].is_queued = false;
                    let state = &self.flows[flow];
                    if state.result.sender_ended() {
                        continue;
                    }
                    let host = state.result.spec.src;
                    let slot = state.sender.expect("only open senders are queued");
                    let packet = self.stack.poll_transmit(slot, 0, call!(self, host));
                    self.drain(host, Some((flow, End::Sender)));
                    if let Some(packet) = packet {
                        let mut packet = self.check(packet, host);
                        packet.port = PortId::from(port);
                        if !packet.is_to_sender() {
                            self.control(port, &mut packet, Way::Forward);
                        }
                        self.transmit(port, packet);
                    }
                }
            }
        }
    }

    fn transmit(&mut self, port: usize, mut packet: Packet) {
        let state = &mut self.ports[port];
        state.is_busy = true;
        state.sent_bytes += u64::from(packet.wire_bytes) + self.path.framing.get();
        let free_at = self.now + self.path.transmission_time(u64::from(packet.wire_bytes));
        let arrives_at = free_at + self.path.delay;
        let from_host = packet.hop == 0;
        packet.hop = packet.hop.saturating_add(1);
        self.schedule.add(free_at, Event::PortFree { port });
        if from_host {
            self.send_on_link(port, packet, arrives_at);
        } else {
            self.schedule.add(arrives_at, Event::Arrival { port, packet });
        }
    }

    /// Sends a packet on its first link, where faults are injected.
    fn send_on_link(&mut self, port: usize, mut packet: Packet, mut arrives_at: Instant) {
        let direction = if port < self.links() { Direction::Forward } else { Direction::Backward };
        let index = self.sent[direction as usize];
        self.sent[direction as usize] += 1;
        let fault = (self.faults)(&packet, index);
        let ext = packet.ext.map(|id| *self.ext.get(id));
        self.trace.push(Traced { at: self.now, direction, packet, ext, fault });
        let mut port_reached = port;
        match fault {
            Fault::Deliver => {}
            Fault::Drop => return self.free_ext(packet.ext),
            Fault::Duplicate => {
                let mut copy = packet;
                copy.ext = ext.map(|block| self.ext.alloc(block));
                self.schedule.add(arrives_at, Event::Arrival { port, packet: copy });
            }
            Fault::Delay(by) => arrives_at += by,
            Fault::Mark => {
                if packet.flags.has(PacketFlags::ECN_CAPABLE) {
                    packet.flags.set(PacketFlags::ECN_MARKED);
                }
            }
            Fault::Trim => trim(&mut packet),
            Fault::Bounce => {
                trim(&mut packet);
                let back = PacketFlags::TO_SENDER.with(PacketFlags::REVERSE_PATH);
                packet.flags = packet.flags.toggled(back).with(PacketFlags::BOUNCED);
                packet.dst = HostId::from(usize::from(direction == Direction::Backward));
                arrives_at += self.path.delay;
                port_reached = self.twin(port);
            }
        }
        self.schedule.add(arrives_at, Event::Arrival { port: port_reached, packet });
    }

    fn view(&self, port: usize) -> PortView {
        self.ports[port].view(port, self.now, &self.path)
    }

    fn control(&mut self, port: usize, packet: &mut Packet, way: Way) {
        let view = self.view(port);
        if let Some(controller) = &mut self.ports[port].controller {
            match way {
                Way::Forward => controller.handle_forward(packet, &view, &mut self.ext),
                Way::Reverse if controller.reads_answers() => {
                    controller.handle_reverse(packet, view.port);
                }
                Way::Reverse => {}
            }
            self.arm_controller(port);
        }
    }

    /// Schedules the next timeout of a controller.
    fn arm_controller(&mut self, port: usize) {
        let now = self.now;
        let state = &mut self.ports[port];
        let Some(controller) = &state.controller else {
            return;
        };
        let wanted = controller.next_timeout().map(|at| at.max(now));
        if wanted != state.controller_timer {
            state.controller_timer = wanted;
            if let Some(at) = wanted {
                self.schedule.add(at, Event::ControllerTimer { port });
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward,
    Reverse,
}

fn trim(packet: &mut Packet) {
    packet.flags.set(PacketFlags::TRIMMED);
    packet.wire_bytes = 64;
    packet.class = Class::CONTROL;
}
