//! Flow lists of other simulators: htsim's connection matrices, HPCC's flow files, plain columns.

use crate::list::{FlowList, FlowListError, ListedFlow};
use punctual_core::{Bytes, Duration, HostId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::str::FromStr;

/// The format of a file with a list of flows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListFormat {
    /// CSV with a header and units, see [`FlowList::parse_csv`].
    #[default]
    Csv,
    /// htsim's connection matrix, `.cm`.
    Htsim,
    /// The flow file of the HPCC simulator (ns-3).
    Hpcc,
    /// Columns of numbers without units.
    Columns(ListColumns),
}

/// The meaning of the columns of a file of numbers.
///
/// A text such as `src dst - size:KB start:us`: `src`, `dst`, `size`, `start` and `deadline` in
/// any order, `-` for a column that is ignored. Without a unit, sizes are in bytes and times in
/// seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ListColumns {
    text: String,
    columns: Vec<Option<(Field, String)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    Src,
    Dst,
    Size,
    Start,
    Deadline,
}

const FIELDS: [(&str, Field, &str); 5] = [
    ("src", Field::Src, ""),
    ("dst", Field::Dst, ""),
    ("size", Field::Size, "B"),
    ("start", Field::Start, "s"),
    ("deadline", Field::Deadline, "s"),
];

impl Default for ListColumns {
    fn default() -> Self {
        "src dst size start".parse().expect("valid columns")
    }
}

impl std::fmt::Display for ListColumns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for ListColumns {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ListColumns> for String {
    fn from(columns: ListColumns) -> String {
        columns.text
    }
}

impl FromStr for ListColumns {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut columns = Vec::new();
        let mut seen = BTreeSet::new();
        for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
            if word == "-" {
                columns.push(None);
                continue;
            }
            let (name, unit) = word.split_once(':').unwrap_or((word, ""));
            let Some((_, field, default)) = FIELDS.iter().find(|(own, ..)| *own == name) else {
                return Err(format!(
                    "unknown column `{name}`; columns are src, dst, size, start, deadline, and - \
                     for one that is ignored"
                ));
            };
            if !seen.insert(*field) {
                return Err(format!("column `{name}` appears twice"));
            }
            let unit = if unit.is_empty() { *default } else { unit };
            let one = format!("1{unit}");
            let known = match field {
                Field::Src | Field::Dst => match unit.is_empty() {
                    true => Ok(()),
                    false => return Err(format!("`{name}` is a host and has no unit")),
                },
                Field::Size => one.parse::<Bytes>().map(drop),
                Field::Start | Field::Deadline => one.parse::<Duration>().map(drop),
            };
            known.map_err(|error| format!("`{word}`: {error}"))?;
            columns.push(Some((*field, unit.to_owned())));
        }
        for (name, field, _) in &FIELDS[..3] {
            if !seen.contains(field) {
                return Err(format!("column `{name}` is missing; src, dst and size are needed"));
            }
        }
        Ok(ListColumns { text: text.to_owned(), columns })
    }
}

impl ListFormat {
    /// The names of all formats.
    pub const NAMES: [&str; 4] = ["csv", "htsim", "hpcc", "columns"];

    /// The format with this name; `columns` says what the columns of numbers are.
    pub fn named(name: &str, columns: Option<ListColumns>) -> Option<ListFormat> {
        match name {
            "csv" => Some(ListFormat::Csv),
            "htsim" => Some(ListFormat::Htsim),
            "hpcc" => Some(ListFormat::Hpcc),
            "columns" => Some(ListFormat::Columns(columns.unwrap_or_default())),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            ListFormat::Csv => "csv",
            ListFormat::Htsim => "htsim",
            ListFormat::Hpcc => "hpcc",
            ListFormat::Columns(_) => "columns",
        }
    }

    /// The format that a file's name suggests: htsim for `.cm`, otherwise CSV.
    pub fn of_file(name: &str) -> ListFormat {
        if name.ends_with(".cm") { ListFormat::Htsim } else { ListFormat::Csv }
    }

    /// Parses a list in this format. `host` resolves the names of hosts.
    pub fn parse(
        &self,
        text: &str,
        host: impl Fn(&str) -> Option<HostId>,
    ) -> Result<FlowList, FlowListError> {
        match self {
            ListFormat::Csv => FlowList::parse_csv(text, host),
            ListFormat::Htsim => parse_htsim(text).map(FlowList::Flows),
            ListFormat::Hpcc => parse_hpcc(text, &host).map(FlowList::Flows),
            ListFormat::Columns(columns) => columns.parse_text(text, &host).map(FlowList::Flows),
        }
    }

