//! Flows through a bottleneck of 50 Mb/s that marks: the promises of D2TCP.

use crate::Test;
use crate::support::{Flow, Network, Plan, Sandbox, Sent, ensure, receive};
use libtest_mimic::Failed;
use punctual_kernel::ControlState;
use punctual_testkit::OtherWork;
use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

pub(crate) const TESTS: &[Test] = &[
    ("experiments__near_takes_from_far", near__takes_from_far),
    ("experiments__equal_flows_share", equal__flows_share),
    ("experiments__near_deadlines_are_met", deadlines__near_are_met),
    ("experiments__fan_in", fan_in__near_answers_are_earlier),
    ("experiments__messages_in_turn", messages__in_turn_have_their_own_d),
    ("experiments__beside_cubic", cubic__leaves_the_floor),
    ("experiments__ipv6_and_many_connections", connections__many_on_ipv6),
    ("experiments__loss_halves_as_reno", loss__halves_as_reno),
    ("experiments__peer_without_ecn", peer__without_ecn_gets_reno),
];

/// A network with the tests' marker.
pub(crate) fn network(sandbox: &Sandbox, senders: usize) -> Network {
    Network::new(sandbox.other("mk"), senders, 50)
}

/// Sends all flows at once, flow i from sender i.
pub(crate) fn send(network: &Network, flows: &[Flow]) -> Vec<Sent> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = flows
            .iter()
            .enumerate()
            .map(|(i, flow)| {
                let from = &network.senders[i % network.senders.len()];
                scope.spawn(move || flow.send(from))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("flow")).collect()
    })
}

fn pair(control: &str, to: SocketAddr, seconds: u64, d: [f64; 2]) -> Vec<Flow> {
    let plan = Plan::For(Duration::from_secs(seconds));
    d.map(|d| Flow { imminence: Some(d), ..Flow::new(control, to, plan) }).into()
}

fn describe(sent: &[Sent]) -> String {
    let line = |s: &Sent| {
        format!("{:.1} Mb/s {} retransmissions, {:?}", s.mbits(), s.retransmissions, s.info)
    };
    sent.iter().map(line).collect::<Vec<_>>().join("\n  ")
}

fn near__takes_from_far(sandbox: &Sandbox) -> Result<(), Failed> {
    let network = network(sandbox, 2);
    let to = receive(&network.receiver, network.address(), &sandbox.d2tcp);
    let work = OtherWork::watch();
    let sent = send(&network, &pair(&sandbox.d2tcp, to, 5, [2.0, 0.5]));
    let ratio = sent[0].mbits() / sent[1].mbits();
    println!("d = 2 against d = 0.5: {ratio:.1} : 1\n  {}", describe(&sent));
    work.check(ratio >= 3.0, format!("d = 2 against d = 0.5 splits only {ratio:.2} : 1"));
    let again: u32 = sent.iter().map(|s| s.retransmissions).sum();
    ensure!(again <= 50, "{again} retransmissions on a link that marks");
    for flow in &sent {
        let info = flow.info.ok_or("no statistics")?;
        ensure!(info.state == ControlState::D2tcp && info.cuts > 10, "{info:?}");
    }
    Ok(())
}

fn equal__flows_share(sandbox: &Sandbox) -> Result<(), Failed> {
    let network = network(sandbox, 2);
    let to = receive(&network.receiver, network.address(), &sandbox.d2tcp);
    let work = OtherWork::watch();
    let sent = send(&network, &pair(&sandbox.d2tcp, to, 8, [1.0, 1.0]));
    let half = (sent[0].mbits() + sent[1].mbits()) / 2.0;
    println!("d = 1 for both: {:.2} of half\n  {}", sent[0].mbits() / half, describe(&sent));
    for flow in &sent {
        let share = flow.mbits() / half;
        work.check((share - 1.0).abs() <= 0.35, format!("a flow gets {share:.2} of half"));
    }
    Ok(())
}

/// The completion times of a near and a far message of 12 MB each, in seconds.
fn messages(network: &Network, control: &str, to: SocketAddr, within: [f64; 2]) -> [f64; 2] {
    let flows = within.map(|seconds| Flow {
        deadline: Some(Duration::from_secs_f64(seconds)),
        ..Flow::new(control, to, Plan::Bytes(12_000_000))
    });
    let sent = send(network, &flows);
    [sent[0].seconds, sent[1].seconds]
}

