//! Delay breakdowns as stacked bars, by transport and by flow.

use super::model::{Body, Section, Stack, StackKind, StackRow, StackView};
use super::numbers::Numbered;
use crate::collect::Row;
use crate::explain::Means;
use punctual_record::What;
use punctual_results::{Explained, ReadError};

/// The maximum number of flows of a run that have a bar.
const FLOWS_MAX: usize = 30;

/// The colour of a part.
///
/// Delays that a lone flow also has are grey and blue, waits behind others are warm, waits for the
/// protocol are green and purple, losses are dark red.
fn colour(what: What) -> &'static str {
    match what {
        What::Serialisation => "#88ccee",
        What::Propagation => "#bbbbbb",
        What::Own => "#4477aa",
        What::Queue => "#ee7733",
        What::Nic => "#ddaa33",
        What::LinkPaused => "#999933",
        What::Pacing => "#44aa99",
        What::Grant => "#117733",
        What::Paused => "#aa4499",
        What::Pull => "#8877cc",
        What::Token => "#5b4b9e",
        What::Timeout => "#882255",
        What::Retransmission => "#cc3311",
        What::Trimmed => "#cc6677",
        What::Timer => "#777777",
        What::Silence => "#555555",
    }
}

/// The section, where any run of these rows was explained.
pub(super) fn section(rows: &[Row], number: &Numbered<'_>) -> Result<Option<Section>, ReadError> {
    let mut runs: Vec<(usize, Explained)> = Vec::new();
    for row in rows {
        for dir in &row.dirs {
            if let Some(explained) = Explained::read(dir)? {
                runs.push((number(&row.summary.title()), explained));
            }
        }
    }
    if runs.is_empty() {
        return Ok(None);
    }
    let all: Vec<Explained> = runs.iter().map(|(_, run)| run.clone()).collect();
    let means = Means::of(&all);
    let kinds = means.what.iter().zip(&means.titles).map(|(what, title)| StackKind {
        name: what.name().to_owned(),
        title: title.clone(),
        colour: colour(*what),
    });
    let kinds: Vec<StackKind> = kinds.collect();
    let mut views = Vec::new();
    let of_transport = |n: usize| {
        let transport = means.transports[n].clone();
        let own = runs.iter().find(|(_, run)| run.transport == transport);
        StackRow {
            transport: own.map(|(number, _)| *number),
            about: format!("{} flows", means.flows[n]),
            label: transport,
            micros: means.micros.iter().map(|row| row[n]).collect(),
        }
    };
    views.push(StackView {
        label: "means by transport".into(),
        rows: (0..means.transports.len()).map(of_transport).collect(),
    });
    for (transport, run) in &runs {
        let rows = run.flows.iter().take(FLOWS_MAX).map(|flow| {
            let time = |kind: &StackKind| {
                let own = flow.parts.iter().filter(|part| part.what == kind.name);
                own.map(|part| part.time_ps as f64 / 1e6).sum()
            };
            StackRow {
                transport: Some(*transport),
                label: format!("flow {}", flow.flow),
                about: flow.sentence.clone(),
                micros: kinds.iter().map(time).collect(),
            }
        });
        let of = run.flows.len();
        let some = if of > FLOWS_MAX { format!(", the first {FLOWS_MAX}") } else { String::new() };
        let label = format!("{}, seed {}: {}{some}", run.transport, run.seed, run.chosen);
        views.push(StackView { label, rows: rows.collect() });
    }
    Ok(Some(Section {
        id: "time".into(),
        title: "Delay breakdown".into(),
        lead:
            "Components of the completion times of explained flows (`punctual explain`): the path \
               of the last byte, traced back through the event that caused each step, to the start \
               of the flow."
                .into(),
        point: None,
        body: Body::Stack(Stack { kinds, views }),
    }))
}
