//! Files over loopback, over good networks and bad ones.

use crate::support::{Done, Faults, Lossy};
use punctual_core::rng::Stream;
use punctual_core::{Bytes, Duration, Rate};
use punctual_host::{
    HostError, LinkOptions, ReceiveOptions, ReceiveReport, Receiver, SendFileOptions, SendReport,
    receive_file, send_file,
};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::FileExt;
use std::path::Path;

fn localhost(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn contents(len: usize) -> Vec<u8> {
    let mut stream = Stream::named(len as u64, "contents", 0);
    (0..len).map(|_| stream.bits() as u8).collect()
}

fn link() -> LinkOptions {
    let mut link = LinkOptions { silence: Duration::from_secs(5), ..LinkOptions::default() };
    // Losses are intended here, and timers recover them.
    link.ndp.rto = Duration::from_millis(10);
    link
}

/// Sends `data` through a relay with these faults and checks that it arrives.
fn transfer(data: &[u8], faults: Faults, seed: u64) -> (SendReport, ReceiveReport, Done) {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("in"), dir.path().join("out"));
    std::fs::write(&path, data).unwrap();
    let wait = Some(Duration::from_secs(5));
    let receive_options = ReceiveOptions { wait, link: link(), ..ReceiveOptions::default() };
    let receiver = Receiver::bind(localhost(0), &receive_options).unwrap();
    let relay = Lossy::start(receiver.local_addr(), faults, seed);
    let to = out.clone();
    let receiving = std::thread::spawn(move || receiver.receive(&to));
    let options = SendFileOptions { deadline: Some(Duration::from_secs(20)), link: link() };
    let sent = send_file(&path, relay.address(), &options);
    let received = receiving.join().unwrap();
    let done = relay.finish();
    let (sent, received) = match (sent, received) {
        (Ok(sent), Ok(received)) => (sent, received),
        failed if done.expired => panic!("the relay ended first: {failed:?}; {done:?}"),
        failed => panic!("{failed:?}; the relay: {done:?}"),
    };
    assert!(std::fs::read(&out).unwrap() == data, "contents differ");
    assert_eq!(dir.path().read_dir().unwrap().count(), 2, "nothing else is left");
    assert_eq!((sent.bytes, received.bytes), (data.len() as u64, data.len() as u64));
    assert_eq!(sent.hash, received.hash);
    assert_eq!(sent.hash.to_string(), blake3::hash(data).to_hex().to_string());
    // The receiver learns how much is left after the sender has hashed the file.
    let left = received.deadline.unwrap();
    assert!(left < Duration::from_secs(20) && left > Duration::from_secs(15), "{left}");
    assert_eq!((sent.deadline_met, received.deadline_met), (Some(true), Some(true)));
    (sent, received, done)
}

#[test]
fn small_files_arrive() {
    // 1372 bytes and the 64 before them fill a packet of 1500. From 4 MiB on there are parts.
    for len in [0, 1, 1_371, 1_372, 1_373, 30 * 1_436, 100_000, 4 << 20, (4 << 20) + 1] {
        let (sent, received, _) = transfer(&contents(len), Faults::default(), 1);
        // A busy machine may retransmit, but no packet is malformed.
        for name in sent.traffic.dropped.keys().chain(received.traffic.dropped.keys()) {
            assert!(["refused", "no_such_flow"].contains(name), "{len}: {sent:?} {received:?}");
        }
    }
}

#[test]
fn megabytes_arrive() {
    transfer(&contents(8_000_000), Faults::default(), 1);
}

#[test]
fn loss_is_repaired() {
    let faults = Faults { drop: 0.05, ..Faults::default() };
    let (sent, _, done) = transfer(&contents(4_000_000), faults, 2);
    assert!(done.dropped > 100 && sent.retransmits > 100, "{done:?} {sent:?}");
}

/// A lost packet costs a timeout, not the 64 that a sender waits for a pull (NDP-R09).
#[test]
fn rare_loss_stalls_nothing() {
    let free = transfer(&contents(3_000_000), Faults::default(), 0).0.transfer;
    for seed in 0..8 {
        let faults = Faults { drop: 0.001, ..Faults::default() };
        let (sent, _, done) = transfer(&contents(3_000_000), faults, seed);
        // 64 timeouts of 10 ms are 640 ms. A loss may repeat, and its timeout doubles.
        let most = free.saturating_mul(3) + Duration::from_millis(500);
        assert!(sent.transfer < most, "seed {seed}: {sent:?}, {done:?}");
    }
}

#[test]
fn duplicates_are_harmless() {
    let faults = Faults { duplicate: 0.2, ..Faults::default() };
    let (_, _, done) = transfer(&contents(2_000_000), faults, 3);
    assert!(done.duplicated > 200, "{done:?}");
}

#[test]
fn any_order_will_do() {
    let faults = Faults { reorder: 0.2, ..Faults::default() };
    let (_, _, done) = transfer(&contents(2_000_000), faults, 4);
    assert!(done.reordered > 200, "{done:?}");
}

