//! Up, status, exec, down, and what is left after crashes.

use crate::bed::{Bed, PROGRAM, is_possible, leftovers, processes_with, skip, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use punctual_switch::Testbed;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

const QUEUE: &str = "{ kind = \"drop-tail\", limit = \"100packets\" }";

#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn down__removes_everything_also_after_crashes() {
    if !is_possible() {
        return;
    }
    let bed = Bed::star(4, "tcp", QUEUE);
    bed.must("up", &[]);
    let prefix = bed.prefix();
    assert_eq!(leftovers(&prefix).len(), 6, "four hosts, the switch, a directory");
    let twice = bed.run("up", &[]);
    assert!(
        !twice.status.success() && String::from_utf8_lossy(&twice.stderr).contains("up already")
    );
    let printed = bed.must("exec", &["2", "ip", "-br", "addr", "show", "eth0"]);
    assert!(printed.contains("10.0.0.3/16"), "{printed}");
    let failed = bed.run("exec", &["2", "sh", "-c", "exit 7"]);
    assert_eq!(failed.status.code(), Some(7));
    let nobody = bed.run("exec", &["9", "true"]);
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("no host `9`"));
    // A process that stays at a host is ended, too.
    let mut at_host = Command::new("ip")
        .args(["netns", "exec", &format!("{prefix}-h1"), "sleep", "1000"])
        .spawn()
        .expect("ip starts");
    // The switch crashes.
    let pid = bed.switch_pid();
    let killed = Command::new("sh").arg("-c").arg(format!("kill -9 {pid}")).status();
    assert!(killed.expect("sh starts").success());
    wait_until("the switch is gone", || bed.must("status", &[]).contains("does not run"));
    bed.must("restart", &[]);
    assert_ne!(bed.switch_pid(), pid);
    bed.must("down", &[]);
    assert_eq!(leftovers(&prefix), Vec::<String>::new());
    at_host.wait().expect("it was ended");
    // `up` itself is killed, at different moments.
    for ms in [5, 40, 120] {
        let mut up = Command::new(PROGRAM)
            .args(["testbed", "up"])
            .arg(bed.scenario())
            .env(UP, ms.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        std::thread::sleep(Duration::from_millis(ms));
        let _ = up.kill();
        up.wait().expect("it was killed");
        // The `ip` that it had started still runs. Of its children only the switch lasts.
        let is_switch = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(b"switch")
        };
        wait_until("`ip` has ended", || processes_with(UP, &ms.to_string()).iter().all(is_switch));
        bed.must("down", &[]);
        assert_eq!(leftovers(&prefix), Vec::<String>::new(), "after {ms} ms");
    }
    let gone = bed.run("status", &[]);
    assert!(String::from_utf8_lossy(&gone.stderr).contains("is not up"));
}

/// A testbed is built, used and removed without any other program of the machine.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn up__needs_no_other_program() {
    if !is_possible() {
        return;
    }
    let bed = Bed::star(2, "tcp", QUEUE);
    let run = |words: &[&str], more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(words).arg(bed.scenario()).args(more).env("PATH", "/nowhere");
        let output = command.output().expect("the program starts");
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    run(&["testbed", "up"], &[]);
    let prefix = bed.prefix();
    // The interfaces of a host are in its `/sys`, too.
    let interfaces = run(&["testbed", "exec"], &["1", "/bin/ls", "/sys/class/net"]);
    assert!(interfaces.split_whitespace().eq(["eth0", "lo"]), "{interfaces}");
    run(&["testbed", "restart"], &[]);
    run(&["testbed", "down"], &[]);
    assert_eq!(leftovers(&prefix), Vec::<String>::new());
}

/// Set in the processes of a `testbed up` that is killed.
const UP: &str = "PUNCTUAL_TESTBED_UP";

/// Set in the process that [`test__killed_leaves_nothing`] kills.
const KILLED: &str = "PUNCTUAL_TESTBED_KILLED";

/// Not a test: it builds a testbed and waits to be killed.
#[test]
#[ignore = "runs in a child process of another test"]
fn child() {
    if std::env::var_os(KILLED).is_none() {
        return;
    }
    let bed = Bed::star(2, "tcp", QUEUE);
    bed.must("up", &[]);
    println!("\nprefix {}", bed.prefix());
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn test__killed_leaves_nothing() {
    if !is_possible() {
        return;
    }
    let mut test = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "lifecycle::child", "--ignored", "--nocapture"])
        .env(KILLED, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(test.stdout.take().expect("a pipe")).lines();
    let prefix =
        lines.map_while(Result::ok).find_map(|l| Some(l.strip_prefix("prefix ")?.to_owned()));
    let prefix = prefix.expect("a testbed");
    assert_eq!(leftovers(&prefix).len(), 4);
    test.kill().expect("it runs");
    test.wait().expect("it was killed");
    wait_until("nothing is left", || leftovers(&prefix).is_empty());
}

