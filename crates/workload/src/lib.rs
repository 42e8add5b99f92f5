//! Who sends what to whom, when, and by when.

mod flows;

pub use flows::{ClosedLoop, Workload};
