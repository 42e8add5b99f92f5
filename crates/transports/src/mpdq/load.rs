//! How a flow's load is split among its subflows, and how it moves between them.

use super::subflow::Subflow;
use crate::pdq::PdqHost;
use core::cmp::Reverse;

/// The share of each of `subflows`: equal, the first ones with one segment more (MPDQ-R03).
pub(super) fn split(segments: u64, subflows: u64) -> impl Iterator<Item = u64> {
    let (each, rest) = (segments / subflows, segments % subflows);
    (0..subflows).map(move |subflow| each + u64::from(subflow < rest))
}

/// How many segments a subflow with `load` gives to one that has `least` and sends, so that the
/// latter stays the more critical of the two (MPDQ-R04). One that has nothing left to send takes
/// half.
pub(super) fn amount(load: u64, least: u64) -> u64 {
    if least == 0 { load.div_ceil(2) } else { load.saturating_sub(least + 1) / 2 }
}

/// The next move of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) segments: u64,
    /// Whether the subflow that gets it does not send, and is to ask for a rate.
    pub(super) wakes: bool,
}

impl Move {
    fn if_any(self) -> Option<Self> {
        Some(self).filter(|next| next.segments > 0)
    }
}

/// What to move now, if anything.
pub(super) fn next_move(subflows: &[Subflow], host: &PdqHost) -> Option<Move> {
    rescue(subflows, host).or_else(|| {
        let givers = || subflows.iter().enumerate().filter(|(_, s)| s.is_waiting(host));
        givers().next()?;
        match least_loaded(subflows, |s| s.sends_on(host)) {
            // MPDQ-R04
            Some((to, taker)) => {
                let gives = |s: &Subflow| amount(s.load(), taker.load());
                let (from, giver) =
                    givers().max_by_key(|(index, s)| (gives(s), Reverse(*index)))?;
                Move { from, to, segments: gives(giver), wakes: false }.if_any()
            }
            // MPDQ-R06
            None => {
                let (to, _) = least_loaded(subflows, Subflow::is_idle)?;
                let (from, giver) =
                    givers().max_by_key(|(index, s)| (s.load(), Reverse(*index)))?;
                Move { from, to, segments: giver.load() / 2, wakes: true }.if_any()
            }
        }
    })
}

/// The next move from a subflow whose path may be dead, which keeps nothing (MPDQ-R05): to those
/// that send in equal parts, else to an idle one, else to any that is heard of.
pub(super) fn rescue(subflows: &[Subflow], host: &PdqHost) -> Option<Move> {
    let is_stranded = |s: &Subflow| s.is_silent && s.load() > 0;
    let from = subflows.iter().position(is_stranded)?;
    let load = subflows[from].load();
    if let Some((to, _)) = least_loaded(subflows, |s| s.sends_on(host)) {
        let takers = subflows.iter().filter(|s| s.sends_on(host)).count() as u64;
        return Some(Move { from, to, segments: load.div_ceil(takers), wakes: false });
    }
    if let Some((to, _)) = least_loaded(subflows, Subflow::is_idle) {
        return Some(Move { from, to, segments: load, wakes: true });
    }
    let (to, _) = least_loaded(subflows, |s| !s.is_silent)?;
    Some(Move { from, to, segments: load, wakes: false })
}

fn least_loaded(
    subflows: &[Subflow],
    is_eligible: impl Fn(&Subflow) -> bool,
) -> Option<(usize, &Subflow)> {
    let eligible = subflows.iter().enumerate().filter(|(_, s)| is_eligible(s));
    eligible.min_by_key(|(_, s)| (s.is_connecting(), s.load()))
}

/// Moves load between two subflows. Returns how many segments it moved.
pub(super) fn carry_out(subflows: &mut [Subflow], next: Move) -> u64 {
    let Ok([from, to]) = subflows.get_disjoint_mut([next.from, next.to]) else { return 0 };
    from.pdq.flow.segments.move_to(&mut to.pdq.flow.segments, next.segments)
}
