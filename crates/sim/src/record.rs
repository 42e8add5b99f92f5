//! What a run leaves behind.

use punctual_core::{Bytes, FlowSpec, Instant};

/// How a flow stands at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowStatus {
    /// Its receiver has every byte.
    Completed,
    /// Its sender gave it up.
    Abandoned,
    /// The run ended first.
    Unfinished,
}

/// One flow's fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// What was asked.
    pub spec: FlowSpec,
    /// How it ended.
    pub status: FlowStatus,
    /// When the last byte arrived or the flow was given up.
    pub ended: Option<Instant>,
    /// Bytes its receiver got, each counted once.
    pub delivered: Bytes,
    /// Packets of data sent again.
    pub retransmits: u32,
    /// Retransmission timers fired.
    pub timeouts: u32,
    /// Trimmed headers its receiver saw.
    pub trims: u32,
    /// Headers returned to its sender.
    pub bounces: u32,
}

impl FlowRecord {
    /// Whether a deadline flow was on time; none for a flow without deadline.
    pub fn met_deadline(&self) -> Option<bool> {
        let deadline = self.spec.deadline?;
        let on_time = self.ended.is_some_and(|at| at <= deadline);
        Some(self.status == FlowStatus::Completed && on_time)
    }
}
