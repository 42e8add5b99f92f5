//! `cargo xtask dist`: what users download, with checksums and a list of components.

use crate::python::{SCENARIO, build_wheel, check_wheel};
use crate::steps::Outcome;
use crate::suite::target;
use crate::tools::{cargo, is_installed, output, root, run};
use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the static binary, the Debian package, the wheel and the container file into
/// `target/dist`, and tests each where there is no Rust.
pub(crate) fn dist() -> anyhow::Result<Outcome> {
    let out = target().join("dist");
    let _ = fs::remove_dir_all(&out);
    fs::create_dir_all(&out)?;
    let version = version()?;
    let triple = triple()?;
    let program = static_program(&triple)?;
    let name = format!("punctual-{version}-{triple}");
    fs::copy(&program, out.join(&name))?;
    let mut skipped = Vec::new();
    if let Err(why) = check_alone(&program)? {
        skipped.push(why);
    }
    match is_installed("dpkg-deb") {
        true => check_deb(&deb(&program, &out, &version)?)?,
        false => skipped.push("dpkg-deb is not installed".into()),
    }
    match build_wheel()? {
        Some(wheel) => {
            check_wheel(&wheel)?;
            fs::copy(&wheel, out.join(wheel.file_name().context("a wheel has a name")?))?;
        }
        None => skipped.push("no virtual environment for the wheel".into()),
    }
    fs::write(out.join("Containerfile"), containerfile(&name))?;
    let sbom = serde_json::to_string_pretty(&sbom(&version)?)?;
    fs::write(out.join(format!("punctual-{version}.cdx.json")), sbom + "\n")?;
    checksums(&out)?;
    for entry in fs::read_dir(&out)? {
        let entry = entry?;
        println!("{:>10}  {}", entry.metadata()?.len(), entry.path().display());
    }
    Ok(match skipped.is_empty() {
        true => Outcome::Passed,
        false => Outcome::Skipped(skipped.join("; ")),
    })
}

