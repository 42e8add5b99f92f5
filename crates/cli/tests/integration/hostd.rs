//! The host daemon as a command: ready, serving, stopped by SIGTERM; its systemd unit.

use crate::common::{Place, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn the_daemon_serves_until_it_is_told_to_stop() {
    let place = Place::new("");
    let at = |name: &str| place.path().join(name);
    let notify = UnixDatagram::bind(at("notify")).unwrap();
    notify.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let metrics = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut daemon = place
        .command(&["hostd", "--listen", "127.0.0.1:0", "--socket", "hostd.sock"])
        .args(["--metrics", &metrics.to_string(), "--mode", "600"])
        .env("NOTIFY_SOCKET", at("notify"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(daemon.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    let address = line.strip_prefix("listening on ").and_then(|rest| rest.split(',').next());
    let address: SocketAddr = address.unwrap().parse().unwrap();
    let mut state = [0; 64];
    let count = notify.recv(&mut state).expect("the daemon reports that it is ready");
    assert_eq!(&state[..count], b"READY=1");

    let ping = |socket: &str| {
        let args = ["ping", &address.to_string(), "--count", "2", "--interval", "1ms", "--json"];
        place.command(&args).env("PUNCTUAL_HOSTD", socket).output().unwrap()
    };
    let answered = ping("hostd.sock");
    assert!(answered.status.success(), "{}", text(&answered.stderr));
    assert!(text(&answered.stdout).contains("\"answered\":2"), "{}", text(&answered.stdout));
    let absent = ping("absent.sock");
    assert_eq!(absent.status.code(), Some(1));
    assert!(text(&absent.stderr).contains("punctual hostd --socket absent.sock"));
    let second = place.punctual(&["hostd", "--listen", "127.0.0.1:0", "--socket", "hostd.sock"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains("another host daemon"), "{}", text(&second.stderr));

    let give_up_at = Instant::now() + Duration::from_secs(20);
    loop {
        let mut stream = TcpStream::connect(metrics).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
        if page.contains("\npunctual_hostd_clients_attached_total 1\n") {
            break;
        }
        assert!(Instant::now() < give_up_at, "{page}");
        std::thread::sleep(Duration::from_millis(50));
    }

    kill(Pid::from_raw(daemon.id() as i32), Signal::SIGTERM).unwrap();
    let status = daemon.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(!at("hostd.sock").exists());
}

#[test]
fn the_unit_is_valid_and_has_no_privilege_but_a_capability() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/systemd/punctual-hostd.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    for line in ["DynamicUser=yes", "NoNewPrivileges=yes", "Type=notify"] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
    // Neither the program nor its manual page is where they will be installed.
    let program = env!("CARGO_BIN_EXE_punctual");
    let unit = unit.replace("/usr/local/bin/punctual", program);
    let unit = unit.replace("Documentation=man:punctual-hostd(1)\n", "");
    let place = Place::new("");
    let file = place.path().join("punctual-hostd.service");
    std::fs::write(&file, unit).unwrap();
    match Command::new("systemd-analyze").arg("verify").arg(&file).output() {
        Ok(verified) => {
            assert!(verified.status.success(), "{}", text(&verified.stderr));
            assert_eq!(text(&verified.stderr), "");
        }
        Err(error) => {
            println!("SKIPPED: `systemd-analyze` cannot run ({error}); run `cargo xtask setup`");
            let no_skips = std::env::var("PUNCTUAL_NO_SKIPS");
            assert!(!no_skips.is_ok_and(|v| !v.is_empty() && v != "0"), "skips count as failures");
        }
    }
}
