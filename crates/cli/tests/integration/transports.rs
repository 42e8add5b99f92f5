//! `punctual send --transport`: files over the transports that ports grant their rates, between two
//! processes, and between two processes through host daemons.

use crate::common::{Place, text};
use crate::hostd_transfers::{Running, file, objects, place};
use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The transports besides NDP, with their numbers on the wire.
const GRANTED: [(&str, u8); 3] = [("d3", 2), ("rcpdc", 3), ("pdq", 4)];

/// The rate of both NICs. No switch on the path grants rates, so that nothing but the rate of the
/// sender's NIC protects the relay and the receiver from more than they can take.
const RATE: [&str; 2] = ["--rate", "200Mbps"];

/// Forwards datagrams between one sender and a receiver, and notes the transports of the sender's
/// data and answers: the packets of kinds 0 to 4.
struct Relay {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<BTreeSet<u8>>,
}

impl Relay {
    fn start(receiver: &str) -> Relay {
        let receiver: SocketAddr = receiver.parse().expect("an address");
        let [front, back] = [(); 2].map(|()| {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            socket.set_nonblocking(true).expect("non-blocking");
            // The largest that the kernel grants.
            let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20);
            socket
        });
        let address = front.local_addr().expect("an address");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut seen, mut sender, mut buffer) = (BTreeSet::new(), None, vec![0; 1 << 16]);
            while !stopped.load(Ordering::Relaxed) {
                let mut is_idle = true;
                while let Ok((len, from)) = front.recv_from(&mut buffer) {
                    is_idle = false;
                    sender = Some(from);
                    if len >= 20 && buffer[1] & 15 <= 4 {
                        seen.insert(buffer[2] >> 3);
                    }
                    // A full buffer loses the datagram, which is sent again.
                    let _ = back.send_to(&buffer[..len], receiver);
                }
                while let (Ok(len), Some(sender)) = (back.recv(&mut buffer), sender) {
                    is_idle = false;
                    let _ = front.send_to(&buffer[..len], sender);
                }
                if is_idle {
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
            seen
        });
        Relay { address, stop, thread }
    }

    fn finish(self) -> BTreeSet<u8> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic")
    }
}

/// Sends a small and a large file to a receiver, with these flags of both ends. The small one is in
/// one request, the large one in parts.
fn transfer(place: &Place, transport: (&str, u8), to: &[&str], from: &[&str]) {
    let (name, number) = transport;
    let names = ["small", "large"].map(|size| format!("{name}.{size}"));
    let contents = [file(place, &names[0], 1_000), file(place, &names[1], 6_000_000)];
    let receiver = Running::receiver(place, &[to, &["--count", "2"]].concat());
    let relay = Relay::start(&receiver.address);
    let address = relay.address.to_string();
    let send = ["send", &names[0], &names[1], &address, "--transport", name, "--json"];
    let output = place.punctual(&[&send, from].concat());
    assert!(output.status.success(), "{name}: {}", text(&output.stderr));
    let sent = objects(&output.stdout);
    let (code, received, said) = receiver.finish();
    assert_eq!((code, received.len()), (Some(0), 2), "{name}: {said} {received:?}");
    for ((file, bytes), sent) in names.iter().zip(&contents).zip(&sent) {
        assert_eq!(sent["outcome"], "done", "{sent}");
        let hash = sent["hash"].as_str().expect("a hash");
        let is_it = |received: &&serde_json::Value| received["hash"] == hash;
        assert!(received.iter().find(is_it).is_some(), "{file}: {hash} is not in {received:?}");
        let stored = std::fs::read(place.path().join("inbox").join(file)).expect("stored");
        assert!(stored == *bytes, "{file} differs");
    }
    assert_eq!(relay.finish(), BTreeSet::from([number]), "{name} is the only transport");
}

#[test]
fn transports__carry_files() {
    let place = place();
    for transport in GRANTED {
        let listen = [&["--listen", "127.0.0.1:0"][..], &RATE].concat();
        transfer(&place, transport, &listen, &RATE);
    }
}

#[test]
fn transports__carry_files_through_host_daemons() {
    let place = place();
    let start = ["hostd", "--listen", "127.0.0.1:0", "--socket"];
    let daemon = |socket| place.command(&[&start[..], &[socket], &RATE].concat());
    let _daemons = ["here", "there"].map(|socket| Running::start(daemon(socket)));
    for transport in GRANTED {
        transfer(&place, transport, &["--via", "there"], &["--via", "here"]);
    }
}

/// The deadline goes with the file, and a miss has its own exit code.
#[test]
fn transports__report_a_missed_deadline() {
    let place = place();
    // 8 MB at 100 Mb/s take 640 ms.
    let bytes = file(&place, "in", 8_000_000);
    for (name, _) in GRANTED {
        let receiver = Running::receiver(
            &place,
            &["--listen", "127.0.0.1:0", "--rate", "100Mbps", "--count", "1", "--overwrite"],
        );
        let send = ["send", "in", &receiver.address, "--transport", name, "--deadline", "100ms"];
        let output = place.punctual(&[&send[..], &["--rate", "100Mbps", "--json"]].concat());
        assert_eq!(output.status.code(), Some(7), "{name}: {}", text(&output.stderr));
        assert_eq!(objects(&output.stdout)[0]["outcome"], "missed", "{name}");
        assert_eq!(receiver.finish().0, Some(7), "{name}");
        assert!(std::fs::read(place.path().join("inbox/in")).expect("stored") == bytes, "{name}");
    }
}

#[test]
fn transports__without_sockets_are_refused() {
    let place = place();
    file(&place, "in", 1_000);
    for name in ["tcp", "nothing"] {
        let output = place.punctual(&["send", "in", "127.0.0.1:9", "--transport", name]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        let said = text(&output.stderr);
        assert!(said.contains(name) && said.contains("pdq"), "{said}");
    }
}
