//! System calls on UDP sockets that neither the standard library nor rustix has: batches
//! (`sendmmsg`, `recvmmsg`), segments (`UDP_SEGMENT`, `UDP_GRO`), local addresses (`IP_PKTINFO`),
//! traffic classes (`IP_TOS`) and the error queue (`IP_RECVERR`).
//!
//! The only unsafe code of this crate beside `packet_socket` and `daemon::memory`.
#![allow(unsafe_code)]

use socket2::{SockAddr, SockAddrStorage};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// Most messages that one system call sends or receives.
pub(crate) const BATCH: usize = 32;

/// Room for one received message: more than UDP can carry.
const MESSAGE_BYTES: usize = 1 << 16;
/// Room for ancillary data, in words of 8 bytes, so that it is aligned.
const CONTROL_WORDS: usize = 16;
/// Most datagrams in one message with segments.
const SEGMENTS_MAX: usize = 64;
/// Most bytes of a message with segments.
const SEGMENTED_BYTES_MAX: usize = 65_000;

type Control = [u64; CONTROL_WORDS];

/// A received datagram: where it is in the buffer, its source, and the local address that it was
/// sent to and its traffic class, if the socket reports them.
#[derive(Debug, Clone, Copy)]
struct Place {
    start: usize,
    len: usize,
    peer: SocketAddr,
    local: Option<IpAddr>,
    traffic_class: u8,
}

/// Buffers for a batch of received datagrams. They are large, and so kept between calls.
pub(crate) struct Received {
    bytes: Vec<u8>,
    names: Box<[libc::sockaddr_storage; BATCH]>,
    controls: Box<[Control; BATCH]>,
    places: Vec<Place>,
}

impl Received {
    pub(crate) fn new() -> Self {
        Received {
            bytes: vec![0; BATCH * MESSAGE_BYTES],
            // SAFETY: all-zero bytes are a valid sockaddr_storage, of no family.
            names: Box::new(unsafe { std::mem::zeroed() }),
            controls: Box::new([[0; CONTROL_WORDS]; BATCH]),
            places: Vec::new(),
        }
    }

    /// Receives at most [`BATCH`] datagrams, or as many messages with segments, without waiting.
    /// Returns how many datagrams arrived.
    pub(crate) fn fill(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.fill_some(socket, BATCH).map(|_| self.places.len())
    }

    /// Receives at most `most` messages without waiting. Returns how many messages.
    pub(crate) fn fill_some(&mut self, socket: &UdpSocket, most: usize) -> io::Result<usize> {
        self.receive(socket, most, libc::MSG_DONTWAIT as _)
    }

    /// Receives one message. Waits for it as long as the socket's timeout allows
    /// ([`limit_waits`]), if the socket is not non-blocking.
    pub(crate) fn wait_for_one(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.receive(socket, 1, 0)
    }

