//! The host daemon: the API of attached endpoints, services, limits of clients, pull rate, stop.

use crate::endpoint::{contents, localhost};
use punctual_core::Rate;
use punctual_host::{
    Endpoint, EndpointOptions, HostError, Hostd, HostdOptions, HostdStats, Incoming, Listener,
    Outcome, ReceiveError, SendError, SendOptions, Service,
};
use punctual_testkit::OtherWork;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// A message of a listener that must not wait for ever.
pub(crate) trait AcceptInTime {
    fn accept_in_time(&self) -> Incoming;
}

impl AcceptInTime for Listener {
    fn accept_in_time(&self) -> Incoming {
        self.accept_timeout(Duration::from_secs(30)).expect("a message in time").unwrap()
    }
}

/// How long after its start a daemon is used: a message that reaches a process within the time in
/// which a busy machine schedules it may have an unknown outcome.
pub(crate) const SETTLE: Duration = Duration::from_millis(300);

/// A daemon in a thread of this process.
pub(crate) struct Daemon {
    dir: tempfile::TempDir,
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    stats: Arc<Mutex<HostdStats>>,
    thread: Option<std::thread::JoinHandle<Result<(), HostError>>>,
}

impl Daemon {
    pub(crate) fn start(change: impl FnOnce(&mut HostdOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("hostd.sock");
        let mut options = HostdOptions { socket, ..HostdOptions::default() };
        change(&mut options);
        let mut hostd = Hostd::bind(localhost(), options).unwrap();
        let address = hostd.local_addr();
        let stop = Arc::new(AtomicBool::new(false));
        let stats = Arc::new(Mutex::new(HostdStats::default()));
        let (own_stop, own_stats) = (stop.clone(), stats.clone());
        let thread = std::thread::spawn(move || {
            hostd.run(&own_stop, &mut |stats| *own_stats.lock().unwrap() = stats.clone())
        });
        std::thread::sleep(SETTLE);
        Daemon { dir, address, stop, stats, thread: Some(thread) }
    }

    pub(crate) fn plain() -> Self {
        Daemon::start(|_| {})
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("hostd.sock")
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn attach(&self) -> Endpoint {
        Endpoint::attach(self.socket()).unwrap()
    }

    /// The stats once they are as wanted; the last ones if that does not happen in time.
    pub(crate) fn stats_when(&self, wanted: impl Fn(&HostdStats) -> bool) -> HostdStats {
        let give_up_at = Instant::now() + Duration::from_secs(20);
        loop {
            let stats = self.stats.lock().unwrap().clone();
            if wanted(&stats) || Instant::now() >= give_up_at {
                return stats;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn ask_to_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn join(&mut self) -> Result<(), HostError> {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.ask_to_stop();
        if let Some(thread) = self.thread.take() {
            let result = thread.join();
            assert!(std::thread::panicking() || matches!(result, Ok(Ok(()))), "{result:?}");
        }
    }
}

fn by(deadline: Duration) -> SendOptions {
    SendOptions { deadline: Some(deadline), ..SendOptions::default() }
}

fn to(service: u32) -> SendOptions {
    SendOptions { service: Service::number(service), ..SendOptions::default() }
}

/// Runs a future without a runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park_timeout(Duration::from_secs(10));
    }
}

/// What every pair of endpoints does, whoever runs their engines.
fn check_api(client: &Endpoint, server: &Endpoint) {
    let address = server.local_addr();
    let plain = SendOptions::default();
    let listener = server.listen();
    assert!(client.ping(address, Duration::from_secs(5)).is_ok(), "ping");
    check_messages(client, address, &listener);
    check_requests(client, address, &listener);
    check_ends(client, address, &listener);

    // Futures, for any runtime.
    let send = client.send(address, contents(1, 100_000), &plain).unwrap();
    let mut message = block_on(listener.accept_async()).unwrap();
    assert_eq!(block_on(message.read_to_end_async()).unwrap(), contents(1, 100_000));
    assert!(matches!(block_on(send), (Outcome::Done(_), None)));
    drop(message);

    // Everything is freed.
    let give_up_at = Instant::now() + Duration::from_secs(10);
    loop {
        let (ours, theirs) = (client.stats(), server.stats());
        let held = [ours.send_memory, ours.messages_out, theirs.receive_memory, theirs.messages_in];
        if held == [0; 4] {
            break;
        }
        assert!(Instant::now() < give_up_at, "{ours:?} {theirs:?}");
        // Released messages are freed when the daemon next wakes up.
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn check_messages(client: &Endpoint, address: SocketAddr, listener: &Listener) {
    let plain = SendOptions::default();
    for len in [0, 1, 1_413, 32 << 10, (32 << 10) + 1, 3_000_000] {
        let data = contents(7, len)[..len].to_vec();
        let send = client.send(address, data.clone(), &plain).unwrap();
        let mut message = listener.accept_in_time();
        assert_eq!((message.len(), message.is_request()), (len as u64, false));
        assert!(message.deadline_left().is_none());
        assert!(message.read_to_end().unwrap() == data, "{len} bytes");
        let outcome = send.wait();
        assert!(matches!(outcome, Outcome::Done(_)), "{len}: {outcome:?}");
    }
    // A reader that stops and goes on: more than all buffers on the way.
    let data = contents(8, 6_000_000);
    let send = client.send(address, data.clone(), &plain).unwrap();
    let mut message = listener.accept_in_time();
    let mut first = vec![0; 1_000];
    let mut have = 0;
    while have < first.len() {
        have += message.read_some(&mut first[have..]).unwrap();
    }
    std::thread::sleep(Duration::from_millis(300));
    let send = send.wait_timeout(Duration::from_millis(1)).expect_err("nobody read the rest");
    let rest = message.read_to_end().unwrap();
    assert!([first, rest].concat() == data);
    assert!(matches!(send.wait(), Outcome::Done(_)));
    // Many at once, in any order.
    let sends: Vec<_> = (0..100)
        .map(|number| client.send(address, contents(number, 5_000), &plain).unwrap())
        .collect();
    let mut numbers: Vec<u64> = (0..100)
        .map(|_| {
            let bytes = listener.accept_in_time().read_to_end().unwrap();
            let number = u64::from_be_bytes(*bytes.first_chunk().unwrap());
            assert!(bytes == contents(number, 5_000));
            number
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, Vec::from_iter(0..100));
    assert!(sends.into_iter().all(|send| matches!(send.wait(), Outcome::Done(_))));
}

fn check_requests(client: &Endpoint, address: SocketAddr, listener: &Listener) {
    for len in [10, 50_000, 1_000_000] {
        let minute = Duration::from_secs(60);
        let request = client.request(address, contents(1, len), &by(minute)).unwrap();
        let mut incoming = listener.accept_in_time();
        assert!(incoming.is_request());
        let left = incoming.deadline_left().unwrap();
        assert!(left <= minute && left > minute / 2, "{left:?}");
        let mut bytes = incoming.read_to_end().unwrap();
        bytes.reverse();
        let response = incoming.respond(bytes.clone()).unwrap();
        let (outcome, answer) = request.wait_response();
        assert!(matches!(outcome, Outcome::Met(_)), "{outcome:?}");
        assert_eq!(outcome.times().deadline, Some(minute));
        assert!(answer.unwrap() == bytes);
        assert!(response.wait().is_delivered());
    }
    // Without an answer the outcome is unknown.
    let patience = Some(Duration::from_millis(100));
    let options = SendOptions { patience, ..SendOptions::default() };
    let request = client.request(address, "?", &options).unwrap();
    let incoming = listener.accept_in_time();
    let outcome = request.wait();
    assert!(matches!(outcome, Outcome::Unknown(SendError::NoResponse { .. }, _)), "{outcome:?}");
    drop(incoming);
}

fn check_ends(client: &Endpoint, address: SocketAddr, listener: &Listener) {
    let plain = SendOptions::default();
    // Too large for the buffers on the way, so that it cannot end unless it is read.
    let large = || contents(2, 8_000_000);
    let error = client.send(address, "late", &by(Duration::ZERO)).unwrap_err();
    assert!(matches!(error, SendError::DeadlinePast));
    // Cancelled by the sender.
    let send = client.send(address, large(), &plain).unwrap();
    let mut message = listener.accept_in_time();
    send.cancel();
    assert!(matches!(send.wait(), Outcome::GivenUp(_)));
    assert_eq!(message.read_to_end().unwrap_err(), ReceiveError::Cancelled);
    drop(message);
    // Refused by the receiver.
    let send = client.send(address, large(), &plain).unwrap();
    drop(listener.accept_in_time());
    let outcome = send.wait();
    assert!(matches!(outcome, Outcome::Failed(SendError::Refused(peer), _) if peer == address));
    // A deadline that passes, one that is set later, and one that is removed.
    let late = by(Duration::from_millis(1));
    let gives_up = SendOptions { give_up_late: true, ..late };
    let expected = ["given up", "missed", "done"];
    for (number, (options, expected)) in [gives_up, plain, late].iter().zip(expected).enumerate() {
        let send = client.send(address, large(), options).unwrap();
        let mut message = listener.accept_in_time();
        match number {
            1 => send.set_deadline(Some(Duration::from_millis(2))),
            2 => send.set_deadline(None),
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(50));
        let _ = message.read_to_end();
        let outcome = send.wait();
        let name = match &outcome {
            Outcome::GivenUp(_) => "given up",
            Outcome::Missed(_) => "missed",
            Outcome::Done(_) => "done",
            _ => "other",
        };
        assert_eq!(name, expected, "{outcome:?}");
        let times = outcome.times();
        assert_eq!(times.deadline.is_some(), number < 2, "{times:?}");
        assert!(times.deadline.is_none_or(|deadline| times.elapsed > deadline), "{times:?}");
    }
}

#[test]
fn api__both_in_process() {
    check_api(&crate::endpoint::endpoint(), &crate::endpoint::endpoint());
}

#[test]
fn api__client_attached() {
    let daemon = Daemon::plain();
    check_api(&daemon.attach(), &crate::endpoint::endpoint());
}

#[test]
fn api__server_attached() {
    let daemon = Daemon::plain();
    check_api(&crate::endpoint::endpoint(), &daemon.attach());
}

#[test]
fn api__both_attached_to_one_daemon() {
    let daemon = Daemon::plain();
    check_api(&daemon.attach(), &daemon.attach());
}

#[test]
fn api__attached_to_two_daemons() {
    let daemons = [Daemon::plain(), Daemon::plain()];
    check_api(&daemons[0].attach(), &daemons[1].attach());
}

#[test]
fn services__reach_their_client() {
    let daemon = Daemon::plain();
    let sender = crate::endpoint::endpoint();
    let [one, two] = [1, 2].map(Service::number);
    let clients = [daemon.attach(), daemon.attach()];
    let listeners = [clients[0].listen_for(one).unwrap(), clients[1].listen_for(two).unwrap()];
    for (number, listener) in [1, 2].into_iter().zip(&listeners) {
        let send = sender.send(daemon.address(), contents(number, 20_000), &to(number as u32));
        assert!(listener.accept_in_time().read_to_end().unwrap() == contents(number, 20_000));
        assert!(send.unwrap().wait().is_delivered());
    }
    assert_eq!(clients[1].listen_for(one).unwrap_err(), ReceiveError::ServiceTaken);
    assert!(clients[0].listen_for(one).is_ok(), "its own claim");
    // Nobody has the default service, which senders of earlier versions use, nor service 3.
    for service in [0, 3] {
        let outcome = sender.send(daemon.address(), "x", &to(service)).unwrap().wait();
        assert!(matches!(outcome, Outcome::Failed(SendError::NotListening(_), _)), "{outcome:?}");
    }
    let defaults = clients[1].listen();
    let send = sender.send(daemon.address(), "plain", &SendOptions::default()).unwrap();
    assert_eq!(defaults.accept_in_time().read_to_end().unwrap(), b"plain");
    assert!(send.wait().is_delivered());
    // The claim of a client that ends is free.
    let [first, second] = clients;
    drop((first, listeners));
    let give_up_at = Instant::now() + Duration::from_secs(10);
    while second.listen_for(one).is_err() {
        assert!(Instant::now() < give_up_at, "the claim was not released");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn services__in_one_process() {
    let (client, server) = (crate::endpoint::endpoint(), crate::endpoint::endpoint());
    let search = server.listen_for(Service::named("search")).unwrap();
    let plain = server.listen();
    let options = SendOptions { service: Service::named("search"), ..SendOptions::default() };
    client.send(server.local_addr(), "named", &options).unwrap();
    client.send(server.local_addr(), "plain", &SendOptions::default()).unwrap();
    assert_eq!(plain.accept_in_time().read_to_end().unwrap(), b"plain");
    assert_eq!(search.accept_in_time().read_to_end().unwrap(), b"named");
    let outcome = client.send(server.local_addr(), "x", &to(9)).unwrap().wait();
    assert!(matches!(outcome, Outcome::Failed(SendError::NotListening(_), _)), "{outcome:?}");
}

/// A client that accepts messages and reads none of them has its limit of memory. The messages of
/// another client pass, and those that had to wait arrive when the first client reads.
#[test]
fn limits__a_slow_client_delays_nobody_else() {
    const LIMIT: usize = 2 << 20;
    let daemon = Daemon::start(|options| options.client_receive_memory = LIMIT);
    let [slow, quick] = [daemon.attach(), daemon.attach()];
    let slow_listener = slow.listen_for(Service::number(1)).unwrap();
    let quick_listener = quick.listen_for(Service::number(2)).unwrap();
    let senders = [crate::endpoint::endpoint(), crate::endpoint::endpoint()];
    let address = daemon.address();
    const COUNT: u64 = 24;
    const BYTES: usize = 500_000;
    let waiting: Vec<_> =
        (0..COUNT).map(|n| senders[0].send(address, contents(n, BYTES), &to(1)).unwrap()).collect();
    let stats = daemon.stats_when(|stats| stats.held > 0);
    assert!(stats.held > 0, "{stats:?}");
    for number in 0..50 {
        let send = senders[1].send(address, contents(number, BYTES), &to(2)).unwrap();
        let bytes = quick_listener.accept_in_time().read_to_end().unwrap();
        assert!(bytes == contents(number, BYTES) && send.wait().is_delivered());
        let stats = daemon.stats.lock().unwrap().clone();
        let memories = stats.clients.iter().map(|client| client.receive_memory).max();
        assert!(memories.is_none_or(|memory| memory <= LIMIT), "{stats:?}");
        // Messages that are held keep the bytes of a packet or so, and those whose first bytes have
        // not arrived are few. The first window of each waits for room: 30 packets of 1,500 B and
        // what describes them.
        let each = 10_000 + 30 * 2_000;
        assert!(stats.receive_memory <= 2 * LIMIT + (COUNT as usize) * each + BYTES, "{stats:?}");
    }
    let mut numbers: Vec<u64> = (0..COUNT)
        .map(|_| {
            let bytes = slow_listener.accept_in_time().read_to_end().unwrap();
            let number = u64::from_be_bytes(*bytes.first_chunk().unwrap());
            assert!(bytes == contents(number, BYTES));
            number
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, Vec::from_iter(0..COUNT));
    assert!(waiting.into_iter().all(|send| send.wait().is_delivered()));
    let stats = daemon.stats_when(|stats| stats.receive_memory == 0);
    assert_eq!((stats.receive_memory, stats.held), (0, 0), "{stats:?}");
}

#[test]
fn limits__memory_for_sends_of_one_client() {
    let daemon = Daemon::start(|options| options.client_send_memory = 100_000);
    let server = crate::endpoint::endpoint();
    let [one, two] = [daemon.attach(), daemon.attach()];
    // Nobody listens yet, but nobody answers either: the peer is a silent socket.
    let silent = std::net::UdpSocket::bind(localhost()).unwrap();
    let plain = SendOptions::default();
    let _waiting = one.send(silent.local_addr().unwrap(), vec![0; 80_000], &plain).unwrap();
    let error = one.send(server.local_addr(), vec![0; 30_000], &plain).unwrap_err();
    assert!(matches!(error, SendError::SendMemoryFull { waiting: 80_000 }), "{error:?}");
    let listener = server.listen();
    let send = two.send(server.local_addr(), vec![1; 30_000], &plain).unwrap();
    assert!(listener.accept_in_time().read_to_end().unwrap() == vec![1; 30_000]);
    assert!(send.wait().is_delivered(), "another client has memory of its own");
}

/// The bits that arrive at receivers of these addresses, and the time it takes, when senders send
/// to both of them at once.
fn incast(receivers: &[(SocketAddr, Listener, u32)], bytes: usize) -> (f64, Duration) {
    const SENDERS: usize = 3;
    let senders: Vec<Endpoint> = (0..SENDERS).map(|_| crate::endpoint::endpoint()).collect();
    let start = Instant::now();
    let mut sends = Vec::new();
    for sender in &senders {
        for (address, _, service) in receivers {
            sends.push(sender.send(*address, contents(1, bytes), &to(*service)).unwrap());
        }
    }
    std::thread::scope(|scope| {
        for (_, listener, _) in receivers {
            scope.spawn(move || {
                let reading: Vec<_> = (0..SENDERS).map(|_| listener.accept_in_time()).collect();
                for mut message in reading {
                    assert!(message.read_to_end().unwrap() == contents(1, bytes));
                }
            });
        }
    });
    let time = start.elapsed();
    assert!(sends.into_iter().all(|send| send.wait().is_delivered()));
    ((SENDERS * receivers.len() * bytes * 8) as f64, time)
}

/// Two receiving clients together pull at most at the line rate. Two endpoints that do not know of
/// each other pull at twice the rate.
#[test]
fn pulls__of_two_clients_share_the_line_rate() {
    const BYTES: usize = 500_000;
    // A packet takes 1.2 ms, so that a busy machine keeps the rate.
    let rate = Rate::from_mbps(10);
    let options = EndpointOptions { rate, ..EndpointOptions::default() };
    // Unasked for: the first window of each of six flows, in packets of 1,538 bytes on the link,
    // and the packets that a late pacer may pull at once.
    let window = options.ndp.initial_window as f64;
    let unasked = (6.0 * window + 8.0) * 1_538.0 * 8.0;
    let bound = |time: Duration| rate.as_bps() as f64 * time.as_secs_f64() + unasked;

    let daemon = Daemon::start(|daemon| daemon.endpoint = options.clone());
    let clients = [daemon.attach(), daemon.attach()];
    let receivers = [1, 2].map(|service| {
        let listener = clients[service as usize - 1].listen_for(Service::number(service)).unwrap();
        (daemon.address(), listener, service)
    });
    let (bits, time) = incast(&receivers, BYTES);
    eprintln!("daemon: {:.1} Mb/s", bits / time.as_secs_f64() / 1e6);
    assert!(bits <= bound(time), "{bits} bits in {time:?}, bound {}", bound(time));

    let separate = [options.clone(), options].map(|o| Endpoint::bind(localhost(), o).unwrap());
    std::thread::sleep(SETTLE);
    let receivers = separate.each_ref().map(|e| (e.local_addr(), e.listen(), 0));
    let work = OtherWork::watch();
    let (bits, time) = incast(&receivers, BYTES);
    eprintln!("separate: {:.1} Mb/s", bits / time.as_secs_f64() / 1e6);
    let failure = format!("two pull queues, that know nothing of each other: {time:?}");
    work.check(bits > bound(time), failure);
}

#[test]
fn stop__messages_under_way_end_and_new_ones_are_refused() {
    let mut daemon = Daemon::plain();
    let server = crate::endpoint::endpoint();
    let listener = server.listen();
    let client = daemon.attach();
    let plain = SendOptions::default();
    let send = client.send(server.local_addr(), contents(1, 6_000_000), &plain).unwrap();
    let mut message = listener.accept_in_time();
    daemon.ask_to_stop();
    let give_up_at = Instant::now() + Duration::from_secs(10);
    while daemon.socket().exists() {
        assert!(Instant::now() < give_up_at);
        std::thread::sleep(Duration::from_millis(5));
    }
    let refused = client.send(server.local_addr(), "new", &plain).unwrap().wait();
    assert!(matches!(refused, Outcome::Failed(SendError::Closed(_), _)), "{refused:?}");
    assert!(message.read_to_end().unwrap() == contents(1, 6_000_000));
    let outcome = send.wait();
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    daemon.join().unwrap();
    daemon.thread = Some(std::thread::spawn(|| Ok(())));
    let error = client.send(server.local_addr(), "gone", &plain);
    match error {
        Err(error) => assert!(matches!(error, SendError::DaemonGone), "{error:?}"),
        // The client had not noticed yet.
        Ok(send) => {
            let outcome = send.wait();
            assert!(matches!(outcome, Outcome::Failed(SendError::DaemonGone, _)), "{outcome:?}");
        }
    }
}

#[test]
fn stop__ends_in_time_when_a_message_does_not_end() {
    let mut daemon = Daemon::start(|options| options.grace = Duration::from_millis(300));
    let silent = std::net::UdpSocket::bind(localhost()).unwrap();
    let client = daemon.attach();
    let send = client.send(silent.local_addr().unwrap(), "x", &SendOptions::default()).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    silent.recv(&mut [0; 2_000]).expect("the message was sent");
    daemon.ask_to_stop();
    daemon.join().unwrap();
    daemon.thread = Some(std::thread::spawn(|| Ok(())));
    // Every byte was sent, so the peer may have it.
    let outcome = send.wait();
    assert!(matches!(outcome, Outcome::Unknown(SendError::Closed(_), _)), "{outcome:?}");
}

#[test]
fn attach__errors_say_what_to_do() {
    let absent = Endpoint::attach(Path::new("/nonexistent/hostd.sock")).unwrap_err();
    assert!(matches!(absent, HostError::DaemonAbsent { .. }), "{absent:?}");
    assert!(absent.to_string().contains("punctual hostd --socket /nonexistent/hostd.sock"));
    let daemon = Daemon::start(|options| options.clients_max = 1);
    let socket = daemon.socket();
    let taken = HostdOptions { socket: socket.clone(), ..HostdOptions::default() };
    let running = Hostd::bind(localhost(), taken).unwrap_err();
    assert!(matches!(running, HostError::DaemonRunning(_)), "{running:?}");
    let _only = daemon.attach();
    let refused = Endpoint::attach(&socket).unwrap_err();
    assert!(matches!(refused, HostError::DaemonRefused { .. }), "{refused:?}");
    assert!(refused.to_string().contains("--clients"), "{refused}");
}

#[test]
fn metrics__count_what_happened() {
    let daemon = Daemon::plain();
    let (client, server) = (daemon.attach(), daemon.attach());
    let listener = server.listen();
    let plain = SendOptions::default();
    let send = client.send(daemon.address(), vec![7; 10_000], &plain).unwrap();
    assert_eq!(listener.accept_in_time().read_to_end().unwrap().len(), 10_000);
    assert!(send.wait().is_delivered());
    let stats = daemon.stats_when(|stats| stats.sends() == 1 && stats.messages() == 1);
    let text = stats.prometheus();
    for line in [
        "punctual_hostd_clients 2",
        "punctual_hostd_sends_total 1",
        "punctual_hostd_sent_bytes_total 10000",
        "punctual_hostd_outcomes_total{outcome=\"done\"} 1",
        "punctual_hostd_received_bytes_total 10000",
        "punctual_hostd_services 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
    }
    // Each series is declared once, before its values.
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let declared = text.lines().filter(|l| l.starts_with(&format!("# TYPE {name} "))).count();
        assert_eq!(declared, 1, "{line}");
    }
}
