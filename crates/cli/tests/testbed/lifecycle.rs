//! Up, status, exec, down, and what is left after crashes.

use crate::bed::{Bed, PROGRAM, is_possible, leftovers};
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
    let status: serde_json::Value =
        serde_json::from_str(&bed.must("status", &["--json"])).expect("JSON");
    let pid = status["switch"].as_i64().expect("a process");
    let killed = Command::new("sh").arg("-c").arg(format!("kill -9 {pid}")).status();
    assert!(killed.expect("sh starts").success());
    std::thread::sleep(Duration::from_millis(100));
    assert!(bed.must("status", &[]).contains("does not run"));
    bed.must("down", &[]);
    assert_eq!(leftovers(&prefix), Vec::<String>::new());
    at_host.wait().expect("it was ended");
    // `up` itself is killed, at different moments.
    for ms in [5, 40, 120] {
        let mut up = Command::new(PROGRAM)
            .args(["testbed", "up"])
            .arg(bed.scenario())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        std::thread::sleep(Duration::from_millis(ms));
        let _ = up.kill();
        up.wait().expect("it was killed");
        // What it had started may still be on its way.
        std::thread::sleep(Duration::from_millis(50));
        bed.must("down", &[]);
        assert_eq!(leftovers(&prefix), Vec::<String>::new(), "after {ms} ms");
    }
    let gone = bed.run("status", &[]);
    assert!(String::from_utf8_lossy(&gone.stderr).contains("is not up"));
}
