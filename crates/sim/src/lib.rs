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
mod explain;
mod flows;
mod gauges;
mod hosts;
mod lossless;
mod pauses;
mod port;
mod recorder;
mod setup;
mod tap;
mod timers;
mod window;
mod world;

pub use punctual_record::{
    Activity, Behind, ControllerRecord, Explanation, FlowCounts, FlowRecord, FlowStatus, GaugeOf,
    GaugeSample, Measure, NetworkTrace, Outcome, Part, PauseCycle, PauseTotals, PortFrame,
    PortPauses, PortSample, PortTotals, Totals, What,
};
pub use setup::{LinkChange, LinkFault, Progress, Sampling, Setup, Stop, SwitchReset};

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
