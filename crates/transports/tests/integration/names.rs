//! No other crate knows a transport by its name: what it needs to know of one, the transport
//! declares (`Transport::INFO` and the methods of `Transport`).

use punctual_transports::AnyTransport;
use std::fs;
use std::path::{Path, PathBuf};

/// The crates whose sources must not name a transport.
const CRATES: &[&str] =
    &["core", "net", "workload", "sim", "fluid", "wire", "results", "report", "lab", "cli", "host"];

/// Files that may name transports, and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    (
        "lab/src/bench.rs",
        "the catalogue of benchmarks: which transport to measure on which traffic",
    ),
    ("cli/src/commands/kernel.rs", "the name of a congestion control in the kernel"),
    ("cli/src/commands/kernel/work.rs", "names of congestion controls in the kernel"),
    ("cli/src/help.rs", "examples of command lines in the help"),
    ("lab/src/catalogue/words.rs", "how the papers write the names, for readers of verdicts"),
    ("host/src/endpoint/fuzz.rs", "the fuzz target forges packets of each kind of header"),
    ("report/src/misses.rs", "the default baseline of `compare`; `--baseline` names another"),
];

/// All Rust files below a directory that are not tests.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory of sources can be read").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// A file without its unit tests, which stand at its end, and without comments on lines of their own.
fn code(text: &str) -> String {
    let starts = ["#[cfg(test)]\nmod tests {", "#[cfg(test)]\npub(crate) mod tests {"];
    let tests = starts.iter().find_map(|start| text.find(start)).unwrap_or(text.len());
    let lines = text[..tests].lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Names of transports that stand in quotes in this code. Quotes within a text are escaped.
fn names_in(code: &str) -> Vec<&'static str> {
    let quoted = |name: &str| {
        code.contains(&format!("\"{name}\"")) || code.contains(&format!("\\\"{name}\\\""))
    };
    AnyTransport::catalogue().iter().map(|t| t.name).filter(|name| quoted(name)).collect()
}

#[test]
fn no_other_crate_names_a_transport() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    for name in CRATES {
        let mut files = Vec::new();
        sources(&crates.join(name).join("src"), &mut files);
        assert!(!files.is_empty(), "{name} has no sources");
        for file in files {
            let place = file.strip_prefix(&crates).expect("below crates").to_owned();
            if EXCEPTIONS.iter().any(|(exception, _)| place == Path::new(exception)) {
                continue;
            }
            let text = fs::read_to_string(&file).expect("a source can be read");
            let names = names_in(&code(&text));
            if !names.is_empty() {
                wrong.push(format!("{}: {}", place.display(), names.join(", ")));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "these files name transports; declare what they need to know in `Transport` instead:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn names_are_found_in_quotes_only() {
    assert_eq!(names_in("match name { \"ndp\" => 1, _ => \"tcp-like\" }"), ["ndp"]);
    assert_eq!(names_in("help(\"add `transports = [\\\"d3\\\"]`\")"), ["d3"]);
    assert!(names_in(&code("// \"ndp\"\n#[cfg(test)]\nmod tests {\n \"tcp\" }")).is_empty());
}

/// A scenario names a transport as its results and the command line do.
#[test]
fn settings_and_catalogue_have_the_same_names() {
    for info in AnyTransport::catalogue() {
        let transport = AnyTransport::by_name(info.name, &Default::default());
        assert_eq!(transport.map(|t| t.name()), Some(info.name));
    }
}
