//! Messages between processes at hosts, while links lose packets, a link goes down and up, and the
//! switch is killed, stopped and started again.
//!
//! The test starts its own binary at hosts, as senders and as a receiver. Each appends what it did to
//! a log.

use crate::bed::{Bed, PROGRAM, is_possible, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use punctual_core::Rate;
use punctual_core::rng::Stream;
use punctual_host::{Endpoint, EndpointOptions, Outcome, SendHandle, SendOptions};
use punctual_switch::Testbed;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What a child process does: `receive LOG` or `send LOG FROM TO`.
const ROLE: &str = "PUNCTUAL_TESTBED_ROLE";
const QUEUE: &str = "{ kind = \"trim\", data = \"8packets\", headers = \"8packets\" }";
const RECEIVER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 7000);
/// Messages that a sender has under way.
const UNDER_WAY: usize = 16;

/// Not a test: the child processes run it. Without a role it does nothing.
#[test]
#[ignore = "runs in child processes of the other tests"]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let log = OpenOptions::new().append(true).create(true).open(words[1]).expect("a log");
    match words[0] {
        "receive" => receive(log),
        _ => {
            let number = |at: usize| words[at].parse::<u64>().expect("a number");
            send(log, number(2)..number(3));
        }
    }
}

/// Log-uniform from 8 B to 1 MB.
fn length_of(number: u64) -> usize {
    let unit = Stream::named(number, "length", 0).unit();
    (8.0 * (1e6f64 / 8.0).powf(unit)) as usize
}

/// A message: its number, then bytes that follow from it.
fn contents(number: u64) -> Vec<u8> {
    let mut stream = Stream::named(number, "contents", 0);
    let mut bytes = number.to_be_bytes().to_vec();
    while bytes.len() < length_of(number) {
        bytes.extend(stream.bits().to_be_bytes());
    }
    bytes.truncate(length_of(number).max(8));
    bytes
}

fn options() -> EndpointOptions {
    let (rate, silence) = (Rate::from_mbps(100), Duration::from_secs(10));
    EndpointOptions { rate, silence, ..EndpointOptions::default() }
}

fn receive(mut log: File) {
    let endpoint = Endpoint::bind(RECEIVER, options()).expect("an endpoint");
    let listener = endpoint.listen();
    // The parent kills it; otherwise it ends when nothing arrives any more.
    while let Some(message) = listener.accept_timeout(Duration::from_secs(60)) {
        let Ok(bytes) = message.expect("open").read_to_end() else { continue };
        let number = u64::from_be_bytes(*bytes.first_chunk().expect("a number"));
        let word = if bytes == contents(number) { "right" } else { "wrong" };
        log.write_all(format!("{number} {word}\n").as_bytes()).expect("it can be written");
    }
}

fn send(mut log: File, numbers: Range<u64>) {
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let endpoint = Endpoint::bind(any, options()).expect("an endpoint");
    let mut note = |(number, send): (u64, SendHandle)| {
        let outcome = send.wait();
        let word = match &outcome {
            Outcome::Done(_) => "done",
            Outcome::Unknown(..) => "unknown",
            _ => "failed",
        };
        if word != "done" {
            println!("message {number} of {} bytes: {outcome:?}", length_of(number));
        }
        log.write_all(format!("{number} {word}\n").as_bytes()).expect("it can be written");
    };
    let mut under_way = VecDeque::new();
    for number in numbers {
        let send = endpoint.send(RECEIVER, contents(number), &SendOptions::default());
        under_way.push_back((number, send.expect("it can be sent")));
        if under_way.len() >= UNDER_WAY {
            under_way.pop_front().into_iter().for_each(&mut note);
        }
    }
    under_way.into_iter().for_each(&mut note);
}

/// A process at a host, killed when dropped.
struct AtHost(Child);

impl AtHost {
    fn start(namespace: &str, role: String) -> AtHost {
        let child = Command::new("ip")
            .args(["netns", "exec", namespace])
            .arg(std::env::current_exe().expect("this program"))
            .args(["--exact", "messages::child", "--ignored", "--nocapture"])
            .env(ROLE, role)
            .stdout(Stdio::inherit())
            .spawn();
        AtHost(child.expect("ip starts"))
    }

    fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("a child").is_some()
    }
}

impl Drop for AtHost {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The words of a log, by number.
fn words(log: &Path) -> BTreeMap<u64, Vec<String>> {
    let mut words: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for line in std::fs::read_to_string(log).unwrap_or_default().lines() {
        if let Some((number, word)) = line.split_once(' ')
            && let Ok(number) = number.parse()
        {
            words.entry(number).or_default().push(word.to_owned());
        }
    }
    words
}

/// What happens to the testbed under way.
struct Faults<'a> {
    bed: &'a Bed,
    prefix: String,
}

