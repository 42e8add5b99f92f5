//! Progress on stderr: a bar on a terminal, a line every few seconds elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use punctual_core::{Duration, Instant};
use punctual_lab::{PlannedRun, RunReport, Watch};
use punctual_results::Metric;
use punctual_sim::{Progress, Simulate};
use std::io::{IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration as WallTime, Instant as WallInstant};

/// Shows the progress of all runs of a plan.
pub(crate) struct Board {
    runs: Vec<RunState>,
    begun: WallInstant,
    display: Display,
    /// When the last plain line was written.
    last: Mutex<WallInstant>,
    finished: AtomicU64,
    reused: AtomicU64,
    latest: Mutex<String>,
    stopped: AtomicBool,
}

/// Progress of one run, updated by its thread.
struct RunState {
    picos: AtomicU64,
    picos_max: u64,
    events: AtomicU64,
}

enum Display {
    Bar(ProgressBar),
    Lines,
    Nothing,
}

/// Interval between two plain lines.
const LINE_EVERY: WallTime = WallTime::from_secs(3);

impl Board {
    /// A board for these runs.
    pub(crate) fn new<S: Simulate>(runs: &[PlannedRun<S>], quiet: bool) -> Board {
        let display = if quiet {
            Display::Nothing
        } else if std::io::stderr().is_terminal() {
            // The length is above the maximum position, so the bar never looks complete.
            let bar = ProgressBar::with_draw_target(Some(1001), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{bar:24} {msg}").expect("a valid template");
            bar.set_style(style);
            Display::Bar(bar)
        } else {
            Display::Lines
        };
        let state = |run: &PlannedRun<S>| RunState {
            picos: AtomicU64::new(0),
            picos_max: run.scenario.run.duration.as_picos(),
            events: AtomicU64::new(0),
        };
        Board {
            runs: runs.iter().map(state).collect(),
            begun: WallInstant::now(),
            display,
            last: Mutex::new(WallInstant::now()),
            finished: AtomicU64::new(0),
            reused: AtomicU64::new(0),
            latest: Mutex::new(String::new()),
            stopped: AtomicBool::new(false),
        }
    }

    /// Removes the bar.
    pub(crate) fn close(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }

    /// The share of the work that is done, if every run lasts for its maximum duration.
    fn share(&self) -> f64 {
        let total: f64 = self.runs.iter().map(|r| r.picos_max as f64).sum();
        let done: f64 = self.runs.iter().map(|r| r.picos.load(Ordering::Relaxed) as f64).sum();
        if total > 0.0 { done / total } else { 1.0 }
    }

    fn message(&self) -> String {
        let elapsed = self.begun.elapsed().as_secs_f64();
        let events: u64 = self.runs.iter().map(|r| r.events.load(Ordering::Relaxed)).sum();
        let share = self.share();
        let eta = match share {
            s if s > 0.0 && elapsed > 0.5 => span(elapsed * (1.0 - s) / s),
            _ => "?".into(),
        };
        format!(
            "{}/{} runs, {}, {:.1} M events/s, {eta} to go",
            self.finished.load(Ordering::Relaxed),
            self.runs.len(),
            self.latest.lock().expect("no thread panicked"),
            events as f64 / elapsed.max(1e-9) / 1e6,
        )
    }

    fn show(&self) {
        if self.stopped.load(Ordering::Relaxed) {
            return;
        }
        match &self.display {
            Display::Nothing => {}
            Display::Bar(bar) => {
                bar.set_message(self.message());
                bar.set_position((self.share() * 1000.0) as u64);
            }
            Display::Lines => {
                let mut last = self.last.lock().expect("no thread panicked");
                if last.elapsed() >= LINE_EVERY {
                    *last = WallInstant::now();
                    let _ = writeln!(std::io::stderr(), "{}", self.message());
                }
            }
        }
    }
}

impl<S: Simulate> Watch<S> for Board {
    fn progress(&self, run: &PlannedRun<S>, progress: Progress) {
        let state = &self.runs[run.index];
        state.picos.store(progress.now.as_picos().min(state.picos_max), Ordering::Relaxed);
        state.events.store(progress.events, Ordering::Relaxed);
        if !matches!(self.display, Display::Nothing) {
            let latest = format!("{} at {}", run.title(), rounded(progress.now));
            *self.latest.lock().expect("no thread panicked") = latest;
            self.show();
        }
    }

    fn finished(&self, run: &PlannedRun<S>, report: &RunReport) {
        let state = &self.runs[run.index];
        state.picos.store(state.picos_max, Ordering::Relaxed);
        self.finished.fetch_add(1, Ordering::Relaxed);
        if report.reused {
            self.reused.fetch_add(1, Ordering::Relaxed);
        } else {
            state.events.store(report.summary.number(Metric::Events) as u64, Ordering::Relaxed);
        }
        self.show();
    }
}

/// A spinner for work of unknown length; hidden if `quiet`.
pub(crate) fn spinner(quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    spinner.enable_steady_tick(WallTime::from_millis(200));
    spinner
}

/// Simulated time rounded down to a microsecond.
fn rounded(now: Instant) -> Duration {
    let micros = now.since_start().as_picos() / 1_000_000;
    Duration::from_micros(micros)
}

/// A number of seconds in s, min or h.
fn span(seconds: f64) -> String {
    match seconds.round() as u64 {
        s @ 0..=99 => format!("{s} s"),
        s @ 100..=5999 => format!("{} min", s.div_ceil(60)),
        s => format!("{} h", s.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        assert_eq!(span(3.4), "3 s");
        assert_eq!(span(150.0), "3 min");
        assert_eq!(span(7200.0), "2 h");
    }
}
