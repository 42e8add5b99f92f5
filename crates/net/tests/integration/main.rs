//! Queue disciplines under traffic.

mod unresponsive;
