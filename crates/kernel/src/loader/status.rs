//! What is loaded, and the sockets that use it.

use super::LoadError;
use super::state::{Paths, State};
use crate::client::Info;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// A socket that uses D2TCP or has a deadline, in any network namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedSocket {
    /// Its address.
    pub local: SocketAddr,
    /// Its peer's address.
    pub remote: SocketAddr,
    /// The inode of its network namespace.
    pub netns: u32,
    /// Its congestion control.
    pub control: String,
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: u32,
    /// The state of D2TCP.
    pub info: Info,
}

/// What the ECN marker saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Packets that passed.
    pub packets: u64,
    /// Packets that it marked.
    pub marked: u64,
    /// The longest backlog in bytes.
    pub backlog_max: u64,
}

/// What is loaded.
#[derive(Clone, Debug)]
pub struct Status {
    /// The names of D2TCP and DCTCP.
    pub names: [String; 2],
    /// The control group whose sockets take deadlines.
    pub cgroup: PathBuf,
    /// Whether sockets of the control group get D2TCP.
    pub adopts: bool,
    /// Whether only the marker is loaded.
    pub marker_only: bool,
    /// The network namespace of what follows; none is that of the loader.
    pub netns: Option<PathBuf>,
    /// Whether D2TCP is the default of the network namespace.
    pub is_default: bool,
    /// Prefixes of routes with D2TCP.
    pub routes: Vec<String>,
    /// Devices with a marker, and its threshold in bytes.
    pub marker: Option<(Vec<String>, u32)>,
    /// What the marker saw.
    pub marks: Marks,
    /// The sockets.
    pub sockets: Vec<ListedSocket>,
}

/// What is loaded; none if nothing is.
pub fn status(paths: &Paths) -> Result<Option<Status>, LoadError> {
    let Some(state) = State::read(&paths.state)? else { return Ok(None) };
    Ok(Some(Status {
        names: [state.d2tcp, state.dctcp],
        cgroup: state.cgroup,
        adopts: state.adopts,
        marker_only: state.marker_only,
        netns: state.netns,
        is_default: state.previous_default.is_some(),
        routes: state.routes.into_iter().map(|route| route.prefix).collect(),
        marker: state.mark_bytes.map(|bytes| (state.mark_devices, bytes)),
        marks: marks(paths)?,
        sockets: sockets(paths)?,
    }))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default())
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap_or_default())
}

fn marks(paths: &Paths) -> Result<Marks, LoadError> {
    let what = "the marker's counters";
    let failed = |error| LoadError::Attach { what: what.into(), error, log: String::new() };
    let map = MapHandle::from_pinned_path(paths.pins.join("marks")).map_err(failed)?;
    let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
    let value = value.filter(|value| value.len() >= 24).unwrap_or_else(|| vec![0; 24]);
    Ok(Marks { packets: long(&value, 0), marked: long(&value, 8), backlog_max: long(&value, 16) })
}

/// The size of `struct listed` of bpf/tools.h, and where its parts begin.
const LISTED: usize = 72 + Info::BYTES;

/// The sockets that use D2TCP or have a deadline, in all network namespaces.
pub fn sockets(paths: &Paths) -> Result<Vec<ListedSocket>, LoadError> {
    let pin = paths.pins.join("sockets");
    let bytes = std::fs::read(&pin).map_err(LoadError::system(pin.display().to_string()))?;
    Ok(bytes.chunks_exact(LISTED).map(parse).collect())
}

fn parse(bytes: &[u8]) -> ListedSocket {
    let address = |at: usize, port: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&bytes[at..at + 16]);
        let ip = if word(bytes, 32) == libc::AF_INET6.cast_unsigned() {
            IpAddr::V6(Ipv6Addr::from(octets))
        } else {
            IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]))
        };
        SocketAddr::new(ip.to_canonical(), u16::from_ne_bytes([bytes[port], bytes[port + 1]]))
    };
    let name = &bytes[56..72];
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(16);
    let mut info = [0; Info::BYTES];
    info.copy_from_slice(&bytes[72..72 + Info::BYTES]);
    ListedSocket {
        local: address(0, 48),
        remote: address(16, 50),
        netns: word(bytes, 40),
        control: String::from_utf8_lossy(&name[..end]).into_owned(),
        rtt_us: word(bytes, 44),
        info: Info::parse(&info),
    }
}
