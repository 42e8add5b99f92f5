//! Timers that are cheap to reset: moving one to a later instant only writes a field.

use punctual_core::{End, FlowId, HostId, Instant, PortId, TransportId, prefetch_at};

/// The owner of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// One end of a flow.
    Endpoint(FlowId, End),
    /// The shared state of a transport at a host.
    Host(TransportId, HostId),
    /// The controller of a transport at a port.
    Controller(TransportId, PortId),
}

/// What breaks ties between the events of an endpoint's timer and others. Timers of hosts and
/// controllers, which exist from the start, have their own numbers instead, below 2^29.
#[inline]
pub(crate) fn endpoint_source(flow: FlowId, end: End) -> u32 {
    1 << 29 | flow.0 << 1 | u32::from(end == End::Receiver)
}

/// A timer, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Slot {
    /// When it fires, or never.
    wanted: Instant,
    /// When the one event that is not stale is due, or never.
    armed: Instant,
    owner: Owner,
    /// Whether it fires only to send the flow's next packet.
    departs: bool,
}

/// All timers of a run.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// What to do about a timer event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// The event is stale.
    Stale,
    /// It was moved later: arm it again for that instant.
    Later(Instant),
    /// It fires.
    Fire(Owner),
    /// It fires only to send this flow's next packet.
    Depart(FlowId),
}

impl Timers {
    #[inline]
    pub(crate) fn alloc(&mut self, owner: Owner) -> u32 {
        let never = Instant::NEVER;
        let slot = Slot { wanted: never, armed: never, owner, departs: false };
        match self.free.pop() {
            Some(id) => {
                // An event of the previous owner may still be due. It is stale, because its instant
                // is not `armed`.
                self.slots[id as usize] = slot;
                id
            }
            None => {
                self.slots.push(slot);
                u32::try_from(self.slots.len() - 1).expect("more than 2^32 timers")
            }
        }
    }

    #[inline]
    pub(crate) fn release(&mut self, id: u32) {
        self.slots[id as usize].wanted = Instant::NEVER;
        self.slots[id as usize].armed = Instant::NEVER;
        self.free.push(id);
    }

    /// Sets a timer. True when an event must be pushed for `at`.
    #[inline]
    pub(crate) fn set(&mut self, id: u32, at: Instant) -> bool {
        self.set_for(id, at, false)
    }

    /// Sets a timer. True when an event must be pushed for `at`.
    ///
    /// `departs`: it fires only to send the flow's next packet.
    #[inline]
    pub(crate) fn set_for(&mut self, id: u32, at: Instant, departs: bool) -> bool {
        let slot = &mut self.slots[id as usize];
        slot.wanted = at;
        slot.departs = departs;
        let earlier = at < slot.armed;
        if earlier {
            slot.armed = at;
        }
        earlier
    }

    /// What breaks ties between this timer's events and others: it does not depend on the order in
    /// which flows set their first timers, nor on which timers are free.
    #[inline]
    pub(crate) fn source(&self, id: u32) -> u32 {
        match self.slots[id as usize].owner {
            Owner::Endpoint(flow, end) => endpoint_source(flow, end),
            Owner::Host(..) | Owner::Controller(..) => id,
        }
    }

    /// The owner of a timer.
    #[inline]
    pub(crate) fn owner(&self, id: u32) -> Owner {
        self.slots[id as usize].owner
    }

    /// Prefetches a timer. An unknown one does no harm.
    #[inline]
    pub(crate) fn prefetch(&self, id: u32) {
        prefetch_at(&self.slots, id as usize);
    }

    #[inline]
    pub(crate) fn clear(&mut self, id: u32) {
        self.slots[id as usize].wanted = Instant::NEVER;
    }

    /// An event for this timer is due.
    #[inline]
    pub(crate) fn expire(&mut self, id: u32, now: Instant) -> Expiry {
        let slot = &mut self.slots[id as usize];
        if slot.armed != now {
            return Expiry::Stale;
        }
        slot.armed = Instant::NEVER;
        if slot.wanted == Instant::NEVER {
            Expiry::Stale
        } else if slot.wanted > now {
            slot.armed = slot.wanted;
            Expiry::Later(slot.wanted)
        } else {
            slot.wanted = Instant::NEVER;
            match slot.owner {
                Owner::Endpoint(flow, _) if slot.departs => Expiry::Depart(flow),
                owner => Expiry::Fire(owner),
            }
        }
    }
}
