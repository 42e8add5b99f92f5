//! Gauges: what transports say they are doing is what arithmetic says they do.

use crate::common::*;
use punctual_core::{Bytes, Duration, FlowId, FlowSpec, Instant, Rate};
use punctual_net::{ClosLinks, ClosShape, Network};
use punctual_sim::{GaugeOf, Outcome, Sampling};
use punctual_transports::AnyTransport;
use punctual_transports::phost::{PhostConfig, PhostVariant};

const GBPS: Rate = Rate::from_gbps(1);

/// Hosts on a switch, 1 Gb/s, 10 µs a link, nothing added to packets.
fn network(hosts: u32) -> Network {
    let links = ClosLinks::uniform(GBPS, Duration::from_micros(10));
    ClosShape::star(hosts).build(&links, Bytes::new(1500), Bytes::ZERO)
}

/// Samples the port to host 0 and all flows.
fn sampled(transport: AnyTransport, flows: Vec<FlowSpec>, every_us: u64, until_us: u64) -> Outcome {
    let network = network(5);
    let port = network.links[network.nic(punctual_core::HostId(0)).index()].twin;
    let ids = (0..flows.len()).map(FlowId::from).collect();
    let mut setup = setup(network, vec![transport], flows);
    let every = Duration::from_micros(every_us);
    setup.sampling = Some(Sampling { every, ports: vec![port] });
    setup.sampled_flows = ids;
    setup.stop.at = Instant::ZERO + Duration::from_micros(until_us);
    run(setup)
}

/// The values of a gauge, by time.
fn series(outcome: &Outcome, name: &str, of: impl Fn(GaugeOf) -> bool) -> Vec<f64> {
    let of = outcome.gauges.iter().filter(|g| g.name == name && of(g.of));
    of.map(|g| g.value).collect()
}

fn sender(n: u32) -> impl Fn(GaugeOf) -> bool {
    move |of| of == GaugeOf::Sender(FlowId(n))
}

fn is_port(of: GaugeOf) -> bool {
    matches!(of, GaugeOf::Port(_))
}

fn last(values: &[f64]) -> f64 {
    *values.last().expect("it was sampled")
}

#[test]
fn nothing_is_asked_without_sampling() {
    let mut setup = setup(network(3), vec![transport("d3")], vec![flow(1, 0, 50_000)]);
    setup.sampled_flows = vec![FlowId(0)];
    assert!(run(setup).gauges.is_empty());
}

/// It begins with ten segments and grows by what is acknowledged while it is what limits the flow:
/// a round trip of 65 µs holds less than six.
#[test]
fn tcp_window_grows_in_segments() {
    let outcome = sampled(transport("tcp"), vec![flow(1, 0, 10_000_000)], 10, 1_000);
    let windows = series(&outcome, "cwnd_bytes", sender(0));
    assert_eq!((windows.len(), windows[0]), (100, 14_600.0));
    assert!(windows.windows(2).all(|pair| pair[1] >= pair[0]), "no loss in an empty network");
    assert!(windows.iter().all(|w| (w / 1460.0).fract() == 0.0), "{windows:?}");
    assert!(last(&windows) > windows[0]);
    assert_eq!(series(&outcome, "ssthresh_bytes", sender(0)).len(), 100);
}

/// The star has one path, so the connection has one subflow, and its window is TCP's.
#[test]
fn mptcp_window_is_that_of_its_subflows() {
    let gauges = |name| sampled(transport(name), vec![flow(1, 0, 10_000_000)], 10, 1_000);
    let (multi, tcp) = (gauges("mptcp"), gauges("tcp"));
    let windows = series(&multi, "cwnd_bytes", sender(0));
    assert_eq!(windows, series(&tcp, "cwnd_bytes", sender(0)));
    let flights = series(&multi, "flight_bytes", sender(0));
    assert!(last(&flights) > 0.0 && flights.iter().zip(&windows).all(|(f, w)| f <= w));
    assert!(series(&multi, "stuck_subflows", sender(0)).iter().all(|stuck| *stuck == 0.0));
}

