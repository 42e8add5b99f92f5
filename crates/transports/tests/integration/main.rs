//! Rules that hold for every registered transport.
#![allow(non_snake_case)]

mod names;
mod retransmit_causes;
