//! The host stack in the place of [`Engine`](crate::engine::Engine): the event loop of
//! `punctual-host` on a UDP socket in each host's namespace, all of them on one thread.
//!
//! This is the code that an application links. It reads the machine's clock and takes a packet when
//! its thread reads the socket, so a run has no time scale, and a delay of the thread is a delay of
//! the network.

use crate::TestbedRunError;
use crate::flows::{FlowTable, place};
use crate::namespaces::{Namespaces, failed, host_of, ipv4};
use nix::sys::socket::{setsockopt, sockopt};
use punctual_core::{
    Bytes, Duration, FlowEvent, FlowId, FlowSpec, HostId, Instant, NicInfo, rng::derive,
};
use punctual_host::{Application, Driver, DriverOptions, Offer};
use punctual_net::Network;
use punctual_switch::LatenessHistogram;
use punctual_transports::AnyTransport;
use punctual_transports::d3::{D3CommonConfig, D3Config, RcpdcConfig};
use punctual_wire::{AnyCodec, ENVELOPE_BYTES, IPV4_UDP_BYTES};
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, set_ip_mtu_discover};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// The UDP port of every host.
const PORT: u16 = 48_632;
/// Memory that the kernel has for the packets of a host until its thread takes them.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// How long a completed flow answers late packets.
const TIME_WAIT: Duration = Duration::from_millis(500);
/// An incoming flow is never abandoned: the run decides how long it waits.
const STALL_MAX: Duration = Duration::from_secs(1 << 20);
/// More flows than a run has at once.
const FLOWS_MAX: usize = 1 << 24;

/// The hosts of a run and their event loops.
pub(crate) struct HostStack {
    hosts: Vec<Host>,
    /// By transport: its place in the event loops, and bytes of headers of a packet with data.
    places: Vec<Option<(u8, u64)>>,
    timing: Timing,
}

/// How late flows started, timers fired and packets left that waited for a NIC.
#[derive(Default)]
struct Timing {
    lateness: LatenessHistogram,
    /// How many of them were later than the bound.
    late: u64,
}

impl Timing {
    fn add(&mut self, lateness: Duration, bound: Duration) {
        self.lateness.add(lateness.as_nanos());
        self.late += u64::from(lateness > bound);
    }
}

struct Host {
    id: HostId,
    driver: Driver<AnyTransport>,
    flows: Flows,
    /// What is later than this is late.
    late_after: Duration,
}

/// The flows with an end at a host.
#[derive(Default)]
struct Flows {
    /// By the number that the event loop has for them.
    ends: HashMap<FlowId, End>,
    /// Flows to this host of which no byte has arrived.
    awaited: Vec<FlowId>,
    /// The clock of the event loop is ahead of that of the run by this much.
    ahead: Duration,
}

enum End {
    Sender(FlowId),
    Receiver(Incoming),
}

/// A flow that a peer has opened. Its number on the wire is random: its first bytes say which flow of
/// the run it is.
struct Incoming {
    from: Option<HostId>,
    size: Bytes,
    flow: Option<FlowId>,
    /// Events before those bytes.
    early: Vec<FlowEvent>,
}

impl HostStack {
    /// Opens a socket at every host, for those of these transports that have a wire format. Leaves this
    /// thread in the namespace of the last.
    pub(crate) fn new(
        network: &Network,
        namespaces: &Namespaces,
        transports: &[AnyTransport],
        seed: u64,
        late_after_packets: u64,
    ) -> Result<HostStack, TestbedRunError> {
        let mut on_wire = Vec::new();
        let mut place_of = |transport: &AnyTransport| {
            let codec = AnyCodec::of(transport.name(), network.mtu)?;
            on_wire.push(with_rates_of_the_wire(transport));
            Some((on_wire.len() as u8 - 1, data_header_bytes(&codec)))
        };
        let places = transports.iter().map(&mut place_of).collect();
        let mut hosts = Vec::new();
        for id in (0..network.hosts).map(HostId) {
            let nic = network.nic_info(id);
            let driver =
                open(namespaces, &nic, &on_wire, derive(seed, "host stack", u64::from(id.0)))
                    .map_err(|error| failed(&format!("the UDP socket of host {}", id.0), &error))?;
            let packet_time = nic.rate.transmission_time(nic.mtu + nic.framing);
            let late_after = packet_time * late_after_packets;
            hosts.push(Host { id, driver, flows: Flows::default(), late_after });
        }
        Ok(HostStack { hosts, places, timing: Timing::default() })
    }

