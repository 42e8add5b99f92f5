//! The host daemon when clients or the daemon are killed, and when clients are hostile.
//!
//! The test starts its own binary as a client or as a daemon, and kills it.

use crate::endpoint::{contents, localhost};
use crate::hostd::{AcceptInTime as _, Daemon, SETTLE};
use punctual_core::rng::Stream;
use punctual_host::{
    Endpoint, HOSTD_VERSION, Hostd, HostdOptions, Outcome, ReceiveError, SendError, SendOptions,
    Service,
};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::fs::File;
use std::io::{BufRead as _, BufReader, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What a child process does: `client SOCKET PEER` or `daemon SOCKET ADDRESS`.
const ROLE: &str = "PUNCTUAL_TEST_HOSTD_ROLE";

/// Not a test: the child processes run it. Without a role it does nothing.
#[test]
#[ignore = "runs in child processes of the other tests"]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let socket = Path::new(words[1]);
    match words[0] {
        "client" => run_client(socket, words[2].parse().unwrap()),
        _ => run_daemon(socket, words[2].parse().unwrap()),
    }
}

/// Reports to the parent that this child is ready. Test output comes before and after it.
fn report(word: &str) {
    eprintln!("\nready {word}");
}

/// Sends a message that takes long, accepts one and reads a part of it. Then it waits to be killed.
fn run_client(socket: &Path, peer: SocketAddr) {
    let endpoint = Endpoint::attach(socket).unwrap();
    let listener = endpoint.listen_for(Service::number(5)).unwrap();
    let send = endpoint.send(peer, contents(1, 20_000_000), &SendOptions::default()).unwrap();
    report("client");
    let mut message = listener.accept_in_time();
    message.read_some(&mut [0; 1_000]).unwrap();
    report("reading");
    let _ = send.wait_timeout(Duration::from_secs(60));
}

fn run_daemon(socket: &Path, address: SocketAddr) {
    static NEVER: AtomicBool = AtomicBool::new(false);
    let options = HostdOptions { socket: socket.into(), ..HostdOptions::default() };
    let mut hostd = Hostd::bind(address, options).unwrap();
    report(&hostd.local_addr().to_string());
    hostd.run(&NEVER, &mut |_| {}).unwrap();
}

/// A child process, killed when dropped.
struct Running {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
}

impl Running {
    fn start(role: String) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "hostd_faults::child", "--ignored", "--nocapture"])
            .env(ROLE, role)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Running { child, lines }
    }

    /// The word of the child's next report.
    fn reported(&mut self) -> String {
        let words = self.lines.by_ref().map(Result::unwrap);
        words.filter_map(|line| line.strip_prefix("ready ").map(str::to_owned)).next().unwrap()
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).unwrap();
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn client__killed_in_the_middle_of_transfers() {
    let daemon = Daemon::plain();
    let other = daemon.attach();
    let other_listener = other.listen_for(Service::number(6)).unwrap();
    let peer = crate::endpoint::endpoint();
    let listener = peer.listen();
    let to = |service| SendOptions { service: Service::number(service), ..SendOptions::default() };
    let role = format!("client {} {}", daemon.socket().display(), peer.local_addr());
    let mut client = Running::start(role);
    assert_eq!(client.reported(), "client");
    let send = peer.send(daemon.address(), contents(2, 8_000_000), &to(5)).unwrap();
    assert_eq!(client.reported(), "reading");
    let mut message = listener.accept_in_time();
    message.read_some(&mut [0; 1_000]).unwrap();
    let before = daemon.stats_when(|stats| stats.clients.len() == 2);
    assert_eq!(before.clients.len(), 2, "{before:?}");
    client.kill();

    // Its peers learn the truth: it sends no more, and it does not have the message.
    assert_eq!(message.read_to_end().unwrap_err(), ReceiveError::Cancelled);
    let outcome = send.wait();
    assert!(matches!(outcome, Outcome::Failed(SendError::Refused(_), _)), "{outcome:?}");
    drop(message);
    // Another client goes on, and may take over the service.
    let number = other.listen_for(Service::number(5));
    assert!(number.is_ok(), "the claim is free: {number:?}");
    let send = peer.send(daemon.address(), contents(3, 1_000_000), &to(6)).unwrap();
    assert!(other_listener.accept_in_time().read_to_end().unwrap() == contents(3, 1_000_000));
    assert!(send.wait().is_delivered());
    // Its memory is free.
    let stats = daemon.stats_when(|stats| {
        stats.clients.len() == 1 && stats.receive_memory == 0 && stats.send_memory == 0
    });
    assert_eq!((stats.clients.len(), stats.crashed, stats.violations), (1, 1, 0), "{stats:?}");
    assert_eq!((stats.receive_memory, stats.send_memory), (0, 0), "{stats:?}");
}

