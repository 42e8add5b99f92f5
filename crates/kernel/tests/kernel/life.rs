//! Loading and unloading: who gets D2TCP, and that nothing is left behind.

use crate::Test;
use crate::support::{Flow, Namespace, Plan, Sandbox, because, ensure, receive};
use libbpf_rs::query::{BtfInfoIter, LinkInfoIter, LinkTypeInfo, MapInfoIter, ProgInfoIter};
use libtest_mimic::Failed;
use punctual_kernel::{
    ControlState, LoadError, LoadOptions, OBJECT, Paths, congestion_control, load, set_deadline,
    sockets, status, unload,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] = &[
    ("life__default_of_a_namespace", default__is_set_and_restored),
    ("life__routes", routes__are_set_and_restored),
    ("life__adopted_control_group", group__adopts_unmodified_programs),
    ("life__open_connections_survive", connections__survive_unloading),
    ("life__killed_loader", loader__killed_is_cleaned_up),
    ("life__killed_loader_with_marker_and_routes", loader__killed_with_marker_and_routes),
    ("life__errors", load__errors_change_nothing),
    ("life__status_lists_sockets", status__lists_sockets),
    ("life__nothing_is_left", unload__leaves_no_trace),
    ("life__nothing_is_left_after_the_last_socket", unload__leaves_no_trace_after_the_last_socket),
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
    let namespace = routed();
    let before = [namespace.sh("ip route"), namespace.sh("ip -6 route")];
    let options = LoadOptions {
        routes: ROUTES.map(String::from).to_vec(),
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
    stream.shutdown(Shutdown::Write)?;
    ensure!(stream.read(&mut [0])? == 0, "the peer did not close");
    Ok(())
}

/// The environment variable that turns this program into a loader.
pub(crate) const LOADER: &str = "PUNCTUAL_KERNEL_LOADER";

/// Loads in a process of its own, then waits to be killed. The variable holds pins, state, names,
/// group, namespace, marked devices and routes.
pub(crate) fn loader(arguments: &str) -> std::process::ExitCode {
    let words: Vec<&str> = arguments.split('|').collect();
    let list = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    let options = LoadOptions {
        paths: Paths { pins: words[0].into(), state: words[1].into() },
        d2tcp: words[2].into(),
        dctcp: words[3].into(),
        cgroup: Some(words[4].into()),
        netns: Some(PathBuf::from(words[5])),
        mark_devices: list(words[6]),
        routes: list(words[7]),
        default: true,
        adopt: true,
        ..LoadOptions::default()
    };
    match load(OBJECT, &options) {
        Ok(()) => {
            // The pipe closes with the test, so no loader outlives it.
            let _ = std::io::stdin().read(&mut [0]);
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}

/// Starts a loader with these options.
fn start_loader(options: &LoadOptions) -> std::io::Result<Child> {
    let path = |path: &Option<PathBuf>| path.as_deref().map_or_else(String::new, shown);
    let arguments = [
        shown(&options.paths.pins),
        shown(&options.paths.state),
        options.d2tcp.clone(),
        options.dctcp.clone(),
        path(&options.cgroup),
        path(&options.netns),
        options.mark_devices.join(" "),
        options.routes.join(" "),
    ];
    Command::new(std::env::current_exe()?)
        .env(LOADER, arguments.join("|"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Kills a loader with SIGKILL as soon as a condition holds. It must not have ended by itself.
fn kill_when(mut child: Child, what: &str, condition: impl Fn() -> bool) -> Result<(), Failed> {
    let begun = Instant::now();
    let mut held = condition();
    while !held && child.try_wait()?.is_none() && begun.elapsed() < Duration::from_secs(120) {
        held = condition();
    }
    let ended = child.try_wait()?;
    child.kill()?;
    child.wait()?;
    ensure!(held, "{what}: never so; the loader's status: {ended:?}");
    ensure!(ended.is_none(), "{what}: the loader ended by itself: {ended:?}");
    Ok(())
}

fn loader__killed_is_cleaned_up(sandbox: &Sandbox) -> Result<(), Failed> {
    let namespace = Namespace::new();
    namespace.set_sysctl("tcp_congestion_control", "reno");
    let options = LoadOptions { netns: Some(namespace.path()), ..sandbox.other("lk") };
    // Kills the loader when it has made so many pins. They are made within microseconds, so the
    // last two cases also remove what a loader killed earlier would not have made.
    for (pins, removed) in [(0, &[][..]), (1, &[]), (7, &["adopt", "marks"]), (7, &["d2tcp"])] {
        let entries = || std::fs::read_dir(&options.paths.pins).map_or(0, Iterator::count);
        kill_when(start_loader(&options)?, &format!("{pins} pins"), || entries() >= pins)?;
        let made = entries();
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

/// Kills the loader when the tc marker is attached, when the first of two routes has the congestion
/// control, and when both have it.
fn loader__killed_with_marker_and_routes(sandbox: &Sandbox) -> Result<(), Failed> {
    let namespace = routed();
    namespace.set_sysctl("tcp_congestion_control", "reno");
    let options = LoadOptions {
        netns: Some(namespace.path()),
        mark_devices: vec!["d0".into()],
        routes: ROUTES.map(String::from).to_vec(),
        ..sandbox.other("lm")
    };
    let before = Settings::of(&namespace);
    let marker = options.paths.pins.join("mark_d0");
    let has = |command: &str| namespace.sh(command).contains(&format!("congctl {}", options.d2tcp));
    for (what, command) in
        [("the marker", ""), ("the first route", "ip route"), ("both routes", "ip -6 route")]
    {
        let existing = objects();
        let child = start_loader(&options)?;
        kill_when(child, what, || marker.exists() && (command.is_empty() || has(command)))?;
        let made = &objects() - &existing;
        for kind in ["program", "map", "tcx link"] {
            ensure!(made.iter().any(|object| object.starts_with(kind)), "{what}: no {kind}");
        }
        ensure!(unload(&options.paths).map_err(because("unload"))?, "{what}: nothing to unload");
        // Once more finds nothing.
        ensure!(!unload(&options.paths).map_err(because("unload"))?, "{what}: unloaded twice");
        let files = options.paths.pins.exists() || options.paths.state.exists();
        ensure!(!files, "{what}: files are left");
        let gone = eventually(|| objects().is_disjoint(&made));
        ensure!(gone, "{what}: these are left: {:?}", &objects() & &made);
        let after = Settings::of(&namespace);
        ensure!(before == after, "{what}: before {before:?}, after {after:?}");
        for name in [&options.d2tcp, &options.dctcp] {
            ensure!(!is_registered(name), "{what}: {name} is still registered");
        }
    }
    Ok(())
}

/// Waits up to twenty seconds for a condition: the kernel frees programs after a grace period.
fn eventually(condition: impl Fn() -> bool) -> bool {
    (0..200).any(|_| {
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

/// All BPF programs, maps, type descriptions and links in the kernel, each with its identifier. The
/// kernel does not use an identifier again before it has used two thousand million others.
fn objects() -> BTreeSet<String> {
    let name = |name: &OsString| name.to_string_lossy().into_owned();
    let programs = ProgInfoIter::default().map(|p| format!("program {} {}", p.id, name(&p.name)));
    let maps = MapInfoIter::default().map(|m| format!("map {} {}", m.id, name(&m.name)));
    let types = BtfInfoIter::default().map(|b| format!("types {} {}", b.id, name(&b.name)));
    let links = LinkInfoIter::default().map(|link| {
        let is_tcx = matches!(link.info, LinkTypeInfo::Tcx(_));
        format!("{} {}", if is_tcx { "tcx link" } else { "link" }, link.id)
    });
    programs.chain(maps).chain(types).chain(links).collect()
}

/// The settings of a network namespace that a load may change.
#[derive(Debug, PartialEq, Eq)]
struct Settings {
    routes: [String; 2],
    disciplines: String,
    /// The names and values of all TCP settings, except the lists of registered congestion controls,
    /// which are the machine's.
    tcp: BTreeMap<OsString, String>,
}

/// Settings that list the congestion controls of the machine.
const LISTS: [&str; 2] = ["tcp_available_congestion_control", "tcp_allowed_congestion_control"];

impl Settings {
    fn of(namespace: &Namespace) -> Settings {
        let tcp = namespace.run(|| {
            let entries = std::fs::read_dir("/proc/sys/net/ipv4").expect("sysctl").flatten();
            entries
                .filter(|entry| {
                    let name = entry.file_name();
                    let name = name.to_string_lossy();
                    name.starts_with("tcp_") && !LISTS.contains(&&*name)
                })
                .filter_map(|entry| {
                    Some((entry.file_name(), std::fs::read_to_string(entry.path()).ok()?))
                })
                .collect()
        });
        Settings {
            routes: [namespace.sh("ip route"), namespace.sh("ip -6 route")],
            disciplines: namespace.sh("tc qdisc"),
            tcp,
        }
    }
}

/// The routes of [`routed`].
const ROUTES: [&str; 2] = ["10.9.0.0/16", "fd09::/64"];

/// A namespace with the device `d0` and two routes over it.
fn routed() -> Namespace {
    let namespace = Namespace::new();
    namespace.sh("ip link add d0 type veth peer name d1");
    namespace.sh("ip link set d0 up");
    namespace.sh("ip link set d1 up");
    namespace.sh("ip route add 10.9.0.0/16 dev d0 metric 7 mtu 1400");
    namespace.sh("ip -6 route add fd09::/64 dev d0 metric 9");
    namespace
}

fn unload__leaves_no_trace(sandbox: &Sandbox) -> Result<(), Failed> {
    let namespace = Namespace::new();
    namespace.sh("ip link add d0 type veth peer name d1");
    let before = objects();
    let options = LoadOptions {
        adopt: true,
        default: true,
        netns: Some(namespace.path()),
        mark_devices: vec!["d0".into()],
        ..sandbox.other("ln")
    };
    load(OBJECT, &options).map_err(because("load"))?;
    let made = &objects() - &before;
    ensure!(made.len() > 10, "nothing was loaded: {made:?}");
    unload(&options.paths).map_err(because("unload"))?;
    let clean = eventually(|| objects().is_disjoint(&made));
    ensure!(clean, "these are left: {:?}", &objects() & &made);
    Ok(())
}

/// Unloads while a connection uses the congestion control. The connection goes on; when it closes,
/// programs, maps, control group and network namespace are freed.
fn unload__leaves_no_trace_after_the_last_socket(sandbox: &Sandbox) -> Result<(), Failed> {
    // The kernel removes `outside` when it frees the namespace of the other end.
    let witness = Namespace::new();
    let namespace = routed();
    witness.sh("ip link add outside type veth peer name inside");
    witness.sh(&format!("ip link set inside netns {}", namespace.path().display()));
    namespace.set_sysctl("tcp_congestion_control", "reno");
    let group = sandbox.cgroup.join("last-socket");
    std::fs::create_dir(&group)?;
    let groups = || std::fs::read_to_string(sandbox.cgroup.join("cgroup.stat"));
    let (settings, before) = (Settings::of(&namespace), objects());
    let options = LoadOptions {
        cgroup: Some(group.clone()),
        adopt: true,
        default: true,
        netns: Some(namespace.path()),
        routes: ROUTES.map(String::from).to_vec(),
        mark_devices: vec!["d0".into()],
        ..sandbox.other("lo")
    };
    load(OBJECT, &options).map_err(because("load"))?;
    let made = &objects() - &before;
    let [mut client, mut server] = sandbox.within(&group, || {
        namespace.run(|| {
            let listener = TcpListener::bind(SocketAddr::new(LOCALHOST, 0))?;
            let client = TcpStream::connect(listener.local_addr()?)?;
            let (server, _) = listener.accept()?;
            Ok::<_, std::io::Error>([client, server])
        })
    })?;
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.set_write_timeout(Some(Duration::from_secs(20)))?;
    }
    set_deadline(&client, 1_000_000, Duration::from_secs(9))?;
    let mut transfer = || -> Result<(), Failed> {
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| server.read_exact(&mut vec![0; 1_000_000]));
            client.write_all(&vec![0; 1_000_000])?;
            Ok(reader.join().expect("reader")?)
        })
    };
    transfer()?;

    unload(&options.paths).map_err(because("unload"))?;
    ensure!(!options.paths.pins.exists() && !options.paths.state.exists(), "files are left");
    ensure!(!is_registered(&options.d2tcp), "still registered");
    let restored = Settings::of(&namespace);
    ensure!(settings == restored, "before {settings:?}, after {restored:?}");
    // The connection survives, with its congestion control, which the kernel keeps for it.
    transfer()?;
    for stream in [&client, &server] {
        ensure!(congestion_control(stream)? == options.d2tcp, "the control changed");
    }
    let kept = &objects() & &made;
    ensure!(kept.iter().any(|object| object.starts_with("program")), "kept only {kept:?}");

    client.shutdown(Shutdown::Write)?;
    ensure!(server.read(&mut [0])? == 0, "the client did not close");
    drop((client, server));
    let clean = eventually(|| objects().is_disjoint(&made));
    ensure!(clean, "these are left: {:?}", &objects() & &made);
    std::fs::remove_dir(&group)?;
    // A group that something still refers to is counted as dying.
    let is_free = || groups().is_ok_and(|text| text.contains("nr_dying_descendants 0\n"));
    ensure!(eventually(is_free), "the control group is not freed: {:?}", groups());
    drop(namespace);
    let is_gone = || !witness.sh("ip link").contains("outside");
    ensure!(eventually(is_gone), "the network namespace is not freed");
    Ok(())
}
