//! Deadlines per socket: Rust, C, Python, and everything that can be wrong about them.

use crate::Test;
use crate::support::{Flow, Namespace, Plan, Sandbox, ensure, receive};
use libtest_mimic::Failed;
use punctual_kernel::{
    ControlState, DeadlineError, MESSAGES_MAX, SIZE_MAX, clear_deadlines, info,
    set_congestion_control, set_deadline, set_imminence,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

pub(crate) const TESTS: &[Test] = &[
    ("options__deadline_is_set_and_read", deadline__is_set_and_read),
    ("options__messages_follow_each_other", messages__follow_each_other),
    ("options__odd_values", values__that_are_odd),
    ("options__garbage_gets_an_errno", garbage__gets_an_errno),
    ("options__outside_of_the_control_group", socket__outside_of_the_control_group),
    ("options__c_program", program__in_c_without_privilege),
    ("options__python_program", program__in_python),
];

/// A connection with D2TCP over the loopback of a namespace.
fn connection(sandbox: &Sandbox, at: &Namespace, address: IpAddr) -> TcpStream {
    let to = receive(at, address, &sandbox.d2tcp);
    let flow = Flow::new(&sandbox.d2tcp, to, Plan::Bytes(0));
    at.run(|| flow.connect()).expect("connection")
}

fn deadline__is_set_and_read(sandbox: &Sandbox) -> Result<(), Failed> {
    let namespace = Namespace::new();
    for address in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let stream = connection(sandbox, &namespace, address);
        let before = info(&stream)?;
        ensure!(before.state == ControlState::D2tcp, "{before:?}");
        ensure!(before.messages == 0 && before.alpha == 1.0 && before.d == 1.0, "{before:?}");
        set_deadline(&stream, 100_000, Duration::from_millis(500))?;
        let after = info(&stream)?;
        ensure!(after.messages == 1 && after.bytes_left == 100_000, "{after:?}");
        ensure!((1..=500_000).contains(&after.left_us), "{after:?}");
        clear_deadlines(&stream)?;
        ensure!(info(&stream)?.messages == 0, "{:?}", info(&stream)?);
    }
    Ok(())
}

fn messages__follow_each_other(sandbox: &Sandbox) -> Result<(), Failed> {
    use std::io::Write as _;
    let namespace = Namespace::new();
    let mut stream = connection(sandbox, &namespace, Ipv4Addr::LOCALHOST.into());
    // The second message begins where the first one ends, though nothing has been written.
    set_deadline(&stream, 50_000, Duration::from_secs(10))?;
    stream.write_all(&[0; 20_000])?;
    std::thread::sleep(Duration::from_millis(200));
    let first = info(&stream)?;
    ensure!(first.messages == 1 && first.bytes_left == 30_000, "{first:?}");
    stream.write_all(&[0; 30_000])?;
    set_deadline(&stream, 5_000, Duration::from_secs(20))?;
    std::thread::sleep(Duration::from_millis(200));
    let second = info(&stream)?;
    ensure!(second.messages == 1 && second.bytes_left == 5_000, "{second:?}");
    ensure!(second.left_us > 15_000_000, "the first message is complete: {second:?}");
    clear_deadlines(&stream)?;
    // As many as fit, then an error, then room again.
    for _ in 0..MESSAGES_MAX {
        set_deadline(&stream, 1_000, Duration::from_secs(10))?;
    }
    let full = set_deadline(&stream, 1_000, Duration::from_secs(10));
    ensure!(matches!(full, Err(DeadlineError::TooManyMessages)), "{full:?}");
    stream.write_all(&[0; 3_000])?;
    std::thread::sleep(Duration::from_millis(200));
    set_deadline(&stream, 1_000, Duration::from_secs(10))?;
    Ok(())
}

fn values__that_are_odd(sandbox: &Sandbox) -> Result<(), Failed> {
    let namespace = Namespace::new();
    let stream = connection(sandbox, &namespace, Ipv4Addr::LOCALHOST.into());
    set_deadline(&stream, 0, Duration::from_secs(1))?;
    ensure!(info(&stream)?.messages == 0, "an empty message is complete");
    set_deadline(&stream, 1_000, Duration::ZERO)?;
    let past = info(&stream)?;
    ensure!(past.messages == 1 && past.left_us <= 0, "{past:?}");
    for (size, within) in [
        (SIZE_MAX + 1, Duration::from_secs(1)),
        (u64::MAX, Duration::from_secs(1)),
        (1, Duration::from_micros((1 << 50) + 1)),
        (1, Duration::MAX),
    ] {
        let refused = set_deadline(&stream, size, within);
        ensure!(
            matches!(refused, Err(DeadlineError::OutOfRange)),
            "{size} {within:?}: {refused:?}"
        );
    }
    for bits in [1, 32_767, 131_073, u32::MAX] {
        let refused = set_imminence(&stream, bits);
        ensure!(matches!(refused, Err(DeadlineError::OutOfRange)), "d {bits}: {refused:?}");
    }
    for bits in [32_768, 131_072, 0] {
        set_imminence(&stream, bits)?;
    }
    let udp = UdpSocket::bind("127.0.0.1:0")?;
    let refused = set_deadline(&udp, 1, Duration::from_secs(1));
    ensure!(matches!(refused, Err(DeadlineError::NotTcp)), "UDP: {refused:?}");
    ensure!(matches!(info(&udp), Err(DeadlineError::NotTcp)), "UDP: {:?}", info(&udp));
    // A deadline may come before the connection, and on a socket with another control.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    set_deadline(&socket, 1_000, Duration::from_secs(1))?;
    set_congestion_control(&socket, "cubic")?;
    let other = info(&socket)?;
    ensure!(other.state == ControlState::Inactive && other.messages == 1, "{other:?}");
    Ok(())
}