    /// Writes flows in this format, for a network with this many hosts.
    ///
    /// Times and sizes are exact. htsim and HPCC have no deadlines: those are left out.
    pub fn write(&self, flows: &[ListedFlow], hosts: u32) -> Result<String, String> {
        let mut out = String::new();
        let endless = |flow: &&ListedFlow| flow.size == Bytes::ENDLESS;
        if let Some(flow) = flows.iter().find(endless)
            && !matches!(self, ListFormat::Csv | ListFormat::Htsim)
        {
            let (name, src, dst) = (self.name(), flow.src.0, flow.dst.0);
            return Err(format!("{name} has no endless flows, such as that from {src} to {dst}"));
        }
        let bytes = |flow: &ListedFlow| match flow.size {
            Bytes::ENDLESS => 0,
            size => size.get(),
        };
        // Writing to a text does not fail.
        let _ = match self {
            ListFormat::Csv => write_csv(&mut out, flows),
            ListFormat::Htsim => {
                let _ = writeln!(out, "Nodes {hosts}\nConnections {}", flows.len());
                flows.iter().enumerate().try_for_each(|(i, flow)| {
                    let (src, dst, start) = (flow.src.0, flow.dst.0, flow.start.as_picos());
                    writeln!(out, "{src}->{dst} id {} start {start} size {}", i + 1, bytes(flow))
                })
            }
            ListFormat::Hpcc => {
                let _ = writeln!(out, "{}", flows.len());
                flows.iter().try_for_each(|flow| {
                    let (src, dst, start) = (flow.src.0, flow.dst.0, seconds(flow.start));
                    writeln!(out, "{src} {dst} 3 100 {} {start}", bytes(flow))
                })
            }
            ListFormat::Columns(columns) => columns.write(&mut out, flows)?,
        };
        Ok(out)
    }
}

fn write_csv(out: &mut String, flows: &[ListedFlow]) -> std::fmt::Result {
    let has_deadlines = flows.iter().any(|flow| flow.deadline.is_some());
    let has_transports = flows.iter().any(|flow| flow.transport.is_some());
    out.push_str("src,dst,size,start");
    out.push_str(if has_deadlines { ",deadline" } else { "" });
    out.push_str(if has_transports { ",transport\n" } else { "\n" });
    for flow in flows {
        write!(out, "{},{},", flow.src.0, flow.dst.0)?;
        match flow.size {
            Bytes::ENDLESS => out.push_str("endless"),
            size => write!(out, "{size}")?,
        }
        write!(out, ",{}", flow.start)?;
        if has_deadlines {
            out.push(',');
            flow.deadline.iter().try_for_each(|deadline| write!(out, "{deadline}"))?;
        }
        if has_transports {
            out.push(',');
            flow.transport.iter().try_for_each(|transport| write!(out, "{}", transport.0))?;
        }
        out.push('\n');
    }
    Ok(())
}

/// A time in seconds, with all its digits.
fn seconds(time: Duration) -> String {
    const PICOS: u64 = 1_000_000_000_000;
    format!("{}.{:012}", time.as_picos() / PICOS, time.as_picos() % PICOS)
}

fn wrong(line: usize, message: impl Into<String>) -> FlowListError {
    FlowListError::Line { line, message: message.into() }
}

/// Lines with contents, without comments, numbered from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.split('#').next().unwrap_or_default().trim()))
        .filter(|(_, line)| !line.is_empty())
}

/// Parses an htsim connection matrix.
///
/// `Nodes N` and `Connections N` come first, then lines such as `0->5 id 1 start 0 size 2000000`,
/// with the start in picoseconds and the size in bytes; without a size, or with 0, a flow is
/// endless.
fn parse_htsim(text: &str) -> Result<Vec<ListedFlow>, FlowListError> {
    let (mut nodes, mut announced) = (None, None);
    let mut flows = Vec::new();
    for (line, text) in lines(text) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let count = || -> Result<u32, FlowListError> {
            let number = words.get(1).and_then(|word| word.parse().ok());
            number.ok_or_else(|| wrong(line, format!("`{text}` has no number")))
        };
        match words[0] {
            "Nodes" => nodes = Some(count()?),
            "Connections" => announced = Some((line, count()?)),
            "Triggers" | "Failures" if words.len() <= 2 => {}
            "trigger" => {}
            "failure" => {
                let message = "failures are not read; use [[link]] of the scenario";
                return Err(wrong(line, message));
            }
            _ => flows.push(connection(line, &words, nodes)?),
        }
    }
    match announced {
        Some((line, count)) if count as usize != flows.len() => {
            let found = flows.len();
            Err(wrong(line, format!("{count} connections are announced, and {found} follow")))
        }
        _ => Ok(flows),
    }
}

