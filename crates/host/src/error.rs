//! Why a file did not get across, and what to do about it.

use crate::driver::DriverError;
use punctual_core::{Bytes, Duration};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Why a transfer failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The file to send is not there.
    #[error("{0}: no such file")]
    Missing(PathBuf),
    /// The file to send is something else.
    #[error("{0}: not a regular file, which is all that can be sent")]
    NotAFile(PathBuf),
    /// The file to send became shorter.
    #[error("{0}: changed while it was being sent; send it again")]
    Changed(PathBuf),
    /// The file to write is there already.
    #[error("{0}: exists already; remove it or choose another name")]
    Exists(PathBuf),
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No room for the file.
    #[error("{0}: the disk is full; what had arrived was removed")]
    DiskFull(PathBuf),
    /// Another socket has the address.
    #[error("{0}: address in use; stop the other program or choose another port")]
    AddressInUse(SocketAddr),
    /// The address is not one of this machine.
    #[error("{0}: not an address of this machine; listen on 0.0.0.0 or [::] for all of them")]
    AddressNotHere(SocketAddr),
    /// Nothing was heard of the other end for too long.
    #[error("{peer}: silent for {waited}{}", refused_hint(*.refused))]
    PeerSilent {
        /// The other end.
        peer: SocketAddr,
        /// How long nothing was heard.
        waited: Duration,
        /// Its host said that nobody listens there.
        refused: bool,
    },
    /// Nobody sent anything.
    #[error("{listen}: no sender within {waited}; start one with this address")]
    NoSender {
        /// Where nobody called.
        listen: SocketAddr,
        /// For how long.
        waited: Duration,
    },
    /// The file arrived, but differs.
    #[error("{0}: what arrived differs from what was sent and was removed; send it again")]
    HashMismatch(PathBuf),
    /// What is offered is larger than accepted.
    #[error("the sender offers {offered}, more than the {accepted} accepted here")]
    TooLarge {
        /// Bytes offered.
        offered: Bytes,
        /// Bytes accepted at most.
        accepted: Bytes,
    },
    /// The flow is not a file's.
    #[error("{0}: sends something that is not a file of this program's version")]
    NotOurs(SocketAddr),
    /// The receiver says that it failed.
    #[error("{peer}: the receiver refuses: {reason}")]
    Refused {
        /// The receiver.
        peer: SocketAddr,
        /// What it said.
        reason: &'static str,
    },
    /// The MTU leaves no room for data, or is more than IP can carry.
    #[error("mtu of {0}: must be from 256B to 65000B; 1500B suits most networks")]
    Mtu(Bytes),
    /// The rate is too low to be meant.
    #[error("rate of {0}: must be 10Kbps or more")]
    Rate(punctual_core::Rate),
    /// The transport's parameters are wrong.
    #[error("{0}")]
    Transport(String),
    /// The socket failed.
    #[error("{address}: {source}")]
    Socket {
        /// The address concerned.
        address: SocketAddr,
        /// What happened.
        source: DriverError,
    },
}

fn refused_hint(refused: bool) -> &'static str {
    if refused { "; its host says that nobody listens there" } else { "" }
}

impl HostError {
    pub(crate) fn reading(path: &Path, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => HostError::Missing(path.into()),
            io::ErrorKind::UnexpectedEof => HostError::Changed(path.into()),
            _ => HostError::File { path: path.into(), source: error },
        }
    }

    pub(crate) fn writing(path: &Path, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                HostError::DiskFull(path.into())
            }
            io::ErrorKind::AlreadyExists => HostError::Exists(path.into()),
            _ => HostError::File { path: path.into(), source: error },
        }
    }

    pub(crate) fn socket(address: SocketAddr, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::AddrInUse => HostError::AddressInUse(address),
            io::ErrorKind::AddrNotAvailable => HostError::AddressNotHere(address),
            _ => HostError::Socket { address, source: DriverError::Socket(error) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_to_do() {
        let path = Path::new("out.bin");
        let full = HostError::writing(path, io::ErrorKind::StorageFull.into());
        assert_eq!(full.to_string(), "out.bin: the disk is full; what had arrived was removed");
        let peer = SocketAddr::from(([127, 0, 0, 1], 9));
        let silent = HostError::PeerSilent { peer, waited: Duration::from_secs(5), refused: true };
        assert_eq!(
            silent.to_string(),
            "127.0.0.1:9: silent for 5s; its host says that nobody listens there"
        );
    }
}
