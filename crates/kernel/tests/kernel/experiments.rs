//! Flows through a bottleneck of 50 Mb/s that marks: the promises of D2TCP.

use crate::Test;
use crate::support::{Flow, Network, Plan, Sandbox, Sent, ensure, receive};
use libtest_mimic::Failed;
use punctual_kernel::ControlState;
use std::net::SocketAddr;
use std::time::Duration;

pub(crate) const TESTS: &[Test] = &[
    ("experiments__near_takes_from_far", near__takes_from_far),
    ("experiments__equal_flows_share", equal__flows_share),
    ("experiments__near_deadlines_are_met", deadlines__near_are_met),
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
    let sent = send(&network, &pair(&sandbox.d2tcp, to, 5, [2.0, 0.5]));
    let ratio = sent[0].mbits() / sent[1].mbits();
    println!("d = 2 against d = 0.5: {ratio:.1} : 1\n  {}", describe(&sent));
    ensure!(ratio >= 3.0, "d = 2 against d = 0.5 splits only {ratio:.2} : 1");
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
    let sent = send(&network, &pair(&sandbox.d2tcp, to, 8, [1.0, 1.0]));
    let half = (sent[0].mbits() + sent[1].mbits()) / 2.0;
    println!("d = 1 for both: {:.2} of half\n  {}", sent[0].mbits() / half, describe(&sent));
    for flow in &sent {
        let share = flow.mbits() / half;
        ensure!((share - 1.0).abs() <= 0.35, "a flow gets {share:.2} of half");
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
    ensure!(met[0][0] >= met[1][0], "DCTCP met more near deadlines than D2TCP");
    ensure!(near[0] < near[1], "near messages take {near:?} s over all with D2TCP and DCTCP");
    if pairs >= 8 {
        ensure!(met[0][0] > met[1][0], "D2TCP met no more near deadlines than DCTCP");
    }
    Ok(())
}

fn connections__many_on_ipv6(sandbox: &Sandbox) -> Result<(), Failed> {
    let network = network(sandbox, 2);
    let to = receive(&network.receiver, network.address_v6(), &sandbox.d2tcp);
    let flow = Flow {
        deadline: Some(Duration::from_secs(5)),
        ..Flow::new(&sandbox.d2tcp, to, Plan::Bytes(100_000))
    };
    let sent = send(&network, &vec![flow; 200]);
    let wrong = sent.iter().find(|s| s.control != sandbox.d2tcp || !s.has_ecn);
    ensure!(wrong.is_none(), "{wrong:?}");
    let slowest = sent.iter().map(|s| s.seconds).fold(0.0, f64::max);
    println!("200 connections over IPv6 in {slowest:.2} s, {:?}", network.marks());
    ensure!(network.marks().marked > 0, "nothing was marked");
    Ok(())
}

fn loss__halves_as_reno(sandbox: &Sandbox) -> Result<(), Failed> {
    let network = network(sandbox, 1);
    // A queue of 20 packets loses before the marker marks at 30.
    network.bridge.sh("tc qdisc replace dev p1 root tbf rate 50mbit burst 4kb limit 30280");
    let to = receive(&network.receiver, network.address(), &sandbox.d2tcp);
    let plan = Plan::For(Duration::from_secs(3));
    let sent = &send(&network, &[Flow::new(&sandbox.d2tcp, to, plan)])[0];
    println!("{}", describe(std::slice::from_ref(sent)));
    let info = sent.info.ok_or("no statistics")?;
    ensure!(info.losses > 0 && sent.retransmissions > 0, "no loss: {info:?}");
    ensure!(info.cuts == 0, "marks without a marked packet: {info:?}");
    ensure!(info.cwnd < 100, "the window does not react to loss: {info:?}");
    // Reno with a buffer of one window keeps the link busy; half leaves room for a slow machine.
    ensure!(sent.mbits() > 25.0, "{:.1} Mb/s", sent.mbits());
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
