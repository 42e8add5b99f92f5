//! Workload generation: which hosts send to which, how much, when, and by which deadline.
//!
//! A scenario describes its traffic in `[[traffic]]` tables. Each becomes a [`TrafficSpec`], and
//! [`build`] draws the flows of all of them for a network and a seed.
//!
//! ```toml
//! [[traffic]]
//! name = "queries"
//! pattern = "incast"
//! workers = 40
//! receiver = 0
//! sizes = { uniform = ["2KB", "50KB"] }
//! deadlines = { exponential = { mean = "20ms", floor = "3ms" } }
//! arrivals = { periodic = "2ms" }
//! ```
//!
//! Sizes and times have units. A key that would have no effect is an error. Hosts count from 0.
//!
//! # `pattern`: who sends to whom (required)
//!
//! | value | other keys | meaning |
//! |---|---|---|
//! | `"incast"` | `senders = 5` or `workers = 40`; `receiver = 0` | many to one: `senders` different hosts, or `workers` spread evenly over the other hosts; without either, all other hosts. Without `receiver`, it is drawn |
//! | `"permutation"` | | each host sends to one other and receives from one other |
//! | `"random"` | | each host sends to others drawn uniformly |
//! | `"stride"` | `stride = 3` | host i sends to host i + 3, modulo the number of hosts |
//! | `"staggered"` | `local = 0.7` | each host sends within its rack with probability `local`, otherwise to another rack |
//! | `"all-to-all"` | | each host sends to each other |
//! | `"pairs"` | `pairs = [[0, 1], [2, 3]]` | from the first to the second of each pair |
//! | `"list"` | `file = "flows.csv"` or `flows = [{ src = 0, dst = 1, size = "1MB", start = "1ms" }]` | each flow is listed; see [`FlowList::parse_csv`] for the file. `format = "htsim"`, `"hpcc"` or `"columns"` reads the files of other simulators ([`ListFormat`]), `columns = "src dst size:KB start:us"` says what columns of numbers are |
//!
//! `hosts = "2-9, 12"` and `exclude = [0]` choose the hosts that take part in a pattern (not in
//! `pairs` and `list`, which name their hosts). `from = "0-3"` and `to = "8-15"` choose the senders
//! and receivers among them (`incast`, `permutation`, `random` and `all-to-all`).
//!
//! `redraw` repeats the random choices of a pattern. For `random` and `staggered` it draws a
//! destination for each flow (default `true`). For `incast` and `permutation` it draws senders and
//! receivers again at each burst (default `false`).
//!
//! # `arrivals`: when flows start
//!
//! | value | meaning |
//! |---|---|
//! | `"together"` | one burst of the whole pattern at `start`; the default |
//! | `{ periodic = "2ms" }` | a burst of the whole pattern at `start` and every 2 ms after |
//! | `{ poisson-bursts = "2ms" }` | bursts of the whole pattern as a Poisson process, 2 ms apart on average |
//! | `{ poisson-load = 0.6 }` | single flows as a Poisson process; their bytes use 0.6 of each sender's NIC rate (headers not counted) |
//! | `{ poisson-per-second = 2500 }` | single flows as a Poisson process, 2500 per second in total |
//! | `{ poisson-per-second-per-sender = 1300 }` | single flows as a Poisson process, 1300 per second from each sending host |
//! | `{ closed-loop = { connections = 5, gap = "1ms" } }` | each sender keeps 5 connections; on each, the first flow starts at `start` and every other 1 ms after the previous one ends. The gap may be `{ exponential = "1ms" }` (mean) or `{ exponential-median = "1ms" }` |
//!
//! With bursts, `flows_each = 4` makes each sender start four flows instead of one. `jitter =
//! "10us"` delays each flow of a burst, or the first flow of each closed loop, by a uniform draw
//! below 10 µs.
//!
//! # `sizes`: how much (required, except for a list)
//!
//! `"64KB"`; `{ uniform = ["2KB", "50KB"] }`; `{ pareto = { mean = "100KB", shape = 1.1, cap =
//! "10MB" } }` (`mean` includes the cap); `"web-search"`, `"data-mining"`, `"facebook-web"`,
//! `"facebook-cache"`, `"hadoop"`, `"imc10"` ([`BuiltIn`]); `{ cdf = [["1KB", 0.5], ["10KB", 1]] }`
//! with straight lines between points; `{ file = "sizes.txt" }` with a size and a cumulative
//! probability per line ([`Cdf::parse`]); `"endless"`.
//!
//! # `deadlines`: by when, from a flow's start
//!
//! `"none"`, the default; `"20ms"`; `{ uniform = ["18ms", "22ms"] }`; `{ exponential = { mean =
//! "20ms", floor = "3ms" } }`, where draws below the floor become the floor. With
//! `deadlines_below = "40KB"` only smaller flows have deadlines. With
//! `deadline_change = { after = "5ms", deadline = "10ms" }` the deadline of each flow changes to
//! 10 ms when it is 5 ms old.
//!
//! # Other keys
//!
//! | key | meaning |
//! |---|---|
//! | `name = "queries"` | its name in messages and tables |
//! | `start = "5ms"`, `stop = "1s"` | no flow starts before `start`, or at `stop` or later |
//! | `limit = 1000` | at most 1000 flows |
//! | `transport = 1` | which of the run's transports carries it, counted from 0 |
//! | `class = 3` | service class of its data, 0 to 7; default 1 |
//! | `background = true` | background traffic: it loads the network and is not measured |
//!
//! # Common random numbers
//!
//! Every draw comes from a random stream named after the seed, its purpose (sizes, arrivals,
//! destinations ...), the position of the `[[traffic]]` and the number of the flow. Another size
//! distribution does not change starts and destinations, except with `poisson-load`, where the
//! rate depends on the mean size. Another transport changes no draw: even in a closed loop, the
//! n-th flow of a connection has the same size, destination, gap and relative deadline.

mod build;
mod cdf;
mod error;
mod flows;
mod grammar;
mod hosts;
mod list;
mod list_formats;
mod sizes;
mod spec;
mod template;
mod text;

pub use build::build;
pub use cdf::{BuiltIn, Cdf, CdfError};
pub use error::{Problem, WorkloadError};
pub use flows::{ClosedLoop, Workload};
pub use grammar::SpecError;
pub use hosts::{HostSet, HostSetError, HostsView};
pub use list::{FlowFile, FlowList, FlowListError, ListedFlow};
pub use list_formats::{ListColumns, ListFormat};
pub use sizes::{Pareto, Sizes, SizesError};
pub use spec::{
    Arrivals, DeadlineChange, Deadlines, Gap, LoadError, LoopSpec, Pattern, Senders, TrafficSpec,
};

/// Most flows known before a run that a workload may have: about a gigabyte.
pub const MAX_FLOWS: u32 = 1 << 24;
