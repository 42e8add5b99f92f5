//! CPU time of the data plane per packet, without interfaces.

use crate::common::*;
use punctual_core::{Class, Duration, HostId, Instant};
use punctual_switch::{Fabric, Received};

const PACKETS: u64 = 200_000;

/// Nanoseconds that this thread has run.
fn cpu_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
}

/// Nanoseconds a packet from its arrival to its departure, two ports on the way.
fn nanos_per_packet(queue: &str, more: &str, frame: &[u8]) -> u64 {
    let mut fabric = Fabric::new(&star_config(8, queue, more));
    let begin = cpu_nanos();
    let mut delivered = 0u64;
    for n in 0..PACKETS {
        let at = Instant::ZERO + Duration::from_micros(130) * n;
        let received = Received { frame, at, is_cut: false, checksum_missing: false };
        fabric.receive(HostId(1), received);
        fabric.advance(at, &mut |_, _, _| delivered += 1);
    }
    assert!(delivered > PACKETS - 10);
    (cpu_nanos() - begin) / PACKETS
}

/// A port of D3, PDQ or NDP may cost 1 us a packet; a packet passes two here.
#[test]
#[ignore = "measures time: cargo test -p punctual-switch -- --ignored --nocapture cost"]
fn cost__of_a_packet() {
    let to = outer(1, 0, Class::DATA, 0);
    let trim = "{ kind = \"trim\", data = \"8packets\", headers = \"8packets\" }";
    let rates = "transports = [\"d3\", \"pdq\"]";
    let cases = [
        ("plain, drop-tail", nanos_per_packet(DROP_TAIL_8, "", &plain(&to, 1500))),
        ("ndp, trim", nanos_per_packet(trim, "transports = [\"ndp\"]", &ndp(&to, 1, 0, 0, 1500))),
        ("d3 request", nanos_per_packet(DROP_TAIL_8, rates, &crate::controllers::any_d3_request())),
        ("pdq", nanos_per_packet(DROP_TAIL_8, rates, &crate::controllers::any_pdq())),
    ];
    for (name, nanos) in cases {
        println!("{name:<18} {nanos:>6} ns for a packet and two ports");
        assert!(nanos < 2_000, "{name}: {nanos} ns");
    }
}
