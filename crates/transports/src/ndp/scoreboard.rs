//! A sender's path scoreboard: paths with more NACKs or losses than the others are avoided for a
//! while.

use punctual_core::prefetch;

/// Feedback on a path before its share of NACKs is significant.
const FEEDBACK_MIN: u64 = 100;
/// The NACKs per 100 ACKs below which a path is good.
const RATIO_MIN: u64 = 30;
/// Rounds that each verdict leaves a path out for, or spares it. With one, as the simulator has it,
/// a path that is tried again after each round left out would be used in every second round, and
/// a link at a tenth of its rate would still slow every flow that can use it.
const VERDICT_ROUNDS: u16 = 16;
/// NACKs that a returned header counts as.
const BOUNCE_NACKS: u16 = 3;
/// Rounds that a path is left out for its first loss.
const LOSS_ROUNDS: u16 = 8;
/// The longest a path is left out at once, in rounds: thousands of packets.
const AVOID_MAX: u16 = 1 << 10;
/// The ACKs or NACKs of a path at which both counts are halved, so that old feedback counts less.
const COUNT_MAX: u16 = 1 << 15;

/// The record of one path. It is small, because a flow may have hundreds of paths.
#[derive(Debug, Clone, Copy, Default)]
struct Score {
    acks: u16,
    nacks: u16,
    /// Rounds to leave it out for.
    avoid: u16,
    /// Losses not made up for by ACKs since.
    losses: u8,
}

/// The records of all paths; empty when no score is kept.
#[derive(Debug)]
pub(super) struct Scoreboard {
    paths: Vec<Score>,
    acks: u64,
    nacks: u64,
    losses: u64,
    /// Paths excluded at present, or on probation after a loss.
    marked: u32,
}

impl Scoreboard {
    pub(super) fn new(paths: usize) -> Self {
        Scoreboard { paths: vec![Score::default(); paths], acks: 0, nacks: 0, losses: 0, marked: 0 }
    }

    /// Whether every path is good.
    #[inline]
    pub(super) fn is_clear(&self) -> bool {
        self.marked == 0
    }

    /// Prefetches the record of a path.
    #[inline]
    pub(super) fn prefetch(&self, path: u16) {
        if let Some(score) = self.paths.get(usize::from(path)) {
            prefetch(score);
        }
    }

    /// A packet sent on `path` arrived.
    #[inline]
    pub(super) fn ack(&mut self, path: u16) {
        let Some(score) = self.paths.get_mut(usize::from(path)) else { return };
        score.acks += 1;
        self.acks += 1;
        if score.acks == COUNT_MAX {
            self.age(path);
            return;
        }
        if score.losses > 0 {
            self.forgive(path);
        } else if score.avoid > 0
            || u64::from(score.nacks) * 100 > RATIO_MIN * u64::from(score.acks)
        {
            self.judge(path);
        }
    }

    /// A path with losses has delivered a packet.
    #[cold]
    fn forgive(&mut self, path: u16) {
        let losses = self.paths[usize::from(path)].losses;
        self.losses -= u64::from(losses.div_ceil(2));
        self.mark(path, |score| (score.losses, score.avoid) = (losses / 2, 0));
    }

    /// A packet sent on `path` was trimmed.
    pub(super) fn nack(&mut self, path: u16) {
        self.blame(path, 1);
    }

    /// A packet sent on `path` was returned to the sender.
    pub(super) fn bounce(&mut self, path: u16) {
        self.blame(path, BOUNCE_NACKS);
    }

    fn blame(&mut self, path: u16, nacks: u16) {
        let Some(score) = self.paths.get_mut(usize::from(path)) else { return };
        score.nacks += nacks;
        self.nacks += u64::from(nacks);
        if score.nacks >= COUNT_MAX {
            self.age(path);
        }
        self.judge(path);
    }

    #[cold]
    fn age(&mut self, path: u16) {
        let score = &mut self.paths[usize::from(path)];
        self.acks -= u64::from(score.acks.div_ceil(2));
        self.nacks -= u64::from(score.nacks.div_ceil(2));
        (score.acks, score.nacks) = (score.acks / 2, score.nacks / 2);
    }

    /// Excludes a path for longer if it has far more NACKs per ACK than the others, otherwise for
    /// less long.
    #[inline(never)]
    fn judge(&mut self, path: u16) {
        let paths = self.paths.len() as u64;
        let score = self.paths[usize::from(path)];
        let (acks, nacks) = (u64::from(score.acks), u64::from(score.nacks));
        let ratio = if acks > 10 { nacks * 100 / acks } else { 0 };
        let (mean_acks, mean_nacks) = (self.acks / paths, self.nacks / paths);
        let mean_ratio = (mean_nacks * 100).checked_div(mean_acks).unwrap_or(100);
        let is_outlier =
            acks + nacks > FEEDBACK_MIN && ratio > RATIO_MIN && ratio * 100 > mean_ratio * 125;
        self.mark(path, |score| {
            score.avoid = if is_outlier {
                score.avoid + VERDICT_ROUNDS
            } else {
                score.avoid.saturating_sub(VERDICT_ROUNDS)
            };
        });
    }

