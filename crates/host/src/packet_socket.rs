//! Receives whole Ethernet frames, also those that switches trimmed in hardware.
//!
//! Such a switch keeps the first 128, 206 or 256 bytes of a frame and may leave the lengths and
//! checksums of IP and UDP as they were. The kernel's UDP layer drops the frame then, and the
//! receiver never learns of the packet. A [`PacketSocket`] gets a copy of every frame for a UDP port
//! before that layer, and [`Frame`] finds the header in it. Of a trimmed frame no payload is
//! delivered, whatever the switch left of it.
//!
//! It needs CAP_NET_RAW. A host that uses it still binds a UDP socket to the port, so that the kernel
//! does not answer with "port unreachable". An [`Endpoint`](crate::Endpoint) takes whole packets from
//! that socket and only trimmed frames from here: see
//! [`EndpointOptions::trims`](crate::EndpointOptions::trims).

use punctual_wire::{Frame, TrimMark, WireError};
use rustix::net::netdevice::name_to_index;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, SockFilter, Socket, Type};
use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Why a socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PacketSocketError {
    /// The process lacks the capability.
    #[error(
        "receiving whole frames needs CAP_NET_RAW: run as root, or give the program the capability \
         with `setcap cap_net_raw+ep`"
    )]
    Capability,
    /// There is no such interface.
    #[error("there is no interface `{0}` in this network namespace; `ip link` lists them")]
    Interface(String),
    /// The kernel refused something else.
    #[error("cannot receive frames of interface `{0}`: {1}")]
    Socket(String, #[source] io::Error),
}

/// What [`PacketSocket::receive`] found.
#[derive(Debug)]
pub enum Received<'a> {
    /// A frame, whole or trimmed.
    Frame(Frame<'a>),
    /// A frame that is no valid packet. It was counted by its name.
    Dropped(WireError),
    /// No frame was there, or came within the timeout.
    Nothing,
}

/// An AF_PACKET socket that receives the frames of one interface for one UDP port.
#[derive(Debug)]
pub struct PacketSocket {
    socket: Socket,
    mark: TrimMark,
    buffer: Vec<u8>,
    dropped: BTreeMap<&'static str, u64>,
    lost: u64,
}

/// More than any frame: an IP packet has less than 2¹⁶ bytes.
const FRAME_BYTES_MAX: usize = (1 << 16) + 64;
/// Frames that wait in a capture: at 10 Gb/s this is 50 ms without a reader.
const TAP_BUFFER_BYTES: usize = 64 << 20;
/// Makes `recv` return the length of the frame, also if the buffer is shorter.
const MSG_TRUNC: i32 = 0x20;
/// The flag of a loopback interface.
const IFF_LOOPBACK: u32 = 8;
/// All protocols, in network byte order.
const ETH_P_ALL: u16 = 3u16.to_be();

impl PacketSocket {
    /// Opens a socket for frames that arrive at `interface` for the UDP port. `mark` says how
    /// switches mark trimmed frames.
    pub fn open(interface: &str, port: u16, mark: TrimMark) -> Result<Self, PacketSocketError> {
        PacketSocket::open_filtered(interface, &filter(port), mark)
    }

    /// Opens a socket for frames that arrive at `interface` for the UDP port and were trimmed: they
    /// are shorter than their headers say, or have the DSCP of `mark`.
    pub fn open_trims(
        interface: &str,
        port: u16,
        mark: TrimMark,
    ) -> Result<Self, PacketSocketError> {
        PacketSocket::open_filtered(interface, &trims_filter(port, mark), mark)
    }

    /// Opens a socket for the frames of `interface` with the UDP port as source or destination, in
    /// both directions: what a capture shows.
    pub fn tap(interface: &str, port: u16) -> Result<Self, PacketSocketError> {
        let flags = std::fs::read_to_string(format!("/sys/class/net/{interface}/flags"));
        let flags = flags
            .ok()
            .and_then(|text| u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok());
        let is_loopback = flags.is_some_and(|flags| flags & IFF_LOOPBACK != 0);
        let filter = tap_filter(port, is_loopback);
        let tap = PacketSocket::open_filtered(interface, &filter, TrimMark::default())?;
        tap.set_receive_buffer(TAP_BUFFER_BYTES)
            .map_err(|error| PacketSocketError::Socket(interface.to_owned(), error))?;
        Ok(tap)
    }

