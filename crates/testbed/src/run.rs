//! A run: builds the network, starts the threads of switch and hosts, and joins what they report.

use crate::engine::Engine;
use crate::flows::{FlowTable, place};
use crate::frames::{filler, hello};
use crate::host_stack::HostStack;
use crate::kernel_tcp::KernelFlows;
use crate::namespaces::{HOST_INTERFACE, Links, Namespaces, failed, kernel_mac};
use crate::processors::Realtime;
use crate::report::{Lateness, TestbedReport};
use crate::stalls::{StallReport, Stalls};
use crate::{
    HostSockets, KernelTcp, TestbedRunError, TestbedSetup, processors, time_scale, unsupported,
    unsupported_by_host_stack,
};
use punctual_core::{FlowSpec, HostId, Instant, Limit, PortId, QueueSpec};
use punctual_sim::{Outcome, PortTotals, Progress, Setup};
use punctual_switch::{
    FrameIo as _, HostPort, Interfaces, LatenessHistogram, LinkFaults, Switch, SwitchConfig,
    SwitchReport, TrimRule, interface_name,
};
use punctual_transports::AnyTransport;
use punctual_wire::{AnyCodec, HEADER_BYTES_MAX};
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant as WallInstant};

/// A departure is late if it is this many packet times behind.
const LATE_AFTER_PACKETS: u64 = 10;
/// A run is invalid if more than this share of the departures or timers is late.
const LATE_PERCENT_MAX: f64 = 1.0;
/// A run is invalid if one of its threads stood still for more than this share of the time: results
/// should agree with the simulator's to 10 %, and this is a fifth of it.
const STALLED_PERCENT_MAX: f64 = 2.0;
/// Retransmission timeouts of the kernel's TCP are at least this long; times the time scale.
const KERNEL_RTO_MIN: Duration = Duration::from_millis(200);
/// How long the switch has to learn the hosts' addresses.
const HELLO_TIME: Duration = Duration::from_millis(30);
/// How long frames warm hosts and switch up before a run.
const WARM_UP_TIME: Duration = Duration::from_millis(40);
/// Frames that each host sends meanwhile.
const WARM_UP_FRAMES: u32 = 64;
/// How long the switch may take to start.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the calling thread looks at the run.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The clock of arrival times may part this far from a clock that nobody sets.
const CLOCK_STEP_MAX: Duration = Duration::from_millis(5);

/// What the threads of a run share.
#[derive(Default)]
struct Shared {
    /// The switch forwards frames that warm it up.
    is_warming: AtomicBool,
    /// The hosts have sent those.
    is_warm: AtomicBool,
    /// The switch of the run forwards.
    is_ready: AtomicBool,
    /// Flows are about to run.
    is_running: AtomicBool,
    /// The switch knows that, and no other process takes its processor.
    is_switch_running: AtomicBool,
    /// The hosts are to stop.
    stop: AtomicBool,
    /// The switch is to stop: the hosts have.
    stop_switch: AtomicBool,
    /// The time of the run in ns, and flows ended.
    now: AtomicU64,
    flows_ended: AtomicU64,
}

/// What the hosts report.
struct HostsReport {
    outcome: Outcome,
    lateness: Lateness,
    late_percent: f64,
    stalls: StallReport,
    pull_spacing_us: Option<[f64; 3]>,
    dropped: Vec<(String, u64)>,
    ring_full: u64,
    clock_step: Duration,
}

