//! Tables as CSV.

use crate::columns::Table;
use crate::{FlowRow, Manifest};
use std::io::{self, Write};

/// Metadata of `flows.parquet` that are columns of `flows.csv`, so that the files of several runs
/// can be joined.
const RUN_COLUMNS: [&str; 3] = ["scenario", "seed", "point"];

/// Writes the flows of a run as comma-separated values (RFC 4180).
///
/// The columns are those of `flows.parquet`, then the scenario, the seed and the point of the
/// sweep. A null is an empty field.
pub fn write_csv(out: impl Write, flows: &[FlowRow], manifest: &Manifest) -> io::Result<()> {
    let about = manifest.about();
    let own = about.iter().filter(|(key, _)| RUN_COLUMNS.contains(&&**key));
    let own: Vec<&(String, String)> = own.collect();
    let mut writer = ::csv::Writer::from_writer(out);
    let names = FlowRow::COLUMNS.iter().map(|column| column.name);
    writer.write_record(names.chain(own.iter().map(|(key, _)| &**key)))?;
    for row in flows {
        for column in FlowRow::COLUMNS {
            writer.write_field((column.get)(row).to_string())?;
        }
        for (_, value) in &own {
            writer.write_field(value)?;
        }
        writer.write_record(None::<&[u8]>)?;
    }
    writer.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AxisValue;
    use crate::flows::tests::{micros, record};
    use punctual_core::Duration;
    use punctual_record::{Outcome, Totals};

    #[test]
    fn columns_are_those_of_the_parquet_file_and_the_run() {
        let outcome = Outcome {
            flows: vec![record(7)],
            totals: Totals { ended_at: micros(100), ..Totals::default() },
            ..Outcome::default()
        };
        let ideal = Some(Duration::from_micros(4));
        let mut rows = FlowRow::all(&outcome, &["ndp, 8 packets"], |_| ideal);
        FlowRow::name_traffic(&mut rows, &["search".into()]);
        let mut text = Vec::new();
        let axis = |axis: &str, label: &str| AxisValue {
            axis: axis.into(),
            label: label.into(),
            ..AxisValue::default()
        };
        let manifest = Manifest {
            name: "web".into(),
            point: vec![axis("load", "0.5"), axis("hosts", "8")],
            ..Manifest::new("", "ndp", 3)
        };
        write_csv(&mut text, &rows, &manifest).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "flow,src,dst,transport,pattern,background,size_bytes,start_ps,deadline_ps,ended_ps,\
             status,met,fct_ps,delivered_bytes,retransmits,retransmits_nack,\
             retransmits_bounce,retransmits_timeout,retransmits_duplicate_ack,timeouts,trims,\
             bounces,slowdown,\
             censored_ps,ideal_ps,measured,window_bytes,window_retransmits,\
             window_retransmits_nack,window_retransmits_bounce,window_retransmits_timeout,\
             window_retransmits_duplicate_ack,window_timeouts,\
             traffic,scenario,seed,point\n\
             7,0,1,\"ndp, 8 packets\",0,false,1000,1000000,11000000,10000000,completed,true,\
             9000000,1000,0,0,0,0,0,0,0,0,2.25,,4000000,true,1000,0,0,0,0,0,0,search,web,3,\
             \"load=0.5, hosts=8\"\n"
        );
    }
}
