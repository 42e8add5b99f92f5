//! A running switch with another configuration, on interfaces.

use crate::bed::{Bed, is_possible, leftovers};
use crate::traffic::ping;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use punctual_switch::{Testbed, in_namespace};
use std::net::Ipv4Addr;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

const QUEUE: &str = "{ kind = \"drop-tail\", limit = \"100packets\" }";

/// Writes a new configuration and tells the switch. Returns its report once it has read it.
pub(crate) fn reload(bed: &Bed, testbed: &Testbed, text: &str) -> serde_json::Value {
    let report = || -> serde_json::Value {
        let text = std::fs::read_to_string(testbed.report_file()).expect("a report");
        serde_json::from_str(&text).expect("JSON")
    };
    let verdict =
        |report: &serde_json::Value| (report["reloads"].clone(), report["reload_error"].clone());
    let before = verdict(&report());
    std::fs::write(testbed.config_file(), text).expect("it can be written");
    kill(Pid::from_raw(bed.switch_pid() as i32), Signal::SIGHUP).expect("the switch runs");
    let begin = Instant::now();
    while verdict(&report()) == before {
        assert!(begin.elapsed() < Duration::from_secs(10), "the switch does not answer");
        sleep(Duration::from_millis(20));
    }
    report()
}

/// Delays change, hosts come and go, and mistakes change nothing, all while one process runs.
#[test]
#[ignore = "namespaces: cargo xtask test testbed"]
fn reload__on_interfaces() {
    if !is_possible() {
        return;
    }
    let bed = Bed::star(3, "tcp", QUEUE);
    bed.must("up", &[]);
    let prefix = bed.prefix();
    let testbed = Testbed::new(&prefix);
    let pid = bed.switch_pid();
    let first = std::fs::read_to_string(testbed.config_file()).expect("a configuration");
    let ping_1 = || in_namespace(&format!("{prefix}-h0"), || ping(Ipv4Addr::new(10, 0, 0, 2)));
    ping_1().expect("an answer");
    // Longer links: no answer can be earlier than four of them.
    let slow = first.replace("5us", "5ms");
    assert_ne!(slow, first);
    assert_eq!(reload(&bed, &testbed, &slow)["reloads"], 1);
    assert!(ping_1().expect("an answer") >= Duration::from_millis(20));
    // Mistakes are named, and change nothing.
    for (text, part) in [
        (slow.replace("rate", "rote"), "rote"),
        (slow.replace("\"port2\"", "\"port9\""), "no interface is called `port9`"),
        (slow.replacen("mtu = ", "mtu = \"9000B\" #", 1), "`mtu` cannot change"),
    ] {
        let report = reload(&bed, &testbed, &text);
        let error = report["reload_error"].as_str().unwrap_or_default();
        assert!(error.contains(part), "{part}: {report}");
        assert_eq!(report["reloads"], 1);
        assert!(bed.must("status", &[]).contains(part));
    }
    assert!(ping_1().expect("an answer") >= Duration::from_millis(20));
    // Host 2 goes, and a link to it is taken down on the way: nothing hangs.
    let two = without_host_2(&slow);
    assert_eq!(reload(&bed, &testbed, &two)["reloads"], 2);
    let ping_2 = || in_namespace(&format!("{prefix}-h0"), || ping(Ipv4Addr::new(10, 0, 0, 3)));
    assert!(ping_2().is_err());
    ping_1().expect("an answer");
    // Its interface is made again, and it comes back.
    let ip = |line: &str| {
        let words = line.split_whitespace();
        assert!(Command::new("ip").args(words).status().expect("ip starts").success(), "{line}");
    };
    ip(&format!("-n {prefix}-sw link delete port2"));
    ip(&format!(
        "link add eth0 netns {prefix}-h2 address 02:70:00:00:00:03 type veth peer name port2 netns \
         {prefix}-sw"
    ));
    ip(&format!("-n {prefix}-h2 addr add 10.0.0.3/16 dev eth0"));
    ip(&format!("-n {prefix}-h2 link set eth0 up"));
    ip(&format!("-n {prefix}-sw link set port2 up"));
    let report = reload(&bed, &testbed, &first);
    assert_eq!(
        (report["reloads"].as_u64(), report["hosts"][2]["ring_full"].as_u64()),
        (Some(3), Some(0))
    );
    ping_2().expect("an answer");
    assert_eq!(bed.switch_pid(), pid, "one process all the time");
    bed.must("down", &[]);
    assert_eq!(leftovers(&prefix), Vec::<String>::new());
}

/// A configuration without its third host and the link to it.
fn without_host_2(text: &str) -> String {
    let mut tables: Vec<&str> = text.split("\n[[").collect();
    tables.retain(|table| !table.contains("port2") && !table.contains("\"host 2\""));
    tables.join("\n[[")
}
