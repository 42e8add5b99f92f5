//! Measures the latency of data packets: from first transmission to acknowledgement.

use crate::setup::Setup;
use crate::tap::{Ending, Findings, Observation, Tap};
use punctual_core::{
    Content, FlowId, FlowSpec, Instant, Packet, PortId, TransportId, TransportSet,
};
use punctual_record::{Histogram, Measure, PacketLatency};
use std::collections::VecDeque;

/// The observer that measures the latency of data packets, by transport.
#[derive(Debug)]
pub(crate) struct LatencyMeter<S> {
    transports: Vec<S>,
    measure: Measure,
    /// By port, whether it is a NIC.
    is_nic: Vec<bool>,
    flows: Vec<FlowLatency>,
    times: Vec<Histogram>,
    unacked: Vec<u64>,
}

/// The unacknowledged data of a flow.
#[derive(Debug, Default)]
struct FlowLatency {
    transport: TransportId,
    is_background: bool,
    /// In order of their numbers. Its memory is reused, so that packets need no allocation.
    unacked: VecDeque<Sent>,
    /// Data from this number on were never sent.
    next: u64,
}

/// Data that were sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    /// When its first bit left the host for the first time.
    at: Instant,
    is_acked: bool,
}

impl FlowLatency {
    /// Data leave their host, for the first time or as a retransmission.
    fn send(&mut self, number: u64, at: Instant) {
        if number >= self.next {
            self.next = number + 1;
            self.unacked.push_back(Sent { number, at, is_acked: false });
        }
    }

    /// Data are acknowledged. Calls `took` with the time of first transmission of each new one.
    fn acknowledge(&mut self, below: u64, named: Option<u64>, mut took: impl FnMut(Instant)) {
        if let Some(number) = named
            && let Ok(place) = self.unacked.binary_search_by_key(&number, |sent| sent.number)
            && !self.unacked[place].is_acked
        {
            self.unacked[place].is_acked = true;
            took(self.unacked[place].at);
        }
        while let Some(front) = self.unacked.front()
            && (front.is_acked || front.number < below)
        {
            if !front.is_acked {
                took(front.at);
            }
            self.unacked.pop_front();
        }
    }
}

impl<S: TransportSet> LatencyMeter<S> {
    pub(crate) fn new(setup: &Setup<S>) -> Self {
        let network = &setup.network;
        let count = setup.transports.len();
        LatencyMeter {
            transports: setup.transports.clone(),
            measure: setup.measure,
            is_nic: network.links.iter().map(|link| link.from.0 < network.hosts).collect(),
            flows: Vec::new(),
            times: vec![Histogram::default(); count],
            unacked: vec![0; count],
        }
    }

    fn content(&self, packet: &Packet) -> Content {
        self.transports[packet.transport.index()].content(packet)
    }
}

impl<S: TransportSet> Tap for LatencyMeter<S> {
    #[inline(always)]
    fn observe(&mut self, what: Observation<'_>) {
        match what {
            Observation::FlowStarted { spec } => self.flow_started(spec),
            Observation::PacketSent { port, packet, from, .. } => {
                self.packet_sent(port, packet, from);
            }
            Observation::PacketArrived { packet, at, .. } => self.packet_arrived(packet, at),
            _ => {}
        }
    }

    /// Both ends of a packet's latency are at its flow's sender, so that one shard knows it.
    fn adopt(&mut self, other: Self, _: &dyn Fn(PortId) -> bool) {
        for (own, their) in self.times.iter_mut().zip(&other.times) {
            own.join(their);
        }
        for (own, their) in self.flows.iter_mut().zip(other.flows) {
            own.unacked.extend(their.unacked);
        }
    }

    fn conclude(&mut self, _end: &Ending<'_>, findings: &mut Findings) {
        for flow in self.flows.iter().filter(|flow| !flow.is_background) {
            let open = |sent: &&Sent| !sent.is_acked && self.measure.contains(sent.at);
            self.unacked[flow.transport.index()] += flow.unacked.iter().filter(open).count() as u64;
        }
        let of_transports = self.times.drain(..).zip(&self.unacked).enumerate();
        let latency = of_transports.map(|(t, (times, unacked))| PacketLatency {
            transport: TransportId(t as u8),
            times,
            unacked: *unacked,
        });
        findings.packet_latency = latency.collect();
    }
}

impl<S: TransportSet> LatencyMeter<S> {
    fn flow_started(&mut self, spec: &FlowSpec) {
        debug_assert_eq!(spec.id, FlowId::from(self.flows.len()), "flows start in order");
        self.flows.push(FlowLatency {
            transport: spec.transport,
            is_background: spec.background,
            ..FlowLatency::default()
        });
    }

    /// A packet of data begins to leave its host.
    fn packet_sent(&mut self, port: PortId, packet: &Packet, from: Instant) {
        let carries_data = packet.payload_bytes > 0 && !packet.is_to_sender();
        if carries_data
            && self.is_nic[port.index()]
            && packet.hop == 0
            && let Content::Data(number) = self.content(packet)
        {
            self.flows[packet.flow.index()].send(number, from);
        }
    }

    /// An acknowledgement reaches its host.
    fn packet_arrived(&mut self, packet: &Packet, at: Instant) {
        if !packet.is_to_sender() || packet.is_bounced() {
            return;
        }
        let Content::Ack { below, named } = self.content(packet) else { return };
        let flow = &mut self.flows[packet.flow.index()];
        let times = &mut self.times[flow.transport.index()];
        let (measure, counts) = (self.measure, !flow.is_background);
        flow.acknowledge(below, named, |sent| {
            if counts && measure.contains(sent) {
                times.add(at.saturating_since(sent));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::Duration;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    fn acked(flow: &mut FlowLatency, below: u64, named: Option<u64>) -> Vec<Instant> {
        let mut found = Vec::new();
        flow.acknowledge(below, named, |sent| found.push(sent));
        found
    }

    #[test]
    fn data_count_once_from_their_first_transmission() {
        let mut flow = FlowLatency::default();
        for number in 0..5 {
            flow.send(number * 1000, at(number));
        }
        flow.send(1000, at(9)); // again
        assert_eq!(acked(&mut flow, 1000, None), [at(0)]);
        assert_eq!(acked(&mut flow, 1000, Some(3000)), [at(3)]);
        assert_eq!(acked(&mut flow, 1000, Some(3000)), [], "a duplicate");
        assert_eq!(acked(&mut flow, 4000, Some(1000)), [at(1), at(2)]);
        assert_eq!(flow.unacked.len(), 1);
        flow.send(2000, at(10)); // a spurious retransmission
        assert_eq!(acked(&mut flow, 5000, Some(2000)), [at(4)]);
        assert!(flow.unacked.is_empty());
    }
}
