//! Distributed sweeps: `punctual sweep`.

use crate::common::{Place, text};
use punctual_results::{HOST_FILE, Run, TASKS_FILE, TaskPlan, WriteOptions, read, write};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;

const SCENARIO: &str = r#"
name = "tiny"
transports = ["tcp", "ndp"]

[network]
topology = "star"
hosts = 6
rate = "10Gbps"
delay = "1us"

[[traffic]]
pattern = "incast"
senders = 4
sizes = "30KB"
deadlines = "1ms"

[run]
duration = "5ms"
repetitions = 3

[sweep]
traffic.senders = [2, 4]
"#;

/// Every file below a directory, but those that name the machine and the lock.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(&at).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                open.push(path);
            } else if name != HOST_FILE && name != ".lock" {
                let bytes = std::fs::read(&path).expect("a file");
                found.insert(path.strip_prefix(dir).unwrap().to_owned(), bytes);
            }
        }
    }
    found
}

fn assert_same(a: &Path, b: &Path) {
    let (a, b) = (files(a), files(b));
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&a), names(&b));
    for (name, bytes) in &a {
        assert!(*bytes == b[name], "{} differs", name.display());
    }
}

fn run(place: &Place, args: &[&str]) -> Output {
    let output = place.punctual(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    output
}

/// Runs a command that must fail with this code, and returns its messages.
fn refused(place: &Place, args: &[&str], code: i32) -> String {
    let output = place.punctual(args);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
    message
}

/// A sweep whose tasks are all finished.
fn finished() -> Place {
    let place = Place::new(SCENARIO);
    run(&place, &["sweep", "plan", "s.toml", "--out", "sweep"]);
    run(&place, &["sweep", "run", "sweep", "--quiet"]);
    place
}

#[test]
fn merge__has_the_bytes_of_a_comparison_on_one_machine() {
    let place = Place::new(SCENARIO);
    let table = run(&place, &["compare", "s.toml", "--out", "one-machine", "--quiet"]);
    let planned = run(&place, &["sweep", "plan", "s.toml", "--out", "sweep"]);
    assert!(text(&planned.stdout).starts_with("12 tasks: sweep/tasks.json"));
    // All shards at once, one of them twice.
    let shards = ["0/4", "1/4", "2/4", "3/4", "3/4"];
    let start = |shard: &&str| {
        place.command(&["sweep", "run", "sweep", "--quiet", "--shard", shard]).spawn().unwrap()
    };
    let mut children: Vec<_> = shards.iter().map(start).collect();
    assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    let merged = run(&place, &["sweep", "merge", "sweep", "--out", "many-machines"]);
    let own = |output: &Output, out: &str| text(&output.stdout).replace(out, "OUT");
    assert_eq!(own(&merged, "many-machines"), own(&table, "one-machine"));
    assert_same(&place.path().join("one-machine"), &place.path().join("many-machines"));
    // Results of other settings are never replaced.
    let other = ["run", "s.toml", "--set", "traffic.sizes=20KB", "--out", "other", "--quiet"];
    run(&place, &other);
    let before = files(&place.path().join("other"));
    let message = refused(&place, &["sweep", "merge", "sweep", "--out", "other"], 2);
    assert!(message.contains("holds results of other settings"), "{message}");
    assert!(before == files(&place.path().join("other")));
    // Again, over the same results.
    run(&place, &["sweep", "merge", "sweep", "--out", "many-machines", "--quiet"]);
    assert_same(&place.path().join("one-machine"), &place.path().join("many-machines"));
}

#[test]
fn run__keeps_what_is_finished_and_makes_the_rest() {
    let place = Place::new(SCENARIO);
    run(&place, &["sweep", "plan", "s.toml", "--out", "sweep"]);
    run(&place, &["sweep", "run", "sweep", "--task", "0-2,7"]);
    let status = run(&place, &["sweep", "status", "sweep"]);
    let expected = "tiny: 4 of 12 tasks finished\nto run: --task 3-6,8-11\n";
    assert_eq!(text(&status.stdout), expected);
    let message = refused(&place, &["sweep", "merge", "sweep"], 6);
    assert!(message.contains("task 3 is missing: ndp, traffic.senders=2, seed 1"), "{message}");
    assert!(message.contains("--task 3,4,5,6,8,9,10,11"), "{message}");
    let rest = run(&place, &["sweep", "run", "sweep", "--quiet", "--json"]);
    assert_eq!(text(&rest.stdout).matches("\"reused\":true").count(), 4);
    run(&place, &["sweep", "merge", "sweep", "--quiet"]);
    // The same plan again is no error and keeps the parts; another plan is refused.
    run(&place, &["sweep", "plan", "s.toml", "--out", "sweep"]);
    run(&place, &["sweep", "merge", "sweep", "--quiet"]);
    let other = ["sweep", "plan", "s.toml", "--out", "sweep", "--seed", "9"];
    assert!(refused(&place, &other, 2).contains("another sweep"));
    let message = refused(&place, &["sweep", "run", "sweep", "--task", "12"], 2);
    assert!(message.contains("tasks 0 to 11"), "{message}");
}

#[test]
fn merge__damaged_and_foreign_parts_are_named() {
    let place = finished();
    let part = place.path().join("sweep/parts/traffic.senders=2/ndp/seed-1");
    let flows = part.join("flows.parquet");
    let whole = std::fs::read(&flows).unwrap();
    std::fs::write(&flows, &whole[..whole.len() / 2]).unwrap();
    let message = refused(&place, &["sweep", "merge", "sweep"], 6);
    assert!(message.contains("task 3 is damaged"), "{message}");
    assert!(message.contains("seed-1/flows.parquet"), "{message}");
    let verified = run(&place, &["sweep", "status", "sweep", "--verify"]);
    assert!(text(&verified.stdout).contains("to run: --task 3\n"));
    // A run again mends it.
    run(&place, &["sweep", "run", "sweep", "--task", "3"]);
    assert_eq!(std::fs::read(&flows).unwrap(), whole);
    // A part of another task under its name.
    let other = place.path().join("sweep/parts/traffic.senders=4/ndp/seed-1");
    let aside = place.path().join("aside");
    std::fs::rename(&part, &aside).unwrap();
    copy(&other, &part);
    let message = refused(&place, &["sweep", "merge", "sweep"], 6);
    assert!(message.contains("does not belong to this plan: `traffic.0.senders`"), "{message}");
    std::fs::remove_dir_all(&part).unwrap();
    // A part of another repetition: `run` does not replace it, and says what to do.
    copy(&part.with_file_name("seed-2"), &part);
    for command in [&["sweep", "merge", "sweep"][..], &["sweep", "run", "sweep", "--quiet"]] {
        let message = refused(&place, command, 6);
        let expected = "seed-1 does not belong to this plan: it is a run of ndp with seed 2";
        assert!(message.contains(expected) && !message.contains("--fresh"), "{message}");
        assert!(message.contains("remove the parts that do not belong here"), "{message}");
    }
    std::fs::remove_dir_all(&part).unwrap();
    // A part of no task.
    copy(&aside, &part);
    copy(&aside, &part.with_file_name("seed-77"));
    let message = refused(&place, &["sweep", "merge", "sweep"], 6);
    assert!(message.contains("seed-77 does not belong to this plan: no task"), "{message}");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn other_builds__are_refused() {
    let place = finished();
    let part = place.path().join("sweep/parts/traffic.senders=2/tcp/seed-2");
    let mut files = read(&part).unwrap();
    files.manifest.build = "0123456789abcdef".into();
    let run_files = Run {
        ports: &files.ports,
        ..Run::new(&files.flows, &files.queues, &files.summary, &files.manifest)
    };
    write(&part, &run_files, WriteOptions { overwrite: true, csv: false }).unwrap();
    let message = refused(&place, &["sweep", "merge", "sweep"], 6);
    let expected = "task 1 was made by another build (0123456789abcdef) and is refused";
    assert!(message.contains(expected), "{message}");
    // The plan of another build.
    let dir = place.path().join("sweep");
    let mut plan = TaskPlan::read(&dir).unwrap().unwrap();
    plan.build = "0123456789abcdef".into();
    plan.write(&dir).unwrap();
    for command in ["run", "merge", "status"] {
        let message = refused(&place, &["sweep", command, "sweep"], 2);
        assert!(message.contains("planned by build 0123456789abcdef"), "{message}");
    }
    // A plan that is truncated.
    let path = dir.join(TASKS_FILE);
    let text = std::fs::read(&path).unwrap();
    std::fs::write(&path, &text[..text.len() / 2]).unwrap();
    assert!(refused(&place, &["sweep", "run", "sweep"], 1).contains("tasks.json"));
}

#[test]
fn merge__takes_parts_of_several_machines() {
    let place = Place::new(SCENARIO);
    run(&place, &["compare", "s.toml", "--out", "one-machine", "--quiet"]);
    run(&place, &["sweep", "plan", "s.toml", "--out", "a"]);
    run(&place, &["sweep", "plan", "s.toml", "--out", "b"]);
    run(&place, &["sweep", "run", "a", "--task", "0-6"]);
    run(&place, &["sweep", "run", "b", "--task", "6-11"]);
    let merge = ["sweep", "merge", "a", "--from", "b", "--out", "many-machines"];
    let merged = run(&place, &merge);
    let message = text(&merged.stderr);
    assert!(message.starts_with("1 parts are there twice with the same contents"), "{message}");
    assert_same(&place.path().join("one-machine"), &place.path().join("many-machines"));
    // Twice, but not the same: a build that writes other bytes and did not change its id.
    let part = place.path().join("b/parts/traffic.senders=4/tcp/seed-1");
    let files = read(&part).unwrap();
    let flows = &files.flows[1..];
    let run_files = Run {
        ports: &files.ports,
        network: files.network.as_ref(),
        ..Run::new(flows, &files.queues, &files.summary, &files.manifest)
    };
    write(&part, &run_files, WriteOptions { overwrite: true, csv: false }).unwrap();
    let message = refused(&place, &merge, 6);
    assert!(message.contains("task 6 has two parts that differ: a/parts"), "{message}");
}

#[test]
fn capacity__in_rounds_has_the_answer_of_one_machine() {
    let place = Place::new(&SCENARIO.replace("[sweep]\ntraffic.senders = [2, 4]", ""));
    let question = ["--vary", "traffic.senders", "--until", "deadlines_met >= 99%", "--to", "5"];
    let options = [&question[..], &["--set", "network.rate=1Gbps"]].concat();
    let options = [&options[..], &["--set", "traffic.deadlines=700us"]].concat();
    let one = [&["capacity", "s.toml", "--out", "one-machine", "--quiet"], &options[..]].concat();
    let one = place.punctual(&one);
    run(&place, &[&["sweep", "plan", "s.toml", "--out", "sweep"], &options[..]].concat());
    let mut rounds = 0;
    let merged = loop {
        run(&place, &["sweep", "run", "sweep", "--shard", "0/2", "--quiet"]);
        run(&place, &["sweep", "run", "sweep", "--shard", "1/2", "--quiet"]);
        let merged = place.punctual(&["sweep", "merge", "sweep", "--out", "many-machines"]);
        if merged.status.code() != Some(10) {
            break merged;
        }
        rounds += 1;
        let message = text(&merged.stderr);
        assert!(message.starts_with(&format!("round {rounds} has ")), "{message}");
        assert!(rounds < 50, "{message}");
    };
    assert!(rounds > 1, "a search takes several rounds");
    assert_eq!(merged.status.code(), one.status.code(), "{}", text(&merged.stderr));
    let own = |output: &Output, out: &str| text(&output.stdout).replace(out, "OUT");
    assert_eq!(own(&merged, "many-machines"), own(&one, "one-machine"));
    assert_same(&place.path().join("one-machine"), &place.path().join("many-machines"));
}

#[test]
fn plan__takes_the_files_of_the_scenario_along() {
    let listed = SCENARIO.replace(
        "pattern = \"incast\"\nsenders = 4\nsizes = \"30KB\"\ndeadlines = \"1ms\"",
        "pattern = \"list\"\nfile = \"traces/f.csv\"",
    );
    let listed = listed.replace("traffic.senders = [2, 4]", "network.hosts = [4, 6]");
    let place = Place::new(&listed);
    std::fs::create_dir(place.path().join("traces")).unwrap();
    let trace = place.path().join("traces/f.csv");
    std::fs::write(&trace, "src,dst,size,start\n0,1,30KB,0us\n2,1,30KB,1us\n").unwrap();
    run(&place, &["compare", "s.toml", "--out", "one-machine", "--quiet"]);
    run(&place, &["sweep", "plan", "s.toml", "--out", "sweep"]);
    // Another machine has the plan alone.
    std::fs::rename(place.path().join("sweep"), place.path().join("elsewhere")).unwrap();
    std::fs::remove_file(&trace).unwrap();
    run(&place, &["sweep", "run", "elsewhere", "--quiet"]);
    run(&place, &["sweep", "merge", "elsewhere", "--out", "many-machines"]);
    assert_same(&place.path().join("one-machine"), &place.path().join("many-machines"));
    let copy = place.path().join("elsewhere/inputs/traces/f.csv");
    std::fs::write(&copy, "src,dst,size,start\n0,1,31KB,0us\n").unwrap();
    let message = refused(&place, &["sweep", "run", "elsewhere"], 1);
    assert!(message.contains("is not the file that the sweep was planned with"), "{message}");
    // A file above the scenario cannot go along.
    let above = listed.replace("traces/f.csv", "../f.csv");
    std::fs::create_dir(place.path().join("sub")).unwrap();
    std::fs::write(place.path().join("sub/s.toml"), above).unwrap();
    std::fs::write(place.path().join("f.csv"), "src,dst,size,start\n0,1,30KB,0us\n").unwrap();
    let message = refused(&place, &["sweep", "plan", "sub/s.toml", "--out", "third"], 2);
    assert!(message.contains("`../f.csv`, which is not below its own directory"), "{message}");
}

#[test]
fn emit__recipes_run_every_shard() {
    let place = finished();
    for (engine, line) in [
        ("slurm", "sbatch --wait --array=0-11%4"),
        ("hyperqueue", "hq submit --wait --array=0-11"),
        ("kubernetes", "completions: 12"),
        ("parallel", "::: $(seq 0 11)"),
    ] {
        let args = ["sweep", "emit", engine, "sweep", "--jobs", "4"];
        let script = text(&run(&place, &args).stdout);
        assert!(script.contains(line), "{script}");
    }
    let script = text(&run(&place, &["sweep", "emit", "slurm", "sweep", "--shards", "5"]).stdout);
    assert!(script.contains("--array=0-4%5") && script.contains("/5"), "{script}");
}

#[test]
fn emit__slurm_arrays_have_no_index_that_slurm_refuses() {
    let place = Place::new(&SCENARIO.replace("repetitions = 3", "repetitions = 500"));
    run(&place, &["sweep", "plan", "s.toml", "--out", "sweep"]);
    let many = ["sweep", "emit", "slurm", "sweep", "--jobs", "900"];
    let script = text(&run(&place, &many).stdout);
    assert!(script.contains("--array=0-1000%900") && script.contains("/1001"), "{script}");
    // Who asks for more has a Slurm that takes them.
    let script = text(&run(&place, &[&many[..], &["--shards", "1500"]].concat()).stdout);
    assert!(script.contains("--array=0-1499%900"), "{script}");
}