/// Two pairs in the tests; PUNCTUAL_KERNEL_PAIRS sets more.
fn deadlines__near_are_met(sandbox: &Sandbox) -> Result<(), Failed> {
    let pairs = std::env::var("PUNCTUAL_KERNEL_PAIRS").ok().and_then(|n| n.parse().ok());
    let pairs: u32 = pairs.unwrap_or(2);
    let network = network(sandbox, 2);
    let within = [3.4, 8.0];
    let mut met = [[0; 2]; 2];
    let mut near = [0.0; 2];
    let work = OtherWork::watch();
    for run in 0..pairs {
        for (i, control) in [&sandbox.d2tcp, &sandbox.dctcp].into_iter().enumerate() {
            let to = receive(&network.receiver, network.address(), control);
            let seconds = messages(&network, control, to, within);
            let name = ["D2TCP", "DCTCP"][i];
            println!("run {run} {name}: near {:.2} s, far {:.2} s", seconds[0], seconds[1]);
            near[i] += seconds[0];
            for (met, (seconds, within)) in met[i].iter_mut().zip(seconds.iter().zip(within)) {
                *met += u32::from(*seconds <= within);
            }
        }
    }
    println!("D2TCP met {} near and {} far of {pairs}", met[0][0], met[0][1]);
    println!("DCTCP met {} near and {} far of {pairs}", met[1][0], met[1][1]);
    work.check(met[0][0] >= met[1][0], "DCTCP met more near deadlines than D2TCP");
    let failure = format!("near messages take {near:?} s over all with D2TCP and DCTCP");
    work.check(near[0] < near[1], failure);
    if pairs >= 8 {
        work.check(met[0][0] > met[1][0], "D2TCP met no more near deadlines than DCTCP");
    }
    Ok(())
}

/// Six answers of 3 MB to one host at once: three with a near deadline, three with a far one.
fn fan_in__near_answers_are_earlier(sandbox: &Sandbox) -> Result<(), Failed> {
    let network = network(sandbox, 2);
    // DCTCP ends all at 18 MB / 48 Mb/s = 3.0 s; with W in proportion to alpha^-d near ones end
    // earlier.
    let within = [2.4, 6.0];
    let mut near = [0.0; 2];
    let work = OtherWork::watch();
    for (i, control) in [&sandbox.d2tcp, &sandbox.dctcp].into_iter().enumerate() {
        let to = receive(&network.receiver, network.address(), control);
        let answer = |n: usize| Flow {
            deadline: Some(Duration::from_secs_f64(within[n / 3])),
            ..Flow::new(control, to, Plan::Bytes(3_000_000))
        };
        let sent = send(&network, &(0..6).map(answer).collect::<Vec<_>>());
        let mean = |s: &[Sent]| s.iter().map(|s| s.seconds).sum::<f64>() / s.len() as f64;
        let met = sent[..3].iter().filter(|s| s.seconds <= within[0]).count();
        near[i] = mean(&sent[..3]);
        let (name, far) = (["D2TCP", "DCTCP"][i], mean(&sent[3..]));
        println!("{name}: near {:.2} s, {met} of 3 met; far {far:.2} s", near[i]);
    }
    work.check(near[0] < near[1], format!("near answers take {near:?} s with D2TCP and DCTCP"));
    Ok(())
}

/// One connection: a message with a far deadline, then one with a near deadline, beside a flow with
/// d = 1. The first message has d = 0.5, the second one d = 2.
fn messages__in_turn_have_their_own_d(sandbox: &Sandbox) -> Result<(), Failed> {
    let network = network(sandbox, 2);
    let to = receive(&network.receiver, network.address(), &sandbox.d2tcp);
    let other = Flow::new(&sandbox.d2tcp, to, Plan::For(Duration::from_secs(4)));
    let flow = Flow::new(&sandbox.d2tcp, to, Plan::Bytes(0));
    let message = [0; 1_500_000];
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| other.send(&network.senders[1]));
        std::thread::sleep(Duration::from_millis(300));
        let mut stream = network.senders[0].run(|| flow.connect())?;
        let mut d = [0.0; 2];
        // At 25 Mb/s a message takes 0.5 s: 60 s leave d at its least, 0.1 s at its most. After
        // the deadline d is 1, so the second one is set again and again.
        for (i, within) in [60.0, 0.1].into_iter().enumerate() {
            let mut cuts = 0;
            for part in message.chunks(50_000) {
                let left = if i == 0 { message.len() as u64 } else { 50_000 + 500_000 };
                punctual_kernel::clear_deadlines(&stream)?;
                punctual_kernel::set_deadline(&stream, left, Duration::from_secs_f64(within))?;
                stream.write_all(part)?;
                let info = punctual_kernel::info(&stream)?;
                (d[i], cuts) = (info.d, info.cuts);
            }
            println!("message {i}: d = {:.2} at cut {cuts}", d[i]);
        }
        let _ = beside.join().expect("flow");
        ensure!(d[0] == 0.5, "the far message has d = {:.2}", d[0]);
        ensure!(d[1] > 1.2, "the near message has d = {:.2}", d[1]);
        Ok(())
    })
}

