//! Attaching to a host daemon.

use super::attachment::Attachment;
use super::memory::Memory;
use super::protocol::{GREETING_BYTES, Refusal, VERSION, Welcome, hello};
use super::ring::{Reader, Writer, is_capacity, memory_words};
use crate::HostError;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use std::io::{self, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long the daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Attaches to the daemon at this socket. Returns the attachment and the daemon's UDP address.
pub(crate) fn attach(path: &Path) -> Result<(Attachment, SocketAddr), HostError> {
    let absent = |source| HostError::DaemonAbsent { path: path.into(), source };
    let refused =
        |reason: &str| HostError::DaemonRefused { path: path.into(), reason: reason.into() };
    let mut stream = UnixStream::connect(path).map_err(absent)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(absent)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(absent)?;
    stream.write_all(&hello()).map_err(absent)?;
    let (bytes, file) = receive_welcome(&stream).map_err(absent)?;
    let welcome = Welcome::of(&bytes).ok_or_else(|| refused("it is no host daemon"))?;
    match welcome.refusal {
        None if welcome.version == VERSION => {}
        None | Some(Refusal::OtherVersion) => {
            return Err(refused("it is of another version; restart it or this program"));
        }
        Some(Refusal::TooManyClients) => {
            return Err(refused("it serves as many processes as it may; see --clients"));
        }
        Some(Refusal::Stopping) => return Err(refused("it is stopping; start it again")),
        Some(Refusal::NoMemory) => return Err(refused("it has no memory for another process")),
    }
    let capacity = usize::try_from(welcome.capacity).unwrap_or(0);
    let file = file.filter(|_| is_capacity(capacity));
    let file = file.ok_or_else(|| refused("it offered no shared memory"))?;
    let memory = Memory::open(&file, memory_words(capacity)).map_err(absent)?;
    let memory = Arc::new(memory);
    let writer = Writer::new(memory.clone(), capacity, false);
    let reader = Reader::new(memory, capacity, true);
    Ok((Attachment::new(stream, reader, writer, welcome.send_memory), welcome.local))
}

fn receive_welcome(stream: &UnixStream) -> io::Result<([u8; GREETING_BYTES], Option<OwnedFd>)> {
    let mut bytes = [0; GREETING_BYTES];
    let mut file = None;
    let mut have = 0;
    while have < GREETING_BYTES {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(&mut bytes[have..])];
        let got = recvmsg(stream, parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                file = files.into_iter().next().or(file);
            }
        }
        if got.bytes == 0 || got.flags.contains(ReturnFlags::CTRUNC) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        have += got.bytes;
    }
    Ok((bytes, file))
}
