//! Gauges of transports, one row per gauge and sampling instant.

use crate::columns::{Cell, Column, Field, Table, column};
use punctual_core::{FlowId, Instant, PortId};
use punctual_record::{GaugeOf, Outcome};
use std::collections::BTreeSet;
use std::sync::Arc;

/// One gauge at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct GaugeRow {
    /// When.
    pub at: Instant,
    /// Name of the transport.
    pub transport: Arc<str>,
    /// The owner of the gauge.
    pub of: GaugeOf,
    /// Its name, which ends in its unit.
    pub gauge: Arc<str>,
    /// Its value.
    pub value: f64,
}

impl GaugeRow {
    /// All gauges of a run, in the order of the outcome.
    ///
    /// `transports` are the names by [`TransportId`](punctual_core::TransportId).
    ///
    /// # Panics
    /// When a transport has no name.
    pub fn all(outcome: &Outcome, transports: &[&str]) -> Vec<GaugeRow> {
        let mut names = Names::default();
        let mut row = |sample: &punctual_record::GaugeSample| GaugeRow {
            at: sample.at,
            transport: names.get(transports[sample.transport.index()]),
            of: sample.of,
            gauge: names.get(sample.name),
            value: sample.value,
        };
        outcome.gauges.iter().map(&mut row).collect()
    }
}

/// Interned texts: one copy for all rows with the same text.
#[derive(Default)]
struct Names(BTreeSet<Arc<str>>);

impl Names {
    fn get(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return known.clone();
        }
        let new: Arc<str> = name.into();
        self.0.insert(new.clone());
        new
    }
}

impl Default for GaugeRow {
    fn default() -> GaugeRow {
        GaugeRow {
            at: Instant::ZERO,
            transport: Arc::default(),
            of: GaugeOf::Port(PortId(0)),
            gauge: Arc::default(),
            value: 0.0,
        }
    }
}

#[rustfmt::skip]
impl Table for GaugeRow {
    const COLUMNS: &'static [Column<GaugeRow>] = &[
        column!(at, "at_ps", "ps", "sampling instant"),
        column!(transport, "transport", "", "transport that has the gauge"),
        column!(fn Text kind, set_kind; "of", "", "`sender`, `receiver` or `port`"),
        column!(fn U32 number, set_number; "number", "", "number of the flow or, for a port, of the output port"),
        column!(gauge, "gauge", "", "name of the gauge, which ends in its unit"),
        column!(value, "value", "", "value at that instant"),
    ];
}

fn kind(row: &GaugeRow) -> Cell<'_> {
    Cell::Text(match row.of {
        GaugeOf::Sender(_) => "sender",
        GaugeOf::Receiver(_) => "receiver",
        GaugeOf::Port(_) => "port",
    })
}

/// Sets the kind of the owner. Must be called before [`set_number`].
fn set_kind(row: &mut GaugeRow, cell: Cell<'_>) -> Result<(), String> {
    row.of = match &*String::from_cell(cell)? {
        "sender" => GaugeOf::Sender(FlowId(0)),
        "receiver" => GaugeOf::Receiver(FlowId(0)),
        "port" => GaugeOf::Port(PortId(0)),
        other => return Err(format!("holds the unknown `{other}`")),
    };
    Ok(())
}

fn number(row: &GaugeRow) -> Cell<'_> {
    match &row.of {
        GaugeOf::Sender(flow) | GaugeOf::Receiver(flow) => flow.to_cell(),
        GaugeOf::Port(port) => port.to_cell(),
    }
}

fn set_number(row: &mut GaugeRow, cell: Cell<'_>) -> Result<(), String> {
    match &mut row.of {
        GaugeOf::Sender(flow) | GaugeOf::Receiver(flow) => *flow = FlowId::from_cell(cell)?,
        GaugeOf::Port(port) => *port = PortId::from_cell(cell)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet_io::{read_table, write_table};

    #[test]
    fn gauges_are_read_as_written() {
        let row = |picos, of, gauge: &str, value| GaugeRow {
            at: Instant::from_picos(picos),
            transport: "d3".into(),
            of,
            gauge: gauge.into(),
            value,
        };
        let rows = [
            row(1, GaugeOf::Port(PortId(7)), "capacity_bps", 1e9),
            row(1, GaugeOf::Sender(FlowId(2)), "granted_bps", 0.1 + 0.2),
            row(u64::MAX, GaugeOf::Receiver(FlowId(u32::MAX)), "x", f64::MIN_POSITIVE),
        ];
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("gauges.parquet");
        write_table(std::fs::File::create(&path).unwrap(), &[], &rows).unwrap();
        assert_eq!(read_table::<GaugeRow>(&path).unwrap(), rows);
    }
}
