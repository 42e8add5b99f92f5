//! Reading and checking parameters.

use super::*;
use serde::Deserialize;
use serde::de::value::{Error, MapDeserializer};

fn read<'de, T: Deserialize<'de>, V>(key: &'static str, value: V) -> Result<T, Error>
where
    V: serde::de::IntoDeserializer<'de, Error>,
{
    T::deserialize(MapDeserializer::new([(key, value)].into_iter()))
}

#[test]
fn defaults_are_valid() {
    assert_eq!(TcpConfig::default().validate(), Ok(()));
    assert_eq!(DctcpConfig::default().validate(), Ok(()));
    assert_eq!(DctcpLosslessConfig::default().validate(), Ok(()));
    assert_eq!(D2tcpConfig::default().validate(), Ok(()));
    assert_eq!(TcpprConfig::default().validate(), Ok(()));
}

#[test]
fn one_key_changes_one_value() {
    let tcp: TcpConfig = read("rto_min", "200ms").unwrap();
    assert_eq!(tcp.rto_min, Duration::from_millis(200));
    let dctcp: DctcpConfig = read("gain", 0.5).unwrap();
    assert_eq!(dctcp, DctcpConfig { gain: 0.5, ..DctcpConfig::default() });
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    let error = |e: Result<DctcpConfig, Error>| e.unwrap_err().to_string();
    assert!(error(read("gain", 2.0)).contains("at most 1"));
    assert!(error(read("initial_alpha", -1.0)).contains("from 0 to 1"));
    assert!(error(read("initial_window", 0u32)).contains("1 packet or more"));
    assert!(error(read("rto_min", "100s")).contains("rto_max"));
    assert!(error(read("rto_initial", "0s")).contains("must be longer"));
    let no_tick = TcpConfig { rto_tick: Some(Duration::ZERO), ..TcpConfig::default() };
    assert_eq!(no_tick.validate(), Err(TcpConfigError::NoTimeout("rto_tick")));
    assert!(error(read("rtomin", "1ms")).contains("unknown field"));
    assert!(read::<TcpConfig, _>("gain", 0.5).unwrap_err().to_string().contains("unknown field"));
}

#[test]
fn relatives_check_their_own() {
    let lossless = read::<DctcpLosslessConfig, _>("window_min", 0u32).unwrap_err().to_string();
    assert!(lossless.contains("1 packet or more"));
    let error = |e: Result<D2tcpConfig, Error>| e.unwrap_err().to_string();
    assert!(error(read("d_max", 5.0)).contains("0.25 to 4"));
    assert!(error(read("d_min", f64::NAN)).contains("0.25 to 4"));
    assert!(error(read("d_min", 3.0)).contains("raise d_max"));
    assert!(error(read("gain", 0.0)).contains("at most 1"));
    let levels = read::<TcpprConfig, _>("levels", 5u8).unwrap_err().to_string();
    assert!(levels.contains("2, 3 or 4"));
}
