//! Which processors the two threads of a run spin on, and the memory that they never wait for.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::mman::{MlockAllFlags, mlockall, munlockall};
use nix::unistd::Pid;
use punctual_core::{Duration, Instant};
use punctual_switch::set_realtime;

/// How long a thread of a run may keep all others from its processor, in time of the machine. The
/// kernel ends it by force after 950 ms of a second.
const REALTIME: Duration = Duration::from_millis(800);

/// The processors of hosts and switch: two that this process may use, the last ones; none if it has
/// fewer than two.
pub(crate) fn choose() -> Option<[usize; 2]> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let mut own = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu) == Ok(true));
    let last = own.next_back()?;
    Some([own.next_back()?, last])
}

/// Pins this thread to a processor. Returns whether that worked.
pub(crate) fn pin(cpu: usize) -> bool {
    let mut set = CpuSet::new();
    set.set(cpu).is_ok() && sched_setaffinity(Pid::from_raw(0), &set).is_ok()
}

/// A thread that runs before all others of its processor, for the first 800 ms of a run: most runs
/// are shorter. Without the capability for that it has a high priority alone.
#[derive(Debug)]
pub(crate) struct Realtime {
    is_on: bool,
    until: Instant,
}

impl Realtime {
    /// Begins at `now`, on a clock that is `scale` times slower than the machine's.
    pub(crate) fn begin(now: Instant, scale: u32) -> Realtime {
        Realtime { is_on: set_realtime(true), until: now + REALTIME / u64::from(scale.max(1)) }
    }

    /// Ends when it has lasted long enough.
    #[inline]
    pub(crate) fn turn(&mut self, now: Instant) {
        if self.is_on && now > self.until {
            self.end();
        }
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.is_on) {
            set_realtime(false);
        }
    }
}

impl Drop for Realtime {
    fn drop(&mut self) {
        self.end();
    }
}

/// Keeps all memory of this process in place while it exists, so that no thread waits for a page.
#[derive(Debug)]
pub(crate) struct LockedMemory;

impl LockedMemory {
    /// Locks the memory, where that is allowed.
    pub(crate) fn take() -> Option<LockedMemory> {
        let all = MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE;
        mlockall(all).ok().map(|()| LockedMemory)
    }
}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        let _ = munlockall();
    }
}
