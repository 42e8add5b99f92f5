//! TCP Fast Open (RFC 7413), for measurements: the standard library has no options for it.
#![allow(unsafe_code)]

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;

/// The bit of `tcpi_options` that says that the data in the SYN were acknowledged.
const TCPI_OPT_SYN_DATA: u8 = 32;
/// The bits of `net.ipv4.tcp_fastopen` for clients and servers.
const CLIENT_AND_SERVER: u32 = 3;

fn set(fd: i32, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the kernel reads an integer of the given length from the address of one.
    let result = unsafe {
        libc::setsockopt(
            fd,
            libc::IPPROTO_TCP,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Accepts data in the SYN, if the kernel's settings allow it.
pub(crate) fn listen(listener: &TcpListener) -> io::Result<()> {
    set(listener.as_raw_fd(), libc::TCP_FASTOPEN, 1_024)
}

/// A connection whose SYN leaves with the first bytes that are written.
pub(crate) fn connect(server: SocketAddr) -> io::Result<TcpStream> {
    let domain = socket2::Domain::for_address(server);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
    set(socket.as_raw_fd(), libc::TCP_FASTOPEN_CONNECT, 1)?;
    socket.connect(&server.into())?;
    Ok(socket.into())
}

/// Whether the data in the SYN of a connection were acknowledged.
pub(crate) fn is_used(stream: &TcpStream) -> bool {
    // SAFETY: all bits zero are a value of this structure of numbers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to the address of the structure.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    result == 0 && info.tcpi_options & TCPI_OPT_SYN_DATA != 0
}

/// Why Fast Open cannot work on this machine, if the kernel's setting forbids it.
pub(crate) fn obstacle() -> Option<String> {
    let setting = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_fastopen").ok()?;
    let value: u32 = setting.trim().parse().ok()?;
    (value & CLIENT_AND_SERVER != CLIENT_AND_SERVER).then(|| {
        format!("net.ipv4.tcp_fastopen is {value}; `sysctl -w net.ipv4.tcp_fastopen=3` allows it")
    })
}
