//! Delay breakdowns: where a flow's time went.

use crate::FlowStatus;
use punctual_core::{Duration, FlowId, Instant, PortId, WaitNames, WaitWords};

/// What a flow spent an interval of its time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// Serialisation: a packet was put on a link.
    Serialisation,
    /// Propagation: a packet was on a link or was processed by a switch.
    Propagation,
    /// A packet waited behind earlier packets of its own flow, or for their pulls or tokens.
    Own,
    /// A packet waited in a queue behind packets of other flows.
    Queue,
    /// The sender waited for its host's NIC behind other flows.
    Nic,
    /// The port was paused by a lossless switch.
    LinkPaused,
    /// Pacing: the sender waited for the time that its last packet takes at its sending rate.
    Pacing,
    /// The sender had requested a rate and had none yet.
    Grant,
    /// A port paused the flow.
    Paused,
    /// The receiver's host sent pulls for other flows first.
    Pull,
    /// The receiver's host sent tokens to other flows first.
    Token,
    /// A packet was lost, and neither end noticed until a timer fired.
    Timeout,
    /// A packet was lost: from its first transmission to its retransmission.
    Retransmission,
    /// A packet was trimmed: from its first transmission to its retransmission.
    Trimmed,
    /// An end waited for a timer, for a reason of its own.
    Timer,
    /// Nothing happened to the flow until the run ended.
    Silence,
}

impl What {
    /// All kinds, those that a lone flow also has first.
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

    /// The kind with this name.
    pub fn by_name(name: &str) -> Option<What> {
        What::ALL.into_iter().find(|what| what.name() == name)
    }

    /// The transport's words for it, where it is a wait that transports name.
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

    /// What it is in a few words; waits that transports name use their words.
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

    /// Whether a flow alone in the network also spends time on it.
    pub fn is_needed(self) -> bool {
        matches!(self, What::Serialisation | What::Propagation | What::Own)
    }
}

/// Other flows that a flow waited behind, those with the most bytes first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// Flows and their bytes that went first.
    ///
    /// Pulls and tokens count as 1 each. The count is 0 where a port only names the flows ahead.
    pub flows: Vec<(FlowId, u64)>,
    /// The number of further flows.
    pub others: u32,
}

/// The maximum number of flows named in one part. Further flows are only counted.
const NAMED_MAX: usize = 64;

impl Behind {
    /// Whether no flow was ahead.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty() && self.others == 0
    }

    /// The number of flows ahead.
    pub fn count(&self) -> usize {
        self.flows.len() + self.others as usize
    }

    /// Adds bytes of a flow that went first.
    pub fn add(&mut self, flow: FlowId, bytes: u64) {
        match self.flows.iter_mut().find(|(known, _)| *known == flow) {
            Some((_, sum)) => *sum += bytes,
            None => self.flows.push((flow, bytes)),
        }
    }

    /// Sorts by bytes, the most first, and keeps at most `NAMED_MAX` flows.
    pub fn settle(&mut self) {
        self.flows.sort_by_key(|&(flow, bytes)| (std::cmp::Reverse(bytes), flow));
        self.others += self.flows.len().saturating_sub(NAMED_MAX) as u32;
        self.flows.truncate(NAMED_MAX);
    }

    /// Adds the flows of another interval.
    pub fn merge(&mut self, other: &Behind) {
        for &(flow, bytes) in &other.flows {
            self.add(flow, bytes);
        }
        self.others = self.others.max(other.others);
        self.settle();
    }
}

/// An interval of a flow's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What the flow spent it on.
    pub what: What,
    /// Its start.
    pub from: Instant,
    /// Its end, which is the start of the next.
    pub to: Instant,
    /// The port at which it was spent or which caused it, if any.
    pub port: Option<PortId>,
    /// The flows that were ahead.
    pub behind: Behind,
}

impl Part {
    /// How long it was.
    pub fn time(&self) -> Duration {
        self.to - self.from
    }
}

/// The delay breakdown of a flow: where its time went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The flow.
    pub flow: FlowId,
    /// Its status at the end.
    pub status: FlowStatus,
    /// Its start.
    pub from: Instant,
    /// When it completed or was abandoned; else the end of the run.
    pub to: Instant,
    /// Its parts in order, without gaps, from `from` to `to`.
    pub parts: Vec<Part>,
    /// The number of packets on the chain of causes, in both directions.
    pub trips: u32,
    /// Bytes delivered so far, at some of the instants at which bytes were delivered.
    pub progress: Vec<(Instant, u64)>,
}
