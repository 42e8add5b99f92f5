//! The rate that is asked for, long paths, and paths that lose packets.

use crate::endpoint::contents;
use crate::support::relay::{Path, Relay};
use punctual_core::{Bytes, Rate};
use punctual_host::{Endpoint, EndpointOptions, Outcome, SendOptions};
use punctual_testkit::OtherWork;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Of a packet of 1500 B: bytes of the message, and bytes on a link with 38 B of framing.
const PAYLOAD: f64 = 1_436.0;
const ON_LINK: f64 = 1_538.0;

/// Sends a message through `to`. Returns the time until its outcome was known.
fn transfer(client: &Endpoint, server: &Endpoint, to: SocketAddr, bytes: usize) -> Duration {
    let listener = server.listen();
    let data = contents(bytes as u64, bytes);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let message = listener.accept_timeout(Duration::from_secs(30)).expect("a message");
            message.unwrap().read_to_end().expect("all of it")
        });
        let start = Instant::now();
        let send = client.send(to, data.clone(), &SendOptions::default()).expect("accepted");
        let outcome = send.wait_timeout(Duration::from_secs(30)).expect("an outcome");
        let took = start.elapsed();
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
        assert!(reader.join().unwrap() == data, "{bytes} bytes arrive as they were sent");
        took
    })
}

fn pair(options: &EndpointOptions) -> [Endpoint; 2] {
    [0, 1].map(|_| Endpoint::bind(ANY_PORT, options.clone()).expect("an endpoint"))
}

#[test]
fn rate__is_kept_within_five_percent() {
    check_rates(&[4, 8]);
}

#[test]
fn long_path__fills_most_of_it() {
    check_long_path(40);
}

#[test]
#[ignore = "needs an idle machine: cargo test -p punctual-host -- --ignored idle__"]
fn idle__rate_of_100_mbps_is_kept_within_five_percent() {
    check_rates(&[100]);
}

#[test]
#[ignore = "needs an idle machine: cargo test -p punctual-host -- --ignored idle__"]
fn idle__long_path_of_200_mbps_is_filled() {
    check_long_path(200);
}

fn check_rates(rates: &[u64]) {
    for mbps in rates.iter().copied() {
        let options = EndpointOptions { rate: Rate::from_mbps(mbps), ..EndpointOptions::default() };
        let [client, server] = pair(&options);
        let to = server.local_addr();
        transfer(&client, &server, to, 1_000);
        // About a second.
        let bytes = mbps as usize * 120_000;
        let work = OtherWork::watch();
        let took = transfer(&client, &server, to, bytes).as_secs_f64();
        let link_rate = bytes as f64 * 8.0 / took * (ON_LINK / PAYLOAD) / 1e6;
        println!("{link_rate:.1} Mb/s on the link, asked for {mbps}");
        let asked = mbps as f64;
        let is_kept = (0.95 * asked..=1.05 * asked).contains(&link_rate);
        work.check(is_kept, format!("{link_rate:.1} Mb/s on the link, asked for {mbps}"));
    }
}

fn check_long_path(mbps: usize) {
    let rate = Rate::from_mbps(mbps as u64);
    let path = Path { delay: Duration::from_millis(10), rate, loss: 0.0, queue: 1_500_000 };
    // At 40 Mb/s the path holds 65 packets; the first window has 30.
    let mtu = 1_500.0;
    let options = EndpointOptions { mtu: Bytes::new(mtu as u64), ..EndpointOptions::default() };
    let [client, server] = pair(&options);
    let relay = Relay::start(server.local_addr(), path, 1);
    // A message to a process that started while it was under way has an unknown outcome.
    std::thread::sleep(Duration::from_millis(100));
    transfer(&client, &server, relay.address(), 1_000);
    // About a second and a quarter.
    let bytes = mbps * 150_000;
    let work = OtherWork::watch();
    let took = transfer(&client, &server, relay.address(), bytes).as_secs_f64();
    let link_rate = bytes as f64 * 8.0 / took * ((mtu + 38.0) / (mtu - 64.0)) / 1e6;
    println!("{link_rate:.0} of {mbps} Mb/s at 20 ms RTT, {took:.2} s");
    work.check(link_rate >= 0.8 * mbps as f64, format!("{link_rate:.0} of {mbps} Mb/s"));
}

/// At a loss of 0.03 to 1 % no run takes twice the time that runs without loss take at most.
#[test]
fn loss__no_run_takes_twice_as_long() {
    let rate = Rate::from_mbps(200);
    let clean = Path { delay: Duration::from_micros(500), rate, loss: 0.0, queue: 1_500_000 };
    let bytes = 10_000_000;
    let run = |loss: f64, seed| {
        let [client, server] = pair(&EndpointOptions::default());
        let relay = Relay::start(server.local_addr(), Path { loss, ..clean }, seed);
        transfer(&client, &server, relay.address(), bytes)
    };
    let work = OtherWork::watch();
    let without = (0..3).map(|seed| run(0.0, seed)).max().unwrap();
    for loss in [0.0003, 0.001, 0.003, 0.01] {
        for seed in 10..13 {
            let took = run(loss, seed);
            println!("loss {loss}, seed {seed}: {took:?}, without {without:?}");
            let failure = format!("loss {loss}, seed {seed}: {took:?}, without {without:?}");
            work.check(took <= 2 * without, failure);
        }
    }
}
