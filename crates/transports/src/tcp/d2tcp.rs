//! D2TCP's window law: `W ← W · (1 − p/2)` with the penalty `p = α^d`, where d grows as the deadline
//! approaches.

use super::congestion::{DctcpLaw, DctcpParams, Feedback, Fraction, Reaction, WindowLaw};
use super::penalty::{Imminence, power};
use punctual_core::{FlowSpec, Instant};

/// Parameters of [`D2tcpLaw`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D2tcpParams {
    /// Parameters of DCTCP's law.
    pub dctcp: DctcpParams,
    /// The least d.
    pub least: Imminence,
    /// The greatest d.
    pub most: Imminence,
    /// d after the deadline.
    pub after_miss: Imminence,
}

/// D2TCP: DCTCP with the penalty p = α^d in place of α.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D2tcpLaw {
    dctcp: DctcpLaw,
    deadline: Option<Instant>,
    imminence: Imminence,
}

impl D2tcpLaw {
    /// α, the mean fraction of marked bytes.
    pub fn alpha(&self) -> Fraction {
        self.dctcp.alpha()
    }

    /// d at the last cut; 1 before the first.
    pub fn imminence(&self) -> Imminence {
        self.imminence
    }
}

/// `d = Tc / D` with `Tc = B / (¾ W)` RTTs, B the remaining bytes, W the window and D the time to
/// the deadline. D2TCP-R03 to R06.
///
/// d is rounded down and clamped to the bounds in the parameters. Without deadline or RTT it is 1.
pub fn imminence(deadline: Option<Instant>, ack: &Feedback, params: &D2tcpParams) -> Imminence {
    let (Some(deadline), Some(rtt)) = (deadline, ack.smoothed_rtt) else {
        return Imminence::ONE;
    };
    if ack.now >= deadline {
        return params.after_miss;
    }
    // Bounds against overflow, far beyond realistic values: 72 PB, 75 minutes.
    let bytes = u128::from(ack.remaining_bytes.min(1 << 56));
    let window = u128::from(ack.cwnd_bytes.min(1 << 56));
    let rtt = u128::from(rtt.as_picos().min(1 << 52));
    let left = u128::from(deadline.saturating_since(ack.now).as_picos());
    Imminence::of(4 * bytes * rtt, 3 * window * left, params.least, params.most)
}

impl WindowLaw for D2tcpLaw {
    type Config = D2tcpParams;
    const ECN_CAPABLE: bool = true;

    fn new(params: &D2tcpParams, flow: &FlowSpec) -> Self {
        D2tcpLaw {
            dctcp: DctcpLaw::new(&params.dctcp, flow),
            deadline: flow.deadline,
            imminence: Imminence::ONE,
        }
    }

    fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    #[inline]
    fn handle_ack(&mut self, ack: &Feedback, params: &D2tcpParams) -> Reaction {
        let (deadline, d) = (self.deadline, &mut self.imminence);
        self.dctcp.react(ack, &params.dctcp, |alpha| {
            *d = imminence(deadline, ack, params);
            power(alpha, *d)
        })
    }

    fn gauges(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("alpha", self.alpha().as_f64());
        tell("d", self.imminence.as_f64());
        tell("penalty", power(self.alpha(), self.imminence).as_f64());
    }

    fn handle_loss(&mut self, next: u64) {
        self.dctcp.handle_loss(next);
    }
}
