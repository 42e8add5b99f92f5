//! Tables as text.

use crate::FlowRow;
use crate::columns::Table;
use std::io::{self, Write};

/// Writes flows as comma-separated values (RFC 4180) with the columns of `flows.parquet`. What is
/// null there is empty here.
pub fn write_csv(out: impl Write, flows: &[FlowRow]) -> io::Result<()> {
    let mut writer = ::csv::Writer::from_writer(out);
    writer.write_record(FlowRow::COLUMNS.iter().map(|column| column.name))?;
    for row in flows {
        for column in FlowRow::COLUMNS {
            writer.write_field((column.get)(row).to_string())?;
        }
        writer.write_record(None::<&[u8]>)?;
    }
    writer.flush()
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
        let ideal = Some(Duration::from_micros(4));
        let mut rows = FlowRow::all(&outcome, &["ndp, 8 packets"], |_| ideal);
        FlowRow::name_traffic(&mut rows, &["search".into()]);
        let mut text = Vec::new();
        write_csv(&mut text, &rows).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "flow,src,dst,transport,pattern,background,size_bytes,start_ps,deadline_ps,ended_ps,\
             status,met,fct_ps,delivered_bytes,retransmits,retransmits_nack,\
             retransmits_bounce,retransmits_timeout,retransmits_duplicate_ack,timeouts,trims,\
             bounces,slowdown,\
             censored_ps,ideal_ps,measured,window_bytes,window_retransmits,\
             window_retransmits_nack,window_retransmits_bounce,window_retransmits_timeout,\
             window_retransmits_duplicate_ack,window_timeouts,\
             traffic\n\
             7,0,1,\"ndp, 8 packets\",0,false,1000,1000000,11000000,10000000,completed,true,\
             9000000,1000,0,0,0,0,0,0,0,0,2.25,,4000000,true,1000,0,0,0,0,0,0,search\n"
        );
    }
}
