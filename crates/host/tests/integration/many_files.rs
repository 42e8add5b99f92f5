//! Several files into a directory, their names, and transfers that are continued.

use crate::support::{Faults, Lossy};
use punctual_core::rng::Stream;
use punctual_core::{Duration, Rate};
use punctual_host::{
    Endpoint, EndpointOptions, FileSender, HostError, Key, LinkOptions, ReceiveOptions,
    ReceiveTarget, ReceivedFile, Receiver, SendFileOptions, SendOptions, SendReport, send_file,
};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Instant;

fn contents(len: usize, salt: u64) -> Vec<u8> {
    let mut stream = Stream::named(salt, "many files", len as u64);
    (0..len).map(|_| stream.bits() as u8).collect()
}

fn link() -> LinkOptions {
    LinkOptions { silence: Duration::from_millis(700), ..LinkOptions::default() }
}

fn options() -> ReceiveOptions {
    let wait = Some(Duration::from_secs(10));
    ReceiveOptions { wait, link: link(), ..ReceiveOptions::default() }
}

type Receiving = JoinHandle<(Vec<ReceivedFile>, Result<(), HostError>)>;

fn receive_into(dir: &Path, count: usize, options: &ReceiveOptions) -> (SocketAddr, Receiving) {
    let receiver = Receiver::bind("127.0.0.1:0".parse().unwrap(), options).unwrap();
    let (address, dir) = (receiver.local_addr(), dir.to_path_buf());
    let receiving = std::thread::spawn(move || {
        let mut files = Vec::new();
        let target = ReceiveTarget::Directory(&dir);
        let ended = receiver.receive_each(target, Some(count), &mut |file| files.push(file));
        (files, ended)
    });
    (address, receiving)
}

fn names(dir: &Path) -> Vec<String> {
    let entries = dir.read_dir().unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = entries.collect();
    names.sort();
    names
}

#[test]
fn many__arrive_under_their_names() {
    let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (address, receiving) = receive_into(into.path(), 12, &options());
    let link = link();
    let sender = FileSender::new(address, &SendFileOptions { deadline: None, link }).unwrap();
    for number in 0..12u64 {
        let path = from.path().join(format!("file {number}.bin"));
        std::fs::write(&path, contents(1 << (number * 2), number)).unwrap();
        sender.send(&path, Instant::now()).unwrap();
    }
    let (files, ended) = receiving.join().unwrap();
    ended.unwrap();
    assert_eq!(files.len(), 12);
    for number in 0..12u64 {
        let stored = std::fs::read(into.path().join(format!("file {number}.bin"))).unwrap();
        assert!(stored == contents(1 << (number * 2), number), "file {number}");
    }
    assert_eq!(names(into.path()).len(), 12);
}

/// Two senders at once, each with its own files.
#[test]
fn many__senders_do_not_disturb_each_other() {
    let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (address, receiving) = receive_into(into.path(), 6, &options());
    std::thread::scope(|scope| {
        for salt in 0..2u64 {
            let from = from.path();
            scope.spawn(move || {
                let options = SendFileOptions { deadline: None, link: link() };
                let sender = FileSender::new(address, &options).unwrap();
                for number in 0..3 {
                    let path = from.join(format!("{salt}-{number}"));
                    std::fs::write(&path, contents(6_000_000, salt * 10 + number)).unwrap();
                    sender.send(&path, Instant::now()).unwrap();
                }
            });
        }
    });
    let (files, ended) = receiving.join().unwrap();
    ended.unwrap();
    assert!(files.iter().all(|file| file.result.is_ok()), "{files:?}");
    for name in names(from.path()) {
        let [sent, stored] =
            [&from, &into].map(|dir| std::fs::read(dir.path().join(&name)).unwrap());
        assert!(sent == stored, "{name}");
    }
}

