//! A transport for punctual in a crate of its own.

pub mod fixed_window;
