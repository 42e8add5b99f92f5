//! Who sends what to whom, when, and by when.
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
//! Sizes and times have units. Keys that would be ignored are refused. Hosts count from 0.
//!
//! # `pattern`: who sends to whom (required)
//!
//! | value | other keys | meaning |
//! |---|---|---|
//! | `"incast"` | `senders = 5` or `workers = 40`; `receiver = 0` | many to one: so many different hosts, or so many workers spread evenly over the other hosts; without either, all others. The receiver is drawn when absent |
//! | `"permutation"` | | each host sends to one other and receives from one other |
//! | `"random"` | | each host sends to others drawn evenly |
//! | `"stride"` | `stride = 3` | host i sends to host i + 3, modulo the number of hosts |
//! | `"staggered"` | `local = 0.7` | each host sends within its rack with that probability, else elsewhere |
//! | `"all-to-all"` | | each host sends to each other |
//! | `"pairs"` | `pairs = [[0, 1], [2, 3]]` | from the first to the second of each pair |
//! | `"list"` | `file = "flows.csv"` or `flows = [{ src = 0, dst = 1, size = "1MB", start = "1ms" }]` | flows one by one; see [`FlowList::parse_csv`] for the file |
//!
//! `hosts = "2-9, 12"` and `exclude = [0]` choose the hosts that take part in a pattern (not in
//! `pairs` and `list`, which name theirs). `from = "0-3"` and `to = "8-15"` choose among them who
//! sends and who receives (`incast`, `permutation`, `random` and `all-to-all`). `redraw` says whether what is drawn is drawn again: the
//! destination of each flow for `random` and `staggered` (`true` unless said otherwise), all of an
//! `incast` or a `permutation` at each burst (`false` unless said otherwise).
//!
//! # `arrivals`: when flows start
//!
//! | value | meaning |
//! |---|---|
//! | `"together"` | one burst of the whole pattern at `start`; the default |
//! | `{ periodic = "2ms" }` | such a burst at `start` and every 2 ms after |
//! | `{ poisson-bursts = "2ms" }` | such bursts at random times, 2 ms apart on average |
//! | `{ poisson-load = 0.6 }` | single flows at random times, so many that their bytes fill 0.6 of each sender's NIC rate (headers not counted) |
//! | `{ poisson-per-second = 2500 }` | single flows at random times, 2500 a second in all |
//! | `{ poisson-per-second-per-sender = 1300 }` | the same from each sending host |
//! | `{ closed-loop = { connections = 5, gap = "1ms" } }` | each sender keeps 5 connections; on each, a flow starts 1 ms after the end of the one before, the first at `start`. The gap may be `{ exponential = "1ms" }` (mean) or `{ exponential-median = "1ms" }` |
//!
//! With bursts, `flows_each = 4` makes each sender start four flows instead of one. With bursts
//! and closed loops, `jitter = "10us"` delays each (first) flow by a uniform draw below it.
//!
//! # `sizes`: how much (required, except for a list)
//!
//! `"64KB"`; `{ uniform = ["2KB", "50KB"] }`; `{ pareto = { mean = "100KB", shape = 1.1, cap =
//! "10MB" } }`, whose mean counts the cap in; `"web-search"`, `"data-mining"`, `"facebook-web"`,
//! `"facebook-cache"`, `"hadoop"`, `"imc10"` ([`BuiltIn`]); `{ cdf = [["1KB", 0.5], ["10KB", 1]] }`
//! with straight lines between points; `{ file = "sizes.txt" }` with a size and a cumulative
//! probability a line ([`Cdf::parse`]); `"endless"`.
//!
//! # `deadlines`: by when, from a flow's start
//!
//! `"none"`, the default; `"20ms"`; `{ uniform = ["18ms", "22ms"] }`; `{ exponential = { mean =
//! "20ms", floor = "3ms" } }`, draws below the floor becoming the floor. With
//! `deadlines_below = "40KB"` only smaller flows get one. With
//! `deadline_change = { after = "5ms", deadline = "10ms" }` each learns another one on the way.
//!
//! # Other keys
//!
//! | key | meaning |
//! |---|---|
//! | `name = "queries"` | what messages and tables call it |
//! | `start = "5ms"`, `stop = "1s"` | no flow starts before the one, or at or after the other |
//! | `limit = 1000` | no more flows than that |
//! | `transport = 1` | which of the run's transports carries it, counted from 0 |
//! | `class = 3` | service class of its data, 0 to 7; 1 unless said otherwise |
//! | `background = true` | only there to disturb others |
//!
//! # What stays the same
//!
//! Every draw comes from a stream named after the seed, its purpose (sizes, arrivals,
//! destinations ...), the position of the `[[traffic]]` and the number of the flow. Another
//! distribution of sizes leaves starts and destinations alone (except under `poisson-load`, where
//! the rate follows the mean size), and another transport changes nothing: even in a closed loop,
//! the n-th flow of a connection is the same whatever carries it.

mod build;
mod cdf;
mod error;
mod flows;
mod grammar;
mod hosts;
mod law;
mod list;
mod sizes;
mod spec;
mod text;

pub use build::build;
pub use cdf::{BuiltIn, Cdf, CdfError};
pub use error::{Problem, WorkloadError};
pub use flows::{ClosedLoop, Workload};
pub use grammar::SpecError;
pub use hosts::{HostSet, HostSetError, HostsView};
pub use list::{FlowList, FlowListError, ListedFlow};
pub use sizes::{Pareto, Sizes, SizesError};
pub use spec::{
    Arrivals, DeadlineChange, Deadlines, Gap, LoadError, LoopSpec, Pattern, Senders, TrafficSpec,
};

/// Flows known beforehand that a workload may have: about a gigabyte of them.
pub const MAX_FLOWS: u32 = 1 << 24;
