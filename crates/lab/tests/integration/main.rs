//! Scenarios from file to result: loads, capacities, studies.

mod among_long_flows;
mod build_id;
mod capacity;
mod clocks;
mod common;
mod incast_450_kb;
mod load;
mod oldi;
mod optimal;
mod papers;
mod queues;
