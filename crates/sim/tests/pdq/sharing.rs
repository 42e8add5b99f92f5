//! What users and other transports get beside it.

use super::*;

/// What a user gains by splitting a flow (§7): one host's 1 MB as n flows, against nine hosts with
/// 0.5 to 1.5 MB each.
#[test]
fn splitting_a_flow_pays() {
    let run = |pieces: u64| {
        let mut flows: Vec<FlowSpec> =
            (0..9u32).map(|n| flow(n + 1, 10, 500_000 + 125_000 * u64::from(n))).collect();
        flows.extend((0..pieces).map(|_| flow(0, 10, 1_000_000 / pieces)));
        let outcome = run(setup(one_switch(11), pdq(Pdq::default()), flows));
        let ended = |own: bool| {
            let of = outcome.flows.iter().filter(|f| (f.spec.src.0 == 0) == own);
            of.map(|f| f.ended.expect("ended").as_secs_f64() * 1e3).collect::<Vec<_>>()
        };
        let mine = ended(true).into_iter().fold(0.0, f64::max);
        let others = ended(false);
        (mine, others.iter().sum::<f64>() / others.len() as f64)
    };
    let (whole, others) = run(1);
    println!("1 MB whole: done at {whole:.1} ms, others {others:.1} ms on average");
    for pieces in [2, 4, 16] {
        let (split, others) = run(pieces);
        println!("in {pieces}: done at {split:.1} ms, others {others:.1} ms on average");
        assert!(split < whole);
    }
}

/// Beside other transports that never stop: PDQ yields, but not everything.
#[test]
fn beside_endless_flows_of_others() {
    for other in ["tcp", "dctcp"] {
        let mut flows = vec![flow(0, 3, u64::MAX), flow(1, 3, 2_000_000), flow(2, 3, 2_000_000)];
        for f in &mut flows[1..] {
            f.transport = punctual_core::TransportId(1);
            f.start = ms(20.0);
        }
        let transports = vec![transport(other), AnyTransport::Pdq(Pdq::default())];
        let mut setup = setup(one_switch(4), transports, flows);
        setup.stop.at = ms(5_000.0);
        let outcome = run(setup);
        let last = outcome.flows[1..].iter().filter_map(|f| f.ended).max().expect("ended");
        let took = last.saturating_since(ms(20.0)).as_secs_f64();
        let again: u32 = outcome.flows[1..].iter().map(|f| f.retransmits).sum();
        println!(
            "4 MB beside endless {other}: {:.1} ms, {:.0} Mb/s, {again} packets sent again",
            took * 1e3,
            4e6 * 8.0 / took / 1e6
        );
        assert!(outcome.flows[1..].iter().all(|f| f.status == FlowStatus::Completed));
    }
}
