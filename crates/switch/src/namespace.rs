//! Network namespaces with and without names, of threads and processes, and the offloads of
//! interfaces in them.
//!
//! Named namespaces are those of `ip netns`: files in `/run/netns`.
//!
//! Unsafe code: the ethtool request, signals, and the priority of this process and its threads.
#![allow(unsafe_code)]

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Where the named namespaces are.
const NAMED: &str = "/run/netns";

/// `ETHTOOL_STXCSUM`: sets the transmit checksum offload.
const SET_TX_CHECKSUM: u32 = 0x17;
/// `SIOCETHTOOL`.
const ETHTOOL_REQUEST: libc::Ioctl = 0x8946;

/// Runs `job` on a thread of its own, which ends with it: its namespaces are nobody else's.
pub fn on_a_thread<T: Send>(job: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(job);
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
    })
}

/// A new network namespace without a name. It lives as long as the file or something in it.
pub fn new_namespace() -> io::Result<File> {
    on_a_thread(|| {
        unshare(CloneFlags::CLONE_NEWNET)?;
        File::open("/proc/thread-self/ns/net")
    })
}

fn path_of(name: &str) -> PathBuf {
    Path::new(NAMED).join(name)
}

/// The file of a named network namespace.
pub(crate) fn namespace_file(name: &str) -> io::Result<File> {
    File::open(path_of(name))
}

/// Moves the calling thread into a named network namespace. Other threads stay where they are.
pub fn enter_namespace(name: &str) -> io::Result<()> {
    Ok(setns(namespace_file(name)?, CloneFlags::CLONE_NEWNET)?)
}

/// Runs `job` on a thread of its own in a named network namespace. Processes that it starts are
/// there, too.
pub fn in_namespace<T: Send>(
    name: &str,
    job: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    on_a_thread(|| {
        enter_namespace(name)?;
        job()
    })
}

/// Starts a process in a named network namespace, with a `/sys` that shows its interfaces.
pub fn spawn_in_namespace(name: &str, command: &mut Command) -> io::Result<Child> {
    in_namespace(name, || {
        if unshare(CloneFlags::CLONE_NEWNS).is_ok() {
            let none = None::<&str>;
            let _ = mount(none, "/", none, MsFlags::MS_SLAVE | MsFlags::MS_REC, none);
            let _ = umount2("/sys", MntFlags::MNT_DETACH);
            let _ = mount(Some(name), "/sys", Some("sysfs"), MsFlags::empty(), none);
        }
        command.spawn()
    })
}

/// Makes a named network namespace.
pub(crate) fn add_namespace(name: &str) -> io::Result<()> {
    fs::create_dir_all(NAMED)?;
    share_named()?;
    let path = path_of(name);
    File::create_new(&path)?;
    let made = on_a_thread(|| {
        unshare(CloneFlags::CLONE_NEWNET)?;
        let (none, own) = (None::<&str>, "/proc/thread-self/ns/net");
        Ok(mount(Some(own), &path, none, MsFlags::MS_BIND, none)?)
    });
    if made.is_err() {
        let _ = fs::remove_file(&path);
    }
    made
}

/// Makes mounts below the directory of named namespaces visible in all mount namespaces, and
/// removals, too: otherwise a process that has copied them keeps a namespace alive.
fn share_named() -> io::Result<()> {
    let none = None::<&str>;
    let share = || mount(none, NAMED, none, MsFlags::MS_SHARED | MsFlags::MS_REC, none);
    match share() {
        // It is no mount point yet.
        Err(Errno::EINVAL) => {
            let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
            mount(Some(NAMED), NAMED, none, flags, none)?;
            Ok(share()?)
        }
        result => Ok(result?),
    }
}

/// Removes the name of a network namespace, and with it the namespace, once no process is in it.
pub(crate) fn remove_namespace(name: &str) -> io::Result<()> {
    let path = path_of(name);
    match umount2(&path, MntFlags::MNT_DETACH) {
        // A crash may leave a file without a namespace.
        Ok(()) | Err(Errno::EINVAL) => fs::remove_file(&path),
        Err(error) => Err(error.into()),
    }
}

/// The names of network namespaces that begin with `start`.
pub(crate) fn namespaces_with(start: &str) -> io::Result<Vec<String>> {
    let listed = match fs::read_dir(NAMED) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    let names = listed.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter(|name| name.starts_with(start)).collect())
}

/// The processes in a named network namespace.
pub(crate) fn processes_in(name: &str) -> Vec<u32> {
    let place = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let Some(wanted) = place(&path_of(name)) else { return Vec::new() };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_there = |pid: &u32| place(Path::new(&format!("/proc/{pid}/ns/net"))) == Some(wanted);
    pids.filter(is_there).collect()
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

/// Makes this thread run before all others of its processor that are not real-time ones, or ends
/// that. Returns whether it worked: it needs CAP_SYS_NICE.
///
/// The kernel takes such a thread off its processor for 50 ms of each second in which others wait.
pub fn set_realtime(is_realtime: bool) -> bool {
    let (policy, sched_priority) = match is_realtime {
        true => (libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1),
        false => (libc::SCHED_OTHER, 0),
    };
    // SAFETY: a structure of zeros is valid, and the call reads it.
    unsafe {
        let mut parameters: libc::sched_param = std::mem::zeroed();
        parameters.sched_priority = sched_priority;
        libc::sched_setscheduler(0, policy, &parameters) == 0
    }
}