/// Without a capability, the message names it.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn capability__that_is_missing_is_named() {
    if !is_possible() {
        return;
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        skip("`setpriv` is not installed");
        return;
    }
    let bed = Bed::star(2, "tcp", QUEUE);
    let scenario = bed.scenario();
    let scenario = scenario.to_str().expect("a path");
    let refuses = |words: &[&str], capability: &str| {
        let output = Command::new("setpriv")
            .args(["--bounding-set", &format!("-{capability}"), "--", PROGRAM])
            .args(words)
            .output()
            .expect("setpriv starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let name = format!("CAP_{}", capability.to_uppercase());
        assert!(!output.status.success() && said.contains(&name), "{words:?}: {said}");
    };
    let run = ["run", "--on", "testbed", scenario, "--set", "transports=[\"ndp\"]", "--out"];
    let out = bed.scenario().with_file_name("results");
    let run = [&run[..], &[out.to_str().expect("a path")]].concat();
    for capability in ["net_raw", "net_admin", "sys_admin"] {
        refuses(&["testbed", "up", scenario], capability);
        refuses(&run, capability);
    }
    assert!(!bed.run("status", &[]).status.success(), "nothing was built");
    // With a testbed that is up, of somebody who may.
    bed.must("up", &[]);
    refuses(&["testbed", "exec", scenario, "1", "true"], "sys_admin");
    for capability in ["net_raw", "net_admin", "sys_admin"] {
        refuses(&["testbed", "restart", scenario], capability);
        refuses(&["testbed", "down", scenario], capability);
    }
    let config = Testbed::new(&bed.prefix()).config_file();
    refuses(&["switch", "--config", config.to_str().expect("a path")], "net_raw");
    bed.must("exec", &["1", "true"]);
}

/// The endpoint for Prometheus, a stop by SIGTERM, and its exit code.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn metrics__are_served_until_the_switch_stops() {
    if !is_possible() {
        return;
    }
    let bed = Bed::star(2, "tcp", QUEUE);
    bed.must("up", &[]);
    let testbed = Testbed::new(&bed.prefix());
    testbed.stop_switch();
    let namespace = testbed.switch_namespace();
    let lo = ["-n", &namespace, "link", "set", "lo", "up"];
    assert!(Command::new("ip").args(lo).status().expect("ip starts").success());
    let mut switch = Command::new("ip")
        .args(["netns", "exec", &namespace, PROGRAM, "switch", "--config"])
        .arg(testbed.config_file())
        .args(["--metrics", "127.0.0.1:9100"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ip starts");
    let mut said = BufReader::new(switch.stderr.take().expect("a pipe"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert!(line.contains("is ready"), "{line}");
    let at_host = format!("{}-h0", bed.prefix());
    let to = Ipv4Addr::new(10, 0, 0, 2);
    punctual_switch::in_namespace(&at_host, || crate::traffic::ping(to)).expect("an answer");
    let get = || {
        let page = punctual_switch::in_namespace(&namespace, || {
            let mut stream = TcpStream::connect("127.0.0.1:9100")?;
            stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")?;
            let mut page = String::new();
            stream.read_to_string(&mut page)?;
            Ok(page)
        });
        page.expect("a page")
    };
    let count = |line: &str| line.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok());
    let has_counted = |page: &str| {
        let lines = page.lines().filter(|l| l.starts_with("punctual_switch_delivered_total"));
        let counts: Vec<u64> = lines.filter_map(count).collect();
        !counts.is_empty() && counts.iter().all(|n| *n > 0)
    };
    // Reports are made once a second.
    let mut page = String::new();
    wait_until("the metrics count the ping", || {
        page = get();
        has_counted(&page)
    });
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    for series in ["drops_total{port=", "losses_total{port=", "overload_total{host=", "valid "] {
        assert!(page.contains(&format!("\npunctual_switch_{series}")), "{series}: {page}");
    }
    kill(Pid::from_raw(switch.id() as i32), Signal::SIGTERM).expect("it runs");
    let ended = switch.wait_with_output().expect("it ends");
    let table = String::from_utf8_lossy(&ended.stdout);
    // 9: this machine was too busy for the timing to be trusted.
    assert!(matches!(ended.status.code(), Some(0 | 9)), "{:?}", ended.status);
    assert!(table.contains("port") && table.contains("timing: "), "{table}");
}
