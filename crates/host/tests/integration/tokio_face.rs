//! The asynchronous face, on a runtime of tokio with one thread.

use crate::endpoint::contents;
use punctual_host::{Endpoint, EndpointOptions, Outcome, SendOptions};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
const PATIENCE: Duration = Duration::from_secs(20);

/// Many requests at once on one thread: nothing blocks the runtime.
#[test]
fn tokio__requests_and_streams_share_one_thread() {
    let server = Endpoint::bind(ANY_PORT, EndpointOptions::default()).unwrap();
    let client = Endpoint::bind(ANY_PORT, EndpointOptions::default()).unwrap();
    let address = server.local_addr();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let listener = server.listen();
        let serving = async {
            for _ in 0..20 {
                let mut message = listener.accept_async().await.expect("a message");
                let mut bytes = Vec::new();
                AsyncReadExt::read_to_end(&mut message, &mut bytes).await.expect("its bytes");
                if message.is_request() {
                    bytes.reverse();
                    message.respond(bytes).expect("accepted").await;
                }
            }
        };
        let asking = async {
            let sends: Vec<_> = (0..20u64)
                .map(|number| {
                    let data = contents(number, 1 + number as usize * 20_000);
                    let options = SendOptions::default();
                    let send = match number % 2 {
                        0 => client.request(address, data.clone(), &options),
                        _ => client.send(address, data.clone(), &options),
                    };
                    (number, data, send.expect("accepted"))
                })
                .collect();
            for (number, mut data, send) in sends {
                let (outcome, response) = send.await;
                assert!(matches!(outcome, Outcome::Done(_)), "{number}: {outcome:?}");
                data.reverse();
                let wanted = (number % 2 == 0).then_some(data);
                assert!(response == wanted, "{number}: a response to requests only");
            }
        };
        let both = async { tokio::join!(serving, asking) };
        timeout(PATIENCE, both).await.expect("all in time");
    });
}

#[test]
fn tokio__a_stream_that_is_longer_than_its_buffer() {
    let server = Endpoint::bind(ANY_PORT, EndpointOptions::default()).unwrap();
    let client = Endpoint::bind(ANY_PORT, EndpointOptions::default()).unwrap();
    let listener = server.listen();
    let data = contents(7, 5_000_000);
    let send = client.send(server.local_addr(), data.clone(), &SendOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let reading = async {
            let mut message = listener.accept_async().await.expect("a message");
            let mut bytes = vec![0; data.len()];
            message.read_exact(&mut bytes).await.expect("its bytes");
            bytes
        };
        assert!(timeout(PATIENCE, reading).await.expect("in time") == data);
        let (outcome, _) = timeout(PATIENCE, send).await.expect("in time");
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    });
}
