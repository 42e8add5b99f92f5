//! Integration tests of the switch: frames through interfaces in memory.
#![allow(non_snake_case)]

mod common;
mod controllers;
mod cost;
mod disciplines;
mod forwarding;
mod lateness;
mod reload;
mod replay;
mod simulator;