/// Cubic without ECN fills the queue of 600 kB: D2TCP keeps its floor of two packets per RTT. With
/// ECN cubic obeys marks, too.
fn cubic__leaves_the_floor(sandbox: &Sandbox) -> Result<(), Failed> {
    let network = network(sandbox, 2);
    let with = receive(&network.receiver, network.address(), &sandbox.d2tcp);
    let cubic = receive(&network.receiver, network.address(), "cubic");
    let plan = Plan::For(Duration::from_secs(4));
    for ecn in ["0", "1"] {
        network.senders[1].set_sysctl("tcp_ecn", ecn);
        network.receiver.set_sysctl("tcp_ecn", ecn);
        let flows = [Flow::new(&sandbox.d2tcp, with, plan), Flow::new("cubic", cubic, plan)];
        let work = OtherWork::watch();
        let sent = send(&network, &flows);
        let [ours, theirs] = [sent[0].mbits(), sent[1].mbits()];
        println!("tcp_ecn = {ecn}: D2TCP {ours:.1} Mb/s, cubic {theirs:.1} Mb/s");
        // Two packets per 96 ms are 0.25 Mb/s; half of that for a slow machine.
        work.check(ours > 0.12, format!("D2TCP has {ours:.2} Mb/s beside cubic"));
        ensure!(sent[0].control == sandbox.d2tcp, "{:?}", sent[0]);
    }
    Ok(())
}

/// 200 connections at once lose packets, SYNs among them. Linux sends a lost SYN again without ECN if
/// `tcp_ecn_fallback` is 1, its default, and such a connection gets Reno: at most as many as SYNs
/// were sent again. With 0 all have D2TCP.
fn connections__many_on_ipv6(sandbox: &Sandbox) -> Result<(), Failed> {
    let network = network(sandbox, 2);
    let to = receive(&network.receiver, network.address_v6(), &sandbox.d2tcp);
    let flow = Flow {
        deadline: Some(Duration::from_secs(5)),
        ..Flow::new(&sandbox.d2tcp, to, Plan::Bytes(100_000))
    };
    for fallback in ["0", "1"] {
        network.senders.iter().for_each(|at| at.set_sysctl("tcp_ecn_fallback", fallback));
        let again = || network.senders.iter().map(|at| at.counter("TCPSynRetrans")).sum::<u64>();
        let before = again();
        let sent = send(&network, &vec![flow.clone(); 200]);
        let again = again() - before;
        let own = sent.iter().filter(|s| s.control == sandbox.d2tcp && s.has_ecn).count();
        let reno = sent.iter().filter(|s| s.control == "reno" && !s.has_ecn).count();
        let slowest = sent.iter().map(|s| s.seconds).fold(0.0, f64::max);
        println!(
            "200 connections over IPv6, tcp_ecn_fallback = {fallback}: {own} with D2TCP, {reno} \
             with Reno, {again} SYNs sent again, in {slowest:.2} s, {:?}",
            network.marks()
        );
        ensure!(own + reno == 200, "{own} connections have D2TCP, {reno} Reno");
        let excuse = if fallback == "0" { 0 } else { again };
        ensure!(
            reno as u64 <= excuse,
            "{reno} connections have Reno, {again} SYNs were sent again"
        );
    }
    ensure!(network.marks().marked > 0, "nothing was marked");
    Ok(())
}

fn loss__halves_as_reno(sandbox: &Sandbox) -> Result<(), Failed> {
    let network = network(sandbox, 1);
    // A queue of 20 packets loses before the marker marks at 30.
    network.bridge.sh("tc qdisc replace dev p1 root tbf rate 50mbit burst 4kb limit 30280");
    let to = receive(&network.receiver, network.address(), &sandbox.d2tcp);
    let plan = Plan::For(Duration::from_secs(3));
    let work = OtherWork::watch();
    let sent = &send(&network, &[Flow::new(&sandbox.d2tcp, to, plan)])[0];
    println!("{}", describe(std::slice::from_ref(sent)));
    let info = sent.info.ok_or("no statistics")?;
    ensure!(info.losses > 0 && sent.retransmissions > 0, "no loss: {info:?}");
    ensure!(info.cuts == 0, "marks without a marked packet: {info:?}");
    ensure!(info.cwnd < 100, "the window does not react to loss: {info:?}");
    // Reno with a buffer of one window keeps the link busy; half leaves room for a slow machine.
    work.check(sent.mbits() > 25.0, format!("{:.1} Mb/s", sent.mbits()));
    Ok(())
}

fn peer__without_ecn_gets_reno(sandbox: &Sandbox) -> Result<(), Failed> {
    let network = network(sandbox, 1);
    network.receiver.set_sysctl("tcp_ecn", "0");
    let to = receive(&network.receiver, network.address(), "cubic");
    let sent = &send(&network, &[Flow::new(&sandbox.d2tcp, to, Plan::Bytes(200_000))])[0];
    ensure!(sent.control == "reno" && !sent.has_ecn, "{sent:?}");
    let info = sent.info.ok_or("no statistics")?;
    ensure!(info.state == ControlState::Inactive, "{info:?}");
    Ok(())
}
