//! Invariants that can be watched in any run: bytes and packets conserved, each byte delivered
//! once, no link above its rate, no port granting above its capacity, time never backwards.

use crate::tap::{Ending, Findings, Loss, Tap};
use punctual_core::{
    ByteRange, Bytes, ControllerState, FlowId, FlowSpec, Instant, Packet, PacketId, PortId,
    RangeSet, Rate,
};
use punctual_net::Network;

/// Violations beyond this many are counted but not kept.
const KEPT: usize = 20;

/// Watches a run.
#[derive(Debug)]
pub(crate) struct Checks {
    now: Instant,
    framing: u64,
    ports: Vec<PortCheck>,
    flows: Vec<FlowCheck>,
    made: u64,
    arrived: u64,
    lost: u64,
    violations: Vec<String>,
    violation_count: u64,
}

#[derive(Debug, Clone)]
struct PortCheck {
    name: String,
    rate: Rate,
    busy_until: Instant,
    waiting: i64,
}

#[derive(Debug, Clone, Default)]
struct FlowCheck {
    received: RangeSet,
    size: Option<u64>,
    completed: bool,
    made: u64,
    gone: u64,
}

impl Checks {
    pub(crate) fn new(network: &Network) -> Self {
        let ports = network
            .links
            .iter()
            .enumerate()
            .map(|(port, link)| PortCheck {
                name: network.port_name(PortId::from(port)),
                rate: link.rate,
                busy_until: Instant::ZERO,
                waiting: 0,
            })
            .collect();
        Checks {
            now: Instant::ZERO,
            framing: network.framing.get(),
            ports,
            flows: Vec::new(),
            made: 0,
            arrived: 0,
            lost: 0,
            violations: Vec::new(),
            violation_count: 0,
        }
    }

    fn flow(&mut self, flow: FlowId) -> &mut FlowCheck {
        if self.flows.len() <= flow.index() {
            self.flows.resize_with(flow.index() + 1, FlowCheck::default);
        }
        &mut self.flows[flow.index()]
    }

    fn report(&mut self, what: String) {
        self.violation_count += 1;
        if self.violations.len() < KEPT {
            self.violations.push(format!("{} ({})", what, self.now));
        }
    }

    fn left_queue(&mut self, port: PortId) {
        self.ports[port.index()].waiting -= 1;
        if self.ports[port.index()].waiting < 0 {
            let name = self.ports[port.index()].name.clone();
            self.report(format!("port {name} let go of more packets than it took in"));
        }
    }
}

impl Tap for Checks {
    const WATCHES_CONTROLLERS: bool = true;

    /// A request may bring the sum of grants to one share above the capacity, because the port
    /// asks for room before it adds the share; above that the sum only falls (D3-R41). The share
    /// is the fair share, or for a new flow the base rate, which may be more (D3-R15).
    fn controlled(&mut self, port: PortId, before: &ControllerState, after: &ControllerState) {
        let spare = after.capacity.saturating_sub(after.demand);
        let fair_share = Rate::from_bps(spare.as_bps() / after.flows.max(1));
        let share = fair_share.max(after.share_min);
        let most = after.capacity.saturating_add(share).max(before.allocated);
        if after.allocated > most {
            let name = self.ports[port.index()].name.clone();
            self.report(format!("port {name} has granted {}, {most} at most", after.allocated));
        }
    }

    fn event(&mut self, at: Instant) {
        if at < self.now {
            self.report(format!("time went back to {at}"));
        }
        self.now = at;
    }

    fn started(&mut self, spec: &FlowSpec) {
        let size = (spec.size != Bytes::ENDLESS).then_some(spec.size.get());
        self.flow(spec.id).size = size;
    }

    fn made(&mut self, _id: PacketId, packet: &Packet) {
        self.made += 1;
        self.flow(packet.flow).made += 1;
    }

    fn queued(&mut self, port: PortId, _id: PacketId, _packet: &Packet) {
        self.ports[port.index()].waiting += 1;
    }

    fn sends(
        &mut self,
        port: PortId,
        _id: PacketId,
        packet: &Packet,
        from: Instant,
        until: Instant,
        waited: bool,
    ) {
        if waited {
            self.left_queue(port);
        }
        let check = &mut self.ports[port.index()];
        let bytes = Bytes::new(u64::from(packet.wire_bytes) + self.framing);
        let needed = check.rate.transmission_time(bytes);
        let (overlaps, too_fast) = (from < check.busy_until, until - from < needed);
        check.busy_until = until;
        if overlaps || too_fast {
            let name = check.name.clone();
            self.report(format!("link {name} sent faster than its rate"));
        }
    }

    fn rate_changed(&mut self, port: PortId, rate: Rate) {
        self.ports[port.index()].rate = rate;
    }

    fn bounced(&mut self, port: PortId, _id: PacketId, _packet: &Packet) {
        self.left_queue(port);
    }

    fn lost(&mut self, port: PortId, _id: PacketId, packet: &Packet, why: Loss) {
        self.lost += 1;
        let flow = self.flow(packet.flow);
        flow.gone += 1;
        if why == Loss::Dropped {
            self.left_queue(port);
        }
    }

    fn arrived(&mut self, _id: PacketId, packet: &Packet, _now: Instant) {
        self.arrived += 1;
        let flow = self.flow(packet.flow);
        flow.gone += 1;
        if flow.gone > flow.made {
            self.report(format!("flow {} received more packets than were sent", packet.flow));
        }
    }

    fn delivered(&mut self, flow: FlowId, range: ByteRange) {
        let check = self.flow(flow);
        let mut fresh = 0;
        check.received.insert(range.offset, range.offset + range.len, |s, e| fresh += e - s);
        let beyond = check.size.is_some_and(|size| range.offset + range.len > size);
        if fresh != range.len {
            self.report(format!("flow {flow} delivered bytes from {} twice", range.offset));
        }
        if beyond {
            self.report(format!("flow {flow} delivered bytes beyond its end"));
        }
    }

    fn completed(&mut self, flow: FlowId) {
        let check = self.flow(flow);
        let again = std::mem::replace(&mut check.completed, true);
        let total = check.received.total();
        let size = check.size;
        if again {
            self.report(format!("flow {flow} completed twice"));
        }
        if size != Some(total) {
            self.report(format!("flow {flow} completed with {total} bytes of {size:?}"));
        }
    }

    fn conclude(&mut self, end: &Ending, findings: &mut Findings) {
        for (port, &in_queue) in end.waiting.iter().enumerate() {
            let counted = self.ports[port].waiting;
            if counted != i64::from(in_queue) {
                let name = self.ports[port].name.clone();
                self.report(format!(
                    "port {name} holds {in_queue} packets, but {counted} came and did not leave"
                ));
            }
        }
        let unaccounted = self.made - self.arrived - self.lost;
        if unaccounted != end.alive as u64 {
            let alive = end.alive;
            self.report(format!(
                "{alive} packets are in the network, but {unaccounted} were made and did not end"
            ));
        }
        if self.violation_count > KEPT as u64 {
            let more = self.violation_count - KEPT as u64;
            self.violations.push(format!("and {more} more"));
        }
        findings.violations.append(&mut self.violations);
    }
}