/// Without marks alpha falls by g a window from 1; with D2TCP and no deadline d is 1 and the
/// penalty is alpha.
#[test]
fn dctcp_alpha_and_d2tcp_penalty() {
    let flows = || vec![flow(1, 0, 2_000_000)];
    let outcome = sampled(transport("dctcp"), flows(), 100, 10_000);
    let alpha = series(&outcome, "alpha", sender(0));
    assert_eq!(outcome.totals.marks, 0);
    assert!(alpha[0] == 1.0 && alpha.windows(2).all(|pair| pair[1] <= pair[0]), "{alpha:?}");
    let step = alpha.windows(2).find(|pair| pair[1] < pair[0]).expect("it decays");
    // One or several windows in a sample, each by 15/16 to the next multiple of 2⁻²⁰.
    let windows = (step[1] / step[0]).ln() / (15.0f64 / 16.0).ln();
    assert!((windows - windows.round()).abs() < 1e-3, "{step:?}");

    let outcome = sampled(transport("d2tcp"), flows(), 100, 10_000);
    let (d, alpha) = (series(&outcome, "d", sender(0)), series(&outcome, "alpha", sender(0)));
    let penalty = series(&outcome, "penalty", sender(0));
    assert!(d.iter().all(|d| *d == 1.0));
    assert!(alpha.iter().zip(&penalty).all(|(a, p)| (a - p).abs() < 2e-5), "{alpha:?} {penalty:?}");
    assert_eq!(
        alpha,
        series(&sampled(transport("dctcp"), flows(), 100, 10_000), "alpha", sender(0))
    );
}

/// A lone flow of DCQCN is never marked: it stays at the line's rate and α as it was.
#[test]
fn dcqcn_rate_is_the_lines_until_a_mark() {
    let outcome = sampled(transport("dcqcn"), vec![flow(1, 0, 5_000_000)], 100, 3_000);
    for (name, value) in [("rate_bps", 1e9), ("target_bps", 1e9), ("alpha", 1.0)] {
        let values = series(&outcome, name, sender(0));
        assert!(values.len() > 10 && values.iter().all(|v| *v == value), "{name}: {values:?}");
    }
}

/// Two flows into one port are marked: the first to get a mark, while alpha is 1, halves its rate.
/// The target is what it was before, and nobody is ever above the line.
#[test]
fn dcqcn_rates_fall_when_marked() {
    let flows = vec![flow(1, 0, 5_000_000), flow(2, 0, 5_000_000)];
    let outcome = sampled(transport("dcqcn"), flows, 20, 10_000);
    let mut least = 1e9f64;
    for n in 0..2 {
        let (rate, target) =
            (series(&outcome, "rate_bps", sender(n)), series(&outcome, "target_bps", sender(n)));
        assert_eq!((rate[0], target[0]), (1e9, 1e9));
        assert!(rate.iter().zip(&target).all(|(r, t)| r <= t && *t <= 1e9));
        // α falls by a 256th of itself each 55 µs, and a notification, each 50 µs at most, takes it
        // a 256th of the way to 1: between samples 20 µs apart each happens once at most.
        let alpha = series(&outcome, "alpha", sender(n));
        let is_step = |pair: &[f64]| (pair[1] - pair[0]).abs() <= 1.0 / 256.0 + 1e-6;
        assert!(alpha[0] == 1.0 && alpha.windows(2).all(is_step), "{alpha:?}");
        let cut = rate.iter().position(|r| *r < 1e9);
        assert!(cut.is_none_or(|cut| rate[cut] == 0.5e9 && target[cut] == 1e9), "{rate:?}");
        assert!(cut.is_none() || last(&alpha) < 1.0, "{alpha:?}");
        least = rate.iter().copied().fold(least, f64::min);
    }
    assert!(least <= 0.5e9, "{least}");
}

