//! The system calls of socket options, which the standard library does not offer for these levels.
#![allow(unsafe_code, reason = "setsockopt and getsockopt take raw pointers")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `setsockopt` with these bytes.
pub(crate) fn set_option(
    socket: &impl AsFd,
    level: i32,
    name: i32,
    value: &[u8],
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the pointer and the length are those of one slice, which the kernel only reads.
    let result = unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `getsockopt` into these bytes; returns how many the kernel wrote.
pub(crate) fn get_option(
    socket: &impl AsFd,
    level: i32,
    name: i32,
    value: &mut [u8],
) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the pointer and the length are those of one slice; the kernel writes no more.
    let result =
        unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut length) };
    if result == 0 { Ok(length as usize) } else { Err(io::Error::last_os_error()) }
}

/// The name of a TCP socket's congestion control.
pub fn congestion_control(socket: &impl AsFd) -> io::Result<String> {
    let mut name = [0; 16];
    get_option(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name)?;
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// Chooses a TCP socket's congestion control by name.
pub fn set_congestion_control(socket: &impl AsFd, name: &str) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes())
}

/// Attaches a tc program to the egress of a device; removing its pin detaches it.
#[cfg(feature = "loader")]
pub(crate) fn attach_egress(
    program: &libbpf_rs::ProgramMut<'_>,
    device: i32,
) -> io::Result<libbpf_rs::Link> {
    use libbpf_rs::{AsRawLibbpf as _, libbpf_sys};
    let program = program.as_libbpf_object().as_ptr();
    // SAFETY: the program is loaded and outlives the call; no options are given.
    let link = unsafe { libbpf_sys::bpf_program__attach_tcx(program, device, std::ptr::null()) };
    let Some(link) = std::ptr::NonNull::new(link) else {
        return Err(io::Error::last_os_error());
    };
    // SAFETY: libbpf returned this link, and nobody else owns it.
    Ok(unsafe { libbpf_rs::Link::from_ptr(link) })
}
