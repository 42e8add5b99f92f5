//! Network interfaces: frames in by AF_PACKET rings with the kernel's arrival times, frames out by
//! `sendmmsg`.
//!
//! The only unsafe code of the switch is here: system calls, and the ring that the kernel shares with
//! us. A slot of the ring belongs to us from the moment its status has `TP_STATUS_USER` until we
//! write `TP_STATUS_KERNEL` into it, and we read it only in between.
#![allow(unsafe_code)]

use crate::io::{FrameIo, IoLosses, Received};
use punctual_core::{Duration, HostId, Instant};
use punctual_wire::epoch_of;
use std::ffi::{CString, c_int, c_void};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Frames that a ring holds.
const RING_FRAMES: usize = 2048;
/// A block of a ring: the kernel allocates it in one piece.
const BLOCK_BYTES: usize = 1 << 16;
/// Frames taken from one ring before the next has its turn, and frames sent by one system call.
const BATCH: usize = 32;
/// A frame gets its arrival time this long, at most, before it is in the ring, unless its processor is
/// interrupted: the kernel copies it meanwhile.
const SETTLING: Duration = Duration::from_micros(3);
/// The socket's send buffer: what one interface may have under way.
const SEND_BUFFER_BYTES: c_int = 8 << 20;

/// Why an interface cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// There is no interface of this name.
    #[error("no interface is called `{0}`; `ip link` lists them")]
    NoInterface(String),
    /// A capability is missing.
    #[error("{0}")]
    Capability(String),
    /// A system call failed.
    #[error("interface `{interface}`: {call}: {source}")]
    Call {
        /// The interface.
        interface: String,
        /// The system call.
        call: &'static str,
        /// What it returned.
        source: io::Error,
    },
}

/// Capabilities by name and bit, as far as switch and testbed need them.
const CAPABILITIES: [(&str, u32); 3] =
    [("CAP_NET_RAW", 13), ("CAP_NET_ADMIN", 12), ("CAP_SYS_ADMIN", 21)];

/// Which of the named capabilities this process lacks, with what to do; nothing if it has all.
pub fn missing_capability(needed: &[&str]) -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let effective = u64::from_str_radix(effective.trim(), 16).ok()?;
    let has = |name: &str| {
        CAPABILITIES.iter().any(|(known, bit)| *known == name && effective >> bit & 1 == 1)
    };
    let missing: Vec<&str> = needed.iter().copied().filter(|name| !has(name)).collect();
    (!missing.is_empty())
        .then(|| format!("this process lacks {}; run it as root", missing.join(" and ")))
}

/// Interfaces, one a host.
pub struct Interfaces {
    rings: Vec<Ring>,
    /// Seconds and nanoseconds of the clock at the start: kernel times count from 1970, and
    /// picoseconds since then do not fit in 64 bits.
    epoch_nanos: u64,
    /// The clock of the network runs this many times slower than the machine's.
    slowdown: u64,
    last: Instant,
    mtu: usize,
}

impl Interfaces {
    /// No interface yet: [`Interfaces::add`] adds them. The clock reads 0 now and runs `slowdown`
    /// times slower than the machine's: arrival times and [`FrameIo::now`] are divided by it.
    pub fn slowed(slowdown: u32) -> Interfaces {
        Interfaces {
            rings: Vec::new(),
            epoch_nanos: clock_nanos(),
            slowdown: u64::from(slowdown.max(1)),
            last: Instant::ZERO,
            mtu: 0,
        }
    }

    /// Makes the clock read 0 now. Frames that arrived before count as arriving now.
    pub fn restart_clock(&mut self) {
        self.epoch_nanos = clock_nanos();
        self.last = Instant::ZERO;
    }

    /// Sends the frames that wait for any host.
    pub fn flush_all(&mut self) {
        self.rings.iter_mut().for_each(Ring::flush);
    }

    /// Opens the interface of the next host, for IP packets of at most `mtu` bytes. It is in the
    /// network namespace of this thread, which may be another one later.
    pub fn add(&mut self, name: &str, mtu: usize) -> Result<(), IoError> {
        self.mtu = mtu;
        self.rings.push(Ring::open(name, mtu)?);
        Ok(())
    }

