//! Transports on real UDP sockets.
//!
//! * [`Endpoint`] sends messages to many peers and receives them, with deadlines and outcomes: what a
//!   service uses. docs/endpoint.md explains it.
//! * [`Hostd`] runs the endpoint of a whole host, for processes that attach to it.
//! * [`FileSender`] and [`Receiver`] transfer files over endpoints.
//! * [`Driver`] is the event loop below.
//!
//! # Example
//!
//! ```
//! use punctual_host::{Endpoint, EndpointOptions, Outcome, SendOptions};
//! use std::time::Duration;
//!
//! let server = Endpoint::bind("127.0.0.1:0".parse()?, EndpointOptions::default())?;
//! let listener = server.listen();
//! let client = Endpoint::bind("127.0.0.1:0".parse()?, EndpointOptions::default())?;
//!
//! let options = SendOptions { deadline: Some(Duration::from_secs(2)), ..SendOptions::default() };
//! let send = client.send(server.local_addr(), "hello", &options)?;
//! let mut message = listener.accept()?;
//! assert_eq!(message.read_to_end()?, b"hello");
//! assert!(matches!(send.wait(), Outcome::Met(_)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Files
//!
//! [`FileSender`] and [`Receiver`] transfer files between endpoints:
//!
//! * The sender offers a file by name, length, hash and deadline, then sends it in parts. Memory does
//!   not grow with file size.
//! * The receiver checks the hash, stores the file on its disk and names it. Then it answers, with a
//!   random number that only the receiver of the file knows. If the sender returns without error,
//!   the file is stored.
//! * An interrupted transfer is continued where it ended, if both ends have the same bytes.
//! * Messages that are no file, stall or come from a forged address do not keep an honest sender away.
//! * A transfer never hangs: a silent peer is an error after [`LinkOptions::silence`].
//!
//! Nothing is encrypted. With [`LinkOptions::key`] packets are authenticated.

mod clock;
mod daemon;
mod driver;
mod endpoint;
mod error;
mod fast_open;
mod intake;
mod nic;
mod options;
pub mod packet_socket;
mod partial;
pub mod perf;
#[cfg(feature = "quic")]
mod quic;
mod receive;
mod seal;
mod send;
mod stream;
mod sys;
mod timers;
mod transfer;

pub use clock::Clock;
pub use daemon::{
    HOSTD_VARIABLE, HOSTD_VERSION, Hostd, HostdClientStats, HostdOptions, HostdStats,
    default_hostd_socket,
};
pub use driver::{
    Application, Driver, DriverError, DriverOptions, HostNic, Offer, Traffic, WireSet,
};
pub use endpoint::{
    Endpoint, EndpointOptions, EndpointStats, HardwareTrims, HostTransport, Incoming, Listener,
    Outcome, PingError, ReceiveError, SendError, SendHandle, SendOptions, Service, Times,
};
pub use error::HostError;
pub use options::{
    LinkOptions, ReceiveOptions, ReceiveReport, ReceivedFile, SendFileOptions, SendReport,
};
pub use receive::{ReceiveTarget, Receiver, receive_file};
pub use seal::Key;
pub use send::{FileSender, send_file};
pub use stream::Hash;

use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{SocketAddr, UdpSocket};

/// Socket buffer size, so that the kernel can hold packets while the process is not scheduled.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

fn bind(address: SocketAddr) -> Result<UdpSocket, HostError> {
    bind_to(address, None).map_err(|e| HostError::socket(address, e))
}

/// Binds a socket to an address and, if it is named, to an interface.
fn bind_to(address: SocketAddr, interface: Option<&str>) -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    // The kernel grants less where its limits are lower, which costs speed only.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER_BYTES);
    // Datagrams larger than the path's MTU are fragmented instead of refused.
    let _ = match address {
        SocketAddr::V4(_) => set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DONT),
        SocketAddr::V6(_) => set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DONT),
    };
    if let Some(interface) = interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}
