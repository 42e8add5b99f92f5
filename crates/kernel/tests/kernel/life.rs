//! Loading and unloading: who gets D2TCP, and that nothing is left behind.

use crate::Test;
use crate::support::{Flow, Namespace, Plan, Sandbox, because, ensure, receive};
use libtest_mimic::Failed;
use punctual_kernel::{
    ControlState, LoadError, LoadOptions, OBJECT, Paths, congestion_control, load, set_deadline,
    sockets, status, unload,
};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] = &[
    ("life__default_of_a_namespace", default__is_set_and_restored),
    ("life__routes", routes__are_set_and_restored),
    ("life__adopted_control_group", group__adopts_unmodified_programs),
    ("life__open_connections_survive", connections__survive_unloading),
    ("life__killed_loader", loader__killed_is_cleaned_up),
    ("life__errors", load__errors_change_nothing),
    ("life__status_lists_sockets", status__lists_sockets),
    ("life__nothing_is_left", unload__leaves_no_trace),
];

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A connection within a namespace that asks for no congestion control, and its name.
fn unmodified(at: &Namespace, address: IpAddr) -> std::io::Result<[String; 2]> {
    at.run(|| {
        let listener = TcpListener::bind(SocketAddr::new(address, 0))?;
        let client = TcpStream::connect(listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        Ok([congestion_control(&client)?, congestion_control(&server)?])
    })
}

fn default__is_set_and_restored(sandbox: &Sandbox) -> Result<(), Failed> {
    let namespace = Namespace::new();
    namespace.set_sysctl("tcp_congestion_control", "reno");
    let options =
        LoadOptions { default: true, netns: Some(namespace.path()), ..sandbox.other("ld") };
    load(OBJECT, &options).map_err(because("load"))?;
    ensure!(namespace.sysctl("tcp_congestion_control") == options.d2tcp, "not the default");
    for address in [LOCALHOST, Ipv6Addr::LOCALHOST.into()] {
        let names = unmodified(&namespace, address)?;
        ensure!(names.iter().all(|name| *name == options.d2tcp), "{address}: {names:?}");
    }
    let shown = status(&options.paths).map_err(because("status"))?.ok_or("nothing loaded")?;
    ensure!(shown.is_default && shown.names[0] == options.d2tcp, "{shown:?}");
    ensure!(unload(&options.paths).map_err(because("unload"))?, "nothing to unload");
    ensure!(namespace.sysctl("tcp_congestion_control") == "reno", "the default is not restored");
    // What somebody changed meanwhile stays.
    load(OBJECT, &options).map_err(because("load"))?;
    namespace.set_sysctl("tcp_congestion_control", &sandbox.dctcp);
    unload(&options.paths).map_err(because("unload"))?;
    let present = namespace.sysctl("tcp_congestion_control");
    ensure!(present == sandbox.dctcp, "the default was changed to {present}");
    namespace.set_sysctl("tcp_congestion_control", "reno");
    Ok(())
}

fn routes__are_set_and_restored(sandbox: &Sandbox) -> Result<(), Failed> {
    let namespace = Namespace::new();
    namespace.sh("ip link add d0 type veth peer name d1");
    namespace.sh("ip link set d0 up");
    namespace.sh("ip link set d1 up");
    namespace.sh("ip route add 10.9.0.0/16 dev d0 metric 7 mtu 1400");
    namespace.sh("ip -6 route add fd09::/64 dev d0 metric 9");
    let before = [namespace.sh("ip route"), namespace.sh("ip -6 route")];
    let options = LoadOptions {
        routes: vec!["10.9.0.0/16".into(), "fd09::/64".into()],
        netns: Some(namespace.path()),
        ..sandbox.other("lr")
    };
    load(OBJECT, &options).map_err(because("load"))?;
    let during = [namespace.sh("ip route"), namespace.sh("ip -6 route")];
    for text in &during {
        ensure!(text.contains(&format!("congctl {}", options.d2tcp)), "{text}");
    }
    unload(&options.paths).map_err(because("unload"))?;
    let after = [namespace.sh("ip route"), namespace.sh("ip -6 route")];
    ensure!(before == after, "before {before:?}, after {after:?}");
    Ok(())
}

fn group__adopts_unmodified_programs(sandbox: &Sandbox) -> Result<(), Failed> {
    let namespace = Namespace::new();
    let options = LoadOptions { adopt: true, ..sandbox.other("la") };
    load(OBJECT, &options).map_err(because("load"))?;
    for address in [LOCALHOST, Ipv6Addr::LOCALHOST.into()] {
        let names = unmodified(&namespace, address)?;
        ensure!(names.iter().all(|name| *name == options.d2tcp), "{address}: {names:?}");
    }
    let names = sandbox.outside(|| unmodified(&namespace, LOCALHOST))?;
    ensure!(!names.contains(&options.d2tcp), "outside of the group: {names:?}");
    unload(&options.paths).map_err(because("unload"))?;
    let names = unmodified(&namespace, LOCALHOST)?;
    ensure!(!names.contains(&options.d2tcp), "after unload: {names:?}");
    Ok(())
}

/// The names of BPF programs of ours that live in the kernel, by the control's name.
fn is_registered(name: &str) -> bool {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let names = std::fs::read_to_string(path).unwrap_or_default();
    names.split_whitespace().any(|present| present == name)
}

fn connections__survive_unloading(sandbox: &Sandbox) -> Result<(), Failed> {
    let namespace = Namespace::new();
    let options = sandbox.other("ls");
    load(OBJECT, &options).map_err(because("load"))?;
    let to = receive(&namespace, LOCALHOST, &options.d2tcp);
    let flow = Flow::new(&options.d2tcp, to, Plan::Bytes(0));
    let mut stream = namespace.run(|| flow.connect())?;
    stream.write_all(&[0; 100_000])?;
    unload(&options.paths).map_err(because("unload"))?;
    ensure!(!is_registered(&options.d2tcp), "still registered");
    stream.write_all(&[0; 1_000_000])?;
    ensure!(congestion_control(&stream)? == options.d2tcp, "the connection changed its control");
    // The name is free at once.
    load(OBJECT, &options).map_err(because("load again"))?;
    unload(&options.paths).map_err(because("unload again"))?;
    stream.shutdown(std::net::Shutdown::Write)?;
    ensure!(stream.read(&mut [0])? == 0, "the peer did not close");
    Ok(())
}

/// The environment variable that turns this program into a loader.
pub(crate) const LOADER: &str = "PUNCTUAL_KERNEL_LOADER";

/// Loads in a process of its own: the variable holds pins, state, name, group and namespace.
pub(crate) fn loader(arguments: &str) -> std::process::ExitCode {
    let words: Vec<&str> = arguments.split('|').collect();
    let options = LoadOptions {
        paths: Paths { pins: words[0].into(), state: words[1].into() },
        d2tcp: words[2].into(),
        dctcp: words[3].into(),
        cgroup: Some(words[4].into()),
        netns: Some(PathBuf::from(words[5])),
        default: true,
        adopt: true,
        ..LoadOptions::default()
    };
    match load(OBJECT, &options) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn loader__killed_is_cleaned_up(sandbox: &Sandbox) -> Result<(), Failed> {
    let namespace = Namespace::new();
    namespace.set_sysctl("tcp_congestion_control", "reno");
    let options = sandbox.other("lk");
    let arguments = [
        options.paths.pins.display().to_string(),
        options.paths.state.display().to_string(),
        options.d2tcp.clone(),
        options.dctcp.clone(),
        sandbox.cgroup.display().to_string(),
        namespace.path().display().to_string(),
    ]
    .join("|");
    let start = || {
        Command::new(std::env::current_exe()?)
            .env(LOADER, &arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
    };
    // Kills the loader when it has made so many pins. They are made within microseconds, so the
    // last two cases also remove what a loader killed earlier would not have made.
    for (pins, removed) in [(0, &[][..]), (1, &[]), (7, &["adopt", "marks"]), (7, &["d2tcp"])] {
        let mut child = start()?;
        let entries = || std::fs::read_dir(&options.paths.pins).map_or(0, Iterator::count);
        let begun = Instant::now();
        while entries() < pins && child.try_wait()?.is_none() {
            ensure!(begun.elapsed() < Duration::from_secs(30), "{pins} pins never appear");
        }
        child.kill()?;
        child.wait()?;
        let made = entries();
        ensure!(made >= pins, "the loader failed with {made} pins");
        for pin in removed {
            std::fs::remove_file(options.paths.pins.join(pin))?;
        }
        unload(&options.paths).map_err(because("unload"))?;
        ensure!(namespace.sysctl("tcp_congestion_control") == "reno", "{made} pins: not restored");
        let files = options.paths.pins.exists() || options.paths.state.exists();
        ensure!(!files, "{made} pins: files are left");
        for name in [&options.d2tcp, &options.dctcp] {
            let gone = eventually(|| !is_registered(name));
            ensure!(gone, "{made} pins: {name} is still registered");
        }
    }
    Ok(())
}

/// Waits up to five seconds for a condition: the kernel frees programs after a grace period.
fn eventually(condition: impl Fn() -> bool) -> bool {
    (0..50).any(|_| {
        let holds = condition();
        if !holds {
            std::thread::sleep(Duration::from_millis(100));
        }
        holds
    })
}

fn load__errors_change_nothing(sandbox: &Sandbox) -> Result<(), Failed> {
    let options = sandbox.other("le");
    let untouched = || !options.paths.pins.exists() && !options.paths.state.exists();
    let again = load(OBJECT, &sandbox.options());
    ensure!(matches!(again, Err(LoadError::AlreadyLoaded(_))), "{again:?}");
    let bad = [
        LoadOptions { d2tcp: "a-name-that-is-too-long".into(), ..options.clone() },
        LoadOptions { dctcp: options.d2tcp.clone(), ..options.clone() },
        LoadOptions { mark_devices: vec!["no-such-device".into()], ..options.clone() },
        LoadOptions { routes: vec!["203.0.113.0/24".into()], ..options.clone() },
        LoadOptions { cgroup: Some("/no/such/group".into()), ..options.clone() },
        LoadOptions { netns: Some("no-such-namespace".into()), default: true, ..options.clone() },
        // Taken by the load that all tests share.
        LoadOptions { d2tcp: sandbox.d2tcp.clone(), ..options.clone() },
    ];
    for options in bad {
        let error = load(OBJECT, &options);
        ensure!(error.is_err(), "{options:?}");
        ensure!(untouched(), "{error:?} left files");
    }
    let rejected = load(b"not an object", &options);
    ensure!(matches!(rejected, Err(LoadError::Rejected { .. })), "{rejected:?}");
    ensure!(!unload(&options.paths).map_err(because("unload"))?, "something was loaded");
    Ok(())
}

fn status__lists_sockets(sandbox: &Sandbox) -> Result<(), Failed> {
    let namespace = Namespace::new();
    let to = receive(&namespace, LOCALHOST, &sandbox.d2tcp);
    let flow = Flow::new(&sandbox.d2tcp, to, Plan::Bytes(0));
    let stream = namespace.run(|| flow.connect())?;
    set_deadline(&stream, 77_000, Duration::from_secs(9))?;
    let listed = sockets(&sandbox.paths).map_err(because("sockets"))?;
    let local = stream.local_addr()?;
    let own = listed.iter().find(|s| s.local == local && s.remote == to).ok_or("not listed")?;
    ensure!(own.control == sandbox.d2tcp && own.info.state == ControlState::D2tcp, "{own:?}");
    ensure!(own.info.messages == 1 && own.info.bytes_left == 77_000, "{own:?}");
    ensure!((1..=9_000_000).contains(&own.info.left_us), "{own:?}");
    // The other end is listed, too, and ss agrees.
    ensure!(listed.iter().any(|s| s.local == to && s.remote == local), "{listed:?}");
    let shown = namespace.sh("ss -tin");
    ensure!(shown.contains(&sandbox.d2tcp), "{shown}");
    Ok(())
}

/// Identifiers of all links, programs or maps in the kernel.
fn objects() -> Result<Vec<String>, Failed> {
    let mut found = Vec::new();
    let programs = libbpf_rs::query::ProgInfoIter::default();
    found.extend(programs.map(|p| format!("program {}", p.name.to_string_lossy())));
    let maps = libbpf_rs::query::MapInfoIter::default();
    found.extend(maps.map(|m| format!("map {}", m.name.to_string_lossy())));
    let links = libbpf_rs::query::LinkInfoIter::default();
    found.extend(links.map(|_| "link".to_owned()));
    found.sort();
    Ok(found)
}

fn unload__leaves_no_trace(sandbox: &Sandbox) -> Result<(), Failed> {
    let namespace = Namespace::new();
    namespace.sh("ip link add d0 type veth peer name d1");
    let settled = || {
        // Programs of earlier tests are freed after a grace period.
        let mut last = objects();
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(200));
            let next = objects();
            if matches!((&last, &next), (Ok(a), Ok(b)) if a == b) {
                break;
            }
            last = next;
        }
        last
    };
    let before = settled()?;
    let options = LoadOptions {
        adopt: true,
        default: true,
        netns: Some(namespace.path()),
        mark_devices: vec!["d0".into()],
        ..sandbox.other("ln")
    };
    load(OBJECT, &options).map_err(because("load"))?;
    ensure!(objects()?.len() > before.len() + 10, "nothing was loaded");
    unload(&options.paths).map_err(because("unload"))?;
    let clean = eventually(|| objects().is_ok_and(|now| now == before));
    ensure!(clean, "before {before:?}, after {:?}", objects()?);
    Ok(())
}
