//! Finds and runs other programs.

use anyhow::{Context as _, bail};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let here = PathBuf::from(here);
    here.parent().map_or_else(|| here.clone(), Path::to_path_buf)
}

/// Cargo at the root of the workspace: the one that started this program, if any.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    // Remove the variables that `cargo run` sets for this package.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
    command
}

/// A command as typed in a shell.
pub(crate) fn typed(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Prints a command and runs it, its output going where ours goes.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    println!("$ {}", typed(command));
    let status = command.status().with_context(|| format!("cannot run {}", typed(command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", typed(command));
    }
    Ok(())
}

/// Prints a command and runs it, its output going where ours goes. Returns the reasons that it gave
/// for checks it skipped: what follows `SKIPPED: ` on a line.
pub(crate) fn run_noting_skips(command: &mut Command) -> anyhow::Result<Vec<String>> {
    println!("$ {}", typed(command));
    let cannot = format!("cannot run {}", typed(command));
    let mut child = command.stdout(Stdio::piped()).spawn().context(cannot)?;
    let mut reasons = Vec::new();
    for line in BufReader::new(child.stdout.take().context("no stdout")?).lines() {
        let line = line?;
        println!("{line}");
        reasons.extend(line.split_once("SKIPPED: ").map(|(_, reason)| reason.to_owned()));
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("`{}` failed: {status}", typed(command));
    }
    Ok(reasons)
}

/// Runs a command and returns its output. Fails if the command fails.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", typed(command)))?;
    if !output.status.success() {
        bail!("`{}` failed: {}", typed(command), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("output of {}", typed(command)))
}

/// Cargo's target directory.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from)
}

/// The `punctual` that the tests built, if it exists.
pub(crate) fn built_program() -> Option<PathBuf> {
    let program = target().join("debug").join("punctual");
    program.exists().then_some(program)
}

/// Runs `job` for every item, as many at a time as there are processors. Results are in the order of
/// the items.
pub(crate) fn in_parallel<I: Sync, O: Send>(
    items: &[I],
    job: impl Fn(&I) -> anyhow::Result<O> + Sync,
) -> anyhow::Result<Vec<O>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let waiting = Mutex::new(items.iter().enumerate());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().expect("no job panics").next();
                    let Some((index, item)) = next else { break };
                    let result = job(item);
                    done.lock().expect("no job panics").push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no job panics");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Whether a program is on the search path.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| is_executable(&dir.join(program)))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}
