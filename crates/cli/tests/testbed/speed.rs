//! How fast the switch forwards on interfaces, beside a forwarder with the same interfaces that does
//! nothing else.
//!
//! One thread sends frames from all hosts through packet sockets, the switch runs on the other core,
//! and every host has a UDP socket that takes the frames. Rates are per second at work, without the
//! time in which no frame was there, so that a slow generator does not count. Generator, switch and
//! bare forwarder are real-time threads for less than a second, so that no other process takes their
//! cores.

use crate::bed::{Bed, is_possible, too_late};
use crate::runs::median;
use core::net::{IpAddr, Ipv4Addr};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use punctual_core::{Class, HostId};
use punctual_switch::{FrameIo as _, Interfaces, enter_namespace, in_namespace, set_realtime};
use punctual_testkit::OtherWork;
use punctual_wire::{Outer, dscp_of, write_frame};
use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const HOSTS: u32 = 8;
const PORT: u16 = 9300;
const QUEUE: &str = "{ kind = \"drop-tail\", limit = \"8packets\" }";
/// Packets a second that one core must forward.
const WANTED: f64 = 150_000.0;
/// Packets a second that the generator offers. A pacer that is late for a moment does not catch up, so
/// that it sends one or two per cent less than it is asked for.
const OFFERED: f64 = 1.03 * WANTED;
/// Floods of the switch and of the bare forwarder, in turns.
const ROUNDS: usize = 3;
/// How long frames are sent. The kernel takes a real-time thread off its core after 950 ms of a second.
const TIME: Duration = Duration::from_millis(700);
/// A thread that has no processor for 2 % of the time makes the timing of a run invalid.
const SHARE_OF_A_CORE: f64 = 0.98;
/// Packets a second of a bare forwarder of this kind on an idle core of the machine for which
/// [`WANTED`] was set: 4,280 ns a packet.
const BARE: f64 = 234_000.0;

/// The frame that a host sends to the host opposite.
fn frame(from: u32) -> Vec<u8> {
    let to = (from + HOSTS / 2) % HOSTS;
    let ip = |host: u32| IpAddr::V4(Ipv4Addr::new(10, 0, 0, host as u8 + 1));
    let mac = |host: u32| [2, 0x70, 0, 0, 0, host as u8 + 1];
    let outer = Outer {
        mac: [mac(from), mac(to)],
        source: ip(from),
        destination: ip(to),
        source_port: PORT,
        destination_port: PORT,
        dscp: dscp_of(Class::DATA),
        ecn: 0,
    };
    let mut frame = Vec::new();
    write_frame(&outer, &[7; 1472], &mut frame);
    frame
}

/// The cores of the generator and of the forwarder; none if this process may not use two.
fn cores() -> Option<[usize; 2]> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let mut own = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu) == Ok(true));
    Some([own.next()?, own.next()?])
}

/// Pins a thread to a core: 0 is the calling thread.
fn pin(thread: i32, core: usize) {
    let mut set = CpuSet::new();
    set.set(core).expect("a core");
    sched_setaffinity(Pid::from_raw(thread), &set).expect("the thread exists");
}

/// Pins this thread to one of [`cores`], and makes it a real-time one.
fn take_core(which: usize) {
    if let Some(cores) = cores() {
        pin(0, cores[which]);
        assert!(set_realtime(true), "needs CAP_SYS_NICE");
    }
}

/// Sends from every host for a while, so many packets a second in all, or as many as possible.
fn generate(prefix: &str, time: Duration, packets_per_second: Option<f64>) {
    let mut interfaces = Vec::new();
    for host in 0..HOSTS {
        enter_namespace(&format!("{prefix}-h{host}")).expect("a namespace");
        interfaces.push(Interfaces::open(["eth0"], 1500).expect("an interface"));
    }
    let frames: Vec<Vec<u8>> = (0..HOSTS).map(frame).collect();
    take_core(0);
    let begin = Instant::now();
    let mut sent = vec![0u64; HOSTS as usize];
    while begin.elapsed() < time {
        for (host, io) in interfaces.iter_mut().enumerate() {
            let burst = match packets_per_second {
                None => 16,
                Some(rate) => {
                    let due = begin.elapsed().as_secs_f64() * rate / f64::from(HOSTS);
                    let late = due as u64 - sent[host].min(due as u64);
                    // A pacer never catches up: what it missed counts as sent, and as not sent below.
                    let burst = late.min(8);
                    sent[host] += late - burst;
                    burst
                }
            };
            for _ in 0..burst {
                io.send(HostId(0), &frames[host]);
            }
            if burst > 0 {
                io.flush(HostId(0));
                sent[host] += burst;
            }
        }
    }
}

