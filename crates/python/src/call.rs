//! Calls from Python: work on a thread of its own, progress, Ctrl-C, errors.

use crate::{IncompleteError, PunctualError, ScenarioError};
use punctual_lab::{LoadError, PlannedRun, RunReport, TaskError, Watch};
use punctual_sim::Progress;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often Python's signals are looked at, and progress is reported.
const TICK: Duration = Duration::from_millis(50);

/// The state of some work that Python waits for.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// Set to end it early.
    pub(crate) stop: AtomicBool,
    done: AtomicUsize,
    total: AtomicUsize,
}

impl Work {
    /// Adds runs to those that are expected.
    pub(crate) fn expect(&self, runs: usize) {
        self.total.fetch_add(runs, Ordering::Relaxed);
    }
}

impl Watch for Work {
    fn progress(&self, _run: &PlannedRun, _progress: Progress) {}

    fn finished(&self, _run: &PlannedRun, _report: &RunReport) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Does some work with the GIL released. Calls `progress(done, total)` when runs have finished, and
/// stops the work when Python is interrupted or `progress` raises.
pub(crate) fn call<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    job: impl FnOnce(&Work) -> anyhow::Result<T> + Send,
) -> PyResult<T> {
    let work = Work::default();
    let (sender, receiver) = channel();
    let receiver = Mutex::new(receiver);
    let mut raised: Option<PyErr> = None;
    let mut told = (0, 0);
    let result = std::thread::scope(|scope| {
        let work = &work;
        scope.spawn(move || {
            // If this panics, the closed channel reports it to Python.
            let _ = sender.send(job(work));
        });
        loop {
            let result =
                py.detach(|| receiver.lock().expect("no one else has it").recv_timeout(TICK));
            let now = (work.done.load(Ordering::Relaxed), work.total.load(Ordering::Relaxed));
            if raised.is_none() && now != told {
                told = now;
                let call = progress.map(|progress| progress.call1(now));
                raised = call.and_then(Result::err);
            }
            if raised.is_none() {
                raised = py.check_signals().err();
            }
            if raised.is_some() {
                work.stop.store(true, Ordering::Relaxed);
            }
            match result {
                Ok(result) => return Some(result),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    });
    match (raised, result) {
        (Some(raised), _) => Err(raised),
        (None, Some(Ok(value))) => Ok(value),
        (None, Some(Err(error))) => Err(exception(&error)),
        (None, None) => Err(PunctualError::new_err("punctual failed; please report this")),
    }
}

/// The exception of an error. Its message is that of the command.
pub(crate) fn exception(error: &anyhow::Error) -> PyErr {
    let is_incomplete = |e: &(dyn std::error::Error + 'static)| {
        matches!(e.downcast_ref(), Some(TaskError::Parts(_)))
    };
    let is_scenario = |e: &(dyn std::error::Error + 'static)| {
        e.is::<punctual_lab::ScenarioError>()
            || matches!(e.downcast_ref(), Some(LoadError::Scenario(_)))
            || matches!(e.downcast_ref(), Some(TaskError::Scenario(_)))
            || matches!(e.downcast_ref(), Some(punctual_lab::ExecuteError::Scenario(_)))
    };
    let is_interrupt = |e: &(dyn std::error::Error + 'static)| {
        use punctual_lab::ExecuteError::Interrupted;
        matches!(e.downcast_ref(), Some(Interrupted { .. }))
            || matches!(e.downcast_ref(), Some(TaskError::Execute(Interrupted { .. })))
    };
    let message = punctual_cli::message(error);
    if error.chain().any(is_interrupt) {
        PyKeyboardInterrupt::new_err(message)
    } else if error.chain().any(is_incomplete) {
        IncompleteError::new_err(message)
    } else if error.chain().any(is_scenario) {
        ScenarioError::new_err(message)
    } else {
        PunctualError::new_err(message)
    }
}
