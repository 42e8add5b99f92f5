//! The package for Python: its tests, and its wheel.

use crate::steps::Outcome;
use crate::suite::target;
use crate::tools::{built_program, cargo, is_installed, root, run};
use anyhow::Context as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of maturin, which packs wheels.
const MATURIN: &str = "maturin==1.16.0";

/// Builds the package from the crates that the step `test` built, and runs its tests and notebooks.
pub(crate) fn python() -> anyhow::Result<Outcome> {
    if !is_installed("python3") {
        return Ok(Outcome::Skipped("python3 is not installed; run `cargo xtask setup`".into()));
    }
    let requirements = root().join("crates/python/tests/requirements.txt");
    let list = fs::read_to_string(&requirements)?;
    let packages = ["-r".into(), requirements.into_os_string()];
    let Some(venv) = venv("python-tests", &list, &packages)? else {
        return Ok(Outcome::Skipped("no virtual environment; install python3-venv".into()));
    };
    // The whole workspace, so that cargo does not rebuild crates with other features.
    run(cargo().args(["build", "--workspace", "--lib", "--bin", "punctual"]))?;
    let package = staged()?;
    let mut tests = Command::new(venv.join("bin/python"));
    tests.args(["-m", "pytest", "-q", "-ra", "--durations=10", "-p", "no:cacheprovider"]);
    tests.arg(root().join("crates/python/tests")).current_dir(target());
    // Notebooks start the Python of this environment.
    tests.env("PYTHONPATH", package).env("PYTHONDONTWRITEBYTECODE", "1");
    tests.env("JUPYTER_PLATFORM_DIRS", "1");
    if let Some(program) = built_program() {
        tests.env("PUNCTUAL_PROGRAM", program);
    }
    run(&mut tests)?;
    Ok(Outcome::Passed)
}

/// The package as Python imports it: its Python code, and the library of the dev profile.
fn staged() -> anyhow::Result<PathBuf> {
    let dir = target().join("python");
    let package = dir.join("punctual");
    if package.exists() {
        fs::remove_dir_all(&package)?;
    }
    fs::create_dir_all(&package)?;
    for entry in fs::read_dir(root().join("crates/python/python/punctual"))? {
        let path = entry?.path();
        if path.is_file() {
            fs::copy(&path, package.join(path.file_name().context("a file has a name")?))?;
        }
    }
    let library = target().join("debug").join("lib_native.so");
    fs::copy(&library, package.join("_native.abi3.so"))
        .with_context(|| format!("cannot copy {}", library.display()))?;
    Ok(dir)
}

/// A virtual environment with some packages, made again when the list of packages changes. None if
/// this Python has no virtual environments.
pub(crate) fn venv(
    name: &str,
    list: &str,
    packages: &[std::ffi::OsString],
) -> anyhow::Result<Option<PathBuf>> {
    let venv = target().join(name);
    let mark = venv.join("packages.txt");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == list) {
        return Ok(Some(venv));
    }
    let _ = fs::remove_dir_all(&venv);
    if run(Command::new("python3").args(["-m", "venv"]).arg(&venv)).is_err() {
        return Ok(None);
    }
    if !packages.is_empty() {
        let mut pip = Command::new(venv.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        run(pip.args(packages))?;
    }
    fs::write(&mark, list)?;
    Ok(Some(venv))
}

/// Builds the wheel into `target/wheels` and returns its path.
pub(crate) fn build_wheel() -> anyhow::Result<Option<PathBuf>> {
    let Some(venv) = venv("maturin", MATURIN, &[MATURIN.into()])? else { return Ok(None) };
    let out = target().join("wheels");
    let _ = fs::remove_dir_all(&out);
    let mut maturin = Command::new(venv.join("bin/maturin"));
    maturin.current_dir(root()).args(["build", "--release", "--locked", "--manifest-path"]);
    maturin.arg("crates/python/Cargo.toml").arg("--out").arg(&out);
    run(&mut maturin)?;
    let wheel = fs::read_dir(&out)?.flatten().map(|entry| entry.path()).next();
    Ok(Some(wheel.context("maturin wrote no wheel")?))
}

/// Builds the wheel, installs it into a fresh environment and runs a comparison there, without Rust
/// on the search path.
pub(crate) fn wheel() -> anyhow::Result<Outcome> {
    let Some(wheel) = build_wheel()? else {
        return Ok(Outcome::Skipped("no virtual environment; install python3-venv".into()));
    };
    check_wheel(&wheel)?;
    println!("{} ({} bytes)", wheel.display(), fs::metadata(&wheel)?.len());
    Ok(Outcome::Passed)
}

/// The scenario of smoke tests.
pub(crate) const SCENARIO: &str = "\
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

/// Installs a wheel into a fresh environment and uses it there.
pub(crate) fn check_wheel(wheel: &Path) -> anyhow::Result<()> {
    let _ = fs::remove_dir_all(target().join("fresh"));
    let venv = venv("fresh", "", &[wheel.as_os_str().to_owned(), "pandas".into()])?;
    let venv = venv.context("python3 made one before")?;
    let dir = venv.join("work");
    fs::create_dir_all(&dir)?;
    fs::write(dir.join("smoke.toml"), SCENARIO)?;
    let script = "import punctual\n\
                  frame = punctual.compare('smoke.toml').flows.to_pandas()\n\
                  assert len(frame) == 6, frame\n";
    let clean = |program: &str| {
        let mut command = Command::new(venv.join("bin").join(program));
        command.current_dir(&dir).env_clear().env("PATH", "/usr/bin:/bin");
        command
    };
    run(clean("python").args(["-c", script]))?;
    run(clean("punctual").args(["check", "smoke.toml"]))
}
