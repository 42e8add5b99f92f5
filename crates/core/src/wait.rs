//! What an end of a flow waits for, told to observers.

use crate::PortId;

/// What an end of a flow waits for while it does nothing until a timer fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Wait {
    /// Nothing that has a name: a timer of its own.
    #[default]
    Timer,
    /// The time that its last packet takes at the rate it may send at. Which port of its path
    /// allows the least, counted from the host's own, if it knows.
    Pacing(Option<u8>),
    /// A rate: it has asked and may not send yet. Which port of its path allows nothing, if it
    /// knows.
    Grant(Option<u8>),
    /// A rate, while this port pauses it.
    Paused(PortId),
    /// Its turn among the pulls that its receiver's host sends.
    Pull,
    /// Its turn among the tokens that its receiver's host sends.
    Token,
}
