//! Which frames reach which host.

use crate::common::*;
use punctual_core::{Class, Duration, HostId, Instant};
use punctual_switch::{Fabric, FrameIo as _, MemoryIo, Received, Switch, SwitchConfig};

fn ethernet(to: [u8; 6], from: [u8; 6], ether_type: u16, bytes: usize) -> Vec<u8> {
    let mut frame = [to, from].concat();
    frame.extend(ether_type.to_be_bytes());
    frame.resize(14 + bytes, 0x5a);
    frame
}

#[test]
fn forward__one_packet_takes_exactly_two_links() {
    let mut switch = star(3, DROP_TAIL_8, "");
    let frame = plain(&outer(0, 1, Class::DATA, 0), 1500);
    switch.io().arrive(HostId(0), at_us(10), frame.clone());
    let departed = run_until(&mut switch, 400);
    // 1,538 bytes at 100 Mb/s take 123.04 us; each of the two links adds 1 us.
    let exact = at_us(10) + (Duration::from_picos(123_040_000) + Duration::from_micros(1)) * 2;
    assert_eq!(exact, Instant::from_picos(258_080_000));
    assert_eq!(departed.len(), 1);
    let first = &departed[0];
    assert_eq!((first.host, &first.frame), (HostId(1), &frame));
    // The clock of the test ticks once a microsecond.
    assert_eq!(first.at, at_us(259));
}

#[test]
fn forward__arp_goes_to_everybody_and_teaches_the_address() {
    let config = star_config(4, DROP_TAIL_8, "");
    let hosts =
        config.hosts.into_iter().map(|host| punctual_switch::HostPort { mac: None, ..host });
    let config = SwitchConfig { hosts: hosts.collect(), ..star_config(4, DROP_TAIL_8, "") };
    let mut switch = Switch::new(config, MemoryIo::new(4));
    let request = ethernet([255; 6], mac(0), 0x0806, 28);
    switch.io().arrive(HostId(0), at_us(1), request.clone());
    let departed = run_until(&mut switch, 100);
    let mut to: Vec<u32> = departed.iter().map(|d| d.host.0).collect();
    to.sort();
    assert_eq!(to, [1, 2, 3]);
    assert!(departed.iter().all(|d| d.frame == request));
    // The answer is for host 0 alone, although no address is configured.
    switch.io().arrive(HostId(2), at_us(101), ethernet(mac(0), mac(2), 0x0806, 28));
    let departed = run_until(&mut switch, 200);
    assert_eq!(departed.iter().map(|d| d.host.0).collect::<Vec<_>>(), [0]);
    // An address that nobody has used goes to everybody.
    switch.io().arrive(HostId(0), at_us(201), ethernet([2, 9, 9, 9, 9, 9], mac(0), 0x0800, 60));
    assert_eq!(run_until(&mut switch, 300).len(), 3);
    assert_eq!(switch.fabric().host_counters(HostId(0)).flooded, 2);
}

#[test]
fn forward__any_bytes_pass_unchanged() {
    let mut switch = star(2, DROP_TAIL_8, "transports = [\"ndp\", \"d3\", \"pdq\"]");
    let mut rng = punctual_core::rng::Stream::from_seed(5);
    let types = [0x0800, 0x86dd, 0x0806, 0x8100, 0x88a8, 0x1234];
    for n in 0..2000u64 {
        let bytes = rng.below(1500) as usize;
        let ether_type = types[rng.below(6) as usize];
        let mut frame = ethernet(mac(1), mac(0), ether_type, bytes);
        for byte in &mut frame[14..] {
            *byte = rng.bits() as u8;
        }
        if bytes > 0 && n % 2 == 0 {
            frame[14] = if ether_type == 0x86dd { 0x60 } else { 0x45 };
        }
        let now = switch.io().now() + Duration::from_millis(1);
        switch.io().clock = now;
        switch.io().arrive(HostId(0), now, frame.clone());
        switch.turn();
        switch.io().clock = now + Duration::from_micros(500);
        switch.turn();
        let departed = std::mem::take(&mut switch.io().departed);
        assert_eq!(departed.iter().map(|d| &d.frame).collect::<Vec<_>>(), [&frame], "{n}");
    }
    assert_eq!(switch.fabric().packets(), 0);
}

