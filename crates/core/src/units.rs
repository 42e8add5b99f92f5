//! Time, sizes and rates as types. All are integers; every rounding is stated.
//!
//! In text a unit is required: `10us`, `1.5ms`, `10Gbps`, `64KB`. One KB is 1000 bytes, one KiB
//! 1024. A value that is not a whole number of the base unit (picosecond, byte, bit per second)
//! is refused rather than rounded.

mod bytes;
mod line_rate;
mod parse;
mod rate;
mod time;
mod tolerance;

pub use bytes::Bytes;
pub use line_rate::LineRate;
pub use parse::UnitError;
pub use rate::Rate;
pub use time::{Duration, Instant};
pub use tolerance::Tolerance;
