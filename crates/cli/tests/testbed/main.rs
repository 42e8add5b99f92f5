//! The testbed on this machine: namespaces, a switch process, and the kernel's own TCP through it.
//!
//! `cargo xtask test testbed` runs these tests, one at a time. They need root and `ip`; without them
//! they print SKIPPED, which PUNCTUAL_NO_SKIPS turns into a failure. A run whose switch was too late
//! to be trusted says so, and asserts nothing about time.
#![allow(non_snake_case)]

mod bed;
mod endpoint_speed;
mod experiments;
mod lifecycle;
mod messages;
mod reload;
mod requests;
mod runs;
mod speed;
mod traffic;
mod trees;
mod trims;
