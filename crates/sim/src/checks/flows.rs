//! Checks of every flow: bytes are delivered once and only if they arrived; no flow is stuck.

use punctual_core::{
    ByteRange, Bytes, End, FlowSpec, Packet, PortId, RangeSet, RetransmitCause, TimerChange,
};
use punctual_record::FlowRecord;

/// How often a flow's timers may fire while it has no packet in the network, before it sends one.
///
/// Most transports send at each firing. DCQCN's rate machine has a timer of its own: on a link of
/// 800 Gb/s it raises the rate 20,000 times by 40 Mb/s, while α falls 3,600 times by 1/256. An NDP
/// receiver's timer fires each timeout, while its sender waits for 3 · 2^10 timeouts at most.
pub(super) const SILENT_FIRINGS_MAX: u32 = 1 << 15;

/// How often a flow's host timers may fire before one sends a packet for it.
///
/// Each firing sends a packet for one flow of the host, and pHost serves the shortest first. A flow
/// may wait while 2^20 packets, 1.5 GB, are sent for shorter ones.
pub(super) const SHARED_FIRINGS_MAX: u64 = 1 << 20;

/// How many packets of all flows may arrive or be lost before one delivers a byte.
///
/// Flows that a port pauses probe once per RTT. Behind a cut link, the flow that may send waits for
/// its timeout of 1 ms or 50 RTTs. 20,000 paused flows send 2^20 probes in that time.
pub(super) const VAIN_PACKETS_MAX: u64 = 1 << 20;

/// A flow and its two ends.
#[derive(Debug, Clone, Default)]
pub(super) struct FlowCheck {
    pub(super) spec: Option<FlowSpec>,
    received: RangeSet,
    completed: bool,
    /// Its sender has finished or abandoned it.
    pub(super) ended: bool,
    /// Packets created, and packets that arrived or were lost.
    pub(super) made: u64,
    pub(super) gone: u64,
    /// Payload bytes of the data packet that arrived last, less those delivered since.
    arrived: u64,
    sender_timer: bool,
    receiver_timer: bool,
    /// Data packets that its sender retransmitted, and headers that switches returned to it.
    pub(super) retransmits: u64,
    pub(super) bounces: u64,
    /// Data packets that its sender retransmitted because their headers were returned.
    pub(super) bounce_retransmits: u64,
    /// The NICs that its sender waits for.
    ready_for: Vec<PortId>,
    /// How often its timers have fired since a packet of it was created, arrived or was lost.
    pub(super) silent_firings: u32,
    /// How often its host timers had fired when something last happened to it.
    pub(super) shared_firings: u64,
}

impl FlowCheck {
    fn size(&self) -> Option<u64> {
        let size = self.spec?.size;
        (size != Bytes::ENDLESS).then_some(size.get())
    }

    /// A packet reached one of its ends. A trimmed packet brings no data.
    pub(super) fn arrives(&mut self, packet: &Packet) {
        self.bounces += u64::from(packet.is_bounced());
        if !packet.is_to_sender() {
            self.arrived = if packet.is_trimmed() { 0 } else { packet.payload_bytes.into() };
        }
    }

    /// Its sender retransmits data. Returns what is wrong with that.
    pub(super) fn retransmits(&mut self, cause: RetransmitCause) -> Vec<String> {
        self.retransmits += 1;
        self.bounce_retransmits += u64::from(cause == RetransmitCause::Bounce);
        let (sent, returned) = (self.bounce_retransmits, self.bounces);
        if cause == RetransmitCause::Bounce && sent > returned {
            return vec![format!("retransmitted {sent} packets for {returned} returned headers")];
        }
        Vec::new()
    }

    /// Returns what is wrong with its record.
    pub(super) fn is_recorded(&self, record: &FlowRecord) -> Vec<String> {
        let mut wrong = Vec::new();
        let (all, by_cause) = (record.retransmits, record.retransmits_by.total());
        if u64::from(all) != self.retransmits {
            wrong.push(format!(
                "retransmitted {} packets, but its record counts {all}",
                self.retransmits
            ));
        }
        if u64::from(all) != by_cause {
            wrong.push(format!(
                "retransmitted {all} packets, but its record has causes for {by_cause}"
            ));
        }
        wrong
    }

    /// Bytes are delivered. Returns what is wrong with that.
    pub(super) fn delivers(&mut self, range: ByteRange) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut fresh = 0;
        let end = range.offset + range.len;
        self.received.insert(range.offset, end, |s, e| fresh += e - s);
        if fresh != range.len {
            wrong.push(format!("delivered bytes from {} twice", range.offset));
        }
        if self.size().is_some_and(|size| end > size) {
            wrong.push("delivered bytes beyond its end".to_owned());
        }
        if range.len > self.arrived {
            let arrived = self.arrived;
            wrong.push(format!("delivered {} bytes, but {arrived} arrived", range.len));
        }
        self.arrived = self.arrived.saturating_sub(range.len);
        wrong
    }

    /// Its receiver reports completion. Returns what is wrong with that.
    pub(super) fn completes(&mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        if std::mem::replace(&mut self.completed, true) {
            wrong.push("completed twice".to_owned());
        }
        let (size, total) = (self.size(), self.received.total());
        if size != Some(total) {
            wrong.push(format!("completed with {total} bytes of {size:?}"));
        }
        wrong
    }

    pub(super) fn set_timer(&mut self, end: End, change: TimerChange) {
        let timer = match end {
            End::Sender => &mut self.sender_timer,
            End::Receiver => &mut self.receiver_timer,
        };
        match change {
            TimerChange::Keep => {}
            TimerChange::Clear => *timer = false,
            TimerChange::Set(_) | TimerChange::Depart(_) => *timer = true,
        }
    }

    /// A timer of one of its ends fires. Returns whether [`SILENT_FIRINGS_MAX`] is reached now.
    ///
    /// Only firings count while no packet of it is in the network and its sender is not ready.
    pub(super) fn fires(&mut self, end: End) -> bool {
        self.set_timer(end, TimerChange::Clear);
        if self.is_over() || self.is_ready() || self.made != self.gone {
            return false;
        }
        self.silent_firings += 1;
        self.silent_firings == SILENT_FIRINGS_MAX
    }

    /// Its sender waits for a NIC.
    pub(super) fn is_ready_for(&mut self, nic: PortId) {
        if !self.ready_for.contains(&nic) {
            self.ready_for.push(nic);
        }
    }

    /// A NIC polls its sender. Returns whether the sender waited for it.
    pub(super) fn is_polled(&mut self, nic: PortId) -> bool {
        let place = self.ready_for.iter().position(|known| *known == nic);
        place.map(|place| self.ready_for.swap_remove(place)).is_some()
    }

    fn is_ready(&self) -> bool {
        !self.ready_for.is_empty()
    }

    fn is_over(&self) -> bool {
        self.spec.is_none() || self.completed || self.ended
    }

    /// Whether only a host timer can still bring it on.
    ///
    /// It has no packet in the network and no timer set, and its sender does not wait for the NIC.
    pub(super) fn is_idle(&self) -> bool {
        let has_timer = self.sender_timer || self.receiver_timer;
        !self.is_over() && !has_timer && !self.is_ready() && self.made == self.gone
    }
}
