//! Flows as text.

use crate::flows::status_name;
use crate::parquet_io::{flow_column_names, traffic_name};
use crate::{FlowCounts, FlowRow};
use punctual_core::{Bytes, Duration, Instant};
use std::fmt::Display;
use std::io::{self, Write};

/// Writes flows as comma-separated values (RFC 4180) with the columns of `flows.parquet`; what is
/// null there is empty here.
pub fn write_csv(out: impl Write, flows: &[FlowRow]) -> io::Result<()> {
    write(out, flows, &[])
}

/// Writes flows whose traffic has these names, see [`write_csv`].
pub(crate) fn write(mut out: impl Write, flows: &[FlowRow], traffic: &[String]) -> io::Result<()> {
    let header: Vec<_> = flow_column_names().collect();
    writeln!(out, "{}", header.join(","))?;
    for row in flows {
        let size = maybe(row.size.map(Bytes::get));
        let deadline = maybe(row.deadline.map(Instant::as_picos));
        let ended = maybe(row.ended.map(Instant::as_picos));
        let fct = maybe(row.fct.map(Duration::as_picos));
        let (met, slowdown) = (maybe(row.met), maybe(row.slowdown));
        let censored = maybe(row.censored.map(Duration::as_picos));
        let ideal = maybe(row.ideal.map(Duration::as_picos));
        let FlowCounts { delivered, retransmits, timeouts } = row.in_window;
        let window = format!("{},{retransmits},{timeouts}", delivered.get());
        let traffic = quoted(traffic_name(traffic, row));
        let (transport, status) = (quoted(&row.transport), status_name(row.status));
        let FlowRow { flow, src, dst, pattern, background, measured, .. } = row;
        let FlowRow { retransmits, timeouts, trims, bounces, .. } = row;
        let (start, delivered) = (row.start.as_picos(), row.delivered.get());
        writeln!(
            out,
            "{flow},{src},{dst},{transport},{pattern},{background},{size},{start},{deadline},\
             {ended},{status},{met},{fct},{delivered},{retransmits},{timeouts},{trims},{bounces},\
             {slowdown},{censored},{ideal},{measured},{window},{traffic}"
        )?;
    }
    out.flush()
}

fn maybe(value: Option<impl Display>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::tests::{micros, record};
    use punctual_core::Duration;
    use punctual_record::{Outcome, Totals};

    #[test]
    fn columns_are_those_of_the_parquet_file() {
        let outcome = Outcome {
            flows: vec![record(7)],
            totals: Totals { ended_at: micros(100), ..Totals::default() },
            ..Outcome::default()
        };
        let rows = FlowRow::all(&outcome, &["ndp, 8 packets"], |_| Some(Duration::from_micros(4)));
        let mut text = Vec::new();
        write(&mut text, &rows, &["search".into()]).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "flow,src,dst,transport,pattern,background,size_bytes,start_ps,deadline_ps,ended_ps,\
             status,met,fct_ps,delivered_bytes,retransmits,timeouts,trims,bounces,slowdown,\
             censored_ps,ideal_ps,measured,window_bytes,window_retransmits,window_timeouts,\
             traffic\n\
             7,0,1,\"ndp, 8 packets\",0,false,1000,1000000,11000000,10000000,completed,true,\
             9000000,1000,0,0,0,0,2.25,,4000000,true,1000,0,0,search\n"
        );
    }
}
