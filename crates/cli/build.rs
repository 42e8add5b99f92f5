//! Finds the git commit that the program is built from; empty without git.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let own = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let root = Path::new(&own).join("../..");
    println!("cargo:rustc-env=PUNCTUAL_COMMIT={}", commit(&root).unwrap_or_default());
}

/// The commit, followed by `-dirty` if sources differ from it.
fn commit(root: &Path) -> Option<String> {
    // A package inside another repository does not have that repository's commit.
    let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let commit = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    // The log of HEAD grows at each commit and checkout.
    for name in ["logs/HEAD", "HEAD"] {
        let path = root.join(git(root, &["rev-parse", "--git-path", name])?);
        if path.exists() {
            println!("cargo:rerun-if-changed={}", path.display());
            break;
        }
    }
    println!("cargo:rerun-if-changed={}", root.join("Cargo.lock").display());
    for entry in std::fs::read_dir(root.join("crates")).ok()?.flatten() {
        println!("cargo:rerun-if-changed={}", entry.path().join("src").display());
    }
    let state = ["status", "--porcelain", "--untracked-files=no", "--", "crates", "Cargo.lock"];
    let dirty = if git(root, &state)?.is_empty() { "" } else { "-dirty" };
    Some(format!("{commit}{dirty}"))
}

fn git(root: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
