//! The time scale: how many times slower than the machine's the clock of a run is.

use crate::KernelTcp;
use punctual_core::{Bytes, Duration, Rate};
use punctual_sim::Setup;

/// Packets a second that hosts and switch together forward on two processors, answers included.
pub const PACKETS_PER_SECOND: u64 = 150_000;

/// Packets a second of the kernel's TCP: the switch's thread runs the TCP of the receivers, too, within
/// the system calls that send them frames. At 130,000 its turns took longer than packets.
const KERNEL_PACKETS_PER_SECOND: u64 = PACKETS_PER_SECOND / 2;

/// A packet takes at least this much of the machine's time on the fastest link of a host: the delays
/// of two threads and two interfaces, some 30 µs for a round trip, should stay small beside it.
const PACKET_TIME_MIN: Duration = Duration::from_micros(50);

/// Time scales to choose from.
pub const SCALES: [u32; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/// The time scale of a set-up: the smallest of [`SCALES`] at which this machine can forward its
/// packets on time.
///
/// packets/s = 2 · min(Σ rates of hosts that send, Σ rates of hosts that receive) / MTU, because each
/// data packet is answered.
pub fn time_scale(setup: &Setup) -> u32 {
    let network = &setup.network;
    let packet = network.mtu + network.framing;
    let hosts = network.hosts as usize;
    let (mut sends, mut receives) = (vec![false; hosts], vec![false; hosts]);
    for flow in &setup.workload.flows {
        sends[flow.src.index()] = true;
        receives[flow.dst.index()] = true;
    }
    let nic = |host: usize| network.nic_info(punctual_core::HostId::from(host)).rate;
    let sum = |which: &[bool]| {
        let rates = (0..hosts).filter(|host| which[*host]).map(|host| nic(host).as_bps());
        Rate::from_bps(rates.sum())
    };
    let most = sum(&sends).min(sum(&receives));
    let packets = 2.0 * most.as_bps() as f64 / (packet.get() * 8) as f64;
    let fastest = (0..hosts).map(nic).max().unwrap_or(Rate::from_bps(1));
    let has_kernel = setup.transports.iter().any(|t| t.name() == KernelTcp::STANDS_FOR);
    let per_second = if has_kernel { KERNEL_PACKETS_PER_SECOND } else { PACKETS_PER_SECOND };
    let by_load = packets / per_second as f64;
    let time = fastest.transmission_time(Bytes::new(packet.get())).as_secs_f64();
    let by_time = PACKET_TIME_MIN.as_secs_f64() / time;
    let needed = by_load.max(by_time);
    let fits = SCALES.into_iter().find(|scale| f64::from(*scale) >= needed);
    fits.unwrap_or_else(|| needed.ceil().min(1e6) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::tests::setup;

    /// 1,538 bytes take 12.304 us at 1 Gb/s: 81.3 thousand packets a second and link.
    #[test]
    fn time_scale__fits_packets_and_packet_times() {
        let incast: Vec<(u32, u32)> = (1..8).map(|host| (host, 0)).collect();
        let ring: Vec<(u32, u32)> = (0..8).map(|host| (host, (host + 1) % 8)).collect();
        // Eight links at 100 Mb/s: 130 thousand packets a second, 123 us each.
        assert_eq!(time_scale(&setup("ndp", 8, 100, &ring)), 1);
        // The kernel's TCP may have 75 thousand; a single link has 16 thousand.
        assert_eq!(time_scale(&setup("tcp", 8, 100, &ring)), 2);
        assert_eq!(time_scale(&setup("tcp", 8, 100, &incast)), 1);
        // Eight links at 1 Gb/s: 1.3 million packets a second, 8.7 times too many.
        assert_eq!(time_scale(&setup("ndp", 8, 1_000, &ring)), 10);
        // One link at 1 Gb/s is 8 % too much, but a packet takes 12 us instead of 50.
        assert_eq!(time_scale(&setup("ndp", 8, 1_000, &incast)), 5);
        assert_eq!(time_scale(&setup("ndp", 8, 10_000, &incast)), 50);
    }
}
