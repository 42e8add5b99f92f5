//! The deterministic packet-level simulator.
//!
//! [`run`] takes a [`Setup`] and returns an [`Outcome`]; the same set-up gives the same outcome,
//! bit for bit. One run is single-threaded; run several at once to use more cores.

#[doc(hidden)]
pub mod bench;
mod checks;
mod control;
mod detour;
mod engine;
mod events;
mod explain;
mod flows;
mod gauges;
mod hosts;
mod lossless;
mod pause_cycles;
mod pauses;
mod port;
mod record;
mod recorder;
mod setup;
mod tap;
mod timers;
mod trace;
mod window;
mod world;

pub use explain::{Behind, Explanation, Part, What};
pub use record::{
    ControllerRecord, FlowCounts, FlowRecord, FlowStatus, Outcome, PauseCycle, PauseTotals,
    PortPauses, PortTotals, Totals,
};
pub use setup::{
    GaugeOf, GaugeSample, LinkChange, LinkFault, Measure, PortSample, Progress, Sampling, Setup,
    Stop, SwitchReset,
};
pub use trace::{Activity, NetworkTrace, PortFrame};

use punctual_core::FlowId;
use std::ops::ControlFlow;

/// Runs a simulation to its end. `progress` is called now and then and may stop the run.
pub fn run(setup: Setup, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Outcome {
    explain(setup, &[], progress)
}

/// Runs a simulation and explains where the time of some flows went. All else comes out as without.
pub fn explain(
    setup: Setup,
    flows: &[FlowId],
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Outcome {
    let checks = setup.check.then(|| checks::Checks::new(&setup));
    let recorder = setup.network_trace.then(|| recorder::Recorder::new(&setup.network));
    let explainer = (!flows.is_empty()).then(|| explain::Explainer::new(&setup, flows));
    if checks.is_none() && recorder.is_none() && explainer.is_none() {
        return engine::Engine::new(setup, tap::NoTap).run(progress);
    }
    engine::Engine::new(setup, (checks, (recorder, explainer))).run(progress)
}
