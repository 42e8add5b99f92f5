//! `punctual init`.

use crate::exit::UsageError;
use anyhow::Context as _;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

/// The template scenario.
const TEMPLATE: &str = include_str!("init.toml");

pub(crate) fn init(file: &Path, json: bool) -> anyhow::Result<()> {
    let created = OpenOptions::new().write(true).create_new(true).open(file);
    let mut out = match created {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let message = format!("{} exists already; choose another name", file.display());
            return Err(UsageError(message).into());
        }
        created => created.with_context(|| format!("cannot create {}", file.display()))?,
    };
    let name = file.display().to_string();
    let text = TEMPLATE.replace("THIS-FILE", &name);
    out.write_all(text.as_bytes()).with_context(|| format!("cannot write {name}"))?;
    let mut out = std::io::stdout().lock();
    match json {
        true => writeln!(out, "{}", serde_json::json!({ "scenario": name }))?,
        false => writeln!(out, "wrote {name}; next: punctual compare {name}")?,
    }
    Ok(())
}