#[test]
fn forward__bad_frames_are_dropped_and_counted() {
    let mut fabric = Fabric::new(&star_config(2, DROP_TAIL_8, ""), 0);
    let good = plain(&outer(0, 1, Class::DATA, 0), 1500);
    let own = plain(&outer(0, 0, Class::DATA, 0), 1500);
    let received = |frame| Received { frame, at: at_us(1), is_cut: false, checksum_missing: false };
    fabric.receive(HostId(0), received(&good[..13]));
    fabric.receive(HostId(0), received(&[]));
    // Ethernet header, VLAN tag, MTU, and what headers may be longer than in the simulator.
    let long = [0; 14 + 4 + 1500 + punctual_wire::HEADER_BYTES_MAX + 1];
    fabric.receive(HostId(0), received(&long));
    fabric.receive(HostId(0), Received { is_cut: true, ..received(&good) });
    fabric.receive(HostId(0), Received { checksum_missing: true, ..received(&good) });
    fabric.receive(HostId(0), received(&own));
    fabric.advance(at_us(1000), &mut |_, _, _| panic!("nothing may leave"));
    let counters = fabric.host_counters(HostId(0));
    assert_eq!((counters.short, counters.oversize), (2, 2));
    assert_eq!((counters.checksum_missing, counters.returned, counters.received), (1, 1, 6));
}

/// Two leaves, four spines, two hosts a leaf.
fn leaf_spine(more: &str) -> SwitchConfig {
    let mut text = format!("queue = {DROP_TAIL_8}\n{more}\n");
    for s in ["l0", "l1", "s0", "s1", "s2", "s3"] {
        text += &format!("[[switch]]\nname = \"{s}\"\n");
    }
    let link = |a: &str, b: &str| {
        format!("[[link]]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"100Mbps\"\ndelay = \"1us\"\n")
    };
    for h in 0..4 {
        text += &format!(
            "[[host]]\nname = \"h{h}\"\ninterface = \"v{h}\"\nmac = \"02:00:00:00:00:{:02x}\"\n",
            h + 1
        );
    }
    for h in 0..4 {
        text += &link(&format!("h{h}"), &format!("l{}", h / 2));
    }
    for spine in 0..4 {
        text += &link("l0", &format!("s{spine}"));
        text += &link("l1", &format!("s{spine}"));
    }
    SwitchConfig::parse("test.toml", &text).expect("valid")
}

/// Packets that went up to each spine.
fn by_spine(switch: &Switch<MemoryIo>) -> Vec<u64> {
    let network = switch.fabric().network();
    let up = |spine: &str| {
        let port = (0..network.links.len())
            .map(punctual_core::PortId::from)
            .find(|port| network.port_name(*port) == format!("l0 → {spine}"))
            .expect("a port");
        switch.fabric().port_counters(port).1
    };
    ["s0", "s1", "s2", "s3"].map(up).to_vec()
}

#[test]
fn paths__a_path_id_decides() {
    let mut switch = Switch::new(leaf_spine("transports = [\"ndp\"]"), MemoryIo::new(4));
    for n in 0..12u16 {
        // Path 6 does not exist: it counts modulo 4.
        let path = if n < 8 { n % 4 } else { 6 };
        let frame = ndp(&outer(0, 2, Class::DATA, 0), 1, u64::from(n), path, 1500);
        switch.io().arrive(HostId(0), at_us(u64::from(n) * 200), frame);
    }
    assert_eq!(run_until(&mut switch, 4000).len(), 12);
    let mut counts = by_spine(&switch);
    counts.sort();
    assert_eq!(counts, [2, 2, 2, 6]);
}

#[test]
fn paths__other_flows_keep_to_one_path_and_spread() {
    let mut switch = Switch::new(leaf_spine(""), MemoryIo::new(4));
    for n in 0..128u64 {
        let mut outer = outer(0, 2, Class::DATA, 0);
        outer.source_port = 1000 + (n % 64) as u16;
        switch.io().arrive(HostId(0), at_us(n * 200), plain(&outer, 1000));
    }
    assert_eq!(run_until(&mut switch, 30_000).len(), 128);
    let counts = by_spine(&switch);
    assert_eq!(counts.iter().sum::<u64>(), 128);
    // Both packets of a flow take one path, and 64 flows find all four.
    assert!(counts.iter().all(|count| count % 2 == 0 && *count > 0), "{counts:?}");
}