    /// Sets how many bytes of frames may wait for [`PacketSocket::receive`]. Above the machine's
    /// limit (`net.core.rmem_max`) this needs CAP_NET_ADMIN; without it, the limit applies.
    pub fn set_receive_buffer(&self, bytes: usize) -> io::Result<()> {
        set_socket_recv_buffer_size_force(&self.socket, bytes)
            .or_else(|_| set_socket_recv_buffer_size(&self.socket, bytes))
            .map_err(io::Error::from)
    }

    fn open_filtered(
        interface: &str,
        filter: &[SockFilter],
        mark: TrimMark,
    ) -> Result<Self, PacketSocketError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => PacketSocketError::Capability,
            _ => PacketSocketError::Socket(interface.to_owned(), error),
        };
        // Protocol 0 receives nothing, so that no frame comes before the filter and the interface.
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(0)));
        let socket = socket.map_err(failed)?;
        let index = name_to_index(&socket, interface)
            .map_err(|_| PacketSocketError::Interface(interface.to_owned()))?;
        socket.attach_filter(filter).map_err(failed)?;
        socket.bind(&link_address(index)).map_err(failed)?;
        Ok(PacketSocket {
            socket,
            mark,
            buffer: Vec::with_capacity(FRAME_BYTES_MAX),
            dropped: BTreeMap::new(),
            lost: 0,
        })
    }

    /// Whether [`PacketSocket::receive`] returns at once if no frame is there.
    pub fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        self.socket.set_nonblocking(is_nonblocking)
    }

    /// How long [`PacketSocket::receive`] waits for a frame; for ever if `None`.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.set_read_timeout(timeout)
    }

    /// Fills the buffer with the next frame. Returns the frame's length; `None` if there is none.
    fn fill_buffer(&mut self) -> io::Result<Option<usize>> {
        self.buffer.clear();
        let room: &mut [MaybeUninit<u8>] = self.buffer.spare_capacity_mut();
        let capacity = room.len();
        match self.socket.recv_with_flags(room, MSG_TRUNC) {
            Ok(bytes) => {
                fill(&mut self.buffer, bytes.min(capacity));
                Ok(Some(bytes))
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Receives the next frame as it is, with the time since the epoch at which the kernel saw it.
    /// `None` if no frame came within the timeout.
    pub fn receive_raw(&mut self) -> io::Result<Option<(&[u8], Duration)>> {
        if self.fill_buffer()?.is_none() {
            return Ok(None);
        }
        let at = arrival_time(&self.socket);
        Ok(Some((&self.buffer, at)))
    }

    /// Receives the next frame.
    pub fn receive(&mut self) -> io::Result<Received<'_>> {
        let Some(sent_bytes) = self.fill_buffer()? else { return Ok(Received::Nothing) };
        match Frame::parse(&self.buffer, sent_bytes, self.mark) {
            Ok(frame) => Ok(Received::Frame(frame)),
            Err(error) => {
                *self.dropped.entry(error.name()).or_default() += 1;
                Ok(Received::Dropped(error))
            }
        }
    }

    /// Sends a frame as it is, for tests and switches.
    pub fn send(&self, frame: &[u8]) -> io::Result<usize> {
        self.socket.send(frame)
    }

    /// Frames that were lost so far because the receive buffer was full.
    pub fn lost(&mut self) -> io::Result<u64> {
        self.lost += u64::from(lost_since_last_call(&self.socket)?);
        Ok(self.lost)
    }

    /// Frames dropped so far, by [name](WireError::name).
    pub fn dropped(&self) -> &BTreeMap<&'static str, u64> {
        &self.dropped
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sets the length of a buffer that `recv` has filled.
#[allow(unsafe_code, reason = "the standard library cannot know what a system call has written")]
fn fill(buffer: &mut Vec<u8>, bytes: usize) {
    // SAFETY: `recv` has written `bytes` bytes to the spare capacity of the empty buffer, which is
    // not less.
    unsafe { buffer.set_len(bytes) }
}

/// When the kernel saw the last frame of a socket, since the epoch; now, if it does not know.
#[allow(unsafe_code, reason = "rustix has no SIOCGSTAMPNS")]
fn arrival_time(socket: &Socket) -> Duration {
    use std::os::fd::AsRawFd as _;
    /// `SIOCGSTAMPNS_OLD`: libc has no name for it.
    const SIOCGSTAMPNS: libc::Ioctl = 0x8907;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes a `timespec` to the address, which is one.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSTAMPNS, &raw mut time) };
    match (result, u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec)) {
        (0, Ok(secs), Ok(nanos)) => Duration::new(secs, nanos),
        _ => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
    }
}

