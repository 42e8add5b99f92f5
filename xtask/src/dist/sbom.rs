//! The list of components of the program (SBOM).

use crate::tools::{cargo, output};
use anyhow::Context as _;
use serde_json::{Value, json};
use std::process::Command;

/// The packages that the program for a target is made of, in the form of CycloneDX 1.5, and Rust's
/// standard library, which has the C library of musl in it.
pub(crate) fn sbom(version: &str, triple: &str) -> anyhow::Result<Value> {
    let mut command = cargo();
    command.args(["metadata", "--format-version=1", "--locked", "--filter-platform", triple]);
    let metadata: Value = serde_json::from_str(&output(&mut command)?)?;
    let packages = metadata["packages"].as_array().context("cargo lists packages")?;
    let id_of = |name: &str| {
        packages.iter().find(|package| package["name"] == name).map(|package| &package["id"])
    };
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo resolves packages")?;
    // What is linked into the program: dependencies without those for tests and build scripts.
    let mut linked: Vec<&Value> = id_of("punctual").into_iter().collect();
    let mut next = 0;
    while let Some(id) = linked.get(next).copied() {
        next += 1;
        let Some(node) = nodes.iter().find(|node| node["id"] == *id) else { continue };
        for dependency in node["deps"].as_array().into_iter().flatten() {
            let mut kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
            if kinds.any(|kind| kind["kind"].is_null()) && !linked.contains(&&dependency["pkg"]) {
                linked.push(&dependency["pkg"]);
            }
        }
    }
    let mut components: Vec<Value> = packages
        .iter()
        .filter(|package| linked.contains(&&package["id"]))
        .map(|package| {
            let (name, version) = (&package["name"], &package["version"]);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            json!({
                "type": "library", "name": name, "version": version,
                "purl": format!("pkg:cargo/{}@{}", text(name), text(version)),
                "licenses": [{ "expression": package["license"] }],
            })
        })
        .collect();
    components.sort_by_key(|component| component["purl"].to_string());
    let compiler = output(Command::new("rustc").arg("--version"))?;
    let rust = compiler.split(' ').nth(1).context("rustc has a version")?;
    components.push(json!({
        "type": "library", "name": format!("rust-std-{triple}"), "version": rust,
        "licenses": [{ "expression": "MIT OR Apache-2.0" }],
    }));
    Ok(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": {
            "type": "application", "name": "punctual", "version": version,
        } },
        "components": components,
    }))
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn sbom__what_is_linked_and_no_tools_of_tests() {
        let sbom = sbom("1.2.3", "x86_64-unknown-linux-musl").expect("a list");
        let components = sbom["components"].as_array().expect("components");
        let has = |name: &str| components.iter().any(|component| component["name"] == name);
        assert!(has("punctual-sim") && has("parquet") && has("clap"));
        assert!(has("rust-std-x86_64-unknown-linux-musl"));
        assert!(!has("proptest") && !has("bolero") && !has("pyo3") && !has("libbpf-rs"));
        assert!(!has("windows-sys") && !has("windows-link"));
        assert!(components.iter().all(|c| c["licenses"][0]["expression"].is_string()), "{sbom}");
    }
}
