//! Namespaces of tests that are killed.

use punctual_testkit::{TestNamespaces, ip};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Two namespaces, or none and a note why not.
fn namespaces() -> Option<TestNamespaces> {
    match TestNamespaces::create(2) {
        Ok(namespaces) => Some(namespaces),
        Err(error) => {
            println!("SKIPPED: network namespaces need CAP_NET_ADMIN and `ip`: {error}");
            let no_skips = std::env::var("PUNCTUAL_NO_SKIPS");
            assert!(!no_skips.is_ok_and(|v| !v.is_empty() && v != "0"), "skips count as failures");
            None
        }
    }
}

fn exists(name: &str) -> bool {
    Path::new("/run/netns").join(name).exists()
}

fn runs(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(20), "not after 20 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn namespaces__are_removed_when_dropped() {
    let Some(namespaces) = namespaces() else { return };
    let names = namespaces.names().to_vec();
    assert!(names.iter().all(|name| exists(name)));
    drop(namespaces);
    assert!(!names.iter().any(|name| exists(name)), "{names:?}");
}

/// A test in a process of its own: its two namespaces and a process in the first.
fn victim() -> (Child, Vec<String>) {
    let test = std::env::current_exe().expect("this test");
    let args = ["--exact", "namespaces::victim_of_a_kill", "--ignored", "--nocapture"];
    let mut child = Command::new(test).args(args).stdout(Stdio::piped()).spawn().expect("a test");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut lines = lines.map(|line| line.expect("text"));
    let line = lines.find(|line| line.contains("victim ")).expect("a line");
    let words = line.split("victim ").nth(1).expect("words").split(' ');
    (child, words.map(str::to_owned).collect())
}

/// SIGKILL of a test leaves neither its namespaces nor processes in them.
#[test]
fn namespaces__do_not_outlive_a_killed_test() {
    if namespaces().is_none() {
        return;
    }
    let (mut child, words) = victim();
    let [first, second, inside, _] = &words[..] else { panic!("{words:?}") };
    assert!(exists(first) && exists(second) && runs(inside), "{words:?}");
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    wait_until("the namespaces are gone", || !exists(first) && !exists(second));
    wait_until("the process is gone", || !runs(inside));
}

/// Where the guard was killed as well, the next test that creates namespaces removes them.
#[test]
fn namespaces__of_a_killed_guard_are_removed_by_the_next_test() {
    if namespaces().is_none() {
        return;
    }
    let (mut child, words) = victim();
    let [first, second, inside, guard] = &words[..] else { panic!("{words:?}") };
    assert!(Command::new("kill").args(["-9", guard]).status().expect("kill starts").success());
    // The guard is a child of the test, so a killed one stays as a zombie until the test ends.
    std::thread::sleep(Duration::from_millis(100));
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    drop(namespaces());
    assert!(!exists(first) && !exists(second), "{words:?}");
    wait_until("the process is gone", || !runs(inside));
}

/// Waits to be killed.
#[test]
#[ignore = "namespaces__do_not_outlive_a_killed_test runs it and kills it"]
fn victim_of_a_kill() {
    let namespaces = namespaces().expect("namespaces");
    let [first, second] = namespaces.names() else { panic!("two names") };
    ip(&[
        "-n", first, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", second,
    ])
    .expect("a link");
    let mut inside = Command::new("ip")
        .args(["netns", "exec", first, "sleep", "60"])
        .spawn()
        .expect("a process");
    // `ip netns exec` becomes the program, in the namespace.
    std::thread::sleep(Duration::from_millis(200));
    println!("victim {first} {second} {} {}", inside.id(), namespaces.guard_id());
    let _ = inside.wait();
}