#[test]
fn daemon__killed_and_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("hostd.sock");
    let start = || Running::start(format!("daemon {} {}", socket.display(), localhost()));
    let mut daemon = start();
    let address: SocketAddr = daemon.reported().parse().unwrap();
    std::thread::sleep(SETTLE);
    let client = Endpoint::attach(&socket).unwrap();
    assert_eq!(client.local_addr(), address);
    let listener = client.listen();
    let plain = SendOptions::default();
    // A peer that receives, and never answers.
    let silent = std::net::UdpSocket::bind(localhost()).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let sent = client.send(silent.local_addr().unwrap(), "sent", &plain).unwrap();
    silent.recv(&mut [0; 2_000]).expect("the daemon has sent it");
    // A message of which the reader has a part.
    let peer = crate::endpoint::endpoint();
    let arriving = peer.send(address, contents(1, 8_000_000), &plain).unwrap();
    let mut message = listener.accept_in_time();
    message.read_some(&mut [0; 1_000]).unwrap();
    // While the daemon does not run, it takes nothing.
    daemon.signal(rustix::process::Signal::STOP);
    std::thread::sleep(Duration::from_millis(50));
    let untaken = client.send(silent.local_addr().unwrap(), vec![1; 2_000_000], &plain).unwrap();
    let small = client.send(silent.local_addr().unwrap(), "small", &plain).unwrap();
    daemon.kill();

    // It may have been delivered; the others cannot have been.
    let outcome = sent.wait();
    assert!(matches!(outcome, Outcome::Unknown(SendError::DaemonGone, _)), "{outcome:?}");
    for send in [untaken, small] {
        let outcome = send.wait();
        assert!(matches!(outcome, Outcome::Failed(SendError::DaemonGone, _)), "{outcome:?}");
    }
    assert_eq!(message.read_to_end().unwrap_err(), ReceiveError::DaemonGone);
    assert_eq!(listener.accept().unwrap_err(), ReceiveError::DaemonGone);
    let error = client.send(address, "x", &plain).unwrap_err();
    assert!(matches!(error, SendError::DaemonGone) && error.to_string().contains("attach again"));
    assert!(!arriving.wait().is_delivered());

    // A new daemon serves at the same place, and clients attach again.
    let mut daemon = start();
    let address: SocketAddr = daemon.reported().parse().unwrap();
    std::thread::sleep(SETTLE);
    let client = Endpoint::attach(&socket).unwrap();
    let listener = client.listen();
    let send = peer.send(address, "again", &plain).unwrap();
    assert_eq!(listener.accept_in_time().read_to_end().unwrap(), b"again");
    assert!(send.wait().is_delivered());
}

/// A client without the library: it has the shared memory and writes into it what it likes.
struct Hostile {
    stream: UnixStream,
    memory: File,
    head: u64,
}

/// Places in the shared memory, in words: the ring of requests comes first.
const HEAD: u64 = 0;
const DATA: u64 = 32;
const CAPACITY: u64 = (512 << 10) / 8;
const HEADER_WORDS: u64 = 10;