    /// Notes that the clock of the run reads `now`.
    pub(crate) fn begin(&mut self, now: Instant) {
        for host in &mut self.hosts {
            host.flows.ahead = host.driver.now().saturating_since(now);
        }
    }

    /// Opens a flow, which is due now or was before.
    pub(crate) fn start(
        &mut self,
        spec: &FlowSpec,
        table: &mut FlowTable,
        now: Instant,
    ) -> Result<(), TestbedRunError> {
        let Some((transport, _)) = self.places[place(spec.transport)] else { return Ok(()) };
        self.hosts[spec.dst.index()].flows.awaited.push(spec.id);
        let Host { id, driver, flows, late_after } = &mut self.hosts[spec.src.index()];
        let late_after = *late_after;
        self.timing.add(now.saturating_since(spec.start), late_after);
        let deadline = spec.deadline.map(|at| at.saturating_add(flows.ahead));
        let peer = SocketAddr::from((ipv4(spec.dst.0), PORT));
        let mut side =
            Side { flows, table, places: &self.places, timing: &mut self.timing, late_after };
        let number = driver
            .open_over(transport, peer, spec.size, deadline, &mut side)
            .map_err(|error| failed(&format!("the host stack of host {}", id.0), &error))?;
        flows.ends.insert(number, End::Sender(spec.id));
        if !driver.is_open(number) {
            // Its deadline cannot be met.
            table.handle_event(spec.id, FlowEvent::Abandoned, now);
        }
        Ok(())
    }

    /// Gives a flow another deadline.
    pub(crate) fn set_deadline(
        &mut self,
        spec: &FlowSpec,
        deadline: Option<Instant>,
        table: &mut FlowTable,
    ) -> Result<(), TestbedRunError> {
        let Host { id, driver, flows, late_after } = &mut self.hosts[spec.src.index()];
        let is_its = |end: &End| matches!(end, End::Sender(flow) if *flow == spec.id);
        let found = flows.ends.iter().find(|(_, end)| is_its(end)).map(|(number, _)| *number);
        let Some(number) = found else { return Ok(()) };
        let deadline = deadline.map(|at| at.saturating_add(flows.ahead));
        let (places, timing, late_after) = (&self.places, &mut self.timing, *late_after);
        driver
            .set_deadline(number, deadline, &mut Side { flows, table, places, timing, late_after })
            .map_err(|error| failed(&format!("the host stack of host {}", id.0), &error))
    }

    /// One turn of every host.
    pub(crate) fn turn(&mut self, table: &mut FlowTable) -> Result<(), TestbedRunError> {
        for Host { id, driver, flows, late_after } in &mut self.hosts {
            let (places, timing, late_after) = (&self.places, &mut self.timing, *late_after);
            // It waits until a time that is over: not at all.
            driver
                .turn(&mut Side { flows, table, places, timing, late_after }, Instant::ZERO)
                .map_err(|error| failed(&format!("the host stack of host {}", id.0), &error))?;
        }
        Ok(())
    }

    /// How late the hosts did what was due, and how often by more than the bound.
    pub(crate) fn lateness(&self) -> (&LatenessHistogram, u64) {
        (&self.timing.lateness, self.timing.late)
    }