/// Processor time of a thread and the time that it waited for a processor, in seconds.
fn schedule(task: &str) -> (f64, f64) {
    let text = std::fs::read_to_string(format!("/proc/{task}/schedstat")).expect("schedstat");
    let mut numbers = text.split_whitespace().map(|n| n.parse::<f64>().expect("a number") / 1e9);
    (numbers.next().expect("run time"), numbers.next().expect("waiting time"))
}

/// The share of the time between two schedules in which a thread ran: a thread that spins either
/// runs or waits for a processor.
fn share((ran, waited): (f64, f64), (ran_then, waited_then): (f64, f64)) -> f64 {
    let (ran, waited) = (ran_then - ran, waited_then - waited);
    ran / (ran + waited)
}

/// A forwarder that copies every frame to the interface opposite, until it is stopped. Returns
/// packets per second at work, and the share of the time in which it had a processor.
fn forward_bare(prefix: &str, stop: &AtomicBool) -> (f64, f64) {
    enter_namespace(&format!("{prefix}-sw")).expect("a namespace");
    let names: Vec<String> = (0..HOSTS).map(punctual_switch::interface_name).collect();
    let names = names.iter().map(String::as_str);
    let (mut inward, mut outward) = (
        Interfaces::open(names.clone(), 1500).expect("interfaces"),
        Interfaces::open(names, 1500).expect("interfaces"),
    );
    let (mut count, mut busy) = (0u64, Duration::ZERO);
    take_core(1);
    let start = schedule("thread-self");
    while !stop.load(Ordering::Relaxed) {
        let (before, begin) = (count, Instant::now());
        for host in 0..HOSTS {
            let to = HostId((host + HOSTS / 2) % HOSTS);
            let first = count;
            inward.receive(HostId(host), &mut |received| {
                outward.send(to, received.frame);
                count += 1;
            });
            if count > first {
                outward.flush(to);
            }
        }
        if count > before {
            busy += begin.elapsed();
        }
    }
    let ran = share(start, schedule("thread-self"));
    (count as f64 / (busy.as_secs_f64() * ran), ran)
}

/// Sockets that take the frames; nobody reads them.
fn sockets(prefix: &str) -> Vec<UdpSocket> {
    let bind =
        |host| in_namespace(&format!("{prefix}-h{host}"), || UdpSocket::bind(("0.0.0.0", PORT)));
    (0..HOSTS).map(|host| bind(host).expect("a socket")).collect()
}

/// A star of eight hosts at this rate.
fn star(mbps: u64) -> Bed {
    let network =
        format!("topology = \"star\"\nhosts = {HOSTS}\nrate = \"{mbps}Mbps\"\ndelay = \"5us\"");
    Bed::with_network(&network, "tcp", QUEUE)
}

fn sum(report: &serde_json::Value, list: &str, key: &str) -> u64 {
    let all = report[list].as_array().into_iter().flatten();
    all.map(|entry| entry[key].as_u64().unwrap_or(0)).sum()
}

/// Sends from all hosts through the switch, whose thread has a core of its own meanwhile. Returns the
/// share of the time in which it ran.
fn generate_through_switch(bed: &Bed, packets_per_second: Option<f64>) -> f64 {
    let (prefix, pid) = (bed.prefix(), bed.switch_pid());
    let task = format!("{pid}/task/{pid}");
    if let Some([_, core]) = cores() {
        pin(pid as i32, core);
        schedule_as(pid, &["--fifo", "-p", "1"]);
    }
    let start = schedule(&task);
    let generator = std::thread::spawn(move || generate(&prefix, TIME, packets_per_second));
    generator.join().expect("no panic");
    let ran = share(start, schedule(&task));
    schedule_as(pid, &["--other", "-p", "0"]);
    ran
}

/// Changes how the kernel schedules the main thread of a process.
fn schedule_as(pid: u32, policy: &[&str]) {
    let status = Command::new("chrt").args(policy).arg(pid.to_string()).status();
    assert!(status.expect("chrt starts").success(), "needs CAP_SYS_NICE");
}

/// Packets per second at work of the switch under a flood, the share of the time in which it had a
/// processor, and its report.
fn flood_switch(bed: &Bed) -> (f64, f64, serde_json::Value) {
    let ran = generate_through_switch(bed, None);
    let report = bed.report();
    let number = |key: &str| report[key].as_f64().expect("a number");
    (number("delivered") / (number("busy_seconds") * ran), ran, report)
}

/// Packets per second at work of a bare forwarder under a flood, and the share of the time in which
/// it had a processor. The switch does not run.
fn flood_bare(prefix: &str) -> (f64, f64) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let forwarder = scope.spawn(|| forward_bare(prefix, &stop));
        std::thread::sleep(Duration::from_millis(30));
        scope.spawn(|| generate(prefix, TIME, None)).join().expect("no panic");
        stop.store(true, Ordering::Relaxed);
        forwarder.join().expect("no panic")
    })
}