    fn receive(&mut self, socket: &UdpSocket, most: usize, flags: u32) -> io::Result<usize> {
        self.places.clear();
        let most = most.min(BATCH);
        let name_len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        let mut rooms: [libc::iovec; BATCH] = std::array::from_fn(|i| libc::iovec {
            iov_base: self.bytes[i * MESSAGE_BYTES..].as_mut_ptr().cast(),
            iov_len: MESSAGE_BYTES,
        });
        // SAFETY: all-zero bytes are a valid mmsghdr, whose pointers are then null.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for i in 0..most {
            let header = &mut headers[i].msg_hdr;
            header.msg_name = std::ptr::from_mut(&mut self.names[i]).cast();
            header.msg_namelen = name_len;
            header.msg_iov = &mut rooms[i];
            header.msg_iovlen = 1;
            header.msg_control = std::ptr::from_mut(&mut self.controls[i]).cast();
            header.msg_controllen = size_of::<Control>() as _;
        }
        // SAFETY: each of the first `most` headers names one writable address, one writable buffer
        // of MESSAGE_BYTES and one writable control buffer, which do not overlap and outlive the
        // call.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                most as libc::c_uint,
                flags as _,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for (i, header) in headers.iter().enumerate().take(count) {
            let Some(peer) = address_of(&self.names[i]) else { continue };
            let mut segment = MESSAGE_BYTES;
            let mut local = None;
            let mut traffic_class = 0;
            each_control(&header.msg_hdr, |level, kind, data| match (level, kind) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    if let Some(bytes) = data.first_chunk::<4>() {
                        segment = usize::try_from(i32::from_ne_bytes(*bytes)).unwrap_or(segment);
                    }
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    // struct in_pktinfo: interface, the local address, the destination.
                    if let Some(address) = data.get(8..12).and_then(<[u8]>::first_chunk::<4>) {
                        local = Some(IpAddr::from(*address));
                    }
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    if let Some(address) = data.first_chunk::<16>() {
                        local = Some(IpAddr::from(*address));
                    }
                }
                (libc::IPPROTO_IP, libc::IP_TOS) => {
                    traffic_class = data.first().copied().unwrap_or_default();
                }
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    if let Some(bytes) = data.first_chunk::<4>() {
                        traffic_class = i32::from_ne_bytes(*bytes) as u8;
                    }
                }
                _ => {}
            });
            let (mut start, mut left) = (i * MESSAGE_BYTES, header.msg_len as usize);
            // Also a message without bytes is a datagram.
            loop {
                let len = left.min(segment.max(1));
                self.places.push(Place { start, len, peer, local, traffic_class });
                (start, left) = (start + len, left - len);
                if left == 0 {
                    break;
                }
            }
        }
        Ok(count)
    }

    /// Datagrams of the last batch.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// A datagram of the last batch and its source.
    pub(crate) fn get(&self, at: usize) -> Option<(&[u8], SocketAddr)> {
        self.get_with_local(at).map(|(bytes, peer, _)| (bytes, peer))
    }

    /// A datagram of the last batch, its source, and the local address that it was sent to, if the
    /// socket reports it.
    pub(crate) fn get_with_local(&self, at: usize) -> Option<(&[u8], SocketAddr, Option<IpAddr>)> {
        let place = self.places.get(at)?;
        let bytes = self.bytes.get(place.start..place.start + place.len)?;
        Some((bytes, place.peer, place.local))
    }

    /// The DSCP and ECN codepoint of a datagram of the last batch, as in its IP header; 0 if the
    /// socket does not report it.
    pub(crate) fn traffic_class(&self, at: usize) -> u8 {
        self.places.get(at).map_or(0, |place| place.traffic_class)
    }
}

