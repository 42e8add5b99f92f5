//! Whatever happens on any subset of the paths, every byte arrives once, in one stream.

use super::*;
use proptest::prelude::*;
use punctual_testkit::{Fault, FaultOdds};

/// What each path does: nothing ever arrives, or some of it and late.
#[derive(Clone, Copy, Debug)]
struct PathFaults {
    dead: bool,
    /// It dies after so many packets.
    dies_after: Option<u64>,
    odds: FaultOdds,
}

fn path_faults() -> impl Strategy<Value = PathFaults> {
    let odds =
        (0.0..0.3, 0.0..0.2, 0.0..0.3, 1u64..400).prop_map(|(drop, duplicate, delay, micros)| {
            FaultOdds {
                drop,
                duplicate,
                delay,
                delay_below: Duration::from_micros(micros),
                ..FaultOdds::default()
            }
        });
    (prop::bool::weighted(0.2), prop::option::of(0u64..40), odds)
        .prop_map(|(dead, dies_after, odds)| PathFaults { dead, dies_after, odds })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(128)))]

    /// The last path loses packets, but lives.
    #[test]
    fn mptcp_r05_one_stream_whatever_paths_do(
        sizes in prop::collection::vec(0u64..150_000, 1..4),
        faults in prop::collection::vec(path_faults(), 1..6),
        subflows in 1u32..9,
        seed: u64,
        handshake: bool,
        delayed: bool,
        lia: bool,
        initial_window in 1u32..20,
    ) {
        let paths = faults.len() as u32;
        let config = MptcpConfig {
            // All paths, so that the one that lives is among them.
            subflows: subflows.max(paths),
            coupling: if lia { Coupling::Lia } else { Coupling::None },
            handshake,
            initial_window,
            delayed_ack: delayed.then_some(Duration::from_micros(200)),
            rto_max: Duration::from_millis(100),
            ..MptcpConfig::default()
        };
        let line = PairPath { delay: Duration::from_micros(5), paths, seed, ..PairPath::default() };
        let mut pair = Pair::new(config, line);
        let mut rules: Vec<_> =
            faults.iter().zip(seed..).map(|(f, seed)| f.odds.rule(seed)).collect();
        let mut passed = vec![0u64; faults.len()];
        let lives = faults.len() - 1;
        pair.set_faults(move |packet, index| {
            // Both ways by the sender's number of the subflow: a path is dead both ways.
            let path = usize::from(header(packet).subflow) % faults.len();
            passed[path] += 1;
            let PathFaults { dead, dies_after, .. } = faults[path];
            if path != lives && (dead || dies_after.is_some_and(|n| passed[path] > n)) {
                return Fault::Drop;
            }
            rules[path](packet, index)
        });
        let flows: Vec<_> = sizes.iter().map(|s| pair.start(pair.spec(Bytes::new(*s)))).collect();
        assert!(pair.run_until_done(late()), "unfinished");
        // Late packets find both ends in order.
        pair.run_until(pair.now() + Duration::from_secs(1));
        for (flow, size) in flows.iter().zip(&sizes) {
            // The pair has checked that no byte was delivered twice or past the end.
            prop_assert_eq!(pair.result(*flow).delivered.total(), *size);
            prop_assert_eq!(pair.receiver(*flow).unwrap().next_bytes(), *size);
            // What is acknowledged of the connection never falls.
            let of_flow = pair.trace().iter().filter(|t| t.packet.flow == *flow);
            let acked: Vec<u64> =
                of_flow.filter(|t| t.packet.is_to_sender()).map(|t| header(&t.packet).data).collect();
            prop_assert!(acked.is_sorted());
        }
    }

    #[test]
    fn header_goes_both_ways(segment: u64, data: u64, timestamp_picos: u64, flags: u8, subflow: u8) {
        let header =
            MptcpHeader { segment, data, timestamp_picos, flags, subflow, reserved: [0; 6] };
        prop_assert_eq!(punctual_core::Header::new(header).get::<MptcpHeader>(), header);
    }
}
