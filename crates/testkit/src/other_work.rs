//! How much of the processors other processes use while a test measures times.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::PathBuf;

/// The share of the processors that other processes may use while times are checked.
pub const MOST_OTHER_WORK: f64 = 0.05;

/// Watches how much of the processors other processes use, from [`OtherWork::watch`] on.
///
/// A bound on times says nothing about our code on a machine that does other work meanwhile. So a
/// test of times watches while it measures, and asserts its bounds by [`OtherWork::check`]:
///
/// | bound | other processes used | outcome |
/// |---|---|---|
/// | holds | any share | passed |
/// | does not hold | at most 5 % of the processors | failed |
/// | does not hold | more | `SKIPPED`, with the share |
///
/// Work of others is the processor time of all processes in `/proc` but this one, its descendants
/// and the programs of its build directory, such as a switch in the background; and the time that a
/// hypervisor gave to other machines. Threads of the kernel do not count: their work is for the test,
/// too. Processes of other containers are not in `/proc` and are not seen.
#[derive(Debug)]
pub struct OtherWork {
    since: Snapshot,
}

impl OtherWork {
    /// Begins to watch.
    pub fn watch() -> OtherWork {
        OtherWork { since: Snapshot::take() }
    }

    /// The share of all processors that other processes have used since [`OtherWork::watch`].
    pub fn share(&self) -> f64 {
        self.since.share_until(&Snapshot::take())
    }

    /// How much other processes have used, if it is too much for a check of times.
    pub fn too_much(&self) -> Option<String> {
        let share = self.share();
        (share > MOST_OTHER_WORK).then(|| {
            format!(
                "other processes used {:.1} % of the processors, more than {:.0} %",
                100.0 * share,
                100.0 * MOST_OTHER_WORK
            )
        })
    }

    /// Checks a bound on times that were measured since [`OtherWork::watch`]. Returns whether it
    /// holds.
    ///
    /// # Panics
    ///
    /// With `failure` if the bound does not hold, unless other processes used too much of the
    /// processors: then prints SKIPPED and their share.
    #[track_caller]
    pub fn check(&self, holds: bool, failure: impl Display) -> bool {
        if !holds {
            match self.too_much() {
                Some(why) => println!("SKIPPED: {why}; not checked: {failure}"),
                None => panic!("{failure} (other processes used little of the processors)"),
            }
        }
        holds
    }
}

/// Processor time in ticks of the kernel, 10 ms each.
type Ticks = u64;

/// What one process has used, at one time.
#[derive(Debug, Clone, Copy)]
struct Used {
    parent: u32,
    /// Its own time, in all threads.
    own: Ticks,
    /// That of its children that have ended and were waited for.
    children: Ticks,
}

/// All processes at one time.
#[derive(Debug, Default)]
struct Snapshot {
    processes: BTreeMap<u32, Used>,
    /// Processes that belong to the test, but for its descendants.
    of_the_test: BTreeSet<u32>,
    /// The test's own process.
    test: u32,
    /// Time of all processors, and the part of it that a hypervisor gave to other machines.
    all: Ticks,
    stolen: Ticks,
}

/// The directory of the build to which this test belongs: `target/debug` of `target/debug/deps/test`.
fn build_directory() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let dir = own.parent()?;
    Some(if dir.ends_with("deps") { dir.parent()?.to_owned() } else { dir.to_owned() })
}

/// The threads of the kernel are children of this process.
const KTHREADD: u32 = 2;

/// Reads a line of `/proc/PID/stat`: 7 (name) S 1 … The name can contain anything.
fn parse(stat: &str) -> Option<Used> {
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().collect();
    // State, parent, …, and from the twelfth on: user, system, and both of children.
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Used {
        parent: fields.get(1)?.parse().ok()?,
        own: number(11)? + number(12)?,
        children: number(13)? + number(14)?,
    })
}

