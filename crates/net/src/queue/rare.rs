//! Disciplines that few ports use, behind one pointer, so that the common ones stay small.

use super::classes::FairClasses;
use super::cut_payload::CutPayload;
use super::model::ModelQueue;
use super::{Fates, InService, PacketArena, PacketId, QueueSpec};

#[derive(Debug)]
pub(super) enum RareQueue {
    Model(ModelQueue),
    CutPayload(CutPayload),
    FairClasses(FairClasses),
}

impl RareQueue {
    /// See [`Queue::trimming_tail`](super::Queue::trimming_tail).
    pub(super) fn trimming_tail(&self) -> Option<PacketId> {
        match self {
            RareQueue::Model(queue) => queue.trimming_tail(),
            RareQueue::FairClasses(queue) => queue.trimming_tail(),
            RareQueue::CutPayload(_) => None,
        }
    }

    pub(super) fn new(spec: &QueueSpec, seed: u64) -> Self {
        match *spec {
            QueueSpec::TrimModel { model, data, headers, trim_to } => {
                RareQueue::Model(ModelQueue::new(model, data, headers, trim_to, seed))
            }
            QueueSpec::CutPayload { limit, trim_above, trim_to } => {
                RareQueue::CutPayload(CutPayload::new(limit, trim_above, trim_to))
            }
            QueueSpec::FairClasses {
                trim_data,
                trim_headers,
                rest,
                rest_mark_above,
                trim_percent,
            } => RareQueue::FairClasses(FairClasses::new(
                super::Trim::new(trim_data, trim_headers, None, seed),
                rest,
                rest_mark_above,
                trim_percent,
            )),
            ref spec => unreachable!("no discipline for {spec:?}"),
        }
    }

    pub(super) fn set_trimming(&mut self, transports: u64) {
        if let RareQueue::FairClasses(queue) = self {
            queue.set_trimming(transports);
        }
    }

    #[inline(never)]
    pub(super) fn enqueue(
        &mut self,
        id: PacketId,
        in_service: InService,
        packets: &mut PacketArena,
        fates: &mut Fates,
    ) {
        match self {
            RareQueue::Model(queue) => queue.enqueue(id, in_service, packets, fates),
            RareQueue::CutPayload(queue) => queue.enqueue(id, in_service, packets, fates),
            RareQueue::FairClasses(queue) => queue.enqueue(id, in_service, packets, fates),
        }
    }

    #[inline(never)]
    pub(super) fn dequeue(&mut self, packets: &PacketArena) -> Option<PacketId> {
        match self {
            RareQueue::Model(queue) => queue.dequeue(packets),
            RareQueue::CutPayload(queue) => queue.dequeue(packets),
            RareQueue::FairClasses(queue) => queue.dequeue(packets),
        }
    }

    /// Queued bytes and packets.
    pub(super) fn waiting(&self) -> (u32, u32) {
        match self {
            RareQueue::Model(queue) => queue.waiting(),
            RareQueue::CutPayload(queue) => queue.waiting(),
            RareQueue::FairClasses(queue) => queue.waiting(),
        }
    }
}
