//! Lists of flows, in a scenario or in a CSV file.

use crate::list_formats::ListFormat;
use punctual_core::units::UnitError;
use punctual_core::{Bytes, Duration, HostId, TransportId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::str::FromStr;

/// A list of flows, or the file that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlowList {
    /// A file that is not loaded yet; see
    /// [`TrafficSpec::load_files`](crate::TrafficSpec::load_files).
    File(FlowFile),
    /// The flows.
    Flows(Vec<ListedFlow>),
}

/// A file with a list of flows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowFile {
    /// Its path.
    pub path: String,
    /// Its format.
    pub format: ListFormat,
}

/// One flow of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedFlow {
    /// The sending host.
    #[serde(with = "host")]
    pub src: HostId,
    /// The receiving host.
    #[serde(with = "host")]
    pub dst: HostId,
    /// Bytes to send; `"endless"` is allowed.
    #[serde(serialize_with = "write_size", deserialize_with = "read_size")]
    pub size: Bytes,
    /// Start time, counted from the traffic's `start`.
    #[serde(default)]
    pub start: Duration,
    /// Deadline, counted from the flow's start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
    /// The transport, if it differs from the traffic's.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "write_transport",
        deserialize_with = "read_transport"
    )]
    pub transport: Option<TransportId>,
}

/// Why a CSV text is not a valid list of flows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlowListError {
    /// There is no header line.
    #[error("the flow list is empty; its first line names the columns: src,dst,size,start")]
    Empty,
    /// A column is unknown.
    #[error(
        "line 1: unknown column `{0}`; columns are src, dst, size, start, and optionally \
         deadline and transport"
    )]
    UnknownColumn(String),
    /// A column appears twice.
    #[error("line 1: column `{0}` appears twice; remove one")]
    TwiceColumn(String),
    /// A required column is missing.
    #[error("line 1: column `{0}` is missing; src, dst, size and start are needed")]
    MissingColumn(&'static str),
    /// A line has more or fewer fields than the header.
    #[error("line {line}: {found} fields, but the header has {expected}")]
    Fields {
        /// Line number, counted from 1.
        line: usize,
        /// Fields of the line.
        found: usize,
        /// Fields of the header.
        expected: usize,
    },
    /// A field is not a host.
    #[error(
        "line {line}, {column}: `{text}` is not a host; write its number, counted from 0, or its name"
    )]
    Host {
        /// Line number, counted from 1.
        line: usize,
        /// The column.
        column: &'static str,
        /// The text of the field.
        text: String,
    },
    /// A field is not a whole number.
    #[error("line {line}, {column}: `{text}` is not a whole number")]
    Number {
        /// Line number, counted from 1.
        line: usize,
        /// The column.
        column: &'static str,
        /// The text of the field.
        text: String,
    },
    /// A line of a file of another simulator is wrong.
    #[error("line {line}: {message}")]
    Line {
        /// Line number, counted from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// The unit of a field is missing or wrong.
    #[error("line {line}, {column}: {source}")]
    Unit {
        /// Line number, counted from 1.
        line: usize,
        /// The column.
        column: &'static str,
        /// What is wrong with it.
        source: UnitError,
    },
}

const COLUMNS: [&str; 6] = ["src", "dst", "size", "start", "deadline", "transport"];
const NEEDED: usize = 4;

impl FlowList {
    /// Parses CSV: a header, then one line per flow.
    ///
    /// The columns are `src`, `dst`, `size`, `start` and optionally `deadline` and `transport`, in
    /// any order. Sizes and times have units. `deadline` counts from the flow's start; `deadline`
    /// and `transport` may be empty. `#` starts a comment. Hosts are numbers, or names that `host`
    /// resolves.
    pub fn parse_csv(
        text: &str,
        host: impl Fn(&str) -> Option<HostId>,
    ) -> Result<Self, FlowListError> {
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(i, line)| (i + 1, line.split('#').next().unwrap_or_default().trim()))
            .filter(|(_, line)| !line.is_empty());
        let (_, header) = lines.next().ok_or(FlowListError::Empty)?;
        let columns = Columns::parse(header)?;
        lines
            .map(|(line, text)| columns.flow(line, text, &host))
            .collect::<Result<_, _>>()
            .map(FlowList::Flows)
    }
}

/// The position of each of [`COLUMNS`] in a line.
struct Columns {
    places: [Option<usize>; COLUMNS.len()],
    count: usize,
}

impl Columns {
    fn parse(header: &str) -> Result<Self, FlowListError> {
        let mut columns = Columns { places: [None; COLUMNS.len()], count: 0 };
        for (place, name) in header.split(',').map(str::trim).enumerate() {
            let which = COLUMNS
                .iter()
                .position(|c| *c == name)
                .ok_or_else(|| FlowListError::UnknownColumn(name.into()))?;
            if columns.places[which].replace(place).is_some() {
                return Err(FlowListError::TwiceColumn(name.into()));
            }
            columns.count += 1;
        }
        match (0..NEEDED).find(|which| columns.places[*which].is_none()) {
            Some(which) => Err(FlowListError::MissingColumn(COLUMNS[which])),
            None => Ok(columns),
        }
    }