/// DCTCP over PFC tells what DCTCP does, and goes on doing so while its link is paused.
#[test]
fn dctcp_lossless_tells_windows_and_alpha_under_pauses() {
    let flows = (1..4).map(|n| flow(n, 0, 1_000_000)).collect();
    let outcome = sampled(transport("dctcp-lossless"), flows, 100, 10_000);
    assert!(outcome.totals.pauses > 0 && outcome.totals.marks > 0);
    for n in 0..3 {
        let (alpha, cwnd) =
            (series(&outcome, "alpha", sender(n)), series(&outcome, "cwnd_bytes", sender(n)));
        // Windows without a mark bring α down from 1, by a 16th each, and never to 0.
        assert!(alpha.len() > 10 && alpha.iter().all(|a| *a > 0.0), "{alpha:?}");
        assert!(alpha.iter().any(|a| *a < 1.0), "{alpha:?}");
        assert!(cwnd.len() == alpha.len() && cwnd.iter().all(|w| *w >= 1460.0), "{cwnd:?}");
    }
}

/// A lone flow of pHost uses its tokens as they come; what is missing falls, by packets.
#[test]
fn phost_tokens_are_used_as_they_come() {
    let outcome = sampled(transport("phost"), vec![flow(1, 0, 5_000_000)], 100, 3_000);
    let used = series(&outcome, "tokens_used", sender(0));
    assert!(used.len() > 10 && used.windows(2).all(|w| w[1] >= w[0]) && last(&used) > 100.0);
    assert!(series(&outcome, "tokens_expired", sender(0)).iter().all(|n| *n == 0.0));
    assert!(series(&outcome, "tokens_held", sender(0)).iter().all(|n| *n <= 1.0));
    let receiver = |of| of == GaugeOf::Receiver(FlowId(0));
    let missing = series(&outcome, "missing_packets", receiver);
    assert!(missing.windows(2).all(|w| w[1] < w[0]), "{missing:?}");
    let outstanding = series(&outcome, "tokens_outstanding", receiver);
    assert!(outstanding.iter().all(|n| *n <= 8.0), "{outstanding:?}");
    assert!(series(&outcome, "round_trip_us", receiver).is_empty());

    // As NDP's paper ran it receivers also tell the round trip they go by: 40 B there, 1,500 B
    // back, over two links each.
    let phost = PhostConfig { variant: PhostVariant::NdpPaper, ..PhostConfig::default() };
    let flows = vec![flow(1, 0, 5_000_000)];
    let outcome = sampled(AnyTransport::Phost(phost), flows, 100, 3_000);
    let trips = series(&outcome, "round_trip_us", receiver);
    assert!((last(&trips) - 2.0 * (0.32 + 10.0 + 12.0 + 10.0)).abs() < 1e-6, "{trips:?}");
}

/// A lone deadline flow: N = 1, D is what it desires, and what the port has handed out is what it
/// holds, up to the line's rate.
#[test]
fn d3_ports_hand_out_what_senders_hold() {
    let deadline = Some(Instant::ZERO + Duration::from_millis(100));
    let flows = vec![FlowSpec { deadline, ..flow(1, 0, 5_000_000) }];
    let outcome = sampled(transport("d3"), flows, 1_000, 10_000);
    let of_port = |name| series(&outcome, name, is_port);
    let of_sender = |name| series(&outcome, name, sender(0));
    assert_eq!(of_port("flows"), [1.0; 10]);
    assert_eq!(of_sender("paused"), [0.0; 10]);
    // 5 MB and 40 bytes on each 1460, less what a millisecond carries, in 99 ms less two round
    // trips.
    let desired = of_sender("desired_bps");
    let expected = (5e6 * 8.0 * 1500.0 / 1460.0 - 0.9e6) / (99e-3 - 2.0 * 65e-6);
    assert!((desired[0] / expected - 1.0).abs() < 0.01, "{} {expected}", desired[0]);
    assert!(desired.windows(2).all(|pair| pair[1] < pair[0]), "it gets more than it needs");
    for (at_port, at_sender) in of_port("demand_bps").iter().zip(&desired) {
        assert!((at_port / at_sender - 1.0).abs() < 0.01, "{at_port} {at_sender}");
    }
    for (held, granted) in of_port("allocated_bps").iter().zip(of_sender("granted_bps")) {
        assert_eq!(held.min(1e9), granted);
    }
    assert!(of_port("capacity_bps").iter().all(|c| (0.9e9..=2e9).contains(c)));
}

