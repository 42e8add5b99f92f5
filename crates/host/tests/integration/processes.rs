//! Messages between processes that are killed and started again.
//!
//! The test starts its own binary as a sender and as a receiver. Both append what they did to a log:
//! a killed process leaves its log behind.

use crate::endpoint::contents;
use crate::support::{Done, Faults, Limits, Lossy};
use punctual_core::rng::Stream;
use punctual_host::{Endpoint, EndpointOptions, HostTransport, Outcome, SendOptions};
use std::collections::{BTreeMap, VecDeque};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a child process does: `receive ADDRESS LOG` or `send ADDRESS LOG FROM TO MAX TRANSPORT`.
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
            let transport = HostTransport::named(words[6]).unwrap();
            let options = SendOptions { transport, ..SendOptions::default() };
            send(words[1].parse().unwrap(), log, number(3)..number(4), number(5) as f64, &options);
        }
    }
}

/// The length of a message: from 1 B to `max`, log-uniform.
fn length_of(number: u64, max: f64) -> usize {
    max.powf(Stream::named(number, "length", 0).unit()) as usize
}

/// The bytes of a message: from 8 B on, its number is in front; shorter ones are its last bytes.
fn bytes_of(number: u64, len: usize) -> Vec<u8> {
    match len {
        0..8 => number.to_be_bytes()[8 - len..].to_vec(),
        _ => contents(number, len),
    }
}

/// What the bytes of a message say about its number: all of it, or the last bytes.
fn mark_of(number: u64, len: usize) -> u64 {
    if len < 8 { number & ((1 << (8 * len)) - 1) } else { number }
}

const SILENCE: Duration = Duration::from_secs(5);

/// The memory of both ends is less than the defaults, so that exceeding it shows.
fn options() -> EndpointOptions {
    EndpointOptions {
        silence: SILENCE,
        receive_memory: 16 << 20,
        send_memory: 32 << 20,
        peers_max: 1 << 10,
        ..EndpointOptions::default()
    }
}

/// The most memory that the receiver and the sender of a soak may have for their own data: what
/// their options allow, and what the test itself holds. Twice that, because an allocator does not
/// return every page that was freed.
fn memory_max(max: f64) -> [u64; 2] {
    let options = options();
    let peers = options.peers_max * 500;
    // Packets that wait for room: 128 of each of 64 flows, of one MTU.
    let parked = 128 * options.flows_per_peer * options.mtu.get() as usize;
    // 32 datagrams in each direction, of up to 64 KiB.
    let batches = 2 * 32 * (1 << 16);
    // The message that is made or read, and what it is compared with.
    let own = 2 * max as usize;
    let receiver = options.receive_memory + parked;
    [receiver, options.send_memory].map(|messages| 2 * (messages + peers + batches + own) as u64)
}

fn receive(listen: SocketAddr, mut log: std::fs::File) {
    let endpoint = Endpoint::bind(listen, options()).unwrap();
    let listener = endpoint.listen();
    // The parent kills it; otherwise it ends when nothing arrives any more.
    while let Some(message) = listener.accept_timeout(Duration::from_secs(60)) {
        let Ok(bytes) = message.unwrap().read_to_end() else { continue };
        let first = bytes.iter().take(8);
        let number = first.fold(0, |number, byte| number << 8 | u64::from(*byte));
        let is_right = !bytes.is_empty() && bytes == bytes_of(number, bytes.len());
        log.write_all(format!("{number} {is_right} {}\n", bytes.len()).as_bytes()).unwrap();
    }
}

fn send(
    peer: SocketAddr,
    mut log: std::fs::File,
    numbers: std::ops::Range<u64>,
    max: f64,
    with: &SendOptions,
) {
    let endpoint = Endpoint::bind(SocketAddr::from(([127, 0, 0, 1], 0)), options()).unwrap();
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
        let data = bytes_of(number, length_of(number, max));
        let send = endpoint.send(peer, data, with).unwrap();
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

    /// Memory of its own data, without that of its program.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) << 10
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
    /// One or the other, at random.
    Either,
}

struct Soak {
    transport: HostTransport,
    messages: u64,
    max: f64,
    faults: Faults,
    kill: Kill,
    kills: u64,
    limits: Limits,
}

/// What the receiver and the senders logged, and how often each was killed.
struct Ended {
    received: Vec<Line>,
    sent: Vec<Line>,
    receiver_kills: u64,
    sender_kills: u64,
    /// The most memory that receivers and senders had.
    memory: [u64; 2],
    faults: Done,
}

