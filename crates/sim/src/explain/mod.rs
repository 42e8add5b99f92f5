//! Delay breakdowns: follows the chain of causes from a flow's end back to its start.
//!
//! A flow ends in a call to one of its ends. That call has a cause: a packet arrived, a timer
//! fired, the NIC polled the sender, or the flow started. The packet was created in an earlier
//! call, and so on back to the start. Each step is an interval that ends where the next begins, so
//! that the intervals add up to the completion time exactly.
//!
//! Calls and trips hold their causes by counted references. They are freed as soon as nothing alive
//! can follow from them.

mod chain;
mod explainer;
mod flows;
mod logs;
mod walk;

pub(crate) use explainer::Explainer;

use punctual_record::{Behind, Explanation, Part, What};
