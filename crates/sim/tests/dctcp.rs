//! DCTCP in NDP's experiments.

mod common;

use common::*;
use punctual_core::{Bytes, Duration, FlowSpec, Instant};
use punctual_sim::{FlowStatus, Outcome};
use punctual_transports::AnyTransport;
use punctual_transports::mptcp::Mptcp;
use punctual_transports::tcp::{Dctcp, Tcp};

/// So many bytes from each of so many hosts to one: when each was done, in ms, sorted.
fn incast(k: u32, config: Dctcp, senders: u32, bytes: u64) -> (Vec<f64>, Outcome) {
    let flows: Vec<FlowSpec> = (1..=senders).map(|s| flow(s, 0, bytes)).collect();
    let mut setup = setup(fat_tree(k, 9064), vec![AnyTransport::Dctcp(config)], flows);
    setup.check = false;
    let outcome = run(setup);
    let ms = |at: Instant| at.saturating_since(Instant::ZERO).as_secs_f64() * 1e3;
    let mut ends: Vec<f64> = outcome.flows.iter().map(|f| ms(f.ended.expect("it ended"))).collect();
    ends.sort_by(f64::total_cmp);
    (ends, outcome)
}

/// What the line to the receiver needs for packets of 9000 B of data, in ms.
fn ideal_ms(senders: u32) -> f64 {
    f64::from(senders) * 50.0 * 9064.0 * 8.0 / 1e7
}

/// NDP's Figure 16 has last (first) at 38.4 (26.9), 76.4 (20.7) and 164.5 (23.9) ms, 5 % over what
/// the line needs. Here the line is never idle up to 201 senders. At 431 some lose their packets
/// four times in a row; their timeouts, 10, 20, 40 and 80 ms, end at 150 ms, and by then the line
/// has waited for them.
///
/// The program released with that paper sends a packet more than it is asked to, waits for 1 ms at
/// least instead of 10, and ends slow start at ten packets: most of the 5 % with few senders.
#[test]
fn incast_of_450_kb() {
    let bounded = Dctcp { rto_max: Duration::from_millis(40), ..Dctcp::default() };
    let program = Dctcp {
        rto_min: Duration::from_millis(1),
        initial_ssthresh: Some(Bytes::new(10 * 9_024)),
        ..Dctcp::default()
    };
    for (name, config, bytes) in [
        ("default", Dctcp::default(), 450_000),
        ("timeouts to 40 ms", bounded, 450_000),
        ("as NDP's program", program, 459_000),
    ] {
        for senders in [101, 201, 431] {
            let (ends, outcome) = incast(12, config.clone(), senders, bytes);
            let (first, last) = (ends[0], ends[ends.len() - 1]);
            let ideal = ideal_ms(senders);
            let timeouts: u32 = outcome.flows.iter().map(|f| f.timeouts).sum();
            let most = outcome.flows.iter().map(|f| f.timeouts).max().unwrap_or(0);
            println!(
                "{name}, {senders} senders: last {last:.1} ({:+.1} %), first {first:.1}, median \
                 {:.1} ms; ideal {ideal:.1}; {} drops, {timeouts} timeouts, {most} of one flow",
                (last / ideal - 1.0) * 100.0,
                ends[ends.len() / 2],
                outcome.totals.drops,
            );
            let over = last / ideal;
            if senders == 431 && name != "timeouts to 40 ms" {
                assert!((1.03..1.25).contains(&over) && most >= 4, "{over}, {most}");
            } else if name == "as NDP's program" {
                assert!((1.02..1.06).contains(&over), "{over}");
            } else {
                assert!((0.99..1.08).contains(&over), "{over}");
            }
        }
    }
}

/// With data in the queues of NICs every byte arrives once all the same, losses included: the
/// checkers watch.
#[test]
fn data_may_wait_at_nics() {
    let transports = [
        AnyTransport::Tcp(Tcp { small_queues: false, ..Tcp::default() }),
        AnyTransport::Dctcp(Dctcp { small_queues: false, ..Dctcp::default() }),
        AnyTransport::Mptcp(Mptcp { small_queues: false, ..Mptcp::default() }),
    ];
    for transport in transports {
        let flows: Vec<FlowSpec> = (1..16).map(|s| flow(s, 0, 2_000_000)).collect();
        let mut setup = setup(fat_tree(4, 1500), vec![transport], flows);
        setup.switch_queue = drop_tail(30);
        let outcome = run(setup);
        assert!(outcome.totals.drops > 0);
        assert!(outcome.flows.iter().all(|f| f.status == FlowStatus::Completed));
    }
}
