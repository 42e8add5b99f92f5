//! The pull queue: one per interface, shared by all flows that the host receives, paced so that
//! what is pulled just fills the host's link.

use super::{Ndp, NdpHeader, header::kind};
use punctual_core::{
    Duration, FlowId, FlowRoute, HostCx, HostId, Instant, NicInfo, PacketFlags, Slab,
};
use std::collections::VecDeque;

/// Pulls waiting to be sent, served round robin over flows.
#[derive(Debug)]
pub struct PullQueue {
    spacing: Duration,
    payload: u64,
    lines: Slab<Line>,
    /// Lines with pulls waiting, in order of service.
    waiting: VecDeque<u32>,
    /// The next pull may leave from here on.
    next_at: Instant,
}

/// One receiving flow's place in the queue.
#[derive(Debug)]
struct Line {
    flow: FlowId,
    peer: HostId,
    paths: u32,
    next_path: u32,
    /// The number that the last pull sent carried.
    sent: u32,
    /// Pulls waiting.
    pending: u32,
}

impl PullQueue {
    pub(super) fn new(config: &Ndp, nic: &NicInfo) -> Self {
        PullQueue {
            spacing: config.spacing_for(nic),
            payload: config.payload_for(nic.mtu),
            lines: Slab::default(),
            waiting: VecDeque::new(),
            next_at: Instant::ZERO,
        }
    }

    /// Data bytes in a full packet on this interface.
    pub(super) fn payload(&self) -> u64 {
        self.payload
    }

    /// Pulls waiting, of all flows.
    pub fn pending(&self) -> u32 {
        self.waiting.iter().filter_map(|line| self.lines.get(*line)).map(|l| l.pending).sum()
    }

    pub(super) fn open(&mut self, flow: FlowId, route: &FlowRoute) -> u32 {
        self.lines.insert(Line {
            flow,
            peer: route.peer,
            paths: route.paths,
            next_path: route.ecmp_path,
            sent: 0,
            pending: 0,
        })
    }

    /// Adds one pull for a flow. Returns its number when it may leave at once, on the back of
    /// the ACK or NACK being sent; otherwise it waits and the host's timer is to fire at
    /// [`PullQueue::next_at`].
    // NDP-R11, NDP-R12
    pub(super) fn add(&mut self, line: u32, now: Instant) -> Option<u32> {
        let spacing = self.spacing;
        let entry = self.lines.get_mut(line)?;
        if self.waiting.is_empty() && now >= self.next_at {
            entry.sent = entry.sent.wrapping_add(1);
            self.next_at = now + spacing;
            return Some(entry.sent);
        }
        entry.pending += 1;
        if entry.pending == 1 {
            self.waiting.push_back(line);
        }
        None
    }

    /// When the next waiting pull may leave.
    pub(super) fn next_at(&self) -> Instant {
        self.next_at
    }

    /// The number of the last pull sent for a flow that has none waiting.
    pub(super) fn last_sent(&self, line: u32) -> Option<u32> {
        self.lines.get(line).filter(|l| l.pending == 0).map(|l| l.sent)
    }

    /// The next path for a control packet of this flow: each in turn.
    pub(super) fn next_path(&mut self, line: u32) -> u32 {
        self.lines.get_mut(line).map_or(0, Line::take_path)
    }

    /// Forgets the pulls waiting for a flow that needs none any more.
    // NDP-R14
    pub(super) fn flush(&mut self, line: u32) {
        if let Some(entry) = self.lines.get_mut(line)
            && entry.pending > 0
        {
            entry.pending = 0;
            self.waiting.retain(|l| *l != line);
        }
    }

    /// Forgets a flow.
    pub(super) fn close(&mut self, line: u32) {
        self.flush(line);
        self.lines.remove(line);
    }
}

impl Line {
    fn take_path(&mut self) -> u32 {
        let path = self.next_path;
        self.next_path = if path + 1 >= self.paths { 0 } else { path + 1 };
        path
    }
}

/// The pacer: sends the pull whose turn it is, and sets the timer for the next.
// NDP-R12, NDP-R13
pub(super) fn send_next_pull(cx: &mut HostCx<'_, Ndp>) {
    if cx.now < cx.shared.next_at {
        cx.set_host_timer(cx.shared.next_at);
        return;
    }
    let Some(line) = cx.shared.waiting.pop_front() else {
        return;
    };
    let Some(entry) = cx.shared.lines.get_mut(line) else {
        return;
    };
    entry.sent = entry.sent.wrapping_add(1);
    entry.pending -= 1;
    let header = NdpHeader {
        seq: 0,
        cumulative: 0,
        sent_at: 0,
        pull: entry.sent,
        path: 0,
        kind: kind::PULL,
        flags: 0,
    };
    let mut packet = header.control(entry.flow, entry.peer);
    packet.flags.set(PacketFlags::TO_SENDER);
    packet.path = entry.take_path();
    if entry.pending > 0 {
        cx.shared.waiting.push_back(line);
    }
    cx.send(packet);
    cx.shared.next_at = cx.now + cx.shared.spacing;
    if !cx.shared.waiting.is_empty() {
        cx.set_host_timer(cx.shared.next_at);
    }
}
