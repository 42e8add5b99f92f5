//! `punctual testbed`: a scenario's network on this machine, from network namespaces and a switch.

use crate::args::{TestbedCommand, TestbedUp};
use crate::exit::UsageError;
use anyhow::Context as _;
use punctual_core::{QueueSpec, Rate};
use punctual_lab::Study;
use punctual_switch::{ConfigSource, SwitchConfig, Testbed, spawn_in_namespace};
use punctual_transports::AnyTransport;
use std::io::Write as _;
use std::path::Path;

/// Packets a second that one switch thread forwards at most, as measured on a small machine.
const PACKETS_PER_SECOND: u64 = 150_000;

/// Runs a subcommand of `testbed`.
pub(crate) fn testbed(command: &TestbedCommand) -> anyhow::Result<()> {
    match command {
        TestbedCommand::Up(args) => up(args),
        TestbedCommand::Status { scenario, json } => status(scenario, json.json),
        TestbedCommand::Exec { scenario, host, command } => exec(scenario, host, command),
        TestbedCommand::Restart { scenario } => restart(scenario),
        TestbedCommand::Down { scenario } => down(scenario),
    }
}

/// The testbed of a scenario: its prefix depends on the file's place alone.
fn of(scenario: &Path) -> anyhow::Result<Testbed> {
    let path =
        scenario.canonicalize().with_context(|| format!("cannot find {}", scenario.display()))?;
    let mut hash = 0xcbf2_9ce4_8422_2325u64; // FNV-1a
    for byte in path.to_string_lossy().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    Ok(Testbed::new(&format!("pt{:06x}", hash >> 40)))
}

fn up(args: &TestbedUp) -> anyhow::Result<()> {
    let testbed = of(&args.scenario)?;
    let study = Study::load(&args.scenario, &args.changes.overrides())?;
    let config = config(&study, args)?;
    let name = args.scenario.display().to_string();
    let parsed = SwitchConfig::parse(&name, &config)
        .map_err(|error| UsageError(format!("{name}: {}", error.message)))?;
    let network = &parsed.network;
    warn_if_too_fast(network);
    let program = std::env::current_exe().context("cannot find this program")?;
    testbed.up(network.hosts, network.mtu.get(), &config, &program)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} hosts and a switch are up", network.hosts)?;
    for host in 0..network.hosts {
        writeln!(
            out,
            "  host {host}  {:<12}  {:<10}  namespace {}",
            Testbed::ipv4(host).to_string(),
            Testbed::ipv6(host).to_string(),
            testbed.host_namespace(host)
        )?;
    }
    writeln!(out, "take it down with: punctual testbed down {}", args.scenario.display())?;
    Ok(())
}

/// The configuration of a switch for a scenario.
fn config(study: &Study, args: &TestbedUp) -> anyhow::Result<String> {
    let runs = study.runs();
    let wanted = |run: &&punctual_lab::PlannedRun| match &args.transport {
        Some(name) => run.subject.label == *name,
        None => run.subject.policy().is_none(),
    };
    let Some(run) = runs.iter().find(wanted) else {
        let names: Vec<&str> = study.points()[0].scenario.transports.iter().map(|n| &**n).collect();
        let message = format!("choose --transport among {}", names.join(", "));
        return Err(UsageError(message).into());
    };
    let scenario = &run.scenario;
    let setup = study.setup(scenario, &run.subject, scenario.run.seed)?;
    let Some(setup) = setup.packets() else {
        return Err(UsageError("a testbed needs a scenario of packets".into()).into());
    };
    let own = &setup.port_queues;
    let queue_of = |port: punctual_core::PortId| -> QueueSpec {
        own.get(port.index()).copied().unwrap_or(setup.switch_queue)
    };
    let names: Vec<&str> = setup.transports.iter().map(AnyTransport::name).collect();
    let source = ConfigSource {
        network: &setup.network,
        queue_of: &queue_of,
        transports: &names,
        settings: &scenario.settings,
        spin: !args.sleep,
    };
    if setup.network.hosts_forward() {
        let message = "its hosts have several NICs, which a testbed cannot build".to_owned();
        return Err(UsageError(message).into());
    }
    if !setup.network.has_equal_paths() {
        let message = "its routes are longer than the shortest ones; a testbed can have a star, \
                       tree, leaf-spine, fat tree, or a topology file";
        return Err(UsageError(message.to_owned()).into());
    }
    Ok(source.text())
}

