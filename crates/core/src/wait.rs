//! What an end of a flow waits for, for observers.

use crate::PortId;

/// What an end of a flow waits for while it does nothing until a timer fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Wait {
    /// A timer of its own, for no reason listed here.
    #[default]
    Timer,
    /// Pacing: the time that its last packet takes at its sending rate.
    ///
    /// The number is the hop that limits the rate, if known; 0 is the host's own port.
    Pacing(Option<u8>),
    /// A rate that it has requested: it may not send yet.
    ///
    /// The number is the hop that grants nothing, if known; 0 is the host's own port.
    Grant(Option<u8>),
    /// A rate, while this port pauses the flow.
    Paused(PortId),
    /// Its turn in the pull queue of its receiver's host.
    Pull,
    /// Its turn to get a token from its receiver's host.
    Token,
}

/// What a transport calls one kind of wait, in explanations.
///
/// In sentences `{time}` stands for the duration, `{port}` for the port that caused the wait, and
/// `{behind}` for " behind 3 flows" or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitWords {
    /// A row of a table: "held to its rate".
    pub title: &'static str,
    /// A sentence without a port: "held to its rate for {time}".
    pub sentence: &'static str,
    /// A sentence with the port: "{time} without a rate from {port}".
    pub sentence_at_port: &'static str,
    /// What goes first, in the singular: "flow".
    pub ahead: &'static str,
}

impl WaitWords {
    /// Words for a wait whose sentence names no port.
    pub const fn new(title: &'static str, sentence: &'static str) -> Self {
        WaitWords { title, sentence, sentence_at_port: sentence, ahead: "flow" }
    }

    /// These words, with another sentence where the port that caused the wait is known.
    pub const fn at_port(self, sentence_at_port: &'static str) -> Self {
        WaitWords { sentence_at_port, ..self }
    }

    /// These words, with another name for what goes first.
    pub const fn ahead(self, ahead: &'static str) -> Self {
        WaitWords { ahead, ..self }
    }
}

/// What a transport calls its waits, see [`Wait`]. [`WaitNames::DEFAULT`] fits most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitNames {
    /// For [`Wait::Pacing`].
    pub pacing: WaitWords,
    /// For [`Wait::Grant`].
    pub grant: WaitWords,
    /// For [`Wait::Paused`].
    pub paused: WaitWords,
    /// For [`Wait::Pull`].
    pub pull: WaitWords,
    /// For [`Wait::Token`].
    pub token: WaitWords,
}

impl WaitNames {
    /// Words that fit any transport.
    pub const DEFAULT: WaitNames = WaitNames {
        pacing: WaitWords::new("held to its rate", "held to its rate for {time}")
            .at_port("held for {time} to the rate of {port}"),
        grant: WaitWords::new("asking for a rate", "{time} asking for a rate")
            .at_port("{time} asking {port} for a rate"),
        paused: WaitWords::new("paused by a port", "paused {time}{behind}")
            .at_port("paused {time}{behind} at {port}"),
        pull: WaitWords::new("waiting for its receiver", "{time} waiting for its receiver{behind}"),
        token: WaitWords::new(
            "waiting for its receiver",
            "{time} waiting for its receiver{behind}",
        ),
    };
}