    /// Datagrams that hosts dropped, by reason, and errors of their sockets.
    pub(crate) fn dropped(&self) -> Vec<(String, u64)> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for host in &self.hosts {
            let traffic = host.driver.traffic();
            let errors = Some(("socket_errors", traffic.socket_errors)).filter(|(_, n)| *n > 0);
            let dropped = traffic.dropped.iter().map(|(reason, count)| (*reason, *count));
            for (reason, count) in dropped.chain(errors) {
                *sums.entry(reason).or_default() += count;
            }
        }
        sums.into_iter().map(|(reason, count)| (reason.to_owned(), count)).collect()
    }
}

/// The event loop of a host, on a socket in its namespace.
fn open(
    namespaces: &Namespaces,
    nic: &NicInfo,
    transports: &[AnyTransport],
    seed: u64,
) -> io::Result<Driver<AnyTransport>> {
    namespaces.enter_host(nic.host.0)?;
    let socket = UdpSocket::bind((ipv4(nic.host.0), PORT))?;
    setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BUFFER_BYTES)?;
    // The routes have the MTU of the kernel's TCP. Packets of D3 and PDQ are longer by their headers on
    // the wire, and the kernel would send them in fragments, which a switch does not take for ours.
    set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE)?;
    let options = DriverOptions {
        rate: nic.rate,
        mtu: nic.mtu,
        has_headroom: true,
        framing: nic.framing,
        time_wait: TIME_WAIT,
        stall_max: STALL_MAX,
        flows_max: FLOWS_MAX,
        seed,
    };
    Driver::new(transports, socket, options).map_err(io::Error::other)
}

/// A host during a turn: where its event loop finds bytes, and where it puts them.
struct Side<'a> {
    flows: &'a mut Flows,
    table: &'a mut FlowTable,
    places: &'a [Option<(u8, u64)>],
    timing: &'a mut Timing,
    late_after: Duration,
}

/// The transport with the rates that its wire format has.
fn with_rates_of_the_wire(transport: &AnyTransport) -> AnyTransport {
    let integer =
        |params: &D3CommonConfig| D3CommonConfig { integer_rates: true, ..params.clone() };
    match transport {
        AnyTransport::D3(d3) => {
            AnyTransport::D3(D3Config { params: integer(&d3.params), ..d3.clone() })
        }
        AnyTransport::Rcpdc(rcpdc) => AnyTransport::Rcpdc(RcpdcConfig(integer(&rcpdc.0))),
        other => other.clone(),
    }
}

/// Bytes of headers of a packet with data and no rate request, from the IP header on.
fn data_header_bytes(codec: &AnyCodec) -> u64 {
    let fields = match codec {
        AnyCodec::Pdq(_) => 32,
        AnyCodec::Ndp(_) | AnyCodec::D3(_) | AnyCodec::Rcpdc(_) => 16,
    };
    (IPV4_UDP_BYTES + ENVELOPE_BYTES + fields) as u64
}

impl Side<'_> {
    /// The flow of the run to which these bytes belong, if it is known already or they show it.
    fn receiver(&mut self, flow: FlowId, bytes: Option<(u64, &[u8])>) -> Option<FlowId> {
        let Some(End::Receiver(incoming)) = self.flows.ends.get_mut(&flow) else { return None };
        if incoming.flow.is_some() {
            return incoming.flow;
        }
        let (table, from, size) = (&*self.table, incoming.from, incoming.size);
        let place = self.flows.awaited.iter().position(|flow| {
            let spec = table.spec(*flow);
            let is_content =
                |(offset, data): (u64, &[u8])| table.content(*flow).is_at(offset, data);
            Some(spec.src) == from && spec.size == size && bytes.is_none_or(is_content)
        })?;
        let found = self.flows.awaited.remove(place);
        incoming.flow = Some(found);
        for event in std::mem::take(&mut incoming.early) {
            self.table.handle_event(found, event, Instant::ZERO);
        }
        Some(found)
    }
}

