//! A software switch: it forwards real Ethernet frames through the simulator's own ports.
//!
//! One process with one thread emulates any number of switches. Only host ports are network
//! interfaces; links between switches are in memory. Each output port is a
//! [`Port`](punctual_net::Port) with the discipline and the controllers that the simulator runs,
//! and it runs in **virtual time**: a frame enters with the arrival time that the kernel gave it,
//! the ports decide on that clock what is queued, marked, trimmed, dropped and when it departs, and
//! the frame leaves at max(now, departure). So a thread that is late by some microseconds delays
//! packets, but loses none that the emulated switch would not have lost.
//!
//! * [`SwitchConfig`] reads the configuration, [`Fabric`] is the switch without any interface,
//! * [`FrameIo`] is where frames come from and go to: interfaces ([`Interfaces`]) or memory
//!   ([`MemoryIo`], for tests),
//! * [`Switch`] joins the two, and [`SwitchReport`] says what happened and whether the run was on
//!   time.

#![cfg_attr(test, allow(non_snake_case))]

mod address;
mod config;
mod config_text;
mod context;
mod controllers;
mod counters;
mod fabric;
mod frame;
mod io;
#[cfg(target_os = "linux")]
mod namespace;
#[cfg(target_os = "linux")]
mod netlink;
mod report;
#[cfg(target_os = "linux")]
mod ring;
mod switch;
#[cfg(target_os = "linux")]
mod testbed;
mod trim_rule;

pub use config::{ConfigError, HostPort, LinkFaults, SwitchConfig};
pub use config_text::{ConfigSource, host_mac, interface_name, mac_of};
pub use counters::{HostCounters, PortCounters};
pub use fabric::Fabric;
pub use io::{Departed, FrameIo, IoLosses, MemoryIo, Received};
#[cfg(target_os = "linux")]
pub use namespace::{
    enter_namespace, in_namespace, new_namespace, on_a_thread, raise_priority, set_realtime,
    spawn_in_namespace, turn_off_tx_checksum,
};
#[cfg(target_os = "linux")]
pub use netlink::{Ipv4Route, Netlink, VethEnd};
pub use report::{HostReport, LatenessHistogram, PortReport, SwitchReport};
#[cfg(target_os = "linux")]
pub use ring::{Interfaces, IoError, missing_capability};
pub use switch::{ReloadError, Switch};
#[cfg(target_os = "linux")]
pub use testbed::{Testbed, TestbedError, TestbedStatus};
pub use trim_rule::{TrimLengths, TrimProfile, TrimRule};
