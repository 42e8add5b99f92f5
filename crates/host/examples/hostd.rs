//! Prints the latency of a request and its response of 1 KB on loopback, in process and through host
//! daemons: `hostd [REQUESTS]`. Client, server and daemons are processes of their own.

use punctual_host::{Endpoint, EndpointOptions, Hostd, HostdOptions, SendOptions};
use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A child process, killed when dropped, and the address that it reported.
struct Running(Child, SocketAddr);

impl Running {
    fn start(role: &str, socket: &Path) -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(role)
            .arg(socket)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or("no pipe")?;
        BufReader::new(stdout).read_line(&mut line)?;
        Ok(Running(child, line.trim().parse()?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Answers requests until it is killed.
fn serve(endpoint: &Endpoint) -> Result<(), Box<dyn Error>> {
    let listener = endpoint.listen();
    println!("{}", endpoint.local_addr());
    loop {
        let mut request = listener.accept()?;
        let bytes = request.read_to_end()?;
        drop(request.respond(bytes)?);
    }
}

/// The times of requests, sorted.
fn measure(
    client: &Endpoint,
    server: SocketAddr,
    count: usize,
) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut times = Vec::with_capacity(count);
    // The first ones prove the address and warm up.
    for number in 0..count + 200 {
        let start = Instant::now();
        let sent = client.request(server, vec![1; 1_000], &SendOptions::default())?;
        let (outcome, response) = sent.wait_response();
        if response.is_none_or(|response| response.len() != 1_000) {
            return Err(format!("request {number}: {outcome:?}").into());
        }
        if number >= 200 {
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn run(requests: usize) -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let [near, far] = ["near", "far"].map(|name| dir.path().join(name));
    let _near_daemon = Running::start("daemon", &near)?;
    let _far_daemon = Running::start("daemon", &far)?;
    let own = Running::start("serve", Path::new("-"))?;
    let attached = Running::start("serve", &far)?;
    std::thread::sleep(Duration::from_millis(100));
    let bound = Endpoint::bind(ANY, EndpointOptions::default())?;
    let through = Endpoint::attach(&near)?;
    println!("request and response of 1000 B, {requests} times, loopback, µs:");
    for (name, client, server) in [
        ("both in process", &bound, own.1),
        ("client attached to a daemon", &through, own.1),
        ("client and server attached, each to its daemon", &through, attached.1),
    ] {
        let times = measure(client, server, requests)?;
        let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
        println!("  {name:47} p50 {:6.1}  p90 {:6.1}  p99 {:6.1}", at(50), at(90), at(99));
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    static NEVER: AtomicBool = AtomicBool::new(false);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["daemon", socket] => {
            let options = HostdOptions { socket: socket.into(), ..HostdOptions::default() };
            let mut hostd = Hostd::bind(ANY, options)?;
            println!("{}", hostd.local_addr());
            Ok(hostd.run(&NEVER, &mut |_| {})?)
        }
        ["serve", "-"] => serve(&Endpoint::bind(ANY, EndpointOptions::default())?),
        ["serve", socket] => serve(&Endpoint::attach(PathBuf::from(socket))?),
        [requests] => run(requests.parse()?),
        _ => run(5_000),
    }
}
