//! D3 proper: what a flow with a deadline asks for, and when it gives up.

use super::config::{AfterDeadline, D3, SenderParams};
use super::header::{HOPS_MAX, RATE_UNIT};
use super::{Host, Need, Plan, Port, Receiver, Sender, Variant};
use punctual_core::{
    Bytes, Class, Duration, FlowRoute, FlowSpec, HostCx, Limit, NicInfo, Packet, PortView,
    QueueSpec, Rate, Transport, TransportInfo,
};

impl D3 {
    /// The rate by which what is left arrives in time, before any bound; nothing where no rate
    /// does (D3-R27, D3-R28, D3-R30).
    fn rate_needed(need: &Need) -> Option<Rate> {
        let Some(deadline) = need.deadline else { return Some(Rate::ZERO) };
        // One round trip passes before the grant is here, in which data go at the present rate;
        // another is for the exchange that ends the flow.
        let left = need.remaining.saturating_sub(need.rate.bytes_in(need.rtt));
        if left == Bytes::ZERO {
            return Some(Rate::ZERO);
        }
        let time = deadline.saturating_since(need.now).saturating_sub(need.rtt.saturating_mul(2));
        if time.is_zero() { None } else { Some(Rate::of(left, time)) }
    }

    /// As one byte times a factor can say it, not less (D3-R32).
    fn round_up(&self, rate: Rate, nic: &NicInfo) -> Rate {
        let step = RATE_UNIT.as_bps() * u64::from(self.scale(nic)).max(1);
        let steps = rate.as_bps().div_ceil(step).min(u64::from(u8::MAX));
        if self.integer_rates { Rate::from_bps(steps * step) } else { rate }
    }
}

impl Variant for D3 {
    fn params(&self) -> SenderParams {
        self.params.for_senders()
    }

    fn plan(&self, need: &Need, nic: &NicInfo) -> Plan {
        let late = need.deadline.is_some_and(|at| at <= need.now);
        if late && self.after_deadline == AfterDeadline::Extend {
            // D3-R34: whole picoseconds, and at least one, so that it lies ahead.
            let more = (need.allowance.as_picos() as f64 * self.extension).max(1.0) as u64;
            let more = Duration::from_picos(more);
            return Plan::Extend(need.now.saturating_add(more));
        }
        match D3::rate_needed(need) {
            // D3-R31
            _ if late && self.quenching => Plan::GiveUp,
            Some(rate) if rate > nic.rate && self.quenching => Plan::GiveUp,
            // D3-R29: more than the line has is of no use, but would leave others no share.
            Some(rate) => Plan::Ask(self.round_up(rate.min(nic.rate), nic)),
            None => Plan::Ask(Rate::ZERO),
        }
    }

    fn gives_up_late(&self) -> bool {
        self.quenching
    }

    fn increases_max(&self) -> u32 {
        self.speculative_quenching
    }

    fn scale(&self, nic: &NicInfo) -> u8 {
        let most = RATE_UNIT.as_bps() * u64::from(u8::MAX);
        let scale = nic.rate.as_bps().div_ceil(most).clamp(1, u64::from(u8::MAX));
        if self.integer_rates { scale as u8 } else { 0 }
    }

    fn is_important(&self, flow: &FlowSpec) -> bool {
        self.two_stage && flow.class < Class::DATA
    }
}

impl Transport for D3 {
    type Sender = Sender;
    type Receiver = Receiver;
    type Shared = Host;
    type Controller = Port;

    const INFO: TransportInfo = TransportInfo::new(
        "d3",
        "D3: ports grant each flow the rate that its deadline needs, and a share",
    )
    .with_max_hops(HOPS_MAX);

    fn open_host(&self, nic: &NicInfo) -> Host {
        Host::new(nic)
    }

    fn open_sender(flow: &FlowSpec, route: &FlowRoute, cx: &mut HostCx<'_, Self>) -> Sender {
        Sender::open(flow, route, cx)
    }

    fn open_receiver(first: &Packet, route: &FlowRoute, _cx: &mut HostCx<'_, Self>) -> Receiver {
        Receiver::new(first.flow, route)
    }

    fn controller(&self, port: &PortView) -> Option<Port> {
        let controller = Port::new(&self.params, port.rate);
        Some(if self.count_inversions { controller.counting_inversions() } else { controller })
    }

    fn check_config(&self) -> Result<(), String> {
        self.validate().map_err(|e| e.to_string())
    }

    fn may_abandon(&self) -> bool {
        true
    }

    fn default_queue(&self, _rate: Rate, _mtu: Bytes) -> QueueSpec {
        QueueSpec::DropTail { limit: Limit::Bytes(self.params.buffer) }
    }
}
