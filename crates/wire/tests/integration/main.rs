//! Headers as bytes, and a corpus of malformed packets.
#![allow(non_snake_case)]

mod bytes;
