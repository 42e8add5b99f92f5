//! The sockets of a driver: one main socket per NIC and further ones whose source ports spread
//! packets over the paths of the network.

use crate::sys::{
    Departure, Received, is_wildcard, join_segments, limit_waits, queue_errors,
    report_local_address, report_traffic_class, segments_of, send_departures,
};
use punctual_core::{Class, Ecn};
use punctual_wire::{dscp_of, ecn_bits};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A network interface of this host, by a local address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostNic {
    /// The local address.
    pub address: IpAddr,
    /// The name of the interface, to which the sockets are bound (`SO_BINDTODEVICE`). `None`: routes
    /// decide by which interface packets from this address leave.
    pub interface: Option<String>,
}

/// How a datagram leaves: by which socket, from which of its local addresses, and where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Via {
    pub(crate) socket: u16,
    pub(crate) local: Option<IpAddr>,
    pub(crate) remote: SocketAddr,
}

impl Via {
    /// By the main socket of the first NIC.
    pub(crate) fn main(remote: SocketAddr) -> Via {
        Via { socket: 0, local: None, remote }
    }
}

/// A socket and the datagrams that wait for it.
#[derive(Debug)]
struct LocalSocket {
    socket: Arc<UdpSocket>,
    local: SocketAddr,
    out: Vec<Departure>,
    /// Whether the kernel has no room for more.
    is_blocked: bool,
    /// Whether several datagrams may leave as the segments of one message.
    has_segments: bool,
    /// Whether a thread may wait in the call that receives.
    may_wait: bool,
}

/// How long the kernel waits for a datagram in the call that receives it. Two of its ticks; it may
/// wait for one more.
const RECEIVE_WAIT: std::time::Duration = std::time::Duration::from_millis(8);
/// The longest wait in that call.
pub(crate) const RECEIVE_WAIT_MAX: std::time::Duration = std::time::Duration::from_millis(20);

/// The only socket of a driver and its buffers, for a thread that waits for one message in the call
/// that receives it. That is one system call instead of two.
pub(crate) struct Receive {
    socket: Arc<UdpSocket>,
    pub(super) incoming: Received,
    /// How many messages arrived, or why none did.
    pub(super) result: io::Result<usize>,
}

impl Receive {
    /// Waits for a message, at most [`RECEIVE_WAIT_MAX`].
    pub(crate) fn wait(&mut self) {
        self.result = match self.incoming.wait_for_one(&self.socket) {
            // A process that was stopped goes on.
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            result => result,
        };
    }
}

/// A datagram that did not leave.
#[derive(Debug)]
pub(crate) struct SendFailure {
    pub(crate) via: Via,
    pub(crate) error: io::Error,
}

/// The sockets of a driver. Socket q belongs to NIC q modulo the number of NICs; the first of each
/// NIC is its main socket, which peers know.
#[derive(Debug)]
pub(crate) struct Sockets {
    all: Vec<LocalSocket>,
    nics: Vec<Option<String>>,
    /// Source ports per NIC, the main one included.
    ports: usize,
    /// Sockets in use: the main ones, or all.
    active: usize,
    /// The sockets in use, shared with threads that wait for them.
    waited: Arc<[Arc<UdpSocket>]>,
    /// The sockets for trimmed frames, shared with threads that wait for them.
    frames: Arc<[OwnedFd]>,
    spare: SpareBuffers,
}

/// Most datagrams that wait for one socket while the kernel has no room.
const WAITING_MAX: usize = 8_192;

/// Buffers of datagrams that have left, for the next ones.
#[derive(Debug, Default)]
struct SpareBuffers(Vec<Vec<u8>>);

impl SpareBuffers {
    /// Most buffers kept. Datagrams of the host stack bring buffers of their own, so that there are
    /// more with each of them.
    const MAX: usize = 256;

    fn keep(&mut self, buffer: Vec<u8>) {
        if self.0.len() < Self::MAX {
            self.0.push(buffer);
        }
    }
}

/// A snapshot of the sockets, to wait for without the driver.
#[derive(Debug, Clone)]
pub(crate) struct WaitSet {
    sockets: Arc<[Arc<UdpSocket>]>,
    frames: Arc<[OwnedFd]>,
    for_room: bool,
}

