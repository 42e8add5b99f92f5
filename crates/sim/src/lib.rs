//! The deterministic packet-level simulator.

mod record;

pub use record::{FlowRecord, FlowStatus};
