//! Prints the latency of a request of 1 KB and its response beside a bare UDP exchange, with both ends
//! on one core and on two:
//!
//! ```text
//! placement [REQUESTS [SERVER_NAMESPACE CLIENT_NAMESPACE SERVER_ADDRESS]]
//! ```
//!
//! Both ends are threads of this process that sleep while they wait.

use punctual_host::{Endpoint, EndpointOptions, SendOptions};
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_setaffinity};
use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

struct Setup {
    requests: usize,
    namespaces: [Option<String>; 2],
    address: IpAddr,
}

/// Port of the endpoint. Bare datagrams are exchanged at the one before.
const PORT: u16 = 7_400;
const BYTES: usize = 1_000;

/// Keeps this thread, and those that it starts, on a core and in a network namespace.
fn settle(core: usize, namespace: Option<&str>) -> io::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores)?;
    if let Some(name) = namespace {
        let file = std::fs::File::open(format!("/run/netns/{name}"))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
    }
    Ok(())
}

fn echo_datagrams(socket: &UdpSocket, stop: &AtomicBool) -> io::Result<()> {
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut buffer = [0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        if let Ok((len, peer)) = socket.recv_from(&mut buffer) {
            socket.send_to(&buffer[..len], peer)?;
        }
    }
    Ok(())
}

fn serve_messages(endpoint: &Endpoint, stop: &AtomicBool) {
    let listener = endpoint.listen();
    while !stop.load(Ordering::Relaxed) {
        let message = listener.accept_timeout(Duration::from_millis(100));
        let Some(Ok(mut message)) = message else { continue };
        if let Ok(bytes) = message.read_to_end() {
            let _ = message.respond(bytes);
        }
    }
}

/// The sorted times of exchanges, in microseconds.
fn times(count: usize, mut exchange: impl FnMut() -> io::Result<()>) -> io::Result<Vec<f64>> {
    let mut times = Vec::with_capacity(count);
    for round in 0..count + count / 10 {
        let start = Instant::now();
        exchange()?;
        if round >= count / 10 {
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn run_client(setup: &Setup, place: &str) -> io::Result<()> {
    let server = SocketAddr::new(setup.address, PORT);
    let any: IpAddr = if setup.address.is_loopback() { setup.address } else { [0; 4].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((setup.address, PORT - 1))?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut answer = [0; 1 << 16];
    let udp = times(setup.requests, || {
        socket.send(&[1; BYTES])?;
        socket.recv(&mut answer).map(drop)
    })?;
    let client = Endpoint::bind(SocketAddr::new(any, 0), EndpointOptions::default());
    let client = client.map_err(io::Error::other)?;
    let ndp = times(setup.requests, || {
        let request = client.request(server, vec![1; BYTES], &SendOptions::default());
        match request.map_err(io::Error::other)?.wait_response() {
            (_, Some(_)) => Ok(()),
            (outcome, None) => Err(io::Error::other(format!("{outcome:?}"))),
        }
    })?;
    for percent in [50, 90, 99] {
        let at = |times: &[f64]| times[(times.len() - 1) * percent / 100];
        let (udp, ndp) = (at(&udp), at(&ndp));
        let ratio = ndp / udp;
        println!(
            "{place}, 1 KB p{percent}: UDP {udp:.1} µs, endpoint {ndp:.1} µs, {ratio:.2} times"
        );
    }
    Ok(())
}

fn measure(setup: &Setup, cores: [usize; 2]) -> Result<(), Box<dyn Error>> {
    let place = if cores[0] == cores[1] { "one core" } else { "two cores" };
    let stop = AtomicBool::new(false);
    let (is_bound, bound) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let [server, client] = setup.namespaces.each_ref().map(Option::as_deref);
        for is_udp in [true, false] {
            let (is_bound, stop) = (is_bound.clone(), &stop);
            scope.spawn(move || -> Result<(), Box<dyn Error + Send + Sync>> {
                settle(cores[0], server)?;
                if is_udp {
                    let socket = UdpSocket::bind((setup.address, PORT - 1))?;
                    is_bound.send(())?;
                    echo_datagrams(&socket, stop)?;
                } else {
                    let address = SocketAddr::new(setup.address, PORT);
                    let endpoint = Endpoint::bind(address, EndpointOptions::default())?;
                    is_bound.send(())?;
                    serve_messages(&endpoint, stop);
                }
                Ok(())
            });
        }
        bound.recv()?;
        bound.recv()?;
        let client = scope.spawn(move || {
            settle(cores[1], client)?;
            run_client(setup, place)
        });
        let result = client.join();
        stop.store(true, Ordering::Relaxed);
        result.map_err(|_| "the client panicked")??;
        Ok(())
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize| arguments.get(at).cloned();
    let setup = Setup {
        requests: argument(0).as_deref().unwrap_or("5000").parse()?,
        namespaces: [argument(1), argument(2)],
        address: argument(3).as_deref().unwrap_or("127.0.0.1").parse()?,
    };
    measure(&setup, [1, 1])?;
    measure(&setup, [0, 1])
}
