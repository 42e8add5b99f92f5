//! Puts a finished run into another directory of results.

use crate::dir::{Place, partial_path, place};
use crate::{HOST_FILE, MANIFEST_FILE, ReadError, WriteError, read_manifest};
use std::fs;
use std::io;
use std::path::Path;

/// Links the files of a run into another directory, or copies them to another file system.
///
/// A run that is there is replaced. Files that no run wrote are never replaced.
pub fn link_run(from: &Path, to: &Path) -> Result<(), WriteError> {
    let refused = |action: &'static str, path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| WriteError::Io { action, path, source }
    };
    let unreadable = |error: ReadError| WriteError::Io {
        action: "read",
        path: from.to_owned(),
        source: io::Error::other(error.to_string()),
    };
    let manifest = read_manifest(from).map_err(unreadable)?;
    let replace = matches!(place(to)?, Place::Run);
    let partial = partial_path(to)?;
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial).map_err(refused("create", &partial))?;
    let names = manifest.files.keys().map(String::as_str).chain([HOST_FILE, MANIFEST_FILE]);
    let linked = names.into_iter().try_for_each(|name| {
        let (from, to) = (from.join(name), partial.join(name));
        if name == HOST_FILE && !from.exists() {
            return Ok(());
        }
        // A copy, where files cannot be linked: another file system, or one without links.
        fs::hard_link(&from, &to)
            .or_else(|_| fs::copy(&from, &to).map(drop))
            .map_err(refused("write", &to))
    });
    let renamed = linked.and_then(|()| {
        if replace {
            fs::remove_dir_all(to).map_err(refused("replace", to))?;
        }
        fs::rename(&partial, to).map_err(refused("create", to))
    });
    if renamed.is_err() {
        let _ = fs::remove_dir_all(&partial);
    }
    renamed
}
