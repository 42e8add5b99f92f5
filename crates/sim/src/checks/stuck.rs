//! Finds flows that can never make progress.

use super::Checks;
use super::flows::SHARED_FIRINGS_MAX;
use punctual_core::{FlowId, FlowSpec, HostId, TransportId};

impl Checks {
    /// How often a transport's host timer was cleared or has fired.
    pub(super) fn firings_at(&mut self, transport: TransportId, host: HostId) -> &mut u64 {
        if self.host_firings.len() <= transport.index() {
            self.host_firings.resize_with(transport.index() + 1, Vec::new);
        }
        let of_hosts = &mut self.host_firings[transport.index()];
        if of_hosts.len() <= host.index() {
            of_hosts.resize(host.index() + 1, 0);
        }
        &mut of_hosts[host.index()]
    }

    /// Firings of the host timers at a flow's two hosts.
    pub(super) fn shared_firings(&mut self, spec: &FlowSpec) -> u64 {
        *self.firings_at(spec.transport, spec.src) + *self.firings_at(spec.transport, spec.dst)
    }

    /// Something happened to a flow: counts firings of its host timers from now on.
    pub(super) fn touch(&mut self, flow: FlowId) {
        if let Some(spec) = self.flow(flow).spec {
            let firings = self.shared_firings(&spec);
            self.flow(flow).shared_firings = firings;
        }
    }

    /// Reports flows that can never make progress.
    pub(super) fn find_stuck_flows(&mut self) {
        let idle: Vec<(FlowSpec, u64)> = self
            .flows
            .iter()
            .filter(|flow| flow.is_idle())
            .filter_map(|flow| Some((flow.spec?, flow.shared_firings)))
            .collect();
        for (spec, firings_before) in idle {
            let is_set = |host| self.host_timers.contains(&(spec.transport, host));
            let has_host_timer = is_set(spec.src) || is_set(spec.dst);
            let firings = self.shared_firings(&spec) - firings_before;
            let flow = spec.id;
            if !has_host_timer {
                self.report(format!(
                    "flow {flow} is stuck: it has no packet in the network, and no timer is set"
                ));
            } else if firings > SHARED_FIRINGS_MAX {
                self.report(format!(
                    "flow {flow} is stuck: it has no packet in the network, and its host timers \
                     fired {firings} times without sending one for it"
                ));
            }
        }
    }
}
