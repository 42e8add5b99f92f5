//! Time series of transports' gauges, read at sampling instants.

use crate::engine::Engine;
use crate::flows::CLOSED;
use crate::setup::Sampling;
use crate::tap::Tap;
use punctual_core::{Controller, End, FlowStack, TransportId, TransportSet};
use punctual_record::{GaugeOf, GaugeSample};

impl<S: TransportSet, T: Tap> Engine<S, T> {
    /// Reads the gauges of controllers at sampled ports, then of both ends of sampled open flows.
    pub(crate) fn sample_gauges(&mut self, sampling: &Sampling) {
        for n in 0..self.recording.sampled_flows.len() {
            let flow = self.recording.sampled_flows[n];
            if self.hosts.flows.get(flow.index()).is_some_and(|state| state.receiver < CLOSED) {
                self.close_if_sender_ended(flow);
            }
        }
        let at = self.cx.now;
        let gauges = &mut self.recording.gauges;
        let mut ask = |transport: TransportId, of: GaugeOf, ask: &mut dyn FnMut(&mut Tell<'_>)| {
            ask(&mut |name, value| gauges.push(GaugeSample { at, transport, of, name, value }));
        };
        for &port in &sampling.ports {
            for (transport, c) in self.fabric.controllers.at(port) {
                ask(transport, GaugeOf::Port(port), &mut |tell| c.controller.gauges(tell));
            }
        }
        for &flow in &self.recording.sampled_flows {
            let Some(state) = self.hosts.flows.get(flow.index()) else { continue };
            let stack = &self.hosts.stacks[state.transport.index()];
            if state.sender < CLOSED {
                ask(state.transport, GaugeOf::Sender(flow), &mut |tell| {
                    stack.gauges(End::Sender, state.sender, state.src, tell);
                });
            }
            if state.receiver < CLOSED {
                ask(state.transport, GaugeOf::Receiver(flow), &mut |tell| {
                    stack.gauges(End::Receiver, state.receiver, state.dst, tell);
                });
            }
        }
    }
}

/// Takes a gauge's name and value.
type Tell<'a> = dyn FnMut(&'static str, f64) + 'a;
