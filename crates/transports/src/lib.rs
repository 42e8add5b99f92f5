//! Datacenter transports, one folder each. Adding one touches its folder and the registry here.
//!
//! A transport may also live in a crate of its own: [`register!`] makes a set of ours and its own,
//! and simulator, lab and command take any such set.

pub mod d3;
pub mod dcqcn;
pub mod mpdq;
pub mod mptcp;
pub mod ndp;
mod paced;
pub mod pdq;
pub mod phost;
pub mod rcp;
mod registry;
mod rtt;
pub mod tcp;
#[cfg(test)]
mod testing;
pub mod udp;
mod validated;

pub use paced::RetransmissionConfig;
pub use punctual_core::TransportInfo;
pub use registry::{AnyController, AnyStack, AnyTransport, TransportSettings};
pub use rtt::{RtoBounds, RttEstimator};
pub use validated::ConfigError;

/// The contract of transports, for [`register!`].
#[doc(hidden)]
pub use punctual_core as core;
