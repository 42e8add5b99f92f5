//! Each transport names the cause of each retransmission.

use proptest::prelude::*;
use punctual_core::RetransmitCause::{self, Bounce, DuplicateAck, Nack, Timeout};
use punctual_core::{Bytes, Duration, Instant, Transport};
use punctual_testkit::{Fault, FaultOdds, FlowResult, Pair, PairPath};
use punctual_transports::TransportSettings;

/// About 270 packets.
const SIZE: Bytes = Bytes::new(400_000);

fn late() -> Instant {
    Instant::ZERO + Duration::from_secs(100)
}

fn finish<T: Transport + Clone>(
    config: &T,
    faults: impl FnMut(&punctual_core::Packet, u64) -> Fault + 'static,
) -> (FlowResult, usize) {
    let mut pair = Pair::new(config.clone(), PairPath { switches: 1, ..PairPath::default() });
    let flow = pair.start(pair.spec(SIZE));
    pair.set_faults(faults);
    assert!(pair.run_until_done(late()), "{}", T::INFO.name);
    let carries_data = |packet: &punctual_core::Packet| packet.payload_bytes > 0;
    let data = pair.trace().iter().filter(|t| carries_data(&t.packet)).count();
    (pair.result(flow).clone(), data)
}

/// Causes of the retransmissions when `fault` hits one data packet: the 60th, or the last.
fn causes<T: Transport + Clone>(config: &T, fault: Fault, is_last: bool) -> Vec<RetransmitCause> {
    let (clean, packets) = finish(config, |_, _| Fault::Deliver);
    assert_eq!(clean.retransmit_causes, [], "{}", T::INFO.name);
    let hit = if is_last { packets - 1 } else { 59 };
    let mut data = 0;
    let (result, _) = finish(config, move |packet, _| {
        data += usize::from(packet.payload_bytes > 0);
        let is_hit = packet.payload_bytes > 0 && data == hit + 1;
        if is_hit { fault } else { Fault::Deliver }
    });
    assert_eq!(result.retransmitted, result.retransmit_causes.len() as u64);
    result.retransmit_causes
}

fn is_found_by_acks_or_timeout<T: Transport + Clone>(config: &T) {
    assert_eq!(causes(config, Fault::Drop, false), [DuplicateAck], "{}", T::INFO.name);
    assert_eq!(causes(config, Fault::Drop, true), [Timeout], "{}", T::INFO.name);
}

/// A transport with its default parameters, named by its field of [`TransportSettings`].
macro_rules! with_defaults {
    ($field:ident, |$config:ident| $then:expr) => {{
        let $config = TransportSettings::default().$field;
        $then
    }};
}

#[test]
fn tcp_finds_a_loss_by_duplicate_acks_and_that_of_the_last_packet_by_timeout() {
    with_defaults!(tcp, |config| is_found_by_acks_or_timeout(&config));
    with_defaults!(tcppr, |config| is_found_by_acks_or_timeout(&config));
    with_defaults!(dctcp, |config| is_found_by_acks_or_timeout(&config));
    with_defaults!(dctcp_lossless, |config| is_found_by_acks_or_timeout(&config));
    with_defaults!(d2tcp, |config| is_found_by_acks_or_timeout(&config));
}

#[test]
fn mptcp_finds_a_loss_by_duplicate_acks_and_reinjects_after_a_timeout() {
    with_defaults!(mptcp, |config| {
        assert_eq!(causes(&config, Fault::Drop, false), [DuplicateAck]);
        // On its own subflow, and on another.
        assert_eq!(causes(&config, Fault::Drop, true), [Timeout, Timeout]);
    });
}

#[test]
fn paced_transports_find_a_loss_by_later_acks_and_that_of_the_last_packet_by_timeout() {
    with_defaults!(d3, |config| is_found_by_acks_or_timeout(&config));
    with_defaults!(rcpdc, |config| is_found_by_acks_or_timeout(&config));
    with_defaults!(rcp, |config| is_found_by_acks_or_timeout(&config));
    with_defaults!(pdq, |config| is_found_by_acks_or_timeout(&config));
    with_defaults!(m_pdq, |config| is_found_by_acks_or_timeout(&config));
}

#[test]
fn dcqcn_goes_back_after_a_nack_or_a_timeout() {
    with_defaults!(dcqcn, |config| {
        let gap = causes(&config, Fault::Drop, false);
        assert!(gap.len() > 1 && gap.iter().all(|cause| *cause == Nack), "{gap:?}");
        let tail = causes(&config, Fault::Drop, true);
        assert!(!tail.is_empty() && tail.iter().all(|cause| *cause == Timeout), "{tail:?}");
    });
}

#[test]
fn ndp_names_trims_bounces_and_losses() {
    with_defaults!(ndp, |config| {
        for is_last in [false, true] {
            assert_eq!(causes(&config, Fault::Trim, is_last), [Nack]);
            assert_eq!(causes(&config, Fault::Bounce, is_last), [Bounce]);
            assert_eq!(causes(&config, Fault::Drop, is_last), [Timeout]);
        }
    });
}

#[test]
fn phost_waits_for_its_receivers_timer() {
    with_defaults!(phost, |config| {
        assert_eq!(causes(&config, Fault::Drop, false), [Timeout]);
        assert_eq!(causes(&config, Fault::Drop, true), [Timeout]);
    });
}

/// Retransmissions of one kind of cause imply what reveals it.
fn causes_have_reasons<T: Transport + Clone>(config: &T, odds: FaultOdds, seed: u64) {
    let (result, _) = finish(config, odds.rule(seed));
    let count = |cause| result.retransmit_causes.iter().filter(|c| **c == cause).count() as u64;
    let all = count(Nack) + count(Bounce) + count(Timeout) + count(DuplicateAck);
    assert_eq!(all, result.retransmitted);
    assert!(count(Bounce) <= result.bounced, "{result:?}");
    assert!(count(Timeout) == 0 || result.timed_out > 0, "{result:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(32)))]

    #[test]
    fn retransmissions_have_the_cause_that_was_seen(
        (drop, trim, bounce) in (0.0..0.1, 0.0..0.1, 0.0..0.05),
        seed in any::<u64>(),
    ) {
        let lossy = FaultOdds { drop, ..FaultOdds::default() };
        let odds = FaultOdds { trim, bounce, ..lossy };
        with_defaults!(ndp, |config| causes_have_reasons(&config, odds, seed));
        with_defaults!(tcp, |config| causes_have_reasons(&config, lossy, seed));
        with_defaults!(mptcp, |config| causes_have_reasons(&config, lossy, seed));
        with_defaults!(d3, |config| causes_have_reasons(&config, lossy, seed));
        with_defaults!(m_pdq, |config| causes_have_reasons(&config, lossy, seed));
        with_defaults!(dcqcn, |config| causes_have_reasons(&config, lossy, seed));
    }
}