#[test]
fn trimmed_packets_are_sent_again() {
    let faults = Faults { trim: 0.1, ..Faults::default() };
    let (sent, _, done) = transfer(&contents(2_000_000), faults, 5);
    assert!(done.trimmed > 100, "{done:?}");
    assert!(sent.retransmits > 100, "{sent:?}");
}

#[test]
fn damage_is_found() {
    let faults = Faults { corrupt: 0.05, ..Faults::default() };
    let (sent, received, done) = transfer(&contents(2_000_000), faults, 6);
    assert!(done.corrupted > 50, "{done:?}");
    // Forward packets are mostly payload; packets of the reverse path are all header.
    assert!(received.traffic.dropped["payload_check"] > 30, "{received:?}");
    assert!(sent.traffic.dropped["header_check"] > 30, "{sent:?}");
}

#[test]
fn everything_at_once() {
    let faults = Faults {
        drop: 0.05,
        duplicate: 0.05,
        reorder: 0.1,
        corrupt: 0.02,
        trim: 0.05,
        drop_varies: false,
    };
    for seed in 10..13 {
        transfer(&contents(1_000_000), faults, seed);
    }
    for seed in 20..40 {
        transfer(&contents(5_000), faults, seed);
    }
}

#[test]
fn garbage_is_counted_and_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("in"), dir.path().join("out"));
    let data = contents(3_000_000);
    std::fs::write(&path, &data).unwrap();
    let receiver = Receiver::bind(localhost(0), &ReceiveOptions::default()).unwrap();
    let address = receiver.local_addr();
    let to = out.clone();
    let receiving = std::thread::spawn(move || receiver.receive(&to));
    let attack = std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut stream = Stream::named(7, "garbage", 0);
        for n in 0..2_000 {
            let len = stream.below(200) as usize;
            let mut bytes: Vec<u8> = (0..len).map(|_| stream.bits() as u8).collect();
            // Every second datagram has the right first byte.
            if n % 2 == 0
                && let Some(first) = bytes.first_mut()
            {
                *first = 0xd7;
            }
            let _ = socket.send_to(&bytes, address);
            if n % 20 == 0 {
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
    });
    // Some garbage reaches the receiver before the file.
    std::thread::sleep(std::time::Duration::from_millis(2));
    send_file(&path, address, &SendFileOptions::default()).unwrap();
    attack.join().unwrap();
    let report = receiving.join().unwrap().unwrap();
    assert!(std::fs::read(&out).unwrap() == data);
    let dropped = report.traffic.dropped;
    assert!(dropped["magic"] > 10 && dropped["version"] > 10, "{dropped:?}");
}

#[test]
fn jumbo_frames_and_other_rates_work() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("in"), dir.path().join("out"));
    let data = contents(3_000_000);
    std::fs::write(&path, &data).unwrap();
    // The two ends use different options, over IPv6.
    let half = LinkOptions { rate: Rate::from_mbps(500), ..link() };
    let receive_options = ReceiveOptions { link: half, ..ReceiveOptions::default() };
    let receiver = Receiver::bind("[::1]:0".parse().unwrap(), &receive_options).unwrap();
    let address = receiver.local_addr();
    let to = out.clone();
    let receiving = std::thread::spawn(move || receiver.receive(&to));
    let link = LinkOptions { mtu: Bytes::new(9_000), rate: Rate::from_mbps(200), ..link() };
    let options = SendFileOptions { deadline: Some(Duration::from_millis(1)), link };
    let sent = send_file(&path, address, &options).unwrap();
    let received = receiving.join().unwrap().unwrap();
    assert!(std::fs::read(&out).unwrap() == data);
    // 3 MB at 200 Mb/s take 120 ms.
    assert!(sent.goodput() < Rate::from_mbps(200), "{sent:?}");
    assert_eq!((sent.deadline_met, received.deadline_met), (Some(false), Some(false)));
}

#[test]
fn a_sender_may_be_early() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("in"), dir.path().join("out"));
    std::fs::write(&path, contents(10_000)).unwrap();
    let address = UdpSocket::bind("127.77.1.4:0").unwrap().local_addr().unwrap();
    let sending = std::thread::spawn(move || {
        send_file(&path, address, &SendFileOptions { link: link(), ..SendFileOptions::default() })
    });
    std::thread::sleep(std::time::Duration::from_millis(100));
    receive_file(address, &out, &ReceiveOptions::default()).unwrap();
    sending.join().unwrap().unwrap();
}

fn refused(error: Result<impl std::fmt::Debug, HostError>) -> String {
    error.unwrap_err().to_string()
}

