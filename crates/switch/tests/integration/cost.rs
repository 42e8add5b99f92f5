//! CPU time of the data plane per packet, without interfaces.

use crate::common::*;
use crate::controllers::{any_d3_request, any_pdq};
use punctual_core::{Class, Duration, HostId, Instant};
use punctual_switch::{Fabric, Received};
use punctual_testkit::OtherWork;
use punctual_wire::Outer;

/// Packets of a round.
const PACKETS: u64 = 40_000;
/// Rounds, of which the fastest counts: other processes make packets only more expensive.
const ROUNDS: u64 = 5;
const HOSTS: u8 = 8;
/// Flows that take turns. Eight at a time are a permutation of the hosts, so that every port has 95 %
/// load; D3 and PDQ keep state for each flow at both of its ports.
const FLOWS: u32 = 56;

/// Nanoseconds that this thread has run.
fn cpu_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
}

/// The hosts of a flow: seven senders to each of the eight receivers.
fn hosts_of(flow: u32) -> (u8, u8) {
    let to = (flow % u32::from(HOSTS)) as u8;
    let distance = 1 + (flow / u32::from(HOSTS)) as u8 % (HOSTS - 1);
    ((to + distance) % HOSTS, to)
}

/// Nanoseconds a packet from its arrival to its departure, two ports on the way. `frame` makes the
/// frame of a flow.
fn nanos_per_packet(queue: &str, more: &str, frame: impl Fn(&Outer, u32) -> Vec<u8>) -> u64 {
    let mut fabric = Fabric::new(&star_config(HOSTS, queue, more), 0);
    let frames: Vec<(HostId, Vec<u8>)> = (0..FLOWS)
        .map(|flow| {
            let (from, to) = hosts_of(flow);
            (HostId(from.into()), frame(&outer(from, to, Class::DATA, 0), flow))
        })
        .collect();
    let (mut delivered, mut least) = (0u64, u64::MAX);
    for round in 0..ROUNDS {
        let begin = cpu_nanos();
        for n in round * PACKETS..(round + 1) * PACKETS {
            let at = Instant::ZERO + Duration::from_micros(130) * (n / u64::from(HOSTS));
            let (from, frame) = &frames[(n % u64::from(FLOWS)) as usize];
            let received = Received { frame, at, is_cut: false, checksum_missing: false };
            fabric.receive(*from, received);
            fabric.advance(at, &mut |_, _, _| delivered += 1);
        }
        least = least.min((cpu_nanos() - begin) / PACKETS);
    }
    assert!(delivered > ROUNDS * PACKETS - 100);
    least
}

/// A port of D3, PDQ or NDP may cost 1 us a packet; a packet passes two here.
#[test]
#[ignore = "measures time: cargo test -p punctual-switch -- --ignored --nocapture cost"]
fn cost__of_a_packet() {
    let trim = "{ kind = \"trim\", data = \"8packets\", headers = \"8packets\" }";
    let rates = "transports = [\"d3\", \"pdq\"]";
    let work = OtherWork::watch();
    let cases = [
        ("plain, drop-tail", nanos_per_packet(DROP_TAIL_8, "", |outer, _| plain(outer, 1500))),
        (
            "ndp, trim",
            nanos_per_packet(trim, "transports = [\"ndp\"]", |outer, flow| {
                ndp(outer, flow, u64::from(flow), 0, 1500)
            }),
        ),
        ("d3 request", nanos_per_packet(DROP_TAIL_8, rates, any_d3_request)),
        ("pdq", nanos_per_packet(DROP_TAIL_8, rates, any_pdq)),
    ];
    for (name, nanos) in cases {
        println!("{name:<18} {nanos:>6} ns for a packet and two ports");
        // CPU time, but other work takes the caches and the other thread of a core.
        work.check(nanos < 2_000, format!("{name}: {nanos} ns"));
    }
}
