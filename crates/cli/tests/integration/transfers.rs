//! `punctual send` and `punctual receive` as processes: what they print, how they exit, and what a
//! killed one leaves behind.

use crate::common::{Place, text};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

/// A receiver and what it says, killed when dropped.
struct Receiving {
    child: Child,
    stderr: BufReader<ChildStderr>,
    address: String,
}

impl Drop for Receiving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Receiving {
    fn start(place: &Place, args: &[&str]) -> Receiving {
        let listen = ["receive", "--listen", "127.0.0.1:0", "--wait", "30s", "--json"];
        let mut command = place.command(&[&listen[..], args].concat());
        let mut child =
            command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on ").expect("it says where").to_owned();
        Receiving { child, stderr, address }
    }

    /// Its exit code, the objects that it printed and its messages.
    fn finish(mut self) -> (Option<i32>, Vec<Value>, String) {
        let mut printed = String::new();
        self.child.stdout.take().expect("piped").read_to_string(&mut printed).expect("text");
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).expect("text");
        let code = self.child.wait().expect("it ends").code();
        (code, objects(&printed), said)
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill").success());
    }
}

fn objects(printed: &str) -> Vec<Value> {
    printed.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

fn sent(output: &Output) -> Vec<Value> {
    objects(&text(&output.stdout))
}

fn file(place: &Place, name: &str, len: usize) -> Vec<u8> {
    let bytes: Vec<u8> =
        (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(place.path().join(name), &bytes).expect("a file");
    bytes
}

fn names(dir: &Path) -> Vec<String> {
    let entries = dir.read_dir().expect("a directory");
    let mut names: Vec<String> =
        entries.map(|e| e.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

#[test]
fn send__many_files_one_object_each() {
    let place = Place::new("");
    let dir = place.path().join("inbox");
    std::fs::create_dir_all(place.path().join("folder")).expect("a directory");
    std::fs::create_dir(&dir).expect("a directory");
    let (a, b) = (file(&place, "a.bin", 50_000), file(&place, "b.bin", 6_000_000));
    let receiving = Receiving::start(&place, &["--into", "inbox", "--count", "2"]);
    let args = ["send", "a.bin", "missing", "folder", "b.bin", &receiving.address, "--json"];
    let output = place.punctual(&args);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let objects = sent(&output);
    let outcomes: Vec<&str> =
        objects.iter().map(|o| o["outcome"].as_str().expect("text")).collect();
    assert_eq!(outcomes, ["done", "failed", "failed", "done"]);
    assert!(objects[1]["error"].as_str().expect("text").contains("no such file"));
    assert!(objects[2]["error"].as_str().expect("text").contains("a directory"));
    assert!(objects.iter().all(|o| o["traffic"]["dropped"].is_object()), "{objects:?}");
    let (code, received, _) = receiving.finish();
    assert_eq!((code, received.len()), (Some(0), 2));
    assert_eq!(names(&dir), ["a.bin", "b.bin"]);
    assert!(std::fs::read(dir.join("a.bin")).expect("stored") == a);
    assert!(std::fs::read(dir.join("b.bin")).expect("stored") == b);
}

/// Exit code 7 at both ends, and the file is stored all the same.
#[test]
fn deadline__a_miss_has_its_own_exit_code() {
    let place = Place::new("");
    // 8 MB at 100 Mb/s take 640 ms.
    let bytes = file(&place, "in", 8_000_000);
    let receiving = Receiving::start(&place, &["--out", "out", "--rate", "100Mbps"]);
    let args = ["send", "in", &receiving.address, "--deadline", "100ms", "--json"];
    let output = place.punctual(&[&args[..], &["--rate", "100Mbps"]].concat());
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert_eq!(sent(&output)[0]["outcome"], "missed");
    let (code, received, _) = receiving.finish();
    assert_eq!((code, &received[0]["outcome"]), (Some(7), &Value::from("missed")));
    assert!(std::fs::read(place.path().join("out")).expect("stored") == bytes);
}

#[test]
fn failure__is_an_object_too() {
    let place = Place::new("");
    file(&place, "in", 1_000);
    let nobody = std::net::UdpSocket::bind("127.77.3.1:0").expect("a port");
    let address = nobody.local_addr().expect("an address").to_string();
    drop(nobody);
    let output = place.punctual(&["send", "in", "in", &address, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let objects = sent(&output);
    assert_eq!(objects.len(), 2, "one for each file");
    assert!(objects.iter().all(|object| object["outcome"] == "failed"), "{objects:?}");
    let why = objects[0]["error"].as_str().expect("text");
    assert!(why.contains("nothing seems to listen there"), "{why}");
    assert!(objects[0]["traffic"]["sent"].as_u64().expect("a number") > 0);
}

/// Sends a large file slowly and calls `disturb` when a part of it has arrived.
fn interrupted(place: &Place, receiving: Receiving, disturb: impl FnOnce(&Receiving)) -> Receiving {
    let args = ["send", "in", &receiving.address, "--rate", "300Mbps", "--json"];
    let mut sending = place.command(&args);
    let mut sending = sending.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    let dir = place.path().join("inbox");
    let is_kept = || names(&dir).iter().any(|name| name.ends_with(".partial"));
    for _ in 0..2_000 {
        if is_kept() || sending.try_wait().expect("a state").is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(100));
    disturb(&receiving);
    let _ = sending.kill();
    let _ = sending.wait();
    receiving
}

const LARGE: usize = 40_000_000;

/// A receiver that is killed loses nothing that it noted; the next one continues there.
#[test]
fn resume__after_kill_9() {
    let place = Place::new("");
    let dir = place.path().join("inbox");
    std::fs::create_dir(&dir).expect("a directory");
    let bytes = file(&place, "in", LARGE);
    let into = ["--into", "inbox", "--count", "1"];
    let receiving = Receiving::start(&place, &into);
    drop(interrupted(&place, receiving, |receiving| receiving.signal("-KILL")));
    let left = names(&dir);
    assert!(left.len() == 1 && left[0].starts_with(".punctual-"), "{left:?}");
    let receiving = Receiving::start(&place, &into);
    let output = place.punctual(&["send", "in", &receiving.address, "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let resumed = sent(&output)[0]["resumed_bytes"].as_u64().expect("a number");
    assert!(resumed >= 1 << 20 && resumed < LARGE as u64, "{resumed}");
    let (code, received, _) = receiving.finish();
    assert_eq!((code, received[0]["resumed_bytes"].as_u64()), (Some(0), Some(resumed)));
    assert_eq!(names(&dir), ["in"]);
    assert!(std::fs::read(dir.join("in")).expect("stored") == bytes);
}

/// Both processes are stopped for longer than a peer may be silent, as by a job control or a machine
/// without a free processor. Neither takes that for silence of the other.
#[test]
fn pause__of_both_ends_is_no_silence() {
    let place = Place::new("");
    let bytes = file(&place, "in", LARGE);
    let receiving = Receiving::start(&place, &["--out", "out"]);
    let mut sending = place.command(&["send", "in", &receiving.address, "--rate", "100Mbps"]);
    let mut sending = sending.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
    let pids = [receiving.child.id().to_string(), sending.id().to_string()];
    let signal = |name: &str| {
        let status = Command::new("kill").arg(name).args(&pids).status().expect("kill");
        assert!(status.success());
    };
    // 40 MB at 100 Mb/s take 3.2 s.
    std::thread::sleep(Duration::from_millis(1_500));
    signal("-STOP");
    std::thread::sleep(Duration::from_millis(6_000));
    signal("-CONT");
    let mut said = String::new();
    sending.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert!(sending.wait().expect("it ends").success(), "{said}");
    let (code, _, said) = receiving.finish();
    assert_eq!(code, Some(0), "{said}");
    assert!(std::fs::read(place.path().join("out")).expect("stored") == bytes);
}

/// After a signal the receiver says what it keeps. With `--no-resume` it keeps nothing.
#[test]
fn signals__leave_what_was_asked_for() {
    for (signal, extra) in [("-INT", None), ("-TERM", Some("--no-resume"))] {
        let place = Place::new("");
        let dir = place.path().join("inbox");
        std::fs::create_dir(&dir).expect("a directory");
        file(&place, "in", LARGE);
        let mut args = vec!["--out", "inbox/out"];
        args.extend(extra);
        let receiving = Receiving::start(&place, &args);
        let receiving = if extra.is_some() {
            // Nothing shows in the directory, so time decides: the transfer takes a second.
            let address = receiving.address.clone();
            let send = ["send", "in", &address, "--rate", "300Mbps"];
            let mut sending = place.command(&send);
            let sending = sending.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            let mut sending = sending.expect("it starts");
            std::thread::sleep(Duration::from_millis(500));
            receiving.signal(signal);
            let _ = sending.kill();
            let _ = sending.wait();
            receiving
        } else {
            interrupted(&place, receiving, |receiving| receiving.signal(signal))
        };
        let (code, objects, said) = receiving.finish();
        assert_eq!(code, Some(130), "{said}");
        assert_eq!(objects.last().expect("an object")["outcome"], "failed");
        match extra {
            None => {
                assert!(said.contains("what arrived is kept as inbox/.punctual-"), "{said}");
                assert_eq!(names(&dir).len(), 1);
            }
            Some(_) => assert!(names(&dir).is_empty(), "{:?}", names(&dir)),
        }
    }
}

/// The system calls of a receiver, in order: the file reaches the disk, gets its name, and the
/// directory reaches the disk.
#[test]
fn stored__is_on_the_disk_before_it_has_a_name() {
    let place = Place::new("");
    file(&place, "in", 10_000);
    let receive = place.command(&[]);
    let mut command = Command::new("strace");
    command
        .current_dir(place.path())
        .args(["-f", "-y", "-o", "calls", "-e", "trace=fsync,linkat,rename,renameat2"])
        .arg(receive.get_program())
        .args(["receive", "--listen", "127.0.0.1:0", "--out", "out", "--wait", "30s"]);
    let started = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
    let Ok(mut child) = started else {
        assert!(std::env::var_os("PUNCTUAL_NO_SKIPS").is_none(), "strace is not installed");
        eprintln!("SKIPPED: strace is not installed; run `cargo xtask setup`");
        return;
    };
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    stderr.read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("listening on ").expect("it says where").to_owned();
    let output = place.punctual(&["send", "in", &address]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(child.wait().expect("it ends").success());
    let calls = std::fs::read_to_string(place.path().join("calls")).expect("the calls");
    let at = |what: &dyn Fn(&str) -> bool| calls.lines().position(what).expect("a call");
    let named = at(&|call| call.contains("linkat(") && call.contains("out\""));
    let is_sync = |call: &str| call.contains("fsync(");
    assert!(calls.lines().take(named).any(is_sync), "{calls}");
    assert!(calls.lines().skip(named).any(is_sync), "{calls}");
}
