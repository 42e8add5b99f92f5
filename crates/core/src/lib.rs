//! The types and traits that all parts of punctual share.
//!
//! * [`units`]: picosecond instants and durations, bytes, bits per second.
//! * [`Packet`], [`Fifo`], [`PacketArena`]: one cache line per packet, queues without allocation.
//! * [`Transport`], [`Endpoint`], [`HostCx`]: how a protocol talks to whatever drives it.
//! * [`Controller`]: what an explicit-rate protocol runs at every output port.
//! * [`Stack`]: all flows of one transport on a set of hosts, for any driver.
//! * [`TransportSet`]: all transports that a program offers, behind one `match`.
//! * [`FlowModel`]: how a transport shares links when whole flows are simulated.
//! * [`rng`]: named random streams.
//!
//! Nothing here knows a clock, a socket, a thread or a particular protocol.

mod arena;
mod content;
mod controller;
mod endpoint;
mod fifo;
mod flow;
mod flow_model;
mod ids;
mod packet;
mod prefetch;
mod queue;
mod seqs;
mod set;
mod stack;
mod wait;

pub mod rng;
pub mod units;

pub use arena::Slab;
pub use content::Content;
pub use controller::{Controller, ControllerState, NoController, PortView};
pub use endpoint::{Endpoint, HostCx, NicInfo, Outbox, TimerChange, Transport};
pub use fifo::Fifo;
pub use flow::{ByteRange, FlowEvent, FlowRoute, FlowSpec, RetransmitCause};
pub use flow_model::{AGING_UNIT, CriticalOrder, FlowModel, FlowWindow, PathUse, Sharing};
pub use ids::{FlowId, HostId, NodeId, PacketId, PortId, TransportId};
pub use packet::{
    Class, Ecn, ExtArena, ExtBlock, ExtId, HEADER_BYTES, Header, Packet, PacketArena, PacketFlags,
};
pub use prefetch::{prefetch, prefetch_all, prefetch_all_at, prefetch_at, prefetch_lines_at};
pub use queue::{Limit, QueueSpec, RedMarking, TrimModel};
pub use seqs::{BitRing, RangeSet};
pub use set::{FlowStack, TransportInfo, TransportSet};
pub use stack::{Call, End, Stack};
pub use units::{Bytes, Duration, Instant, LineRate, Rate, Tolerance};
pub use wait::{Wait, WaitNames, WaitWords};
