//! MPTCP's own parameters, beside those of TCP that hold for each of its subflows.

use crate::tcp::{TcpConfigError, TcpSettings, tcp_config};
use punctual_core::{Bytes, Duration};
use serde::{Deserialize, Serialize};

/// Subflows of one connection at most.
pub const SUBFLOWS_MAX: usize = 64;

/// How the windows of a connection's subflows grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Coupling {
    /// RFC 6356: together no more aggressive than one TCP on the best path.
    Lia,
    /// Each by itself, as TCP NewReno: what NDP's comparison ran.
    None,
}

/// When a connection's subflows connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubflowJoin {
    /// All at once: what NDP's simulator does.
    AtOnce,
    /// RFC 8684: the others once the first is open. What fits into its first window then takes
    /// its path alone.
    AfterFirst,
}

tcp_config! {
    /// MPTCP and its parameters; those of TCP hold for each subflow.
    MptcpConfig {
        /// Subflows, each on a path of its own; fewer where there are fewer paths. Default 8
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
