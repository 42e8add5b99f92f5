//! The deterministic packet-level simulator.
//!
//! [`run`] takes a [`Setup`] and returns an [`Outcome`]; the same set-up gives the same outcome,
//! bit for bit. One run is single-threaded; run several at once to use more cores.

#[doc(hidden)]
pub mod bench;
mod checks;
mod circles;
mod control;
mod detour;
mod engine;
mod events;
mod flows;
mod gauges;
mod hosts;
mod lossless;
mod pauses;
mod port;
mod record;
mod setup;
mod tap;
mod timers;
mod world;

pub use record::{
    ControllerRecord, FlowRecord, FlowStatus, Outcome, PauseCycle, PauseTotals, PortPauses,
    PortTotals, Totals,
};
pub use setup::{
    GaugeOf, GaugeSample, LinkChange, LinkFault, PortSample, Progress, Sampling, Setup, Stop,
    SwitchReset,
};

use std::ops::ControlFlow;

/// Runs a simulation to its end. `progress` is called now and then and may stop the run.
pub fn run(setup: Setup, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Outcome {
    if setup.check {
        let checks = checks::Checks::new(&setup.network);
        engine::Engine::new(setup, checks).run(progress)
    } else {
        engine::Engine::new(setup, tap::NoTap).run(progress)
    }
}