fn run(soak: &Soak, seed: u64) -> Ended {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { dir.path().join(name) };
    let (received, sent) = (path("received"), path("sent"));
    // An address of its own, so that no other test takes the port before the child has it.
    let own = format!("127.77.0.{seed}:0");
    let port = std::net::UdpSocket::bind(own).unwrap().local_addr().unwrap();
    let relay = Lossy::start_within(port, soak.faults, seed, soak.limits);
    let start_receiver = || Running::start(format!("receive {port} {}", received.display()));
    let start_sender = |from: u64| {
        let (to, max, name) = (soak.messages, soak.max, soak.transport.name());
        let log = sent.display();
        Running::start(format!("send {} {log} {from} {to} {max} {name}", relay.address()))
    };
    let mut receiver = start_receiver();
    std::thread::sleep(Duration::from_millis(300));
    let mut from = 0;
    let mut sender = start_sender(from);
    let give_up_at = Instant::now() + soak.limits.life;
    let mut stream = Stream::named(seed, "kills", 0);
    let mut due: Vec<u64> = (0..soak.kills).map(|_| stream.below(soak.messages)).collect();
    due.sort_unstable();
    let (mut receiver_kills, mut sender_kills) = (0, 0);
    let mut memory = [0; 2];
    while !sender.has_ended() && Instant::now() < give_up_at {
        std::thread::sleep(Duration::from_millis(20));
        memory = [memory[0].max(receiver.memory()), memory[1].max(sender.memory())];
        let Some(next) = due.first() else { continue };
        let done = lines(&sent).last().map_or(0, |(number, ..)| *number + 1);
        if done < *next {
            continue;
        }
        due.remove(0);
        let is_receiver = match soak.kill {
            Kill::Receiver => true,
            Kill::Sender | Kill::Nobody => false,
            Kill::Either => stream.coin(),
        };
        if is_receiver {
            receiver_kills += 1;
            drop(receiver);
            std::thread::sleep(Duration::from_millis(30));
            receiver = start_receiver();
        } else {
            sender_kills += 1;
            drop(sender);
            // Numbers that the killed process may have used are not used again, also if it was
            // killed before it logged one.
            let last = lines(&sent).last().map_or(0, |(number, ..)| *number);
            from = last.max(from) + 40;
            sender = start_sender(from);
        }
    }
    assert!(sender.has_ended(), "the sender did not end in time");
    std::thread::sleep(Duration::from_millis(300));
    let (received, sent) = (lines(&received), lines(&sent));
    Ended { received, sent, receiver_kills, sender_kills, memory, faults: relay.finish() }
}

/// Counts messages by their length and what their bytes say about their number.
type Counts = BTreeMap<(usize, u64), u64>;

fn count(counts: &mut Counts, number: u64, len: usize) {
    *counts.entry((len, mark_of(number, len))).or_default() += 1;
}

fn check(soak: &Soak, seed: u64) {
    let start = Instant::now();
    let ended = run(soak, seed);
    let Ended { received, sent, receiver_kills, sender_kills, memory, faults } = &ended;
    let [mut arrived, mut possible, mut done, mut failed] = [const { Counts::new() }; 4];
    for number in 0..soak.messages {
        count(&mut possible, number, length_of(number, soak.max));
    }
    for (number, is_right, len) in received {
        assert_eq!(is_right, "true", "message {number} is damaged");
        count(&mut arrived, *number, *len);
    }
    let mut unknown = 0;
    for (number, word, len) in sent {
        match word.as_str() {
            "done" => count(&mut done, *number, *len),
            "failed" => count(&mut failed, *number, *len),
            _ => unknown += 1,
        }
    }
    let sum = |counts: &Counts| counts.values().sum::<u64>();
    let of = |counts: &Counts, key| counts.get(key).copied().unwrap_or(0);
    eprintln!("{faults:?}");
    eprintln!(
        "{} messages over {}, {receiver_kills} kills of the receiver, {sender_kills} of the sender: {} done, \
         {unknown} unknown, {} failed, {} received; {:.0} s; memory of the receiver {} of {} \
         MB, of the sender {} of {} MB",
        soak.messages,
        soak.transport.name(),
        sum(&done),
        sum(&failed),
        sum(&arrived),
        start.elapsed().as_secs_f64(),
        memory[0] / 1_000_000,
        memory_max(soak.max)[0] / 1_000_000,
        memory[1] / 1_000_000,
        memory_max(soak.max)[1] / 1_000_000,
    );
    // None twice: of messages that cannot be told apart, no more than were sent. One that failed was
    // not delivered.
    for (key, times) in &arrived {
        let most = of(&possible, key) - of(&failed, key);
        assert!(*times <= most, "messages {key:?}: {times} arrived of {most}");
    }
    // A receiver that is killed has up to 16 messages that it acknowledged and did not log.
    let unlogged = done.iter().map(|(key, n)| n.saturating_sub(of(&arrived, key))).sum::<u64>();
    let excuse = 32 * receiver_kills;
    assert!(unlogged <= excuse, "{unlogged} messages were acknowledged but not delivered");
    // Every send has an outcome; a killed sender leaves up to 56 numbers out.
    let outcomes = sent.len() as u64;
    assert!(outcomes + (40 + 16) * sender_kills >= soak.messages, "{outcomes} outcomes");
    if soak.kill == Kill::Nobody {
        assert_eq!(sum(&done), soak.messages);
    }
    for (bytes, most) in memory.iter().zip(memory_max(soak.max)) {
        assert!(*bytes <= most, "{bytes} bytes of memory, {most} allowed");
    }
}