/// The IPv4 or IPv6 address that the kernel wrote.
fn address_of(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let raw = std::ptr::from_ref(name);
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: a sockaddr_storage of this family holds a sockaddr_in and is aligned for it.
            let v4 = unsafe { &*raw.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::from((ip, u16::from_be(v4.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: a sockaddr_storage of this family holds a sockaddr_in6 and is aligned for it.
            let v6 = unsafe { &*raw.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Some(std::net::SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Calls `each` with level, type and data of every piece of ancillary data in a received message.
fn each_control(header: &libc::msghdr, mut each: impl FnMut(i32, i32, &[u8])) {
    // SAFETY: the kernel filled in the control buffer and its length; the macros stay within it.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        while let Some(piece) = next.as_ref() {
            let data = libc::CMSG_DATA(piece);
            let head = data.offset_from(std::ptr::from_ref(piece).cast::<u8>()).unsigned_abs();
            #[allow(clippy::unnecessary_cast, reason = "u32 with musl, usize with glibc")]
            let len = (piece.cmsg_len as usize).saturating_sub(head);
            each(piece.cmsg_level, piece.cmsg_type, std::slice::from_raw_parts(data, len));
            next = libc::CMSG_NXTHDR(header, piece);
        }
    }
}

/// A datagram to send, in a buffer that is used again.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) bytes: Vec<u8>,
    pub(crate) peer: SocketAddr,
}

/// A datagram to send, from this local address if the socket has several.
#[derive(Debug)]
pub(crate) struct Departure {
    pub(crate) bytes: Vec<u8>,
    pub(crate) peer: SocketAddr,
    pub(crate) local: Option<IpAddr>,
    /// DSCP and ECN codepoint, as in the IP header.
    pub(crate) traffic_class: u8,
}

/// Sends datagrams, at most [`BATCH`], each as a message of its own. Returns how many the kernel
/// accepted. An error concerns the first one.
pub(crate) fn send_batch(socket: &UdpSocket, datagrams: &[Outgoing]) -> io::Result<usize> {
    if let [only] = datagrams {
        return socket.send_to(&only.bytes, only.peer).map(|_| 1);
    }
    let mut messages = Messages::new();
    for datagram in datagrams.iter().take(BATCH) {
        let bytes = std::iter::once(&datagram.bytes[..]);
        messages.add(datagram.peer, &Ancillary::default(), bytes);
    }
    messages.send(socket)
}

/// Sends datagrams. Those that follow each other to one peer with one traffic class and have one
/// length, except the last, which may be shorter, leave as the segments of one message if `segments`. Returns how many the
/// kernel accepted. An error concerns the first message, which has as many datagrams as
/// [`segments_of`] returns.
pub(crate) fn send_departures(
    socket: &UdpSocket,
    datagrams: &[Departure],
    segments: bool,
) -> io::Result<usize> {
    if let [only] = datagrams {
        return send_one(socket, only).map(|()| 1);
    }
    let mut messages = Messages::new();
    let mut counts = [0; BATCH];
    let mut rest = datagrams;
    while let (Some(first), true) = (rest.first(), messages.has_room()) {
        let count = if segments { segments_of(rest) } else { 1 };
        let (group, after) = rest.split_at(count);
        let segment = if count > 1 { first.bytes.len() as u16 } else { 0 };
        counts[messages.count] = count;
        let (local, traffic_class) = (first.local, first.traffic_class);
        let ancillary = Ancillary { segment, local, traffic_class };
        if !messages.add(first.peer, &ancillary, group.iter().map(|d| &d.bytes[..])) {
            break;
        }
        rest = after;
    }
    let sent = messages.send(socket)?;
    Ok(counts[..sent].iter().sum())
}

/// Sends one datagram, without the room that a batch needs.
fn send_one(socket: &UdpSocket, datagram: &Departure) -> io::Result<()> {
    let name = SockAddr::from(datagram.peer);
    let (local, traffic_class) = (datagram.local, datagram.traffic_class);
    let mut control: Control = [0; CONTROL_WORDS];
    let ancillary = Ancillary { segment: 0, local, traffic_class };
    let control_len = ancillary.write(&mut control, datagram.peer.is_ipv6());
    let mut part = libc::iovec {
        iov_base: datagram.bytes.as_ptr().cast_mut().cast(),
        iov_len: datagram.bytes.len(),
    };
    // SAFETY: all-zero bytes are a valid msghdr, whose pointers are then null.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = name.as_ptr().cast_mut().cast();
    header.msg_namelen = name.len();
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    if control_len > 0 {
        header.msg_control = std::ptr::from_mut(&mut control).cast();
        header.msg_controllen = control_len as _;
    }
    // SAFETY: the header names one address, one buffer and one control buffer, which the kernel only
    // reads and which outlive the call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &header, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// How many of these datagrams leave as the segments of one message; 1 if only the first does.
pub(crate) fn segments_of(datagrams: &[Departure]) -> usize {
    let Some(first) = datagrams.first() else { return 0 };
    let (segment, mut bytes, mut count) = (first.bytes.len(), first.bytes.len(), 1);
    for datagram in datagrams[1..].iter().take(SEGMENTS_MAX - 1) {
        let len = datagram.bytes.len();
        let is_alike = datagram.peer == first.peer
            && datagram.local == first.local
            && datagram.traffic_class == first.traffic_class;
        if !is_alike || len > segment || len == 0 || bytes + len > SEGMENTED_BYTES_MAX {
            break;
        }
        (bytes, count) = (bytes + len, count + 1);
        if len < segment {
            break;
        }
    }
    count
}

/// Most buffers in the messages of one system call.
const PARTS: usize = 2 * SEGMENTS_MAX;

/// Messages for one system call.
struct Messages {
    count: usize,
    parts_used: usize,
    names: [Option<SockAddr>; BATCH],
    /// First buffer and number of buffers of each message.
    spans: [(usize, usize); BATCH],
    parts: [libc::iovec; PARTS],
    controls: [Control; BATCH],
    control_lens: [usize; BATCH],
}

impl Messages {
    fn new() -> Self {
        Messages {
            count: 0,
            parts_used: 0,
            names: [const { None }; BATCH],
            spans: [(0, 0); BATCH],
            parts: [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PARTS],
            controls: [[0; CONTROL_WORDS]; BATCH],
            control_lens: [0; BATCH],
        }
    }

    fn has_room(&self) -> bool {
        self.count < BATCH
    }

    /// Adds a message. Returns false if there is no room for it.
    fn add<'a>(
        &mut self,
        peer: SocketAddr,
        ancillary: &Ancillary,
        datagrams: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> bool {
        let (at, first, parts) = (self.count, self.parts_used, datagrams.len());
        if at >= BATCH || first + parts > PARTS {
            return false;
        }
        for (part, bytes) in self.parts[first..].iter_mut().zip(datagrams) {
            part.iov_base = bytes.as_ptr().cast_mut().cast();
            part.iov_len = bytes.len();
        }
        self.names[at] = Some(peer.into());
        self.spans[at] = (first, parts);
        self.control_lens[at] = ancillary.write(&mut self.controls[at], peer.is_ipv6());
        (self.count, self.parts_used) = (at + 1, first + parts);
        true
    }

    /// Sends the messages. Returns how many the kernel accepted.
    fn send(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        // SAFETY: all-zero bytes are a valid mmsghdr, whose pointers are then null.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for (i, header) in headers.iter_mut().enumerate().take(self.count) {
            let header = &mut header.msg_hdr;
            let (first, parts) = self.spans[i];
            if let Some(name) = &self.names[i] {
                header.msg_name = name.as_ptr().cast_mut().cast();
                header.msg_namelen = name.len();
            }
            header.msg_iov = self.parts[first..].as_mut_ptr();
            header.msg_iovlen = parts as _;
            if self.control_lens[i] > 0 {
                header.msg_control = std::ptr::from_mut(&mut self.controls[i]).cast();
                header.msg_controllen = self.control_lens[i] as _;
            }
        }
        // SAFETY: each of the first `count` headers names one address, `parts` buffers and one
        // control buffer, which the kernel only reads and which outlive the call: `add` borrows the
        // datagrams from slices that its callers hold until they have called `send`.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                self.count as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// Ancillary data of a message to send.
#[derive(Debug, Default)]
struct Ancillary {
    /// The size of segments; 0 for a message without.
    segment: u16,
    /// The local address, if the socket has several.
    local: Option<IpAddr>,
    /// DSCP and ECN codepoint. That of the socket applies if 0.
    traffic_class: u8,
}

impl Ancillary {
    /// Writes it. Returns its length.
    fn write(&self, control: &mut Control, is_ipv6: bool) -> usize {
        let mut at = 0;
        let mut put = |level: i32, kind: i32, data: &[u8]| {
            // SAFETY: the macros compute sizes only.
            let (space, len) = unsafe {
                (libc::CMSG_SPACE(data.len() as u32) as usize, libc::CMSG_LEN(data.len() as u32))
            };
            debug_assert!(at + space <= size_of::<Control>());
            // SAFETY: all-zero bytes are a valid cmsghdr.
            let mut header: libc::cmsghdr = unsafe { std::mem::zeroed() };
            header.cmsg_len = len as _;
            header.cmsg_level = level;
            header.cmsg_type = kind;
            // SAFETY: the buffer has room for `space` bytes from `at`, as asserted, for all data that
            // this function writes; `at` is a multiple of the alignment, as CMSG_SPACE is.
            unsafe {
                let start = control.as_mut_ptr().cast::<u8>().add(at);
                start.cast::<libc::cmsghdr>().write(header);
                let to = start.add(len as usize - data.len());
                std::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len());
            }
            at += space;
        };
        if self.segment > 0 {
            put(libc::SOL_UDP, libc::UDP_SEGMENT, &self.segment.to_ne_bytes());
        }
        if self.traffic_class > 0 {
            let value = i32::from(self.traffic_class).to_ne_bytes();
            match is_ipv6 {
                false => put(libc::IPPROTO_IP, libc::IP_TOS, &value),
                true => put(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &value),
            }
        }
        match self.local {
            Some(IpAddr::V4(address)) => {
                // struct in_pktinfo: interface, the local address, the destination.
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&address.octets());
                put(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            Some(IpAddr::V6(address)) => {
                let mut info = [0; 20];
                info[..16].copy_from_slice(&address.octets());
                put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
            None => {}
        }
        at
    }
}

/// Sets a socket option to a number.
fn set_option(socket: &UdpSocket, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the kernel reads an int, of which the length is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(&value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the kernel wait for at most this time when a datagram is received, and makes the socket
/// blocking. Calls with `MSG_DONTWAIT` never wait.
pub(crate) fn limit_waits(socket: &UdpSocket, time: std::time::Duration) -> io::Result<()> {
    socket.set_read_timeout(Some(time))?;
    socket.set_nonblocking(false)
}

/// Asks the kernel to pass on datagrams that arrive together as the segments of one message.
pub(crate) fn join_segments(socket: &UdpSocket) -> io::Result<()> {
    set_option(socket, libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// Asks the kernel for the local address that each datagram was sent to.
pub(crate) fn report_local_address(socket: &UdpSocket, is_ipv6: bool) -> io::Result<()> {
    match is_ipv6 {
        false => set_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        true => set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
    }
}

/// Asks the kernel for the DSCP and ECN codepoint of each datagram.
pub(crate) fn report_traffic_class(socket: &UdpSocket, is_ipv6: bool) -> io::Result<()> {
    match is_ipv6 {
        false => set_option(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1),
        true => set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1),
    }
}

/// Asks the kernel to queue ICMP errors with the addresses of the datagrams that caused them.
pub(crate) fn queue_errors(socket: &UdpSocket, is_ipv6: bool) -> io::Result<()> {
    match is_ipv6 {
        false => set_option(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1),
        true => set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1),
    }
}

/// An error that the network, or this host, reported for a datagram.
#[derive(Debug)]
pub(crate) struct QueuedError {
    /// Where the datagram went.
    pub(crate) peer: SocketAddr,
    /// The error.
    pub(crate) error: io::Error,
    /// The first bytes of the datagram's payload, as far as the error repeated them.
    pub(crate) bytes: Vec<u8>,
}

/// Takes an error out of the socket's error queue. `None` if the queue is empty.
pub(crate) fn take_error(socket: &UdpSocket) -> Option<QueuedError> {
    let mut name = SockAddrStorage::zeroed();
    let name_len = name.size_of();
    let mut bytes = vec![0u8; 128];
    let mut control: [u64; 64] = [0; 64];
    let mut room = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero bytes are a valid msghdr, whose pointers are then null.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = std::ptr::from_mut(&mut name).cast();
    header.msg_namelen = name_len;
    header.msg_iov = &mut room;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the header names one writable address, buffer and control buffer, which outlive the
    // call.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, flags) };
    bytes.truncate(usize::try_from(len).ok()?);
    // SAFETY: the kernel wrote an address of this length.
    let peer = unsafe { SockAddr::new(name, header.msg_namelen) }.as_socket()?;
    let mut code = None;
    each_control(&header, |level, kind, data| {
        let is_error = matches!(
            (level, kind),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
        );
        // struct sock_extended_err begins with the error number.
        if let (true, Some(number)) = (is_error, data.first_chunk::<4>()) {
            code = Some(i32::from_ne_bytes(*number));
        }
    });
    Some(QueuedError { peer, error: io::Error::from_raw_os_error(code?), bytes })
}

/// Whether this address means every address of the host.
pub(crate) fn is_wildcard(address: SocketAddr) -> bool {
    match address.ip() {
        IpAddr::V4(ip) => ip == Ipv4Addr::UNSPECIFIED,
        IpAddr::V6(ip) => ip == Ipv6Addr::UNSPECIFIED,
    }
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests;
