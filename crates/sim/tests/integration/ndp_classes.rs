//! NDP beside TCP, with classes of their own and without; switches that trim in other ways.

use crate::common::*;
use punctual_core::{Bytes, FlowSpec, Limit, QueueSpec, TransportId, TrimModel};

/// Two flows of NDP and two of another transport to one host. Returns what each transport has
/// delivered between 100 and 300 ms, in Gb/s.
fn side_by_side(other: &str, queue: QueueSpec) -> [f64; 2] {
    let delivered = |run_ms: u64| -> [f64; 2] {
        let endless = |src, transport| FlowSpec {
            transport: TransportId(transport),
            ..flow(src, 0, u64::MAX)
        };
        let flows = vec![endless(1, 0), endless(2, 0), endless(3, 1), endless(4, 1)];
        let mut setup = setup(star(5, 9000), vec![transport("ndp"), transport(other)], flows);
        setup.switch_queue = queue;
        setup.stop = until_ms(run_ms);
        let outcome = run(setup);
        [0, 1].map(|t| {
            let of = outcome.flows.iter().filter(|f| f.spec.transport == TransportId(t));
            of.map(|f| f.delivered.get() as f64).sum::<f64>()
        })
    };
    let (early, late) = (delivered(100), delivered(300));
    [0, 1].map(|t| (late[t] - early[t]) * 8.0 / 0.2e9)
}

fn classes(trim_percent: u8) -> QueueSpec {
    let eight = Limit::Bytes(Bytes::new(72_000));
    QueueSpec::FairClasses {
        trim_data: eight,
        trim_headers: eight,
        rest: Limit::Packets(200),
        rest_mark_above: Some(Limit::Packets(30)),
        trim_percent,
    }
}

#[test]
fn in_classes_each_gets_its_share() {
    for other in ["tcp", "dctcp"] {
        for percent in [50, 25] {
            let [ndp, rest] = side_by_side(other, classes(percent));
            let share = ndp / (ndp + rest) * 100.0;
            println!(
                "NDP beside {other}, {percent} % for NDP: NDP {ndp:.2} Gb/s, {other} {rest:.2} \
                 Gb/s, NDP's share {share:.1} %"
            );
            assert!((share - f64::from(percent)).abs() <= 5.0, "{share}");
            assert!(ndp + rest > 8.5, "the link is used: {ndp} + {rest}");
        }
    }
}

/// NDP pulls as much as the link carries, whoever else uses it: TCP has less than half of its
/// fair share.
#[test]
fn without_classes_tcp_has_little() {
    let eight = Limit::Bytes(Bytes::new(72_000));
    let shared = QueueSpec::Trim { data: eight, headers: eight, mark_above: None };
    let [ndp, tcp] = side_by_side("tcp", shared);
    println!("NDP and TCP in one trimming queue: NDP {ndp:.2} Gb/s, TCP {tcp:.2} Gb/s");
    assert!(tcp < 2.5 && ndp + tcp > 9.5, "{ndp} {tcp}");
}

/// An incast of 32 × 90 KB on switches that trim in other ways.
#[test]
fn switches_that_trim_otherwise() {
    let bytes = |n| Limit::Bytes(Bytes::new(n));
    let model = |model, queue: u64, trim_to: u64| QueueSpec::TrimModel {
        model,
        data: bytes(queue),
        headers: bytes(queue),
        trim_to: Bytes::new(trim_to),
    };
    let cases = [
        ("the paper's, trimming to 64 B", 9064, model(TrimModel::Paper, 72_000, 64)),
        ("the paper's, to 128 B", 9064, model(TrimModel::Paper, 72_000, 128)),
        ("the paper's, to 206 B", 9064, model(TrimModel::Paper, 72_000, 206)),
        ("the paper's, to 256 B", 9064, model(TrimModel::Paper, 72_000, 256)),
        // Its 12 KB are eight packets of 1500 bytes.
        ("NetFPGA's, 12 KB", 1500, model(TrimModel::Netfpga, 12_000, 64)),
        ("NetFPGA's, 72 KB", 9064, model(TrimModel::Netfpga, 72_000, 64)),
        (
            "P4's, 8 packets",
            9064,
            QueueSpec::TrimModel {
                model: TrimModel::P4,
                data: Limit::Packets(8),
                headers: bytes(72_000),
                trim_to: Bytes::new(64),
            },
        ),
    ];
    for (name, mtu, queue) in cases {
        let flows = (1..=32).map(|s| flow(s, 0, 90_000)).collect();
        let mut setup = setup(star(33, mtu), vec![transport("ndp")], flows);
        setup.switch_queue = queue;
        let outcome = run(setup);
        let wire = 90_000 + 64 * 90_000u64.div_ceil(mtu - 64);
        let ideal = GBPS10.transmission_time(Bytes::new(32 * wire)).as_secs_f64() * 1e3;
        let last = outcome.flows.iter().map(|f| f.ended.expect("done")).max().expect("flows");
        let last = last.as_secs_f64() * 1e3;
        println!(
            "90 KB from 32 over {name}: {last:.3} ms ({:+.1} % of ideal), {} trimmed, {} returned, \
             {} dropped",
            (last / ideal - 1.0) * 100.0,
            outcome.totals.trims,
            outcome.totals.bounces,
            outcome.totals.drops
        );
        let QueueSpec::TrimModel { trim_to, .. } = queue else { unreachable!("a model") };
        // Headers take their time on the link too, and 0.1 ms are more than two round trips.
        let headers = GBPS10.transmission_time(trim_to) * outcome.totals.trims;
        let most = ideal + headers.as_secs_f64() * 1e3 + 0.1;
        assert!(last < most, "{name}: {last} against {most}");
    }
}
