//! What goes over the wire, and what comes from a file.

use super::super::header::{
    deadline_field, earlier, expected_field, kbps, rate, rtt_field, time_field,
};
use super::super::{Criticality, HEADER_BYTES, NO_DEADLINE, PdqConfig, PdqVariant};
use super::*;
use punctual_core::{Limit, QueueSpec, Transport};
use serde::Deserialize;
use serde::de::value::{Error as ValueError, MapDeserializer};

#[test]
fn fields_saturate_and_round() {
    assert_eq!(HEADER_BYTES, 60);
    assert_eq!(size_of::<PdqHeader>(), 32);
    assert_eq!(rate(kbps(GBPS)), GBPS);
    assert_eq!(kbps(Rate::from_bps(1_999)), 1);
    assert_eq!(kbps(Rate::from_bps(u64::MAX)), u32::MAX);
    assert_eq!(deadline_field(None, seconds(1)), NO_DEADLINE);
    assert_eq!(deadline_field(Some(at_us(11)), at_us(0)), 2);
    assert_eq!(expected_field(Duration::MAX), u32::MAX);
    assert_eq!(expected_field(Duration::from_picos(1)), 1);
    assert_eq!(rtt_field(Duration::from_picos(1)), 1);
    assert_eq!(rtt_field(Duration::ZERO), 0);
    let (a, b) = (time_field(seconds(4)), time_field(seconds(5)));
    assert!(b < a && earlier(a, b) && !earlier(b, a) && !earlier(a, a));
}

/// Deadlines on the wire are modulo 2³² units of 10 µs, and at most a quarter of that away: a port with
/// another clock orders them rightly.
#[test]
fn deadlines_wrap_around_and_stay_near() {
    const UNITS_PER_SECOND: u64 = 100_000;
    for hours in [0, 10, 12, 24, 100 * 24] {
        let now = seconds(hours * 3_600);
        let units = now.as_secs_f64() as u64 * UNITS_PER_SECOND;
        let field = |at: Instant| deadline_field(Some(at), now).wrapping_sub(units as u32) as i32;
        assert_eq!(field(now + Duration::from_millis(20)), 2_000);
        assert_eq!(field(now), 0);
        assert_eq!(field(Instant::NEVER), 1 << 30);
        let past = i32::try_from(units.min(1 << 30)).unwrap();
        assert_eq!(field(Instant::ZERO), -past);
    }
    // The field of a deadline is never that of none.
    let last = Instant::from_picos(u64::from(NO_DEADLINE) * 10_000_000);
    assert_eq!(deadline_field(Some(last), last), NO_DEADLINE - 1);
}

#[test]
fn params_bad_values_are_named() {
    let d = PdqConfig::default;
    assert_eq!(d().validate(), Ok(()));
    let zero = Duration::ZERO;
    for (pdq, name) in [
        (PdqConfig { estimate_step: Bytes::ZERO, ..d() }, "estimate_step"),
        (PdqConfig { aging: -1.0, ..d() }, "aging"),
        (PdqConfig { early_start: f64::NAN, ..d() }, "early_start"),
        (PdqConfig { probe_spread: -0.1, ..d() }, "probe_spread"),
        (PdqConfig { dampening: 11.0, ..d() }, "dampening"),
        (PdqConfig { list_min: 0, ..d() }, "list_min"),
        (PdqConfig { list_max: 63, ..d() }, "list_max"),
        (PdqConfig { update_rtts: 0.0, ..d() }, "update_rtts"),
        (PdqConfig { rtt_initial: zero, ..d() }, "rtt_initial"),
        (PdqConfig { purge_intervals: 1, ..d() }, "purge_intervals"),
        (PdqConfig { share_min: 0.0, ..d() }, "share_min"),
        (PdqConfig { rcp_alpha: 2.0, ..d() }, "rcp_alpha"),
        (PdqConfig { rcp_beta: -1.0, ..d() }, "rcp_beta"),
        (PdqConfig { receiver_rate: Some(Rate::ZERO), ..d() }, "receiver_rate"),
        (PdqConfig { buffer: Bytes::ZERO, ..d() }, "buffer"),
        (PdqConfig { rto_min: zero, ..d() }, "rto_min"),
        (PdqConfig { rto_initial: zero, ..d() }, "rto_initial"),
        (PdqConfig { rto_max: zero, ..d() }, "rto_max"),
        (PdqConfig { rto_max: Duration::from_secs(2), ..d() }, "rto_max"),
        (PdqConfig { loss_threshold: 0, ..d() }, "loss_threshold"),
    ] {
        let error = pdq.validate().unwrap_err();
        assert_eq!(error.name, name);
        assert!(error.to_string().contains("must be"), "{error}");
    }
}

#[test]
fn params_are_checked_when_read() {
    let read = |pairs: &[(&'static str, &'static str)]| {
        let map = MapDeserializer::<_, ValueError>::new(pairs.iter().copied());
        <PdqConfig as Deserialize>::deserialize(map).map_err(|error| error.to_string())
    };
    assert_eq!(read(&[]), Ok(PdqConfig::default()));
    let es_et = PdqConfig { variant: PdqVariant::EsEt, ..PdqConfig::default() };
    assert_eq!(read(&[("variant", "es-et")]), Ok(es_et));
    let random = PdqConfig { criticality: Criticality::Random, ..PdqConfig::default() };
    assert_eq!(read(&[("criticality", "random")]), Ok(random));
    let error = read(&[("rto_min", "0s")]).unwrap_err();
    assert!(error.starts_with("rto_min = "), "{error}");
    assert!(read(&[("varient", "full")]).unwrap_err().contains("unknown field"));
}

#[test]
fn default_queue_holds_4_mb() {
    let queue = PdqConfig::default().default_queue(GBPS, Bytes::new(1500));
    assert_eq!(queue, QueueSpec::DropTail { limit: Limit::Bytes(Bytes::new(4_000_000)) });
}