/// Runs the flows of a set-up on a testbed. `progress` is called now and then and may stop the run.
///
/// The network is built first and removed at the end, also if this process is killed.
pub fn run(
    testbed: &TestbedSetup,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(Outcome, TestbedReport), TestbedRunError> {
    let setup = &testbed.setup;
    if let Some(refused) = unsupported(setup).or_else(|| unsupported_by_host_stack(testbed)) {
        return Err(refused.into());
    }
    let scale = testbed.time_scale.unwrap_or_else(|| time_scale(setup)).max(1);
    let links = Links {
        mtu: setup.network.mtu.get(),
        headroom: HEADER_BYTES_MAX as u64,
        rto_min: KERNEL_RTO_MIN * scale,
        recovers_as_new_reno: testbed.kernel_tcp == KernelTcp::NewReno,
    };
    let namespaces = &Namespaces::build(setup.network.hosts, links)?;
    let _turn = Turn::wait(progress)?;
    let _memory = processors::LockedMemory::take();
    let cpus = processors::choose();
    let shared = &Shared::default();
    let (switch, hosts) = std::thread::scope(|scope| {
        let switch = scope
            .spawn(move || run_switch(setup, testbed.sockets, namespaces, scale, cpus, shared));
        let hosts = scope.spawn(move || {
            let report = run_hosts(testbed, namespaces, scale, cpus, shared);
            shared.stop_switch.store(true, Ordering::Relaxed);
            report
        });
        while !hosts.is_finished() && !switch.is_finished() {
            let now = shared.now.load(Ordering::Relaxed);
            let now = Instant::from_picos(now.saturating_mul(1000));
            let flows_ended = shared.flows_ended.load(Ordering::Relaxed);
            let stop_at = setup.stop.at;
            if progress(Progress { now, stop_at, events: 0, flows_ended }).is_break() {
                shared.stop.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        // Whichever ended first, the other ends too.
        shared.stop.store(true, Ordering::Relaxed);
        let hosts = hosts.join().unwrap_or(Err(TestbedRunError::Panicked("hosts")));
        shared.stop_switch.store(true, Ordering::Relaxed);
        let switch = switch.join().unwrap_or(Err(TestbedRunError::Panicked("switch")));
        (switch, hosts)
    });
    let ((switch, stalls), hosts) = (switch?, hosts?);
    Ok(joined(setup, scale, cpus, (&switch, stalls), hosts))
}

/// The right to run a testbed on this machine. It ends with the process.
struct Turn {
    _socket: UnixListener,
}

impl Turn {
    /// Waits until no other run of a testbed is under way: two would disturb each other.
    fn wait(
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Turn, TestbedRunError> {
        let name = SocketAddr::from_abstract_name("punctual-testbed")
            .map_err(|error| failed("the turn of this run", &error))?;
        loop {
            match UnixListener::bind_addr(&name) {
                Ok(socket) => return Ok(Turn { _socket: socket }),
                Err(error) if error.kind() != ErrorKind::AddrInUse => {
                    return Err(failed("the turn of this run", &error));
                }
                Err(_) => {}
            }
            let (now, stop_at) = (Instant::ZERO, Instant::NEVER);
            if progress(Progress { now, stop_at, events: 0, flows_ended: 0 }).is_break() {
                return Err(TestbedRunError::Interrupted);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// The configuration of the switch.
pub(crate) fn config(setup: &Setup, sockets: HostSockets) -> SwitchConfig {
    let network = setup.network.clone();
    let queue = |(port, link): (usize, &punctual_net::Link)| {
        let own = setup.port_queues.get(PortId::from(port).index());
        match link.from.0 < network.hosts {
            // The queue of a host's interface; that of the simulator has no limit.
            true => QueueSpec::Priority { limit: Limit::Packets(UPLINK_PACKETS) },
            false => own.copied().unwrap_or(setup.switch_queue),
        }
    };
    let has_codec = |t: &&AnyTransport| AnyCodec::of(t.name(), network.mtu).is_some();
    let host = |host: u32| HostPort {
        name: network.names[host as usize].clone(),
        interface: interface_name(host),
        mac: Some(kernel_mac(host)),
    };
    SwitchConfig {
        hosts: (0..network.hosts).map(host).collect(),
        faults: vec![LinkFaults::default(); network.links.len()],
        queues: network.links.iter().enumerate().map(queue).collect(),
        transports: setup.transports.iter().filter(has_codec).cloned().collect(),
        // The host stack runs those of its own NIC.
        uplink_controllers: sockets == HostSockets::Packet,
        trim: TrimRule::default(),
        seed: setup.seed,
        spin: true,
        late_after_packets: LATE_AFTER_PACKETS,
        late_percent_max: LATE_PERCENT_MAX,
        network,
    }
}

/// Packets that the queue of a host's interface holds: more than any host has under way.
const UPLINK_PACKETS: u32 = 10_000;

/// The thread of the switch.
fn run_switch(
    setup: &Setup,
    sockets: HostSockets,
    namespaces: &Namespaces,
    scale: u32,
    cpus: Option<[usize; 2]>,
    shared: &Shared,
) -> Result<(SwitchReport, StallReport), TestbedRunError> {
    if let Some([_, cpu]) = cpus {
        processors::pin(cpu);
    }
    namespaces.enter_switch().map_err(|error| failed("the namespace of the switch", &error))?;
    let config = config(setup, sockets);
    let mut io = Interfaces::slowed(scale);
    for host in &config.hosts {
        let mtu = config.network.mtu.get() as usize + HEADER_BYTES_MAX;
        io.add(&host.interface, mtu).map_err(|error| failed("the switch", &error))?;
    }
    // Frames through a first switch make the kernel and this process touch the memory that they use
    // again in the run: the first use of a page can take longer than a packet.
    let mut warmed = Switch::new(config.clone(), io);
    shared.is_warming.store(true, Ordering::Relaxed);
    while !shared.is_warm.load(Ordering::Relaxed) && !shared.stop_switch.load(Ordering::Relaxed) {
        warmed.turn();
    }
    let mut switch = Switch::new(config, warmed.into_io());
    let mut stalls = Stalls::new(shortest_packet(setup));
    shared.is_ready.store(true, Ordering::Relaxed);
    let mut realtime = None;
    while !shared.stop_switch.load(Ordering::Relaxed) {
        switch.turn();
        if shared.is_running.load(Ordering::Relaxed) {
            let now = switch.io().now();
            realtime.get_or_insert_with(|| Realtime::begin(now, scale)).turn(now);
            shared.is_switch_running.store(true, Ordering::Relaxed);
            stalls.turn(now);
        }
    }
    drop(realtime);
    Ok((switch.report(), stalls.report()))
}

/// The shortest time that a full packet takes on a host's link.
fn shortest_packet(setup: &Setup) -> punctual_core::Duration {
    let network = &setup.network;
    let time = |host| {
        let nic = network.nic_info(HostId(host));
        nic.rate.transmission_time(nic.mtu + nic.framing)
    };
    (0..network.hosts).map(time).min().unwrap_or(punctual_core::Duration::ZERO)
}

/// The thread of the hosts.
fn run_hosts(
    testbed: &TestbedSetup,
    namespaces: &Namespaces,
    scale: u32,
    cpus: Option<[usize; 2]>,
    shared: &Shared,
) -> Result<HostsReport, TestbedRunError> {
    let setup = &testbed.setup;
    let network = &setup.network;
    if let Some([cpu, _]) = cpus {
        processors::pin(cpu);
    }
    wait_for_switch(&shared.is_warming, shared)?;
    let mtu = network.mtu.get() as usize + HEADER_BYTES_MAX;
    let open = || -> Result<Interfaces, TestbedRunError> {
        let mut io = Interfaces::slowed(scale);
        for host in 0..network.hosts {
            let what = format!("the interface of host {host}");
            namespaces.enter_host(host).map_err(|error| failed(&what, &error))?;
            io.add(HOST_INTERFACE, mtu).map_err(|error| failed(&what, &error))?;
        }
        Ok(io)
    };
    let mut io = open()?;
    warm_up(&mut io, network.hosts, network.mtu.get() as usize);
    shared.is_warm.store(true, Ordering::Relaxed);
    wait_for_switch(&shared.is_ready, shared)?;
    introduce(&mut io, network.hosts);
    let is_all_kernel = setup.transports.iter().all(is_kernels);
    let has_rings = testbed.sockets == HostSockets::Packet && !is_all_kernel;
    let mut sockets = Sockets::open(testbed, namespaces)?;
    if !has_rings {
        // Nothing is received by rings: they would only cost the kernel copies.
        io = Interfaces::slowed(scale);
    }
    let rings = if has_rings { network.hosts } else { 0 };
    let table = FlowTable::new(setup.workload.clone(), setup.stop, setup.measure);
    let mut engine = Engine::new(
        network,
        &setup.transports,
        |_| has_rings,
        table,
        setup.seed,
        incarnation(setup.seed),
        LATE_AFTER_PACKETS,
    );
    let mut stalls = Stalls::new(shortest_packet(setup));
    // On a busy machine another process may have the switch's processor just now.
    shared.is_running.store(true, Ordering::Relaxed);
    wait_for_switch(&shared.is_switch_running, shared)?;
    let mut realtime = Realtime::begin(Instant::ZERO, scale);
    io.restart_clock();
    engine.begin(io.epoch());
    if let Some(stack) = &mut sockets.stack {
        stack.begin(io.now());
    }
    let begin = WallInstant::now();
    let mut turns = 0u64;
    let mut real = io.now();
    while !engine.table.is_over(real) && !shared.stop.load(Ordering::Relaxed) {
        stalls.turn(real);
        realtime.turn(real);
        turn(&mut engine, &mut io, &mut sockets, namespaces, rings)?;
        turns += 1;
        if turns.is_multiple_of(1024) {
            shared.now.store(real.since_start().as_nanos(), Ordering::Relaxed);
            shared.flows_ended.store(engine.table.flows_ended(), Ordering::Relaxed);
        }
        real = io.now();
    }
    shared.is_running.store(false, Ordering::Relaxed);
    drop(realtime);
    let elapsed = begin.elapsed().as_secs_f64();
    let counted = real.as_secs_f64() * f64::from(scale);
    let interrupted = !engine.table.is_over(real);
    let (lateness, late) = match &sockets.stack {
        Some(stack) => stack.lateness(),
        None => engine.lateness(),
    };
    let late_percent = 100.0 * late as f64 / lateness.total().max(1) as f64;
    let lateness = lateness_of(lateness);
    let mut dropped = engine.dropped();
    dropped.extend(sockets.kernel.iter().flat_map(KernelFlows::errors));
    dropped.extend(sockets.stack.iter().flat_map(HostStack::dropped));
    let pull_spacing_us = engine.pull_spacing();
    let ring_full = (0..rings).map(|host| io.losses(HostId(host)).ring_full).sum();
    Ok(HostsReport {
        outcome: engine.table.finish(real, interrupted),
        lateness,
        late_percent,
        // The kernel's TCP does not wait for this thread: interrupts drive it.
        stalls: if is_all_kernel { StallReport::default() } else { stalls.report() },
        pull_spacing_us,
        dropped,
        ring_full,
        clock_step: Duration::from_secs_f64((elapsed - counted).abs()),
    })
}

/// Whether the flows of a transport are those of the kernel's TCP.
fn is_kernels(transport: &AnyTransport) -> bool {
    transport.name() == KernelTcp::STANDS_FOR
}

/// The hosts' sockets for flows that [`Engine`] does not drive.
struct Sockets {
    kernel: Option<KernelFlows>,
    stack: Option<HostStack>,
    /// By transport: whether its flows are those of the kernel's TCP.
    are_kernels: Vec<bool>,
}

impl Sockets {
    /// Opens the sockets that a run needs.
    fn open(testbed: &TestbedSetup, namespaces: &Namespaces) -> Result<Sockets, TestbedRunError> {
        let setup = &testbed.setup;
        let network = &setup.network;
        let are_kernels: Vec<bool> = setup.transports.iter().map(is_kernels).collect();
        let kernel = are_kernels.contains(&true).then(|| {
            let mtu = network.mtu.get();
            KernelFlows::new(testbed.kernel_tcp, namespaces, network.hosts, mtu)
                .map_err(|error| failed("the hosts' TCP sockets", &error))
        });
        let is_ours = |transport: &AnyTransport| !is_kernels(transport);
        let has_stack = testbed.sockets == HostSockets::Udp && setup.transports.iter().any(is_ours);
        let transports = &setup.transports;
        let stack = has_stack.then(|| {
            HostStack::new(network, namespaces, transports, setup.seed, LATE_AFTER_PACKETS)
        });
        Ok(Sockets { kernel: kernel.transpose()?, stack: stack.transpose()?, are_kernels })
    }

    /// Starts a flow.
    fn start(
        &mut self,
        spec: &FlowSpec,
        table: &mut FlowTable,
        namespaces: &Namespaces,
        now: Instant,
    ) -> Result<(), TestbedRunError> {
        let is_kernels = self.are_kernels[place(spec.transport)];
        match (&mut self.kernel, &mut self.stack) {
            (Some(kernel), _) if is_kernels => kernel.start(spec, namespaces),
            (_, Some(stack)) => stack.start(spec, table, now)?,
            _ => {}
        }
        Ok(())
    }
}

/// One turn of all hosts.
fn turn(
    engine: &mut Engine,
    io: &mut Interfaces,
    sockets: &mut Sockets,
    namespaces: &Namespaces,
    rings: u32,
) -> Result<(), TestbedRunError> {
    engine.start_flows(io.now());
    for spec in std::mem::take(&mut engine.for_sockets) {
        sockets.start(&spec, &mut engine.table, namespaces, io.now())?;
    }
    for (spec, deadline) in std::mem::take(&mut engine.deadlines_for_sockets) {
        if let Some(stack) = &mut sockets.stack {
            stack.set_deadline(&spec, deadline, &mut engine.table)?;
        }
    }
    if let Some(kernel) = &mut sockets.kernel {
        kernel.turn(&mut engine.table, io.now());
    }
    if let Some(stack) = &mut sockets.stack {
        stack.turn(&mut engine.table)?;
    }
    for host in (0..rings).map(HostId) {
        let real = io.now();
        io.receive(host, &mut |received| engine.receive(host, received, real));
        engine.turn(host, real);
        flush(engine, io, host);
    }
    Ok(())
}

/// Sends the frames of a host.
fn flush(engine: &mut Engine, io: &mut Interfaces, host: HostId) {
    if engine.outgoing.is_empty() {
        return;
    }
    let mut frames = std::mem::take(&mut engine.outgoing);
    let mut others = false;
    for (from, frame) in frames.drain(..) {
        io.send(from, &frame);
        others |= from != host;
        engine.reuse(frame);
    }
    engine.outgoing = frames;
    io.flush(host);
    if others {
        // Flows that have just started send from any host.
        io.flush_all();
    }
}

/// Waits until the thread of the switch has set `flag`.
fn wait_for_switch(flag: &AtomicBool, shared: &Shared) -> Result<(), TestbedRunError> {
    let begin = WallInstant::now();
    while !flag.load(Ordering::Relaxed) {
        if shared.stop.load(Ordering::Relaxed) {
            return Err(TestbedRunError::Interrupted);
        }
        if begin.elapsed() > PATIENCE {
            return Err(failed("the switch", &"it did not start"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Sends full frames from every host to the next one.
fn warm_up(io: &mut Interfaces, hosts: u32, mtu: usize) {
    let begin = WallInstant::now();
    for _ in 0..WARM_UP_FRAMES {
        for host in 0..hosts {
            io.send(HostId(host), &filler(host, (host + 1) % hosts, mtu));
        }
    }
    io.flush_all();
    while begin.elapsed() < WARM_UP_TIME {
        for host in (0..hosts).map(HostId) {
            io.receive(host, &mut |_| {});
        }
    }
}

/// Makes the switch learn the addresses of the endpoints of all hosts. Those of their kernels are in
/// its configuration.
fn introduce(io: &mut Interfaces, hosts: u32) {
    for host in (0..hosts).map(HostId) {
        io.send(host, &hello(host.0, (host.0 + 1) % hosts));
        io.flush(host);
    }
    let begin = WallInstant::now();
    while begin.elapsed() < HELLO_TIME {
        for host in (0..hosts).map(HostId) {
            io.receive(host, &mut |_| {});
        }
    }
}

/// A number that tells the packets of this run from those of another.
fn incarnation(seed: u64) -> u16 {
    punctual_core::rng::derive(seed, "incarnation", u64::from(std::process::id())) as u16
}

fn lateness_of(histogram: &LatenessHistogram) -> Lateness {
    Lateness {
        p50_us: histogram.percentile_us(50.0),
        p99_us: histogram.percentile_us(99.0),
        worst_us: histogram.worst_us(),
    }
}

/// Joins what switch and hosts report.
fn joined(
    setup: &Setup,
    scale: u32,
    cpus: Option<[usize; 2]>,
    (switch, switch_stalls): (&SwitchReport, StallReport),
    hosts: HostsReport,
) -> (Outcome, TestbedReport) {
    let mut outcome = hosts.outcome;
    for port in &switch.ports {
        let counters = port.counters;
        outcome.ports.push(PortTotals {
            sent_bytes: port.sent_bytes,
            sent_packets: port.sent_packets,
            drops: counters.drops,
            trims: counters.trims,
            bounces: counters.bounces,
            marks: counters.marks,
            ..PortTotals::default()
        });
        outcome.totals.packet_hops += port.sent_packets;
        outcome.totals.drops += counters.drops;
        outcome.totals.trims += counters.trims;
        outcome.totals.bounces += counters.bounces;
        outcome.totals.marks += counters.marks;
    }
    debug_assert_eq!(outcome.ports.len(), setup.network.links.len());
    let mut problems: Vec<String> =
        switch.problems.iter().map(|problem| format!("switch: {problem}")).collect();
    if hosts.late_percent > LATE_PERCENT_MAX {
        problems.push(format!(
            "hosts: {:.2} % of the timers were more than {LATE_AFTER_PACKETS} packet times late, \
             {LATE_PERCENT_MAX} % may be; use a larger --time-scale or a machine with two idle \
             processors",
            hosts.late_percent
        ));
    }
    let stalls = [switch_stalls, hosts.stalls];
    for (name, stalls) in ["switch", "hosts"].into_iter().zip(stalls) {
        let StallReport { percent, waited, page_faults } = stalls;
        if percent > STALLED_PERCENT_MAX {
            problems.push(format!(
                "{name}: the thread stood still for {percent:.1} % of the time, \
                 {STALLED_PERCENT_MAX} % may be; it waited {:.1} ms for a processor and had \
                 {page_faults} page faults; use a larger --time-scale or a machine with two idle \
                 processors",
                waited.as_secs_f64() * 1e3
            ));
        }
    }
    if hosts.ring_full > 0 {
        let frames = hosts.ring_full;
        problems.push(format!("hosts: {frames} frames found no room in a receive ring"));
    }
    if hosts.clock_step > CLOCK_STEP_MAX {
        problems.push("the clock of this machine was set during the run".to_owned());
    }
    if cpus.is_none() {
        problems.push("hosts and switch share one processor; they need two".to_owned());
    }
    let report = TestbedReport {
        problems,
        time_scale: scale,
        switch_lateness: Lateness {
            p50_us: switch.lateness_p50_us,
            p99_us: switch.lateness_p99_us,
            worst_us: switch.lateness_worst_us,
        },
        host_lateness: hosts.lateness,
        late_at_hosts: hosts.late_percent / 100.0,
        stalled_percent: stalls.map(|stalls| stalls.percent),
        pull_spacing_us: hosts.pull_spacing_us,
        frames: switch.delivered,
        dropped: hosts.dropped,
        processors: cpus.into_iter().flatten().map(|cpu| cpu as u32).collect(),
        kernel: kernel_version(),
    };
    (outcome, report)
}

fn kernel_version() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_owned()
}
