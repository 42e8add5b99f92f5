//! The sandbox of the tests: private mounts, a control group, and one loaded D2TCP.

mod flow;
mod network;
mod switched;

pub(crate) use flow::{Flow, Plan, Sent, receive};
pub(crate) use network::{Namespace, Network};
pub(crate) use switched::Switched;

use libtest_mimic::Failed;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use punctual_kernel::{LoadError, LoadOptions, OBJECT, Paths, doctor, load, unload};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Fails a test with a message, unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        let holds: bool = $condition;
        if !holds {
            return Err(libtest_mimic::Failed::from(format!($($message)+)));
        }
    };
}
pub(crate) use ensure;

/// Why the tests cannot run.
#[derive(Debug)]
pub(crate) enum Obstacle {
    /// The machine lacks something.
    Missing(String),
    /// Something that must work did not.
    Failed(String),
}

/// Where all tests run.
#[derive(Debug)]
pub(crate) struct Sandbox {
    /// The name of D2TCP.
    pub(crate) d2tcp: String,
    /// The name of DCTCP.
    pub(crate) dctcp: String,
    /// Where it is pinned.
    pub(crate) paths: Paths,
    /// The control group of this process.
    pub(crate) cgroup: PathBuf,
    /// The group above it.
    pub(crate) outside: PathBuf,
    /// Removes the control group when this process ends, in whatever way.
    _guard: Child,
}

/// Mounted in the private mount namespace only.
const PLACE: &str = "/mnt";
/// Programs that build networks.
const PROGRAMS: [&str; 4] = ["ip", "tc", "ethtool", "ss"];

fn failed<E: std::fmt::Display>(what: &str) -> impl FnOnce(E) -> Obstacle {
    let what = what.to_owned();
    move |error| Obstacle::Failed(format!("{what}: {error}"))
}

impl Sandbox {
    /// Builds the sandbox and loads D2TCP in it. Must be called before any thread starts.
    pub(crate) fn new() -> Result<Sandbox, Obstacle> {
        let missing = |f: &punctual_kernel::Finding| f.is_required && !f.is_present;
        let at = |place: &str| Paths {
            pins: Path::new(place).join("bpf/punctual"),
            state: Path::new(place).join("state.json"),
        };
        let machine = doctor(&at(PLACE)).into_iter().filter(|f| f.name != "BPF file system");
        if let Some(finding) = machine.into_iter().find(missing) {
            return Err(Obstacle::Missing(format!("{}: {}", finding.name, finding.detail)));
        }
        for program in PROGRAMS {
            if Command::new(program).arg("-V").output().is_err() {
                return Err(Obstacle::Missing(format!("`{program}` is not installed")));
            }
        }
        private_mounts()?;
        let (cgroup, outside, guard) = own_cgroup()?;
        let pid = std::process::id();
        let sandbox = Sandbox {
            d2tcp: format!("d2_{pid}"),
            dctcp: format!("dc_{pid}"),
            paths: at(PLACE),
            cgroup,
            outside,
            _guard: guard,
        };
        // A kernel that rejects the program is a failure, never a skip.
        load(OBJECT, &sandbox.options()).map_err(failed("load"))?;
        Ok(sandbox)
    }

    /// The options under which the shared D2TCP is loaded.
    pub(crate) fn options(&self) -> LoadOptions {
        LoadOptions {
            paths: self.paths.clone(),
            d2tcp: self.d2tcp.clone(),
            dctcp: self.dctcp.clone(),
            cgroup: Some(self.cgroup.clone()),
            ..LoadOptions::default()
        }
    }

    /// Options for another load beside the shared one.
    pub(crate) fn other(&self, tag: &str) -> LoadOptions {
        LoadOptions {
            paths: Paths {
                pins: Path::new(PLACE).join("bpf").join(tag),
                state: Path::new(PLACE).join(format!("{tag}.json")),
            },
            d2tcp: format!("{tag}_{}", std::process::id()),
            dctcp: format!("{tag}d_{}", std::process::id()),
            ..self.options()
        }
    }

