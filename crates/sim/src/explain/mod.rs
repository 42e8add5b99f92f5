//! Where a flow's time went: a chain of causes, walked back from its end.
//!
//! What happens at the end of a flow happens in a call of one of its ends. That call has a cause:
//! a packet arrived, a timer fired, the NIC had time, the flow started. The packet was made in a
//! call too, at an earlier time, and so on back to the start. Each step is a stretch of time, the
//! end of one the start of the next, so that they add up to the whole exactly.
//!
//! The observer keeps calls and trips as long as something alive may still come from them: they
//! hold their causes by counted references, and what leads nowhere is forgotten at once.

mod chain;
mod explainer;
mod flows;
mod logs;
mod walk;

pub(crate) use explainer::Explainer;

use punctual_record::{Behind, Explanation, Part, What};
