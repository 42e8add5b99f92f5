//! Flow-level schedulers against the papers and against random networks.
#![allow(non_snake_case)]

mod level;
mod papers;
mod properties;
