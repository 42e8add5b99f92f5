//! Where frames come from and go to.

use punctual_core::{Duration, HostId, Instant};
use std::collections::VecDeque;

/// A frame from a host.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The frame, from its Ethernet header on, without FCS.
    pub frame: &'a [u8],
    /// When it arrived, on the clock of [`FrameIo::now`].
    pub at: Instant,
    /// Whether it is longer than what was captured of it.
    pub is_cut: bool,
    /// Whether the sender's kernel left its checksum to the device.
    pub checksum_missing: bool,
}

/// Frames lost between the interfaces and the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoLosses {
    /// Frames for which the receive ring had no room.
    pub ring_full: u64,
    /// Frames that the interface did not take.
    pub send_errors: u64,
}

/// The interfaces of a switch, by host.
pub trait FrameIo {
    /// The time. It never goes back.
    fn now(&mut self) -> Instant;

    /// The zero of its clock, as hosts count deadlines: in units of 10 µs since the Unix epoch, modulo
    /// 2³².
    fn epoch(&self) -> u32 {
        0
    }

    /// The latest instant such that frames that arrived before it can be received now.
    fn settled(&mut self) -> Instant {
        self.now()
    }

    /// Passes frames that a host has sent to `take`, a bounded number of them. Returns whether more
    /// may wait.
    fn receive(&mut self, host: HostId, take: &mut impl FnMut(Received<'_>)) -> bool;

    /// Sends a frame to a host, at the latest with the next [`FrameIo::flush`].
    fn send(&mut self, host: HostId, frame: &[u8]);

    /// Sends all frames that wait for this host.
    fn flush(&mut self, host: HostId);

    /// Frames lost at this host's interface since the start.
    fn losses(&mut self, host: HostId) -> IoLosses;

    /// Uses the interfaces of these names from now on, host by host. Those that were used before go
    /// on. After an error, everything is as it was.
    fn set_interfaces(&mut self, names: &[&str]) -> std::io::Result<()>;

    /// Waits until a frame arrives, at most for this long.
    fn wait(&mut self, _most: Duration) {}
}

/// Frames that [`MemoryIo`] passes on at once.
const MEMORY_BATCH: usize = 4;

/// A frame that a switch has sent into a [`MemoryIo`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departed {
    /// To which host.
    pub host: HostId,
    /// When.
    pub at: Instant,
    /// The frame.
    pub frame: Vec<u8>,
}

/// Interfaces in memory, with a clock that a test sets. It opens interfaces of any name.
#[derive(Clone, Debug, Default)]
pub struct MemoryIo {
    /// The names of the interfaces, by host.
    pub names: Vec<String>,
    /// The time.
    pub clock: Instant,
    /// See [`FrameIo::epoch`].
    pub epoch: u32,
    /// Frames to be received, by host: arrival time, frame.
    pub arrivals: Vec<VecDeque<(Instant, Vec<u8>)>>,
    /// Frames that the switch has sent.
    pub departed: Vec<Departed>,
}

impl MemoryIo {
    /// Interfaces of this many hosts, called `v0`, `v1` and so on.
    pub fn new(hosts: usize) -> Self {
        let names = (0..hosts).map(|host| format!("v{host}")).collect();
        MemoryIo { names, arrivals: vec![VecDeque::new(); hosts], ..MemoryIo::default() }
    }

    /// Adds a frame that a host sends. Frames of a host are added in order of time.
    pub fn arrive(&mut self, host: HostId, at: Instant, frame: Vec<u8>) {
        self.arrivals[host.index()].push_back((at, frame));
    }
}

impl FrameIo for MemoryIo {
    fn now(&mut self) -> Instant {
        self.clock
    }

    fn epoch(&self) -> u32 {
        self.epoch
    }

    fn receive(&mut self, host: HostId, take: &mut impl FnMut(Received<'_>)) -> bool {
        let queue = &mut self.arrivals[host.index()];
        for _ in 0..MEMORY_BATCH {
            let Some((at, frame)) = queue.pop_front_if(|(at, _)| *at <= self.clock) else {
                return false;
            };
            take(Received { frame: &frame, at, is_cut: false, checksum_missing: false });
        }
        true
    }

    fn send(&mut self, host: HostId, frame: &[u8]) {
        self.departed.push(Departed { host, at: self.clock, frame: frame.to_vec() });
    }

    fn flush(&mut self, _host: HostId) {}

    fn set_interfaces(&mut self, names: &[&str]) -> std::io::Result<()> {
        let mut arrivals = Vec::new();
        for name in names {
            let old = self.names.iter().position(|old| old == name);
            arrivals
                .push(old.map(|old| std::mem::take(&mut self.arrivals[old])).unwrap_or_default());
        }
        self.arrivals = arrivals;
        self.names = names.iter().map(|name| (*name).to_owned()).collect();
        Ok(())
    }

    fn losses(&mut self, _host: HostId) -> IoLosses {
        IoLosses::default()
    }
}