impl Sockets {
    /// The main sockets of all NICs, in order, and the number of source ports of each NIC.
    pub(crate) fn new(
        mains: Vec<(UdpSocket, Option<String>)>,
        ports: usize,
    ) -> io::Result<Sockets> {
        let mut sockets = Sockets {
            all: Vec::new(),
            nics: Vec::new(),
            ports: ports.max(1),
            active: 0,
            waited: Arc::new([]),
            frames: Arc::new([]),
            spare: SpareBuffers::default(),
        };
        for (socket, interface) in mains {
            sockets.nics.push(interface);
            sockets.add(socket)?;
        }
        sockets.use_first(sockets.all.len());
        // Now rather than when they are needed, since another thread may be in another namespace.
        sockets.open_ports();
        Ok(sockets)
    }

    /// Whether the main socket of the first NIC is an IPv4 socket.
    pub(super) fn is_ipv4(&self) -> bool {
        self.all.first().is_some_and(|socket| socket.local.is_ipv4())
    }

    fn add(&mut self, socket: UdpSocket) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        let may_wait = limit_waits(&socket, RECEIVE_WAIT).is_ok();
        let local = socket.local_addr()?;
        // Older kernels lack some of these options, which costs speed and precision only.
        let _ = join_segments(&socket);
        let _ = queue_errors(&socket, local.is_ipv6());
        let _ = report_traffic_class(&socket, local.is_ipv6());
        if is_wildcard(local) {
            let _ = report_local_address(&socket, local.is_ipv6());
        }
        self.all.push(LocalSocket {
            socket: Arc::new(socket),
            local,
            out: Vec::new(),
            is_blocked: false,
            has_segments: true,
            may_wait,
        });
        Ok(())
    }

    /// NICs.
    pub(crate) fn nics(&self) -> usize {
        self.nics.len().max(1)
    }

    /// Paths that leave from here: source ports of all NICs.
    pub(crate) fn paths(&self) -> usize {
        self.ports * self.nics()
    }

    /// Sockets in use.
    pub(crate) fn len(&self) -> usize {
        self.active
    }

    /// Whether all sockets are closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.all.is_empty()
    }

    /// The NIC of a socket.
    pub(crate) fn nic_of(&self, socket: u16) -> usize {
        usize::from(socket) % self.nics()
    }

    /// Whether a socket has several local addresses.
    pub(crate) fn is_wildcard(&self, socket: u16) -> bool {
        self.all.get(usize::from(socket)).is_some_and(|s| is_wildcard(s.local))
    }

    /// Whether a datagram comes from a socket of this process.
    pub(crate) fn is_own(&self, via: &Via) -> bool {
        self.all.iter().any(|socket| {
            let ip = match is_wildcard(socket.local) {
                // A host that sends to itself does so from the address to which it sends.
                true => via.local,
                false => Some(socket.local.ip()),
            };
            socket.local.port() == via.remote.port() && ip == Some(via.remote.ip())
        })
    }

    /// The main socket by which this host reaches an address, as its routes say; 0 if they name
    /// another address.
    pub(crate) fn main_towards(&self, peer: SocketAddr) -> usize {
        if self.nics() == 1 {
            return 0;
        }
        let any: IpAddr = match peer {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        // Connecting a UDP socket sends nothing; it only looks up the route.
        let local = UdpSocket::bind((any, 0))
            .and_then(|socket| socket.connect(peer).and_then(|()| socket.local_addr()));
        let Ok(local) = local else { return 0 };
        let mains = self.all.iter().take(self.nics());
        mains.into_iter().position(|main| main.local.ip() == local.ip()).unwrap_or(0)
    }

    /// The local addresses of the main sockets, if there are several NICs.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let mains = if self.nics() > 1 { self.nics() } else { 0 };
        self.all.iter().take(mains).map(|socket| socket.local)
    }

    /// The address of each main socket, and whether it means all addresses of the host.
    pub(super) fn mains(&self) -> impl Iterator<Item = (IpAddr, bool)> + '_ {
        let mains = self.all.iter().take(self.nics());
        mains.map(|socket| (socket.local.ip(), is_wildcard(socket.local)))
    }

    /// Has threads wait for these sockets too.
    pub(super) fn wait_for_frames(&mut self, frames: Vec<OwnedFd>) {
        self.frames = frames.into();
    }

    /// Opens the sockets beside the main ones. Without permission or free ports there are fewer.
    fn open_ports(&mut self) {
        let nics = self.nics();
        while self.all.len() < self.paths() && self.all.len() >= nics {
            let nic = self.all.len() % nics;
            let address = SocketAddr::new(self.all[nic].local.ip(), 0);
            let opened = crate::bind_to(address, self.nics[nic].as_deref());
            if opened.and_then(|socket| self.add(socket)).is_err() {
                self.ports = (self.all.len() / nics).max(1);
                self.all.truncate(self.ports * nics);
            }
        }
    }

    /// Begins to use the sockets beside the main ones.
    pub(crate) fn spread(&mut self) {
        if self.active != self.all.len() {
            self.use_first(self.all.len());
        }
    }

    fn use_first(&mut self, count: usize) {
        self.active = count;
        self.waited = self.all[..count].iter().map(|socket| socket.socket.clone()).collect();
    }

    /// Closes all sockets, so that their ports are free.
    pub(crate) fn close(&mut self) {
        self.all.clear();
        self.frames = Arc::new([]);
        self.use_first(0);
    }

    /// A buffer for a datagram.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.0.pop().unwrap_or_default()
    }

    /// Takes back a buffer.
    pub(crate) fn recycle(&mut self, buffer: Vec<u8>) {
        self.spare.keep(buffer);
    }

    /// Queues a datagram for its socket, with the DSCP of its service class and this ECN codepoint.
    /// Returns whether there was room for it.
    pub(crate) fn push(&mut self, via: &Via, bytes: Vec<u8>, class: Class, ecn: Ecn) -> bool {
        let traffic_class = dscp_of(class) << 2 | ecn_bits(ecn);
        match self.all.get_mut(usize::from(via.socket)) {
            Some(socket) if socket.out.len() < WAITING_MAX => {
                let (peer, local) = (via.remote, via.local);
                socket.out.push(Departure { bytes, peer, local, traffic_class });
                true
            }
            _ => {
                self.spare.keep(bytes);
                false
            }
        }
    }

    /// Whether no datagram waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.iter().all(|socket| socket.out.is_empty())
    }

    /// Whether the kernel has no room for the datagrams of a NIC.
    pub(crate) fn is_blocked(&self, nic: usize) -> bool {
        let nics = self.nics();
        self.all.iter().enumerate().any(|(at, socket)| socket.is_blocked && at % nics == nic)
    }

    /// Passes the datagrams that wait to the kernel. Returns how many it accepted. Errors of single
    /// datagrams go to `failures`; an error of a socket itself is returned.
    pub(crate) fn flush(&mut self, failures: &mut Vec<SendFailure>) -> io::Result<u64> {
        let mut sent = 0;
        for (at, socket) in self.all.iter_mut().enumerate() {
            if !socket.out.is_empty() {
                sent += socket.flush(at as u16, failures, &mut self.spare)?;
            }
        }
        Ok(sent)
    }

    /// Drops the first message that waits for a socket.
    pub(crate) fn drop_first(&mut self, at: u16) {
        if let Some(socket) = self.all.get_mut(usize::from(at)) {
            let count = if socket.has_segments { segments_of(&socket.out) } else { 1 };
            let count = count.min(socket.out.len());
            socket.out.drain(..count).for_each(|departure| self.spare.keep(departure.bytes));
        }
    }

    /// Whether a socket has room for datagrams that wait for it.
    pub(crate) fn has_more(&self) -> bool {
        self.all.iter().any(|socket| !socket.out.is_empty() && !socket.is_blocked)
    }

    /// The sockets to wait for.
    pub(crate) fn wait_set(&self) -> WaitSet {
        let for_room = self.all.iter().any(|socket| socket.is_blocked);
        WaitSet { sockets: self.waited.clone(), frames: self.frames.clone(), for_room }
    }

    /// The socket in use with these buffers, for a thread that waits in the call that receives.
    /// Gives the buffers back if there are several sockets, or one waits for room to send.
    pub(super) fn receive_with(&self, incoming: Received) -> Result<Receive, Received> {
        match self.all.first() {
            Some(only)
                if self.active == 1
                    && self.frames.is_empty()
                    && only.may_wait
                    && !only.is_blocked =>
            {
                let result = Err(io::ErrorKind::WouldBlock.into());
                Ok(Receive { socket: only.socket.clone(), incoming, result })
            }
            _ => Err(incoming),
        }
    }

    /// A socket.
    pub(crate) fn get(&self, at: usize) -> Option<&UdpSocket> {
        self.all.get(at).map(|socket| &*socket.socket)
    }

    /// The sockets that have something to read, as bits. A single socket is assumed to.
    pub(crate) fn readable(&self) -> u64 {
        if self.active <= 1 {
            return self.active as u64;
        }
        let mut fds: Vec<PollFd<'_>> =
            self.all[..self.active].iter().map(|s| PollFd::new(&s.socket, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(_) => fds
                .iter()
                .enumerate()
                .take(64)
                .filter(|(_, fd)| !fd.revents().is_empty())
                .fold(0, |bits, (at, _)| bits | 1 << at),
            Err(_) => 0,
        }
    }
}