/// Of two PDQ flows the shorter sends at the line's rate and the other is paused by the port where
/// they meet, or before by none; the port lists both and lets one send.
#[test]
fn pdq_lets_one_of_two_send() {
    let flows = vec![flow(1, 0, 1_000_000), flow(2, 0, 2_000_000)];
    let outcome = sampled(transport("pdq"), flows, 500, 6_000);
    let port = outcome.gauges.iter().find(|g| is_port(g.of)).expect("a port").of;
    let GaugeOf::Port(port) = port else { unreachable!("a port") };
    assert_eq!(last(&series(&outcome, "listed_flows", is_port)), 2.0);
    assert_eq!(last(&series(&outcome, "sending_flows", is_port)), 1.0);
    assert_eq!(last(&series(&outcome, "paused", sender(0))), 0.0);
    assert_eq!(last(&series(&outcome, "paused", sender(1))), 1.0);
    assert_eq!(last(&series(&outcome, "granted_bps", sender(1))), 0.0);
    assert_eq!(last(&series(&outcome, "pausing_port", sender(1))), f64::from(port.0));
    let capacity = last(&series(&outcome, "capacity_bps", is_port));
    assert_eq!(last(&series(&outcome, "granted_bps", sender(0))), capacity);
    assert!((0.8e9..=1e9).contains(&capacity), "{capacity}");
}

/// RCP's senders hold what the port stamps.
#[test]
fn rcp_ports_stamp_what_senders_hold() {
    let flows = (1..=2).map(|s| flow(s, 0, 20_000_000)).collect();
    let outcome = sampled(transport("rcp"), flows, 1_000, 60_000);
    let rates = series(&outcome, "rate_bps", is_port);
    for n in 0..2 {
        // While the port finds its rate, a sample sees the same at both; later a sender is a
        // round trip behind.
        let granted = series(&outcome, "granted_bps", sender(n));
        assert_eq!(granted[1..5], rates[1..5]);
        assert!(granted[20..].iter().all(|rate| (0.1e9..0.6e9).contains(rate)), "{granted:?}");
    }
}

/// NDP never has more than its first window under way, and one host's pulls wait together.
#[test]
fn ndp_outstanding_and_pulls() {
    let flows = (1..=4).map(|s| flow(s, 0, 1_000_000)).collect();
    let outcome = sampled(transport("ndp"), flows, 50, 5_000);
    let window = match transport("ndp") {
        AnyTransport::Ndp(ndp) => f64::from(ndp.initial_window),
        _ => unreachable!("ndp"),
    };
    for n in 0..4 {
        let outstanding = series(&outcome, "outstanding_packets", sender(n));
        assert!(outstanding.iter().all(|packets| *packets <= window), "{outstanding:?}");
        assert!(outstanding.iter().any(|packets| *packets > 0.0));
    }
    let waiting = |n: u32| {
        let of = move |of| of == GaugeOf::Receiver(FlowId(n));
        series(&outcome, "host_pulls_waiting", of)
    };
    assert!(waiting(0).iter().any(|pulls| *pulls > 0.0), "an incast queues pulls");
    assert_eq!(last(&waiting(0)), last(&waiting(3)));
}
