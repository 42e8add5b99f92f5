//! Headers as bytes, frames, captures, and corpora of malformed packets.
#![allow(non_snake_case)]

mod bytes;
mod captures;
mod frames;
mod fuzz;
mod fuzz_endpoints;
mod layouts;
mod openings;
mod rates;
mod samples;