/// An offer as the format has it, with any name.
fn offer(name: &[u8]) -> Vec<u8> {
    let mut bytes = b"pnctual3".to_vec();
    bytes.resize(16, 0);
    bytes.extend_from_slice(&[7; 16]);
    bytes.extend_from_slice(&5u64.to_be_bytes());
    bytes.extend_from_slice(blake3::hash(b"hello").as_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(name);
    bytes
}

/// A sender that gives its file a path, a hidden name or control characters is refused, and nothing
/// is written.
#[test]
fn names__that_could_surprise_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("into");
    std::fs::create_dir(&into).unwrap();
    let (address, receiving) = receive_into(&into, 1, &options());
    let any = "127.0.0.1:0".parse().unwrap();
    let client = Endpoint::bind(any, EndpointOptions::default()).unwrap();
    let bad: [&[u8]; 8] =
        [b"", b"..", b"../evil", b"/tmp/evil", b".bashrc", b"a\nb", b"\xff", b"a\0b"];
    for name in bad {
        let request = client.request(address, offer(name), &SendOptions::default()).unwrap();
        let (outcome, response) = request.wait_response();
        let response = response.unwrap_or_else(|| panic!("{outcome:?}"));
        assert_eq!(response[7], 9, "{name:?} is a bad name");
    }
    let path = dir.path().join("good");
    std::fs::write(&path, b"hello").unwrap();
    send_file(&path, address, &SendFileOptions { deadline: None, link: link() }).unwrap();
    let (files, ended) = receiving.join().unwrap();
    ended.unwrap();
    let refused = files.iter().filter(|f| matches!(f.result, Err(HostError::BadName(_)))).count();
    assert_eq!((refused, files.len()), (bad.len(), bad.len() + 1));
    assert_eq!(names(dir.path()), ["good", "into"]);
    assert_eq!(names(&into), ["good"]);
}

#[test]
fn names__that_exist_are_kept() {
    let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(into.path().join("taken"), b"mine").unwrap();
    let paths: Vec<PathBuf> = ["taken", "free"].map(|name| from.path().join(name)).to_vec();
    paths.iter().for_each(|path| std::fs::write(path, b"theirs").unwrap());
    let (address, receiving) = receive_into(into.path(), 1, &options());
    let link = link();
    let sender = FileSender::new(address, &SendFileOptions { deadline: None, link }).unwrap();
    let refused = sender.send(&paths[0], Instant::now()).unwrap_err().to_string();
    assert!(refused.contains("a file of that name exists there"), "{refused}");
    sender.send(&paths[1], Instant::now()).unwrap();
    receiving.join().unwrap().1.unwrap();
    assert_eq!(std::fs::read(into.path().join("taken")).unwrap(), b"mine");
    assert_eq!(std::fs::read(into.path().join("free")).unwrap(), b"theirs");
    let overwrite = ReceiveOptions { overwrite: true, ..options() };
    let (address, receiving) = receive_into(into.path(), 1, &overwrite);
    send_file(&paths[0], address, &SendFileOptions::default()).unwrap();
    receiving.join().unwrap().1.unwrap();
    assert_eq!(std::fs::read(into.path().join("taken")).unwrap(), b"theirs");
}

/// Files are sent with a key, and nobody without it has any effect.
#[test]
fn keyed__only_the_key_opens() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("in"), dir.path().join("out"));
    std::fs::write(&path, contents(100_000, 1)).unwrap();
    let keyed = |secret: &[u8]| LinkOptions { key: Key::new(secret).ok(), ..link() };
    let right = keyed(b"a secret of both ends");
    let receive_options = ReceiveOptions { link: right.clone(), ..options() };
    let receiver = Receiver::bind("127.0.0.1:0".parse().unwrap(), &receive_options).unwrap();
    let address = receiver.local_addr();
    let to = out.clone();
    let receiving = std::thread::spawn(move || receiver.receive(&to));
    for link in [keyed(b"another secret, not theirs"), link()] {
        let sent = send_file(&path, address, &SendFileOptions { deadline: None, link });
        assert!(matches!(sent, Err(HostError::PeerSilent { .. })), "{sent:?}");
    }
    send_file(&path, address, &SendFileOptions { deadline: None, link: right }).unwrap();
    let received = receiving.join().unwrap().unwrap();
    assert!(std::fs::read(&out).unwrap() == contents(100_000, 1));
    assert!(received.traffic.dropped["not_keyed"] > 0, "{received:?}");
}