fn connection(
    line: usize,
    words: &[&str],
    nodes: Option<u32>,
) -> Result<ListedFlow, FlowListError> {
    let not = || wrong(line, format!("`{}` is not a connection such as 0->5", words[0]));
    let (src, dst) = words[0].split_once("->").ok_or_else(not)?;
    let host = |text: &str| -> Result<HostId, FlowListError> {
        let number: u32 = text.parse().map_err(|_| not())?;
        match nodes {
            Some(nodes) if number >= nodes => {
                Err(wrong(line, format!("there is no node {number}; the file has {nodes} nodes")))
            }
            _ => Ok(HostId(number)),
        }
    };
    let (src, dst) = (host(src)?, host(dst)?);
    let (mut start, mut size) = (None, Bytes::ENDLESS);
    let mut pairs = words[1..].iter();
    while let Some(key) = pairs.next() {
        let value = pairs.next().ok_or_else(|| wrong(line, format!("`{key}` has no value")))?;
        let number = || -> Result<u64, FlowListError> {
            value.parse().map_err(|_| wrong(line, format!("{key} `{value}` is not a whole number")))
        };
        match *key {
            "start" => start = Some(Duration::from_picos(number()?)),
            "size" => size = Some(number()?).filter(|s| *s > 0).map_or(size, Bytes::new),
            "trigger" => {
                let message = "this flow starts by a trigger; give it a `start`: flows of a list \
                               start at fixed times";
                return Err(wrong(line, message));
            }
            "id" | "prio" | "priority" | "send_done_trigger" | "recv_done_trigger" => {
                number()?;
            }
            _ => return Err(wrong(line, format!("unknown key `{key}`"))),
        }
    }
    let start = start.ok_or_else(|| wrong(line, "this connection has no `start`"))?;
    Ok(ListedFlow { src, dst, size, start, deadline: None, transport: None })
}

/// Parses the flow file of the HPCC simulator: the number of flows, then
/// `src dst group port size start` or `src dst group size start`, in bytes and seconds.
///
/// Nodes are those of the topology file. A network that was not read from such a file has its hosts
/// by number.
fn parse_hpcc(
    text: &str,
    host: &impl Fn(&str) -> Option<HostId>,
) -> Result<Vec<ListedFlow>, FlowListError> {
    let mut lines = lines(text);
    let (first, count) = lines.next().ok_or_else(|| wrong(1, "the file is empty"))?;
    let announced: usize =
        count.parse().map_err(|_| wrong(first, format!("`{count}` is not a number of flows")))?;
    let node = |name: &str| host(&format!("node {name}"));
    let mut flows = Vec::new();
    for (line, text) in lines.take(announced) {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let layout = match fields.len() {
            6 => "src dst - - size start",
            5 => "src dst - size start",
            n => return Err(wrong(line, format!("{n} fields; a flow has 5 or 6"))),
        };
        let columns: ListColumns = layout.parse().expect("valid columns");
        flows.push(columns.flow(line, &fields, &node)?);
    }
    match flows.len() == announced {
        true => Ok(flows),
        false => {
            let found = flows.len();
            Err(wrong(first, format!("{announced} flows are announced, and {found} follow")))
        }
    }
}

impl ListColumns {
    fn parse_text(
        &self,
        text: &str,
        host: &impl Fn(&str) -> Option<HostId>,
    ) -> Result<Vec<ListedFlow>, FlowListError> {
        let is_size = |column: &Option<(Field, String)>| {
            column.as_ref().is_some_and(|(field, _)| *field == Field::Size)
        };
        let size = self.columns.iter().position(is_size).unwrap_or(0);
        let mut flows = Vec::new();
        for (i, (line, text)) in lines(text).enumerate() {
            let parts = text.split([',', ';', '\t', ' ']).map(str::trim);
            let fields: Vec<&str> = parts.filter(|field| !field.is_empty()).collect();
            // The first line may name the columns.
            if i == 0 && fields.get(size).is_some_and(|field| field.parse::<f64>().is_err()) {
                continue;
            }
            flows.push(self.flow(line, &fields, host)?);
        }
        Ok(flows)
    }

