//! Scenarios from file to result: loads, capacities, studies.
#![allow(non_snake_case)]

mod among_long_flows;
mod build_id;
mod capacity;
mod catalogue;
mod catalogue_docs;
mod catalogue_runs;
mod clocks;
mod common;
mod endless;
mod flow_level;
mod flow_level_figures;
mod incast_450_kb;
mod load;
mod oldi;
mod optimal;
mod papers;
mod queues;
mod threads;
