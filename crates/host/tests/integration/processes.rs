//! Messages between processes that are killed and started again.
//!
//! The test starts its own binary as a sender and as a receiver. Both append what they did to a log:
//! a killed process leaves its log behind.

use crate::endpoint::{contents, size};
use crate::support::{Faults, Limits, Lossy};
use punctual_core::rng::Stream;
use punctual_host::{Endpoint, EndpointOptions, Outcome, SendOptions};
use std::collections::{HashMap, VecDeque};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a child process does: `receive ADDRESS LOG` or `send ADDRESS LOG FROM TO MAX`.
const ROLE: &str = "PUNCTUAL_TEST_ROLE";

/// Not a test: the child processes run it. Without a role it does nothing.
#[test]
#[ignore = "runs in child processes of the other tests"]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let log = OpenOptions::new().append(true).create(true).open(words[2]).unwrap();
    match words[0] {
        "receive" => receive(words[1].parse().unwrap(), log),
        _ => {
            let number = |at: usize| words[at].parse::<u64>().unwrap();
            send(words[1].parse().unwrap(), log, number(3)..number(4), number(5) as f64);
        }
    }
}

fn length_of(number: u64, max: f64) -> usize {
    size(&mut Stream::named(number, "length", 0), max)
}

fn receive(listen: SocketAddr, mut log: std::fs::File) {
    let endpoint = Endpoint::bind(listen, EndpointOptions::default()).unwrap();
    let listener = endpoint.listen();
    // The parent kills it; otherwise it ends when nothing arrives any more.
    while let Some(message) = listener.accept_timeout(Duration::from_secs(60)) {
        let Ok(bytes) = message.unwrap().read_to_end() else { continue };
        let number = u64::from_be_bytes(*bytes.first_chunk().unwrap());
        let is_right = bytes == contents(number, bytes.len());
        log.write_all(format!("{number} {is_right} {}\n", bytes.len()).as_bytes()).unwrap();
    }
}

fn send(peer: SocketAddr, mut log: std::fs::File, numbers: std::ops::Range<u64>, max: f64) {
    let silence = Duration::from_secs(5);
    let options = EndpointOptions { silence, ..EndpointOptions::default() };
    let endpoint = Endpoint::bind(SocketAddr::from(([127, 0, 0, 1], 0)), options).unwrap();
    let mut under_way = VecDeque::new();
    let mut note = |(number, send): (u64, punctual_host::SendHandle)| {
        let word = match send.wait() {
            Outcome::Done(_) => "done",
            Outcome::Unknown(..) => "unknown",
            _ => "failed",
        };
        log.write_all(format!("{number} {word} {}\n", length_of(number, max)).as_bytes()).unwrap();
    };
    for number in numbers {
        let data = contents(number, length_of(number, max));
        let send = endpoint.send(peer, data, &SendOptions::default()).unwrap();
        under_way.push_back((number, send));
        if under_way.len() >= 16 {
            note(under_way.pop_front().unwrap());
        }
    }
    under_way.into_iter().for_each(&mut note);
}

/// A child process, killed when dropped.
struct Running(Child);

impl Running {
    fn start(role: String) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::child", "--ignored", "--nocapture"])
            .env(ROLE, role)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Running(child)
    }

    fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A line of a log: number, word, bytes.
type Line = (u64, String, usize);

