//! Tests what users download in root directories without Rust.

use crate::tools::{is_installed, output, root, run, target};
use anyhow::{Context as _, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The scenario of smoke tests.
const SCENARIO: &str = "\
name = \"smoke\"
transports = [\"tcp\", \"ndp\"]
[network]
topology = \"star\"
hosts = 4
rate = \"10Gbps\"
delay = \"1us\"
[[traffic]]
pattern = \"incast\"
sizes = \"30KB\"
[run]
duration = \"5ms\"
";

/// Uses the wheel: a comparison in three lines, a plot of its flows, and a notebook.
const USE_WHEEL: &str = "\
import punctual
results = punctual.compare('smoke.toml')
frame = results.flows.to_pandas()
assert len(frame) == 6, frame

frame.fct_ps.plot().figure.savefig('plot.png')

import nbclient, nbformat
notebook = nbformat.read('first-comparison.ipynb', as_version=4)
nbclient.NotebookClient(notebook, timeout=300).execute()
";

/// What [`USE_WHEEL`] needs beside the wheel, in the versions of the package's tests.
const BESIDE_WHEEL: [&str; 4] = ["pandas", "matplotlib", "nbclient", "ipykernel"];

/// Whether this process may change its root directory and has the programs for it.
pub(crate) fn may_chroot() -> anyhow::Result<bool> {
    let is_root = output(Command::new("id").arg("-u"))?.trim() == "0";
    Ok(is_root && is_installed("chroot") && is_installed("unshare"))
}

/// An empty directory below the target directory, with the scenario in `smoke`.
pub(super) fn empty_root(name: &str) -> anyhow::Result<PathBuf> {
    let place = target().join(name);
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(place.join("smoke"))?;
    fs::write(place.join("smoke/smoke.toml"), SCENARIO)?;
    Ok(place)
}

/// Runs the program in a root directory that has nothing else.
pub(crate) fn check_program(program: &Path) -> anyhow::Result<()> {
    let place = empty_root("dist-root")?;
    fs::copy(program, place.join("punctual"))?;
    check_commands(&place, "/punctual")?;
    Ok(fs::remove_dir_all(place)?)
}

/// Installs a Debian package into a root directory that has nothing else, runs its program there and
/// removes the package.
pub(crate) fn check_deb(package: &Path) -> anyhow::Result<()> {
    let place = empty_root("dist-deb-root")?;
    for dir in ["var/lib/dpkg/info", "var/lib/dpkg/updates"] {
        fs::create_dir_all(place.join(dir))?;
    }
    fs::write(place.join("var/lib/dpkg/status"), "")?;
    let dpkg = |args: &[&str]| {
        let mut command = Command::new("dpkg");
        command.arg(format!("--root={}", place.display()));
        // The root has no shell for logs and triggers.
        command.args(["--force-not-root", "--log=/dev/null"]).args(args);
        command
    };
    run(dpkg(&["--install"]).arg(package))?;
    check_commands(&place, "/usr/bin/punctual")?;
    for name in ["man/man1/punctual-sweep.1", "bash-completion/completions/punctual"] {
        if !place.join("usr/share").join(name).exists() {
            bail!("the package has no {name}");
        }
    }
    run(&mut dpkg(&["--remove", "punctual"]))?;
    match place.join("usr/bin/punctual").exists() {
        true => bail!("the package was removed, but not its program"),
        false => Ok(fs::remove_dir_all(place)?),
    }
}

/// Runs commands of a program in a root directory: a comparison, and the same as a sweep.
fn check_commands(place: &Path, program: &str) -> anyhow::Result<()> {
    for args in [
        &["--version"][..],
        &["compare", "/smoke/smoke.toml", "--out", "/smoke/one", "--quiet"],
        &["sweep", "plan", "/smoke/smoke.toml", "--out", "/smoke/plan"],
        &["sweep", "run", "/smoke/plan", "--quiet"],
        &["sweep", "merge", "/smoke/plan", "--out", "/smoke/two", "--quiet"],
    ] {
        run(Command::new("chroot").arg(place).arg(program).args(args))?;
    }
    check_same_flows(&place.join("smoke"), &["one", "two"])
}

/// Checks that directories of results below `place` have the same flows.
pub(super) fn check_same_flows(place: &Path, names: &[&str]) -> anyhow::Result<()> {
    let flows = |name: &&str| fs::read(place.join(name).join("ndp/seed-1/flows.parquet"));
    let all = names.iter().map(flows).collect::<Result<Vec<_>, _>>()?;
    match all.windows(2).all(|pair| pair[0] == pair[1]) {
        true => Ok(()),
        false => bail!("a merged sweep differs from a comparison"),
    }
}

/// Mounts the system's programs and libraries read-only into the root directory `$1`, without home
/// directories and sources, and runs `/smoke/check.sh` there. The mounts and processes end with this
/// shell's namespaces.
const MOUNT: &str = r#"
set -eu
for name in bin sbin lib lib32 lib64 usr etc; do
    if [ -L "/$name" ]; then cp -P "/$name" "$1/$name"
    elif [ -d "/$name" ]; then
        mkdir -p "$1/$name"
        mount --bind "/$name" "$1/$name"
        mount -o remount,bind,ro "$1/$name"
    fi
done
mkdir -p "$1/proc" "$1/dev" "$1/tmp"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
exec chroot "$1" env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/tmp sh -eu /smoke/check.sh
"#;

/// Installs the wheel without a network and uses it.
const CHECK_WHEEL: &str = r#"
cd /smoke
for tool in rustc cargo rustup; do
    if command -v "$tool"; then echo "this root has $tool"; exit 1; fi
done
python3 -m venv venv
venv/bin/python -m pip install --no-compile --quiet --disable-pip-version-check --no-index \
    --find-links wheels punctual PACKAGES
venv/bin/python use.py
venv/bin/punctual check smoke.toml
"#;

/// Downloads packages for Python, and what they need, in the versions of the package's tests.
pub(super) fn fetch(packages: &[&str], wheels: &Path) -> anyhow::Result<()> {
    let mut download = Command::new("python3");
    download.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check"]);
    download.arg("--constraint").arg(root().join("crates/python/tests/requirements.txt"));
    run(download.args(["--only-binary=:all:", "--dest"]).arg(wheels).args(packages))
}

/// Runs a script in a root directory with the system's programs and nothing of Rust or of these
/// sources.
pub(super) fn run_in_system(place: &Path, script: &str) -> anyhow::Result<()> {
    fs::write(place.join("smoke/check.sh"), script)?;
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]);
    run(inside.args(["sh", "-c", MOUNT, "sh"]).arg(place))
}

