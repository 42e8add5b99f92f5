//! TCPpr: NewReno with strict priority classes, chosen by a flow's deadline.

use super::congestion::{Feedback, NewReno, Reaction, WindowLaw};
use punctual_core::{Class, Duration, FlowSpec};

/// Parameters of [`TcpprLaw`]: the boundaries between classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpprParams {
    /// Classes in all.
    pub levels: u8,
    /// Longest deadline of each class, from the highest class on; only those in use are set.
    pub cuts: [Option<Duration>; 2],
}

impl TcpprParams {
    /// The class of a flow's packets: [`Class::DATA`] and those below it. TCPPR-R01 to R03.
    pub fn class(&self, flow: &FlowSpec) -> Class {
        let lowest = Class::DATA.0 + self.levels - 1;
        let deadline = match flow.deadline {
            Some(deadline) if !flow.background => deadline,
            _ => return Class(lowest),
        };
        let time = deadline.saturating_since(flow.start);
        let below = self.cuts.iter().flatten().filter(|cut| time > **cut).count();
        Class((Class::DATA.0 + below as u8).min(lowest))
    }
}

/// TCP NewReno with a class by deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpprLaw;

impl WindowLaw for TcpprLaw {
    type Config = TcpprParams;
    const ECN_CAPABLE: bool = NewReno::ECN_CAPABLE;

    fn new(_: &TcpprParams, _: &FlowSpec) -> Self {
        TcpprLaw
    }

    fn class(params: &TcpprParams, flow: &FlowSpec) -> Class {
        params.class(flow)
    }

    #[inline]
    fn handle_ack(&mut self, ack: &Feedback, _: &TcpprParams) -> Reaction {
        NewReno.handle_ack(ack, &())
    }
}