impl Hostile {
    fn attach(socket: &Path, version: u32) -> Option<Self> {
        let mut stream = UnixStream::connect(socket).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut hello = [0; 64];
        hello[..8].copy_from_slice(b"pnctlhd\0");
        hello[8..12].copy_from_slice(&version.to_ne_bytes());
        stream.write_all(&hello).ok()?;
        let mut bytes = [0; 64];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(&mut bytes)];
        recvmsg(&stream, parts, &mut control, RecvFlags::empty()).ok()?;
        let file = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        })?;
        Some(Hostile { stream, memory: file.into(), head: 0 })
    }

    fn write_word(&self, at: u64, word: u64) {
        self.memory.write_all_at(&word.to_ne_bytes(), 8 * at).unwrap();
    }

    fn ring(&mut self) -> bool {
        self.stream.write_all(&[1]).is_ok()
    }

    /// Writes a frame as the library would, with words of any kind.
    fn push(&mut self, words: [u64; HEADER_WORDS as usize], payload: u64) -> bool {
        for (i, word) in words.into_iter().enumerate() {
            self.write_word(DATA + (self.head + i as u64) % CAPACITY, word);
        }
        self.head += HEADER_WORDS + payload.div_ceil(8);
        self.write_word(HEAD, self.head);
        self.ring()
    }

    /// Whether the daemon has closed the connection, within a second.
    fn is_closed(&mut self) -> bool {
        self.stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        loop {
            match std::io::Read::read(&mut self.stream, &mut [0; 64]) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    }
}

/// A word that is often small, often near a limit, and sometimes anything.
fn word(stream: &mut Stream) -> u64 {
    match stream.bits() % 5 {
        0 => stream.bits() % 16,
        1 => u64::MAX - stream.bits() % 16,
        2 => 1 << (stream.bits() % 64),
        3 => stream.bits() % (1 << 20),
        _ => stream.bits(),
    }
}

#[test]
fn hostile__clients_are_disconnected_and_others_go_on() {
    let daemon = Daemon::start(|options| options.client_send_memory = 1 << 20);
    let server = crate::endpoint::endpoint();
    let listener = server.listen();
    let honest = daemon.attach();
    let attach = || Hostile::attach(&daemon.socket(), HOSTD_VERSION).expect("a connection");

    // Each of these is a violation, and ends the connection.
    let submit = |len: u64, payload: u64| {
        let mapped = 0x0000_ffff_7f00_0001;
        [1 | payload << 32, 1, 0, mapped, 9, len, 0, 0xff << 8, 0, 0]
    };
    let violations: [(&str, [u64; 10], u64); 7] = [
        ("no such request", [99, 0, 0, 0, 0, 0, 0, 0, 0, 0], 0),
        ("a payload longer than a frame may be", submit(1 << 20, 1 << 20), 1 << 20),
        ("more bytes than announced", submit(8, 64), 64),
        (
            "no such transport",
            {
                let mut s = submit(1, 1);
                s[7] |= 0xee << 16;
                s
            },
            1,
        ),
        (
            "no such address",
            {
                let mut s = submit(1, 1);
                s[4] |= 7 << 16;
                s
            },
            1,
        ),
        ("a response to nothing", [2, 1, 77, 0, 0, 0, 0, 0, 0, 0], 0),
        ("a service beyond 32 bits", [7, 1 << 40, 0, 0, 0, 0, 0, 0, 0, 0], 0),
    ];
    let before = daemon.stats_when(|_| true).violations;
    for (name, words, payload) in violations {
        let mut client = attach();
        client.push(words, payload);
        assert!(client.is_closed(), "{name}");
    }
    let mut client = attach();
    client.write_word(HEAD, u64::MAX / 2);
    client.ring();
    assert!(client.is_closed(), "an impossible index");
    let stats = daemon.stats_when(|stats| stats.violations == before + 8);
    assert_eq!(stats.violations, before + 8, "{stats:?}");
    // A message larger than the client's memory is refused, and takes none.
    let mut client = attach();
    assert!(client.push(submit(u64::MAX >> 1, 0), 0));
    let stats = daemon.stats_when(|stats| stats.sends() > 0);
    assert_eq!(stats.send_memory, 0);
    drop(client);

    // Random frames and words, from several clients at once, while an honest client works.
    let give_up_at = Instant::now() + Duration::from_secs(60);
    std::thread::scope(|scope| {
        for seed in 0..3 {
            scope.spawn(move || {
                let mut stream = Stream::named(seed, "hostile client", 0);
                for _ in 0..40 {
                    let mut client = attach();
                    for _ in 0..40 {
                        let is_there = match stream.bits() % 8 {
                            0 => {
                                let place = stream.bits() % (2 * (DATA + CAPACITY));
                                client.write_word(place, word(&mut stream));
                                client.ring()
                            }
                            1 => {
                                let bytes = [stream.bits() as u8; 100];
                                client.stream.write_all(&bytes).is_ok()
                            }
                            _ => {
                                let mut words = [0; 10].map(|_: u64| word(&mut stream));
                                let payload = stream.bits() % 2_000;
                                words[0] = (1 + stream.bits() % 12) | payload << 32;
                                words[1] = stream.bits() % 4;
                                client.push(words, payload)
                            }
                        };
                        if !is_there {
                            break;
                        }
                    }
                }
            });
        }
        for number in 0..200 {
            let plain = SendOptions::default();
            let send = honest.send(server.local_addr(), contents(number, 2_000), &plain).unwrap();
            let received = listener.accept_timeout(Duration::from_secs(20));
            let bytes = received.expect("in time").unwrap().read_to_end().unwrap();
            assert!(bytes == contents(number, 2_000) && send.wait().is_delivered());
            assert!(Instant::now() < give_up_at, "hostile clients delay the honest one");
        }
    });
    let stats = daemon.stats_when(|stats| {
        let is_free = stats.send_memory == 0 && stats.receive_memory == 0;
        stats.clients.len() == 1 && is_free && stats.violations > before + 20
    });
    assert!(stats.violations > before + 20, "{stats:?}");
    assert_eq!((stats.clients.len(), stats.send_memory, stats.receive_memory), (1, 0, 0));
}

