//! The container file, and its test without an engine for containers.

use super::clean::{check_same_flows, empty_root, fetch, run_in_system};
use crate::tools::{output, run};
use anyhow::{Context as _, bail};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The container file. Its last image, which is made by default, has the program, and a shell for the
/// jobs of Kubernetes. The image `dask` has Python with the wheel, for the pods of a Dask cluster.
pub(super) fn containerfile(program: &str, wheel: Option<&str>) -> String {
    let dask = wheel.map(dask_image).unwrap_or_default();
    format!(
        "# The program:\n\
         #   podman build -t punctual -f Containerfile .\n\
         #   podman run -v \"$PWD:/work\" punctual compare my.toml\n\
         {dask}\n\
         FROM docker.io/library/busybox:stable-musl\n\
         COPY {program} /usr/bin/punctual\n\
         WORKDIR /work\n\
         ENTRYPOINT [\"/usr/bin/punctual\"]\n"
    )
}

fn dask_image(wheel: &str) -> String {
    format!(
        "# Python with the package, its command and Dask, for the pods of a Dask cluster:\n\
         #   podman build -t punctual-dask --target dask -f Containerfile .\n\
         # Python and Dask need the versions of the client:\n\
         #   --build-arg PYTHON=3.13 --build-arg PACKAGES=\"dask==2026.8.0 distributed==2026.8.0\"\n\
         ARG PYTHON=3.13\n\
         \n\
         FROM docker.io/library/python:${{PYTHON}}-slim AS dask\n\
         ARG PACKAGES=\n\
         COPY {wheel} /tmp/{wheel}\n\
         RUN pip install --no-cache-dir \"/tmp/{wheel}[dask]\" $PACKAGES\n\
         # Dask's operator starts these two commands, which Dask itself has until 2026.3 only.\n\
         RUN for name in scheduler worker; do \
         file=\"$(dirname \"$(command -v dask)\")/dask-$name\"; \
         printf '#!/bin/sh\\nexec dask %s \"$@\"\\n' \"$name\" > \"$file\" && chmod 755 \"$file\"; done\n\
         WORKDIR /work\n"
    )
}

/// Follows the instructions of the image with the program and uses it as a container would: with the
/// scenario's directory as `/work`, and by the shell, as in the job that `punctual sweep emit
/// kubernetes` prints. Busybox of this system is the base, because the base that the file names is in
/// a registry.
pub(super) fn check_program_image(out: &Path) -> anyhow::Result<()> {
    let image = image(out, "busybox")?;
    let place = empty_root("dist-container-root")?;
    let busybox = output(Command::new("sh").args(["-c", "command -v busybox"]))?;
    let bin = place.join("bin");
    fs::create_dir_all(&bin)?;
    fs::copy(busybox.trim(), bin.join("sh"))?;
    image.copy_files(out, &place)?;
    fs::rename(place.join("smoke"), image.inside(&place, &image.directory))?;
    let root = format!("--root={}", place.display());
    let start = || {
        let mut start = Command::new("unshare");
        start.arg(&root).arg(format!("--wd={}", image.directory));
        start.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        start
    };
    let program = image.entry.as_ref().context("the image runs no program")?;
    run(start().arg(program).args(["compare", "smoke.toml", "--out", "one", "--quiet"]))?;
    run(start().arg(program).args(["sweep", "plan", "smoke.toml", "--out", "plan"]))?;
    for index in ["0", "1"] {
        let shard = "exec punctual sweep run plan --threads 1 --quiet --shard \"$INDEX/2\"";
        run(start().env("INDEX", index).args(["sh", "-c", shard]))?;
    }
    run(start().arg(program).args(["sweep", "merge", "plan", "--out", "two", "--quiet"]))?;
    check_same_flows(&image.inside(&place, &image.directory), &["one", "two"])?;
    Ok(fs::remove_dir_all(place)?)
}

/// Makes an environment of this system's Python, in place of the base image, whose Python has no
/// packages either. Then follows the instructions, without a network, and uses the image.
const CHECK_DASK_IMAGE: &str = r#"
python3 -m venv /opt/python
export PATH="/opt/python/bin:$PATH"
export PIP_NO_INDEX=1 PIP_FIND_LINKS=/smoke/wheels PIP_DISABLE_PIP_VERSION_CHECK=1 PACKAGES=
INSTRUCTIONS
cd DIRECTORY
python use.py
"#;

/// Uses the image as Dask's operator for Kubernetes does, whose pods start these commands and ask for
/// `/health` until the scheduler is there, and as the job that `punctual sweep emit kubernetes` prints.
const USE_DASK_IMAGE: &str = r#"
import json, os, subprocess, time, urllib.request
import distributed, punctual.dask

punctual.compare("smoke.toml", out="one", progress=False)

here = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"]
line = ["dask-scheduler", *here, "--port", "0", "--scheduler-file", "scheduler.json"]
scheduler = subprocess.Popen(line)
while not os.path.exists("scheduler.json"):
    assert scheduler.poll() is None
    time.sleep(0.1)
with open("scheduler.json") as file:
    told = json.load(file)
health = f"http://127.0.0.1:{told['services']['dashboard']}/health"
assert urllib.request.urlopen(health).read() == b"ok"
line = ["dask-worker", *here, "--name", "one", "--dashboard"]
subprocess.Popen(line, env={**os.environ, "DASK_SCHEDULER_ADDRESS": told["address"]})
with distributed.Client(told["address"]) as client:
    # A pod has a file system of its own.
    punctual.dask.sweep("smoke.toml", out="two", client=client, shared=False, progress=False)

