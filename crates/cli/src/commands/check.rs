//! `punctual check`.

use crate::args::Global;
use punctual_lab::{RunSetup, Study};
use std::io::Write as _;
use std::path::Path;

pub(crate) fn check(file: &Path, global: &Global) -> anyhow::Result<()> {
    let study = Study::load(file, &global.overrides())?;
    let runs = study.runs();
    let mut out = std::io::stdout().lock();
    if global.json {
        for run in &runs {
            let labels: serde_json::Map<_, _> =
                run.labels.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect();
            let object = serde_json::json!({
                "scenario": study.name(),
                "transport": run.subject.label,
                "point": labels,
                "seed": run.seed,
                "directory": run.dir,
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
        "  network     {} hosts, {switches} switches, {} links, {} each",
        network.hosts,
        network.links.len() / 2,
        network.nic_info(punctual_core::HostId(0)).rate,
    )?;
    let subjects = first.subjects();
    let width = subjects.iter().map(|subject| subject.label.chars().count()).max().unwrap_or(0);
    let width = width.max(11);
    for subject in &subjects {
        let (flows, how) = match study.setup(first, subject, first.run.seed)? {
            RunSetup::Packets(setup) => {
                let queue = serde_json::to_string(&setup.switch_queue)?;
                (setup.workload.flows.len(), format!("queue {queue}"))
            }
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
    for point in study.points().iter().filter(|p| !p.labels.is_empty()) {
        let labels: Vec<String> = point.labels.iter().map(|(k, v)| format!("{k} = {v}")).collect();
        writeln!(out, "  point       {}", labels.join(", "))?;
    }
    Ok(())
}
