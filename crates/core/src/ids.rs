//! Dense `u32` names for the things that live in arenas.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into a vector.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<usize> for $name {
            /// Panics when the index does not fit: arenas hold fewer than 2³² things.
            fn from(index: usize) -> Self {
                $name(u32::try_from(index).expect("more than 2^32 ids"))
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A host, counted from 0. Hosts are also the first nodes: host `h` is node `h`.
    HostId
);
id!(
    /// A host or a switch.
    NodeId
);
id!(
    /// An output port, and the one-directional link that leaves from it.
    PortId
);
id!(
    /// A flow. Never reused within a run.
    FlowId
);
id!(
    /// A packet's slot in a [`PacketArena`](crate::PacketArena). Reused.
    PacketId
);

/// Which of the transports of a run a packet or flow belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TransportId(pub u8);

impl TransportId {
    /// The id as an index into a vector.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl From<HostId> for NodeId {
    fn from(host: HostId) -> Self {
        NodeId(host.0)
    }
}
