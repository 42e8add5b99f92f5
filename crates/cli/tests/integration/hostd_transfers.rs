//! `punctual send` and `punctual receive` through host daemons, and sends whose outcome is unknown.

use crate::common::{Place, text};
use punctual_host::{Endpoint, EndpointOptions};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

/// A process that says where it listens, killed when dropped.
pub(crate) struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
    pub(crate) address: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Running {
        let mut child =
            command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("a line");
        let rest = line.trim().strip_prefix("listening on ").expect("it says where");
        let address = rest.split(',').next().unwrap_or_default().to_owned();
        Running { child, stderr, address }
    }

    /// A host daemon with a socket of this name in `place`.
    fn daemon(place: &Place, socket: &str) -> Running {
        Self::start(place.command(&["hostd", "--listen", "127.0.0.1:0", "--socket", socket]))
    }

    /// A receiver into the directory `inbox`.
    pub(crate) fn receiver(place: &Place, args: &[&str]) -> Running {
        let receive = ["receive", "--into", "inbox", "--wait", "30s", "--json"];
        Self::start(place.command(&[&receive[..], args].concat()))
    }

    /// Its exit code, the objects that it printed and its messages.
    pub(crate) fn finish(mut self) -> (Option<i32>, Vec<Value>, String) {
        let mut printed = String::new();
        self.child.stdout.take().expect("piped").read_to_string(&mut printed).expect("text");
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).expect("text");
        let code = self.child.wait().expect("it ends").code();
        (code, objects(printed.as_bytes()), said)
    }
}

