//! Machinery shared by the transports that pace at an explicit rate: D3, RCPdc, RCP and PDQ.
//!
//! A sender embeds a [`PacedFlow`]: segments with loss detection, a pacer, the RTT estimate and
//! the packet that releases the flow's state at the ports. A receiver embeds a [`PacedReceiver`],
//! which reassembles the flow. [`RetransmissionConfig`] holds the timers and the loss threshold of
//! a sender. Protocol rules (what to request, when to probe, when to give up) stay with the
//! protocols.

mod config;
mod flow;
mod pacer;
mod receiver;
mod segments;
#[cfg(test)]
pub(crate) mod tests;

pub use config::RetransmissionConfig;
pub(crate) use flow::{PacedFlow, Release};
pub(crate) use receiver::PacedReceiver;
pub(crate) use segments::{Ack, AckOutcome, Scoreboard, Segments};
