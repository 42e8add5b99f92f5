//! Frames and small networks.
#![allow(dead_code, unreachable_pub)]

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use punctual_core::{Class, FlowId, HostId, Instant, Packet, PacketFlags};
use punctual_switch::{Departed, MemoryIo, Switch, SwitchConfig};
use punctual_transports::ndp::{NdpHeader, flags, kind};
use punctual_wire::{NdpCodec, Outer, WireName, dscp_of, emit, write_frame};

pub fn at_us(us: u64) -> Instant {
    Instant::from_picos(us * 1_000_000)
}

pub fn mac(host: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, host + 1]
}

/// A star of hosts at 100 Mb/s whose switch ports have this queue; `more` are further keys.
pub fn star_config(hosts: u8, queue: &str, more: &str) -> SwitchConfig {
    let mut text = format!("seed = 1\nqueue = {queue}\n{more}\n[[switch]]\nname = \"s\"\n");
    for h in 0..hosts {
        text += &format!(
            "[[host]]\nname = \"h{h}\"\ninterface = \"v{h}\"\nmac = \"02:00:00:00:00:{:02x}\"\n\
             [[link]]\nbetween = [\"h{h}\", \"s\"]\nrate = \"100Mbps\"\ndelay = \"1us\"\n",
            h + 1
        );
    }
    SwitchConfig::parse("test.toml", &text).expect("valid")
}

pub fn star(hosts: u8, queue: &str, more: &str) -> Switch<MemoryIo> {
    Switch::new(star_config(hosts, queue, more), MemoryIo::new(hosts.into()))
}

pub const DROP_TAIL_8: &str = "{ kind = \"drop-tail\", limit = \"8packets\" }";

/// Runs a switch in steps of a microsecond, as a spinning thread would.
pub fn run_until(switch: &mut Switch<MemoryIo>, until_us: u64) -> Vec<Departed> {
    let begin = switch.io().clock.as_picos() / 1_000_000;
    for us in begin..=until_us {
        switch.io().clock = at_us(us);
        switch.turn();
    }
    std::mem::take(&mut switch.io().departed)
}

pub fn outer(from: u8, to: u8, class: Class, ecn: u8) -> Outer {
    Outer {
        mac: [mac(from), mac(to)],
        source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, from + 1)),
        destination: IpAddr::V4(Ipv4Addr::new(10, 0, 0, to + 1)),
        source_port: 5000,
        destination_port: 6000,
        dscp: dscp_of(class),
        ecn,
    }
}

pub fn in_ipv6(outer: Outer) -> Outer {
    let ip = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => {
            IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, ip.octets()[3].into()))
        }
        ip => ip,
    };
    Outer { source: ip(outer.source), destination: ip(outer.destination), ..outer }
}

/// A UDP frame of another protocol whose IPv4 packet has this many bytes.
pub fn plain(outer: &Outer, ip_bytes: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    write_frame(outer, &vec![7; ip_bytes - 28], &mut frame);
    frame
}

/// An NDP data packet, number `seq` of a flow, whose IPv4 packet has this many bytes.
pub fn ndp(outer: &Outer, flow: u32, seq: u64, path: u16, ip_bytes: usize) -> Vec<u8> {
    let payload = (ip_bytes - 64) as u16;
    let header = NdpHeader {
        seq,
        cumulative: u64::from(payload) * 1000,
        sent_at: 0,
        pull: 0,
        path,
        kind: kind::DATA,
        flags: if seq == 0 { flags::SYN } else { 0 },
    };
    let mut packet = Packet::new(FlowId(0), HostId(0), punctual_core::Header::new(header));
    packet.payload_bytes = payload;
    packet.class = punctual_wire::class_of(outer.dscp);
    packet.flags = PacketFlags::TRIMMABLE;
    let mut datagram = Vec::new();
    let fill = |bytes: &mut [u8]| {
        bytes.fill(9);
        Ok::<(), ()>(())
    };
    emit(&NdpCodec, WireName { flow, incarnation: 1 }, &packet, None, &mut datagram, fill)
        .expect("fits");
    let mut frame = Vec::new();
    write_frame(outer, &datagram, &mut frame);
    frame
}
