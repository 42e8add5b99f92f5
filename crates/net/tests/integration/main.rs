//! Topologies, and queue disciplines under traffic.
#![allow(non_snake_case)]

mod bcube;
mod jellyfish;
mod unresponsive;