/// Frames that a socket has lost since the last call; the kernel sets its counters to 0.
#[allow(unsafe_code, reason = "rustix and socket2 have no PACKET_STATISTICS")]
fn lost_since_last_call(socket: &Socket) -> io::Result<u32> {
    use std::os::fd::AsRawFd as _;
    let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut bytes = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes to the address, which is a `tpacket_stats`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut stats).cast(),
            &raw mut bytes,
        )
    };
    if result == 0 { Ok(stats.tp_drops) } else { Err(io::Error::last_os_error()) }
}

/// `struct sockaddr_ll` of packet(7).
#[repr(C)]
struct LinkAddress {
    family: u16,
    protocol: u16,
    index: i32,
    hardware_type: u16,
    packet_type: u8,
    address_bytes: u8,
    address: [u8; 8],
}

/// The address of an interface, for all protocols.
#[allow(unsafe_code, reason = "socket2 has no addresses of interfaces")]
fn link_address(index: u32) -> SockAddr {
    let address = LinkAddress {
        family: i32::from(Domain::PACKET) as u16,
        protocol: ETH_P_ALL,
        index: index as i32,
        hardware_type: 0,
        packet_type: 0,
        address_bytes: 0,
        address: [0; 8],
    };
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: a `LinkAddress` is smaller than the storage and as much aligned, consists of numbers,
    // and has the layout that the kernel expects for this family.
    unsafe {
        *storage.view_as::<LinkAddress>() = address;
        SockAddr::new(storage, size_of::<LinkAddress>() as u32)
    }
}

// Instructions of classic BPF.
const LD_BYTE: u16 = 0x30;
const LD_HALF: u16 = 0x28;
const LD_HALF_AT_X: u16 = 0x48;
const LDX_HEADER_BYTES: u16 = 0xb1;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_ANY_BIT: u16 = 0x45;
const JUMP_ABOVE_X: u16 = 0x2d;
const LDX_FRAME_BYTES: u16 = 0x81;
const ADD: u16 = 0x04;
const ADD_X: u16 = 0x0c;
const AND: u16 = 0x54;
const SHIFT_RIGHT: u16 = 0x74;
const RETURN: u16 = 0x06;
/// Where the kernel shows a frame's type: 0 for frames to this host, 4 for frames from it.
const PACKET_TYPE: u32 = 0xffff_f000 + 4;

/// A classic BPF program that accepts frames to this host, IPv4 or IPv6 without extension headers,
/// whose UDP destination port is `port`. It reads no lengths.
fn filter(port: u16) -> [SockFilter; 18] {
    let op = SockFilter::new;
    let port = u32::from(port);
    [
        op(LD_BYTE, 0, 0, PACKET_TYPE),
        op(JUMP_EQUAL, 0, 15, 0),
        op(LD_HALF, 0, 0, 12),
        op(JUMP_EQUAL, 0, 7, 0x0800),
        op(LD_BYTE, 0, 0, 23),
        op(JUMP_EQUAL, 0, 11, 17),
        // No fragment but the first.
        op(LD_HALF, 0, 0, 20),
        op(JUMP_ANY_BIT, 9, 0, 0x1fff),
        op(LDX_HEADER_BYTES, 0, 0, 14),
        op(LD_HALF_AT_X, 0, 0, 14 + 2),
        op(JUMP_EQUAL, 5, 6, port),
        op(JUMP_EQUAL, 0, 5, 0x86dd),
        op(LD_BYTE, 0, 0, 14 + 6),
        op(JUMP_EQUAL, 0, 3, 17),
        op(LD_HALF, 0, 0, 14 + 40 + 2),
        op(JUMP_EQUAL, 0, 1, port),
        op(RETURN, 0, 0, u32::MAX),
        op(RETURN, 0, 0, 0),
    ]
}

