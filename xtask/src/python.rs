//! The package for Python: its tests, and its wheel.

use crate::build::build;
use crate::dist::check_wheel;
use crate::steps::Outcome;
use crate::tools::{built_program, is_installed, root, run, run_noting_skips, target};
use anyhow::Context as _;
use std::fs;
use std::path::PathBuf;
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
    // Packages are downloaded and unpacked while the compiler works.
    let (venv, built) = std::thread::scope(|scope| {
        let venv = scope.spawn(|| venv("python-tests", &list, &packages));
        let built = run(&mut build(&["--lib", "--bin", "punctual"]));
        (venv.join().expect("making an environment does not panic"), built)
    });
    built?;
    let Some(venv) = venv? else {
        return Ok(Outcome::Skipped("no virtual environment; install python3-venv".into()));
    };
    let package = staged()?;
    let pytest = || {
        let mut tests = Command::new(venv.join("bin/python"));
        tests.args(["-m", "pytest", "-q", "-rfE", "--durations=10", "-p", "no:cacheprovider"]);
        // A file that cannot run does not keep the others from it.
        tests.arg("--continue-on-collection-errors");
        // Notebooks start the Python of this environment.
        tests.current_dir(target()).env("PYTHONPATH", &package);
        tests.env("PYTHONPYCACHEPREFIX", target().join("pycache"));
        tests.env_remove("PYTHONDONTWRITEBYTECODE");
        tests.env("JUPYTER_PLATFORM_DIRS", "1");
        if let Some(program) = built_program() {
            tests.env("PUNCTUAL_PROGRAM", program);
        }
        tests
    };
    let all = root().join("crates/python/tests");
    let timed = all.join("test_overhead.py");
    // Most tests wait: for clusters that start, for workers that are lost, for interruptions.
    let mut beside = pytest();
    beside.args(["-n", "2", "--dist", "worksteal", "--ignore"]).arg(&timed).arg(&all);
    let mut skipped = run_noting_skips(&mut beside)?;
    // Those that measure times have the machine to themselves.
    skipped.extend(run_noting_skips(pytest().arg(&timed))?);
    Ok(match skipped.first() {
        None => Outcome::Passed,
        Some(first) => {
            Outcome::PassedExcept(format!("{} checks SKIPPED; the first: {first}", skipped.len()))
        }
    })
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
        // Python compiles what is imported; most modules never are.
        pip.args([
            "-m",
            "pip",
            "install",
            "--no-compile",
            "--quiet",
            "--disable-pip-version-check",
        ]);
        run(pip.args(packages))?;
    }
    fs::write(&mark, list)?;
    Ok(Some(venv))
}

/// The profile of wheels that users download.
pub(crate) const WHEEL_PROFILE: &str = "wheel";

/// Builds the wheel with a profile of cargo into `target/wheels` and returns its path.
pub(crate) fn build_wheel(profile: &str) -> anyhow::Result<Option<PathBuf>> {
    let Some(venv) = venv("maturin", MATURIN, &[MATURIN.into()])? else { return Ok(None) };
    let out = target().join("wheels");
    let _ = fs::remove_dir_all(&out);
    let mut maturin = Command::new(venv.join("bin/maturin"));
    maturin.current_dir(root()).args(["build", "--profile", profile, "--locked"]);
    maturin.arg("--manifest-path").arg("crates/python/Cargo.toml").arg("--out").arg(&out);
    run(&mut maturin)?;
    let wheel = fs::read_dir(&out)?.flatten().map(|entry| entry.path()).next();
    Ok(Some(wheel.context("maturin wrote no wheel")?))
}

/// Builds the wheel, installs it where there is no Rust, and runs a comparison there.
pub(crate) fn wheel() -> anyhow::Result<Outcome> {
    let Some(wheel) = build_wheel(WHEEL_PROFILE)? else {
        return Ok(Outcome::Skipped("no virtual environment; install python3-venv".into()));
    };
    check_wheel(&wheel)?;
    println!("{} ({} bytes)", wheel.display(), fs::metadata(&wheel)?.len());
    Ok(Outcome::Passed)
}