punctual.plan("smoke.toml", "plan")
for index in "01":
    shard = f'exec punctual sweep run plan --threads 1 --quiet --shard "{index}/2"'
    subprocess.run(["sh", "-c", shard], check=True)
punctual.merge("plan", out="three")
"#;

/// Follows the instructions of the image `dask` and uses it.
pub(super) fn check_dask_image(out: &Path) -> anyhow::Result<()> {
    let image = image(out, "python")?;
    let place = empty_root("dist-dask-root")?;
    let [(wheel, _)] = &image.copies[..] else { bail!("the image needs one file, the wheel") };
    fetch(&[&format!("{}[dask]", out.join(wheel).display())], &place.join("smoke/wheels"))?;
    image.copy_files(out, &place)?;
    let work = image.inside(&place, &image.directory);
    fs::create_dir_all(&work)?;
    fs::copy(place.join("smoke/smoke.toml"), work.join("smoke.toml"))?;
    fs::write(work.join("use.py"), USE_DASK_IMAGE)?;
    let script = CHECK_DASK_IMAGE
        .replace("INSTRUCTIONS", &image.commands.join("\n"))
        .replace("DIRECTORY", &image.directory);
    run_in_system(&place, &script)?;
    check_same_flows(&work, &["one", "two", "three"])?;
    Ok(fs::remove_dir_all(place)?)
}

/// The instructions for one image of a container file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Image {
    /// The image that it begins with.
    base: String,
    /// The name by which `--target` chooses it.
    name: Option<String>,
    /// The files that are copied, and where to.
    copies: Vec<(String, String)>,
    /// The commands that a shell runs.
    commands: Vec<String>,
    /// The working directory.
    directory: String,
    /// The program that runs; none where a container names its own.
    entry: Option<String>,
}

impl Image {
    fn inside(&self, place: &Path, path: &str) -> std::path::PathBuf {
        place.join(path.trim_start_matches('/'))
    }

    fn copy_files(&self, out: &Path, place: &Path) -> anyhow::Result<()> {
        for (source, target) in &self.copies {
            let target = self.inside(place, target);
            fs::create_dir_all(target.parent().context("a file is in a directory")?)?;
            fs::copy(out.join(source), &target)?;
        }
        Ok(())
    }
}

/// The image of the container file in `out` whose base has this name.
fn image(out: &Path, base: &str) -> anyhow::Result<Image> {
    let images = parse(&fs::read_to_string(out.join("Containerfile"))?)?;
    let is_it = |image: &Image| image.base.contains(&format!("/{base}:"));
    images.into_iter().find(is_it).with_context(|| format!("no image begins with {base}"))
}

/// The images of a container file.
fn parse(text: &str) -> anyhow::Result<Vec<Image>> {
    let mut images: Vec<Image> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (instruction, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = rest.split(' ').collect();
        match (instruction, &words[..], images.last_mut()) {
            ("FROM", [base], _) => {
                images.push(Image { base: (*base).into(), ..Image::default() });
            }
            ("FROM", [base, "AS", name], _) => {
                let name = Some((*name).into());
                images.push(Image { base: (*base).into(), name, ..Image::default() });
            }
            // Arguments have defaults, which the test sets where a command uses them.
            ("ARG", [_], _) => {}
            ("COPY", [source, target], Some(image)) => {
                image.copies.push(((*source).into(), (*target).into()));
            }
            ("RUN", _, Some(image)) => image.commands.push(rest.into()),
            ("WORKDIR", [directory], Some(image)) => image.directory = (*directory).into(),
            ("ENTRYPOINT", _, Some(image)) => {
                let [entry] = serde_json::from_str::<[String; 1]>(rest)?;
                image.entry = Some(entry);
            }
            _ => bail!("this test does not know the line `{line}` of a container file"),
        }
    }
    Ok(images)
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn containerfile__the_last_image_runs_the_program_that_it_copies() {
        for wheel in [None, Some("punctual-1.2.3-cp39-abi3-linux_x86_64.whl")] {
            let images = parse(&containerfile("punctual-1.2.3", wheel)).expect("a container file");
            let image = images.last().expect("an image");
            let [(source, target)] = &image.copies[..] else { panic!("{image:?}") };
            assert_eq!(source, "punctual-1.2.3");
            assert_eq!(image.entry.as_ref(), Some(target));
            assert_eq!((image.directory.as_str(), &image.name), ("/work", &None));
        }
        assert!(parse("FROM x\nSHELL y").is_err() && parse("RUN make").is_err());
    }

    #[test]
    fn containerfile__the_image_dask_leaves_commands_to_its_pods() {
        let text = containerfile("punctual-1.2.3", Some("punctual-1.2.3.whl"));
        let images = parse(&text).expect("a container file");
        let image = &images[0];
        assert_eq!((image.name.as_deref(), &image.entry), (Some("dask"), &None));
        assert_eq!(image.copies, [("punctual-1.2.3.whl".into(), "/tmp/punctual-1.2.3.whl".into())]);
        assert!(image.commands[0].contains("/tmp/punctual-1.2.3.whl[dask]"), "{image:?}");
        assert_eq!(parse(&containerfile("punctual-1.2.3", None)).expect("one").len(), 1);
    }
}