impl LocalSocket {
    fn flush(
        &mut self,
        at: u16,
        failures: &mut Vec<SendFailure>,
        spare: &mut SpareBuffers,
    ) -> io::Result<u64> {
        let (mut done, mut sent) = (0, 0);
        self.is_blocked = false;
        let has_mixed = |pair: &[Departure]| pair[0].bytes.len() < pair[1].bytes.len();
        if self.has_segments && self.out.windows(2).any(has_mixed) {
            // Segments have one size, of which only the last may be shorter, and one class.
            self.out.sort_by(|a, b| {
                (a.peer, b.traffic_class, b.bytes.len())
                    .cmp(&(b.peer, a.traffic_class, a.bytes.len()))
                    .then(a.local.cmp(&b.local))
            });
        }
        while done < self.out.len() {
            let rest = &self.out[done..];
            match send_departures(&self.socket, rest, self.has_segments) {
                Ok(count) => {
                    sent += count as u64;
                    done += count;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    break;
                }
                Err(e) if is_fatal(&e) => return Err(e),
                Err(e) => {
                    let count = if self.has_segments { segments_of(rest) } else { 1 };
                    if count > 1 && refuses_segments(&e) {
                        // A link with a smaller MTU, or a device that cannot do it.
                        self.has_segments = false;
                        continue;
                    }
                    // It concerns the first message only, or an earlier datagram. The caller finds
                    // out, and drops the message or tries again.
                    let first = &self.out[done];
                    let via = Via { socket: at, local: first.local, remote: first.peer };
                    failures.push(SendFailure { via, error: e });
                    break;
                }
            }
        }
        self.out.drain(..done).for_each(|departure| spare.keep(departure.bytes));
        Ok(sent)
    }
}