    /// Runs a function while this process is outside of the control group.
    pub(crate) fn outside<T>(&self, work: impl FnOnce() -> T) -> T {
        self.within(&self.outside, work)
    }

    /// Runs a function while this process is in another control group.
    pub(crate) fn within<T>(&self, cgroup: &Path, work: impl FnOnce() -> T) -> T {
        enter(cgroup).expect("enter another control group");
        let result = work();
        enter(&self.cgroup).expect("return to the control group");
        result
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = unload(&self.paths);
        let _ = enter(&self.outside);
        let _ = std::fs::remove_dir(&self.cgroup);
    }
}

fn private_mounts() -> Result<(), Obstacle> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(failed("private mounts"))?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .map_err(failed("private mounts"))?;
    mount(Some("tmpfs"), PLACE, Some("tmpfs"), MsFlags::empty(), none).map_err(failed("tmpfs"))?;
    let bpf = Path::new(PLACE).join("bpf");
    std::fs::create_dir(&bpf).map_err(failed("directory"))?;
    mount(Some("bpf"), &bpf, Some("bpf"), MsFlags::empty(), none).map_err(failed("bpffs"))
}

fn enter(cgroup: &Path) -> std::io::Result<()> {
    std::fs::write(cgroup.join("cgroup.procs"), "0")
}

fn own_cgroup() -> Result<(PathBuf, PathBuf, Child), Obstacle> {
    let findings = doctor(&Paths::default());
    let root = findings.iter().find(|f| f.name == "control groups v2").map(|f| f.detail.clone());
    let root = PathBuf::from(root.ok_or_else(|| Obstacle::Missing("control groups".into()))?);
    let cgroup = root.join(format!("punctual-test-{}", std::process::id()));
    // Ends with its standard input, which is this process's end of a pipe.
    let script = "cat > /dev/null; for i in 1 2 3 4 5 6 7 8 9 10; do \
                  rmdir \"$1\"/*/ \"$1\" 2> /dev/null; [ -d \"$1\" ] || exit 0; sleep 0.2; done";
    let guard = Command::new("setsid")
        .args(["sh", "-c", script, "sh"])
        .arg(&cgroup)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed("guard"))?;
    std::fs::create_dir(&cgroup)
        .map_err(|error| Obstacle::Missing(format!("{}: {error}", cgroup.display())))?;
    enter(&cgroup).map_err(failed("control group"))?;
    Ok((cgroup, root, guard))
}

/// The `punctual` with the feature `kernel` that PUNCTUAL_PROGRAM names; says so if there is none.
pub(crate) fn program() -> Result<Option<PathBuf>, Failed> {
    let program = std::env::var_os("PUNCTUAL_PROGRAM").map(PathBuf::from);
    if program.is_none() {
        skip("PUNCTUAL_PROGRAM is not set; run `cargo xtask test kernel`")?;
    }
    Ok(program)
}

/// Reports that a test cannot run because the machine lacks something. Fails if PUNCTUAL_NO_SKIPS is
/// set, unless it is empty or 0.
pub(crate) fn skip(why: &str) -> Result<(), Failed> {
    println!("SKIPPED: {why}");
    ensure!(!skips_are_failures(), "skipped, which PUNCTUAL_NO_SKIPS forbids: {why}");
    Ok(())
}

pub(crate) fn skips_are_failures() -> bool {
    std::env::var("PUNCTUAL_NO_SKIPS").is_ok_and(|value| !value.is_empty() && value != "0")
}

/// Whether a program can be started; otherwise the test is skipped.
pub(crate) fn has_program(name: &str, argument: &str) -> Result<bool, Failed> {
    let is_there = Command::new(name).arg(argument).output().is_ok();
    if !is_there {
        skip(&format!("`{name}` is not installed; run `cargo xtask setup`"))?;
    }
    Ok(is_there)
}

/// A failed test, from any error.
pub(crate) fn because(what: &str) -> impl Fn(LoadError) -> Failed + '_ {
    move |error| Failed::from(format!("{what}: {error}"))
}
