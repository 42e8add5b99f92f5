//! The outcome of a run in memory: flows, totals of ports, time series and delay breakdowns.
//!
//! The simulator fills these types, and results are written from them. So code that reads or shows
//! results does not depend on the simulator.

mod capture;
mod explain;
mod latency;
mod measure;
mod outcome;
mod samples;
mod since;
mod trace;

pub use capture::CapturedPacket;
pub use explain::{Behind, Explanation, Part, What};
pub use latency::{Histogram, PacketLatency};
pub use measure::Measure;
pub use outcome::{
    ByCause, ControllerRecord, FlowCounts, FlowRecord, FlowStatus, Outcome, PauseCycle,
    PauseTotals, PortPauses, PortTotals, Totals,
};
pub use samples::{GaugeOf, GaugeSample, PortSample};
pub use trace::{Activity, NetworkTrace, PortFrame};