pub(crate) fn objects(printed: &[u8]) -> Vec<Value> {
    let lines = text(printed);
    lines.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

pub(crate) fn place() -> Place {
    let place = Place::new("");
    std::fs::create_dir(place.path().join("inbox")).expect("a directory");
    place
}

pub(crate) fn file(place: &Place, name: &str, len: usize) -> Vec<u8> {
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

fn refused(output: &Output, code: i32, words: &str) {
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
}

#[test]
fn hostd__many_files_and_no_directory() {
    let place = place();
    let (_here, there) = (Running::daemon(&place, "here"), Running::daemon(&place, "there"));
    let (a, b) = (file(&place, "a.bin", 50_000), file(&place, "b.bin", 9_000_000));
    let receiver =
        Running::receiver(&place, &["--via", "there", "--service", "backup", "--count", "2"]);
    assert_eq!(receiver.address, there.address, "the daemon's address is the one to send to");
    // A second receiver of the service, and a sender that names none.
    let second = ["receive", "--via", "there", "--service", "backup", "--out", "out"];
    refused(&place.punctual(&second), 1, "another process of this host receives for service");
    let unnamed = place.punctual(&["send", "a.bin", &there.address, "--via", "here"]);
    refused(&unnamed, 1, "does not accept messages");
    let args = ["a.bin", "inbox", "b.bin", &there.address, "--service", "backup", "--json"];
    // The environment names the daemon as well.
    let mut send = place.command(&[&["send"], &args[..]].concat());
    let output = send.env("PUNCTUAL_HOSTD", "here").output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let sent = objects(&output.stdout);
    let outcomes: Vec<&str> = sent.iter().filter_map(|o| o["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["done", "failed", "done"]);
    assert!(sent[1]["error"].as_str().expect("text").contains("a directory"));
    let (code, received, said) = receiver.finish();
    assert_eq!((code, received.len()), (Some(0), 2), "{said}");
    let dir = place.path().join("inbox");
    assert_eq!(names(&dir), ["a.bin", "b.bin"]);
    assert!(std::fs::read(dir.join("a.bin")).expect("stored") == a);
    assert!(std::fs::read(dir.join("b.bin")).expect("stored") == b);
}

/// A receiver that is killed leaves what it noted; the next one continues there. The daemons stay.
#[test]
fn hostd__resume_after_kill_9() {
    let place = place();
    let start = ["hostd", "--listen", "127.0.0.1:0", "--rate", "300Mbps", "--socket"];
    let [_here, there] = ["here", "there"]
        .map(|socket| Running::start(place.command(&[&start[..], &[socket]].concat())));
    let bytes = file(&place, "in", 40_000_000);
    let dir = place.path().join("inbox");
    let receiver = Running::receiver(&place, &["--via", "there", "--count", "1"]);
    let mut sending = place.command(&["send", "in", &there.address, "--via", "here"]);
    let mut sending = sending.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    for _ in 0..4_000 {
        let is_kept = names(&dir).iter().any(|name| name.ends_with(".partial"));
        if is_kept || sending.try_wait().expect("a state").is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(50));
    drop(receiver);
    let _ = sending.kill();
    let _ = sending.wait();
    let left = names(&dir);
    assert!(left.len() == 1 && left[0].starts_with(".punctual-"), "{left:?}");
    let receiver = Running::receiver(&place, &["--via", "there", "--count", "1"]);
    let output = place.punctual(&["send", "in", &there.address, "--via", "here", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let resumed = objects(&output.stdout)[0]["resumed_bytes"].as_u64().expect("a number");
    assert!(resumed >= 1 << 20 && resumed < bytes.len() as u64, "{resumed}");
    let (code, received, said) = receiver.finish();
    assert_eq!((code, received[0]["resumed_bytes"].as_u64()), (Some(0), Some(resumed)), "{said}");
    assert_eq!(names(&dir), ["in"]);
    assert!(std::fs::read(dir.join("in")).expect("stored") == bytes);
}

#[test]
fn hostd__errors_say_what_to_do() {
    let place = place();
    file(&place, "in", 1_000);
    let absent = "no host daemon answers";
    let send = ["send", "in", "127.0.0.1:9", "--via", "none", "--json"];
    let output = place.punctual(&send);
    refused(&output, 1, absent);
    let failed = &objects(&output.stdout)[0];
    assert_eq!((&failed["outcome"], &failed["file"]), (&"failed".into(), &"in".into()));
    refused(&place.punctual(&["receive", "--via", "none", "--out", "out"]), 1, absent);
    let with = |args: &[&str]| {
        let mut command = place.command(args);
        command.env("PUNCTUAL_HOSTD", "none").output().expect("it runs")
    };
    refused(&with(&["send", "in", "127.0.0.1:9"]), 1, absent);
    refused(&with(&["receive", "--out", "out"]), 1, absent);
    // An address on the command line counts more than the variable.
    let listening = ["receive", "--listen", "127.0.0.1:0", "--out", "out", "--wait", "1ms"];
    refused(&with(&listening), 1, "no sender within");
    refused(&place.punctual(&["receive", "--out", "out"]), 2, "--listen");
    let both = ["receive", "--via", "none", "--listen", "127.0.0.1:0", "--out", "out"];
    refused(&place.punctual(&both), 2, "cannot be used with");
    let rate = ["send", "in", "127.0.0.1:9", "--via", "none", "--rate", "1Gbps"];
    refused(&place.punctual(&rate), 2, "belong to the host daemon");
}

/// A receiver that has every byte and ends before it answers: exit code 8, and "unknown".
#[test]
fn unknown__has_its_own_exit_code() {
    let place = place();
    file(&place, "in", 1_000);
    let receiver =
        Endpoint::bind("127.0.0.1:0".parse().expect("an address"), EndpointOptions::default());
    let receiver = receiver.expect("a socket");
    let address = receiver.local_addr().to_string();
    let listener = receiver.listen();
    let receiving = std::thread::spawn(move || {
        let next = || listener.accept_timeout(Duration::from_secs(30)).expect("in time");
        let mut offer = next().expect("the offer");
        let bytes = offer.read_to_end().expect("its bytes");
        // "Accepted", with the sender's number; no byte is here yet.
        let mut answer = b"pnctlV3\x01".to_vec();
        answer.extend_from_slice(&bytes[16..32]);
        answer.resize(8 + 16 + 32 + 8 + 8, 0);
        assert!(offer.respond(answer).expect("a send").wait().is_delivered());
        let mut store = next().expect("the request to store it");
        assert_eq!(store.read_to_end().expect("its bytes").len(), 40 + 1_000);
        // Both are dropped without an answer, and with them the endpoint.
        drop((listener, receiver));
    });
    let output = place.punctual(&["send", "in", &address, "--json"]);
    receiving.join().expect("no panic");
    refused(&output, 8, "whether it stored the file is unknown");
    assert_eq!(objects(&output.stdout)[0]["outcome"], "unknown");
}
