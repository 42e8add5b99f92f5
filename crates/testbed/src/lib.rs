//! Runs the flows of a scenario on real packets, on this machine.
//!
//! Every host is a network namespace with one interface, and the software switch of
//! `punctual-switch` joins them. One thread drives all hosts: the simulator's own endpoints with
//! their wire formats on packet sockets, the event loops of the host stack on UDP sockets
//! ([`HostSockets`]), or the kernel's TCP. Another thread is the switch. Both spin, each on a
//! processor of its own.
//!
//! * [`TestbedSetup`] is a [`Setup`] of the simulator and what a testbed adds to it,
//! * [`run`] builds the network, runs the flows, removes the network, and returns the same
//!   [`Outcome`](punctual_sim::Outcome) as a simulation, with a [`TestbedReport`],
//! * [`unsupported`] and [`unsupported_by_host_stack`] say what a testbed cannot do.
//!
//! # Time
//!
//! Hosts and switch read one clock that may run slower than the machine's ([`time_scale`]): rates,
//! delays, deadlines and timers keep the values of the scenario, and so do results. At a time scale
//! of 10, a link of 1 Gb/s carries 100 Mb in a second of the machine.
//!
//! # Namespaces
//!
//! The namespaces have no names. The kernel removes them, with their interfaces, when this process
//! ends, however it ends.

#![cfg_attr(test, allow(non_snake_case))]

mod limits;
mod report;
mod scale;

#[cfg(target_os = "linux")]
mod engine;
#[cfg(target_os = "linux")]
mod flows;
#[cfg(target_os = "linux")]
mod frames;
#[cfg(target_os = "linux")]
mod host_stack;
#[cfg(target_os = "linux")]
mod kernel_tcp;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod payload;
#[cfg(target_os = "linux")]
mod processors;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod stalls;
#[cfg(target_os = "linux")]
mod timers;

pub use limits::{HOSTS_MAX, Unsupported, is_supported, unsupported, unsupported_by_host_stack};
pub use report::{Lateness, TestbedReport};
#[cfg(target_os = "linux")]
pub use run::run;
pub use scale::{PACKETS_PER_SECOND, SCALES, time_scale};

use punctual_sim::Setup;
use serde::{Deserialize, Serialize};

/// The kernel's TCP in the place of the simulated `tcp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelTcp {
    /// Congestion control `reno`.
    Reno,
    /// Congestion control `reno` with the loss recovery of NewReno alone: without SACK, RACK and tail
    /// loss probes. The simulated `tcp` has the same.
    #[serde(rename = "newreno")]
    NewReno,
    /// Congestion control `cubic`.
    Cubic,
    /// `reno`, with data in the first packet (TCP Fast Open).
    RenoTfo,
    /// `cubic`, with data in the first packet (TCP Fast Open).
    CubicTfo,
}

impl KernelTcp {
    /// The transport for which it runs.
    pub const STANDS_FOR: &str = "tcp";

    /// The name of its runs in results.
    pub fn label(self) -> &'static str {
        match self {
            KernelTcp::Reno => "kernel-reno",
            KernelTcp::NewReno => "kernel-newreno",
            KernelTcp::Cubic => "kernel-cubic",
            KernelTcp::RenoTfo => "kernel-reno-tfo",
            KernelTcp::CubicTfo => "kernel-cubic-tfo",
        }
    }

    /// The congestion control, as the kernel calls it.
    pub fn congestion(self) -> &'static str {
        match self {
            KernelTcp::Reno | KernelTcp::NewReno | KernelTcp::RenoTfo => "reno",
            KernelTcp::Cubic | KernelTcp::CubicTfo => "cubic",
        }
    }

    /// Whether data is in the first packet.
    pub fn has_fast_open(self) -> bool {
        matches!(self, KernelTcp::RenoTfo | KernelTcp::CubicTfo)
    }
}

/// How the hosts of a testbed send and receive packets of our transports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostSockets {
    /// Packet sockets, driven by this crate: packets arrive when the kernel received them, and the
    /// clock may be slower than the machine's.
    #[default]
    Packet,
    /// UDP sockets, driven by the host stack: the code that applications link.
    Udp,
}

/// Everything that a run on a testbed depends on.
#[derive(Debug, Clone)]
pub struct TestbedSetup {
    /// The network, the transports and the flows.
    pub setup: Setup,
    /// How many times slower than the machine's the clock of the run is; chosen by
    /// [`time_scale`] if absent.
    pub time_scale: Option<u32>,
    /// What runs in the place of the simulated `tcp`.
    pub kernel_tcp: KernelTcp,
    /// How hosts send and receive packets of our transports.
    pub sockets: HostSockets,
}

/// Why a run on a testbed failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestbedRunError {
    /// The scenario has what a testbed does not.
    #[error("{0}")]
    Unsupported(#[from] Unsupported),
    /// This system has no network namespaces.
    #[error("a testbed needs Linux")]
    NotLinux,
    /// A capability is missing.
    #[error("a testbed needs network namespaces: {0}")]
    Capability(String),
    /// The network could not be built.
    #[error("cannot build the testbed: {what}: {message}")]
    Build {
        /// What was done.
        what: String,
        /// Why it failed.
        message: String,
    },
    /// The user asked to stop before the run had begun.
    #[error("interrupted")]
    Interrupted,
    /// A thread panicked.
    #[error("the thread of the {0} panicked")]
    Panicked(&'static str),
}

/// Runs a testbed: only Linux has one.
#[cfg(not(target_os = "linux"))]
pub fn run(
    setup: &TestbedSetup,
    _progress: &mut dyn FnMut(punctual_sim::Progress) -> std::ops::ControlFlow<()>,
) -> Result<(punctual_sim::Outcome, TestbedReport), TestbedRunError> {
    let _ = setup;
    Err(TestbedRunError::NotLinux)
}
