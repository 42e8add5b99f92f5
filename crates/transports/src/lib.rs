//! Datacenter transports, one folder each. Adding one touches its folder and the registry here.

pub mod d3;
pub mod dcqcn;
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
pub use registry::{AnyController, AnyStack, AnyTransport, TransportInfo, TransportSettings};
pub use rtt::{RtoBounds, RttEstimator};
pub use validated::ConfigError;
