//! Parameters of MPTCP; those of TCP apply to each subflow.

use crate::tcp::{TcpConfigError, TcpSettings, tcp_config};
use punctual_core::{Bytes, Duration};
use serde::{Deserialize, Serialize};

/// The greatest number of subflows of a connection.
pub const SUBFLOWS_MAX: usize = 64;

/// How the windows of a connection's subflows grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Coupling {
    /// LIA (RFC 6356): together no more aggressive than one TCP flow on the best path.
    Lia,
    /// Uncoupled: each as TCP NewReno, as in NDP's comparison.
    None,
}

/// When a connection's subflows connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubflowJoin {
    /// All at once, as in NDP's simulator.
    AtOnce,
    /// The others once the first is open (RFC 8684). A flow that fits into the first window then
    /// uses one path only.
    AfterFirst,
}

tcp_config! {
    /// Parameters of MPTCP; those of TCP apply to each subflow.
    MptcpConfig {
        /// Number of subflows, each on its own path; at most the number of paths. Default 8
        /// (NDP's comparison), 64 at most.
        subflows: u32 = 8,
        /// How windows grow: `"lia"` (RFC 6356) or `"none"`. Default `"lia"`.
        coupling: Coupling = Coupling::Lia,
        /// When subflows connect: `"after-first"` (RFC 8684 §3.2), or `"at-once"` as in NDP's
        /// comparison. Default `"after-first"`.
        join: SubflowJoin = SubflowJoin::AfterFirst,
    }
}

impl MptcpConfig {
    fn validate_own(&self) -> Result<(), TcpConfigError> {
        if self.subflows == 0 || self.subflows as usize > SUBFLOWS_MAX {
            return Err(TcpConfigError::Subflows(self.subflows));
        }
        Ok(())
    }
}