    fn flow(
        &self,
        line: usize,
        fields: &[&str],
        host: &impl Fn(&str) -> Option<HostId>,
    ) -> Result<ListedFlow, FlowListError> {
        if fields.len() != self.columns.len() {
            let (found, expected) = (fields.len(), self.columns.len());
            return Err(wrong(line, format!("{found} fields, but `{self}` has {expected}")));
        }
        let mut flow = ListedFlow {
            src: HostId(0),
            dst: HostId(0),
            size: Bytes::ZERO,
            start: Duration::ZERO,
            deadline: None,
            transport: None,
        };
        for (text, column) in fields.iter().zip(&self.columns) {
            let Some((field, unit)) = column else { continue };
            let end = |column: &'static str| {
                let named = || FlowListError::Host { line, column, text: (*text).into() };
                host(text).or_else(|| text.parse().ok().map(HostId)).ok_or_else(named)
            };
            let time = || quantity(text, unit, Duration::as_picos, Duration::from_picos);
            match field {
                Field::Src => flow.src = end("src")?,
                Field::Dst => flow.dst = end("dst")?,
                Field::Size => {
                    let size = quantity(text, unit, |size: Bytes| size.get(), Bytes::new);
                    flow.size = size.map_err(|message| wrong(line, message))?;
                }
                Field::Start => flow.start = time().map_err(|message| wrong(line, message))?,
                Field::Deadline => {
                    flow.deadline = Some(time().map_err(|message| wrong(line, message))?);
                }
            }
        }
        Ok(flow)
    }

    fn write(&self, out: &mut String, flows: &[ListedFlow]) -> Result<std::fmt::Result, String> {
        let scale = |text: &str, per: f64| match per {
            1.0 => text.to_owned(),
            per => (text.parse::<f64>().unwrap_or(0.0) / per).to_string(),
        };
        for flow in flows {
            let mut fields = Vec::new();
            for column in &self.columns {
                let Some((field, unit)) = column else {
                    fields.push("0".to_owned());
                    continue;
                };
                let time = |time: Duration| match unit.as_str() {
                    "s" => seconds(time),
                    unit => {
                        let per =
                            format!("1{unit}").parse::<Duration>().map_or(1, |d| d.as_picos());
                        scale(&time.as_picos().to_string(), per as f64)
                    }
                };
                fields.push(match field {
                    Field::Src => flow.src.0.to_string(),
                    Field::Dst => flow.dst.0.to_string(),
                    Field::Size => {
                        let per = format!("1{unit}").parse::<Bytes>().map_or(1, |b| b.get());
                        scale(&flow.size.get().to_string(), per as f64)
                    }
                    Field::Start => time(flow.start),
                    Field::Deadline => match flow.deadline {
                        Some(deadline) => time(deadline),
                        None => {
                            let (src, dst) = (flow.src.0, flow.dst.0);
                            return Err(format!("the flow from {src} to {dst} has no deadline"));
                        }
                    },
                });
            }
            let _ = writeln!(out, "{}", fields.join(" "));
        }
        Ok(Ok(()))
    }
}

