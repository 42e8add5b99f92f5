//! Real runs in which one report to the checker is omitted or falsified: it must notice.
//!
//! This shows that engine, ports, lossless switches and hosts report to the checker, and that it
//! uses what they report.
#![allow(non_snake_case)]

use super::*;
use crate::engine::Engine;
use crate::setup::{EngineOptions, LinkChange, LinkFault, Stop};
use punctual_core::{Bytes, Duration, Limit, PacketFlags};
use punctual_net::{ClosLinks, ClosShape};
use punctual_record::{Measure, Outcome};
use punctual_transports::{AnyTransport, TransportSettings};
use punctual_workload::Workload;
use std::ops::ControlFlow;

/// The report that is omitted or falsified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// None.
    None,
    /// Reports that are omitted: the n-th of their kind, or all.
    NoStart,
    NoMade(u32),
    NoQueued(u32),
    NoArrival(u32),
    NoLoss(u32),
    NoDelivery(u32),
    NoSwaps,
    NoBounce(u32),
    NoPauseSent(u32),
    NoPause(u32),
    NoResume(u32),
    NoTimers,
    NoReady,
    NoRateChange,
    NoMending,
    /// A link is reported cut and is not.
    Cut,
    /// A transmission begins earlier, ends earlier, or ends later.
    From(u32),
    Until(u32),
    Late(u32),
    /// Two packets join a queue in reverse order.
    Order,
    /// A trimmed packet has no flag when trimmed; an untrimmed packet has it when it arrives.
    Whole(u32),
    Trimmed(u32),
    /// A delivery has one byte more, or begins one byte earlier.
    Byte(u32),
    Again(u32),
    /// A packet has another size, flow or destination when queued.
    Size(u32),
    Flow(u32),
    Host(u32),
    /// A dropped packet is reported lost on a link.
    WrongLoss(u32),
    /// A port has granted three times its capacity.
    Grant,
    Time(u32),
    CompletedTwice,
}

/// A checker that receives one false report.
struct Misled {
    checks: Checks,
    lie: Lie,
    /// Reports so far of the kind that is omitted or falsified.
    calls: u32,
    held: Option<(PortId, PacketId, Packet)>,
}

impl Misled {
    /// Whether this report is the one to omit or falsify.
    fn is_now(&mut self, lie: fn(u32) -> Lie) -> bool {
        let Some(nth) = (0..200).find(|n| self.lie == lie(*n)) else { return false };
        self.calls += 1;
        self.calls == nth + 1
    }

    /// Whether this report is omitted.
    fn is_omitted(&mut self, what: &Observation<'_>) -> bool {
        match *what {
            Observation::FlowStarted { .. } => self.lie == Lie::NoStart,
            Observation::TimerChanged { .. } | Observation::HostTimerChanged { .. } => {
                self.lie == Lie::NoTimers
            }
            Observation::SenderReady { .. } => self.lie == Lie::NoReady,
            Observation::FlowEvent { event: FlowEvent::Delivered(_), .. } => {
                self.is_now(Lie::NoDelivery)
            }
            Observation::PacketCreated { .. } => self.is_now(Lie::NoMade),
            Observation::PacketQueued { .. } => self.is_now(Lie::NoQueued),
            Observation::PacketFate { fate: PacketFate::Bounced, .. } => self.is_now(Lie::NoBounce),
            Observation::PacketFate { fate: PacketFate::Lost(_), .. } => self.is_now(Lie::NoLoss),
            Observation::PacketArrived { .. } => self.is_now(Lie::NoArrival),
            Observation::PauseSent { .. } => self.is_now(Lie::NoPauseSent),
            Observation::ClassPaused { is_pause: true, .. } => self.is_now(Lie::NoPause),
            Observation::ClassPaused { is_pause: false, .. } => self.is_now(Lie::NoResume),
            Observation::RateChanged { .. } => self.lie == Lie::NoRateChange,
            Observation::LinkCut { is_cut, .. } => !is_cut && self.lie == Lie::NoMending,
            _ => false,
        }
    }

