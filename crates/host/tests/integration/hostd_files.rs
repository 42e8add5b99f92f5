//! Files through host daemons.

use crate::hostd::Daemon;
use punctual_core::Duration;
use punctual_core::rng::Stream;
use punctual_host::{
    FileSender, HostError, LinkOptions, ReceiveOptions, ReceiveTarget, Receiver, SendError,
    SendFileOptions, SendReport, Service, send_file,
};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

fn file(dir: &Path, name: &str, len: usize) -> (PathBuf, Vec<u8>) {
    let mut stream = Stream::named(7, name, len as u64);
    let bytes: Vec<u8> = (0..len).map(|_| stream.bits() as u8).collect();
    std::fs::write(dir.join(name), &bytes).unwrap();
    (dir.join(name), bytes)
}

fn via(daemon: &Daemon, service: &str) -> LinkOptions {
    let service = Service::named(service);
    LinkOptions { hostd: Some(daemon.socket()), service, ..LinkOptions::default() }
}

fn receiving(link: LinkOptions) -> ReceiveOptions {
    let wait = Some(Duration::from_secs(30));
    ReceiveOptions { wait, link, ..ReceiveOptions::default() }
}

fn send(path: &Path, peer: SocketAddr, link: LinkOptions) -> Result<SendReport, HostError> {
    send_file(path, peer, &SendFileOptions { deadline: None, link })
}

/// Two receivers and two senders, all through daemons, each pair with its own service.
#[test]
fn hostd_files__reach_the_receiver_of_their_service() {
    let (here, there) = (Daemon::plain(), Daemon::plain());
    let dir = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for service in ["a", "b"] {
            let (here, there, dir) = (&here, &there, dir.path());
            let into = dir.join(service);
            std::fs::create_dir(&into).unwrap();
            let receiver = Receiver::bind(ANY, &receiving(via(there, service))).unwrap();
            assert_eq!(receiver.local_addr(), there.address());
            scope.spawn(move || {
                let target = ReceiveTarget::Directory(&into);
                receiver.receive_each(target, Some(3), &mut |file| drop(file.result.unwrap()))
            });
            scope.spawn(move || {
                let options = SendFileOptions { deadline: None, link: via(here, service) };
                let sender = FileSender::new(there.address(), &options).unwrap();
                // In one message, and in many parts.
                for (number, len) in [(0, 0), (1, 100_000), (2, 20_000_000)] {
                    let (path, _) = file(dir, &format!("{service}{number}"), len);
                    let report = sender.send(&path, Instant::now()).unwrap();
                    assert_eq!(report.bytes, len as u64);
                }
                let refused = sender.send(dir, Instant::now());
                assert!(matches!(refused, Err(HostError::Directory(_))), "{refused:?}");
            });
        }
    });
    for (service, number) in [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2)] {
        let name = format!("{service}{number}");
        let [sent, stored] = [dir.path().join(&name), dir.path().join(service).join(&name)]
            .map(|path| std::fs::read(path).unwrap());
        assert!(sent == stored, "{name}");
    }
}

/// Five senders of one host, whose messages all come from the address of its daemon, to one receiver
/// without a daemon.
#[test]
fn hostd_files__many_senders_share_an_address() {
    let daemon = Daemon::plain();
    let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let link = LinkOptions { service: Service::named("files"), ..LinkOptions::default() };
    let receiver = Receiver::bind(ANY, &receiving(link)).unwrap();
    let address = receiver.local_addr();
    let files: Vec<_> =
        (0..5).map(|at| file(from.path(), &format!("file{at}"), 17_000_000 + at)).collect();
    std::thread::scope(|scope| {
        let into = into.path();
        scope.spawn(move || {
            let target = ReceiveTarget::Directory(into);
            receiver.receive_each(target, Some(5), &mut |file| drop(file.result.unwrap()))
        });
        for (path, _) in &files {
            let link = via(&daemon, "files");
            scope.spawn(move || send(path, address, link).unwrap());
        }
    });
    for (path, bytes) in &files {
        let stored = std::fs::read(into.path().join(path.file_name().unwrap())).unwrap();
        assert!(stored == *bytes, "{path:?}");
    }
}

#[test]
fn hostd_files__errors_are_typed() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = file(dir.path(), "in", 1_000);
    let absent = LinkOptions { hostd: Some(dir.path().join("none")), ..LinkOptions::default() };
    let sent = send(&path, ANY, absent.clone());
    assert!(matches!(sent, Err(HostError::DaemonAbsent { .. })), "{sent:?}");
    let bound = Receiver::bind(ANY, &receiving(absent));
    assert!(matches!(bound, Err(HostError::DaemonAbsent { .. })), "{bound:?}");

    let daemon = Daemon::plain();
    let first = Receiver::bind(ANY, &receiving(via(&daemon, "one"))).unwrap();
    let second = Receiver::bind(ANY, &receiving(via(&daemon, "one")));
    let service = Service::named("one");
    assert!(
        matches!(&second, Err(HostError::ServiceTaken(taken)) if *taken == service),
        "{second:?}"
    );
    // Nobody receives for the service.
    let sent = send(&path, daemon.address(), via(&daemon, "two"));
    assert!(matches!(sent, Err(HostError::Send(SendError::NotListening(_)))), "{sent:?}");
    // The daemon ends under the receiver.
    std::thread::scope(|scope| {
        let out = dir.path().join("out");
        let waiting = scope.spawn(move || first.receive(&out));
        std::thread::sleep(std::time::Duration::from_millis(100));
        drop(daemon);
        let ended = waiting.join().unwrap();
        assert!(matches!(ended, Err(HostError::DaemonGone)), "{ended:?}");
    });
}
