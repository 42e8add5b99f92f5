//! Installs missing tools that the tests need beyond rustc and gcc.

use crate::book::install_mdbook;
use crate::steps::Outcome;
use crate::tools::{cargo, is_installed, output, run};
use std::path::Path;
use std::process::{Command, Stdio};

/// A program, its Debian package, and its purpose.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("valgrind", "valgrind", "instruction counts"),
    (BROWSER, "chromium", "the report in a browser"),
    (TSHARK, "tshark", "captures in Wireshark"),
    ("clang", "clang", "D2TCP in the kernel"),
    ("llvm-strip", "llvm", "D2TCP in the kernel"),
    ("pkg-config", "pkg-config", "D2TCP in the kernel"),
    ("ip", "iproute2", "network namespaces"),
    ("ethtool", "ethtool", "network namespaces"),
    ("setpriv", "util-linux", "network namespaces"),
    ("iperf3", "iperf3", "the kernel's TCP on a testbed"),
    ("strace", "strace", "the order of system calls"),
    ("systemd-analyze", "systemd", "systemd units"),
    ("python3", "python3-venv", "the package for Python"),
    ("parallel", "parallel", "sweeps with GNU parallel"),
    ("sbatch", "slurm-client", "sweeps with Slurm"),
    ("slurmctld", "slurmctld", "sweeps with Slurm"),
    ("slurmd", "slurmd", "sweeps with Slurm"),
    ("munged", "munge", "sweeps with Slurm"),
    ("musl-gcc", "musl-tools", "the static binary"),
    ("busybox", "busybox-static", "the container file"),
];

/// A file of a Debian package without programs, the package, and its purpose.
const LIBRARIES: &[(&str, &str, &str)] = &[
    ("/usr/include/libelf.h", "libelf-dev", "D2TCP in the kernel"),
    ("/usr/include/zlib.h", "zlib1g-dev", "D2TCP in the kernel"),
    ("/usr/include/bpf/bpf_helpers.h", "libbpf-dev", "D2TCP in the kernel"),
];

/// The browser that tests use.
pub(crate) const BROWSER: &str = "chromium";

/// Wireshark's command line.
pub(crate) const TSHARK: &str = "tshark";

/// Cargo subcommands and their rustup components.
const COMPONENTS: &[(&str, &str)] = &[("fmt", "rustfmt"), ("clippy", "clippy")];

/// Installs missing tools. If a tool cannot be installed, the steps that need it are skipped.
pub(crate) fn setup() -> anyhow::Result<Outcome> {
    let mut missing = Vec::new();
    for (subcommand, component) in COMPONENTS {
        if !has_subcommand(subcommand) && !add_component(component) {
            println!("{component} is missing: run `rustup component add {component}`");
            missing.push(*component);
        }
    }
    if !has_musl() && !add_target(&musl_target()) {
        println!("{0} is missing: run `rustup target add {0}`", musl_target());
        missing.push("the standard library for musl");
    }
    let programs = PROGRAMS.iter().filter(|(name, ..)| !is_installed(name));
    let libraries = LIBRARIES.iter().filter(|(file, ..)| !has(file));
    let lacking: Vec<_> = programs.chain(libraries).collect();
    if !lacking.is_empty() {
        let packages: Vec<&str> = lacking.iter().map(|(_, package, _)| *package).collect();
        install(&packages);
    }
    for (name, package, purpose) in lacking {
        if !has(name) {
            println!("{name} is missing: install it ({package} on Debian) for {purpose}");
            missing.push(*name);
        }
    }
    if !install_mdbook() {
        println!("mdbook is missing: run `cargo install mdbook` to build the book");
        missing.push("mdbook");
    }
    Ok(if missing.is_empty() {
        println!("all tools that the tests need are installed");
        Outcome::Passed
    } else {
        Outcome::Skipped(format!("could not install {}", missing.join(", ")))
    })
}

/// Whether a program is installed, or a file with an absolute path exists: below `PUNCTUAL_SYSROOT`
/// if that is set, as tests do.
fn has(name: &str) -> bool {
    let Some(file) = name.strip_prefix('/') else { return is_installed(name) };
    let root = std::env::var_os("PUNCTUAL_SYSROOT").unwrap_or_else(|| "/".into());
    Path::new(&root).join(file).exists()
}

/// What is missing for D2TCP in the kernel, by package; loading it needs Linux and root besides.
pub(crate) fn missing_for_kernel() -> Vec<&'static str> {
    let needs = PROGRAMS.iter().chain(LIBRARIES).filter(|(.., purpose)| purpose.contains("kernel"));
    needs.filter(|(name, ..)| !has(name)).map(|(_, package, _)| *package).collect()
}

/// Whether cargo has this subcommand.
pub(crate) fn has_subcommand(name: &str) -> bool {
    let mut command = cargo();
    command.args([name, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn add_component(name: &str) -> bool {
    is_installed("rustup") && run(Command::new("rustup").args(["component", "add", name])).is_ok()
}

/// The target of static binaries.
pub(crate) fn musl_target() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// Whether Rust's standard library for [`musl_target`] is installed.
pub(crate) fn has_musl() -> bool {
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"])).unwrap_or_default();
    Path::new(sysroot.trim()).join("lib/rustlib").join(musl_target()).join("lib").exists()
}

fn add_target(name: &str) -> bool {
    is_installed("rustup") && run(Command::new("rustup").args(["target", "add", name])).is_ok()
}

/// Installs Debian packages as root or with sudo. Prints a message if it cannot.
fn install(packages: &[&str]) {
    if !is_installed("apt-get") {
        println!("no apt-get on this machine: install {} yourself", packages.join(", "));
        return;
    }
    // Fetches the package lists only if installing without that fails.
    let mut install = vec!["install", "--yes", "--no-install-recommends"];
    install.extend(packages);
    let installed = run(&mut apt_get(&install))
        .or_else(|_| run(&mut apt_get(&["update"])).and_then(|()| run(&mut apt_get(&install))));
    if let Err(error) = installed {
        println!("{error:#}");
    }
}

fn apt_get(args: &[&str]) -> Command {
    let is_root = output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let mut command = if is_root || !is_installed("sudo") {
        Command::new("env")
    } else {
        let mut command = Command::new("sudo");
        command.arg("env");
        command
    };
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(args);
    command
}
