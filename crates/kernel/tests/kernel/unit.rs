//! The systemd unit, as far as a machine without a running systemd can test it: its syntax, its
//! commands in their order, and that the capabilities it leaves are enough.

use crate::Test;
use crate::support::{Namespace, Sandbox, ensure, has_program, program};
use libtest_mimic::Failed;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::path::Path;
use std::process::{Command, Output};

pub(crate) const TESTS: &[Test] = &[
    ("unit__is_understood_by_systemd", unit__is_understood),
    ("unit__commands_load_and_unload", unit__commands),
];

const UNIT: &str = include_str!("../../systemd/punctual-kernel.service");
const INSTALLED: &str = "/usr/local/bin/punctual";

/// The values of a key.
fn values<'a>(key: &'a str) -> impl Iterator<Item = &'static str> + 'a {
    UNIT.lines().filter_map(move |line| line.strip_prefix(key)?.strip_prefix('='))
}

fn unit__is_understood(_: &Sandbox) -> Result<(), Failed> {
    let Some(program) = program()? else { return Ok(()) };
    if !has_program("systemd-analyze", "--version")? {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("punctual-kernel.service");
    std::fs::write(&file, UNIT.replace(INSTALLED, &program.to_string_lossy()))?;
    let output =
        Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let own: Vec<&str> = said.lines().filter(|line| line.contains("punctual-kernel")).collect();
    ensure!(output.status.success() && own.is_empty(), "{said}");
    Ok(())
}

/// File systems of the test's own at the places that the unit's commands use by default.
struct Places;

impl Places {
    fn mount() -> Result<Places, Failed> {
        let none: Option<&str> = None;
        for (kind, place) in [("bpf", "/sys/fs/bpf"), ("tmpfs", "/run")] {
            mount(Some(kind), place, Some(kind), MsFlags::empty(), none)
                .map_err(|error| format!("{place}: {error}"))?;
        }
        Ok(Places)
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        for place in ["/run", "/sys/fs/bpf"] {
            let _ = umount2(place, MntFlags::MNT_DETACH);
        }
    }
}

fn unit__commands(sandbox: &Sandbox) -> Result<(), Failed> {
    let Some(program) = program()? else { return Ok(()) };
    if !has_program("setpriv", "--version")? {
        return Ok(());
    }
    let _places = Places::mount()?;
    let own = sandbox.other("un");
    let options = format!(
        "--d2tcp {} --dctcp {} --cgroup {}",
        own.d2tcp,
        own.dctcp,
        sandbox.cgroup.display()
    );
    let capabilities = values("CapabilityBoundingSet").next().ok_or("no capabilities")?;
    let names = capabilities.split_whitespace().map(|name| name.trim_start_matches("CAP_"));
    let kept: Vec<String> = names.map(|name| format!("+{}", name.to_lowercase())).collect();
    let bounds = format!("-all,{}", kept.join(","));
    // What systemd would run, with no more capabilities than the unit has.
    let run = |key: &str| -> Result<Output, Failed> {
        let line = values(key).next().ok_or_else(|| format!("no {key}"))?;
        let line = line.replace("$PUNCTUAL_KERNEL_OPTIONS", &options);
        let mut words = line.split_whitespace();
        ensure!(words.next() == Some(INSTALLED), "{line}");
        let mut command = Command::new("setpriv");
        command.args(["--no-new-privs", "--bounding-set", &bounds, "--"]);
        Ok(command.arg(&program).args(words).output()?)
    };
    let must = |key: &str| -> Result<(), Failed> {
        let output = run(key)?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{key}: {text}");
        Ok(())
    };
    let is_loaded = || {
        let names = Namespace::new().sysctl("tcp_available_congestion_control");
        names.split_whitespace().any(|name| name == own.d2tcp)
    };
    for (keys, is_there) in [
        (&["ExecStartPre", "ExecStart"][..], true),
        // As after a crash: what is loaded goes first.
        (&["ExecStartPre", "ExecStart"], true),
        (&["ExecStop"], false),
        (&["ExecStop"], false),
    ] {
        for key in keys {
            must(key)?;
        }
        ensure!(is_loaded() == is_there, "after {keys:?}");
    }
    ensure!(!Path::new("/sys/fs/bpf/punctual").exists(), "pins are left");
    Ok(())
}
