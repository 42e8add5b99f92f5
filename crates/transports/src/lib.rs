//! Datacenter transports, one folder each. Adding one touches its folder and the registry here.

pub mod d3;
pub mod dcqcn;
pub mod mptcp;
pub mod ndp;
mod pacing;
pub mod pdq;
pub mod phost;
pub mod rcp;
mod registry;
mod rtt;
pub mod tcp;
pub mod udp;
mod validated;

pub use registry::{AnyController, AnyStack, AnyTransport, TransportInfo, TransportSettings};
