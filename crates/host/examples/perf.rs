//! Prints the latency and throughput of NDP beside bare UDP, on loopback: `perf [REQUESTS [MTU]]`.
//! The server runs in this process, so all figures share its threads' placement.

use punctual_core::Bytes;
use punctual_host::perf::{PerfServer, ndp_bulk, ndp_latency, udp_bulk, udp_latency};
use punctual_host::{Endpoint, EndpointOptions};
use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().as_deref().unwrap_or("5000").parse()?;
    let mtu: usize = arguments.next().as_deref().unwrap_or("1500").parse()?;
    let options = EndpointOptions { mtu: Bytes::new(mtu as u64), ..EndpointOptions::default() };
    let server = PerfServer::start("127.0.0.1:0".parse()?, options.clone())?;
    let client = Endpoint::bind("127.0.0.1:0".parse()?, options)?;
    let address = server.local_addr();
    let udp = udp_latency(address, 1_000, count)?;
    let ndp = ndp_latency(&client, address, 1_000, count)?;
    for percent in [50.0, 90.0, 99.0] {
        let [udp, ndp] = [&udp, &ndp].map(|l| l.percentile(percent).as_secs_f64() * 1e6);
        println!("p{percent}: UDP {udp:.1} µs, NDP {ndp:.1} µs, ratio {:.2}", ndp / udp);
    }
    let udp = udp_bulk(address, mtu, Duration::from_secs(1))? * 8.0 / 1e9;
    let ndp = ndp_bulk(&client, address, 100_000_000)? * 8.0 / 1e9;
    println!("UDP {udp:.3} Gb/s, NDP {ndp:.3} Gb/s, ratio {:.2}", ndp / udp);
    println!("{:?}", client.stats());
    Ok(())
}
