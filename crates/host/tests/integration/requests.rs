//! What a request and its response cost in system calls, which the load of the machine hardly moves.

use punctual_host::{Endpoint, EndpointOptions, Outcome, SendOptions};
use std::process::{Command, Stdio};

const REQUESTS: u32 = 2_000;

/// Both ends of requests in a row, each with a thread that waits.
#[test]
#[ignore = "request__takes_few_system_calls runs it"]
fn requests_in_a_row() {
    let any = "127.0.0.1:0".parse().unwrap();
    let server = Endpoint::bind(any, EndpointOptions::default()).unwrap();
    let client = Endpoint::bind(any, EndpointOptions::default()).unwrap();
    let to = server.local_addr();
    let listener = server.listen();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..REQUESTS {
                let mut request = listener.accept().unwrap();
                let bytes = request.read_to_end().unwrap();
                drop(request.respond(bytes).unwrap());
            }
        });
        for _ in 0..REQUESTS {
            let request = client.request(to, vec![7; 1_000], &SendOptions::default()).unwrap();
            let (outcome, response) = request.wait_response();
            assert!(matches!(outcome, Outcome::Done(_)) && response == Some(vec![7; 1_000]));
        }
    });
}

/// Each end sends once, and receives once in the call in which it waits. A thread that slept in `poll`
/// for every message would call it twice a request.
#[test]
fn request__takes_few_system_calls() {
    let dir = tempfile::tempdir().unwrap();
    let counts = dir.path().join("counts");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-c", "--seccomp-bpf", "-e"]);
    strace.arg("trace=sendmsg,sendmmsg,sendto,recvmmsg,recvmsg,recvfrom,ppoll,poll,epoll_wait");
    strace.arg("-o").arg(&counts).arg(std::env::current_exe().unwrap());
    strace.args(["requests::requests_in_a_row", "--exact", "--ignored"]);
    let Ok(output) = strace.stdout(Stdio::piped()).stderr(Stdio::piped()).output() else {
        assert!(std::env::var_os("PUNCTUAL_NO_SKIPS").is_none(), "strace is not installed");
        println!("SKIPPED: strace is not installed; run `cargo xtask setup`");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let counts = std::fs::read_to_string(counts).unwrap();
    // Share of the time, seconds, microseconds a call, calls, maybe errors, name.
    let calls = |names: &[&str]| -> f64 {
        let rows = counts.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let rows = rows.filter(|row| row.last().is_some_and(|name| names.contains(name)));
        let calls: f64 = rows.map(|row| row[3].parse::<f64>().unwrap()).sum();
        calls / f64::from(REQUESTS)
    };
    let sends = calls(&["sendmsg", "sendmmsg", "sendto"]);
    let receives = calls(&["recvmmsg", "recvmsg", "recvfrom"]);
    let polls = calls(&["ppoll", "poll", "epoll_wait"]);
    println!("a request: {sends:.2} calls that send, {receives:.2} that receive, {polls:.2} polls");
    assert!((2.0..2.2).contains(&sends), "{counts}");
    assert!((2.0..2.5).contains(&receives), "{counts}");
    assert!(polls < 1.5, "{counts}");
}