    fn flow(
        &self,
        line: usize,
        text: &str,
        host: &impl Fn(&str) -> Option<HostId>,
    ) -> Result<ListedFlow, FlowListError> {
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        if fields.len() != self.count {
            return Err(FlowListError::Fields { line, found: fields.len(), expected: self.count });
        }
        let field = |which: usize| self.places[which].map_or("", |place| fields[place]);
        let end = |which: usize| {
            let (column, text) = (COLUMNS[which], field(which));
            let named = || FlowListError::Host { line, column, text: text.into() };
            host(text).or_else(|| text.parse().ok().map(HostId)).ok_or_else(named)
        };
        Ok(ListedFlow {
            src: end(0)?,
            dst: end(1)?,
            size: match field(2) {
                "endless" => Bytes::ENDLESS,
                text => unit(line, COLUMNS[2], text)?,
            },
            start: unit(line, COLUMNS[3], field(3))?,
            deadline: match field(4) {
                "" => None,
                text => Some(unit(line, COLUMNS[4], text)?),
            },
            transport: match field(5) {
                "" => None,
                text => Some(TransportId(number(line, COLUMNS[5], text)?)),
            },
        })
    }
}

fn number<T: FromStr>(line: usize, column: &'static str, text: &str) -> Result<T, FlowListError> {
    text.parse().map_err(|_| FlowListError::Number { line, column, text: text.into() })
}

fn unit<T: FromStr<Err = UnitError>>(
    line: usize,
    column: &'static str,
    text: &str,
) -> Result<T, FlowListError> {
    text.parse().map_err(|source| FlowListError::Unit { line, column, source })
}

/// Serializes hosts as plain numbers.
mod host {
    use super::*;
    pub(super) fn serialize<S: Serializer>(host: &HostId, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u32(host.0)
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<HostId, D::Error> {
        u32::deserialize(d).map(HostId)
    }
}

fn write_size<S: Serializer>(size: &Bytes, s: S) -> Result<S::Ok, S::Error> {
    match *size {
        Bytes::ENDLESS => s.serialize_str("endless"),
        size => s.collect_str(&size),
    }
}

fn read_size<'de, D: Deserializer<'de>>(d: D) -> Result<Bytes, D::Error> {
    let text = String::deserialize(d)?;
    match text.as_str() {
        "endless" => Ok(Bytes::ENDLESS),
        text => text.parse().map_err(serde::de::Error::custom),
    }
}

fn write_transport<S: Serializer>(
    transport: &Option<TransportId>,
    s: S,
) -> Result<S::Ok, S::Error> {
    transport.map(|t| t.0).serialize(s)
}

fn read_transport<'de, D: Deserializer<'de>>(d: D) -> Result<Option<TransportId>, D::Error> {
    Ok(Option::<u8>::deserialize(d)?.map(TransportId))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_is_read_in_any_order_of_columns() {
        let text =
            "size, src,dst,start,deadline # comment\n64KB,1,2,0us,20ms\n\nendless,3,0,1ms,\n";
        let flow = |src, dst, size, start, deadline| ListedFlow {
            src: HostId(src),
            dst: HostId(dst),
            size,
            start,
            deadline,
            transport: None,
        };
        let (zero, ms) = (Duration::ZERO, Duration::from_millis(1));
        assert_eq!(
            FlowList::parse_csv(text, |_| None).unwrap(),
            FlowList::Flows(vec![
                flow(1, 2, Bytes::new(64_000), zero, Some(Duration::from_millis(20))),
                flow(3, 0, Bytes::ENDLESS, ms, None),
            ])
        );
    }

    #[test]
    fn csv_may_name_hosts() {
        let host = |name: &str| (name == "db").then_some(HostId(7));
        let list = FlowList::parse_csv("src,dst,size,start\ndb,0,1KB,0s\n2,db,1KB,0s", host);
        let FlowList::Flows(flows) = list.unwrap() else { panic!("flows") };
        let ends: Vec<_> = flows.iter().map(|flow| (flow.src.0, flow.dst.0)).collect();
        assert_eq!(ends, [(7, 0), (2, 7)]);
    }

    #[test]
    fn bad_csv_is_explained_by_line() {
        let error = |text: &str| FlowList::parse_csv(text, |_| None).unwrap_err().to_string();
        assert!(error("").contains("first line"));
        assert!(error("src,dst,sise,start").contains("`sise`"));
        assert!(error("src,dst,size").contains("`start` is missing"));
        assert!(error("src,src,dst,size,start").contains("twice"));
        let header = "src,dst,size,start\n";
        assert!(error(&format!("{header}1,2,64KB")).starts_with("line 2: 3 fields"));
        assert!(error(&format!("{header}\n1,2,64,0s")).starts_with("line 3, size: `64` has no"));
        assert!(
            error(&format!("{header}h1,2,64B,0s")).starts_with("line 2, src: `h1` is not a host")
        );
    }
}