/// A classic BPF program that accepts frames to this host, IPv4 or IPv6 without extension headers,
/// whose UDP destination port is `port` and which were trimmed: their IP or UDP length is larger than
/// the frame, or they have the DSCP of `mark`.
fn trims_filter(port: u16, mark: TrimMark) -> [SockFilter; 40] {
    const IPV6_AT: u8 = 22;
    const ACCEPT_AT: u8 = 38;
    const REJECT_AT: u8 = 39;
    let op = |code, k| SockFilter::new(code, 0, 0, k);
    // Jumps from the instruction `at`.
    let unless = |at: u8, code, k, to: u8| SockFilter::new(code, 0, to - at - 1, k);
    let when = |at: u8, code, k, to: u8| SockFilter::new(code, to - at - 1, 0, k);
    let port = u32::from(port);
    // No packet has the DSCP 255.
    let dscp = u32::from(mark.dscp.unwrap_or(255));
    [
        op(LD_BYTE, PACKET_TYPE),
        unless(1, JUMP_EQUAL, 0, REJECT_AT),
        op(LD_HALF, 12),
        unless(3, JUMP_EQUAL, 0x0800, IPV6_AT),
        op(LD_BYTE, 23),
        unless(5, JUMP_EQUAL, 17, REJECT_AT),
        // No fragment but the first.
        op(LD_HALF, 20),
        when(7, JUMP_ANY_BIT, 0x1fff, REJECT_AT),
        op(LDX_HEADER_BYTES, 14),
        op(LD_HALF_AT_X, 14 + 2),
        unless(10, JUMP_EQUAL, port, REJECT_AT),
        op(LD_BYTE, 15),
        op(SHIFT_RIGHT, 2),
        when(13, JUMP_EQUAL, dscp, ACCEPT_AT),
        // Where the datagram ends, as UDP's length says.
        op(LD_HALF_AT_X, 14 + 4),
        op(ADD_X, 0),
        op(ADD, 14),
        op(LDX_FRAME_BYTES, 0),
        when(18, JUMP_ABOVE_X, 0, ACCEPT_AT),
        // Where it ends, as IP's length says.
        op(LD_HALF, 14 + 2),
        op(ADD, 14),
        SockFilter::new(JUMP_ABOVE_X, ACCEPT_AT - 22, REJECT_AT - 22, 0),
        unless(IPV6_AT, JUMP_EQUAL, 0x86dd, REJECT_AT),
        op(LD_BYTE, 14 + 6),
        unless(24, JUMP_EQUAL, 17, REJECT_AT),
        op(LD_HALF, 14 + 40 + 2),
        unless(26, JUMP_EQUAL, port, REJECT_AT),
        op(LD_HALF, 14),
        op(SHIFT_RIGHT, 6),
        op(AND, 0x3f),
        when(30, JUMP_EQUAL, dscp, ACCEPT_AT),
        op(LDX_FRAME_BYTES, 0),
        op(LD_HALF, 14 + 40 + 4),
        op(ADD, 14 + 40),
        when(34, JUMP_ABOVE_X, 0, ACCEPT_AT),
        op(LD_HALF, 14 + 4),
        op(ADD, 14 + 40),
        unless(37, JUMP_ABOVE_X, 0, REJECT_AT),
        op(RETURN, u32::MAX),
        op(RETURN, 0),
    ]
}

/// A classic BPF program that accepts frames, IPv4 or IPv6 without extension headers, whose UDP source
/// or destination port is `port`. On loopback each frame shows up twice; the one from this host is
/// left out.
fn tap_filter(port: u16, is_loopback: bool) -> [SockFilter; 22] {
    let op = SockFilter::new;
    let port = u32::from(port);
    // No frame has the type 255.
    let left_out = if is_loopback { 4 } else { 255 };
    [
        op(LD_BYTE, 0, 0, PACKET_TYPE),
        op(JUMP_EQUAL, 19, 0, left_out),
        op(LD_HALF, 0, 0, 12),
        op(JUMP_EQUAL, 0, 9, 0x0800),
        op(LD_BYTE, 0, 0, 23),
        op(JUMP_EQUAL, 0, 15, 17),
        // No fragment but the first.
        op(LD_HALF, 0, 0, 20),
        op(JUMP_ANY_BIT, 13, 0, 0x1fff),
        op(LDX_HEADER_BYTES, 0, 0, 14),
        op(LD_HALF_AT_X, 0, 0, 14),
        op(JUMP_EQUAL, 9, 0, port),
        op(LD_HALF_AT_X, 0, 0, 14 + 2),
        op(JUMP_EQUAL, 7, 8, port),
        op(JUMP_EQUAL, 0, 7, 0x86dd),
        op(LD_BYTE, 0, 0, 14 + 6),
        op(JUMP_EQUAL, 0, 5, 17),
        op(LD_HALF, 0, 0, 14 + 40),
        op(JUMP_EQUAL, 2, 0, port),
        op(LD_HALF, 0, 0, 14 + 40 + 2),
        op(JUMP_EQUAL, 0, 1, port),
        op(RETURN, 0, 0, u32::MAX),
        op(RETURN, 0, 0, 0),
    ]
}