impl Snapshot {
    fn take() -> Snapshot {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        // User, nice, system, idle, waiting, interrupts, soft interrupts, stolen.
        let times: Vec<Ticks> =
            line.split_whitespace().skip(1).take(8).filter_map(|n| n.parse().ok()).collect();
        let mut snapshot = Snapshot {
            test: std::process::id(),
            all: times.iter().sum(),
            stolen: times.get(7).copied().unwrap_or(0),
            ..Snapshot::default()
        };
        let build = build_directory();
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
            // A process that has ended meanwhile has no entry any more.
            let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
            let Some(used) = parse(&String::from_utf8_lossy(&stat)) else { continue };
            if pid == KTHREADD || used.parent == KTHREADD {
                continue;
            }
            let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
            if program.zip(build.as_ref()).is_some_and(|(program, dir)| program.starts_with(dir)) {
                snapshot.of_the_test.insert(pid);
            }
            snapshot.processes.insert(pid, used);
        }
        snapshot
    }

    /// A process and its parents.
    fn line(&self, pid: u32) -> Vec<u32> {
        let mut line = vec![pid];
        while let Some(used) = line.last().and_then(|pid| self.processes.get(pid))
            && !line.contains(&used.parent)
        {
            line.push(used.parent);
        }
        line
    }

    /// Whether a process belongs to the test: it is the test, a program of its build, or started by
    /// one of them.
    fn is_of_the_test(&self, pid: u32) -> bool {
        self.line(pid).iter().any(|pid| *pid == self.test || self.of_the_test.contains(pid))
    }

    /// The share of all processors that processes of others used between two snapshots.
    fn share_until(&self, later: &Snapshot) -> f64 {
        // These may wait for processes of the test that run in the background.
        let waiting = later.line(later.test);
        let counts_children = |pid: u32| pid != 1 && !waiting.contains(&pid);
        let total = |pid: u32, used: &Used| match counts_children(pid) {
            true => used.own + used.children,
            false => used.own,
        };
        // What ended processes had used before is part of what their parents' children used.
        let mut before: BTreeMap<u32, Ticks> = BTreeMap::new();
        for (pid, used) in &self.processes {
            let mut line = self.line(*pid).into_iter();
            if let Some(left) = line.find(|pid| later.processes.contains_key(pid))
                && (left == *pid || counts_children(left))
            {
                *before.entry(left).or_default() += total(*pid, used);
            }
        }
        let others = later.processes.iter().filter(|(pid, _)| !later.is_of_the_test(**pid));
        let used: Ticks = others
            .map(|(pid, used)| {
                total(*pid, used).saturating_sub(before.get(pid).copied().unwrap_or(0))
            })
            .sum();
        let stolen = later.stolen.saturating_sub(self.stolen);
        (used + stolen) as f64 / later.all.saturating_sub(self.all).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    /// Processes as (pid, parent, own, children), of which 10 is the test, after this much time.
    fn snapshot(all: Ticks, processes: &[(u32, u32, Ticks, Ticks)]) -> Snapshot {
        let processes = processes
            .iter()
            .map(|&(pid, parent, own, children)| (pid, Used { parent, own, children }));
        Snapshot { processes: processes.collect(), test: 10, all, ..Snapshot::default() }
    }

    #[test]
    fn other_work__is_of_processes_that_the_test_has_not_started() {
        let before = snapshot(0, &[(1, 0, 7, 0), (5, 1, 0, 0), (10, 5, 3, 0), (20, 1, 4, 0)]);
        let later = [(1, 0, 8, 0), (5, 1, 0, 0), (10, 5, 90, 50), (11, 10, 80, 0), (20, 1, 13, 0)];
        assert_eq!(before.share_until(&snapshot(200, &later)), 10.0 / 200.0);
    }

    #[test]
    fn other_work__of_ended_processes_is_counted_once() {
        // 20 waits for 21, which had used 100 ticks before, and for one that lived between.
        let before = snapshot(0, &[(10, 1, 0, 0), (20, 1, 0, 0), (21, 20, 100, 0)]);
        let later = snapshot(100, &[(10, 1, 0, 0), (20, 1, 0, 100 + 5 + 30)]);
        assert_eq!(before.share_until(&later), 0.35);
    }

    #[test]
    fn other_work__is_not_a_background_program_of_the_test() {
        // 1 waits for what has no other parent, and 5 for what the test leaves behind.
        let before = snapshot(0, &[(1, 0, 0, 0), (5, 1, 0, 0), (10, 5, 0, 0), (30, 1, 0, 0)]);
        let mut later = snapshot(
            100,
            &[(1, 0, 0, 70), (5, 1, 0, 40), (10, 5, 0, 0), (30, 1, 60, 0), (31, 30, 20, 0)],
        );
        later.of_the_test = [30].into();
        assert_eq!(before.share_until(&later), 0.0);
    }

    #[test]
    fn other_work__includes_time_of_other_machines() {
        let mut later = snapshot(100, &[]);
        later.stolen = 25;
        assert_eq!(snapshot(0, &[]).share_until(&later), 0.25);
    }

    #[test]
    fn other_work__reads_names_with_brackets() {
        let line = "7 (a) b) R 3 7 7 0 -1 4194560 1 2 3 4 11 12 13 14 20 0 1 0 5";
        let used = parse(line).expect("a process");
        assert_eq!((used.parent, used.own, used.children), (3, 23, 27));
        assert!(parse("7 (a").is_none() && parse("").is_none());
    }

    /// A process in the background that uses a tenth of a second is seen, and a failed bound is then
    /// not reported as a failure.
    #[test]
    fn other_work__of_a_process_in_the_background_is_seen() {
        let work = OtherWork::watch();
        let mut shell = Command::new("sh");
        // The shell in the background has no parent of the test. It ends after 2 s of processor time.
        let script = "ulimit -t 2; (while :; do :; done) </dev/null >/dev/null 2>&1 & echo $!";
        let output = shell.args(["-c", script]).stderr(Stdio::null()).output().expect("sh starts");
        let pid: u32 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a process");
        let begin = Instant::now();
        let used = || Some(Snapshot::take().processes.get(&pid)?.own);
        while used().is_some_and(|ticks| ticks < 10) && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let (ticks, share) = (used(), work.share());
        let all = (Snapshot::take().all - work.since.all) as f64;
        let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        // Between the reads the machine goes on for two ticks a processor.
        assert!(ticks >= Some(10) && share * all >= 8.0, "{ticks:?} ticks, {share} of {all}");
    }

    #[test]
    fn other_work__never_hides_a_failure_of_a_quiet_machine() {
        let mut work = OtherWork::watch();
        assert!(work.check(true, "holds"));
        // Far more time went by than others can have used since.
        work.since.all = 0;
        work.since.stolen = Snapshot::take().stolen;
        let failed = std::panic::catch_unwind(|| work.check(false, "too slow"));
        let message = failed.expect_err("the check fails");
        assert!(message.downcast_ref::<String>().is_some_and(|text| text.contains("too slow")));
    }
}
