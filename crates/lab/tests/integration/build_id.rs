//! The build id covers every source that can change a result.

#[allow(dead_code)]
#[path = "../../build.rs"]
mod build;

use build::build_id;
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
