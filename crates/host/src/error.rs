//! Errors of file transfers.

use crate::driver::DriverError;
use crate::endpoint::{ReceiveError, SendError, Service};
use punctual_core::{Bytes, Duration};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Why a transfer failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The file to send does not exist.
    #[error("{0}: no such file")]
    Missing(PathBuf),
    /// The path to send is not a regular file.
    #[error("{0}: not a regular file; only regular files can be sent")]
    NotAFile(PathBuf),
    /// The path to send is a directory.
    #[error("{0}: a directory; name the files in it, or pack it with `tar` and send the archive")]
    Directory(PathBuf),
    /// The directory to receive into does not exist.
    #[error("{0}: not a directory; create it first")]
    NotADirectory(PathBuf),
    /// The sender gives the file a name that could surprise.
    #[error("{0}: offers a file whose name is a path, hidden or has control characters; refused")]
    BadName(SocketAddr),
    /// The file to send became shorter during the transfer.
    #[error("{0}: changed while it was being sent; send it again")]
    Changed(PathBuf),
    /// The file to write exists already.
    #[error("{0}: exists already; remove it, choose another name or pass --overwrite")]
    Exists(PathBuf),
    /// The path to write is a directory or has no file name.
    #[error("{0}: not a file name; give the name of the file to write")]
    OutNotAFile(PathBuf),
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The disk is full.
    #[error("{0}: the disk is full; the incomplete file was removed")]
    DiskFull(PathBuf),
    /// Trimmed packets cannot be received.
    #[error("{0}")]
    Frames(#[from] crate::packet_socket::PacketSocketError),
    /// Another socket uses the address.
    #[error("{0}: address in use; stop the other program or choose another port")]
    AddressInUse(SocketAddr),
    /// The address does not belong to this machine.
    #[error("{0}: not an address of this machine; listen on 0.0.0.0 or [::] for all of them")]
    AddressNotHere(SocketAddr),
    /// The peer was silent for too long.
    #[error("{peer}: silent for {waited}{}", last_error_hint(.last_error.as_ref()))]
    PeerSilent {
        /// The peer.
        peer: SocketAddr,
        /// How long it was silent.
        waited: Duration,
        /// The last error of the socket, if there was any.
        last_error: Option<io::Error>,
    },
    /// The network reported that the peer cannot be reached.
    #[error("{peer}: cannot be reached{}", last_error_hint(Some(.source)))]
    Unreachable {
        /// The peer.
        peer: SocketAddr,
        /// What was reported.
        source: io::Error,
    },
    /// Every byte was sent, but the receiver did not confirm that it stored the file.
    #[error(
        "{peer}: whether it stored the file is unknown: it was sent all data, then {}; look there \
         before you send it again",
        unconfirmed(.error)
    )]
    Unconfirmed {
        /// The peer.
        peer: SocketAddr,
        /// Why no answer arrived.
        error: SendError,
    },
    /// The user stopped the transfer.
    #[error("interrupted")]
    Interrupted,
    /// No sender appeared.
    #[error("{listen}: no sender within {waited}; start `punctual send` or set a longer --wait")]
    NoSender {
        /// The receiver's address.
        listen: SocketAddr,
        /// How long it waited.
        waited: Duration,
    },
    /// The received file differs from the one sent.
    #[error("{0}: the received file differs from what was sent and was removed; send it again")]
    HashMismatch(PathBuf),
    /// The offered file is too large.
    #[error("the sender offers {offered}, but this receiver accepts at most {accepted}")]
    TooLarge {
        /// Size of the offered file.
        offered: Bytes,
        /// Largest size accepted.
        accepted: Bytes,
    },
    /// The flow does not carry a file.
    #[error("{0}: the peer uses another file format; run the same version at both ends")]
    NotOurs(SocketAddr),
    /// The receiver did not store the file.
    #[error("{peer}: the receiver did not store the file: {reason}")]
    Refused {
        /// The receiver.
        peer: SocketAddr,
        /// Its reason.
        reason: &'static str,
    },
    /// The endpoint cannot send.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The MTU leaves no room for data, or is more than IP can carry.
    #[error("mtu = {0}: must be from 256B to 65000B; 1500B suits most networks")]
    Mtu(Bytes),
    /// The MTU leaves a transport less room for data than peers accept, beside the headers and tags of
    /// this endpoint.
    #[error(
        "mtu = {mtu}: leaves `{transport}` less than 128B of data a packet; choose {least} or more"
    )]
    SmallMtu {
        /// The MTU.
        mtu: Bytes,
        /// The least MTU with which the transport works.
        least: Bytes,
        /// The transport.
        transport: &'static str,
    },
    /// The rate is too low.
    #[error("rate = {0}: must be 10Kbps or more")]
    Rate(punctual_core::Rate),
    /// The transport's parameters are invalid.
    #[error("{0}")]
    Transport(String),
    /// No host daemon answers at this socket.
    #[error(
        "{path}: no host daemon answers ({source}); start it with `punctual hostd --socket {path}`"
    )]
    DaemonAbsent {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The host daemon does not serve this process.
    #[error("{path}: the host daemon does not serve this process: {reason}")]
    DaemonRefused {
        /// The socket.
        path: PathBuf,
        /// The reason, and what to do.
        reason: String,
    },
    /// The host daemon ended.
    #[error("the host daemon has gone; start `punctual hostd` and this command again")]
    DaemonGone,
    /// Another process of this host receives for the service.
    #[error("another process of this host receives for {0}; stop it or choose another --service")]
    ServiceTaken(Service),
    /// Another host daemon listens at this socket.
    #[error("{0}: another host daemon listens there; stop it or choose another --socket")]
    DaemonRunning(PathBuf),
    /// The socket failed.
    #[error("{address}: {source}")]
    Socket {
        /// The address of the socket or of the peer.
        address: SocketAddr,
        /// The error.
        source: DriverError,
    },
}

