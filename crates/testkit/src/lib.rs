//! Test support: two hosts connected by a path, injected faults, checks of the transport contract,
//! and of times on a machine that may be busy.
//!
//! [`Pair`] drives any [`Transport`](punctual_core::Transport) and panics when the transport
//! breaks the contract, for example by delivering a byte twice or completing a flow too early.
//!
//! ```text
//! let mut pair = Pair::new(Ndp::default(), PairPath::default());
//! pair.set_faults(|_, index| if index == 3 { Fault::Drop } else { Fault::Deliver });
//! let flow = pair.start(pair.spec(Bytes::new(100_000)));
//! assert!(pair.run_until_done(Instant::ZERO + Duration::from_secs(1)));
//! assert_eq!(pair.result(flow).retransmitted, 1);
//! ```

#![cfg_attr(test, allow(non_snake_case))]

mod cases;
mod claims;
mod fault;
mod figures;
mod namespaces;
mod other_work;
mod pair;
mod path;
mod port;
mod report;
mod schedule;

pub use cases::cases;
pub use claims::{Accepted, bounded, claimed, published};
pub use fault::{Fault, FaultOdds};
pub use figures::{assert_figure, assert_mean, markdown_table, print_figure, text_table};
pub use namespaces::{TestNamespaces, ip};
pub use other_work::{MOST_OTHER_WORK, OtherWork};
pub use pair::Pair;
pub use path::PairPath;
pub use report::{Direction, FlowResult, Traced};
