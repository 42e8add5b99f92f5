//! A session of its own for runs on a testbed, so that a high priority counts.
//!
//! With autogroups, which most kernels have on, priorities count only within a session. The command
//! starts itself again as a child in a new session, passes Ctrl-C on to it and ends as it ends. The
//! child dies with the command, however that dies, and the kernel removes its namespaces.

use super::{STOP, stop_on_ctrl_c};
use anyhow::Context as _;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid};
use punctual_switch::raise_priority;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Says to the child that it is one, with the process that started it.
const PARENT: &str = "PUNCTUAL_TESTBED_PARENT";

/// Runs this command again in a session of its own and ends as that ends. Returns in the child.
pub(super) fn run_in_own_session() -> anyhow::Result<()> {
    if let Some(parent) = std::env::var(PARENT).ok().and_then(|pid| pid.parse().ok()) {
        set_pdeathsig(Signal::SIGKILL).context("cannot bind to the parent process")?;
        if getppid() != Pid::from_raw(parent) {
            anyhow::bail!("the parent process has ended");
        }
        raise_priority();
        return Ok(());
    }
    stop_on_ctrl_c()?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(PARENT, std::process::id().to_string())
        .spawn()
        .context("cannot start this program again")?;
    let pid = Pid::from_raw(child.id() as i32);
    let mut is_forwarded = false;
    loop {
        if let Some(status) = child.try_wait()? {
            let by_signal = || status.signal().map_or(1, |signal| 128 + signal);
            std::process::exit(status.code().unwrap_or_else(by_signal));
        }
        if STOP.load(Ordering::Relaxed) && !is_forwarded {
            is_forwarded = true;
            let _ = kill(pid, Signal::SIGINT);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
