//! `punctual replay`.

use super::{execute_runs, lock, look_at};
use crate::args::Replay;
use crate::exit::{ReplayDiffers, UsageError};
use anyhow::Context as _;
use punctual_lab::{Options, PlannedRun, Study, study_from_text};
use punctual_results::{CSV_FILE, MANIFEST_FILE, Manifest, read_manifest};
use punctual_sim::Simulate;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Whether a file of the new run equals that of the old run.
enum Same {
    Yes,
    No,
    /// The old file is missing, or has another length than in the manifest.
    Unknown,
}

pub(crate) fn replay<S: Simulate>(args: &Replay) -> anyhow::Result<()> {
    let is_dir = args.manifest.is_dir();
    let named = args.manifest.file_name().is_some_and(|name| name == MANIFEST_FILE);
    if !is_dir && args.manifest.exists() && !named {
        let message = format!(
            "{} is not a manifest: give a manifest.json, or its directory",
            args.manifest.display()
        );
        return Err(UsageError(message).into());
    }
    let dir = match args.manifest.parent() {
        _ if is_dir => args.manifest.clone(),
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let manifest = read_manifest(&dir)?;
    if manifest.testbed.is_some() {
        let message = "this run was made with real packets, which never come out the same twice; \
                       repeat it with `punctual run --on testbed --fresh`";
        return Err(UsageError(message.to_owned()).into());
    }
    let (study, run) = planned::<S>(&manifest, &args.folder)?;
    let out = args.out.clone();
    let out = out.unwrap_or_else(|| Path::new("results").join(format!("{}-replay", study.name())));
    let options = Options {
        out,
        threads: 1,
        fresh: true,
        csv: manifest.files.contains_key(CSV_FILE),
        sync: true,
    };
    let runs = [PlannedRun { dir: format!("{}-{}", run.subject.label, run.seed).into(), ..run }];
    let _lock = lock(&options.out)?;
    let states = look_at(&study, &runs, &options)?;
    let reports = execute_runs(&study, &runs, &states, &options, args.printing.quiet)?;
    let again = &reports[0].dir;
    let mut compared = Vec::new();
    for (name, info) in &manifest.files {
        compared.push((name.as_str(), compare(&dir.join(name), info.bytes, &again.join(name))?));
    }
    print_result(&manifest, again, &compared, args.printing.json)
}

/// The study and run of a manifest.
pub(super) fn planned<S: Simulate>(
    manifest: &Manifest,
    folder: &Path,
) -> anyhow::Result<(Study<S>, PlannedRun<S>)> {
    let text = &manifest.scenario;
    let study = study_from_text::<S>("the manifest's scenario", text, folder, &manifest.overrides)?;
    study.run_of(&manifest.point, &manifest.transport, manifest.seed)?.with_context(|| {
        let Manifest { transport, seed, punctual, .. } = manifest;
        format!(
            "the manifest's scenario has no run of {transport} with seed {seed}; it was written by \
             punctual {punctual}, and this is {}",
            env!("CARGO_PKG_VERSION")
        )
    })
}

fn compare(old: &Path, bytes: u64, new: &Path) -> anyhow::Result<Same> {
    let old = std::fs::read(old).ok().filter(|old| old.len() as u64 == bytes);
    let Some(old) = old else { return Ok(Same::Unknown) };
    let new = match std::fs::read(new) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Same::No),
        read => read.with_context(|| format!("cannot read {}", new.display()))?,
    };
    Ok(if old == new { Same::Yes } else { Same::No })
}

fn print_result(
    manifest: &Manifest,
    again: &Path,
    compared: &[(&str, Same)],
    json: bool,
) -> anyhow::Result<()> {
    let names = |which: fn(&Same) -> bool| -> Vec<&str> {
        compared.iter().filter(|(_, same)| which(same)).map(|(name, _)| *name).collect()
    };
    let same = names(|same| matches!(same, Same::Yes));
    let different = names(|same| matches!(same, Same::No));
    let unknown = names(|same| matches!(same, Same::Unknown));
    let mut out = std::io::stdout().lock();
    if json {
        let object = serde_json::json!({
            "directory": again, "same": same, "different": different, "not_compared": unknown,
        });
        writeln!(out, "{object}")?;
    } else {
        writeln!(out, "replayed in {}", again.display())?;
        for (what, names) in [("identical", &same), ("not compared", &unknown)] {
            if !names.is_empty() {
                writeln!(out, "{what}: {}", names.join(", "))?;
            }
        }
    }
    if different.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{} differ from the manifest's run, which punctual {} wrote; this is {}",
        different.join(", "),
        manifest.punctual,
        env!("CARGO_PKG_VERSION"),
    );
    Err(ReplayDiffers(message).into())
}
