//! The host daemon: one engine for all processes of a host.
//!
//! [`Hostd`] owns the UDP socket, NDP's pull queue and the pacing. Processes attach over a Unix
//! socket ([`Endpoint::attach`](crate::Endpoint::attach)) and exchange frames with it through shared
//! memory. docs/hostd.md explains it.
//!
//! * `memory` and `ring`: shared memory, and rings of frames in it.
//! * `protocol`: greetings and frames.
//! * `attach` and `attachment`: the client's end.
//! * `server` and `session`: the daemon's end, and what it keeps for each client.

mod attach;
mod attachment;
mod memory;
mod metrics;
mod protocol;
mod ring;
mod server;
mod session;

pub(crate) use attach::attach;
pub(crate) use attachment::Attachment;
pub use metrics::{HostdClientStats, HostdStats};
pub use protocol::VERSION as HOSTD_VERSION;
pub use server::{Hostd, HostdOptions};

use rustix::net::{SendFlags, send};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// The environment variable that names the socket of the host daemon.
pub const HOSTD_VARIABLE: &str = "PUNCTUAL_HOSTD";

/// Where the host daemon listens unless told otherwise: `$PUNCTUAL_HOSTD`, or
/// `/run/punctual/hostd.sock` if its directory exists, or `$XDG_RUNTIME_DIR/punctual/hostd.sock`.
pub fn default_hostd_socket() -> PathBuf {
    let not_empty = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = not_empty(HOSTD_VARIABLE) {
        return path.into();
    }
    let system = PathBuf::from("/run/punctual");
    let directory = match not_empty("XDG_RUNTIME_DIR") {
        Some(runtime) if !system.is_dir() => PathBuf::from(runtime).join("punctual"),
        _ => system,
    };
    directory.join("hostd.sock")
}

/// Wakes up the other end of a connection. If its buffer is full, it will wake up anyway.
fn ring_bell(stream: &UnixStream) {
    let _ = send(stream, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

/// The system's monotonic clock, which is the same for all processes.
fn monotonic_nanos() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec)
        .unwrap_or(0)
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}