fn version() -> anyhow::Result<String> {
    let text = fs::read_to_string(root().join("Cargo.toml"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("version = \""));
    Ok(line.context("Cargo.toml has a version")?.trim_end_matches('"').to_owned())
}

/// musl if its standard library is installed (`rustup target add x86_64-unknown-linux-musl`),
/// otherwise glibc, linked statically.
fn triple() -> anyhow::Result<String> {
    let arch = std::env::consts::ARCH;
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let musl = format!("{arch}-unknown-linux-musl");
    let is_there = Path::new(sysroot.trim()).join("lib/rustlib").join(&musl).join("lib").exists();
    Ok(if is_there { musl } else { format!("{arch}-unknown-linux-gnu") })
}

/// Builds `punctual` without shared libraries. With `--target`, the flags do not reach build scripts
/// and macros, which cannot be static.
fn static_program(triple: &str) -> anyhow::Result<PathBuf> {
    let mut build = cargo();
    build.env("RUSTFLAGS", "-C target-feature=+crt-static");
    build.args(["build", "--release", "--locked", "--bin", "punctual", "--target", triple]);
    run(&mut build)?;
    let program = target().join(triple).join("release").join("punctual");
    let is_static = fs::read(&program)?.windows(19).all(|part| part != b"/lib64/ld-linux-x86");
    if !is_static {
        bail!("{} needs a dynamic linker", program.display());
    }
    Ok(program)
}

/// Runs the program in a root directory that has nothing else. The inner error says why it could
/// not be tried.
fn check_alone(program: &Path) -> anyhow::Result<Result<(), String>> {
    let id = output(Command::new("id").arg("-u"))?;
    if id.trim() != "0" || !is_installed("chroot") {
        return Ok(Err("a root directory of its own needs root and chroot".into()));
    }
    let place = target().join("dist-root");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(place.join("smoke"))?;
    fs::copy(program, place.join("punctual"))?;
    fs::write(place.join("smoke/s.toml"), SCENARIO)?;
    for args in [
        &["--version"][..],
        &["compare", "/smoke/s.toml", "--out", "/smoke/one", "--quiet"],
        &["sweep", "plan", "/smoke/s.toml", "--out", "/smoke/plan"],
        &["sweep", "run", "/smoke/plan", "--quiet"],
        &["sweep", "merge", "/smoke/plan", "--out", "/smoke/two", "--quiet"],
    ] {
        run(Command::new("chroot").arg(&place).arg("/punctual").args(args))?;
    }
    let flows =
        |dir: &str| fs::read(place.join("smoke").join(dir).join("ndp/seed-1/flows.parquet"));
    if flows("one")? != flows("two")? {
        bail!("a merged sweep differs from a comparison");
    }
    Ok(Ok(()))
}

/// Builds a Debian package: the program, its manual pages and completions.
fn deb(program: &Path, out: &Path, version: &str) -> anyhow::Result<PathBuf> {
    let tree = target().join("dist-deb");
    let _ = fs::remove_dir_all(&tree);
    let dir = |name: &str| -> anyhow::Result<PathBuf> {
        let path = tree.join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    };
    let bin = dir("usr/bin")?.join("punctual");
    fs::copy(program, &bin)?;
    fs::set_permissions(&bin, fs::Permissions::from_mode(0o755))?;
    run(Command::new(&bin).arg("man").arg(dir("usr/share/man/man1")?))?;
    for (shell, place, name) in [
        ("bash", "usr/share/bash-completion/completions", "punctual"),
        ("zsh", "usr/share/zsh/vendor-completions", "_punctual"),
        ("fish", "usr/share/fish/vendor_completions.d", "punctual.fish"),
    ] {
        let text = output(Command::new(&bin).args(["completions", shell]))?;
        fs::write(dir(place)?.join(name), text)?;
    }
    let doc = dir("usr/share/doc/punctual")?;
    let licences = ["LICENSE-MIT", "LICENSE-APACHE"].map(|name| root().join(name));
    let licences = licences.iter().map(fs::read_to_string).collect::<Result<Vec<_>, _>>()?;
    fs::write(doc.join("copyright"), licences.join("\n\n"))?;
    let scenarios = dir("usr/share/doc/punctual/scenarios")?;
    for entry in fs::read_dir(root().join("scenarios"))? {
        let path = entry?.path();
        if path.is_file() {
            fs::copy(&path, scenarios.join(path.file_name().context("a file has a name")?))?;
        }
    }
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        arch => arch,
    };
    let kilobytes = fs::metadata(&bin)?.len().div_ceil(1024);
    let control = format!(
        "Package: punctual\nVersion: {version}\nArchitecture: {arch}\nSection: net\n\
         Priority: optional\nInstalled-Size: {kilobytes}\n\
         Maintainer: the punctual developers <punctual@localhost>\n\
         Description: datacenter transports that finish on time\n \
         Compares NDP, D3, PDQ, D2TCP, DCTCP, TCP and others in a deterministic simulator:\n \
         which transport meets its deadlines, and at what load it stops.\n"
    );
    fs::write(dir("DEBIAN")?.join("control"), control)?;
    let package = out.join(format!("punctual_{version}_{arch}.deb"));
    run(Command::new("dpkg-deb").args(["--build", "--root-owner-group"]).arg(&tree).arg(&package))?;
    Ok(package)
}

/// Unpacks a Debian package and runs its program.
fn check_deb(package: &Path) -> anyhow::Result<()> {
    let place = target().join("dist-deb-unpacked");
    let _ = fs::remove_dir_all(&place);
    run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&place))?;
    run(Command::new(place.join("usr/bin/punctual")).arg("--version"))?;
    match place.join("usr/share/man/man1/punctual-sweep.1").exists() {
        true => Ok(()),
        false => bail!("the package has no manual pages"),
    }
}

/// A container with the program and nothing else.
fn containerfile(program: &str) -> String {
    format!(
        "# podman build -t punctual -f Containerfile .\n\
         # podman run -v \"$PWD:/work\" punctual compare my.toml\n\
         FROM docker.io/library/busybox:stable-musl\n\
         COPY {program} /usr/bin/punctual\n\
         WORKDIR /work\n\
         ENTRYPOINT [\"/usr/bin/punctual\"]\n"
    )
}

/// The packages that the program is made of, in the form of CycloneDX 1.5.
fn sbom(version: &str) -> anyhow::Result<Value> {
    let mut command = cargo();
    command.args(["metadata", "--format-version=1", "--locked"]);
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
    Ok(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": {
            "type": "application", "name": "punctual", "version": version,
        } },
        "components": components,
    }))
}

fn checksums(out: &Path) -> anyhow::Result<()> {
    let mut names: Vec<String> = fs::read_dir(out)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<anyhow::Result<_>>()?;
    names.sort();
    let sums = output(Command::new("sha256sum").current_dir(out).args(&names))?;
    fs::write(out.join("SHA256SUMS"), sums)?;
    run(Command::new("sha256sum").current_dir(out).args(["--check", "--quiet", "SHA256SUMS"]))
}
