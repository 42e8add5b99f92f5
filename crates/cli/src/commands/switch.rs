//! `punctual switch`: a software switch on network interfaces.

use super::metrics::serve;
use super::{STOP, stop_on_ctrl_c};
use crate::args::Switch as SwitchArgs;
use crate::exit::{InvalidTiming, UsageError};
use anyhow::Context as _;
use nix::sys::signal::{SigSet, Signal};
use punctual_switch::{Interfaces, Switch, SwitchConfig, SwitchReport, raise_priority};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

/// Ticks of a running switch between two reports: a second.
const TICKS_PER_REPORT: u32 = 100;

/// Runs a switch until it is interrupted, then prints its report.
pub(crate) fn switch(args: &SwitchArgs) -> anyhow::Result<()> {
    let config = read_config(&args.config).map_err(UsageError)?;
    // Before any thread starts: SIGHUP must reach the thread that reads the configuration alone.
    let hang_up = block_hang_up()?;
    stop_on_ctrl_c()?;
    if args.priority {
        raise_priority();
    }
    let names = config.hosts.iter().map(|host| host.interface.as_str());
    let interfaces = Interfaces::open(names, config.network.mtu.get() as usize)?;
    let metrics = args.metrics.map(serve).transpose()?;
    let mut switch = Switch::new(config, interfaces);
    let publisher = Publisher { file: args.report.clone(), metrics };
    publisher.publish(&switch.report());
    if !args.printing.quiet {
        let _ = writeln!(
            std::io::stderr(),
            "the switch is ready; Ctrl-C stops it, SIGHUP reads its configuration again"
        );
    }
    let configs = read_on_hang_up(hang_up, args.config.clone());
    run(&mut switch, &configs, &publisher);
    let report = switch.report();
    publisher.publish(&report);
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

/// A configuration that was read, or why it cannot be used.
type NextConfig = Result<SwitchConfig, String>;

fn read_config(file: &Path) -> NextConfig {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    SwitchConfig::parse(&file.display().to_string(), &text).map_err(|error| error.to_string())
}

/// Runs the switch. Reports are written by another thread, so that no file system delays a frame.
fn run(switch: &mut Switch<Interfaces>, configs: &Receiver<NextConfig>, publisher: &Publisher) {
    let (reports, written) = channel::<SwitchReport>();
    std::thread::scope(|scope| {
        scope.spawn(move || written.iter().for_each(|report| publisher.publish(&report)));
        let mut ticks = 0;
        switch.run(&STOP, &mut |switch| {
            let reloaded = configs.try_recv().ok();
            if let Some(config) = &reloaded {
                reload(switch, config.clone());
            }
            ticks += 1;
            if ticks % TICKS_PER_REPORT == 0 || reloaded.is_some() {
                let _ = reports.send(switch.report());
            }
        });
        drop(reports);
    });
}

fn reload(switch: &mut Switch<Interfaces>, config: NextConfig) {
    let result = match config {
        Ok(config) => switch.reload(config).map_err(|error| error.to_string()),
        Err(error) => {
            switch.refuse_reload(error.clone());
            Err(error)
        }
    };
    let mut err = std::io::stderr();
    let _ = match result {
        Ok(()) => writeln!(err, "the new configuration is in use"),
        Err(error) => writeln!(err, "the new configuration is refused: {error}"),
    };
}

/// Keeps SIGHUP from this thread and those that it starts.
fn block_hang_up() -> anyhow::Result<SigSet> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGHUP);
    signals.thread_block().context("cannot block SIGHUP")?;
    Ok(signals)
}

/// Reads the configuration on every SIGHUP.
fn read_on_hang_up(signals: SigSet, file: PathBuf) -> Receiver<NextConfig> {
    let (configs, read) = channel();
    std::thread::spawn(move || {
        while signals.wait().is_ok() {
            if configs.send(read_config(&file)).is_err() {
                return;
            }
        }
    });
    read
}

/// Where reports go.
struct Publisher {
    file: Option<PathBuf>,
    metrics: Option<Arc<Mutex<String>>>,
}

impl Publisher {
    fn publish(&self, report: &SwitchReport) {
        if let Some(file) = &self.file {
            write_report(file, report);
        }
        if let Some(text) = &self.metrics {
            *text.lock().expect("no thread panics") = report.prometheus();
        }
    }
}

/// Replaces the report file, so that readers see a whole one.
fn write_report(file: &Path, report: &SwitchReport) {
    let new = file.with_extension("new");
    if std::fs::write(&new, report.json()).is_ok() {
        let _ = std::fs::rename(&new, file);
    }
}
