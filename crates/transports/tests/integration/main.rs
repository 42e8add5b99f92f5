//! Rules that hold for every registered transport.

mod names;
mod retransmit_causes;
