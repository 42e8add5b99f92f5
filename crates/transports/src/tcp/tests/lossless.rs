//! One test for each rule of DCTCP over lossless Ethernet in `rules.md`.

use super::*;

/// The two differ in when they time out, and in nothing that happens before.
#[test]
fn dctcpl_r01_otherwise_it_is_dctcp() {
    let lossless = DctcpLosslessConfig::default();
    assert_eq!(lossless.params(), DctcpConfig::default().params());
    for size in [1, 100_000, 3_000_000] {
        let (mut over_pfc, flow) = pair(lossless.clone(), Bytes::new(size));
        let (mut dctcp, _) = pair(DctcpConfig::default(), Bytes::new(size));
        assert!(over_pfc.run_until_done(late()) && dctcp.run_until_done(late()));
        assert_eq!(over_pfc.result(flow).finished_at, dctcp.result(flow).finished_at);
        assert_eq!(sent(&over_pfc), sent(&dctcp));
    }
}

#[test]
fn dctcpl_r02_default_queue_is_lossless_and_marks() {
    for mtu in [1500, 9000] {
        let queue =
            DctcpLosslessConfig::default().default_queue(Rate::from_gbps(10), Bytes::new(mtu));
        let expected = QueueSpec::Lossless {
            buffer: Bytes::new(10_000 * mtu),
            pause_above: Bytes::new(15 * mtu),
            resume_below: Bytes::new(12 * mtu),
            mark_above: Some(Limit::Packets(20)),
            red: None,
        };
        assert_eq!(queue, expected);
    }
}

/// A packet held up for 100 ms, as behind pauses, is waited for and not sent again.
#[test]
fn dctcpl_r03_waits_out_pauses() {
    let held_up = |config: DctcpLosslessConfig| {
        let mut pair = Pair::new(config, path());
        let hold = punctual_testkit::Fault::Delay(Duration::from_millis(100));
        pair.set_faults(
            move |packet, _| {
                if is_data(packet) { hold } else { punctual_testkit::Fault::Deliver }
            },
        );
        let flow = pair.start(pair.spec(packets(5)));
        assert!(pair.run_until_done(late()));
        (pair.result(flow).timed_out, sent(&pair).len())
    };
    assert_eq!(held_up(DctcpLosslessConfig::default()), (0, 5));
    let rto = Duration::from_millis(10);
    let hasty =
        DctcpLosslessConfig { rto_min: rto, rto_initial: rto, ..DctcpLosslessConfig::default() };
    assert!(held_up(hasty).1 > 5);
}
