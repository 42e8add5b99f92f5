//! Makes one engine of the shards of a run that is over, with the results of all.

use crate::engine::Engine;
use crate::measured_window::Counters;
use crate::setup::Setup;
use crate::shard::Sharded;
use crate::tap::Tap;
use punctual_core::{FlowId, Instant, PortId, TransportSet};
use punctual_record::{FlowRecord, FlowStatus, GaugeOf};
use std::collections::BTreeMap;

/// Merges the shards of a run that ended at `now`.
///
/// Ports and controllers come from their owners. Everything that is counted is a sum: what a shard
/// does not own it has not counted.
pub(crate) fn merge<S: TransportSet, O: Tap>(
    engines: Vec<Engine<S, Sharded<O>>>,
    setup: &Setup<S>,
    now: Instant,
) -> Engine<S, Sharded<O>> {
    let mut engines = engines.into_iter().map(|engine| at_end(engine, now));
    let mut all = engines.next().expect("a run has a shard");
    for other in engines {
        all.adopt(other);
    }
    all.sort_series(setup);
    all
}

/// Brings a shard to the end of the run: ports send what they should have sent by now.
fn at_end<S: TransportSet, O: Tap>(
    mut engine: Engine<S, Sharded<O>>,
    now: Instant,
) -> Engine<S, Sharded<O>> {
    engine.cx.now = now;
    for port in (0..engine.fabric.ports.len()).map(PortId::from) {
        engine.catch_up(port);
    }
    engine
}

impl<S: TransportSet, O: Tap> Engine<S, Sharded<O>> {
    /// Takes over the ports, controllers and results of another shard.
    fn adopt(&mut self, mut other: Self) {
        for (port, link) in self.cx.network.links.iter().enumerate() {
            if other.owns(link.from) {
                std::mem::swap(&mut self.fabric.ports[port], &mut other.fabric.ports[port]);
                self.fabric.port_totals[port] = other.fabric.port_totals[port];
            }
        }
        if let (Some(own), Some(theirs)) = (&mut self.fabric.lossless, other.fabric.lossless.take())
        {
            own.adopt(theirs, |port| other.owns(other.cx.network.link(port).from));
        }
        self.fabric.controllers.adopt(std::mem::take(&mut other.fabric.controllers));
        let mut theirs = std::mem::take(&mut other.recording.records);
        for (own, their) in self.recording.records.iter_mut().zip(&mut theirs) {
            add_record(own, their, other.owns(their.spec.src));
        }
        let recording = &mut self.recording;
        let theirs = other.recording;
        recording.totals = recording.totals.plus(&theirs.totals);
        add_counters(&mut recording.window_begin, theirs.window_begin);
        add_counters(&mut recording.window_end, theirs.window_end);
        recording.samples.extend(theirs.samples);
        recording.gauges.extend(theirs.gauges);
        let Sharded { shard, observers } = other.cx.tap;
        let network = &self.cx.network;
        let is_theirs = |port| shard.owns(network.link(port).from);
        self.cx.tap.observers.adopt(observers, &is_theirs);
    }

    /// Puts time series in the order in which one thread takes them.
    fn sort_series(&mut self, setup: &Setup<S>) {
        let Some(sampling) = &setup.sampling else { return };
        let places = |count| 0..count;
        let ports: BTreeMap<PortId, usize> =
            sampling.ports.iter().copied().zip(places(sampling.ports.len())).collect();
        let flows: BTreeMap<FlowId, usize> =
            setup.sampled_flows.iter().copied().zip(places(setup.sampled_flows.len())).collect();
        let of_port = |port: &PortId| (0, ports.get(port).copied(), false);
        let of_flow = |flow: &FlowId, is_receiver| (1, flows.get(flow).copied(), is_receiver);
        self.recording.samples.sort_by_key(|sample| (sample.at, of_port(&sample.port)));
        self.recording.gauges.sort_by_key(|gauge| {
            let place = match &gauge.of {
                GaugeOf::Port(port) => of_port(port),
                GaugeOf::Sender(flow) => of_flow(flow, false),
                GaugeOf::Receiver(flow) => of_flow(flow, true),
            };
            (gauge.at, place)
        });
    }
}

/// Adds what another shard knows about a flow. `has_sender`: the flow's sender is there.
fn add_record(own: &mut FlowRecord, other: &FlowRecord, has_sender: bool) {
    if has_sender {
        own.spec = other.spec;
    }
    if other.ended.is_some() && (own.ended.is_none() || other.status == FlowStatus::Completed) {
        (own.status, own.ended) = (other.status, other.ended);
    }
    own.delivered += other.delivered;
    own.retransmits += other.retransmits;
    own.retransmits_by = own.retransmits_by.zip(other.retransmits_by, |a, b| a + b);
    own.timeouts += other.timeouts;
    own.trims += other.trims;
    own.bounces += other.bounces;
}

/// Adds the counters of another shard at the same moment.
fn add_counters(own: &mut Option<Counters>, other: Option<Counters>) {
    let (Some(own), Some(other)) = (own, other) else { return };
    own.totals = own.totals.plus(&other.totals);
    for (own, other) in own.ports.iter_mut().zip(&other.ports) {
        *own = own.plus(other);
    }
    for (own, other) in own.flows.iter_mut().zip(&other.flows) {
        *own = own.plus(other);
    }
}
