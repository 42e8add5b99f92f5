//! A copy of the work tree that mutants are built in, so that the tree itself never changes. It has
//! a fixed place: what was built there before is reused.

use crate::tools::{output, root};
use anyhow::Context as _;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the copy equal to the work tree, without touching files that are equal already. Returns
/// where it is.
pub(super) fn update() -> anyhow::Result<PathBuf> {
    let mut list = Command::new("git");
    list.current_dir(root());
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let names: BTreeSet<PathBuf> = output(&mut list)?
        .split_terminator('\0')
        .map(PathBuf::from)
        .filter(|name| root().join(name).is_file())
        .collect();
    let copy = root().join("target/mutants/tree");
    mirror(&root(), &copy, &names)?;
    Ok(copy)
}

/// Makes `to` hold the named files of `from` and no others.
fn mirror(from: &Path, to: &Path, names: &BTreeSet<PathBuf>) -> anyhow::Result<()> {
    for name in names {
        let text = read(&from.join(name))?;
        let path = to.join(name);
        if std::fs::read(&path).ok().as_ref() != Some(&text) {
            let dir = path.parent().unwrap_or(to);
            std::fs::create_dir_all(dir)
                .with_context(|| format!("cannot create {}", dir.display()))?;
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    remove_others(to, Path::new(""), names)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Removes the files in and below `dir` of the copy that are not named.
fn remove_others(copy: &Path, dir: &Path, names: &BTreeSet<PathBuf>) -> anyhow::Result<()> {
    let path = copy.join(dir);
    for entry in path.read_dir().with_context(|| format!("cannot read {}", path.display()))? {
        let entry = entry?;
        let name = dir.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            remove_others(copy, &name, names)?;
        } else if !names.contains(&name) {
            std::fs::remove_file(entry.path())
                .with_context(|| format!("cannot remove {}", entry.path().display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn mirror__copies_changes_and_removes_the_rest() {
        let base = std::env::temp_dir().join(format!("punctual-mirror-{}", std::process::id()));
        let (from, to) = (base.join("from"), base.join("to"));
        std::fs::create_dir_all(from.join("a")).expect("directory");
        std::fs::create_dir_all(to.join("a")).expect("directory");
        let write = |path: PathBuf, text: &str| std::fs::write(path, text).expect("written");
        write(from.join("a/changed"), "new");
        write(from.join("equal"), "same");
        write(from.join("not named"), "");
        write(to.join("a/changed"), "old");
        write(to.join("a/gone"), "");
        write(to.join("equal"), "same");
        let written = |path: PathBuf| path.metadata().and_then(|m| m.modified()).expect("time");
        let before = written(to.join("equal"));

        let names = ["a/changed", "equal"].map(PathBuf::from).into();
        mirror(&from, &to, &names).expect("mirrored");
        assert_eq!(std::fs::read_to_string(to.join("a/changed")).expect("text"), "new");
        assert!(!to.join("a/gone").exists() && !to.join("not named").exists());
        assert_eq!(written(to.join("equal")), before, "cargo would build it again");
        std::fs::remove_dir_all(&base).expect("removed");
    }
}
