//! `cargo xtask dist`: what users download, with checksums and a list of components.

mod clean;
mod container;
mod sbom;

use crate::python::{WHEEL_PROFILE, build_wheel};
use crate::setup::{has_musl, musl_target};
use crate::steps::Outcome;
use crate::tools::{cargo, is_installed, output, root, run, target};
use anyhow::{Context as _, bail};
pub(crate) use clean::check_wheel;
use sbom::sbom;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Cargo's profile: `release` for what users download, `smoke` to test it.
    pub(crate) profile: String,
}

impl Default for Options {
    fn default() -> Self {
        Options { profile: "release".into() }
    }
}

impl Options {
    /// Parses the command line. The error is the invalid argument.
    pub(crate) fn parse(args: &[&str]) -> Result<Options, String> {
        match args {
            [] => Ok(Options::default()),
            ["--profile", profile] => Ok(Options { profile: (*profile).into() }),
            [other, ..] => Err((*other).into()),
        }
    }

    /// The option of dpkg-deb for the level of compression: only what users download need be small.
    fn compression(&self) -> &'static str {
        if self.profile == "release" { "-z6" } else { "-z1" }
    }

    /// Where the files go: `target/dist` has only what may be published.
    fn directory(&self) -> PathBuf {
        match &*self.profile {
            "release" => target().join("dist"),
            profile => target().join(format!("dist-{profile}")),
        }
    }

    /// The profile of the wheel.
    fn wheel_profile(&self) -> &str {
        match &*self.profile {
            "release" => WHEEL_PROFILE,
            profile => profile,
        }
    }
}

/// Builds the static binary, the Debian package, the wheel and the container file, and tests each
/// where there is no Rust.
pub(crate) fn dist(options: &Options) -> anyhow::Result<Outcome> {
    let out = options.directory();
    let _ = fs::remove_dir_all(&out);
    fs::create_dir_all(&out)?;
    let version = version()?;
    let musl = musl_target();
    let mut skipped = Vec::new();
    let triple = match has_musl() {
        true => musl,
        false => {
            skipped.push(format!("{musl} is not installed, so the binary is linked with glibc"));
            format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
        }
    };
    let program = static_program(&triple, &options.profile)?;
    let name = format!("punctual-{version}-{triple}");
    fs::copy(&program, out.join(&name))?;
    let may_chroot = clean::may_chroot()?;
    match may_chroot {
        true => clean::check_program(&program)?,
        false => skipped.push("a root directory of its own needs root, chroot and unshare".into()),
    }
    match is_installed("dpkg-deb") && is_installed("dpkg") {
        true => {
            let package = deb(&program, &out, &version, options.compression())?;
            if may_chroot {
                clean::check_deb(&package)?;
            }
        }
        false => skipped.push("dpkg is not installed".into()),
    }
    let wheel = build_wheel(options.wheel_profile())?;
    let wheel = match &wheel {
        Some(wheel) => {
            check_wheel(wheel)?;
            let name = wheel.file_name().context("a wheel has a name")?;
            fs::copy(wheel, out.join(name))?;
            Some(name.to_string_lossy())
        }
        None => {
            skipped.push("no virtual environment for the wheel".into());
            None
        }
    };
    fs::write(out.join("Containerfile"), container::containerfile(&name, wheel.as_deref()))?;
    if may_chroot {
        match is_installed("busybox") {
            true => container::check_program_image(&out)?,
            false => skipped.push("busybox, the base of the container, is missing".into()),
        }
        if wheel.is_some() {
            container::check_dask_image(&out)?;
        }
    }
    let sbom = serde_json::to_string_pretty(&sbom(&version, &triple)?)?;
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

/// Makes a command of cargo build without shared libraries. With `--target`, the flags do not reach
/// build scripts and macros, which cannot be static.
pub(crate) fn make_static(command: &mut Command, triple: &str) {
    command.env("RUSTFLAGS", "-C target-feature=+crt-static").args(["--target", triple]);
}

/// Builds `punctual` without shared libraries.
fn static_program(triple: &str, profile: &str) -> anyhow::Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--profile", profile, "--locked", "--bin", "punctual"]);
    make_static(&mut build, triple);
    run(&mut build)?;
    let program = target().join(triple).join(profile).join("punctual");
    let elf = fs::read(&program)?;
    if needs_interpreter(&elf) {
        bail!("{} needs a dynamic linker", program.display());
    }
    if has_symbols(&elf) {
        bail!("{} is not stripped", program.display());
    }
    Ok(program)
}

/// A little-endian number of an ELF file; what is not there is 0.
fn number(elf: &[u8], offset: usize, size: usize) -> usize {
    let bytes = elf.get(offset..offset.saturating_add(size)).unwrap_or_default();
    bytes.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte))
}

/// Whether an ELF program of 64 bits has a program header of the type `PT_INTERP`: the path of a
/// dynamic linker.
fn needs_interpreter(elf: &[u8]) -> bool {
    const PT_INTERP: usize = 3;
    let (headers, size) = (number(elf, 0x20, 8), number(elf, 0x36, 2));
    (0..number(elf, 0x38, 2)).any(|index| number(elf, headers + index * size, 4) == PT_INTERP)
}

/// Whether an ELF program of 64 bits has a section of the type `SHT_SYMTAB`: symbols that stripping
/// removes.
fn has_symbols(elf: &[u8]) -> bool {
    const SHT_SYMTAB: usize = 2;
    let (headers, size) = (number(elf, 0x28, 8), number(elf, 0x3a, 2));
    (0..number(elf, 0x3c, 2)).any(|index| number(elf, headers + index * size + 4, 4) == SHT_SYMTAB)
}

/// Builds a Debian package: the program, its manual pages and completions.
fn deb(program: &Path, out: &Path, version: &str, compression: &str) -> anyhow::Result<PathBuf> {
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
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.args(["--build", "--root-owner-group", compression]).arg(&tree).arg(&package);
    run(&mut dpkg)?;
    Ok(package)
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

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn options__a_profile_has_a_directory_of_its_own() {
        let release = Options::parse(&[]).expect("options");
        let smoke = Options::parse(&["--profile", "smoke"]).expect("options");
        assert!(release.directory().ends_with("dist"));
        assert!(smoke.directory().ends_with("dist-smoke"));
        assert_eq!((release.wheel_profile(), smoke.wheel_profile()), ("wheel", "smoke"));
        assert!(Options::parse(&["--profile"]).is_err() && Options::parse(&["all"]).is_err());
    }

    #[test]
    fn needs_interpreter__a_program_with_shared_libraries_does() {
        let own = std::env::current_exe().expect("this program");
        assert!(needs_interpreter(&fs::read(own).expect("its bytes")));
        assert!(!needs_interpreter(b"\x7fELF"));
    }

    #[test]
    fn has_symbols__a_program_that_is_not_stripped_has() {
        let own = std::env::current_exe().expect("this program");
        assert!(has_symbols(&fs::read(own).expect("its bytes")));
        assert!(!has_symbols(b"\x7fELF"));
    }
}
