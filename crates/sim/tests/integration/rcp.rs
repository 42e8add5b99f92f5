//! RCP beside RCPdc, on D3's testbed.

use crate::common::*;
use punctual_core::{Bytes, Duration, FlowSpec, Instant, PortId, Rate};
use punctual_net::{ClosLinks, ClosShape, Network};
use punctual_sim::{FlowStatus, LinkChange, LinkFault, Sampling};

fn testbed(hosts: u32) -> Network {
    let links = ClosLinks::uniform(Rate::from_gbps(1), Duration::from_micros(120));
    ClosShape::star(hosts).build(&links, Bytes::new(1500), Bytes::new(38))
}

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// Payload in Gb/s from 100 to 300 ms, the mean queue in bytes with the packet in service, and, over
/// the whole run, the least flow's share of the largest's and packets sent again.
fn long_flows(name: &str, senders: u32) -> (f64, f64, f64, u32) {
    let flows = (1..=senders).map(|s| flow(s, 0, u64::MAX)).collect();
    let mut setup = setup(testbed(senders + 1), vec![transport(name)], flows);
    let port = setup.network.links[setup.network.nic(punctual_core::HostId(0)).index()].twin;
    setup.stop = until_ms(300);
    setup.measure.from = ms(100);
    setup.sampling = Some(Sampling { every: Duration::from_micros(37), ports: vec![port] });
    let outcome = run(setup);
    let goodput = outcome.totals.delivered_bytes as f64 * 8.0 / 0.2 / 1e9;
    let late = outcome.samples.iter().filter(|s| s.at >= ms(100));
    let queue: Vec<u64> = late.map(|s| s.queue_bytes).collect();
    let mean = queue.iter().sum::<u64>() as f64 / queue.len() as f64;
    let got = outcome.flows.iter().map(|f| f.delivered.get() as f64);
    let least = got.clone().fold(f64::MAX, f64::min);
    let again = outcome.flows.iter().map(|f| f.retransmits).sum();
    (goodput, mean, least / got.fold(0.0, f64::max), again)
}

/// RCPdc's flows share a full line alike and lose nothing: D3's Figure 16 has 0.95 ± 0.03 Gb/s.
/// RCP's ports do not count flows. Flows that start together send at line rate for three round trips
/// d of 0.5 ms, in which the port measures, stamps a request and is heard of: of n flows the queue
/// gets (n − 1)·187 KB, and has room for 128 KB. Its law,
/// `α(C − y) = β·q/d` at rest, leaves part of the line idle wherever packets meet:
/// `y = C − (β/α)·q/d`, with β/α = 10 and q the queue without the packet in service.
#[test]
fn long_flows_share_the_line() {
    for senders in [2, 5, 10, 20] {
        let (rcp, rcpdc) = (long_flows("rcp", senders), long_flows("rcpdc", senders));
        println!(
            "{senders} long flows, Gb/s, mean queue in B, least over most, sent again: RCP {rcp:.3?}, \
             RCPdc {rcpdc:.3?}"
        );
        assert!((0.92..=0.98).contains(&rcpdc.0), "{rcpdc:?}");
        // Shares are alike to a bit; what differs is when a flow starts, by up to three round
        // trips of 300 ms.
        assert!(rcpdc.2 >= 1.0 - 3.0 * 0.5 / 300.0 - 0.01, "{rcpdc:?}");
        assert_eq!(rcpdc.3, 0, "{rcpdc:?}");
        assert!(rcp.0 < rcpdc.0 && rcp.2 < rcpdc.2 + 0.01, "{rcp:?} {rcpdc:?}");
        assert!(rcp.3 > 0, "{rcp:?}");
        // 1438 of 1516 bytes on the line are data, and 1478 are in service while it is in use.
        let data = 1438.0 / 1516.0;
        let waiting = rcp.1 - rcp.0 / data * 1478.0;
        let at_rest = (1.0 - 10.0 * waiting * 8.0 / (500e-6 * 1e9)) * data;
        // The port measures q at the end of an interval, and d with its queues: to a twentieth.
        assert!((rcp.0 - at_rest).abs() <= 0.05, "{rcp:?}, where the law has {at_rest}");
    }
}

/// A lone short flow needs one round trip less than with RCPdc, which pauses it; many that start
/// together overrun the queue, which RCPdc's pause prevents.
#[test]
fn starting_at_the_line_rate_is_fast_alone_and_lossy_together() {
    let last = |name: &str, senders: u32| {
        let flows = (1..=senders).map(|s| flow(s, 0, 50_000)).collect();
        let outcome = run(setup(testbed(senders + 1), vec![transport(name)], flows));
        let ended = outcome.flows.iter().filter_map(|f| f.ended).max().unwrap() - ms(0);
        (ended.as_secs_f64() * 1e3, outcome.totals.drops)
    };
    for senders in [1, 5, 20, 40] {
        let (rcp, rcpdc) = (last("rcp", senders), last("rcpdc", senders));
        println!(
            "{senders} x 50 KB at once, last end in ms, drops: RCP {rcp:.2?}, RCPdc {rcpdc:.2?}"
        );
        match senders {
            1 => assert!(rcp.0 < rcpdc.0 - 0.4),
            40 => assert!(rcp.1 > 0 && rcpdc.1 == 0),
            _ => {}
        }
    }
}

#[test]
fn every_flow_ends_with_losses() {
    for loss in [0.0, 0.03] {
        let flows = (0..200u32)
            .map(|n| FlowSpec {
                deadline: Some(ms(0)),
                ..flow(1 + n % 20, 0, 1 + u64::from(n) * 250)
            })
            .collect();
        let mut setup = setup(testbed(21), vec![transport("rcp")], flows);
        let ports = setup.network.links.len() as u32;
        setup.link_changes = (0..ports)
            .map(|p| LinkChange { at: ms(0), port: PortId(p), what: LinkFault::Loss(loss) })
            .collect();
        setup.stop.at = ms(30_000);
        let outcome = run(setup);
        println!(
            "200 flows at once, {} % loss: all ended by {}",
            loss * 100.0,
            outcome.totals.ended_at
        );
        assert!(outcome.flows.iter().all(|f| f.status == FlowStatus::Completed));
    }
}
