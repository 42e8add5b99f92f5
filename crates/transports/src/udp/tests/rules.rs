//! One test a rule of `rules.md`, and what follows from them.

use super::*;
use crate::udp::UdpError;
use punctual_testkit::{Fault, FaultOdds};

#[test]
fn udp_r01_datagrams_leave_by_the_clock() {
    let mut pair = pair();
    let size = 10 * payload(&pair) + 300;
    let flow = pair.start(pair.spec(Bytes::new(size)));
    assert!(pair.run_until_done(ms(100)));
    let line = *pair.path();
    let full = line.mtu + line.framing;
    // Ten gaps at the flow's rate, then the last and shorter one passes the line.
    let gaps = RATE.transmission_time(full).as_picos() * 10;
    let last = line.transmission_time(300 + u64::from(UDP_IP_HEADER_BYTES)).as_picos();
    let hops = line.switches as u64 + 1;
    let expected = gaps + hops * (last + line.delay.as_picos());
    assert_eq!(pair.result(flow).completed_at.map(Instant::as_picos), Some(expected));
    assert_eq!(pair.trace().len() as u64, 11 * hops);
}

#[test]
fn udp_r02_complete_when_every_byte_is_there() {
    let mut pair = pair();
    let odds = FaultOdds { duplicate: 0.3, delay: 0.3, ..FaultOdds::default() };
    pair.set_faults(odds.rule(7));
    let flow = pair.start(pair.spec(Bytes::new(200_000)));
    assert!(pair.run_until_done(ms(1_000)));
    assert!(pair.result(flow).completed_at.is_some());
    assert_eq!(pair.result(flow).delivered.total(), 200_000);
}

#[test]
fn udp_r03_what_is_lost_stays_lost() {
    let mut pair = pair();
    let lost = payload(&pair);
    pair.set_faults(|_, n| if n == 3 { Fault::Drop } else { Fault::Deliver });
    let flow = pair.start(pair.spec(Bytes::new(100_000)));
    assert!(pair.run_until_done(ms(1_000)), "the sender forgets it");
    let result = pair.result(flow);
    assert_eq!(result.completed_at, None);
    assert_eq!(result.delivered.total(), 100_000 - lost);
    let sent = 100_000u64.div_ceil(lost);
    let last_at = RATE.transmission_time(pair.path().mtu + pair.path().framing).as_picos();
    let linger = UdpConfig::default().linger.as_picos();
    assert_eq!(result.abandoned_at.map(Instant::as_picos), Some((sent - 1) * last_at + linger));
}

#[test]
fn udp_r04_datagrams_can_be_trimmed() {
    use punctual_core::{PacketFlags, QueueSpec, Transport};
    for trimmable in [false, true] {
        let config = UdpConfig { rate: RATE, trimmable, ..UdpConfig::default() };
        let queue = config.default_queue(Rate::from_gbps(10), Bytes::new(1500));
        assert_eq!(matches!(queue, QueueSpec::Trim { .. }), trimmable);
        let mut pair =
            Pair::new(config, PairPath { rate: Rate::from_gbps(1), ..PairPath::default() });
        let lost = payload(&pair);
        pair.set_faults(|_, n| if n == 3 { Fault::Trim } else { Fault::Deliver });
        let flow = pair.start(pair.spec(Bytes::new(100_000)));
        assert!(pair.run_until_done(ms(1_000)));
        assert!(
            pair.trace()
                .iter()
                .all(|t| { t.packet.flags.has(PacketFlags::TRIMMABLE) == trimmable })
        );
        // Nothing is sent again, whoever was told.
        assert_eq!(pair.result(flow).delivered.total(), 100_000 - lost);
    }
}

/// Half of everything is lost, for long: what the receiver keeps stays small, and it counts right.
#[test]
fn losses_do_not_pile_up() {
    let mut pair = pair();
    pair.set_faults(|_, n| if n % 2 == 1 { Fault::Drop } else { Fault::Deliver });
    let flow = pair.start(pair.spec(Bytes::new(3_400 * payload(&pair))));
    pair.run_until(ms(390));
    let gaps = pair.receiver(flow).expect("open").received.iter().count();
    assert!(gaps <= crate::udp::GAPS_MAX, "{gaps}");
    assert!(pair.run_until_done(ms(1_000)));
    assert_eq!(pair.result(flow).delivered.total(), 1_700 * payload(&pair));
}

#[test]
fn a_rate_of_nothing_is_refused() {
    assert_eq!(UdpConfig { rate: Rate::ZERO, ..UdpConfig::default() }.validate(), Err(UdpError));
}
