//! Exit codes and output of xtask, with fake versions of the programs that it runs.
#![cfg(unix)]
#![allow(non_snake_case)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The target directory of these tests. That of the workspace holds what the tests of other crates
/// print for later steps, and the step `test` would remove it.
const TARGET: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/target");

fn xtask(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(args).env_remove("PUNCTUAL_NO_SKIPS").env("CARGO_TARGET_DIR", TARGET);
    command
}

fn last_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned()
}

#[test]
fn a_failing_step_fails_the_run() {
    // Other tests remove the figures in theirs.
    let target = Path::new(TARGET).join("failing");
    let mut steps = xtask(&["test", "doc", "test"]);
    let output = steps.env("CARGO", "false").env("CARGO_TARGET_DIR", &target).output();
    let output = output.expect("xtask");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(last_line(&output), "0 passed, 2 failed, 0 skipped");
    // It leaves what the tests of the workspace have printed.
    assert!(target.join("figures-of-tests").exists(), "figures are elsewhere");
}

#[test]
fn a_passing_step_passes_the_run() {
    let output = xtask(&["test", "fmt", "doc"]).env("CARGO", "true").output().expect("xtask");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(last_line(&output), "2 passed, 0 failed, 0 skipped");
}

#[test]
fn a_missing_tool_is_skipped_unless_that_is_forbidden() {
    // `false` as cargo has no `fmt`.
    let output = xtask(&["test", "fmt"]).env("CARGO", "false").output().expect("xtask");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(last_line(&output), "0 passed, 0 failed, 1 skipped");
    let mut strict = xtask(&["test", "fmt"]);
    let output =
        strict.env("CARGO", "false").env("PUNCTUAL_NO_SKIPS", "1").output().expect("xtask");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(last_line(&output), "0 passed, 1 failed, 0 skipped");
}

#[test]
fn what_there_is_not_is_refused() {
    for args in [
        &["tset"][..],
        &["test", "fnt"],
        &["bench-instructions", "--upadte"],
        &["figures", "--chekc"],
        &["swarm", "--minutes", "many"],
        &[],
    ] {
        let output = xtask(args).output().expect("xtask");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("cargo xtask COMMAND"));
    }
}

/// A directory with fake programs, which is the whole search path of a test.
struct Programs(PathBuf);

impl Programs {
    fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a directory");
        let programs = Programs(dir);
        programs.add("id", "echo 0");
        programs.add("env", "shift; exec \"$@\"");
        programs
    }

    fn add(&self, name: &str, script: &str) {
        let path = self.0.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
    }

    fn setup(&self) -> Output {
        xtask(&["setup"])
            .env("CARGO", "/bin/true")
            .env("PATH", &self.0)
            .env("PUNCTUAL_SYSROOT", &self.0)
            .output()
            .expect("xtask")
    }
}

#[test]
fn setup__updates_the_lists_only_when_it_must() {
    let programs = Programs::new("apt");
    let dir = programs.0.display().to_string();
    // rustup installs the standard library for musl.
    programs.add("rustc", &format!("echo {dir}"));
    programs.add("rustup", &format!("/bin/mkdir -p {dir}/lib/rustlib/$3/lib"));
    // Packages are found only after the lists are fetched.
    programs.add(
        "apt-get",
        &format!(
            "echo \"$@\" >> {dir}/log\n\
             case \"$1\" in\n\
             update) : > {dir}/lists ;;\n\
             install) [ -e {dir}/lists ] || exit 100\n\
             shift 3\n\
             for package do\n\
             case $package in\n\
             iproute2) program=ip ;; llvm) program=llvm-strip ;;\n\
             util-linux) program=setpriv ;; python3-venv) program=python3 ;;\n\
             systemd) program=systemd-analyze ;;\n\
             slurm-client) program=sbatch ;; munge) program=munged ;;\n\
             musl-tools) program=musl-gcc ;; busybox-static) program=busybox ;;\n\
             libelf-dev) program=usr/include/libelf.h ;;\n\
             zlib1g-dev) program=usr/include/zlib.h ;;\n\
             libbpf-dev) program=usr/include/bpf/bpf_helpers.h ;;\n\
             *) program=$package ;; esac\n\
             /bin/mkdir -p {dir}/usr/include/bpf\n\
             printf '#!/bin/sh\\n' > {dir}/$program; /bin/chmod +x {dir}/$program; done ;;\n\
             esac"
        ),
    );
    let output = programs.setup();
    assert_eq!(last_line(&output), "1 passed, 0 failed, 0 skipped", "{output:?}");
    let install = "install --yes --no-install-recommends valgrind chromium tshark clang llvm \
                   pkg-config iproute2 ethtool util-linux iperf3 strace systemd python3-venv \
                   parallel slurm-client slurmctld slurmd munge musl-tools busybox-static \
                   libelf-dev zlib1g-dev libbpf-dev\n";
    let log = || fs::read_to_string(programs.0.join("log")).expect("a log");
    assert_eq!(log(), format!("{install}update\n{install}"));
    // Nothing is left to do.
    programs.setup();
    assert_eq!(log().lines().count(), 3);
}

#[test]
fn setup__goes_on_without_apt() {
    let output = Programs::new("no-apt").setup();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(last_line(&output), "0 passed, 0 failed, 1 skipped");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("no apt-get") && stdout.contains("valgrind is missing"), "{stdout}");
}