impl Faults<'_> {
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.bed.switch_pid() as i32);
        kill(pid, signal).expect("the switch runs");
    }

    /// Changes the loss of all links while the switch runs.
    fn lose(&self, share: f64) {
        let file = Testbed::new(&self.prefix).config_file();
        let text = std::fs::read_to_string(&file).expect("a configuration");
        let lines = text.lines().filter(|line| !line.starts_with("loss = "));
        let lines = lines.map(|line| match line {
            "[[link]]" => format!("[[link]]\nloss = {share}\n"),
            line => format!("{line}\n"),
        });
        std::fs::write(&file, lines.collect::<String>()).expect("it can be written");
        self.signal(Signal::SIGHUP);
    }

    fn link(&self, state: &str) {
        let namespace = format!("{}-sw", self.prefix);
        let command = ["-n", &namespace, "link", "set", "port1", state];
        assert!(Command::new("ip").args(command).status().expect("ip starts").success());
    }

    fn restart(&self) {
        let program = Path::new(PROGRAM);
        Testbed::new(&self.prefix).restart_switch(program).expect("the switch starts");
    }

    /// The fault of this number. Returns whether there is one.
    fn happens(&self, number: usize) -> bool {
        let outage = Duration::from_millis(500);
        match number {
            0 => self.lose(0.01),
            1 => {
                self.link("down");
                sleep(outage);
                self.link("up");
            }
            2 => {
                self.signal(Signal::SIGKILL);
                sleep(outage);
                self.restart();
            }
            // A clean stop and a start.
            3 => self.restart(),
            4 => self.lose(0.0),
            _ => return false,
        }
        true
    }
}

fn soak(messages: u64, patience: Duration) {
    if !is_possible() {
        return;
    }
    let bed = Bed::star(3, "ndp", QUEUE);
    bed.must("up", &[]);
    let prefix = bed.prefix();
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| -> PathBuf { dir.path().join(name) };
    let received = path("received");
    let host = |host: u32| format!("{prefix}-h{host}");
    let _receiver = AtHost::start(&host(0), format!("receive {}", received.display()));
    sleep(Duration::from_millis(500));
    let half = messages / 2;
    let logs = [path("sent-1"), path("sent-2")];
    let mut senders = [(1, 0..half), (2, half..messages)].map(|(at, range)| {
        let log = logs[at as usize - 1].display().to_string();
        AtHost::start(&host(at), format!("send {log} {} {}", range.start, range.end))
    });
    let faults = Faults { bed: &bed, prefix: prefix.clone() };
    let sent = || logs.iter().flat_map(|log| words(log)).collect::<BTreeMap<_, _>>();
    let (begin, mut happened) = (Instant::now(), 0);
    while !senders.iter_mut().all(AtHost::has_ended) {
        assert!(begin.elapsed() < patience, "the senders did not end in time");
        let due = (happened as u64 + 1) * messages / 6;
        if sent().len() as u64 >= due && faults.happens(happened) {
            happened += 1;
        }
        sleep(Duration::from_millis(20));
    }
    assert_eq!(happened, 5, "every fault happened while messages were under way");
    let sent = sent();
    let count = |word: &str| sent.values().filter(|words| words[0] == word).count() as u64;
    // The receiver writes its log after the sender knows the outcome.
    let is_logged = || words(&received).len() as u64 >= count("done");
    wait_until("the receiver has logged the messages that are done", is_logged);
    // A second copy would be logged as soon.
    sleep(Duration::from_millis(300));
    let received = words(&received);
    println!(
        "{messages} messages: {} done, {} unknown, {} failed, {} received, in {:.1} s",
        count("done"),
        count("unknown"),
        count("failed"),
        received.len(),
        begin.elapsed().as_secs_f64()
    );
    for (number, words) in &received {
        assert_eq!(words, &["right"], "message {number}: damaged, or delivered twice");
    }
    for number in 0..messages {
        let outcome = sent.get(&number).map(|words| words.join(" ")).unwrap_or_default();
        match outcome.as_str() {
            "done" => assert!(received.contains_key(&number), "{number} is done, but not there"),
            "failed" => assert!(!received.contains_key(&number), "{number} failed, but is there"),
            "unknown" => {}
            other => panic!("message {number} has the outcome {other:?}"),
        }
    }
    // No outage is as long as the silence after which a send ends: all are delivered.
    assert_eq!(count("done"), messages);
}

#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn messages__survive_loss_a_cut_link_and_a_killed_switch() {
    soak(2_000, Duration::from_secs(600));
}
