//! Flow-level schedulers against the papers and against random networks.

mod papers;
mod properties;
