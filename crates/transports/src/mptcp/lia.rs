//! LIA, the coupled law of RFC 6356, in integers.

use crate::tcp::Fraction;
use punctual_core::Duration;

/// LIA's growth factor from the windows and RTTs of all subflows.
///
/// For each ACK on subflow r RFC 6356 adds `min(a · bytes · mss / Σw, bytes · mss / w_r)` with
/// `a = Σw · max(w/rtt²) / (Σ w/rtt)²`. Σw cancels, which leaves TCP's own growth,
/// `bytes · mss / w_r`, times `min(1, w_r · max(w/rtt²) / (Σ w/rtt)²)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lia {
    /// max(w/rtt²), in bytes per ns², times 2⁶⁴.
    best: u128,
    /// (Σ w/rtt)², in bytes² per ns², times 2⁶⁴.
    sum_squared: u128,
}

impl Lia {
    /// From the window in bytes and the smoothed RTT of each subflow in use.
    pub fn new(subflows: impl Iterator<Item = (u64, Duration)>) -> Self {
        let (mut best, mut sum) = (0u128, 0u128);
        for (cwnd_bytes, rtt) in subflows {
            let nanos = u128::from(rtt.as_picos() / 1000).max(1);
            // 2³⁶ bytes at most, so that nothing overflows.
            let window = u128::from(cwnd_bytes.min(1 << 36));
            best = best.max((window << 64) / nanos.saturating_mul(nanos));
            sum = sum.saturating_add((window << 32) / nanos);
        }
        Lia { best, sum_squared: sum.saturating_mul(sum) }
    }

    /// The share of TCP's growth for a subflow with that window. MPTCP-R06.
    pub fn share(&self, cwnd_bytes: u64) -> Fraction {
        let ratio = self.best.saturating_mul(u128::from(cwnd_bytes));
        // As much of the binary point as fits above, the rest below.
        let above = ratio.leading_zeros().min(Fraction::BITS);
        let below = self.sum_squared >> (Fraction::BITS - above);
        match (ratio << above).checked_div(below) {
            None => Fraction::ONE,
            Some(bits) => Fraction::from_bits(bits.min(u128::from(u32::MAX)) as u32),
        }
    }
}