/// Calls setsockopt and getsockopt with every option and length, by Python.
const GARBAGE: &str = r#"
import errno, os, socket
s = socket.socket()
LEVEL = 0xD27C
valid = {1: 16, 2: 4, 3: 4}
for option in [-1, 0, 1, 2, 3, 4, 5, 99, 0x7fffffff]:
    for length in [0, 1, 3, 4, 7, 8, 15, 16, 17, 24, 4096, 70000]:
        for fill in [b"\xff", b"\x80"]:
            try:
                s.setsockopt(LEVEL, option, fill * length)
                print("set", option, length, "ok")
                raise SystemExit(1)
            except OSError as error:
                assert error.errno == errno.EINVAL, (option, length, error)
        try:
            s.getsockopt(LEVEL, option, length if length <= 1024 else 1024)
            assert option == 4 and length >= 56, (option, length)
        except OSError as error:
            assert error.errno == errno.EINVAL, (option, length, error)
            assert option != 4 or length < 56, (option, length)
print("no option took garbage")
"#;

fn python(code: &str) -> Result<String, Failed> {
    let output = Command::new("python3")
        .env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(["-c", code])
        .output()?;
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{message}{}", String::from_utf8_lossy(&output.stdout));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn garbage__gets_an_errno(_: &Sandbox) -> Result<(), Failed> {
    let text = python(GARBAGE)?;
    ensure!(text == "no option took garbage\n", "{text}");
    Ok(())
}

fn socket__outside_of_the_control_group(sandbox: &Sandbox) -> Result<(), Failed> {
    let socket =
        sandbox.outside(|| Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)))?;
    let refused = set_deadline(&socket, 1_000, Duration::from_secs(1));
    ensure!(matches!(refused, Err(DeadlineError::NotLoaded)), "set: {refused:?}");
    let refused = info(&socket);
    ensure!(matches!(refused, Err(DeadlineError::NotLoaded)), "get: {refused:?}");
    // It may use the congestion control all the same, as DCTCP.
    set_congestion_control(&socket, &sandbox.d2tcp)?;
    Ok(())
}

const C_PROGRAM: &str = r#"
#include "punctual.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>
int main(void)
{
	struct punctual_info info;
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	if (punctual_set_deadline(fd, 12345, 1000000) || punctual_get_info(fd, &info))
		return 1;
	printf("uid %d: %u message, %llu bytes\n", (int)getuid(), info.messages,
	       (unsigned long long)info.bytes_left);
	if (punctual_clear_deadlines(fd) || punctual_get_info(fd, &info) || info.messages)
		return 2;
	return punctual_set_deadline(fd, ~0ULL, 1) == -1 && errno == EINVAL ? 0 : 3;
}
"#;

fn program__in_c_without_privilege(_: &Sandbox) -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let (source, program) = (dir.path().join("deadline.c"), dir.path().join("deadline"));
    std::fs::write(&source, C_PROGRAM)?;
    let built = Command::new("gcc")
        .args(["-Wall", "-Werror", "-o"])
        .args([&program, &source])
        .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include"))
        .output()?;
    ensure!(built.status.success(), "gcc: {}", String::from_utf8_lossy(&built.stderr));
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), readable)?;
    let ran = Command::new(&program).uid(65534).gid(65534).output()?;
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    ensure!(ran.status.success(), "exit {:?}: {text}", ran.status.code());
    ensure!(text == "uid 65534: 1 message, 12345 bytes\n", "{text}");
    Ok(())
}

fn program__in_python(_: &Sandbox) -> Result<(), Failed> {
    let code = r#"
import socket, punctual_deadline as deadline
s = socket.socket()
deadline.set_deadline(s, 4321, within=0.5)
i = deadline.info(s)
print(i["state"], i["messages"], i["bytes_left"], 0 < i["left_us"] <= 500000, i["d_mean"])
deadline.clear_deadlines(s)
print(deadline.info(s)["messages"])
"#;
    let text = python(code)?;
    ensure!(text == "inactive 1 4321 True 1.0\n0\n", "{text}");
    Ok(())
}
