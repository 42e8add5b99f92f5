//! The `punctual` command as a user runs it.
#![allow(non_snake_case)]

mod captures;
mod common;
mod converts;
mod differences;
mod errors;
mod explain;
#[cfg(target_os = "linux")]
mod hostd;
#[cfg(target_os = "linux")]
mod hostd_transfers;
mod levels;
#[cfg(target_os = "linux")]
mod measures;
mod reproduce;
mod runs;
mod safety;
mod sweeps;
mod tools;
mod transfers;
#[cfg(target_os = "linux")]
mod transports;
mod unfinished;
