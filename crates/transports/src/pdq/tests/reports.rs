//! What a port reports for time series and `explain`.

use super::super::PdqHeader;
use super::bench::*;
use super::*;
use punctual_core::Controller;

fn gauges(bench: &Bench) -> Vec<(&'static str, f64)> {
    let mut gauges = Vec::new();
    bench.port.gauges(&mut |name, value| gauges.push((name, value)));
    gauges
}

fn flows_ahead(bench: &Bench, of: u32) -> Vec<u32> {
    let mut flows = Vec::new();
    bench.port.flows_ahead(FlowId(of), &mut |flow| flows.push(flow.0));
    flows
}

#[test]
fn gauges_count_listed_and_sending_flows() {
    let mut bench = Bench::new(brisk());
    let none = [("listed_flows", 0.0), ("sending_flows", 0.0), ("capacity_bps", 0.0)];
    assert_eq!(gauges(&bench), none);
    assert!(bench.port.list().is_empty());
    bench.exchange(1, PdqHeader { rate: LINE / 2, ..probe(10.0) });
    bench.exchange(2, PdqHeader { rate: LINE / 2, ..probe(20.0) });
    bench.exchange(3, probe(30.0));
    let three = [("listed_flows", 3.0), ("sending_flows", 2.0), ("capacity_bps", 1e9)];
    assert_eq!(gauges(&bench), three);
    assert!(!bench.port.list().is_empty());
    let state = bench.port.state();
    assert_eq!((state.flows, state.sending), (3, Some(2)));
}

#[test]
fn flows_ahead_are_the_more_critical_ones_that_send() {
    let mut bench = Bench::new(brisk());
    for (flow, round_trips) in [(1, 10.0), (2, 20.0), (3, 30.0), (4, 40.0)] {
        let rate = if flow == 3 { LINE } else { LINE / 4 };
        bench.exchange(flow, PdqHeader { rate, ..probe(round_trips) });
    }
    // Flow 3 gets the half that is left, and flow 4 nothing.
    assert_eq!(flows_ahead(&bench, 1), Vec::<u32>::new());
    assert_eq!(flows_ahead(&bench, 2), [1]);
    assert_eq!(flows_ahead(&bench, 4), [1, 2, 3]);
    assert_eq!(flows_ahead(&bench, 9), [1, 2, 3], "a flow beyond the list comes after all in it");
    assert!(bench.port.reads_answers());
}

/// Subflow 0 of flow 1, flow 5, then subflow 1 of flow 1 in order of criticality.
#[test]
fn flows_ahead_count_subflows_as_one_flow_and_never_their_own() {
    let mut bench = Bench::new(brisk());
    let of_subflow = |subflow, round_trips| PdqHeader {
        rate: LINE / 5,
        route: PdqHeader::route(0, subflow),
        ..probe(round_trips)
    };
    bench.exchange(1, of_subflow(0, 10.0));
    bench.exchange(5, of_subflow(0, 20.0));
    bench.exchange(1, of_subflow(1, 30.0));
    bench.exchange(2, of_subflow(0, 40.0));
    assert_eq!(bench.port.list().sending(), 4);
    assert_eq!(flows_ahead(&bench, 2), [1, 5]);
    assert_eq!(flows_ahead(&bench, 1), [5], "ahead of its last subflow");

    // A subflow that does not send does not hide one that does.
    let mut bench = Bench::new(brisk());
    bench.send(1, of_subflow(0, 10.0)); // accepted, its answer out
    bench.exchange(1, of_subflow(1, 30.0));
    bench.exchange(2, of_subflow(0, 40.0));
    assert_eq!(flows_ahead(&bench, 2), [1]);
}
