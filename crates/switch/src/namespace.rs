//! Network namespaces of threads, and the offloads of interfaces in them.
//!
//! Unsafe code: two system calls that no safe wrapper of ours offers, `setns` and the ethtool
//! request, signals, and raising the priority of this process.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// `ETHTOOL_STXCSUM`: sets the transmit checksum offload.
const SET_TX_CHECKSUM: u32 = 0x17;
/// `SIOCETHTOOL`.
const ETHTOOL_REQUEST: libc::c_ulong = 0x8946;

/// Moves the calling thread into a named network namespace. Other threads stay where they are.
pub fn enter_namespace(name: &str) -> io::Result<()> {
    let file = File::open(format!("/run/netns/{name}"))?;
    // SAFETY: the descriptor is open.
    let result = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Runs `job` on a thread of its own in a named network namespace.
pub fn in_namespace<T: Send>(
    name: &str,
    job: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            enter_namespace(name)?;
            job()
        });
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
    })
}

#[repr(C)]
struct EthtoolValue {
    command: u32,
    value: u32,
}

#[repr(C)]
struct Request {
    name: [u8; 16],
    value: *mut EthtoolValue,
    /// The rest of the kernel's structure.
    rest: [u64; 2],
}

/// Turns off the transmit checksum offload of an interface in the namespace of this thread, and with
/// it segmentation offload: frames then leave whole, with their checksums.
pub fn turn_off_tx_checksum(interface: &str) -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    let mut value = EthtoolValue { command: SET_TX_CHECKSUM, value: 0 };
    let mut name = [0; 16];
    let bytes = interface.as_bytes();
    let Some(place) = name.get_mut(..bytes.len()).filter(|place| place.len() < 16) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name is too long"));
    };
    place.copy_from_slice(bytes);
    let mut request = Request { name, value: &mut value, rest: [0; 2] };
    // SAFETY: the request has the layout and at least the size of `struct ifreq`, and points at a
    // value that lives until the call returns.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), ETHTOOL_REQUEST, &raw mut request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Asks a process to end, or ends it.
pub(crate) fn end_process(pid: u32, at_once: bool) {
    let signal = if at_once { libc::SIGKILL } else { libc::SIGTERM };
    if let Ok(pid) = libc::pid_t::try_from(pid)
        && pid > 1
    {
        // SAFETY: the call takes numbers alone.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Gives this process a session of its own and a high priority, where that is allowed. With
/// autogroups, which most kernels have on, a priority counts only within a session.
pub fn raise_priority() {
    // SAFETY: both calls take numbers alone.
    unsafe {
        libc::setsid();
        libc::setpriority(libc::PRIO_PROCESS, 0, -19);
    }
    let _ = std::fs::write("/proc/self/autogroup", "-19");
}
