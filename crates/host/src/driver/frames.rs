//! Frames that switches trimmed in hardware, which the kernel's UDP layer drops.

use super::sockets::{Sockets, Via};
use super::{Application, Driver, DriverError, WireSet};
use crate::packet_socket::{PacketSocket, Received};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};

/// Most trimmed frames of one interface that are handled before the answers to them leave.
const FRAMES: usize = 64;

impl<S: WireSet> Driver<S> {
    /// Receives frames that switches trimmed without correcting their lengths or checksums, through
    /// these sockets, beside the datagrams of the UDP sockets.
    pub(crate) fn receive_trimmed(&mut self, frames: Vec<PacketSocket>) -> io::Result<()> {
        let mut fds: Vec<OwnedFd> = Vec::new();
        for socket in &frames {
            socket.set_nonblocking(true)?;
            fds.push(socket.as_fd().try_clone_to_owned()?);
        }
        self.sockets.wait_for_frames(fds);
        self.frames = frames;
        Ok(())
    }

    /// Receives trimmed frames. Returns whether there may be more.
    pub(super) fn receive_frames<A: Application>(
        &mut self,
        app: &mut A,
    ) -> Result<bool, DriverError> {
        let mut frames = core::mem::take(&mut self.frames);
        let mut result = Ok(false);
        for socket in &mut frames {
            if result.is_ok() {
                let more = self.receive_frames_of(socket, app);
                result = result.and_then(|before| more.map(|more| before || more));
            }
        }
        self.frames = frames;
        result
    }

    fn receive_frames_of<A: Application>(
        &mut self,
        socket: &mut PacketSocket,
        app: &mut A,
    ) -> Result<bool, DriverError> {
        for _ in 0..FRAMES {
            let frame = match socket.receive() {
                Ok(Received::Frame(frame)) => frame,
                Ok(Received::Dropped(error)) => {
                    *self.traffic.dropped.entry(error.name()).or_default() += 1;
                    continue;
                }
                Ok(Received::Nothing) => return Ok(false),
                // The interface went down, or has gone. Datagrams may still arrive.
                Err(error) => {
                    self.note_error(error);
                    return Ok(false);
                }
            };
            let outer = &frame.outer;
            let Some(main) = self.sockets.main_at(outer.destination) else { continue };
            let remote = SocketAddr::new(outer.source, outer.source_port);
            let local = self.sockets.is_wildcard(main).then_some(outer.destination);
            let via = Via { socket: main, local, remote };
            let before = self.traffic.received;
            let bytes = frame.datagram.header_bytes();
            self.handle_parsed(&frame.datagram, bytes, &via, outer.ecn, app)?;
            self.traffic.trimmed_frames += self.traffic.received - before;
        }
        Ok(true)
    }
}

impl Sockets {
    /// The main socket with this local address.
    fn main_at(&self, local: std::net::IpAddr) -> Option<u16> {
        self.mains().position(|(ip, is_wildcard)| is_wildcard || ip == local).map(|at| at as u16)
    }
}