    /// Reports to the checker that a packet joined a queue: perhaps falsified, or after the next.
    fn packet_queued(&mut self, port: PortId, id: PacketId, packet: &Packet) {
        if self.lie == Lie::Order && self.held.is_none() {
            self.held = Some((port, id, *packet));
            return;
        }
        let mut packet = *packet;
        if self.is_now(Lie::Size) {
            packet.wire_bytes -= 1;
        }
        if self.is_now(Lie::Flow) {
            packet.flow = FlowId(packet.flow.0 + 1);
        }
        if self.is_now(Lie::Host) {
            packet.dst = HostId(packet.dst.0 + 1);
        }
        self.checks.observe(Observation::PacketQueued { port, id, packet: &packet });
        self.release();
    }

    fn release(&mut self) {
        if let Some((port, id, packet)) = self.held.take() {
            self.checks.observe(Observation::PacketQueued { port, id, packet: &packet });
            self.lie = Lie::None;
        }
    }

    /// Reports to the checker what happened to a packet at a port: perhaps falsified.
    fn packet_fate(&mut self, port: PortId, id: PacketId, packet: &Packet, fate: PacketFate) {
        let (mut packet, mut fate) = (*packet, fate);
        match &mut fate {
            PacketFate::Trimmed { tail } => {
                if self.lie == Lie::NoSwaps {
                    *tail = None;
                }
                if self.is_now(Lie::Whole) {
                    packet.flags = packet.flags.toggled(PacketFlags::TRIMMED);
                }
            }
            PacketFate::Lost(loss) => {
                if self.is_now(Lie::WrongLoss) {
                    *loss = Loss::OnLink;
                }
            }
            PacketFate::Marked | PacketFate::Bounced => {}
        }
        self.checks.observe(Observation::PacketFate { port, id, packet: &packet, fate });
    }
}

const PICO: Duration = Duration::from_picos(1);

fn before(at: Instant) -> Instant {
    Instant::from_picos(at.as_picos().saturating_sub(1))
}

impl Tap for Misled {
    const WATCHES_CONTROLLERS: bool = true;
    const FOLLOWS: bool = true;

    fn observe(&mut self, what: Observation<'_>) {
        if let Observation::RateChanged { port, .. } = what
            && self.lie == Lie::Cut
        {
            self.checks.observe(Observation::LinkCut { port, is_cut: true });
        }
        if self.is_omitted(&what) {
            return;
        }
        match what {
            Observation::EventBegins { at } => {
                let at = if self.is_now(Lie::Time) { before(before(self.checks.now)) } else { at };
                self.checks.observe(Observation::EventBegins { at });
            }
            Observation::FlowEvent { flow, event: FlowEvent::Delivered(mut range) } => {
                range.len += u64::from(self.is_now(Lie::Byte));
                range.offset -= u64::from(self.is_now(Lie::Again));
                let event = FlowEvent::Delivered(range);
                self.checks.observe(Observation::FlowEvent { flow, event });
            }
            Observation::FlowEvent { event: FlowEvent::Completed, .. } => {
                if self.lie == Lie::CompletedTwice {
                    self.checks.observe(what);
                }
                self.checks.observe(what);
            }
            Observation::PacketControlled { port, before, after } => {
                let mut after = *after;
                if self.lie == Lie::Grant && after.allocated > Rate::ZERO {
                    // More than the capacity and one share.
                    after.allocated = Rate::from_bps(3 * after.capacity.as_bps());
                    self.lie = Lie::None;
                }
                let after = &after;
                self.checks.observe(Observation::PacketControlled { port, before, after });
            }
            Observation::PacketQueued { port, id, packet } => self.packet_queued(port, id, packet),
            Observation::PacketSent { port, id, packet, from, until, waited } => {
                self.release();
                let from = if self.is_now(Lie::From) { before(from) } else { from };
                let until = if self.is_now(Lie::Until) { before(until) } else { until };
                let until = if self.is_now(Lie::Late) { until + PICO } else { until };
                let sent = Observation::PacketSent { port, id, packet, from, until, waited };
                self.checks.observe(sent);
            }
            Observation::PacketFate { port, id, packet, fate } => {
                self.packet_fate(port, id, packet, fate);
            }
            Observation::PacketArrived { id, packet, at } => {
                let mut packet = *packet;
                if !packet.is_to_sender() && self.is_now(Lie::Trimmed) {
                    packet.flags.set(PacketFlags::TRIMMED);
                }
                self.checks.observe(Observation::PacketArrived { id, packet: &packet, at });
            }
            _ => self.checks.observe(what),
        }
    }

