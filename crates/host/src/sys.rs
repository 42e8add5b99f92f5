//! Batches of datagrams: `sendmmsg` and `recvmmsg`.
//!
//! The only unsafe code of this crate: neither the standard library nor rustix has `recvmmsg`.
#![allow(unsafe_code)]

use socket2::{SockAddr, SockAddrStorage};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// Most datagrams that one system call sends or receives.
pub(crate) const BATCH: usize = 32;

/// Room for one received datagram: more than UDP can carry.
const DATAGRAM_BYTES: usize = 1 << 16;

/// Buffers for a batch of received datagrams.
pub(crate) struct Received {
    bytes: Vec<u8>,
    lens: [usize; BATCH],
    peers: [Option<SocketAddr>; BATCH],
}

impl Received {
    pub(crate) fn new() -> Self {
        Received { bytes: vec![0; BATCH * DATAGRAM_BYTES], lens: [0; BATCH], peers: [None; BATCH] }
    }

    /// Receives at most [`BATCH`] datagrams without waiting. Returns how many.
    pub(crate) fn fill(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let mut names: [SockAddrStorage; BATCH] =
            std::array::from_fn(|_| SockAddrStorage::zeroed());
        let name_len = names[0].size_of();
        let mut rooms: [libc::iovec; BATCH] = std::array::from_fn(|i| libc::iovec {
            iov_base: self.bytes[i * DATAGRAM_BYTES..].as_mut_ptr().cast(),
            iov_len: DATAGRAM_BYTES,
        });
        // SAFETY: all-zero bytes are a valid mmsghdr, whose pointers are then null.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for ((header, room), name) in headers.iter_mut().zip(&mut rooms).zip(&mut names) {
            header.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
            header.msg_hdr.msg_namelen = name_len;
            header.msg_hdr.msg_iov = room;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: each header names one writable address and one writable buffer of
        // DATAGRAM_BYTES, which do not overlap and outlive the call.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for (i, (header, name)) in headers.iter().zip(names).enumerate().take(count) {
            self.lens[i] = header.msg_len as usize;
            // SAFETY: the kernel wrote an address of this length.
            let name = unsafe { SockAddr::new(name, header.msg_hdr.msg_namelen) };
            self.peers[i] = name.as_socket();
        }
        Ok(count)
    }

    /// A datagram of the last batch and its source.
    pub(crate) fn get(&self, at: usize) -> Option<(&[u8], SocketAddr)> {
        let start = at * DATAGRAM_BYTES;
        Some((&self.bytes[start..start + self.lens[at]], self.peers[at]?))
    }
}

/// A datagram to send, in a buffer that is used again.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) bytes: Vec<u8>,
    pub(crate) peer: SocketAddr,
}

/// Sends datagrams, at most [`BATCH`]. Returns how many the kernel accepted. An error concerns the
/// first one.
pub(crate) fn send_batch(socket: &UdpSocket, datagrams: &[Outgoing]) -> io::Result<usize> {
    if let [only] = datagrams {
        return socket.send_to(&only.bytes, only.peer).map(|_| 1);
    }
    let count = datagrams.len().min(BATCH);
    let datagrams = &datagrams[..count];
    let mut names: [Option<SockAddr>; BATCH] = [const { None }; BATCH];
    let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
    // SAFETY: all-zero bytes are a valid mmsghdr, whose pointers are then null.
    let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
    for (i, datagram) in datagrams.iter().enumerate() {
        let name = names[i].insert(datagram.peer.into());
        parts[i].iov_base = datagram.bytes.as_ptr().cast_mut().cast();
        parts[i].iov_len = datagram.bytes.len();
        headers[i].msg_hdr.msg_name = name.as_ptr().cast_mut().cast();
        headers[i].msg_hdr.msg_namelen = name.len();
        headers[i].msg_hdr.msg_iov = &mut parts[i];
        headers[i].msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: each of the first `count` headers names one address and one buffer, which the kernel
    // only reads and which outlive the call.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count as libc::c_uint,
            libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn batches__go_both_ways() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let (Ok(from), Ok(to)) = (UdpSocket::bind(any), UdpSocket::bind(any)) else {
                eprintln!("SKIPPED {any}: no such address here");
                continue;
            };
            let peer = to.local_addr().unwrap();
            let batch: Vec<_> =
                (0..40).map(|n| Outgoing { bytes: vec![n; usize::from(n) + 1], peer }).collect();
            assert_eq!(send_batch(&from, &batch).unwrap(), BATCH);
            assert_eq!(send_batch(&from, &batch[BATCH..]).unwrap(), 8);
            let mut received = Received::new();
            assert_eq!(received.fill(&to).unwrap(), BATCH);
            let source = from.local_addr().unwrap();
            for (n, sent) in batch.iter().enumerate().take(BATCH) {
                assert_eq!(received.get(n), Some((&sent.bytes[..], source)));
            }
            assert_eq!(received.fill(&to).unwrap(), 8);
            assert_eq!(received.fill(&to).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }
}