    /// A packet sent on `path` was lost. If other paths have lost fewer, the path is excluded, longer
    /// each time, except for single probing packets, until an ACK arrives on it.
    pub(super) fn loss(&mut self, path: u16) {
        let Some(score) = self.paths.get(usize::from(path)) else { return };
        let losses = score.losses.saturating_add(1);
        self.losses += u64::from(losses - score.losses);
        let is_outlier = self.loses_more(losses);
        self.mark(path, |score| {
            score.losses = losses;
            if is_outlier {
                score.avoid = score.avoid.max(score.rounds());
            }
        });
    }

    /// Whether `losses` is more than 1.25 times the mean over all paths.
    fn loses_more(&self, losses: u8) -> bool {
        u64::from(losses) * self.paths.len() as u64 * 4 > self.losses * 5
    }

    /// Whether to skip this path in its turn, which counts as one round of its exclusion.
    // NDP-R19
    pub(super) fn skips(&mut self, path: u16) -> bool {
        let Some(score) = self.paths.get(usize::from(path)).copied() else { return false };
        match score.avoid {
            // One packet probes the path; no other until its result is known.
            0 if score.losses > 0 && self.loses_more(score.losses) => {
                self.mark(path, |s| s.avoid = s.rounds())
            }
            0 => {}
            rounds => self.mark(path, |s| s.avoid = rounds - 1),
        }
        score.avoid > 0
    }

    /// The path to use when all are excluded.
    pub(super) fn least_avoided(&self) -> Option<u16> {
        let least = self.paths.iter().enumerate().min_by_key(|(_, score)| score.avoid);
        least.map(|(path, _)| path as u16)
    }

    fn mark(&mut self, path: u16, change: impl FnOnce(&mut Score)) {
        let score = &mut self.paths[usize::from(path)];
        self.marked -= u32::from(score.is_marked());
        change(score);
        score.avoid = score.avoid.min(AVOID_MAX);
        self.marked += u32::from(score.is_marked());
    }
}

impl Score {
    fn is_marked(&self) -> bool {
        self.avoid > 0 || self.losses > 0
    }