/// A client that never takes an event fills its ring and its limits, and nothing else.
#[test]
fn hostile__a_client_that_takes_nothing() {
    const LIMIT: usize = 2 << 20;
    let daemon = Daemon::start(|options| options.client_receive_memory = LIMIT);
    let mut deaf = Hostile::attach(&daemon.socket(), HOSTD_VERSION).unwrap();
    assert!(deaf.push([7, 9, 0, 0, 0, 0, 0, 0, 0, 0], 0), "it listens for service 9");
    let client = daemon.attach();
    let listener = client.listen();
    assert_eq!(daemon.stats_when(|stats| stats.services == 2).services, 2);
    let sender = crate::endpoint::endpoint();
    let to = |service| SendOptions { service: Service::number(service), ..SendOptions::default() };
    let unread: Vec<_> = (0..60)
        .map(|number| sender.send(daemon.address(), contents(number, 100_000), &to(9)).unwrap())
        .collect();
    // Its limit, and no more, is taken; the rest waits at the sender or is held.
    let stats = daemon.stats_when(|stats| stats.held > 0);
    assert!(stats.held > 0 && stats.clients[0].receive_memory <= LIMIT, "{stats:?}");
    let other = crate::endpoint::endpoint();
    for number in 0..50 {
        let send = other.send(daemon.address(), contents(number, 100_000), &to(0)).unwrap();
        let bytes = listener.accept_in_time().read_to_end().unwrap();
        assert!(bytes == contents(number, 100_000) && send.wait().is_delivered());
    }
    // When it ends, senders whose messages it did not have learn it.
    drop(deaf);
    let outcomes: Vec<Outcome> = unread.into_iter().map(|send| send.wait()).collect();
    let refused = outcomes.iter().filter(|o| matches!(o, Outcome::Failed(..))).count();
    let delivered = outcomes.iter().filter(|outcome| outcome.is_delivered()).count();
    assert_eq!(refused + delivered, 60, "{outcomes:?}");
    // Complete messages fit into its limit; held ones have no room for 100 kB.
    assert!(refused >= 60 - LIMIT / 100_000 && delivered > 0, "{refused} {delivered}");
    let stats = daemon.stats_when(|stats| stats.receive_memory == 0);
    assert_eq!((stats.receive_memory, stats.held), (0, 0), "{stats:?}");
}

#[test]
fn hostile__greetings_of_any_kind() {
    let daemon = Daemon::plain();
    assert!(Hostile::attach(&daemon.socket(), 999).is_none(), "another version gets no memory");
    let mut stream = Stream::named(1, "greetings", 0);
    let mut kept = Vec::new();
    for _ in 0..40 {
        let mut connection = UnixStream::connect(daemon.socket()).unwrap();
        let len = (stream.bits() % 100) as usize;
        let bytes: Vec<u8> = (0..len).map(|_| stream.bits() as u8).collect();
        let _ = connection.write_all(&bytes);
        kept.push(connection);
    }
    // Connections that say nothing do not keep others away.
    let client = daemon.attach();
    assert!(client.ping(daemon.address(), Duration::from_secs(10)).is_ok());
}