/// Under a flood the switch forwards at least 150 of the 234 packets that a bare forwarder does, in
/// the median of rounds in which both had a processor of their own.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn speed__of_a_flooded_switch_beside_a_bare_forwarder() {
    if !is_possible() {
        return;
    }
    // So fast that no port is the bottleneck.
    let bed = star(10_000);
    bed.must("up", &[]);
    let prefix = bed.prefix();
    let _sockets = sockets(&prefix);
    let (mut ratios, mut rates, mut bare_rates) = (Vec::new(), Vec::new(), Vec::new());
    let work = OtherWork::watch();
    for round in 0..ROUNDS {
        if round > 0 {
            bed.must("restart", &[]);
        }
        let (ours, ran, report) = flood_switch(&bed);
        let (bare, bare_ran) = flood_bare(&prefix);
        println!(
            "flood: {ours:.0} packets per second at work, a bare forwarder {bare:.0}: {:.2} of it; \
             {} found a full ring; they had a core for {:.1} and {:.1} % of the time",
            ours / bare,
            sum(&report, "hosts", "ring_full"),
            100.0 * ran,
            100.0 * bare_ran
        );
        if ran.min(bare_ran) >= SHARE_OF_A_CORE {
            ratios.push(ours / bare);
            rates.push(ours);
            bare_rates.push(bare);
        }
    }
    let (Some(ratio), Some(ours), Some(bare)) =
        (median(&mut ratios), median(&mut rates), median(&mut bare_rates))
    else {
        too_late(&work, "in no round switch and bare forwarder had a core for 98 % of the time");
        return;
    };
    work.check(ratio >= WANTED / BARE, format!("{ratio:.2} of a bare forwarder"));
    // The bound itself holds where a bare forwarder is as fast as it was.
    if bare >= BARE {
        work.check(ours >= WANTED, format!("{ours:.0} packets per second"));
    } else {
        println!(
            "SKIPPED: a bare forwarder has {bare:.0} packets per second here; the bound of \
             {WANTED:.0} for the switch is for a machine with {BARE:.0}"
        );
    }
}

/// A permutation at 95 % of the ports' rate, 150 thousand packets a second or more in all: no port drops
/// a packet. An invalid run asserts nothing.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn speed__a_permutation_at_95_percent_load_loses_nothing() {
    if !is_possible() {
        return;
    }
    // 1,538 bytes on the wire.
    let mbps = (OFFERED / f64::from(HOSTS) / 0.95 * 1538.0 * 8.0 / 1e6).ceil() as u64;
    let bed = star(mbps);
    bed.must("up", &[]);
    let prefix = bed.prefix();
    let _sockets = sockets(&prefix);
    let work = OtherWork::watch();
    let ran = generate_through_switch(&bed, Some(OFFERED));
    std::thread::sleep(Duration::from_millis(50));
    let report = bed.report();
    let seconds = TIME.as_secs_f64();
    let received = sum(&report, "hosts", "received");
    let delivered = report["delivered"].as_u64().expect("a number");
    let [drops, full] = [sum(&report, "ports", "drops"), sum(&report, "hosts", "ring_full")];
    println!(
        "permutation at 95 % of {mbps} Mb/s: {:.0} packets/s sent, {:.0} delivered, {drops} dropped \
         at ports, {full} found a full ring; lateness p50 {} us, p99 {} us; timing {}; at work \
         {:.0} % of the time; the switch had its core for {:.1} % of it",
        (received + full) as f64 / seconds,
        delivered as f64 / seconds,
        report["lateness_p50_us"],
        report["lateness_p99_us"],
        if report["valid"] == true { "valid" } else { "INVALID" },
        100.0 * report["busy_seconds"].as_f64().unwrap_or(0.0) / seconds,
        100.0 * ran,
    );
    if report["valid"] != true {
        too_late(&work, &format!("the timing of the run was invalid: {}", report["problems"]));
        return;
    }
    // Virtual time: no delay of the thread makes a port drop.
    assert_eq!(drops, 0, "false drops");
    let offered = (received + full) as f64 / seconds;
    if full > 0 || offered < WANTED {
        let why = "packets/s were sent, so many found a full ring; the bound needs two idle cores";
        too_late(&work, &format!("{offered:.0} {why}: {full} and {WANTED:.0}"));
        return;
    }
    let rate = delivered as f64 / seconds;
    work.check(rate >= WANTED, format!("{rate:.0} of {WANTED:.0} packets/s were delivered"));
}
