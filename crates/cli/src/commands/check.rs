//! `punctual check`.

use crate::args::Changes;
use punctual_core::Rate;
use punctual_lab::{OfferedLoad, Point, RunSetup, Scenario, Study, load_study};
use punctual_sim::{Setup, Simulate};
use std::io::Write as _;
use std::path::Path;

pub(crate) fn check<S: Simulate>(file: &Path, changes: &Changes, json: bool) -> anyhow::Result<()> {
    let study = load_study::<S>(file, &changes.overrides())?;
    let runs = study.runs();
    let loads = loads(&study)?;
    let mut out = std::io::stdout().lock();
    if json {
        for run in &runs {
            let labels: serde_json::Map<_, _> =
                run.labels.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect();
            let own = |(point, _): &&(&Point<S>, OfferedLoad)| {
                std::sync::Arc::ptr_eq(&point.scenario, &run.scenario)
            };
            let load = loads.iter().find(own).map(|(_, load)| load);
            let object = serde_json::json!({
                "scenario": study.name(),
                "transport": run.subject.label,
                "point": labels,
                "seed": run.seed,
                "directory": run.dir,
                "offered_load": load,
            });
            writeln!(out, "{object}")?;
        }
        return Ok(());
    }
    let first = &study.points()[0].scenario;
    writeln!(out, "{}: {}", study.name(), first.description)?;
    let network = &first.network;
    let switches = network.names.len() - network.hosts as usize;
    writeln!(
        out,
        "  network     {} hosts, {switches} switches, {} links of {}",
        network.hosts,
        network.links.len() / 2,
        rates(first),
    )?;
    let subjects = first.subjects();
    let width = subjects.iter().map(|subject| subject.label.chars().count()).max().unwrap_or(0);
    let width = width.max(11);
    for subject in &subjects {
        let (flows, how) = match study.setup(first, subject, first.run.seed)? {
            RunSetup::Packets(setup) => (setup.workload.flows.len(), queues(first, &setup)?),
            RunSetup::Testbed(run) => {
                (run.simulated.workload.flows.len(), queues(first, &run.simulated)?)
            }
            RunSetup::Flows(setup) => (setup.flow_count(), "flow level".to_owned()),
            RunSetup::Ideal(setup) => (setup.flow_count(), setup.kind().about().to_owned()),
        };
        let seed = first.run.seed;
        writeln!(out, "  {:<width$} {flows} flows at seed {seed}, {how}", subject.label)?;
    }
    writeln!(
        out,
        "  runs        {} = {} transports x {} points x {} repetitions, up to {} each",
        runs.len(),
        subjects.len(),
        study.points().len(),
        first.run.repetitions,
        first.run.duration,
    )?;
    for (point, load) in &loads {
        if !point.labels.is_empty() {
            let label = |(key, value): &(String, String)| format!("{key} = {value}");
            let labels: Vec<String> = point.labels.iter().map(label).collect();
            writeln!(out, "  point       {}", labels.join(", "))?;
        }
        writeln!(out, "  load        {load}")?;
        for warning in &load.warnings {
            writeln!(out, "  warning     {warning}")?;
        }
    }
    Ok(())
}

/// The offered load of every point of the sweep.
fn loads<S: Simulate>(study: &Study<S>) -> anyhow::Result<Vec<(&Point<S>, OfferedLoad)>> {
    study.points().iter().map(|point| Ok((point, study.offered_load(&point.scenario)?))).collect()
}

/// The rates of a network's links: one, or from the lowest to the highest.
fn rates<S: Simulate>(scenario: &Scenario<S>) -> String {
    let rates = || scenario.network.links.iter().map(|link| link.rate);
    match (rates().min(), rates().max()) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
        (least, _) => least.unwrap_or_default().to_string(),
    }
}

/// The queues of a run's switch ports, by rate where they differ.
fn queues<S: Simulate>(scenario: &Scenario<S>, setup: &Setup<S>) -> anyhow::Result<String> {
    if setup.port_queues.is_empty() {
        return Ok(format!("queue {}", serde_json::to_string(&setup.switch_queue)?));
    }
    let mut shown: Vec<(Rate, String)> = Vec::new();
    let network = &scenario.network;
    for (link, queue) in network.links.iter().zip(&setup.port_queues) {
        if link.from.0 >= network.hosts && !shown.iter().any(|(rate, _)| *rate == link.rate) {
            shown.push((link.rate, serde_json::to_string(queue)?));
        }
    }
    shown.sort();
    let queues: Vec<String> =
        shown.iter().map(|(rate, queue)| format!("{queue} at {rate}")).collect();
    Ok(format!("queue {}", queues.join(", ")))
}