impl Application for Side<'_> {
    fn note_lateness(&mut self, late: Duration) {
        self.timing.add(late, self.late_after);
    }

    fn accept(&mut self, offer: &Offer) -> bool {
        let (from, size) = (host_of(offer.peer.ip()), offer.size);
        let incoming = Incoming { from, size, flow: None, early: Vec::new() };
        self.flows.ends.insert(offer.flow, End::Receiver(incoming));
        true
    }

    fn read(&mut self, flow: FlowId, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let Some(End::Sender(flow)) = self.flows.ends.get(&flow) else {
            return Err(io::Error::other("a packet of an unknown flow"));
        };
        self.table.content(*flow).fill(offset, into);
        Ok(())
    }

    fn write(&mut self, flow: FlowId, offset: u64, data: &[u8]) -> io::Result<()> {
        let Some(flow) = self.receiver(flow, Some((offset, data))) else {
            self.table.violate(format!("{} bytes at {offset} belong to no flow", data.len()));
            return Ok(());
        };
        let transport = place(self.table.spec(flow).transport);
        let header = self.places[transport].map_or(0, |(_, header)| header);
        self.table.count_packets(1, data.len() as u64 + header);
        self.table.deliver(flow, offset, data);
        Ok(())
    }

    fn handle_event(&mut self, number: FlowId, now: Instant, event: FlowEvent) {
        let now = Instant::ZERO + now.since_start().saturating_sub(self.flows.ahead);
        let flow = match self.flows.ends.get_mut(&number) {
            None => return,
            Some(End::Sender(flow)) => *flow,
            // An empty flow has no bytes that could show which one it is.
            Some(End::Receiver(_)) if event == FlowEvent::Completed => {
                let Some(flow) = self.receiver(number, None) else { return };
                flow
            }
            Some(End::Receiver(Incoming { flow: Some(flow), .. })) => *flow,
            Some(End::Receiver(incoming)) => {
                incoming.early.push(event);
                return;
            }
        };
        match event {
            FlowEvent::Delivered(_) => {}
            FlowEvent::Finished => drop(self.flows.ends.remove(&number)),
            event => self.table.handle_event(flow, event, now),
        }
    }
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use crate::limits::{SUPPORTED, tests::setup};
    use crate::{HostSockets, KernelTcp, TestbedSetup};
    use punctual_core::{Bytes, Duration, Instant, Rate};
    use punctual_net::{ClosLinks, ClosShape};
    use punctual_sim::{FlowRecord, FlowStatus, Setup};
    use punctual_transports::{AnyTransport, TransportSettings};
    use std::ops::ControlFlow;

    /// Three flows of 100 KB to one host at 100 Mb/s: every byte arrives once, and not faster than the
    /// link carries it.
    #[test]
    #[ignore = "namespaces: cargo xtask test testbed"]
    fn host_stack__carries_every_transport() {
        for name in SUPPORTED.into_iter().filter(|name| *name != KernelTcp::STANDS_FOR) {
            let testbed = TestbedSetup {
                setup: setup(name, 4, 100, &[(1, 0), (2, 0), (3, 0)]),
                time_scale: Some(1),
                kernel_tcp: KernelTcp::Reno,
                sockets: HostSockets::Udp,
            };
            let ran = crate::run(&testbed, &mut |_| ControlFlow::Continue(()));
            let (outcome, report) = ran.expect("a testbed");
            assert!(outcome.violations.is_empty(), "{name}: {:?}", outcome.violations);
            let ends: Vec<_> = outcome.flows.iter().map(|f| (f.status, f.ended)).collect();
            println!("{name}: {ends:?}, {:?}", report.problems);
            let late = [report.switch_lateness, report.host_lateness];
            println!("{name}: switch and hosts late by {late:.0?} us");
            assert!(ends.iter().all(|end| end.0 == FlowStatus::Completed), "{name}: {ends:?}");
            let last = ends.iter().filter_map(|end| end.1).max().expect("an end");
            // 300 KB at 100 Mb/s, without any header.
            assert!(last.since_start() >= Duration::from_millis(24), "{name}: {last:?}");
        }
    }

    /// A flow to host 0: its sender, bytes, start in ms, and ms from then to its deadline.
    type Flow = (u32, u64, u64, Option<u64>);

    /// A packet of PDQ or D3 with all headers has at most this many bytes on a link, and at least
    /// `DATA_BYTES` of data.
    const LINK_BYTES: f64 = 1_600.0;
    const DATA_BYTES: f64 = 1_400.0;
    const RATE_MBPS: u64 = 100;
    const DELAY: Duration = Duration::from_micros(250);

    /// The time that these bytes take on a link.
    fn time(bytes: u64) -> Duration {
        let bits = bytes as f64 * (LINK_BYTES / DATA_BYTES) * 8.0;
        Duration::from_secs_f64(bits / (RATE_MBPS as f64 * 1e6))
    }

    /// What PDQ may lose before the k-th flow ends: four round trips until the first one sends alone
    /// (its SYN, and what others send until they know of it), and two for each that follows.
    fn overhead(k: usize) -> Duration {
        DELAY * 4 * (4 + 2 * k as u64)
    }

    /// These flows on a star with a round trip of more than 1 ms, which is that of the papers times the
    /// packet time. PDQ's times are ten times those of its defaults, which are for 1 Gb/s.
    fn setup_of(transport: &str, flows: &[Flow]) -> Setup {
        let pairs: Vec<(u32, u32)> = flows.iter().map(|flow| (flow.0, 0)).collect();
        let mut setup = setup(transport, 5, RATE_MBPS, &pairs);
        let links = ClosLinks::uniform(Rate::from_mbps(RATE_MBPS), DELAY);
        setup.network = ClosShape::star(5).build(&links, Bytes::new(1500), Bytes::new(38));
        let mut settings = TransportSettings::default();
        settings.pdq.rtt_initial = settings.pdq.rtt_initial * 10;
        settings.pdq.rto_initial = settings.pdq.rto_initial * 10;
        settings.pdq.rto_min = settings.pdq.rto_min * 10;
        let transport = AnyTransport::by_name(transport, &settings).expect("a transport");
        setup.transports = vec![transport];
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        for (spec, (_, bytes, start, deadline)) in setup.workload.flows.iter_mut().zip(flows) {
            (spec.size, spec.start) = (Bytes::new(*bytes), at(*start));
            spec.deadline = deadline.map(|after| at(start + after));
        }
        setup
    }

    /// Runs flows in the simulator and through the host stack, and checks the ends of both. A run with
    /// invalid timing asserts nothing.
    fn check(transport: &str, flows: &[Flow], check: impl Fn(&str, &[FlowRecord])) {
        let setup = setup_of(transport, flows);
        let go_on = &mut |_| ControlFlow::Continue(());
        let ends = |flows: &[FlowRecord]| -> Vec<f64> {
            flows.iter().filter_map(|f| f.ended).map(|at| at.as_secs_f64() * 1e3).collect()
        };
        let simulated = punctual_sim::run(setup.clone(), go_on).flows;
        println!("{transport}: simulator: ends {:.1?} ms", ends(&simulated));
        check(&format!("{transport}, simulator"), &simulated);
        let testbed = TestbedSetup {
            setup,
            time_scale: Some(1),
            kernel_tcp: KernelTcp::Reno,
            sockets: HostSockets::Udp,
        };
        let (outcome, report) = crate::run(&testbed, go_on).expect("a testbed");
        assert_eq!(outcome.violations, Vec::<String>::new(), "{transport}");
        println!(
            "{transport}: testbed: ends {:.1?} ms; late by {:.0?} us at the switch and {:.0?} us at the \
             hosts",
            ends(&outcome.flows),
            report.switch_lateness,
            report.host_lateness
        );
        match report.problems.is_empty() {
            true => check(&format!("{transport}, testbed"), &outcome.flows),
            false => println!("SKIPPED {transport}: invalid timing: {:?}", report.problems),
        }
    }

    /// When a flow ended.
    fn end(flow: &FlowRecord) -> Duration {
        assert_eq!(flow.status, FlowStatus::Completed, "{:?}", flow.spec);
        flow.ended.expect("an end").since_start()
    }

    /// PDQ sends one flow after the other: the k-th ends when k flows have been sent, which leaves
    /// little time for more than the flows themselves. At equal shares, the first would end after
    /// almost the time of all.
    #[test]
    #[ignore = "namespaces: cargo xtask test testbed"]
    fn host_stack__pdq_finishes_flows_one_by_one() {
        // Sizes differ by several round trips: between flows that are nearly equal, the one whose
        // first packet wins a tie stays ahead.
        let flows = [(1, 150_000, 0, None), (2, 225_000, 0, None), (3, 300_000, 0, None)];
        check("pdq", &flows, |name, ended| {
            let mut sent = Duration::ZERO;
            for (k, flow) in ended.iter().enumerate() {
                sent += time(flow.spec.size.get());
                // Data, without headers.
                let least = Duration::from_secs_f64(sent.as_secs_f64() * DATA_BYTES / LINK_BYTES);
                let most = sent + overhead(k);
                assert!((least..=most).contains(&end(flow)), "{name}: flow {k}: {:?}", end(flow));
            }
        });
    }

    /// The flow that is due first is sent first, whatever its number and size.
    #[test]
    #[ignore = "namespaces: cargo xtask test testbed"]
    fn host_stack__pdq_sends_the_earliest_deadline_first() {
        let flows =
            [(1, 100_000, 0, Some(90)), (2, 200_000, 0, Some(60)), (3, 210_000, 0, Some(30))];
        check("pdq", &flows, |name, ended| {
            let mut sent = Duration::ZERO;
            for (k, flow) in ended.iter().rev().enumerate() {
                sent += time(flow.spec.size.get());
                let most = sent + overhead(k);
                assert!(end(flow) <= most, "{name}: {:?}", flow.spec);
                assert_eq!(flow.met_deadline(), Some(true), "{name}: {:?}", flow.spec);
            }
        });
    }

    /// Each short flow takes its own time and four round trips at most, and the long one
    /// loses the time of the short ones.
    #[test]
    #[ignore = "namespaces: cargo xtask test testbed"]
    fn host_stack__pdq_short_flows_preempt_a_long_one() {
        let flows = [
            (1, 500_000, 0, None),
            (2, 40_000, 10, None),
            (3, 40_000, 20, None),
            (4, 40_000, 30, None),
        ];
        check("pdq", &flows, |name, ended| {
            for flow in &ended[1..] {
                let took = end(flow) - flow.spec.start.since_start();
                let most = time(flow.spec.size.get()) + overhead(0);
                assert!(took <= most, "{name}: {took:?} for {:?}", flow.spec);
            }
            let all: u64 = flows.iter().map(|flow| flow.1).sum();
            let most = time(all) + overhead(flows.len() - 1);
            assert!(end(&ended[0]) <= most, "{name}: the long flow took {:?}", end(&ended[0]));
        });
    }

    /// Flows whose deadlines ask for less than the link has meet them, beside one without deadline.
    #[test]
    #[ignore = "namespaces: cargo xtask test testbed"]
    fn host_stack__d3_meets_deadlines() {
        // 27, 18 and 9 Mb/s in steps of 8 Mb/s, and the same beside what a long flow takes.
        let together =
            [(1, 150_000, 0, Some(50)), (2, 100_000, 0, Some(50)), (3, 50_000, 0, Some(50))];
        let beside = [
            (1, 500_000, 0, None),
            (2, 40_000, 10, Some(20)),
            (3, 40_000, 20, Some(20)),
            (4, 50_000, 30, Some(25)),
        ];
        for flows in [&together[..], &beside] {
            check("d3", flows, |name, ended| {
                for flow in ended {
                    assert_ne!(flow.met_deadline(), Some(false), "{name}: {:?}", flow);
                    end(flow);
                }
            });
        }
    }
}
