//! What users and other transports get beside it.

use super::*;
use punctual_sim::{LinkChange, LinkFault};

/// When the last of one user's pieces is done, and when others' flows are on average, in ms: 1 MB
/// in `pieces` from one host, or each from a host of its own, against nine hosts with 0.5 to 1.5
/// MB each.
fn split(pieces: u64, spread: bool, config: PdqConfig) -> (f64, f64) {
    let others = 9;
    let mut flows: Vec<FlowSpec> =
        (0..others).map(|n| flow(n + 1, 0, 500_000 + 125_000 * u64::from(n))).collect();
    flows.extend((0..pieces as u32).map(|n| {
        let src = 1 + others + if spread { n } else { 0 };
        // The last piece takes what does not divide.
        let rest = if n == 0 { 1_000_000 % pieces } else { 0 };
        flow(src, 0, 1_000_000 / pieces + rest)
    }));
    let hosts = 2 + others + pieces as u32;
    let outcome = run(setup(one_switch(hosts), pdq(config), flows));
    let ended = |own: bool| {
        let of = outcome.flows.iter().filter(|f| (f.spec.src.0 > others) == own);
        of.map(|f| f.ended.expect("ended").as_secs_f64() * 1e3).collect::<Vec<_>>()
    };
    let mine = ended(true).into_iter().fold(0.0, f64::max);
    let theirs = ended(false);
    (mine, theirs.iter().sum::<f64>() / theirs.len() as f64)
}

/// What a user gains by splitting a flow (§7), and what of that is left where sizes are not
/// believed but guessed from what was sent.
#[test]
fn splitting_a_flow_pays() {
    use punctual_transports::pdq::Criticality;
    println!("1 MB done, ms (nine others on average), by pieces:");
    let believed = PdqConfig::default();
    let guessed = PdqConfig { criticality: Criticality::Estimated, ..PdqConfig::default() };
    let random = PdqConfig { criticality: Criticality::Random, ..PdqConfig::default() };
    let cases = [
        ("from one host", false, &believed),
        ("from many hosts", true, &believed),
        ("from one host, sizes guessed", false, &guessed),
        ("from one host, random", false, &random),
    ];
    for (name, spread, config) in cases {
        let done = [1, 2, 4, 8, 16].map(|pieces| (pieces, split(pieces, spread, config.clone())));
        let cells = done.map(|(n, (mine, others))| format!("{n}: {mine:.1} ({others:.1})"));
        println!("{name:<30}{}", cells.join("  "));
        let of = |place: usize| done[place].1.0;
        if *config == believed {
            assert!(of(1) < 0.5 * of(0), "two pieces are the two shortest flows");
            assert!((8.0..12.0).contains(&of(2)), "four go first, at the line's rate");
            let slower = done[4].1.1 - done[0].1.1;
            assert!((3.0..7.0).contains(&slower), "others wait for them: {slower}");
        }
    }
}

/// Beside other transports that never stop: PDQ yields, but not everything. TCP at exactly the
/// bottleneck's rate keeps a drop-tail queue one packet short of full: each packet comes as one
/// leaves, so that PDQ's alone are lost. Clocks that differ by 100 ppm, as real ones may, end that.
#[test]
fn beside_endless_flows_of_others() {
    let mut taken = Vec::new();
    for (other, clock_off_ppm) in [("tcp", 0), ("tcp", 100), ("dctcp", 0), ("dctcp", 100)] {
        let mut flows = vec![flow(0, 3, u64::MAX), flow(1, 3, 2_000_000), flow(2, 3, 2_000_000)];
        for f in &mut flows[1..] {
            f.transport = punctual_core::TransportId(1);
            f.start = ms(20.0);
        }
        let transports = vec![transport(other), AnyTransport::Pdq(PdqConfig::default())];
        let mut setup = setup(one_switch(4), transports, flows);
        let rate = Rate::from_bps(1_000_000_000 - 1_000 * clock_off_ppm);
        let (port, what) = (setup.network.nic(punctual_core::HostId(0)), LinkFault::Rate(rate));
        setup.link_changes = vec![LinkChange { at: ms(0.0), port, what }];
        setup.stop.at = ms(5_000.0);
        let outcome = run(setup);
        let last = outcome.flows[1..].iter().filter_map(|f| f.ended).max().expect("ended");
        let took = last.saturating_since(ms(20.0)).as_secs_f64();
        let again: u32 = outcome.flows[1..].iter().map(|f| f.retransmits).sum();
        println!(
            "4 MB beside endless {other}, clocks {clock_off_ppm} ppm apart: {:.1} ms, {:.0} Mb/s, \
             {again} packets sent again",
            took * 1e3,
            4e6 * 8.0 / took / 1e6
        );
        assert!(outcome.flows[1..].iter().all(|f| f.status == FlowStatus::Completed));
        taken.push(took);
    }
    assert!(taken[1] < 0.5, "with clocks apart it has near a tenth of the line: {taken:?}");
    assert!(taken[2] < 0.4 && taken[3] < 0.4, "{taken:?}");
}
