//! NDP with `path_window` (NDP-R28, NDP-R29): long paths are filled, losses cost little, and a
//! datacenter's incast stays as it is.

use crate::common::*;
use punctual_core::{Bytes, Duration, FlowSpec, Instant, PortId, Rate};
use punctual_net::{ClosLinks, ClosShape, Network};
use punctual_sim::{LinkChange, LinkFault, Outcome, Setup};
use punctual_transports::AnyTransport;
use punctual_transports::ndp::{HEADER_BYTES, NdpConfig};

const FILE: u64 = 20_000_000;
const MTU: u64 = 1500;

/// Two hosts on a switch: four links make a round trip.
fn two_hosts(rate: Rate, rtt: Duration) -> Network {
    let links = ClosLinks::uniform(rate, rtt / 4);
    ClosShape::star(2).build(&links, Bytes::new(MTU), Bytes::ZERO)
}

fn file(network: Network, config: NdpConfig, loss: f64, seed: u64) -> Setup {
    let links = network.links.len();
    let mut setup = setup(network, vec![AnyTransport::Ndp(config)], vec![flow(0, 1, FILE)]);
    setup.seed = seed;
    setup.stop = until_ms(100_000);
    if loss > 0.0 {
        let lossy = |port: usize| LinkChange {
            at: Instant::ZERO,
            port: PortId::from(port),
            what: LinkFault::Loss(loss),
        };
        setup.link_changes = (0..links).map(lossy).collect();
    }
    setup
}

fn seconds(outcome: &Outcome) -> f64 {
    outcome.flows[0].ended.expect("done").as_secs_f64()
}

#[test]
fn ndp_r28_fills_a_path_of_20_ms() {
    let (rate, rtt) = (Rate::from_mbps(200), Duration::from_millis(20));
    let took = seconds(&run(file(two_hosts(rate, rtt), NdpConfig::for_sockets(), 0.0, 1)));
    let payload = MTU - u64::from(HEADER_BYTES);
    let on_wire = FILE + FILE.div_ceil(payload) * u64::from(HEADER_BYTES);
    let ideal = rate.transmission_time(Bytes::new(on_wire)).as_secs_f64();
    assert!(took <= ideal / 0.8, "{took} s, ideally {ideal} s");
}

#[test]
fn ndp_r28_changes_nothing_where_the_initial_window_suffices() {
    let fixed = NdpConfig { path_window: None, ..NdpConfig::for_sockets() };
    let run_with = |config: NdpConfig| {
        let network = two_hosts(Rate::from_gbps(10), Duration::from_micros(10));
        seconds(&run(file(network, config, 0.0, 1)))
    };
    assert_eq!(run_with(NdpConfig::for_sockets()), run_with(fixed));
}

/// In an incast every slot for a pull is taken, so that none is spare.
#[test]
fn ndp_r28_an_incast_is_that_of_the_initial_window() {
    let incast = |path_window| {
        let config = NdpConfig { path_window, ..NdpConfig::default() };
        let flows: Vec<FlowSpec> = (1..33).map(|src| flow(src, 0, 450_000)).collect();
        let outcome = run(setup(star(33, MTU), vec![AnyTransport::Ndp(config)], flows));
        let last = outcome.flows.iter().map(|f| f.ended.expect("done")).max().expect("flows");
        (outcome.totals.trims, last.as_secs_f64())
    };
    let (fixed, following) = (incast(None), incast(Some(4096)));
    // What differs are losses noticed and timers; the windows do not.
    assert!(following.0 <= fixed.0 + fixed.0 / 20, "trims: {following:?}, not {fixed:?}");
    assert!(following.1 <= fixed.1 * 1.02, "the end: {following:?}, not {fixed:?}");
}

#[test]
fn ndp_r29_losses_never_take_twice_the_time() {
    let paths = [
        (Rate::from_gbps(1), Duration::from_micros(100)),
        (Rate::from_mbps(200), Duration::from_millis(20)),
    ];
    for (rate, rtt) in paths {
        let alone = seconds(&run(file(two_hosts(rate, rtt), NdpConfig::for_sockets(), 0.0, 1)));
        for loss in [0.0003, 0.001, 0.003, 0.01] {
            for seed in 1..=6 {
                // Each packet passes two links.
                let setup = file(two_hosts(rate, rtt), NdpConfig::for_sockets(), loss / 2.0, seed);
                let took = seconds(&run(setup));
                assert!(
                    took <= 2.0 * alone,
                    "{rate} {rtt} {loss} seed {seed}: {took}, not {alone}"
                );
            }
        }
    }
}

/// With a datacenter's parameters, on a datacenter's path.
#[test]
fn ndp_r07_losses_never_take_twice_the_time() {
    let network = || two_hosts(Rate::from_gbps(10), Duration::from_micros(10));
    let alone = seconds(&run(file(network(), NdpConfig::default(), 0.0, 1)));
    for loss in [0.0003, 0.001, 0.003, 0.01] {
        for seed in 1..=6 {
            let took = seconds(&run(file(network(), NdpConfig::default(), loss / 2.0, seed)));
            assert!(took <= 2.0 * alone, "{loss} seed {seed}: {took}, not {alone}");
        }
    }
}
