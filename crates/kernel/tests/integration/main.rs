//! Tests that need neither BPF nor privileges.

#![allow(non_snake_case, reason = "function__case")]

mod header;
mod tables;
