//! The disciplines that few ports have, behind one pointer, so that the common ones stay small.

use super::classes::FairClasses;
use super::cut_payload::CutPayload;
use super::model::ModelQueue;
use super::{Fates, InService, PacketArena, PacketId, QueueSpec};

#[derive(Debug)]
pub(super) enum Other {
    Model(ModelQueue),
    CutPayload(CutPayload),
    FairClasses(FairClasses),
}

impl Other {
    /// See [`Queue::trimming_tail`](super::Queue::trimming_tail).
    pub(super) fn trimming_tail(&self) -> Option<PacketId> {
        match self {
            Other::Model(queue) => queue.trimming_tail(),
            Other::FairClasses(queue) => queue.trimming_tail(),
            Other::CutPayload(_) => None,
        }
    }

    pub(super) fn new(spec: &QueueSpec, seed: u64) -> Self {
        match *spec {
            QueueSpec::TrimModel { model, data, headers, trim_to } => {
                Other::Model(ModelQueue::new(model, data, headers, trim_to, seed))
            }
            QueueSpec::CutPayload { limit, trim_above, trim_to } => {
                Other::CutPayload(CutPayload::new(limit, trim_above, trim_to))
            }
            QueueSpec::FairClasses {
                trim_data,
                trim_headers,
                rest,
                rest_mark_above,
                trim_percent,
            } => Other::FairClasses(FairClasses::new(
                super::Trim::new(trim_data, trim_headers, None, seed),
                rest,
                rest_mark_above,
                trim_percent,
            )),
            ref spec => unreachable!("no discipline for {spec:?}"),
        }
    }

    pub(super) fn set_trimming(&mut self, transports: u64) {
        if let Other::FairClasses(queue) = self {
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
            Other::Model(queue) => queue.enqueue(id, in_service, packets, fates),
            Other::CutPayload(queue) => queue.enqueue(id, in_service, packets, fates),
            Other::FairClasses(queue) => queue.enqueue(id, in_service, packets, fates),
        }
    }

    #[inline(never)]
    pub(super) fn dequeue(&mut self, packets: &PacketArena) -> Option<PacketId> {
        match self {
            Other::Model(queue) => queue.dequeue(packets),
            Other::CutPayload(queue) => queue.dequeue(packets),
            Other::FairClasses(queue) => queue.dequeue(packets),
        }
    }

    /// Bytes and packets waiting.
    pub(super) fn waiting(&self) -> (u32, u32) {
        match self {
            Other::Model(queue) => queue.waiting(),
            Other::CutPayload(queue) => queue.waiting(),
            Other::FairClasses(queue) => queue.waiting(),
        }
    }
}
