//! The simulator as a whole: every transport on whole networks, and the papers' figures.
#![allow(non_snake_case)]

mod among_long_flows;
mod collateral;
mod common;
mod d2tcp;
mod d3;
mod d3_capacity_rules;
mod d3_figures;
mod dcqcn;
mod dctcp;
mod dctcp_lossless;
mod deadlines;
mod exact;
mod explain;
mod forwarding;
mod gauges;
mod lossless;
mod mpdq;
mod mpdq_figure_11;
mod mptcp;
mod ndp;
mod ndp_classes;
mod ndp_failures;
mod ndp_long_paths;
mod ndp_overload;
mod ndp_timers;
mod ndp_unresponsive;
mod network_trace;
mod packet_latency;
mod papers;
mod pdq;
mod phost;
mod properties;
mod rcp;
mod server_networks;
mod window;
