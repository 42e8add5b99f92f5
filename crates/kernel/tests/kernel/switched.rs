//! Scenario files on kernel sockets: the flows of a scenario through our switch with the scenario's
//! ports, beside the simulator's run of the same file.

use crate::Test;
use crate::support::{Flow, Plan, Sandbox, Sent, Switched, ensure, receive};
use libtest_mimic::Failed;
use punctual_core::Instant;
use punctual_lab::{PlannedRun, Study};
use punctual_sim::Setup;
use punctual_switch::{ConfigSource, SwitchConfig, SwitchReport};
use punctual_testkit::OtherWork;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

pub(crate) const TESTS: &[Test] = &[
    ("switched__near_and_far", near_far),
    ("switched__fan_in", fan_in),
    ("switched__beside_cubic", beside_cubic),
];

/// A scenario, once for each of its transports.
struct Plans {
    study: Study,
    runs: Vec<PlannedRun>,
}

/// The completion times of a run's flows in seconds, by the name of their traffic.
type Times = BTreeMap<String, Vec<f64>>;

/// A run on kernel sockets.
struct Ran {
    times: Times,
    sent: Vec<Sent>,
    report: SwitchReport,
}

impl Plans {
    fn load(name: &str) -> Plans {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let study = Study::load(&root.join(name), &[]).unwrap_or_else(|e| panic!("{name}: {e}"));
        let runs = study.runs();
        Plans { study, runs }
    }

    fn setup(&self, run: &PlannedRun) -> Setup {
        let setup = self.study.setup(&run.scenario, &run.subject, run.scenario.run.seed);
        setup.unwrap_or_else(|e| panic!("{e}")).packets().expect("packets")
    }

    /// The name of a flow's traffic.
    fn traffic(&self, run: &PlannedRun, pattern: usize) -> String {
        run.scenario.traffic[pattern].spec.name.clone().unwrap_or_else(|| pattern.to_string())
    }

    fn simulate(&self, run: &PlannedRun) -> Times {
        let outcome = punctual_sim::run(self.setup(run), &mut |_| ControlFlow::Continue(()));
        let mut times = Times::new();
        for flow in &outcome.flows {
            let ended = flow.ended.expect("it ends");
            let seconds = ended.saturating_since(flow.spec.start).as_secs_f64();
            let name = self.traffic(run, usize::from(flow.spec.pattern));
            times.entry(name).or_default().push(seconds);
        }
        times
    }