fn last_error_hint(error: Option<&io::Error>) -> String {
    match error {
        None => String::new(),
        Some(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            "; nothing seems to listen there, start the receiver first".into()
        }
        Some(e) => format!("; the last packet could not be sent: {e}"),
    }
}

/// Why no answer arrived, after "then".
fn unconfirmed(error: &SendError) -> String {
    match error {
        SendError::PeerSilent { waited, .. } => format!("it was silent for {waited:?}"),
        SendError::Restarted(_) => "it restarted".into(),
        SendError::DaemonGone => "the host daemon of this machine ended".into(),
        other => format!("the request to store it failed ({other})"),
    }
}

/// An error of the socket that an endpoint reports as text.
fn reported(text: String) -> io::Error {
    match text.to_ascii_lowercase().contains("refused") {
        true => io::ErrorKind::ConnectionRefused.into(),
        false => io::Error::other(text),
    }
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

    pub(crate) fn sending(peer: SocketAddr, error: SendError) -> Self {
        match error {
            SendError::PeerSilent { waited, last_error, .. } => HostError::PeerSilent {
                peer,
                waited: crate::options::to_core(waited),
                last_error: last_error.map(reported),
            },
            SendError::PeerUnreachable { peer, error } => {
                HostError::Unreachable { peer, source: reported(error) }
            }
            SendError::OtherVersion(peer) => HostError::NotOurs(peer),
            SendError::DaemonGone => HostError::DaemonGone,
            other => HostError::Send(other),
        }
    }

    /// Why a receiver cannot accept messages for a service.
    pub(crate) fn accepting(service: Service, error: ReceiveError) -> Self {
        match error {
            ReceiveError::ServiceTaken => HostError::ServiceTaken(service),
            ReceiveError::DaemonGone => HostError::DaemonGone,
            other => HostError::Send(SendError::Closed(other.to_string())),
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
        assert_eq!(full.to_string(), "out.bin: the disk is full; the incomplete file was removed");
        let peer = SocketAddr::from(([127, 0, 0, 1], 9));
        let refused = Some(io::ErrorKind::ConnectionRefused.into());
        let waited = Duration::from_secs(5);
        let silent = HostError::PeerSilent { peer, waited, last_error: refused };
        assert_eq!(
            silent.to_string(),
            "127.0.0.1:9: silent for 5s; nothing seems to listen there, start the receiver first"
        );
        let gone = HostError::Unconfirmed { peer, error: SendError::DaemonGone };
        assert_eq!(
            gone.to_string(),
            "127.0.0.1:9: whether it stored the file is unknown: it was sent all data, then the \
             host daemon of this machine ended; look there before you send it again"
        );
    }
}
