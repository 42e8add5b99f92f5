//! Results of a run: one per flow, and a trace of packets.

use crate::Fault;
use punctual_core::{
    ByteRange, ExtBlock, FlowEvent, FlowSpec, Instant, Packet, RangeSet, RetransmitCause,
};

/// The direction of a packet on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From host 0 to host 1.
    Forward,
    /// From host 1 to host 0.
    Backward,
}

/// A packet that a host sent.
#[derive(Clone, Copy, Debug)]
pub struct Traced {
    /// When the NIC sent its first bit.
    pub at: Instant,
    /// Its direction.
    pub direction: Direction,
    /// The packet as it left, after the controller of the NIC port.
    pub packet: Packet,
    /// Its header extension as it left.
    pub ext: Option<ExtBlock>,
    /// The fault injected after it left.
    pub fault: Fault,
}

/// The result of a flow. Every event is checked: bytes are delivered once and within the flow, the
/// flow completes when all bytes are delivered, and the sender ends once.
#[derive(Clone, Debug)]
pub struct FlowResult {
    /// The specification of the flow.
    pub spec: FlowSpec,
    /// Bytes delivered.
    pub delivered: RangeSet,
    /// When the receiver had every byte.
    pub completed_at: Option<Instant>,
    /// When the sender knew that the receiver had every byte.
    pub finished_at: Option<Instant>,
    /// When the sender gave up.
    pub abandoned_at: Option<Instant>,
    /// Number of [`FlowEvent::Retransmitted`].
    pub retransmitted: u64,
    /// Why, in order.
    pub retransmit_causes: Vec<RetransmitCause>,
    /// Number of [`FlowEvent::TimedOut`].
    pub timed_out: u64,
    /// Number of [`FlowEvent::Trimmed`].
    pub trimmed: u64,
    /// Number of [`FlowEvent::Bounced`].
    pub bounced: u64,
    /// All events except deliveries, in order.
    pub events: Vec<(Instant, FlowEvent)>,
}

impl FlowResult {
    pub(crate) fn new(spec: FlowSpec) -> Self {
        FlowResult {
            spec,
            delivered: RangeSet::default(),
            completed_at: None,
            finished_at: None,
            abandoned_at: None,
            retransmitted: 0,
            retransmit_causes: Vec::new(),
            timed_out: 0,
            trimmed: 0,
            bounced: 0,
            events: Vec::new(),
        }
    }

    /// Whether the sender has finished or given up.
    pub fn sender_ended(&self) -> bool {
        self.finished_at.is_some() || self.abandoned_at.is_some()
    }

    /// Whether the flow is over: completed and finished, or abandoned.
    pub fn is_done(&self) -> bool {
        self.abandoned_at.is_some() || (self.completed_at.is_some() && self.finished_at.is_some())
    }

    pub(crate) fn record(&mut self, now: Instant, event: FlowEvent) {
        let flow = self.spec.id;
        match event {
            FlowEvent::Delivered(range) => return self.record_delivery(range),
            FlowEvent::Completed => {
                assert!(self.completed_at.is_none(), "flow {flow} completed twice");
                assert_eq!(
                    self.delivered.total(),
                    self.spec.size.get(),
                    "flow {flow} completed, but the bytes delivered are not its size"
                );
                self.completed_at = Some(now);
            }
            FlowEvent::Finished => {
                assert!(!self.sender_ended(), "flow {flow} ended twice");
                assert!(self.completed_at.is_some(), "flow {flow} finished before it completed");
                self.finished_at = Some(now);
            }
            FlowEvent::Abandoned => {
                assert!(!self.sender_ended(), "flow {flow} ended twice");
                self.abandoned_at = Some(now);
            }
            FlowEvent::Retransmitted(cause) => {
                self.retransmitted += 1;
                self.retransmit_causes.push(cause);
            }
            FlowEvent::TimedOut => self.timed_out += 1,
            FlowEvent::Trimmed => self.trimmed += 1,
            FlowEvent::Bounced => self.bounced += 1,
            _ => {}
        }
        self.events.push((now, event));
    }

    fn record_delivery(&mut self, range: ByteRange) {
        let (flow, end) = (self.spec.id, range.offset + range.len);
        assert!(range.len > 0, "flow {flow} delivered an empty range at {}", range.offset);
        assert!(
            end <= self.spec.size.get(),
            "flow {flow} delivered bytes up to {end}, past its end"
        );
        let mut fresh_bytes = 0;
        self.delivered.insert(range.offset, end, |start, end| fresh_bytes += end - start);
        assert_eq!(fresh_bytes, range.len, "flow {flow} delivered part of {range:?} twice");
    }
}