    /// Sends every flow of a run over a connection with the transport's congestion control.
    fn run(&self, sandbox: &Sandbox, run: &PlannedRun) -> Ran {
        let setup = self.setup(run);
        let network = Switched::new(config(&setup, run));
        let control = |transport: usize| match setup.transports[transport].name() {
            "d2tcp" => sandbox.d2tcp.clone(),
            "dctcp" => sandbox.dctcp.clone(),
            "tcp" => "cubic".to_owned(),
            other => panic!("{other} is not in the kernel"),
        };
        let mut listeners: BTreeMap<(u32, usize), SocketAddr> = BTreeMap::new();
        for flow in &setup.workload.flows {
            let transport = usize::from(flow.transport.0);
            listeners.entry((flow.dst.0, transport)).or_insert_with(|| {
                let at = IpAddr::from([10, 0, 0, flow.dst.0 as u8 + 1]);
                receive(&network.hosts[flow.dst.index()], at, &control(transport))
            });
        }
        let sent: Vec<Sent> = std::thread::scope(|scope| {
            let threads: Vec<_> = setup
                .workload
                .flows
                .iter()
                .map(|spec| {
                    let transport = usize::from(spec.transport.0);
                    let to = listeners[&(spec.dst.0, transport)];
                    let within = spec.deadline.map(|at| nanos(at) - nanos(spec.start));
                    let flow = Flow {
                        deadline: within.map(Duration::from_nanos),
                        ..Flow::new(&control(transport), to, Plan::Bytes(spec.size.get()))
                    };
                    let (from, start) = (&network.hosts[spec.src.index()], nanos(spec.start));
                    scope.spawn(move || {
                        std::thread::sleep(Duration::from_nanos(start));
                        flow.send(from)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("flow")).collect()
        });
        let mut times = Times::new();
        for (spec, sent) in setup.workload.flows.iter().zip(&sent) {
            let name = self.traffic(run, usize::from(spec.pattern));
            times.entry(name).or_default().push(sent.seconds);
        }
        Ran { times, sent, report: network.finish() }
    }
}

fn nanos(at: Instant) -> u64 {
    at.saturating_since(Instant::ZERO).as_nanos()
}

/// The switch of a run: the scenario's network and queues. It sleeps between frames, which costs
/// some ten microseconds of 246 a packet, and leaves the processors to the hosts.
fn config(setup: &Setup, run: &PlannedRun) -> SwitchConfig {
    let queue = setup.switch_queue;
    let own = &setup.port_queues;
    let source = ConfigSource {
        network: &setup.network,
        queue_of: &|port| own.get(port.index()).copied().unwrap_or(queue),
        transports: &[],
        settings: &run.scenario.settings,
        spin: false,
    };
    SwitchConfig::parse("scenario", &source.text()).unwrap_or_else(|e| panic!("{e}"))
}

/// Marks and drops at all ports.
fn marks_and_drops(report: &SwitchReport) -> (u64, u64) {
    let counters = report.ports.iter().map(|port| port.counters);
    counters.fold((0, 0), |sum, c| (sum.0 + c.marks, sum.1 + c.drops))
}

/// Says so if the switch was too late for its times to count.
fn is_valid(ran: &Ran) -> bool {
    if !ran.report.valid {
        let problems = ran.report.problems.join("; ");
        println!("SKIPPED: the timing of the switch is invalid: {problems}");
    }
    ran.report.valid
}

fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len() as f64
}

fn shown(times: &[f64]) -> String {
    let (least, most) = times.iter().fold((f64::MAX, 0f64), |(l, m), t| (l.min(*t), m.max(*t)));
    format!("{least:.2} to {most:.2} s")
}

/// How often near deadlines were met, and the mean time of near messages in seconds.
type Near = (usize, f64);

/// The results of D2TCP and DCTCP, and what other processes used meanwhile.
type BothNear = ([Near; 2], OtherWork);

/// The name of a run in tables: kernel sockets use cubic where the simulator uses TCP.
fn row_name(run: &PlannedRun) -> &str {
    match run.subject.label.as_str() {
        "tcp" => "cubic; simulator: TCP",
        label => label,
    }
}

/// Checks that packets were marked and not lost. Cubic without ECN is not marked, and loses packets
/// when it fills the queue.
fn check_marks(ran: &Ran, has_ecn: bool) -> Result<(), Failed> {
    let (marks, drops) = marks_and_drops(&ran.report);
    for sent in &ran.sent {
        ensure!(sent.has_ecn == has_ecn, "{sent:?}");
    }
    if !has_ecn {
        ensure!(marks == 0, "{marks} marks on packets without ECN");
        return Ok(());
    }
    ensure!(marks > 0 && drops == 0, "{marks} marks, {drops} drops");
    // "Near zero": one packet in a thousand.
    let packets = ran.sent.iter().map(|sent| sent.bytes).sum::<u64>() / 1448;
    let again: u32 = ran.sent.iter().map(|sent| sent.retransmissions).sum();
    ensure!(u64::from(again) <= packets / 1000, "{again} retransmissions of {packets}");
    Ok(())
}

/// Runs a scenario with a near and a far deadline so often with each transport. Prints a table, and
/// returns the results of D2TCP and DCTCP, or none if the switch called a timing invalid.
fn near_and_far(
    sandbox: &Sandbox,
    file: &str,
    within: [f64; 2],
    repetitions: u32,
) -> Result<Option<BothNear>, Failed> {
    let plans = Plans::load(file);
    let work = OtherWork::watch();
    let mut table = format!(
        "scenarios/{file}, {repetitions} runs each\n\n| | near met | near | far met | far | \
         simulator: near | simulator: far |\n|---|--:|--:|--:|--:|--:|--:|\n"
    );
    let mut results: BTreeMap<&str, Near> = BTreeMap::new();
    let mut are_valid = true;
    for run in &plans.runs {
        let label = run.subject.label.as_str();
        let simulated = plans.simulate(run);
        let mut times: [Vec<f64>; 2] = Default::default();
        for _ in 0..repetitions {
            let ran = plans.run(sandbox, run);
            are_valid &= is_valid(&ran);
            let (marks, drops) = marks_and_drops(&ran.report);
            let again: u32 = ran.sent.iter().map(|sent| sent.retransmissions).sum();
            println!(
                "{}: {:?}; {marks} marks, {drops} drops, {again} retransmissions, lateness p99 \
                 {:.0} us",
                row_name(run),
                ran.times,
                ran.report.lateness_p99_us
            );
            check_marks(&ran, label != "tcp")?;
            times[0].extend(&ran.times["near"]);
            times[1].extend(&ran.times["far"]);
        }
        let met = |n: usize| times[n].iter().filter(|time| **time <= within[n]).count();
        let all = times[0].len();
        table += &format!(
            "| {} | {} of {all} | {} | {} of {all} | {} | {} | {} |\n",
            row_name(run),
            met(0),
            shown(&times[0]),
            met(1),
            shown(&times[1]),
            shown(&simulated["near"]),
            shown(&simulated["far"]),
        );
        results.insert(label, (met(0), mean(&times[0])));
    }
    println!("{table}");
    Ok(are_valid.then(|| ([results["d2tcp"], results["dctcp"]], work)))
}

/// Two runs in the tests; PUNCTUAL_KERNEL_PAIRS sets more.
fn near_far(sandbox: &Sandbox) -> Result<(), Failed> {
    let pairs = std::env::var("PUNCTUAL_KERNEL_PAIRS").ok().and_then(|n| n.parse().ok());
    let pairs: u32 = pairs.unwrap_or(2);
    let results = near_and_far(sandbox, "kernel-near-far.toml", [3.4, 8.0], pairs)?;
    let Some(([d2tcp, dctcp], work)) = results else { return Ok(()) };
    let both = format!("near deadlines met and mean time: DCTCP {dctcp:?}, D2TCP {d2tcp:?}");
    work.check(d2tcp.0 >= dctcp.0 && d2tcp.1 < dctcp.1, &both);
    if pairs >= 8 {
        work.check(d2tcp.0 > dctcp.0, &both);
    }
    Ok(())
}

fn fan_in(sandbox: &Sandbox) -> Result<(), Failed> {
    let results = near_and_far(sandbox, "kernel-fan-in.toml", [2.4, 6.0], 1)?;
    let Some(([d2tcp, dctcp], work)) = results else { return Ok(()) };
    let failure = format!("near answers take {:.2} and {:.2} s", d2tcp.1, dctcp.1);
    work.check(d2tcp.1 < dctcp.1, failure);
    Ok(())
}

/// Cubic without ECN takes no notice of marks, D2TCP obeys them: cubic ends first. Both end, D2TCP no
/// later than 12 MB take at half of the link.
fn beside_cubic(sandbox: &Sandbox) -> Result<(), Failed> {
    let plans = Plans::load("kernel-beside-tcp.toml");
    let run = &plans.runs[0];
    let simulated = plans.simulate(run);
    let work = OtherWork::watch();
    let ran = plans.run(sandbox, run);
    let (marks, drops) = marks_and_drops(&ran.report);
    let seconds = |times: &Times, name: &str| mean(&times[name]);
    println!(
        "scenarios/kernel-beside-tcp.toml: {marks} marks, {drops} drops\n\n| | kernel | simulator |\n\
         |---|--:|--:|\n| D2TCP, 6 MB | {:.2} s | {:.2} s |\n| cubic; the simulator's TCP, 6 MB | \
         {:.2} s | {:.2} s |\n",
        seconds(&ran.times, "d2tcp"),
        seconds(&simulated, "d2tcp"),
        seconds(&ran.times, "tcp"),
        seconds(&simulated, "tcp"),
    );
    ensure!(marks > 0, "cubic has not filled the queue to the threshold");
    if !is_valid(&ran) {
        return Ok(());
    }
    let (ours, theirs) = (seconds(&ran.times, "d2tcp"), seconds(&ran.times, "tcp"));
    let is_between = theirs < ours && ours <= 2.0 * 12e6 * 8.0 / 50e6;
    work.check(is_between, format!("D2TCP took {ours:.2} s, cubic {theirs:.2} s"));
    Ok(())
}