impl WaitSet {
    /// Waits until a socket or `wake_up` is readable, at most for this time. Returns whether
    /// `wake_up` is.
    pub(crate) fn wait(
        &self,
        wake_up: Option<BorrowedFd<'_>>,
        time: std::time::Duration,
    ) -> io::Result<bool> {
        let timeout =
            Timespec { tv_sec: time.as_secs() as _, tv_nsec: i64::from(time.subsec_nanos()) as _ };
        let flags = if self.for_room { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let of = |socket| PollFd::from_borrowed_fd(socket, flags);
        let result = match (&self.sockets[..], wake_up) {
            // Without a vector, for the common case.
            ([only], Some(wake_up)) if self.frames.is_empty() => {
                let mut fds = [of(only.as_fd()), PollFd::from_borrowed_fd(wake_up, PollFlags::IN)];
                poll(&mut fds, Some(&timeout)).map(|_| fds[1].revents())
            }
            (sockets, wake_up) => {
                let mut fds: Vec<PollFd<'_>> = sockets.iter().map(|s| of(s.as_fd())).collect();
                let frames = self.frames.iter().map(|fd| PollFd::new(fd, PollFlags::IN));
                fds.extend(frames);
                fds.extend(wake_up.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
                poll(&mut fds, Some(&timeout)).map(|_| match wake_up {
                    Some(_) => fds.last().map_or(PollFlags::empty(), PollFd::revents),
                    None => PollFlags::empty(),
                })
            }
        };
        match result {
            Ok(revents) => Ok(revents.contains(PollFlags::IN)),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether an error shows that the socket itself is unusable. All others concern one datagram.
pub(crate) fn is_fatal(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::BADF | Errno::NOTSOCK | Errno::FAULT | Errno::OPNOTSUPP) | None
    )
}

/// Whether an error may come from the segments of a message rather than from its destination.
fn refuses_segments(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::MSGSIZE | Errno::IO))
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;
    use crate::sys::Received;
    use crate::{Endpoint, EndpointOptions, SendOptions};
    use punctual_wire::Datagram;
    use std::time::{Duration, Instant};

    fn driver_sockets() -> (Sockets, Via) {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let via = Via::main(peer.local_addr().unwrap());
        (Sockets::new(vec![(socket, None)], 1).unwrap(), via)
    }

    /// Datagrams of the host stack, such as answers to forged addresses, leave nothing behind.
    #[test]
    fn spare__buffers_are_bounded() {
        let (mut sockets, via) = driver_sockets();
        for _ in 0..10 * SpareBuffers::MAX {
            sockets.push(&via, vec![0; 64], Class::CONTROL, Ecn::NotCapable);
            sockets.flush(&mut Vec::new()).unwrap();
        }
        assert_eq!(sockets.spare.0.len(), SpareBuffers::MAX);
    }

    #[test]
    fn waiting__datagrams_are_bounded() {
        let (mut sockets, via) = driver_sockets();
        let mut push = || sockets.push(&via, vec![0; 64], Class::CONTROL, Ecn::NotCapable);
        assert!((0..WAITING_MAX).all(|_| push()), "there is room for these");
        assert!(!push(), "and for no more");
    }

    /// Packets leave with the DSCP of the class in their header.
    #[test]
    fn traffic_class__is_that_of_the_service_class() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let any: SocketAddr = any.parse().unwrap();
            let Ok(peer) = UdpSocket::bind(any) else {
                eprintln!("SKIPPED {any}: no such address here");
                continue;
            };
            report_traffic_class(&peer, any.is_ipv6()).unwrap();
            let endpoint = Endpoint::bind(any, EndpointOptions::default()).unwrap();
            let to = peer.local_addr().unwrap();
            let sends: Vec<_> = [0, 3, 6]
                .map(|priority| {
                    let options = SendOptions { priority: Some(priority), ..Default::default() };
                    // Several packets, which leave as segments of one message.
                    endpoint.send(to, vec![7; 5_000], &options).unwrap()
                })
                .into();
            let _ = endpoint.ping(to, Duration::from_millis(1));
            let (mut seen, mut received) = ([false; Class::COUNT], Received::new());
            let until = Instant::now() + Duration::from_secs(10);
            // Priorities 0, 3 and 6 are classes 1, 4 and 7; the ping is a control packet.
            let wanted = [0, 1, 4, 7];
            while wanted.iter().any(|class| !seen[*class]) && Instant::now() < until {
                for at in 0..received.fill(&peer).unwrap_or(0) {
                    let (bytes, _) = received.get(at).unwrap();
                    let class = Datagram::parse(bytes).unwrap().envelope.class;
                    assert_eq!(received.traffic_class(at), dscp_of(class) << 2, "{class:?}");
                    seen[usize::from(class.0)] = true;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(wanted.iter().all(|class| seen[*class]), "{seen:?}");
            drop(sends);
        }
    }

    /// Small messages leave by many paths of a network whose switches obey path ids, and the packets
    /// of one message by one.
    #[test]
    fn path__of_small_messages_differs() {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = peer.local_addr().unwrap();
        let options = EndpointOptions { flows_per_peer: 64, ..EndpointOptions::default() };
        let endpoint = Endpoint::bind("127.0.0.1:0".parse().unwrap(), options).unwrap();
        let sends: Vec<_> = (0..64)
            .map(|_| endpoint.send(to, vec![7; 3_000], &SendOptions::default()).unwrap())
            .collect();
        let mut paths = std::collections::BTreeMap::new();
        let (mut received, until) = (Received::new(), Instant::now() + Duration::from_secs(10));
        while paths.len() < sends.len() && Instant::now() < until {
            for at in 0..received.fill_some(&peer, 32).unwrap_or(0) {
                let (bytes, _) = received.get(at).unwrap();
                let envelope = Datagram::parse(bytes).unwrap().envelope;
                let path = paths.entry(envelope.name.flow).or_insert(envelope.path);
                assert_eq!(*path, envelope.path, "packets of one message");
            }
        }
        assert_eq!(paths.len(), sends.len());
        // 64 random paths miss one of four with a probability of 4 * 0.75^64, 4 in 10^8.
        for path in 0..4 {
            assert!(paths.values().any(|chosen| chosen % 4 == path), "{paths:?}");
        }
    }
}
