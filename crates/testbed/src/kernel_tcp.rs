//! Flows over the kernel's TCP, a connection for each: non-blocking sockets in the hosts' namespaces.

use crate::KernelTcp;
use crate::flows::FlowTable;
use crate::namespaces::{Namespaces, ipv4};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{setsockopt, sockopt};
use punctual_core::{Bytes, FlowEvent, FlowId, FlowSpec, Instant};
use socket2::{Domain, Socket, Type};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

/// The TCP port of every host.
const PORT: u16 = 48_631;
/// Connections that may wait for being accepted.
const BACKLOG: i32 = 4096;
/// Bytes that are written or read at once.
const CHUNK: usize = 1 << 16;
/// IP and TCP headers with timestamps.
const HEADERS: u64 = 52;

/// What an event of the epoll set is about, in the upper half of its data.
const LISTENER: u64 = 0;
const SENDER: u64 = 1 << 32;
const RECEIVER: u64 = 2 << 32;

struct Sender {
    socket: Socket,
    sent: u64,
    size: u64,
}

struct Receiver {
    socket: Socket,
    /// Known once the sender's address is.
    flow: FlowId,
    received: u64,
    size: u64,
}

/// The connections of all hosts.
pub(crate) struct KernelFlows {
    kind: KernelTcp,
    /// Bytes of a full segment.
    segment: u64,
    epoll: Epoll,
    listeners: Vec<Socket>,
    senders: HashMap<FlowId, Sender>,
    receivers: Vec<Option<Receiver>>,
    /// By the address of its sender.
    flows: HashMap<SocketAddr, FlowId>,
    buffer: Vec<u8>,
    errors: BTreeMap<&'static str, u64>,
}