/// Warns if the hosts together can send more than a switch forwards.
fn warn_if_too_fast(network: &punctual_net::Network) {
    let sum: u64 = network.all_nics().iter().map(|nic| network.link(*nic).rate.as_bps()).sum();
    let packet_bits = (network.mtu + network.framing).get() * 8;
    let fastest = Rate::from_bps(PACKETS_PER_SECOND * packet_bits);
    if sum > fastest.as_bps() {
        let _ = writeln!(
            std::io::stderr(),
            "warning: the hosts can send {} together, and a switch forwards about {fastest}; at \
             full load its timing will be invalid; lower it with --set network.rate=100Mbps",
            Rate::from_bps(sum)
        );
    }
}

fn status(scenario: &Path, json: bool) -> anyhow::Result<()> {
    let status = of(scenario)?.status()?;
    let mut out = std::io::stdout().lock();
    if json {
        let report = status.report.as_deref().unwrap_or("null");
        let switch = status.switch.map_or("null".to_owned(), |pid| pid.to_string());
        let hosts = serde_json::to_string(&status.hosts)?;
        writeln!(out, "{{\"hosts\":{hosts},\"switch\":{switch},\"report\":{report}}}")?;
        return Ok(());
    }
    writeln!(out, "{} hosts: {}", status.hosts.len(), status.hosts.join(", "))?;
    match status.switch {
        Some(pid) => writeln!(out, "the switch runs as process {pid}")?,
        None => writeln!(out, "the switch does not run; start it with `punctual testbed restart`")?,
    }
    let report = status.report.and_then(|text| serde_json::from_str(&text).ok());
    if let Some(report) = report {
        let report: serde_json::Value = report;
        let number = |key: &str| report[key].as_f64().unwrap_or(0.0);
        writeln!(
            out,
            "delivered {} frames; departures late by p50 {:.1} us, p99 {:.1} us",
            report["delivered"],
            number("lateness_p50_us"),
            number("lateness_p99_us")
        )?;
        if let Some(error) = report["reload_error"].as_str() {
            writeln!(out, "the last new configuration was refused: {error}")?;
        }
        match report["problems"].as_array().filter(|problems| !problems.is_empty()) {
            None => writeln!(out, "timing: valid so far")?,
            Some(problems) => {
                for problem in problems.iter().filter_map(|problem| problem.as_str()) {
                    writeln!(out, "timing: INVALID: {problem}")?;
                }
            }
        }
    }
    Ok(())
}

fn exec(scenario: &Path, host: &str, command: &[String]) -> anyhow::Result<()> {
    let (program, args) = command.split_first().context("no command was given")?;
    let namespace = of(scenario)?.namespace_of(host)?;
    let mut command = std::process::Command::new(program);
    let mut child = spawn_in_namespace(&namespace, command.args(args))
        .with_context(|| format!("cannot run `{program}` at host {host}"))?;
    match child.wait()?.code() {
        Some(0) => Ok(()),
        Some(code) => std::process::exit(code),
        None => anyhow::bail!("`{program}` was ended by a signal"),
    }
}

fn restart(scenario: &Path) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("cannot find this program")?;
    of(scenario)?.restart_switch(&program)?;
    writeln!(std::io::stdout(), "the switch runs again")?;
    Ok(())
}

fn down(scenario: &Path) -> anyhow::Result<()> {
    let removed = of(scenario)?.down()?;
    writeln!(std::io::stdout(), "removed {removed} namespaces")?;
    Ok(())
}
