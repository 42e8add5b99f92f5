//! Which processors the two threads of a run spin on, and the memory that they never wait for.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::mman::{MlockAllFlags, mlockall, munlockall};
use nix::unistd::Pid;

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