#[test]
fn errors_say_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, b"contents").unwrap();
    let quick = LinkOptions { silence: Duration::from_millis(300), ..LinkOptions::default() };
    let send = SendFileOptions { link: quick.clone(), ..SendFileOptions::default() };
    let receive = ReceiveOptions {
        wait: Some(Duration::from_millis(100)),
        link: quick,
        ..ReceiveOptions::default()
    };

    let missing = refused(send_file(Path::new("/no/such"), localhost(9), &send));
    assert_eq!(missing, "/no/such: no such file");
    let folder = refused(send_file(dir.path(), localhost(9), &send));
    assert!(folder.contains("a directory; name the files in it"), "{folder}");
    let device = refused(send_file(Path::new("/dev/null"), localhost(9), &send));
    assert!(device.contains("not a regular file"), "{device}");
    let exists = refused(receive_file(localhost(0), &file, &receive));
    assert!(exists.contains("exists already"), "{exists}");
    let nowhere = refused(receive_file(localhost(0), Path::new("/no/such/out"), &receive));
    assert!(nowhere.contains("/no/such/out"), "{nowhere}");

    let taken = Receiver::bind(localhost(0), &receive).unwrap();
    let in_use = refused(Receiver::bind(taken.local_addr(), &receive));
    assert!(in_use.contains("address in use"), "{in_use}");
    let elsewhere = refused(Receiver::bind("203.0.113.1:9".parse().unwrap(), &receive));
    assert!(elsewhere.contains("not an address of this machine"), "{elsewhere}");

    let nobody = refused(taken.receive(&dir.path().join("out")));
    assert!(nobody.contains("no sender within 100ms"), "{nobody}");
    assert_eq!(dir.path().read_dir().unwrap().count(), 1, "only the file to send");

    // A socket that never answers, then one that is closed.
    let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = mute.local_addr().unwrap();
    let silent = refused(send_file(&file, address, &send));
    assert_eq!(silent, format!("{address}: silent for 300ms"));
    drop(mute);
    let silent = refused(send_file(&file, address, &send));
    assert!(silent.contains("nothing seems to listen there"), "{silent}");
}

#[test]
fn a_file_too_large_is_refused_at_both_ends() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("in"), dir.path().join("out"));
    std::fs::write(&path, contents(100_000)).unwrap();
    let size_max = Bytes::new(99_999);
    let options = ReceiveOptions { size_max, ..ReceiveOptions::default() };
    let receiver = Receiver::bind(localhost(0), &options).unwrap();
    let address = receiver.local_addr();
    let to = out.clone();
    let receiving = std::thread::spawn(move || receiver.receive(&to));
    let sent = refused(send_file(&path, address, &SendFileOptions::default()));
    assert!(sent.contains("larger than it accepts"), "{sent}");
    let received = refused(receiving.join().unwrap());
    assert!(received.contains("the sender offers 100KB"), "{received}");
    assert_eq!(dir.path().read_dir().unwrap().count(), 1, "only the file to send");
}

/// Sends 40 MB slowly into the directory `to`, so that `meddle` can change the file during the
/// transfer. Returns the errors of the sender and the receiver.
fn fail(to: &Path, meddle: impl FnOnce(&Path)) -> (String, String) {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("in"), to.join("out"));
    std::fs::write(&path, contents(40_000_000)).unwrap();
    let options = ReceiveOptions {
        link: LinkOptions { silence: Duration::from_millis(500), ..link() },
        resume: false,
        ..ReceiveOptions::default()
    };
    let receiver = Receiver::bind(localhost(0), &options).unwrap();
    let relay = Lossy::start(receiver.local_addr(), Faults::default(), 1);
    let address = relay.address();
    let receiving = std::thread::spawn(move || receiver.receive(&out));
    // 40 MB at 1 Gb/s take 320 ms. All but the last parts are read later.
    let link = LinkOptions { rate: Rate::from_gbps(1), ..link() };
    let from = path.clone();
    let sending = std::thread::spawn(move || {
        send_file(&from, address, &SendFileOptions { link, deadline: None })
    });
    // Once packets arrive, the sender has hashed the file.
    while relay.forwarded() < 100 && !sending.is_finished() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    meddle(&path);
    let sent = refused(sending.join().unwrap());
    let received = refused(receiving.join().unwrap());
    assert_eq!(to.read_dir().unwrap().count(), 0, "nothing is left");
    (sent, received)
}

#[test]
fn a_file_that_shrinks_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (sent, received) = fail(dir.path(), |path| std::fs::write(path, b"").unwrap());
    assert!(sent.contains("changed while it was being sent"), "{sent}");
    assert!(received.contains("silent for 500ms"), "{received}");
}

#[test]
fn a_file_that_changes_is_an_error() {
    let meddle = |path: &Path| {
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&[0; 1_000], 39_900_000).unwrap();
    };
    let dir = tempfile::tempdir().unwrap();
    let (sent, received) = fail(dir.path(), meddle);
    assert!(sent.contains("the received file differs from what was sent"), "{sent}");
    assert!(received.contains("differs from what was sent and was removed"), "{received}");
}

#[test]
fn a_full_disk_is_an_error_at_both_ends() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("SKIPPED: a small tmpfs cannot be mounted here (root is needed)");
        assert!(std::env::var_os("PUNCTUAL_NO_SKIPS").is_none(), "skips are failures here");
        return;
    };
    let (sent, received) = fail(disk.0.path(), |_| {});
    assert!(sent.contains("its disk is full"), "{sent}");
    assert!(received.contains("the disk is full"), "{received}");
}

/// A file system of 1 MB.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<SmallDisk> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(dir.path());
        mount.status().is_ok_and(|status| status.success()).then_some(SmallDisk(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(self.0.path()).status();
    }
}