fn lines(log: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let parse = |line: &str| {
        let mut words = line.split(' ');
        let number = words.next()?.parse().ok()?;
        Some((number, words.next()?.to_string(), words.next()?.parse().ok()?))
    };
    text.lines().filter_map(parse).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Kill {
    Nobody,
    Receiver,
    Sender,
}

struct Soak {
    messages: u64,
    max: f64,
    faults: Faults,
    kill: Kill,
    kills: u64,
    limits: Limits,
}

/// What the receiver and the senders logged.
fn run(soak: &Soak, seed: u64) -> (Vec<Line>, Vec<Line>) {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { dir.path().join(name) };
    let (received, sent) = (path("received"), path("sent"));
    // An address of its own, so that no other test takes the port before the child has it.
    let own = format!("127.77.0.{seed}:0");
    let port = std::net::UdpSocket::bind(own).unwrap().local_addr().unwrap();
    let relay = Lossy::start_within(port, soak.faults, seed, soak.limits);
    let start_receiver = || Running::start(format!("receive {port} {}", received.display()));
    let start_sender = |from: u64| {
        let (to, max) = (soak.messages, soak.max);
        Running::start(format!("send {} {} {from} {to} {max}", relay.address(), sent.display()))
    };
    let mut receiver = start_receiver();
    std::thread::sleep(Duration::from_millis(300));
    let mut sender = start_sender(0);
    let give_up_at = Instant::now() + soak.limits.life;
    let mut killed = 0;
    while !sender.has_ended() && Instant::now() < give_up_at {
        std::thread::sleep(Duration::from_millis(20));
        let due = (killed + 1) * soak.messages / (soak.kills + 1);
        let done = lines(&sent).last().map_or(0, |(number, ..)| *number + 1);
        if soak.kill == Kill::Nobody || killed >= soak.kills || done < due {
            continue;
        }
        killed += 1;
        if soak.kill == Kill::Receiver {
            drop(receiver);
            std::thread::sleep(Duration::from_millis(30));
            receiver = start_receiver();
        } else {
            drop(sender);
            // Numbers that the killed process may have used are not used again.
            let next = lines(&sent).last().map_or(0, |(number, ..)| *number) + 40;
            sender = start_sender(next);
        }
    }
    assert!(sender.has_ended(), "the sender did not end in time");
    if soak.kill != Kill::Nobody {
        assert_eq!(killed, soak.kills);
    }
    std::thread::sleep(Duration::from_millis(300));
    (lines(&received), lines(&sent))
}

fn check(soak: &Soak, seed: u64) {
    let (received, sent) = run(soak, seed);
    let mut times: HashMap<u64, usize> = HashMap::new();
    for (number, is_right, len) in &received {
        assert_eq!(is_right, "true", "message {number} is damaged");
        assert_eq!(*len, length_of(*number, soak.max), "message {number}");
        *times.entry(*number).or_default() += 1;
    }
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "delivered twice: {twice:?}");
    let outcomes = |word: &str| sent.iter().filter(|(_, w, _)| w == word).count() as u64;
    let (done, unknown, failed) = (outcomes("done"), outcomes("unknown"), outcomes("failed"));
    eprintln!("{done} done, {unknown} unknown, {failed} failed, {} received", received.len());
    for (number, word, _) in &sent {
        assert!(word != "failed" || !times.contains_key(number), "{number} was delivered");
    }
    // A receiver that is killed has up to 16 messages that it acknowledged and did not log.
    let unlogged = sent.iter().filter(|(n, word, _)| word == "done" && !times.contains_key(n));
    let unlogged = unlogged.count() as u64;
    let excuse = if soak.kill == Kill::Receiver { 32 * soak.kills } else { 0 };
    assert!(unlogged <= excuse, "{unlogged} messages were acknowledged but not delivered");
    if soak.kill == Kill::Sender {
        assert!(done + unknown >= soak.messages - (40 + 16) * soak.kills);
    } else {
        assert_eq!(sent.len() as u64, soak.messages, "every send has an outcome");
    }
    if soak.kill == Kill::Nobody {
        assert_eq!(done, soak.messages);
    }
}

const FAULTS: Faults =
    Faults { drop: 0.02, duplicate: 0.02, reorder: 0.05, corrupt: 0.01, trim: 0.02 };
const SHORT: Limits = Limits { life: Duration::from_secs(60), datagrams: 1_000_000 };
const LONG: Limits = Limits { life: Duration::from_secs(1_800), datagrams: 100_000_000 };

#[test]
fn soak__each_message_once() {
    let (messages, max, faults) = (300, 1e5, FAULTS);
    check(&Soak { messages, max, faults, kill: Kill::Nobody, kills: 0, limits: SHORT }, 1);
}

#[test]
fn soak__the_receiver_is_killed() {
    let (messages, max, faults) = (300, 3e4, FAULTS);
    check(&Soak { messages, max, faults, kill: Kill::Receiver, kills: 3, limits: SHORT }, 2);
}

#[test]
fn soak__the_sender_is_killed() {
    let (messages, max, faults) = (400, 3e4, FAULTS);
    check(&Soak { messages, max, faults, kill: Kill::Sender, kills: 3, limits: SHORT }, 3);
}

#[test]
#[ignore = "takes minutes: cargo test -p punctual-host --release -- --ignored soak__full"]
fn soak__full() {
    for (seed, drop) in [(1, 0.0), (2, 0.01), (3, 0.1)] {
        let faults = Faults { drop, ..FAULTS };
        for (kill, kills) in [(Kill::Nobody, 0), (Kill::Receiver, 10), (Kill::Sender, 10)] {
            let soak = Soak { messages: 10_000, max: 1e6, faults, kill, kills, limits: LONG };
            check(&soak, seed);
        }
    }
}