/// Loss between 0 and 10 %, drawn anew each second, and everything else.
const FAULTS: Faults = Faults {
    drop: 0.1,
    duplicate: 0.02,
    reorder: 0.05,
    corrupt: 0.01,
    trim: 0.02,
    drop_varies: true,
};
const SHORT: Limits = Limits { life: Duration::from_secs(60), datagrams: 1_000_000 };
const LONG: Limits = Limits { life: Duration::from_secs(1_800), datagrams: 100_000_000 };

#[test]
fn soak__each_message_once() {
    let (messages, max, faults) = (300, 1e5, FAULTS);
    check(
        &Soak {
            transport: HostTransport::Ndp,
            messages,
            max,
            faults,
            kill: Kill::Nobody,
            kills: 0,
            limits: SHORT,
        },
        1,
    );
}

#[test]
fn soak__the_receiver_is_killed() {
    let (messages, max, faults) = (300, 3e4, FAULTS);
    check(
        &Soak {
            transport: HostTransport::Ndp,
            messages,
            max,
            faults,
            kill: Kill::Receiver,
            kills: 3,
            limits: SHORT,
        },
        2,
    );
}

#[test]
fn soak__the_sender_is_killed() {
    let (messages, max, faults) = (400, 3e4, FAULTS);
    check(
        &Soak {
            transport: HostTransport::Ndp,
            messages,
            max,
            faults,
            kill: Kill::Sender,
            kills: 3,
            limits: SHORT,
        },
        3,
    );
}

#[test]
fn soak__either_end_is_killed() {
    let (messages, max, faults) = (300, 3e4, FAULTS);
    check(
        &Soak {
            transport: HostTransport::Ndp,
            messages,
            max,
            faults,
            kill: Kill::Either,
            kills: 4,
            limits: SHORT,
        },
        4,
    );
}

#[test]
fn soak__over_d3_either_end_is_killed() {
    let (messages, max, faults, transport) = (400, 1e5, FAULTS, HostTransport::D3);
    check(
        &Soak { transport, messages, max, faults, kill: Kill::Either, kills: 4, limits: SHORT },
        5,
    );
}

#[test]
fn soak__over_pdq_either_end_is_killed() {
    let (messages, max, faults, transport) = (400, 1e5, FAULTS, HostTransport::Pdq);
    check(
        &Soak { transport, messages, max, faults, kill: Kill::Either, kills: 4, limits: SHORT },
        6,
    );
}

/// The soak in full: 10,000 messages of 1 B to 1 MB.
fn soak_in_full(transport: HostTransport, kill: Kill, kills: u64, seed: u64) {
    let (messages, max, faults) = (10_000, 1e6, FAULTS);
    check(&Soak { transport, messages, max, faults, kill, kills, limits: LONG }, seed);
}

#[test]
#[ignore = "takes minutes: cargo xtask soak ndp"]
fn soak__full_over_ndp() {
    soak_in_full(HostTransport::Ndp, Kill::Nobody, 0, 11);
}

#[test]
#[ignore = "takes minutes: cargo xtask soak ndp"]
fn soak__full_over_ndp_with_kills() {
    soak_in_full(HostTransport::Ndp, Kill::Either, 20, 12);
}

#[test]
#[ignore = "takes minutes: cargo xtask soak d3"]
fn soak__full_over_d3() {
    soak_in_full(HostTransport::D3, Kill::Nobody, 0, 13);
}

#[test]
#[ignore = "takes minutes: cargo xtask soak d3"]
fn soak__full_over_d3_with_kills() {
    soak_in_full(HostTransport::D3, Kill::Either, 20, 14);
}

#[test]
#[ignore = "takes minutes: cargo xtask soak pdq"]
fn soak__full_over_pdq() {
    soak_in_full(HostTransport::Pdq, Kill::Nobody, 0, 15);
}

#[test]
#[ignore = "takes minutes: cargo xtask soak pdq"]
fn soak__full_over_pdq_with_kills() {
    soak_in_full(HostTransport::Pdq, Kill::Either, 20, 16);
}
