//! What a run on a testbed reports besides its outcome.

use serde::{Deserialize, Serialize};

/// How late something was, in µs of the scenario's time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Maximum.
    pub worst_us: f64,
}

/// How a run on a testbed went, and whether its timing can be trusted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TestbedReport {
    /// Why the timing of the run cannot be trusted; empty for a valid run.
    pub problems: Vec<String>,
    /// How many times slower than the machine's the clock of the run was.
    pub time_scale: u32,
    /// Lateness of frames that left the switch.
    pub switch_lateness: Lateness,
    /// Lateness of timers, flow starts and free interfaces at hosts.
    pub host_lateness: Lateness,
    /// Share of the timers, flow starts and free interfaces that came more than a packet time late.
    pub late_at_hosts: f64,
    /// How long the switch and the hosts stood still, in per cent of the run.
    pub stalled_percent: [f64; 2],
    /// 5th, 50th and 95th percentile of the time between two pulls of a host, in µs.
    pub pull_spacing_us: Option<[f64; 3]>,
    /// Frames that the switch delivered.
    pub frames: u64,
    /// Frames that hosts dropped, by reason.
    pub dropped: Vec<(String, u64)>,
    /// The processors of hosts and switch; empty if they were not pinned.
    pub processors: Vec<u32>,
    /// The version of the kernel.
    pub kernel: String,
}

impl TestbedReport {
    /// Whether the timing of the run can be trusted.
    pub fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }
}