impl KernelFlows {
    /// Listens at every host. Leaves this thread in the namespace of the last.
    pub(crate) fn new(
        kind: KernelTcp,
        namespaces: &Namespaces,
        hosts: u32,
        mtu: u64,
    ) -> io::Result<KernelFlows> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let mut listeners = Vec::new();
        for host in 0..hosts {
            namespaces.enter_host(host)?;
            let socket = tcp_socket(kind)?;
            socket.bind(&SocketAddr::from((ipv4(host), PORT)).into())?;
            socket.listen(BACKLOG)?;
            epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER | u64::from(host)))?;
            listeners.push(socket);
        }
        Ok(KernelFlows {
            kind,
            segment: mtu.saturating_sub(HEADERS).max(1),
            epoll,
            listeners,
            senders: HashMap::new(),
            receivers: Vec::new(),
            flows: HashMap::new(),
            buffer: vec![0; CHUNK],
            errors: BTreeMap::new(),
        })
    }

    /// Opens the connection of a flow.
    pub(crate) fn start(&mut self, spec: &FlowSpec, namespaces: &Namespaces) {
        if self.try_start(spec, namespaces).is_err() {
            self.note("tcp_connect");
        }
    }

    fn note(&mut self, error: &'static str) {
        *self.errors.entry(error).or_default() += 1;
    }

    fn try_start(&mut self, spec: &FlowSpec, namespaces: &Namespaces) -> io::Result<()> {
        namespaces.enter_host(spec.src.0)?;
        let socket = tcp_socket(self.kind)?;
        if self.kind.has_fast_open() {
            // The first write then sends the first packet.
            setsockopt(&socket, sockopt::TcpFastOpenConnect, &true)?;
        }
        let to = SocketAddr::from((ipv4(spec.dst.0), PORT));
        match socket.connect(&to.into()) {
            Err(error) if error.raw_os_error() != Some(nix::errno::Errno::EINPROGRESS as i32) => {
                return Err(error);
            }
            _ => {}
        }
        let from = socket.local_addr()?.as_socket().ok_or(ErrorKind::AddrNotAvailable)?;
        let from = SocketAddr::from((ipv4(spec.src.0), from.port()));
        self.flows.insert(from, spec.id);
        let data = SENDER | u64::from(spec.id.0);
        self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLOUT, data))?;
        let size = if spec.size == Bytes::ENDLESS { u64::MAX } else { spec.size.get() };
        self.senders.insert(spec.id, Sender { socket, sent: 0, size });
        Ok(())
    }

    /// Moves data. `now` is the present.
    pub(crate) fn turn(&mut self, table: &mut FlowTable, now: Instant) {
        let mut events = [EpollEvent::empty(); 64];
        let Ok(count) = self.epoll.wait(&mut events, EpollTimeout::ZERO) else { return };
        for event in &events[..count] {
            let (kind, number) = (event.data() >> 32 << 32, event.data() as u32);
            match kind {
                LISTENER => self.accept(number as usize, table, now),
                SENDER => self.write(FlowId(number), table),
                _ => self.read(number as usize, table, now),
            }
        }
    }

    fn accept(&mut self, host: usize, table: &mut FlowTable, now: Instant) {
        while let Ok((socket, peer)) = self.listeners[host].accept() {
            let flow = peer.as_socket().and_then(|peer| self.flows.get(&peer).copied());
            let place = self.receivers.len();
            let data = RECEIVER | place as u64;
            let added = socket.set_nonblocking(true).is_ok()
                && self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, data)).is_ok();
            let (Some(flow), true) = (flow, added) else {
                self.note("tcp_accept");
                continue;
            };
            let size = table.spec(flow).size;
            let size = if size == Bytes::ENDLESS { u64::MAX } else { size.get() };
            self.receivers.push(Some(Receiver { socket, flow, received: 0, size }));
            self.read(place, table, now);
        }
    }

    fn write(&mut self, flow: FlowId, table: &mut FlowTable) {
        let Some(sender) = self.senders.get_mut(&flow) else { return };
        let content = table.content(flow);
        while sender.sent < sender.size {
            let left = usize::try_from(sender.size - sender.sent).unwrap_or(CHUNK);
            let chunk = &mut self.buffer[..left.min(CHUNK)];
            content.fill(sender.sent, chunk);
            match sender.socket.send(chunk) {
                Ok(bytes) => sender.sent += bytes as u64,
                Err(error) => {
                    let goes_on = matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::NotConnected
                    ) || error.raw_os_error()
                        == Some(nix::errno::Errno::EINPROGRESS as i32);
                    if !goes_on {
                        let _ = self.epoll.delete(&sender.socket);
                        self.note("tcp_send");
                    }
                    return;
                }
            }
        }
        let _ = self.epoll.delete(&sender.socket);
        let _ = sender.socket.shutdown(std::net::Shutdown::Write);
    }

    fn read(&mut self, place: usize, table: &mut FlowTable, now: Instant) {
        let Some(Some(receiver)) = self.receivers.get_mut(place) else { return };
        loop {
            match receive(&receiver.socket, &mut self.buffer) {
                Ok(0) => break,
                Ok(bytes) => {
                    table.deliver(receiver.flow, receiver.received, &self.buffer[..bytes]);
                    receiver.received += bytes as u64;
                    let packets = (bytes as u64).div_ceil(self.segment);
                    table.count_packets(packets, bytes as u64 + packets * HEADERS);
                    if receiver.received == receiver.size {
                        let flow = receiver.flow;
                        table.handle_event(flow, FlowEvent::Completed, now);
                        let _ = self.epoll.delete(&receiver.socket);
                        self.receivers[place] = None;
                        self.end(flow);
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => break,
            }
        }
        let _ = self.epoll.delete(&receiver.socket);
        self.note("tcp_receive");
    }

    /// Forgets a flow that was delivered.
    fn end(&mut self, flow: FlowId) {
        if let Some(sender) = self.senders.remove(&flow) {
            let _ = self.epoll.delete(&sender.socket);
            if let Some(from) = sender.socket.local_addr().ok().and_then(|a| a.as_socket()) {
                self.flows.remove(&from);
            }
        }
    }

    /// Errors of sockets, by name.
    pub(crate) fn errors(&self) -> Vec<(String, u64)> {
        self.errors.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }
}

/// Reads from a socket into memory that is initialised already.
fn receive(socket: &Socket, into: &mut [u8]) -> io::Result<usize> {
    use std::io::Read as _;
    let mut socket: &Socket = socket;
    socket.read(into)
}

fn tcp_socket(kind: KernelTcp) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_congestion(kind.congestion().as_bytes())?;
    Ok(socket)
}
