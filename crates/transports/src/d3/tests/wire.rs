//! What goes over the wire, and what comes from a file.

use super::super::header::Feedback;
use super::super::{
    CapacityRule, D3CommonConfig, Grant, Grants, HOPS_MAX, QueueMeasure, RateBlock, RcpdcConfig,
};
use proptest::prelude::*;
use punctual_core::{Bytes, Duration, ExtBlock, Instant, Limit, QueueSpec, Rate, Transport};
use serde::Deserialize;
use serde::de::value::{Error as ValueError, MapDeserializer};

fn grants() -> impl Strategy<Value = Grants> {
    let grant = prop_oneof![
        Just(Grant::Base),
        any::<u64>().prop_map(|bps| Grant::Rate(Rate::from_bps(bps))),
    ];
    prop::collection::vec(grant, 0..=HOPS_MAX).prop_map(|list| {
        let mut grants = Grants::default();
        list.into_iter().for_each(|grant| grants.push(grant));
        grants
    })
}

prop_compose! {
    fn rate_block()(
        (desired, before) in any::<(u64, u64)>(),
        index in 0..=HOPS_MAX as u8,
        overflow: bool,
        granted in grants(),
        granted_before in grants(),
        feedback in grants(),
        (scale, important) in any::<(u8, bool)>(),
        (deadline, rtt) in any::<(Option<u64>, u64)>(),
    ) -> RateBlock {
        let deadline = deadline.map(Instant::from_picos);
        let rtt = Duration::from_picos(rtt);
        let (desired, desired_before) = (Rate::from_bps(desired), Rate::from_bps(before));
        RateBlock {
            desired,
            desired_before,
            index,
            overflow,
            scale,
            important,
            deadline,
            rtt,
            granted,
            granted_before,
            feedback,
        }
    }
}

proptest! {
    #[test]
    fn blocks_survive_the_way(block in rate_block()) {
        prop_assert_eq!(RateBlock::from_block(&block.to_block()), Some(block));
    }

    #[test]
    fn an_answer_says_what_was_granted(request in rate_block()) {
        let answer = RateBlock::answer(&request.to_block()).unwrap();
        let (granted, overflow) = (request.granted, request.overflow);
        let whole = RateBlock { overflow, feedback: granted, ..RateBlock::default() };
        prop_assert_eq!(RateBlock::from_block(&answer), Some(whole));
        prop_assert_eq!(Feedback::from_block(&answer), Some(Feedback { granted, overflow }));
    }

    #[test]
    fn any_words_are_a_block_or_refused(words: [u64; 24], counts in 0u64..1 << 20) {
        for counts in [words[2], counts] {
            let mut words = words;
            words[2] = counts;
            words[21] &= 0x3ff;
            words[22] *= words[21] >> 9;
            let block = RateBlock::from_block(&ExtBlock(words));
            prop_assert_eq!(RateBlock::answer(&ExtBlock(words)).is_some(), block.is_some());
            prop_assert_eq!(Feedback::from_block(&ExtBlock(words)).is_some(), block.is_some());
            if let Some(block) = block {
                prop_assert_eq!(RateBlock::from_block(&block.to_block()), Some(block));
            }
        }
    }
}

#[test]
fn lowest_is_the_least_rate_and_base_where_any_is() {
    let of = |list: &[Option<u64>]| {
        let mut grants = Grants::default();
        for grant in list {
            grants.push(grant.map_or(Grant::Base, |mbps| Grant::Rate(Rate::from_mbps(mbps))));
        }
        grants.lowest()
    };
    assert_eq!(of(&[Some(3), Some(1), Some(2)]), Grant::Rate(Rate::from_mbps(1)));
    assert_eq!(of(&[Some(3), None, Some(2)]), Grant::Base);
    assert_eq!(of(&[]), Grant::Base);
}

#[test]
fn params_bad_values_are_named() {
    assert_eq!(D3CommonConfig::default().validate(), Ok(()));
    let zero = Duration::ZERO;
    for (params, name) in [
        (D3CommonConfig { update_interval: zero, ..D3CommonConfig::default() }, "update_interval"),
        (D3CommonConfig { alpha: 1.5, ..D3CommonConfig::default() }, "alpha"),
        (D3CommonConfig { beta: f64::NAN, ..D3CommonConfig::default() }, "beta"),
        (D3CommonConfig { capacity_min: 0.0, ..D3CommonConfig::default() }, "capacity_min"),
        (D3CommonConfig { capacity_max: 0.5, ..D3CommonConfig::default() }, "capacity_max"),
        (D3CommonConfig { reset_intervals: 0, ..D3CommonConfig::default() }, "reset_intervals"),
        (D3CommonConfig { base_rate: Rate::ZERO, ..D3CommonConfig::default() }, "base_rate"),
        (D3CommonConfig { buffer: Bytes::ZERO, ..D3CommonConfig::default() }, "buffer"),
        (D3CommonConfig { rto_min: zero, ..D3CommonConfig::default() }, "rto_min"),
        (D3CommonConfig { rto_initial: zero, ..D3CommonConfig::default() }, "rto_initial"),
        (D3CommonConfig { rto_max: zero, ..D3CommonConfig::default() }, "rto_max"),
        (D3CommonConfig { loss_threshold: 0, ..D3CommonConfig::default() }, "loss_threshold"),
    ] {
        let error = params.validate().unwrap_err();
        assert_eq!(error.name, name);
        assert!(error.to_string().contains("must be"), "{error}");
    }
    assert_eq!(D3CommonConfig::default().capacity_rule, CapacityRule::Predictive);
}

#[test]
fn params_are_checked_when_read() {
    let read = |pairs: &[(&'static str, &'static str)]| {
        let map = MapDeserializer::<_, ValueError>::new(pairs.iter().copied());
        RcpdcConfig::deserialize(map).map_err(|error| error.to_string())
    };
    assert_eq!(read(&[]), Ok(RcpdcConfig::default()));
    let slow = D3CommonConfig { rto_min: Duration::from_millis(5), ..D3CommonConfig::default() };
    assert_eq!(read(&[("rto_min", "5ms")]), Ok(RcpdcConfig(slow)));
    for (name, capacity_rule, queue) in [
        ("printed", CapacityRule::Printed, QueueMeasure::Instant),
        ("line-rate", CapacityRule::LineRate, QueueMeasure::Least),
        ("gated", CapacityRule::Gated, QueueMeasure::Least),
        ("predictive", CapacityRule::Predictive, QueueMeasure::Least),
    ] {
        let params = D3CommonConfig { capacity_rule, ..D3CommonConfig::default() };
        assert_eq!(params.effective_queue_measure(), queue, "{name}");
        assert_eq!(read(&[("capacity_rule", name)]), Ok(RcpdcConfig(params)));
    }
    let chosen =
        D3CommonConfig { queue_measure: Some(QueueMeasure::Instant), ..D3CommonConfig::default() };
    assert_eq!(chosen.effective_queue_measure(), QueueMeasure::Instant);
    let error = read(&[("base_rate", "0bps")]).unwrap_err();
    assert_eq!(error, "base_rate = 0bps: must be above 0; about one header per RTT");
    assert!(read(&[("bass_rate", "1Mbps")]).unwrap_err().contains("unknown field"));
}

#[test]
fn default_queue_holds_128_kb() {
    let queue = RcpdcConfig::default().default_queue(Rate::from_gbps(1), Bytes::new(1500));
    assert_eq!(queue, QueueSpec::DropTail { limit: Limit::Bytes(Bytes::new(128_000)) });
}
