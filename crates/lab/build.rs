//! Computes the build id: a hash of every source that can change a result. Equal sources have equal
//! ids on every machine, with or without git.

use std::fs;
use std::path::Path;

/// The crates that a result depends on, this one included.
pub(crate) const CRATES: [&str; 9] =
    ["core", "fluid", "lab", "net", "record", "results", "sim", "transports", "workload"];

/// The crates that a run on a testbed depends on besides.
pub(crate) const TESTBED_CRATES: [&str; 4] = ["host", "switch", "testbed", "wire"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let own = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo:rustc-env=PUNCTUAL_BUILD={}", build_id(Path::new(&own)));
    let testbed = id_of(Path::new(&own), &TESTBED_CRATES);
    println!("cargo:rustc-env=PUNCTUAL_TESTBED_BUILD={}", &testbed[..8]);
}

/// The id of the sources around the directory of this crate.
pub(crate) fn build_id(own: &Path) -> String {
    id_of(own, &CRATES)
}

fn id_of(own: &Path, names: &[&str]) -> String {
    let crates = own.join("..");
    let mut hash = blake3::Hasher::new();
    for name in names.iter().copied() {
        // A crate that was packaged by itself has no siblings; its Cargo.toml names their versions.
        let dir = if name == "lab" { own.to_owned() } else { crates.join(name) };
        add(&mut hash, &dir.join("Cargo.toml"), &format!("{name}/Cargo.toml"));
        add(&mut hash, &dir.join("src"), &format!("{name}/src"));
    }
    // Random numbers and mathematical functions come from other packages.
    add(&mut hash, &crates.join("../Cargo.lock"), "Cargo.lock");
    hash.finalize().to_hex()[..16].to_owned()
}

/// Hashes a file, or all files below a directory in the order of their names.
fn add(hash: &mut blake3::Hasher, path: &Path, name: &str) {
    if !path.exists() {
        return;
    }
    if path.is_dir() {
        println!("cargo:rerun-if-changed={}", path.display());
        let entries = fs::read_dir(path).expect("a directory of sources can be read");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry can be read").file_name())
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        for entry in names {
            add(hash, &path.join(&entry), &format!("{name}/{entry}"));
        }
        return;
    }
    println!("cargo:rerun-if-changed={}", path.display());
    let mut text = fs::read(path).expect("a source can be read");
    // Git may check out other line ends.
    text.retain(|byte| *byte != b'\r');
    for part in [name.as_bytes(), &text] {
        hash.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
}
