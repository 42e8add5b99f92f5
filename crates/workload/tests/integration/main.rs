//! Workloads built from every pattern, and the grammar of their keys.
#![allow(non_snake_case)]

mod build;
mod grammar;