    /// Rounds of exclusion for its losses.
    fn rounds(&self) -> u16 {
        match self.losses {
            0 => 0,
            losses => LOSS_ROUNDS << (losses - 1).min(10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn avoids(board: &Scoreboard, path: u16) -> bool {
        board.paths[usize::from(path)].avoid > 0
    }

    #[test]
    fn nack_outliers_are_excluded_and_come_back() {
        let mut board = Scoreboard::new(4);
        for _ in 0..200 {
            for path in 0..3 {
                board.ack(path);
            }
            board.ack(3);
            board.nack(3);
        }
        assert!(avoids(&board, 3) && !avoids(&board, 0));
        let mut rounds = 0;
        while board.skips(3) {
            rounds += 1;
        }
        assert!(rounds > 0, "skipped, and each time a step nearer to being tried again");
        assert!(board.is_clear());
    }

    #[test]
    fn all_alike_are_all_kept() {
        let mut board = Scoreboard::new(4);
        for _ in 0..500 {
            for path in 0..4 {
                board.ack(path);
                board.nack(path);
            }
        }
        assert!(board.is_clear(), "an incast is nobody's fault");
    }

    #[test]
    fn few_words_are_no_verdict() {
        let mut board = Scoreboard::new(4);
        for _ in 0..50 {
            (0..4).for_each(|path| board.ack(path));
            board.nack(0);
        }
        assert!(board.is_clear(), "a hundred is not more than a hundred");
        board.nack(0);
        assert!(avoids(&board, 0), "{board:?}");
    }

    #[test]
    fn losses_exclude_for_longer_each_time_until_an_ack() {
        let mut board = Scoreboard::new(8);
        board.loss(2);
        assert_eq!(board.paths[2].avoid, 8);
        while board.skips(2) {}
        assert!(board.skips(2), "one packet was let through, no second");
        board.loss(2);
        assert_eq!(board.paths[2].avoid, 16);
        for _ in 0..40 {
            board.loss(2);
        }
        assert_eq!(board.paths[2].avoid, AVOID_MAX);
        for _ in 0..6 {
            board.ack(2);
        }
        assert_eq!((board.paths[2].losses, board.losses), (0, 0), "forgiven");
        assert!(board.is_clear());
    }

    #[test]
    fn old_counts_fade() {
        let mut board = Scoreboard::new(2);
        for _ in 0..200_000 {
            board.ack(0);
            board.ack(1);
        }
        for _ in 0..40_000 {
            board.nack(1);
        }
        let sums = board
            .paths
            .iter()
            .fold((0, 0), |(a, n), s| (a + u64::from(s.acks), n + u64::from(s.nacks)));
        assert_eq!(sums, (board.acks, board.nacks));
        assert!(avoids(&board, 1), "{board:?}");
    }

    #[test]
    fn acks_shorten_an_exclusion_once_nacks_are_few() {
        let mut board = Scoreboard::new(4);
        for _ in 0..200 {
            (0..4).for_each(|path| board.ack(path));
            board.nack(3);
        }
        assert_eq!(board.paths[3].avoid, AVOID_MAX);
        // 20,000 / 646 is 30, rounded down: from 646 ACKs on, each takes off 16 rounds.
        for _ in 200..645 {
            board.ack(3);
        }
        assert_eq!(board.paths[3].avoid, AVOID_MAX);
        for acks in 1..=64 {
            board.ack(3);
            assert_eq!(board.paths[3].avoid, AVOID_MAX - acks * VERDICT_ROUNDS);
        }
        assert!(board.is_clear());
    }

    #[test]
    fn a_path_with_ten_acks_is_not_judged() {
        let mut board = Scoreboard::new(4);
        for _ in 0..100 {
            (1..4).for_each(|path| board.ack(path));
        }
        (0..10).for_each(|_| board.ack(0));
        (0..95).for_each(|_| board.nack(0));
        assert!(board.is_clear(), "{board:?}");
        board.ack(0);
        assert!(avoids(&board, 0), "{board:?}");
    }

    #[test]
    fn thirty_nacks_in_a_hundred_acks_are_good() {
        let mut board = Scoreboard::new(4);
        for _ in 0..100 {
            (0..4).for_each(|path| board.ack(path));
        }
        (0..30).for_each(|_| board.nack(0));
        assert!(board.is_clear(), "{board:?}");
        board.nack(0);
        assert!(avoids(&board, 0), "{board:?}");
    }

    #[test]
    fn outliers_have_more_than_five_fourths_of_the_mean() {
        let mut board = Scoreboard::new(2);
        board.paths[0] = Score { acks: 100, nacks: 50, ..Score::default() };
        board.paths[1] = Score { acks: 100, nacks: 30, ..Score::default() };
        (board.acks, board.nacks) = (200, 80);
        board.judge(0);
        assert!(board.is_clear(), "50 where the mean is 40");
        (board.paths[0].nacks, board.nacks) = (51, 81);
        board.judge(0);
        assert!(avoids(&board, 0));

        board.losses = 8;
        assert!(!board.loses_more(5), "5 where the mean is 4");
        assert!(board.loses_more(6));
    }

    #[test]
    fn a_loss_on_every_path_leaves_none_on_probation_for_good() {
        let mut board = Scoreboard::new(4);
        (0..4).for_each(|path| board.loss(path));
        assert!(avoids(&board, 0), "it was the first");
        for _ in 0..LOSS_ROUNDS {
            assert!(board.skips(0));
        }
        assert!(!board.skips(0) && !board.skips(0), "now all have lost one: {board:?}");
    }

    #[test]
    fn the_path_that_is_free_soonest_is_the_least_avoided() {
        for (rounds, soonest) in [([5, 3, 9], 1), ([5, 9, 3], 2), ([3, 5, 9], 0)] {
            let mut board = Scoreboard::new(3);
            (0..3).for_each(|path| board.paths[path].avoid = rounds[path]);
            assert_eq!(board.least_avoided(), Some(soonest));
        }
        assert_eq!(Scoreboard::new(0).least_avoided(), None);
    }

    #[test]
    fn a_bounce_counts_as_three_nacks() {
        let mut board = Scoreboard::new(2);
        for _ in 0..50 {
            (0..2).for_each(|path| board.ack(path));
        }
        (0..16).for_each(|_| board.bounce(0));
        assert!(board.is_clear(), "98 answers are too few");
        board.bounce(0);
        assert_eq!((board.paths[0].nacks, board.nacks), (51, 51));
        assert!(avoids(&board, 0), "{board:?}");
    }

    #[test]
    fn forgiven_losses_leave_those_of_other_paths() {
        let mut board = Scoreboard::new(8);
        (0..3).for_each(|_| board.loss(2));
        board.loss(5);
        assert_eq!(board.losses, 4);
        board.ack(2);
        assert_eq!((board.paths[2].losses, board.losses), (1, 2), "half of three, rounded down");
        board.ack(2);
        assert_eq!((board.paths[2].losses, board.losses), (0, 1));
        assert!(!board.is_clear(), "the other path is on probation");
    }

    #[test]
    fn losses_everywhere_exclude_nobody_for_good() {
        let mut board = Scoreboard::new(4);
        for _ in 0..20 {
            for path in 0..4 {
                board.loss(path);
            }
        }
        let longest = board.paths.iter().map(|s| s.avoid).max();
        assert_eq!(longest, Some(32), "only while ahead of the others: in the first three rounds");
        assert!(board.least_avoided().is_some());
    }
}
