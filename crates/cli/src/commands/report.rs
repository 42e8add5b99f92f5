//! `punctual report`.

use crate::args::Threads;
use crate::exit::{Incomplete, UsageError};
use anyhow::Context as _;
use punctual_fluid::Policy;
use punctual_report::{Palette, Report};
use punctual_results::{REPORT_FILE, is_report, save};
use punctual_sim::Simulate;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) fn report<S: Simulate>(
    dir: &Path,
    open: bool,
    out: Option<&Path>,
    json: bool,
) -> anyhow::Result<()> {
    let _lock = if out.is_none() { super::lock_around(dir)? } else { None };
    let Report { html: page, incomplete } =
        punctual_report::report(dir, &palette::<S>(), Threads::default().get())?;
    let path = out.map(Path::to_owned).unwrap_or_else(|| dir.join(REPORT_FILE));
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(name) = name.filter(|_| !path.is_dir()) else {
        let message = format!("--out {}: give a file, not a directory", path.display());
        return Err(UsageError(message).into());
    };
    if path.exists() && !is_report(&path) {
        let path = path.display();
        let message = format!("{path} exists already and is not a report; choose another name");
        return Err(UsageError(message).into());
    }
    let path = save(path.parent().unwrap_or(Path::new("")), name, page.as_bytes())?;
    let mut out = std::io::stdout().lock();
    match json {
        true => writeln!(out, "{}", serde_json::json!({ "report": path, "bytes": page.len() }))?,
        false => writeln!(out, "report: {}", path.display())?,
    }
    if open {
        open_in_browser(&path)?;
    }
    match incomplete.is_empty() {
        true => Ok(()),
        false => Err(Incomplete(incomplete.join("\n")).into()),
    }
}

/// The colours of all transports and ideal schedulers of this program.
pub(crate) fn palette<S: Simulate>() -> Palette {
    let transports = S::catalogue().iter().map(|transport| transport.name);
    Palette::new(transports, Policy::ALL.iter().map(|policy| policy.name()))
}

/// Removes the report of earlier results, which does not match the new ones.
pub(crate) fn begin(out: &Path) -> anyhow::Result<()> {
    let path = out.join(REPORT_FILE);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Writes the report of a directory of results.
pub(crate) fn write<S: Simulate>(out: &Path, threads: usize) -> anyhow::Result<PathBuf> {
    let page = punctual_report::html(out, &palette::<S>(), threads)?;
    Ok(save(out, REPORT_FILE, page.as_bytes())?)
}

/// Opens a page in the desktop's browser.
fn open_in_browser(path: &Path) -> anyhow::Result<()> {
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else if cfg!(windows) {
        "explorer"
    } else {
        "xdg-open"
    };
    let mut command = Command::new(opener);
    command.arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().with_context(|| {
        format!("cannot run {opener} to open {}; open it in a browser yourself", path.display())
    })?;
    // Windows' explorer exits with 1 even on success.
    if !status.success() && !cfg!(windows) {
        let path = path.display();
        anyhow::bail!("{opener} could not open {path} ({status}); open it in a browser yourself");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use punctual_transports::AnyTransport;
    use std::collections::HashSet;

    #[test]
    fn each_built_in_transport_has_its_own_colour() {
        let names = AnyTransport::catalogue().iter().map(|transport| transport.name);
        let styles = super::palette::<AnyTransport>().styles(names);
        let light: HashSet<_> = styles.iter().map(|style| style.colour.light).collect();
        let dark: HashSet<_> = styles.iter().map(|style| style.colour.dark).collect();
        assert_eq!((light.len(), dark.len()), (styles.len(), styles.len()));
    }
}
