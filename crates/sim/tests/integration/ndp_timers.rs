//! What NDP's retransmission timer may follow (NDP-R26), where headers wait long and where a link
//! is slow. A timeout is needless in all of these: nothing is lost.

use crate::common::*;
use punctual_core::{FlowSpec, Instant, PortId};
use punctual_net::Tier;
use punctual_sim::{LinkChange, LinkFault, Outcome};
use punctual_testkit::print_figure;
use punctual_transports::AnyTransport;
use punctual_transports::ndp::{NdpConfig, NdpTimer};

fn ndp(timer: NdpTimer, scoreboard: bool) -> AnyTransport {
    let AnyTransport::Ndp(config) = ndp_9k(23) else { unreachable!("ndp") };
    AnyTransport::Ndp(NdpConfig { timer: Some(timer), scoreboard, ..config })
}

fn timeouts(outcome: &Outcome) -> u64 {
    outcome.flows.iter().map(|f| u64::from(f.timeouts)).sum()
}

/// So many bytes from each of the last hosts of 432 to the first: timeouts, and the last end in ms.
fn incast(timer: NdpTimer, senders: u32, bytes: u64) -> (u64, f64) {
    let flows: Vec<FlowSpec> = (432 - senders..432).map(|s| flow(s, 0, bytes)).collect();
    let mut setup = setup(fat_tree(12, 9064), vec![ndp(timer, true)], flows);
    setup.check = false;
    let outcome = run(setup);
    let last = outcome.flows.iter().map(|f| f.ended.expect("done")).max().expect("flows");
    (timeouts(&outcome), last.as_secs_f64() * 1e3)
}

/// A permutation on 128 hosts for 20 ms, with a link from the core at a tenth of its rate.
fn slow_link(timer: NdpTimer) -> u64 {
    let network = fat_tree(8, 9064);
    let slow = network.links.iter().position(|l| l.tier == Tier::CoreDown).expect("a core");
    let mut setup = setup(network, vec![ndp(timer, false)], permutation(128, 1));
    setup.stop = until_ms(20);
    setup.check = false;
    let rate = punctual_core::Rate::from_gbps(1);
    let port = PortId::from(slow);
    setup.link_changes = vec![LinkChange { at: Instant::ZERO, port, what: LinkFault::Rate(rate) }];
    timeouts(&run(setup))
}

/// The default fires least; with a fixed timer every large incast fires.
#[test]
fn timers_where_nothing_is_lost() {
    let mut table =
        "| `timer` | timeouts: 135 KB from 129 | 450 KB from 431 | last ms | core link at \
                     1 Gb/s, no scoreboard |\n|---|--:|--:|--:|--:|\n"
            .to_owned();
    let (mut needless, mut beside_slow_link, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for (name, timer) in
        [("slowest", NdpTimer::Slowest), ("rtt", NdpTimer::Rtt), ("fixed", NdpTimer::Fixed)]
    {
        let (window, _) = incast(timer, 129, 135_000);
        let (long, last) = incast(timer, 431, 450_000);
        let slow = slow_link(timer);
        table += &format!("| `\"{name}\"` | {window} | {long} | {last:.2} | {slow} |\n");
        needless.push(window + long);
        beside_slow_link.push(slow);
        ends.push(last);
    }
    print_figure("ndp-timers", &table);
    assert_eq!(needless[0], 0, "the default");
    assert!(beside_slow_link[0] <= beside_slow_link[1], "no more than `rtt`: {beside_slow_link:?}");
    assert!(
        ends[0] <= ends[1],
        "with the default an incast ends no later than with `rtt`: {ends:?}"
    );
    assert!(needless[2] > 100, "a fixed timer fires while headers wait: {needless:?}");
}
