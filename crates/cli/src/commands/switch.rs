//! `punctual switch`: a software switch on network interfaces.

use super::{STOP, stop_on_ctrl_c};
use crate::args::Switch as SwitchArgs;
use crate::exit::{InvalidTiming, UsageError};
use anyhow::Context as _;
use punctual_switch::{Interfaces, Switch, SwitchConfig, SwitchReport, raise_priority};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Runs a switch until it is interrupted, then prints its report.
pub(crate) fn switch(args: &SwitchArgs) -> anyhow::Result<()> {
    let file = &args.config;
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let config = SwitchConfig::parse(&file.display().to_string(), &text)
        .map_err(|error| UsageError(error.to_string()))?;
    stop_on_ctrl_c()?;
    if args.priority {
        raise_priority();
    }
    let names = config.hosts.iter().map(|host| host.interface.as_str());
    let interfaces = Interfaces::open(names, config.network.mtu.get() as usize)?;
    let metrics = args.metrics.map(serve).transpose()?;
    let mut switch = Switch::new(config, interfaces);
    let publish = |report: &SwitchReport| {
        if let Some(file) = &args.report {
            write_report(file, report);
        }
        if let Some(text) = &metrics {
            *text.lock().expect("no thread panics") = report.prometheus();
        }
    };
    publish(&switch.report());
    if !args.printing.quiet {
        let _ = writeln!(std::io::stderr(), "the switch is ready; Ctrl-C stops it");
    }
    switch.run(&STOP, &mut |report| publish(&report));
    let report = switch.report();
    publish(&report);
    let mut out = std::io::stdout().lock();
    match args.printing.json {
        true => writeln!(out, "{}", report.json())?,
        false => write!(out, "{}", report.table())?,
    }
    match report.valid {
        true => Ok(()),
        false => Err(InvalidTiming(format!(
            "the timing of this run is invalid: {}",
            report.problems.join("; ")
        ))
        .into()),
    }
}

/// Replaces the report file, so that readers see a whole one.
fn write_report(file: &Path, report: &SwitchReport) {
    let new = file.with_extension("new");
    if std::fs::write(&new, report.json()).is_ok() {
        let _ = std::fs::rename(&new, file);
    }
}

/// Serves the text that the returned value holds to Prometheus.
fn serve(address: SocketAddr) -> anyhow::Result<Arc<Mutex<String>>> {
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