/// A number with the unit of its column. Decimal numbers are exact; those with an exponent, and
/// fractions of the base unit, are rounded to it.
fn quantity<T: FromStr>(
    text: &str,
    unit: &str,
    base: impl Fn(T) -> u64,
    of_base: impl Fn(u64) -> T,
) -> Result<T, String> {
    if let Ok(value) = format!("{text}{unit}").parse::<T>() {
        return Ok(value);
    }
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    let scale = format!("1{unit}").parse::<T>().map(base).unwrap_or(1);
    let value = number * scale as f64;
    match value >= 0.0 && value < u64::MAX as f64 {
        true => Ok(of_base(value.round() as u64)),
        false => Err(format!("`{text}` is negative or too large")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flow(src: u32, dst: u32, size: u64, picos: u64) -> ListedFlow {
        ListedFlow {
            src: HostId(src),
            dst: HostId(dst),
            size: if size == 0 { Bytes::ENDLESS } else { Bytes::new(size) },
            start: Duration::from_picos(picos),
            deadline: None,
            transport: None,
        }
    }

    fn parsed(format: &ListFormat, text: &str) -> Result<Vec<ListedFlow>, FlowListError> {
        let host = |name: &str| name.strip_prefix("h").and_then(|n| n.parse().ok()).map(HostId);
        match format.parse(text, host)? {
            FlowList::Flows(flows) => Ok(flows),
            FlowList::File(_) => panic!("flows"),
        }
    }

    const CM: &str = "Nodes 8\nConnections 2\nTriggers 0\n0->5 id 1 start 0 size 2000000\n\
                      7->1 start 1500 prio 2 # endless\n";
    const FLOWS: &str = "2\n0 5 3 100 2000000 0\n7 1 3 100 1000 2.000001\n9 9 9 9 9 9\n";

    #[test]
    fn files_of_other_simulators_are_read() {
        let flows = parsed(&ListFormat::Htsim, CM).unwrap();
        assert_eq!(flows, [flow(0, 5, 2_000_000, 0), flow(7, 1, 0, 1500)]);
        let expected = [flow(0, 5, 2_000_000, 0), flow(7, 1, 1000, 2_000_001_000_000)];
        assert_eq!(parsed(&ListFormat::Hpcc, FLOWS).unwrap(), expected);
        let five = FLOWS.replace(" 3 100 ", " 3 ");
        assert_eq!(parsed(&ListFormat::Hpcc, &five).unwrap(), expected);
        let columns = |text: &str| ListFormat::Columns(text.parse().unwrap());
        let text = "from;to;id;kb;us\n0; 5; 77; 2e3; 0\nh7; 1; 78; 1; 2000001\n";
        let read = parsed(&columns("src dst - size:KB start:us"), text).unwrap();
        assert_eq!(read, expected);
        let read = parsed(&columns("size deadline dst src"), "1000\t0.5 1 7").unwrap();
        let late = ListedFlow { deadline: Some(Duration::from_millis(500)), ..flow(7, 1, 1000, 0) };
        assert_eq!(read, [late]);
    }

    #[test]
    fn what_is_written_is_read() {
        let flows = [flow(0, 5, 2_000_000, 0), flow(7, 1, 1, 123_456_789_012_345)];
        for name in ListFormat::NAMES {
            let format = ListFormat::named(name, None).unwrap();
            assert_eq!(format.name(), name);
            let text = format.write(&flows, 8).unwrap();
            assert_eq!(parsed(&format, &text).unwrap(), flows, "{text}");
        }
        let endless = [flow(0, 1, 0, 0)];
        assert_eq!(
            parsed(&ListFormat::Csv, &ListFormat::Csv.write(&endless, 2).unwrap()),
            Ok(endless.to_vec())
        );
        assert!(ListFormat::Hpcc.write(&endless, 2).unwrap_err().contains("no endless flows"));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (format, text, from, to, line, message) in [
            (ListFormat::Htsim, CM, "Connections 2", "Connections 3", 2, "and 2 follow"),
            (ListFormat::Htsim, CM, "Nodes 8", "Nodes eight", 1, "no number"),
            (ListFormat::Htsim, CM, "0->5", "0->8", 4, "there is no node 8"),
            (ListFormat::Htsim, CM, "0->5", "0-5", 4, "not a connection"),
            (ListFormat::Htsim, CM, "start 0", "trigger 1", 4, "starts by a trigger"),
            (ListFormat::Htsim, CM, "start 0", "", 4, "no `start`"),
            (ListFormat::Htsim, CM, "size 2000000", "size", 4, "no value"),
            (ListFormat::Htsim, CM, "prio", "colour", 5, "unknown key `colour`"),
            (ListFormat::Hpcc, FLOWS, "2\n", "two\n", 1, "not a number of flows"),
            (ListFormat::Hpcc, FLOWS, "2\n", "4\n", 1, "4 flows are announced, and 3 follow"),
            (ListFormat::Hpcc, FLOWS, "7 1 3 100", "7", 3, "3 fields"),
            (ListFormat::Hpcc, FLOWS, "1000 2.0", "1000 -2.0", 3, "negative"),
        ] {
            let error = parsed(&format, &text.replacen(from, to, 1)).unwrap_err().to_string();
            let expected = format!("line {line}: ");
            assert!(error.starts_with(&expected) && error.contains(message), "{error}");
        }
        let error = parsed(&ListFormat::Columns(ListColumns::default()), "x 1 2 3").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 1, src: `x` is not a host; write its number, counted from 0, or its name"
        );
        for (text, message) in [
            ("src dst", "`size` is missing"),
            ("src dst size size", "twice"),
            ("src dst size:s", "unknown unit"),
            ("src:B dst size", "has no unit"),
            ("source dst size", "unknown column `source`"),
        ] {
            let error = text.parse::<ListColumns>().unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(256)))]

        /// Whatever a file holds, it is read or refused.
        #[test]
        fn any_text_is_read_or_refused(
            text in "([0-9]{1,20}(->|[ .,;eE+-])?|Nodes |Connections |start |size |[a-z]|\n){0,40}",
        ) {
            for name in ListFormat::NAMES {
                let format = ListFormat::named(name, None).unwrap();
                if let Ok(flows) = parsed(&format, &text) {
                    let _ = format.write(&flows, 8);
                }
            }
        }
    }
}