const LARGE: usize = 30_000_000;

/// Sends a large file until a third of it has arrived. Then the network is gone. Returns the
/// sender's error and the file that the receiver keeps.
fn interrupt(path: &Path, into: &Path) -> (HostError, Option<PathBuf>) {
    let (address, receiving) = receive_into_one(into);
    let relay = Lossy::start(address, Faults::default(), 1);
    let to = relay.address();
    let from = path.to_path_buf();
    let link = LinkOptions { rate: Rate::from_mbps(500), ..link() };
    let sending =
        std::thread::spawn(move || send_file(&from, to, &SendFileOptions { deadline: None, link }));
    while relay.forwarded() < 16_000 && !sending.is_finished() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    relay.set_outage(true);
    let sent = sending.join().unwrap().expect_err("the network is gone");
    let file = receiving.join().unwrap();
    assert!(matches!(file.result, Err(HostError::PeerSilent { .. })), "{file:?}");
    (sent, file.kept)
}

fn receive_into_one(into: &Path) -> (SocketAddr, JoinHandle<ReceivedFile>) {
    let receiver = Receiver::bind("127.0.0.1:0".parse().unwrap(), &options()).unwrap();
    let (address, out) = (receiver.local_addr(), into.join("out"));
    let receiving = std::thread::spawn(move || {
        let mut last = None;
        let target = ReceiveTarget::File(&out);
        receiver.receive_each(target, Some(1), &mut |file| last = Some(file)).unwrap();
        last.unwrap()
    });
    (address, receiving)
}

fn again(path: &Path, into: &Path) -> SendReport {
    let (address, receiving) = receive_into_one(into);
    let sent = send_file(path, address, &SendFileOptions { deadline: None, link: link() }).unwrap();
    let received = receiving.join().unwrap().result.unwrap();
    assert_eq!(received.resumed, sent.resumed);
    assert!(std::fs::read(into.join("out")).unwrap() == std::fs::read(path).unwrap());
    assert_eq!(names(into), ["out"], "nothing else is left");
    sent
}

#[test]
fn resume__an_interrupted_transfer_is_continued() {
    let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("in");
    std::fs::write(&path, contents(LARGE, 1)).unwrap();
    let (error, kept) = interrupt(&path, into.path());
    assert!(matches!(error, HostError::PeerSilent { .. }), "{error}");
    let kept = kept.expect("what arrived");
    assert_eq!(names(into.path()), [kept.file_name().unwrap().to_str().unwrap()]);
    let sent = again(&path, into.path());
    assert!(sent.resumed >= 1 << 20 && sent.resumed < LARGE as u64, "{sent:?}");
}

/// What was kept has changed, as after a crash of the machine: the transfer starts again.
#[test]
fn resume__wrong_bytes_are_not_continued() {
    let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("in");
    std::fs::write(&path, contents(LARGE, 2)).unwrap();
    let kept = interrupt(&path, into.path()).1.expect("what arrived");
    let file = std::fs::OpenOptions::new().write(true).open(&kept).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 100], 50_000).unwrap();
    assert_eq!(again(&path, into.path()).resumed, 0);
}

/// Another file of the same name has another hash: it does not continue the first one.
#[test]
fn resume__is_tied_to_the_contents() {
    let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("in");
    std::fs::write(&path, contents(LARGE, 3)).unwrap();
    let kept = interrupt(&path, into.path()).1.expect("what arrived");
    std::fs::write(&path, contents(3_000_000, 4)).unwrap();
    let (address, receiving) = receive_into_one(into.path());
    let options = SendFileOptions { deadline: None, link: link() };
    assert_eq!(send_file(&path, address, &options).unwrap().resumed, 0);
    receiving.join().unwrap().result.unwrap();
    assert!(kept.exists(), "the first one may still be continued");
}
