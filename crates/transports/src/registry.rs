//! The list of transports, and what is generated from it.

use punctual_core::{Bytes, QueueSpec, Rate};
use serde::{Deserialize, Serialize};

/// A transport's entry in the catalogue.
#[derive(Debug, Clone, Copy)]
pub struct TransportInfo {
    /// Its name in scenarios and on the command line.
    pub name: &'static str,
    /// One line about it.
    pub summary: &'static str,
}

/// Any transport with its parameters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum AnyTransport {
    /// Placeholder until the first transport is registered.
    None,
}

/// Parameters of every transport, as a scenario may set them: `[transport.ndp]` and so on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransportSettings {}

impl AnyTransport {
    /// All transports.
    pub fn catalogue() -> &'static [TransportInfo] {
        &[]
    }

    /// The transport of that name with the given settings.
    pub fn by_name(name: &str, settings: &TransportSettings) -> Option<AnyTransport> {
        let _ = (name, settings);
        None
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        "none"
    }

    /// The switch queue that suits it.
    pub fn default_queue(&self, rate: Rate, mtu: Bytes) -> QueueSpec {
        let _ = (rate, mtu);
        unimplemented!("no transport registered yet")
    }
}