    fn conclude(&mut self, end: &Ending<'_>, findings: &mut Findings) {
        self.checks.conclude(end, findings);
    }
}

/// Four hosts send to a fifth, by one transport.
fn incast(name: &str, queue: Option<QueueSpec>) -> Setup {
    let links = ClosLinks::uniform(Rate::from_gbps(10), Duration::from_micros(1));
    let network = ClosShape::star(5).build(&links, Bytes::new(1500), Bytes::ZERO);
    let transport = AnyTransport::by_name(name, &TransportSettings::default()).expect("transport");
    let flows = (1..5).map(|src| FlowSpec {
        id: FlowId(0),
        src: HostId(src),
        dst: HostId(0),
        size: Bytes::new(200_000),
        start: Instant::ZERO,
        deadline: None,
        transport: TransportId(0),
        class: Class::DATA,
        background: false,
        pattern: 0,
    });
    Setup {
        switch_queue: queue
            .unwrap_or_else(|| transport.default_queue(Rate::from_gbps(10), network.mtu)),
        port_queues: Vec::new(),
        workload: Workload { flows: flows.collect(), ..Workload::default() },
        network,
        transports: vec![transport],
        seed: 1,
        stop: Stop { at: Instant::ZERO + Duration::from_millis(500), when_done: true },
        link_changes: Vec::new(),
        switch_resets: Vec::new(),
        legacy_switches: Vec::new(),
        sampling: None,
        sampled_flows: Vec::new(),
        check: true,
        network_trace: false,
        packet_latency: false,
        capture_max: 0,
        measure: Measure::default(),
        engine: EngineOptions::default(),
    }
}

fn drop_tail() -> Setup {
    incast("tcp", Some(QueueSpec::DropTail { limit: Limit::Packets(10) }))
}

/// A header queue so short that headers bounce.
fn bouncing() -> Setup {
    incast(
        "ndp",
        Some(QueueSpec::Trim {
            data: Limit::Packets(4),
            headers: Limit::Bytes(Bytes::new(256)),
            mark_above: None,
        }),
    )
}

fn lossless() -> Setup {
    incast(
        "dctcp-lossless",
        Some(QueueSpec::Lossless {
            buffer: Bytes::new(200_000),
            pause_above: Bytes::new(10_000),
            resume_below: Bytes::new(5_000),
            mark_above: None,
            red: None,
        }),
    )
}

/// The link to host 0 gets another rate, and host 1's is cut: for good, or for a while.
fn with_changes(is_mended: bool) -> Setup {
    let mut setup = drop_tail();
    let at = |us| Instant::ZERO + Duration::from_micros(us);
    let (own, nic) = (setup.network.nic(HostId(0)), setup.network.nic(HostId(1)));
    let port = setup.network.link(own).twin;
    let change = |us, port, what| LinkChange { at: at(us), port, what };
    setup.link_changes = vec![
        change(50, port, LinkFault::Rate(Rate::from_gbps(25))),
        change(60, nic, LinkFault::Down),
    ];
    if is_mended {
        setup.link_changes.push(change(90, nic, LinkFault::Up));
    }
    setup
}

fn run(setup: Setup, lie: Lie) -> Outcome {
    let checks = Checks::new(&setup);
    let tap = Misled { checks, lie, calls: 0, held: None };
    Engine::new(setup, tap).run(&mut |_| ControlFlow::Continue(()))
}

#[track_caller]
fn assert_noticed(setup: fn() -> Setup, lie: Lie, part: &str) {
    let found = run(setup(), lie).violations;
    assert!(found.iter().any(|f| f.contains(part)), "{lie:?}: {part:?} is not in {found:?}");
}

/// A true report has no violations, and the runs have the events that other tests falsify.
#[test]
fn truth__nothing_noticed() {
    let setups: [fn() -> Setup; 6] = [
        drop_tail,
        bouncing,
        lossless,
        || with_changes(true),
        || with_changes(false),
        || incast("d3", None),
    ];
    for setup in setups {
        assert_eq!(run(setup(), Lie::None).violations, [""; 0]);
    }
    let totals = run(bouncing(), Lie::None).totals;
    assert!(totals.trims > 10 && totals.bounces > 1, "{totals:?}");
    assert!(run(drop_tail(), Lie::None).totals.drops > 1);
    assert!(run(lossless(), Lie::None).totals.pauses > 2);
}

