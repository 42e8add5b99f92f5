//! Where a flow's time went.

use crate::FlowStatus;
use punctual_core::{Duration, FlowId, Instant, PortId, WaitNames, WaitWords};

/// What a stretch of a flow's time went into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// A packet was put on a link.
    Serialisation,
    /// A packet was on a link, or in the works of a switch.
    Propagation,
    /// The flow's own earlier packets were being sent by the port that the next was to leave by,
    /// or were being asked for by the receiver.
    Own,
    /// A packet waited in a queue behind others.
    Queue,
    /// The sender waited for its host's NIC behind others.
    Nic,
    /// The port was told to pause, on a lossless network.
    LinkPaused,
    /// The sender waited for the time that its last packet takes at the rate it may send at.
    Pacing,
    /// The sender had asked for a rate and had none.
    Grant,
    /// A port paused the flow.
    Paused,
    /// The receiver's host had others to pull first.
    Pull,
    /// The receiver's host had others to give tokens first.
    Token,
    /// Something was lost, and nobody noticed until a timer fired.
    Timeout,
    /// A packet was lost: from when it was first sent until it was sent again.
    Retransmission,
    /// A packet was trimmed: from when it was first sent until it was sent again.
    Trimmed,
    /// A timer of a host, for reasons of its own.
    Timer,
    /// Nothing came any more until the run ended.
    Silence,
}

impl What {
    /// All of them, the busy ones first.
    pub const ALL: [What; 16] = [
        What::Serialisation,
        What::Propagation,
        What::Own,
        What::Queue,
        What::Nic,
        What::LinkPaused,
        What::Pacing,
        What::Grant,
        What::Paused,
        What::Pull,
        What::Token,
        What::Timeout,
        What::Retransmission,
        What::Trimmed,
        What::Timer,
        What::Silence,
    ];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            What::Serialisation => "serialisation",
            What::Propagation => "propagation",
            What::Own => "own-packets",
            What::Queue => "queue",
            What::Nic => "nic",
            What::LinkPaused => "link-paused",
            What::Pacing => "pacing",
            What::Grant => "grant",
            What::Paused => "paused",
            What::Pull => "pull",
            What::Token => "token",
            What::Timeout => "timeout",
            What::Retransmission => "retransmission",
            What::Trimmed => "trimmed",
            What::Timer => "timer",
            What::Silence => "silence",
        }
    }

    /// That of this name.
    pub fn by_name(name: &str) -> Option<What> {
        What::ALL.into_iter().find(|what| what.name() == name)
    }

    /// What a transport calls it, where it is a wait that transports have names for.
    pub fn words(self, names: &WaitNames) -> Option<&WaitWords> {
        match self {
            What::Pacing => Some(&names.pacing),
            What::Grant => Some(&names.grant),
            What::Paused => Some(&names.paused),
            What::Pull => Some(&names.pull),
            What::Token => Some(&names.token),
            _ => None,
        }
    }

    /// What it is in a few words, whatever the transport.
    pub fn title(self) -> &'static str {
        const NAMES: &WaitNames = &WaitNames::DEFAULT;
        match self {
            What::Serialisation => "being put on links",
            What::Propagation => "on links and in switches",
            What::Own => "after its own earlier packets",
            What::Queue => "in a queue behind others",
            What::Nic => "at its host's NIC behind others",
            What::LinkPaused => "link paused",
            What::Pacing => NAMES.pacing.title,
            What::Grant => NAMES.grant.title,
            What::Paused => NAMES.paused.title,
            What::Pull => NAMES.pull.title,
            What::Token => NAMES.token.title,
            What::Timeout => "lost to a timeout",
            What::Retransmission => "lost, until sent again",
            What::Trimmed => "trimmed, until sent again",
            What::Timer => "waiting for a host's timer",
            What::Silence => "under way at the end",
        }
    }

    /// Whether a flow alone in the network would spend some time so too.
    pub fn is_needed(self) -> bool {
        matches!(self, What::Serialisation | What::Propagation | What::Own)
    }
}

/// Other flows that a stretch of time was spent behind, the largest share first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// Flows, and their bytes that went first; packets asked for, where receivers take turns; 0
    /// where a port says only who is ahead.
    pub flows: Vec<(FlowId, u64)>,
    /// Further flows that are not named.
    pub others: u32,
}

/// Flows named in one part. Beyond these they are counted only.
const NAMED_MAX: usize = 64;

impl Behind {
    /// Whether nobody was ahead.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty() && self.others == 0
    }

    /// How many flows were ahead.
    pub fn count(&self) -> usize {
        self.flows.len() + self.others as usize
    }

    /// Counts what went first.
    pub fn add(&mut self, flow: FlowId, bytes: u64) {
        match self.flows.iter_mut().find(|(known, _)| *known == flow) {
            Some((_, sum)) => *sum += bytes,
            None => self.flows.push((flow, bytes)),
        }
    }

    /// Puts the largest first, and names so many at most.
    pub fn settle(&mut self) {
        self.flows.sort_by_key(|&(flow, bytes)| (std::cmp::Reverse(bytes), flow));
        self.others += self.flows.len().saturating_sub(NAMED_MAX) as u32;
        self.flows.truncate(NAMED_MAX);
    }

    /// Adds those of another stretch of time.
    pub fn merge(&mut self, other: &Behind) {
        for &(flow, bytes) in &other.flows {
            self.add(flow, bytes);
        }
        self.others = self.others.max(other.others);
        self.settle();
    }
}

/// A stretch of a flow's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it went into.
    pub what: What,
    /// Its start.
    pub from: Instant,
    /// Its end, which is the start of the next.
    pub to: Instant,
    /// The port at which it was spent or which is to blame, where there is one.
    pub port: Option<PortId>,
    /// Who was ahead.
    pub behind: Behind,
}

impl Part {
    /// How long it was.
    pub fn time(&self) -> Duration {
        self.to - self.from
    }
}

/// Where a flow's time went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The flow.
    pub flow: FlowId,
    /// How it stood at the end.
    pub status: FlowStatus,
    /// Its start.
    pub from: Instant,
    /// When it was complete or given up; else the end of the run.
    pub to: Instant,
    /// What its time went into, without gaps from `from` to `to`.
    pub parts: Vec<Part>,
    /// Packets that the chain of causes passed along, both ways.
    pub trips: u32,
    /// Bytes delivered by then, at some of the instants at which there were more.
    pub progress: Vec<(Instant, u64)>,
}
