//! Metrics for Prometheus, over HTTP.

use anyhow::Context as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Serves the text that the returned value holds to Prometheus.
pub(super) fn serve(address: SocketAddr) -> anyhow::Result<Arc<Mutex<String>>> {
    let listener = TcpListener::bind(address)
        .with_context(|| format!("--metrics {address}: cannot listen there"))?;
    let text = Arc::new(Mutex::new(String::new()));
    let shared = Arc::clone(&text);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let text = shared.lock().expect("no thread panics").clone();
            let _ = answer(stream, &text);
        }
    });
    Ok(text)
}

fn answer(mut stream: TcpStream, text: &str) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
    // Whatever is asked for gets the same answer; the request is read so that closing is clean.
    let _ = stream.read(&mut [0; 4096])?;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{text}",
        text.len()
    )
}