#[test]
fn hosts__packets_and_bytes_reach_the_checker() {
    assert_noticed(drop_tail, Lie::NoStart, "is at another node");
    assert_noticed(drop_tail, Lie::NoMade(20), "was observed, but it was never created");
    assert_noticed(drop_tail, Lie::NoArrival(20), "was reused while its packet was alive");
    assert_noticed(drop_tail, Lie::NoDelivery(20), "completed with");
    assert_noticed(drop_tail, Lie::Byte(20), "bytes, but");
    assert_noticed(drop_tail, Lie::Again(20), "twice");
    assert_noticed(drop_tail, Lie::Trimmed(20), "but 0 arrived");
    assert_noticed(drop_tail, Lie::CompletedTwice, "completed twice");
}

#[test]
fn ports__queues_and_links_reach_the_checker() {
    assert_noticed(drop_tail, Lie::NoQueued(20), "dequeued a packet that was not queued");
    assert_noticed(drop_tail, Lie::Order, "before those queued earlier");
    assert_noticed(drop_tail, Lie::Size(20), "changed its flow, destination or size");
    assert_noticed(drop_tail, Lie::Flow(20), "changed its flow, destination or size");
    assert_noticed(drop_tail, Lie::Host(20), "changed its flow, destination or size");
    assert_noticed(drop_tail, Lie::Until(20), "sent faster than its rate");
    assert_noticed(drop_tail, Lie::Until(20), "delivered a packet that was due at");
    assert_noticed(drop_tail, Lie::Late(20), "delivered a packet that was due at");
    assert_noticed(drop_tail, Lie::NoLoss(1), "holds 11, more than its limit of 10packets");
    assert_noticed(drop_tail, Lie::WrongLoss(1), "lost a packet that was not due at its end now");
    assert_noticed(drop_tail, Lie::Time(20), "time went back");
}

/// A busy port sends packets back to back: one that begins earlier overlaps the one before.
#[test]
fn ports__sending_twice_at_once_is_noticed() {
    let found = (0..200).find(|nth| {
        let found = run(drop_tail(), Lie::From(*nth)).violations;
        found.iter().any(|f| f.contains("sent faster than its rate"))
    });
    assert!(found.is_some(), "no packet follows another at once");
}

#[test]
fn ports__trims_and_bounces_reach_the_checker() {
    assert_noticed(bouncing, Lie::Whole(1), "has no TRIMMED flag");
    assert_noticed(bouncing, Lie::NoSwaps, "packet");
    assert_noticed(bouncing, Lie::NoBounce(0), "packet");
}

#[test]
fn lossless__pauses_reach_the_checker() {
    assert_noticed(lossless, Lie::NoPauseSent(0), "no such frame was due now");
    assert_noticed(lossless, Lie::NoPauseSent(0), "exceeds the pause threshold of class 1");
    assert_noticed(lossless, Lie::NoPause(0), "no such frame was due now");
    assert_noticed(lossless, Lie::NoResume(0), "while paused");
}

#[test]
fn world__changes_of_links_reach_the_checker() {
    assert_noticed(|| with_changes(true), Lie::NoRateChange, "sent faster than its rate");
    assert_noticed(|| with_changes(true), Lie::NoMending, "delivered a packet although it is cut");
    assert_noticed(|| with_changes(true), Lie::Cut, "delivered a packet although it is cut");
}

/// Host 1's flow always has a timer set: without it the flow would count as stuck.
#[test]
fn hosts__timers_reach_the_checker() {
    assert_noticed(|| with_changes(false), Lie::NoTimers, "is stuck");
}

/// Two flows start at one host. The run stops while the first sends and the second is ready.
#[test]
fn hosts__readiness_reaches_the_checker() {
    let early = || {
        let mut setup = incast("ndp", None);
        setup.workload.flows.truncate(2);
        setup.workload.flows[1].src = setup.workload.flows[0].src;
        setup.stop = Stop { at: Instant::ZERO, when_done: false };
        setup
    };
    assert_eq!(run(early(), Lie::None).violations, [""; 0]);
    assert_noticed(early, Lie::NoReady, "flow 1 is stuck");
}

#[test]
fn control__grants_reach_the_checker() {
    assert_noticed(|| incast("d3", None), Lie::Grant, "has granted");
}
