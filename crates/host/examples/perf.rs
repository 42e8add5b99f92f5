//! Prints the latency and throughput of NDP beside bare UDP, on loopback or between two namespaces:
//!
//! ```text
//! perf [REQUESTS [MTU [SERVER_NAMESPACE CLIENT_NAMESPACE SERVER_ADDRESS]]]
//! ```
//!
//! Both ends are threads of this process, and both measurements use the same placement: on one core,
//! or on two. UDP sockets block, and so do endpoints; on two cores both also spin.

use punctual_core::Bytes;
use punctual_host::perf::{Latencies, Waiting, ndp_bulk, ndp_latency, udp_bulk, udp_latency};
use punctual_host::{Endpoint, EndpointOptions};
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_setaffinity};
use std::error::Error;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Keeps this thread, and those that it starts, on a core and in a network namespace.
fn settle(core: usize, namespace: Option<&str>) -> std::io::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores)?;
    if let Some(name) = namespace {
        let file = std::fs::File::open(format!("/run/netns/{name}"))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
    }
    Ok(())
}

struct Setup {
    count: usize,
    mtu: usize,
    server: Option<String>,
    client: Option<String>,
    address: IpAddr,
}

/// Echoes datagrams, or counts them, as `punctual perf` does.
fn serve_udp(socket: &UdpSocket, waiting: Waiting, stop: &AtomicBool) {
    punctual_host::perf::serve_datagrams(socket, waiting, stop);
}

fn measure(setup: &Setup, cores: [usize; 2], waiting: Waiting) -> Result<(), Box<dyn Error>> {
    let spin = waiting == Waiting::Spin;
    let mtu = Bytes::new(setup.mtu as u64);
    let options = EndpointOptions { mtu, spin, ..EndpointOptions::default() };
    let stop = AtomicBool::new(false);
    let (to_main, addresses) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        // The bare UDP service is at the port after that of NDP.
        let serve = |is_udp: bool| {
            let (to_main, options, stop) = (to_main.clone(), options.clone(), &stop);
            scope.spawn(move || {
                settle(cores[0], setup.server.as_deref()).expect("placement");
                let address = |port| SocketAddr::new(setup.address, port);
                if is_udp {
                    let socket = UdpSocket::bind(address(7_401)).expect("a socket");
                    let timeout = Some(Duration::from_millis(100));
                    socket.set_read_timeout(timeout).expect("a timeout");
                    to_main.send(()).expect("main waits");
                    serve_udp(&socket, waiting, stop);
                } else {
                    let endpoint = Endpoint::bind(address(7_400), options).expect("an endpoint");
                    let listener = endpoint.listen();
                    to_main.send(()).expect("main waits");
                    punctual_host::perf::serve_messages(&listener, stop);
                }
            });
        };
        serve(true);
        serve(false);
        let _ = (addresses.recv(), addresses.recv());
        let client = scope.spawn(|| {
            settle(cores[1], setup.client.as_deref()).expect("placement");
            run_client(setup, options.clone(), cores, waiting)
        });
        let result = client.join().expect("no panic");
        stop.store(true, Ordering::Relaxed);
        result.map_err(Into::into)
    })
}

fn run_client(
    setup: &Setup,
    options: EndpointOptions,
    cores: [usize; 2],
    waiting: Waiting,
) -> std::io::Result<()> {
    let place = match (cores[0] == cores[1], waiting) {
        (true, _) => "one core",
        (false, Waiting::Sleep) => "two cores",
        (false, Waiting::Spin) => "two cores, spinning",
    };
    let server = SocketAddr::new(setup.address, 7_400);
    let any =
        SocketAddr::new(if setup.address.is_loopback() { setup.address } else { [0; 4].into() }, 0);
    let client = Endpoint::bind(any, options).map_err(std::io::Error::other)?;
    let udp = udp_latency(server, 1_000, setup.count, waiting)?;
    let ndp = ndp_latency(&client, server, 1_000, setup.count)?;
    for percent in [50.0, 90.0, 99.0] {
        let micros = |l: &Latencies| l.percentile(percent).as_secs_f64() * 1e6;
        let (udp, ndp) = (micros(&udp), micros(&ndp));
        println!(
            "{place}, 1 KB p{percent}: UDP {udp:.1} µs, NDP {ndp:.1} µs, {:.2} times",
            ndp / udp
        );
    }
    let udp = udp_bulk(server, setup.mtu, Duration::from_secs(1))? * 8.0 / 1e9;
    let ndp = ndp_bulk(&client, server, 100_000_000)? * 8.0 / 1e9;
    println!(
        "{place}, bulk at {} B: UDP {udp:.2} Gb/s, NDP {ndp:.2} Gb/s, {:.2} times",
        setup.mtu,
        ndp / udp
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize| arguments.get(at).cloned();
    let setup = Setup {
        count: argument(0).as_deref().unwrap_or("5000").parse()?,
        mtu: argument(1).as_deref().unwrap_or("1500").parse()?,
        server: argument(2),
        client: argument(3),
        address: argument(4).as_deref().unwrap_or("127.0.0.1").parse()?,
    };
    measure(&setup, [1, 1], Waiting::Sleep)?;
    measure(&setup, [0, 1], Waiting::Sleep)?;
    measure(&setup, [0, 1], Waiting::Spin)
}