    /// Opens the interfaces of these names, for IP packets of at most `mtu` bytes.
    pub fn open<'a>(
        names: impl IntoIterator<Item = &'a str>,
        mtu: usize,
    ) -> Result<Interfaces, IoError> {
        if let Some(missing) = missing_capability(&["CAP_NET_RAW"]) {
            return Err(IoError::Capability(missing));
        }
        let mut interfaces = Interfaces::slowed(1);
        for name in names {
            interfaces.add(name, mtu)?;
        }
        Ok(interfaces)
    }
}

impl FrameIo for Interfaces {
    fn now(&mut self) -> Instant {
        // A clock that is set back stands still here until it has caught up.
        self.last = self.last.max(rebase(clock_nanos(), self.epoch_nanos, self.slowdown));
        self.last
    }

    fn epoch(&self) -> u32 {
        epoch_of(self.epoch_nanos)
    }

    fn settled(&mut self) -> Instant {
        let now = self.now();
        Instant::ZERO + now.since_start().saturating_sub(SETTLING / self.slowdown)
    }

    fn receive(&mut self, host: HostId, take: &mut impl FnMut(Received<'_>)) -> bool {
        self.rings[host.index()].receive(self.epoch_nanos, self.slowdown, take)
    }

    fn send(&mut self, host: HostId, frame: &[u8]) {
        self.rings[host.index()].send(frame);
    }

    fn flush(&mut self, host: HostId) {
        self.rings[host.index()].flush();
    }

    fn losses(&mut self, host: HostId) -> IoLosses {
        self.rings[host.index()].losses()
    }

    fn set_interfaces(&mut self, names: &[&str]) -> io::Result<()> {
        // An interface that was removed and made again has another number.
        let is_usable = |ring: &Ring| index_of(&ring.name) == Some(ring.index);
        let known = |name: &str| self.rings.iter().any(|r| r.name == name && is_usable(r));
        let new = names.iter().filter(|name| !known(name)).map(|name| Ring::open(name, self.mtu));
        let mut new = new.collect::<Result<Vec<Ring>, _>>().map_err(io::Error::other)?;
        // New rings come last, and are found first.
        let mut rings = std::mem::take(&mut self.rings);
        rings.append(&mut new);
        for name in names {
            let found = rings.iter().rposition(|ring| ring.name == *name);
            self.rings.push(rings.remove(found.expect("it is used already, or was opened above")));
        }
        Ok(())
    }

    fn wait(&mut self, most: Duration) {
        let polled = |ring: &Ring| libc::pollfd {
            fd: ring.socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut sockets: Vec<libc::pollfd> = self.rings.iter().map(polled).collect();
        let nanos = most.as_nanos().saturating_mul(self.slowdown).min(999_999_999) as i64;
        let time = libc::timespec { tv_sec: 0, tv_nsec: nanos };
        // SAFETY: the array has as many entries as the call's length says.
        unsafe {
            libc::ppoll(sockets.as_mut_ptr(), sockets.len() as _, &time, std::ptr::null());
        }
    }
}

/// Nanoseconds since 1970, on the clock of the kernel's arrival times.
fn clock_nanos() -> u64 {
    // SAFETY: a timespec of zeros is valid, and the call writes into it.
    let time = unsafe {
        let mut time: libc::timespec = zeroed();
        libc::clock_gettime(libc::CLOCK_REALTIME, &mut time);
        time
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// An instant since the start, on a clock that runs `slowdown` times slower.
fn rebase(nanos: u64, epoch_nanos: u64, slowdown: u64) -> Instant {
    Instant::from_picos(nanos.saturating_sub(epoch_nanos).saturating_mul(1000) / slowdown)
}

/// The number of an interface.
fn index_of(name: &str) -> Option<c_int> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name ends with a zero byte.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index > 0).then_some(index as c_int)
}

/// A packet socket with a receive ring.
struct Ring {
    name: String,
    index: c_int,
    socket: OwnedFd,
    memory: *mut u8,
    slot_bytes: usize,
    next: usize,
    /// Buffers of frames to be sent.
    waiting: Vec<Vec<u8>>,
    waiting_count: usize,
    /// What `sendmmsg` reads: message n points at part n, and part n at buffer n.
    parts: Box<[libc::iovec; BATCH]>,
    messages: Box<[libc::mmsghdr; BATCH]>,
    losses: IoLosses,
}

impl Ring {
    fn open(name: &str, mtu: usize) -> Result<Ring, IoError> {
        let failed = |call| IoError::Call {
            interface: name.to_owned(),
            call,
            source: io::Error::last_os_error(),
        };
        let index = index_of(name).ok_or_else(|| IoError::NoInterface(name.to_owned()))?;
        // SAFETY: the descriptor that `socket` returns is ours.
        let socket = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            let socket = libc::socket(libc::AF_PACKET, kind, 0);
            if socket < 0 {
                return Err(failed("socket"));
            }
            OwnedFd::from_raw_fd(socket)
        };
        let set = |level, option, value: &[c_int], call| {
            set_option(&socket, level, option, value).then_some(()).ok_or_else(|| failed(call))
        };
        let packet = libc::SOL_PACKET;
        set(packet, libc::PACKET_IGNORE_OUTGOING, &[1], "PACKET_IGNORE_OUTGOING")?;
        set(packet, libc::PACKET_QDISC_BYPASS, &[1], "PACKET_QDISC_BYPASS")?;
        // Needs CAP_NET_ADMIN; without it the default buffer may be too short for bursts.
        set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &[SEND_BUFFER_BYTES]);
        set(packet, libc::PACKET_VERSION, &[1], "PACKET_VERSION")?; // TPACKET_V2
        // A slot has the frame, its header of 32 bytes and room for the address and alignment.
        let slot_bytes = (mtu + 18 + 128).next_power_of_two().max(2048);
        let bytes = slot_bytes * RING_FRAMES;
        let ring = [BLOCK_BYTES, bytes / BLOCK_BYTES, slot_bytes, RING_FRAMES].map(|n| n as c_int);
        set(packet, libc::PACKET_RX_RING, &ring, "PACKET_RX_RING")?;
        // SAFETY: the kernel has allocated a ring of this size for the socket.
        let memory = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
            libc::mmap(std::ptr::null_mut(), bytes, protection, flags, socket.as_raw_fd(), 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(failed("mmap"));
        }
        let waiting = (0..BATCH).map(|_| Vec::with_capacity(mtu + 18)).collect();
        let (name, memory) = (name.to_owned(), memory.cast());
        // SAFETY: plain data, valid as zeros.
        let (mut parts, mut messages): (Box<[libc::iovec; BATCH]>, Box<[libc::mmsghdr; BATCH]>) =
            unsafe { (Box::new(zeroed()), Box::new(zeroed())) };
        for (part, message) in parts.iter_mut().zip(messages.iter_mut()) {
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        let ring = Ring {
            name,
            index,
            socket,
            memory,
            slot_bytes,
            next: 0,
            waiting,
            waiting_count: 0,
            parts,
            messages,
            losses: IoLosses::default(),
        };
        ring.bind(index)?;
        Ok(ring)
    }

    /// Binds the socket to its interface and receives frames to every address.
    fn bind(&self, index: c_int) -> Result<(), IoError> {
        let failed = |call| IoError::Call {
            interface: self.name.clone(),
            call,
            source: io::Error::last_os_error(),
        };
        let fd = self.socket.as_raw_fd();
        // SAFETY: both structures are plain data, valid as zeros, and passed with their size.
        unsafe {
            let mut address: libc::sockaddr_ll = zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
            address.sll_ifindex = index;
            let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            if libc::bind(fd, (&raw const address).cast(), size) != 0 {
                return Err(failed("bind"));
            }
            let mut member: libc::packet_mreq = zeroed();
            member.mr_ifindex = index;
            member.mr_type = libc::PACKET_MR_PROMISC as u16;
            let size = size_of::<libc::packet_mreq>() as libc::socklen_t;
            let option = libc::PACKET_ADD_MEMBERSHIP;
            let value = (&raw const member).cast();
            if libc::setsockopt(fd, libc::SOL_PACKET, option, value, size) != 0 {
                return Err(failed("PACKET_ADD_MEMBERSHIP"));
            }
        }
        Ok(())
    }

    fn receive(
        &mut self,
        epoch_nanos: u64,
        slowdown: u64,
        take: &mut impl FnMut(Received<'_>),
    ) -> bool {
        for _ in 0..BATCH {
            // SAFETY: the slot lies within the mapped ring. Its status is shared with the kernel and
            // only accessed atomically; the rest is ours while the status says so. Offset and length
            // are the kernel's, and checked against the slot.
            unsafe {
                let slot = self.memory.add(self.next * self.slot_bytes);
                let status = AtomicU32::from_ptr(slot.cast());
                let flags = status.load(Ordering::Acquire);
                if flags & libc::TP_STATUS_USER == 0 {
                    return false;
                }
                let header: libc::tpacket2_hdr = slot.cast::<libc::tpacket2_hdr>().read();
                let (at, bytes) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
                if at + bytes <= self.slot_bytes {
                    let nanos = u64::from(header.tp_sec) * 1_000_000_000;
                    take(Received {
                        frame: std::slice::from_raw_parts(slot.add(at), bytes),
                        at: rebase(nanos + u64::from(header.tp_nsec), epoch_nanos, slowdown),
                        is_cut: header.tp_len > header.tp_snaplen,
                        checksum_missing: flags & libc::TP_STATUS_CSUMNOTREADY != 0,
                    });
                }
                status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            }
            self.next = (self.next + 1) % RING_FRAMES;
        }
        true
    }

    fn send(&mut self, frame: &[u8]) {
        if self.waiting_count == BATCH {
            self.flush();
        }
        let buffer = &mut self.waiting[self.waiting_count];
        buffer.clear();
        buffer.extend_from_slice(frame);
        let part = &mut self.parts[self.waiting_count];
        *part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        self.waiting_count += 1;
    }

    fn flush(&mut self) {
        let count = std::mem::take(&mut self.waiting_count);
        let mut sent = 0;
        while sent < count {
            let (fd, left) = (self.socket.as_raw_fd(), (count - sent) as u32);
            let messages = self.messages[sent..count].as_mut_ptr();
            // SAFETY: the first `count` messages point at parts, and those at buffers, that `send`
            // filled and nothing has changed since.
            let result = unsafe { libc::sendmmsg(fd, messages, left, libc::MSG_DONTWAIT as _) };
            if result > 0 {
                sent += result as usize;
            } else if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                // The interface refuses this frame: it is down, or its peer has gone.
                self.losses.send_errors += 1;
                sent += 1;
            }
        }
    }

    /// Adds what the kernel has counted since the last call.
    fn losses(&mut self) -> IoLosses {
        let mut counts = [0u32; 2]; // packets, drops
        let mut size = size_of_val(&counts) as libc::socklen_t;
        let value = counts.as_mut_ptr().cast::<c_void>();
        let fd = self.socket.as_raw_fd();
        // SAFETY: the buffer has the size that the call's length says.
        let result = unsafe {
            libc::getsockopt(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, value, &mut size)
        };
        if result == 0 {
            self.losses.ring_full += u64::from(counts[1]);
        }
        self.losses
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, has this size, and nothing refers to it any more.
        unsafe {
            libc::munmap(self.memory.cast(), self.slot_bytes * RING_FRAMES);
        }
    }
}

/// Sets an option whose value is one or more integers. Returns whether that worked.
fn set_option(socket: &OwnedFd, level: c_int, option: c_int, value: &[c_int]) -> bool {
    let size = size_of_val(value) as libc::socklen_t;
    // SAFETY: the value has the size that the call's length says.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), size) };
    result == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The present time in picoseconds since 1970 exceeds 64 bits.
    #[test]
    fn rebase__before_scaling_to_picoseconds() {
        let start = 1_900_000_000 * 1_000_000_000u64;
        assert!(start.checked_mul(1000).is_none());
        assert_eq!(rebase(start + 7, start, 1), Instant::from_picos(7_000));
        assert_eq!(rebase(start + 70, start, 10), Instant::from_picos(7_000));
        assert_eq!(rebase(start - 7, start, 1), Instant::ZERO);
    }

    #[test]
    fn missing_capability__names_it() {
        // No process has a capability of this name.
        let text = missing_capability(&["CAP_NONE"]).expect("missing");
        assert!(text.contains("CAP_NONE") && text.contains("root"), "{text}");
    }
}
