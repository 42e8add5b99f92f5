//! The build id covers every source that can change a result.

#[allow(dead_code)]
#[path = "../../build.rs"]
mod build;

use build::{CRATES, TESTBED_CRATES, build_id};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn an_edited_protocol_is_another_build() {
    let place = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = place.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let id = || build_id(&place.path().join("crates/lab"));
    write("Cargo.lock", "[[package]]\n");
    write("crates/lab/src/lib.rs", "mod a;\n");
    write("crates/transports/src/ndp/mod.rs", "fn window() -> u32 {\n    30\n}\n");
    let first = id();
    assert_eq!(first.len(), 16);
    // Neither tests, nor the command line, nor line ends change a result.
    write("crates/lab/tests/a.rs", "x");
    write("crates/cli/src/main.rs", "x");
    write("crates/transports/src/ndp/mod.rs", "fn window() -> u32 {\r\n    30\r\n}\r\n");
    assert_eq!(id(), first);
    write("crates/transports/src/ndp/mod.rs", "fn window() -> u32 {\n    31\n}\n");
    let edited = id();
    assert_ne!(edited, first);
    write("Cargo.lock", "[[package]]\nversion = \"2\"\n");
    assert_ne!(id(), edited);
}

#[test]
fn the_library_has_the_id_of_its_sources() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert_eq!(build_id(own), punctual_lab::build_id());
}

/// Every crate of the workspace that this one uses, directly or through others, is in the id.
#[test]
fn the_id_covers_every_crate_that_the_lab_uses() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let used_by = |name: &str| -> Vec<String> {
        let manifest = fs::read_to_string(crates.join(name).join("Cargo.toml")).expect(name);
        // Tests change no result.
        let sections = manifest.split("\n[").filter(|text| !text.starts_with("dev-dependencies]"));
        let lines = sections.flat_map(str::lines);
        let names = lines.filter_map(|line| line.strip_prefix("punctual-"));
        names.filter_map(|rest| rest.split(['.', ' ']).next().map(str::to_owned)).collect()
    };
    let (mut used, mut new) = (BTreeSet::new(), vec!["lab".to_owned()]);
    while let Some(name) = new.pop() {
        new.extend(used_by(&name).into_iter().filter(|other| !used.contains(other)));
        used.insert(name);
    }
    let covered: BTreeSet<String> =
        CRATES.iter().chain(&TESTBED_CRATES).map(|name| (*name).to_owned()).collect();
    assert_eq!(used, covered);
}
