//! The deterministic packet-level simulator.
//!
//! [`run`] takes a [`Setup`] and returns an [`Outcome`]; the same set-up gives the same outcome,
//! bit for bit. A run uses one thread, or several ([`EngineOptions::threads`]) with the same outcome.
//!
//! The simulator is generic over the set of transports ([`Simulate`]). Calls of transports on the
//! packet path are a `match` over that set, never a virtual call.

mod barrier;
#[doc(hidden)]
pub mod bench;
mod calendar;
mod capture;
mod checks;
mod control;
mod detour;
mod engine;
mod events;
mod explain;
mod flows;
mod gauges;
mod hosts;
mod latency;
mod look_ahead;
mod lossless;
mod measured_window;
mod merge;
mod pace;
mod partition;
mod pause_cycles;
mod pauses;
mod port;
mod recorder;
mod scenario_events;
mod setup;
mod shard;
mod sharing;
mod sorter;
mod state;
mod tap;
mod threads;
mod timers;
mod windows;

pub use punctual_record::{
    Activity, Behind, ByCause, CapturedPacket, ControllerRecord, Explanation, FlowCounts,
    FlowRecord, FlowStatus, GaugeOf, GaugeSample, Histogram, Measure, NetworkTrace, Outcome,
    PacketLatency, Part, PauseCycle, PauseTotals, PortFrame, PortPauses, PortSample, PortTotals,
    Totals, What,
};
pub use setup::{
    EngineOptions, LinkChange, LinkFault, Progress, Sampling, Setup, Stop, SwitchReset,
};

#[doc(hidden)]
pub use punctual_core::FlowId;

use punctual_core::TransportSet;
use std::ops::ControlFlow;

/// A set of transports that the simulator is compiled for, by [`simulate!`].
///
/// The engine is generic over the set and large. This trait makes sure that it is compiled once for
/// each set, in the crate that calls [`simulate!`], and not again in every crate that runs it.
pub trait Simulate: TransportSet {
    /// See [`explain`].
    fn simulate(
        setup: Setup<Self>,
        flows: &[FlowId],
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Outcome;
}

/// Compiles the simulator for a set of transports: implements [`Simulate`] for it.
#[macro_export]
macro_rules! simulate {
    ($Set:ty) => {
        impl $crate::Simulate for $Set {
            fn simulate(
                setup: $crate::Setup<Self>,
                flows: &[$crate::FlowId],
                progress: &mut dyn FnMut($crate::Progress) -> ::std::ops::ControlFlow<()>,
            ) -> $crate::Outcome {
                $crate::simulate_set(setup, flows, progress)
            }
        }
    };
}

simulate!(punctual_transports::AnyTransport);

/// Runs a simulation to its end. `progress` is called now and then and may stop the run.
pub fn run<S: Simulate>(
    setup: Setup<S>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Outcome {
    explain(setup, &[], progress)
}

/// Runs a simulation and explains where the time of some flows went. Everything else in the outcome
/// is what [`run`] returns.
pub fn explain<S: Simulate>(
    setup: Setup<S>,
    flows: &[FlowId],
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Outcome {
    S::simulate(setup, flows, progress)
}

/// The number of threads that [`run`] uses for a simulation: at most [`EngineOptions::threads`].
pub fn threads<S: TransportSet>(setup: &Setup<S>) -> usize {
    sharing::plan(setup).map_or(1, |plan| plan.threads)
}

/// What [`simulate!`] calls.
#[doc(hidden)]
pub fn simulate_set<S: TransportSet>(
    setup: Setup<S>,
    flows: &[FlowId],
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Outcome {
    let setup = match sharing::plan(&setup).filter(|_| flows.is_empty()) {
        None => setup,
        Some(plan) => {
            let is_watched = setup.network_trace || setup.packet_latency;
            let over = if is_watched {
                threads::run(setup, plan, &|setup| (latency(setup), recorder(setup)), progress)
            } else {
                threads::run(setup, plan, &|_| tap::NoTap, progress)
            };
            match over {
                Ok(outcome) => return outcome,
                Err(setup) => *setup,
            }
        }
    };
    sharing::SharingReport::ONE.note();
    let checks = setup.check.then(|| checks::Checks::new(&setup));
    let explainer = (!flows.is_empty()).then(|| explain::Explainer::new(&setup, flows));
    let capture = (setup.capture_max > 0).then(|| capture::Capture::new(setup.capture_max));
    let (latency, recorder) = (latency(&setup), recorder(&setup));
    let is_watched = checks.is_some()
        || recorder.is_some()
        || explainer.is_some()
        || latency.is_some()
        || capture.is_some();
    if !is_watched {
        return engine::Engine::new(setup, tap::NoTap).run(progress);
    }
    let observers = (((checks, latency), capture), (recorder, explainer));
    engine::Engine::new(setup, observers).run(progress)
}

/// The meter of packet latency, if the set-up asks for it.
fn latency<S: TransportSet>(setup: &Setup<S>) -> Option<latency::LatencyMeter<S>> {
    setup.packet_latency.then(|| latency::LatencyMeter::new(setup))
}

/// The recorder of the network playback, if the set-up asks for it.
fn recorder<S: TransportSet>(setup: &Setup<S>) -> Option<recorder::Recorder> {
    setup.network_trace.then(|| recorder::Recorder::new(&setup.network))
}
