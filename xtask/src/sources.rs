//! Finds source files and the test binaries they belong to.

use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};

/// Adds all files with this extension under `dir`, recursively, to `found`.
pub(crate) fn find(
    root: &Path,
    dir: &Path,
    extension: &str,
    found: &mut Vec<PathBuf>,
) -> anyhow::Result<()> {
    let entries = root.join(dir).read_dir();
    for entry in entries.with_context(|| format!("cannot read {}", dir.display()))? {
        let entry = entry?;
        let path = dir.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            find(root, &path, extension, found)?;
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    Ok(())
}

/// The test binary that a source file belongs to, as arguments for cargo.
pub(crate) fn target_of(root: &Path, path: &Path) -> anyhow::Result<Vec<String>> {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let [_, name, kind, rest @ ..] = &parts[..] else {
        bail!("{} is not in a crate", path.display());
    };
    let directory = root.join("crates").join(name).join(kind);
    Ok(match (kind.as_str(), rest) {
        ("tests", [file]) => vec!["--test".to_owned(), file.trim_end_matches(".rs").to_owned()],
        ("tests", [module, ..]) if directory.join(module).join("main.rs").exists() => {
            vec!["--test".to_owned(), module.clone()]
        }
        ("src", _) if directory.join("lib.rs").exists() => vec!["--lib".to_owned()],
        ("src", _) => vec!["--bins".to_owned()],
        _ => bail!("{} belongs to no single test binary", path.display()),
    })
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn target_of__by_place() {
        let root = crate::tools::root();
        let of = |path: &str| target_of(&root, Path::new(path)).expect("a target");
        let test = |name: &str| vec!["--test".to_owned(), name.to_owned()];
        assert_eq!(of("crates/sim/tests/allocation.rs"), test("allocation"));
        assert_eq!(of("crates/sim/tests/integration/mptcp.rs"), test("integration"));
        assert_eq!(of("crates/sim/tests/integration/pdq/robust.rs"), test("integration"));
        assert_eq!(of("crates/net/src/lib.rs"), ["--lib"]);
        assert_eq!(of("crates/cli/src/help.rs"), ["--lib"]);
        assert_eq!(of("crates/no-library/src/main.rs"), ["--bins"]);
        assert!(target_of(&root, Path::new("crates/sim/tests/common/x.rs")).is_err());
    }
}
