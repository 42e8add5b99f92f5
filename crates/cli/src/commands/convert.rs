//! `punctual convert`: flow lists and topologies of other simulators.

use crate::args::{Changes, Json};
use crate::exit::UsageError;
use anyhow::Context as _;
use clap::Args;
use punctual_core::HostId;
use punctual_lab::load_study;
use punctual_net::{Topology, TopologyFile};
use punctual_results::save;
use punctual_sim::Simulate;
use punctual_workload::{FlowList, ListColumns, ListFormat, ListedFlow};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A file to convert.
#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// A list of flows, a scenario whose flows are listed, or a topology of the HPCC simulator
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The format of FILE [default: scenario for .toml, htsim for .cm, otherwise csv]
    #[arg(long, value_name = "FORMAT", value_enum)]
    from: Option<From>,
    /// The format to write; a topology is always written as a topology file
    #[arg(long, value_name = "FORMAT", value_parser = ListFormat::NAMES)]
    to: Option<String>,
    /// What columns of numbers are: src, dst, size, start, deadline, - to ignore one; units as in
    /// size:KB and start:us [default: "src dst size start", in bytes and seconds]
    #[arg(long, value_name = "COLUMNS")]
    columns: Option<ListColumns>,
    /// Number the hosts of FILE in order of appearance, and print which is which; for names that no
    /// topology has
    #[arg(long)]
    number_hosts: bool,
    /// The file to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    json: Json,
}

/// The format of the file to convert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum From {
    /// CSV with a header and units
    Csv,
    /// htsim's connection matrix
    Htsim,
    /// The flow file of the HPCC simulator
    Hpcc,
    /// Columns of numbers
    Columns,
    /// The topology file of the HPCC simulator
    HpccTopology,
    /// A scenario: the flows of its first run
    Scenario,
}

pub(crate) fn convert<S: Simulate>(args: &Convert) -> anyhow::Result<()> {
    let name = args.file.to_string_lossy().into_owned();
    let from = args.from.unwrap_or_else(|| match &name {
        name if name.ends_with(".toml") => From::Scenario,
        name if name.ends_with(".cm") => From::Htsim,
        _ if args.columns.is_some() && args.to.as_deref() != Some("columns") => From::Columns,
        _ => From::Csv,
    });
    if from != From::Scenario && !args.changes.is_empty() {
        return Err(UsageError("--set and --seed change a scenario, not a list".into()).into());
    }
    if from == From::HpccTopology {
        if args.to.is_some() {
            let message = "a topology is written as a topology file; remove --to";
            return Err(UsageError(message.into()).into());
        }
        let file = TopologyFile::parse_hpcc(&read(&args.file)?)
            .map_err(|error| UsageError(format!("{name}: {error}")))?;
        Topology::from_file(&file).map_err(|error| UsageError(format!("{name}: {error}")))?;
        let links = file.link.len();
        return write(args, &topology(&file), &format!("{links} links"));
    }
    let Some(to) = &args.to else {
        let message = format!("--to is missing; formats are {}", ListFormat::NAMES.join(", "));
        return Err(UsageError(message).into());
    };
    let to = ListFormat::named(to, args.columns.clone()).context("clap knows the formats")?;
    let (flows, hosts) = match from {
        From::Scenario => scenario::<S>(args)?,
        _ => list(args, from, &name)?,
    };
    let has_deadlines = flows.iter().any(|flow| flow.deadline.is_some());
    if has_deadlines && matches!(to, ListFormat::Htsim | ListFormat::Hpcc) {
        let _ = writeln!(std::io::stderr(), "warning: {} has no deadlines", to.name());
    }
    let text = to.write(&flows, hosts).map_err(UsageError)?;
    write(args, &text, &format!("{} flows", flows.len()))
}

/// The flows of a scenario's first run, and the number of its hosts.
fn scenario<S: Simulate>(args: &Convert) -> anyhow::Result<(Vec<ListedFlow>, u32)> {
    let study = load_study::<S>(&args.file, &args.changes.overrides())?;
    let scenario = &study.points()[0].scenario;
    let mut flows = study.flows(scenario, scenario.run.seed)?;
    flows.sort_by_key(|flow| (flow.start, flow.id));
    let listed = flows.iter().map(|flow| ListedFlow {
        src: flow.src,
        dst: flow.dst,
        size: flow.size,
        start: flow.start.since_start(),
        deadline: flow.deadline.map(|deadline| deadline.saturating_since(flow.start)),
        transport: None,
    });
    Ok((listed.collect(), scenario.network.hosts))
}

/// The flows of a list, and one more than the greatest number of a host.
fn list(args: &Convert, from: From, name: &str) -> anyhow::Result<(Vec<ListedFlow>, u32)> {
    let format = match from {
        From::Htsim => ListFormat::Htsim,
        From::Hpcc => ListFormat::Hpcc,
        From::Columns => ListFormat::Columns(args.columns.clone().unwrap_or_default()),
        _ => ListFormat::Csv,
    };
    let names: RefCell<Vec<String>> = RefCell::default();
    let number = |host: &str| {
        if !args.number_hosts || host.starts_with("node ") {
            return None;
        }
        let mut names = names.borrow_mut();
        let known = names.iter().position(|name| name == host);
        let number = known.unwrap_or_else(|| {
            names.push(host.to_owned());
            names.len() - 1
        });
        u32::try_from(number).ok().map(HostId)
    };
    let parsed = format.parse(&read(&args.file)?, number);
    let parsed = parsed.map_err(|error| {
        let hint = match error.to_string().contains("is not a host") {
            true => "; --number-hosts numbers hosts by their names",
            false => "",
        };
        UsageError(format!("{name}: {error}{hint}"))
    })?;
    let FlowList::Flows(flows) = parsed else { anyhow::bail!("{name}: no flows") };
    for (number, name) in names.borrow().iter().enumerate() {
        let _ = writeln!(std::io::stderr(), "host {number}: {name}");
    }
    let most = flows.iter().map(|flow| flow.src.0.max(flow.dst.0)).max();
    Ok((flows, most.map_or(0, |host| host.saturating_add(1))))
}

/// A topology file in TOML.
fn topology(file: &TopologyFile) -> String {
    let mut out = String::new();
    for (kind, nodes) in [("host", &file.host), ("switch", &file.switch)] {
        for node in nodes {
            let _ = writeln!(out, "[[{kind}]]\nname = {:?}\n", node.name);
        }
    }
    for link in &file.link {
        let [a, b] = &link.between;
        let (rate, delay) = (link.rate, link.delay);
        let _ = writeln!(
            out,
            "[[link]]\nbetween = [{a:?}, {b:?}]\nrate = \"{rate}\"\ndelay = \"{delay}\"\n"
        );
    }
    out
}

fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn write(args: &Convert, text: &str, what: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let Some(path) = &args.out else { return Ok(stdout.write_all(text.as_bytes())?) };
    if path.exists() {
        let message = format!("{} exists already; choose another name", path.display());
        return Err(UsageError(message).into());
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("--out {} is no file", path.display()))?;
    save(path.parent().unwrap_or(Path::new("")), name, text.as_bytes())?;
    match args.json.json {
        true => {
            let bytes = text.len();
            writeln!(stdout, "{}", serde_json::json!({ "file": path, "bytes": bytes }))?;
        }
        false => writeln!(stdout, "{what}: {}", path.display())?,
    }
    Ok(())
}
