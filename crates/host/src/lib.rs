//! Transports on real UDP sockets.
//!
//! * [`Endpoint`] sends messages to many peers and receives them, with deadlines and outcomes: what a
//!   service uses. docs/endpoint.md explains it.
//! * [`send_file`] and [`receive_file`] transfer one file.
//! * [`Driver`] is the event loop below both.
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
//! [`Driver`] runs the simulator's endpoints on the machine's clock and one socket. On top of it,
//! [`send_file`] and [`receive_file`] transfer a file from one host to another over NDP:
//!
//! * The flow begins with the file's length, hash and deadline, then the file. It has no file name.
//! * Packets are read from and written to files by range, so memory does not grow with file size.
//! * The receiver checks the hash, stores the file on its disk and names it. Then it answers in a
//!   second flow, with a random number that only the receiver of the file knows. If the sender
//!   returns without error, the file is stored.
//! * Flows that are no file, stall or come from a forged address do not keep an honest sender away.
//! * A transfer never hangs: a silent peer is an error after [`LinkOptions::silence`].
//!
//! File transfers have no encryption and no authentication: use them on networks you trust.

mod candidate;
mod clock;
mod driver;
mod endpoint;
mod error;
mod intake;
mod nic;
mod options;
pub mod packet_socket;
mod partial;
pub mod perf;
mod receive;
mod seal;
mod send;
mod stream;
mod sys;
mod timers;

pub use clock::Clock;
pub use driver::{Application, Driver, DriverError, DriverOptions, Offer, Traffic};
pub use endpoint::{
    Endpoint, EndpointOptions, EndpointStats, HostTransport, Incoming, Listener, Outcome,
    ReceiveError, SendError, SendHandle, SendOptions, Times,
};
pub use error::HostError;
pub use options::{LinkOptions, ReceiveOptions, ReceiveReport, SendFileOptions, SendReport};
pub use receive::{Receiver, receive_file};
pub use seal::Key;
pub use send::{send_file, send_file_over};
pub use stream::Hash;

use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{SocketAddr, UdpSocket};

/// Socket buffer size, so that the kernel can hold packets while the process is not scheduled.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

fn bind(address: SocketAddr) -> Result<UdpSocket, HostError> {
    let domain = Domain::for_address(address);
    let open = || {
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        // The kernel grants less where its limits are lower, which costs speed only.
        let _ = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
        let _ = socket.set_send_buffer_size(SOCKET_BUFFER_BYTES);
        // Datagrams larger than the path's MTU are fragmented instead of refused.
        let _ = match address {
            SocketAddr::V4(_) => set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DONT),
            SocketAddr::V6(_) => set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DONT),
        };
        socket.bind(&address.into())?;
        Ok(socket.into())
    };
    open().map_err(|e| HostError::socket(address, e))
}
