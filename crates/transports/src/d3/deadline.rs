//! D3: the desired rate of a flow with a deadline, and when the flow is abandoned.

use super::config::{AfterDeadline, D3Config, D3SenderConfig};
use super::header::{D3Header, HOPS_MAX, PLAIN_HEADER_BYTES, RATE_UNIT};
use super::{
    D3Host, D3Port, D3Receiver, D3Sender, FlowDemand, GRANT_WAITS, RequestPlan, RequestPolicy,
    granted_flow_model,
};
use punctual_core::{
    Bytes, Class, Content, Duration, FlowModel, FlowRoute, FlowSpec, HostCx, Limit, NicInfo,
    Packet, PortView, QueueSpec, Rate, Sharing, Transport, TransportInfo,
};

impl D3Config {
    /// `(remaining − rate · RTT) / (time to deadline − 2 · RTT)`, without bounds; nothing if no time
    /// is left (D3-R27, D3-R28, D3-R30).
    fn rate_needed(need: &FlowDemand) -> Option<Rate> {
        let Some(deadline) = need.deadline else { return Some(Rate::ZERO) };
        // The grant takes one RTT to arrive, during which data go at the present rate; the
        // exchange that ends the flow takes another.
        let left = need.remaining.saturating_sub(need.rate.bytes_in(need.rtt));
        if left == Bytes::ZERO {
            return Some(Rate::ZERO);
        }
        let time = deadline.saturating_since(need.now).saturating_sub(need.rtt.saturating_mul(2));
        if time.is_zero() { None } else { Some(Rate::of(left, time)) }
    }

    /// The rate, rounded up to one byte times the scale (D3-R32).
    fn round_up(&self, rate: Rate, nic: &NicInfo) -> Rate {
        let step = RATE_UNIT.as_bps() * u64::from(self.scale(nic)).max(1);
        let steps = rate.as_bps().div_ceil(step).min(u64::from(u8::MAX));
        if self.params.integer_rates { Rate::from_bps(steps * step) } else { rate }
    }
}

impl RequestPolicy for D3Config {
    fn params(&self) -> D3SenderConfig {
        self.params.for_senders()
    }

    fn plan(&self, need: &FlowDemand, nic: &NicInfo) -> RequestPlan {
        let late = need.deadline.is_some_and(|at| at <= need.now);
        if late && self.after_deadline == AfterDeadline::Extend {
            // D3-R34: whole picoseconds, and at least one, so that it lies ahead.
            let more = (need.allowance.as_picos() as f64 * self.extension).max(1.0) as u64;
            let more = Duration::from_picos(more);
            return RequestPlan::Extend(need.now.saturating_add(more));
        }
        match D3Config::rate_needed(need) {
            // D3-R31
            _ if late && self.quenching => RequestPlan::GiveUp,
            Some(rate) if rate > nic.rate && self.quenching => RequestPlan::GiveUp,
            // D3-R29: a demand above the line rate would only take shares from other flows.
            Some(rate) => RequestPlan::Ask(self.round_up(rate.min(nic.rate), nic)),
            None => RequestPlan::Ask(Rate::ZERO),
        }
    }

    fn gives_up_late(&self) -> bool {
        self.quenching
    }

    fn increases_max(&self) -> u32 {
        self.speculative_quenching
    }

    fn scale(&self, nic: &NicInfo) -> u8 {
        self.params.scale(nic)
    }

    fn is_important(&self, flow: &FlowSpec) -> bool {
        self.two_stage && flow.class < Class::DATA
    }
}

impl Transport for D3Config {
    type Sender = D3Sender;
    type Receiver = D3Receiver;
    type Shared = D3Host;
    type Controller = D3Port;

    const INFO: TransportInfo = TransportInfo::new(
        "d3",
        "D3: ports grant each flow the rate its deadline needs, plus a fair share",
    )
    .with_max_hops(HOPS_MAX)
    .with_waits(GRANT_WAITS);

    fn open_host(&self, nic: &NicInfo) -> D3Host {
        D3Host::new(nic)
    }

    fn open_sender(flow: &FlowSpec, route: &FlowRoute, cx: &mut HostCx<'_, Self>) -> D3Sender {
        D3Sender::open(flow, route, cx)
    }

    fn open_receiver(first: &Packet, route: &FlowRoute, _cx: &mut HostCx<'_, Self>) -> D3Receiver {
        D3Receiver::new(first.flow, route)
    }

    fn controller(&self, port: &PortView) -> Option<D3Port> {
        let controller = D3Port::new(&self.params, port.rate);
        Some(if self.count_inversions { controller.counting_inversions() } else { controller })
    }

    fn check_config(&self) -> Result<(), String> {
        self.validate().map_err(|e| e.to_string())
    }

    fn may_abandon(&self) -> bool {
        true
    }

    fn may_abandon_without_deadline(&self) -> bool {
        RequestPolicy::increases_max(self) > 0 // D3-R35
    }

    fn content(packet: &Packet) -> Content {
        D3Header::content(packet)
    }

    /// A new flow gets the rate that it requests on its SYN, and its fair share an RTT later.
    fn flow_model(&self, nic: &NicInfo) -> Option<FlowModel> {
        let sharing = Sharing::Reserved { quenching: self.quenching };
        Some(granted_flow_model(sharing, 1.0, PLAIN_HEADER_BYTES, nic))
    }

    fn default_queue(&self, _rate: Rate, _mtu: Bytes) -> QueueSpec {
        QueueSpec::DropTail { limit: Limit::Bytes(self.params.buffer) }
    }
}