/// Installs a wheel into a fresh environment and uses it there: in a root directory with the
/// system's Python and nothing of Rust or of these sources if this process may make one.
pub(crate) fn check_wheel(wheel: &Path) -> anyhow::Result<()> {
    let place = empty_root("dist-wheel-root")?;
    let script = CHECK_WHEEL.replace("PACKAGES", &BESIDE_WHEEL.join(" "));
    fs::write(place.join("smoke/use.py"), USE_WHEEL)?;
    let python = root().join("crates/python");
    let notebook = "first-comparison.ipynb";
    fs::copy(python.join("notebooks").join(notebook), place.join("smoke").join(notebook))?;
    let wheels = place.join("smoke/wheels");
    // Outside, with the network: the wheel and what it needs.
    let wheel = wheel.display().to_string();
    fetch(&[&[wheel.as_str()], &BESIDE_WHEEL[..]].concat(), &wheels)?;
    if may_chroot()? {
        run_in_system(&place, &script)?;
    } else {
        let shell = script.lines().filter(|line| *line != "cd /smoke");
        let mut outside = Command::new("sh");
        outside.args(["-eu", "-c", &shell.collect::<Vec<_>>().join("\n")]);
        outside.current_dir(place.join("smoke"));
        outside.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        run(&mut outside).context("in a fresh environment")?;
    }
    // The environment is a gigabyte with the packages that it was made from.
    Ok(fs::remove_dir_all(place)?)
}
