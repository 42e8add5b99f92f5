//! Sends a file over loopback and prints the goodput: `loopback [SIZE [RATE [MTU [RTO]]]]`, for
//! example `cargo run --release -p punctual-host --example loopback 200MB 1Gbps 1500B`.

use punctual_core::{Bytes, Rate};
use punctual_host::{LinkOptions, ReceiveOptions, Receiver, SendFileOptions, send_file};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let size: Bytes = arguments.next().as_deref().unwrap_or("200MB").parse()?;
    let rate: Rate = arguments.next().as_deref().unwrap_or("1Gbps").parse()?;
    let mtu: Bytes = arguments.next().as_deref().unwrap_or("1500B").parse()?;
    let mut link = LinkOptions { rate, mtu, ..LinkOptions::default() };
    if let Some(rto) = arguments.next() {
        link.ndp.rto = rto.parse()?;
    }

    let dir = std::env::temp_dir().join(format!("punctual-loopback-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    let (path, out) = (dir.join("in"), dir.join("out"));
    std::fs::write(&path, vec![0x5a; usize::try_from(size.get())?])?;
    let options = ReceiveOptions { link: link.clone(), ..ReceiveOptions::default() };
    let receiver = Receiver::bind("127.0.0.1:0".parse()?, &options)?;
    let address = receiver.local_addr();
    let receiving = std::thread::spawn(move || receiver.receive(&out));
    let sent = send_file(&path, address, &SendFileOptions { deadline: None, link });
    let received = receiving.join().map_err(|_| "the receiver panicked")?;
    std::fs::remove_dir_all(&dir)?;
    let (sent, received) = (sent?, received?);
    println!(
        "{size} in {:.3} s: {:.3} of {:.3} Gb/s",
        sent.duration.as_secs_f64(),
        sent.goodput().as_bps() as f64 / 1e9,
        rate.as_bps() as f64 / 1e9
    );
    println!("{} packets sent again", sent.retransmits);
    println!("sender: {:?}", sent.traffic);
    println!("receiver: {:?}", received.traffic);
    Ok(())
}
