//! The TOML form of `[[traffic]]`: a flat table, checked as a whole when it is read.

use crate::hosts::HostSet;
use crate::list::{FlowFile, FlowList, ListedFlow};
use crate::list_formats::{ListColumns, ListFormat};
use crate::sizes::Sizes;
use crate::spec::{Arrivals, DeadlineChange, Deadlines, Pattern, Senders, TrafficSpec};
use punctual_core::{Bytes, Class, Duration, HostId, Instant, TransportId};
use serde::{Deserialize, Serialize};

/// The keys of a `[[traffic]]`, with the pattern's parameters beside its name.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrafficTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    pattern: PatternName,
    #[serde(skip_serializing_if = "Option::is_none")]
    senders: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workers: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receiver: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stride: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    local: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pairs: Option<Vec<(u32, u32)>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<FormatName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    columns: Option<ListColumns>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flows: Option<Vec<ListedFlow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hosts: Option<HostSet>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exclude: Option<HostSet>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<HostSet>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<HostSet>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redraw: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arrivals: Option<Arrivals>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flows_each: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sizes: Option<Sizes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadlines: Option<Deadlines>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadlines_below: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_change: Option<DeadlineChange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    background: Option<bool>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PatternName {
    #[default]
    Incast,
    Permutation,
    Random,
    Stride,
    Staggered,
    AllToAll,
    Pairs,
    List,
}

/// The format of a list of flows.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FormatName {
    Csv,
    Htsim,
    Hpcc,
    Columns,
}

impl PatternName {
    const fn text(self) -> &'static str {
        match self {
            PatternName::Incast => "incast",
            PatternName::Permutation => "permutation",
            PatternName::Random => "random",
            PatternName::Stride => "stride",
            PatternName::Staggered => "staggered",
            PatternName::AllToAll => "all-to-all",
            PatternName::Pairs => "pairs",
            PatternName::List => "list",
        }
    }
}

/// Why a `[[traffic]]` is invalid although each of its values parses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A key belongs to another pattern.
    #[error("`{key}` has no meaning with pattern = \"{pattern}\"; remove it")]
    Foreign {
        /// The key.
        key: &'static str,
        /// The pattern.
        pattern: &'static str,
    },
    /// A key that the pattern needs is missing.
    #[error("pattern = \"{pattern}\" needs `{key}`; {example}")]
    Missing {
        /// The key.
        key: &'static str,
        /// The pattern.
        pattern: &'static str,
        /// What to write.
        example: &'static str,
    },
    /// Two keys exclude each other.
    #[error("`{0}` and `{1}` are both given; keep one")]
    Both(&'static str, &'static str),
    /// The class does not exist.
    #[error(
        "class = {0}: classes are below {max}; 0 is for control and 1 for data",
        max = Class::COUNT
    )]
    Class(u8),
}

impl TrafficTable {
    /// Rejects keys that the pattern would ignore.
    fn check_keys(&self) -> Result<(), SpecError> {
        use PatternName::*;
        let grouped = &[Incast, Permutation, Random, AllToAll];
        let given: [(&'static str, bool, &[PatternName]); 12] = [
            ("senders", self.senders.is_some(), &[Incast]),
            ("workers", self.workers.is_some(), &[Incast]),
            ("receiver", self.receiver.is_some(), &[Incast]),
            ("stride", self.stride.is_some(), &[Stride]),
            ("local", self.local.is_some(), &[Staggered]),
            ("pairs", self.pairs.is_some(), &[Pairs]),
            ("file", self.file.is_some(), &[List]),
            ("format", self.format.is_some(), &[List]),
            ("columns", self.columns.is_some(), &[List]),
            ("flows", self.flows.is_some(), &[List]),
            ("from", self.from.is_some(), grouped),
            ("to", self.to.is_some(), grouped),
        ];
        let not_listed = [
            ("hosts", self.hosts.is_some()),
            ("exclude", self.exclude.is_some()),
            ("redraw", self.redraw.is_some()),
            ("arrivals", self.arrivals.is_some()),
            ("flows_each", self.flows_each.is_some()),
            ("jitter", self.jitter.is_some()),
            ("sizes", self.sizes.is_some()),
            ("deadlines", self.deadlines.is_some()),
            ("deadlines_below", self.deadlines_below.is_some()),
        ];
        let foreign = given
            .iter()
            .find(|(_, given, of)| *given && !of.contains(&self.pattern))
            .map(|(key, ..)| *key)
            .or_else(|| {
                let found = not_listed.iter().find(|(_, given)| *given);
                found.filter(|_| self.pattern == List).map(|(key, _)| *key)
            })
            .or_else(|| {
                let chosen = self.hosts.is_some() || self.exclude.is_some();
                (self.pattern == Pairs && chosen).then_some("hosts")
            });
        match foreign {
            Some(key) => Err(SpecError::Foreign { key, pattern: self.pattern.text() }),
            None => Ok(()),
        }
    }

    /// The format of a list's file: as given, or as its name suggests.
    fn format(&self, file: &str) -> Result<ListFormat, SpecError> {
        match (self.format, &self.columns) {
            (None | Some(FormatName::Columns), Some(columns)) => {
                Ok(ListFormat::Columns(columns.clone()))
            }
            (Some(FormatName::Columns), None) => Err(SpecError::Missing {
                key: "columns",
                pattern: self.pattern.text(),
                example: "write for example columns = \"src dst size:B start:s\"",
            }),
            (Some(_), Some(_)) => Err(SpecError::Both("format", "columns")),
            (Some(FormatName::Csv), None) => Ok(ListFormat::Csv),
            (Some(FormatName::Htsim), None) => Ok(ListFormat::Htsim),
            (Some(FormatName::Hpcc), None) => Ok(ListFormat::Hpcc),
            (None, None) => Ok(ListFormat::of_file(file)),
        }
    }

    fn pattern(&self) -> Result<Pattern, SpecError> {
        let missing =
            |key, example| SpecError::Missing { key, pattern: self.pattern.text(), example };
        Ok(match self.pattern {
            PatternName::Incast => Pattern::Incast {
                senders: match (self.senders, self.workers) {
                    (Some(_), Some(_)) => return Err(SpecError::Both("senders", "workers")),
                    (Some(n), None) => Senders::Hosts(n),
                    (None, Some(n)) => Senders::Workers(n),
                    (None, None) => Senders::All,
                },
                receiver: self.receiver.map(HostId),
            },
            PatternName::Permutation => Pattern::Permutation,
            PatternName::Random => Pattern::Random,
            PatternName::Stride => Pattern::Stride(
                self.stride.ok_or_else(|| missing("stride", "write for example stride = 1"))?,
            ),
            PatternName::Staggered => Pattern::Staggered {
                local: self
                    .local
                    .ok_or_else(|| missing("local", "write for example local = 0.7"))?,
            },
            PatternName::AllToAll => Pattern::AllToAll,
            PatternName::Pairs => {
                let pairs = self
                    .pairs
                    .as_ref()
                    .ok_or_else(|| missing("pairs", "write for example pairs = [[0, 1]]"))?;
                Pattern::Pairs(pairs.iter().map(|&(a, b)| (HostId(a), HostId(b))).collect())
            }
            PatternName::List => match (&self.file, &self.flows) {
                (Some(_), Some(_)) => return Err(SpecError::Both("file", "flows")),
                (Some(file), None) => {
                    let (path, format) = (file.clone(), self.format(file)?);
                    Pattern::Listed(FlowList::File(FlowFile { path, format }))
                }
                (None, Some(_)) if self.format.is_some() => {
                    return Err(SpecError::Both("flows", "format"));
                }
                (None, Some(_)) if self.columns.is_some() => {
                    return Err(SpecError::Both("flows", "columns"));
                }
                (None, Some(flows)) => Pattern::Listed(FlowList::Flows(flows.clone())),
                (None, None) => {
                    return Err(missing("file", "write for example file = \"flows.csv\""));
                }
            },
        })
    }
}

impl TryFrom<TrafficTable> for TrafficSpec {
    type Error = SpecError;
    fn try_from(table: TrafficTable) -> Result<Self, SpecError> {
        table.check_keys()?;
        let pattern = table.pattern()?;
        let sizes = match (table.sizes, &pattern) {
            (Some(sizes), _) => sizes,
            (None, Pattern::Listed(_)) => Sizes::Listed,
            (None, _) => {
                return Err(SpecError::Missing {
                    key: "sizes",
                    pattern: table.pattern.text(),
                    example: "write for example sizes = \"64KB\" or sizes = \"web-search\"",
                });
            }
        };
        let class = table.class.map_or(Class::DATA, Class);
        if usize::from(class.0) >= Class::COUNT {
            return Err(SpecError::Class(class.0));
        }
        Ok(TrafficSpec {
            name: table.name,
            hosts: table.hosts,
            exclude: table.exclude.unwrap_or_default(),
            from: table.from,
            to: table.to,
            redraw: table.redraw,
            arrivals: table.arrivals.unwrap_or_default(),
            flows_each: table.flows_each.unwrap_or(1),
            jitter: table.jitter.unwrap_or_default(),
            deadlines: table.deadlines.unwrap_or_default(),
            deadlines_below: table.deadlines_below,
            deadline_change: table.deadline_change,
            start: table.start.unwrap_or_default(),
            stop: table.stop,
            limit: table.limit,
            transport: TransportId(table.transport.unwrap_or_default()),
            class,
            background: table.background.unwrap_or_default(),
            ..TrafficSpec::new(pattern, sizes)
        })
    }
}

/// `Some` when the value is not the default.
fn unless<T: PartialEq>(value: T, default: &T) -> Option<T> {
    (value != *default).then_some(value)
}

impl From<TrafficSpec> for TrafficTable {
    fn from(spec: TrafficSpec) -> Self {
        let mut table = TrafficTable {
            name: spec.name,
            hosts: spec.hosts,
            exclude: (!spec.exclude.is_empty()).then_some(spec.exclude),
            from: spec.from,
            to: spec.to,
            redraw: spec.redraw,
            arrivals: unless(spec.arrivals, &Arrivals::Together),
            flows_each: unless(spec.flows_each, &1),
            jitter: unless(spec.jitter, &Duration::ZERO),
            sizes: unless(spec.sizes, &Sizes::Listed),
            deadlines: unless(spec.deadlines, &Deadlines::None),
            deadlines_below: spec.deadlines_below,
            deadline_change: spec.deadline_change,
            start: unless(spec.start, &Instant::ZERO),
            stop: spec.stop,
            limit: spec.limit,
            transport: unless(spec.transport.0, &0),
            class: unless(spec.class.0, &Class::DATA.0),
            background: unless(spec.background, &false),
            ..TrafficTable::default()
        };
        table.pattern = match spec.pattern {
            Pattern::Incast { senders, receiver } => {
                table.receiver = receiver.map(|h| h.0);
                match senders {
                    Senders::All => {}
                    Senders::Hosts(n) => table.senders = Some(n),
                    Senders::Workers(n) => table.workers = Some(n),
                }
                PatternName::Incast
            }
            Pattern::Permutation => PatternName::Permutation,
            Pattern::Random => PatternName::Random,
            Pattern::Stride(stride) => {
                table.stride = Some(stride);
                PatternName::Stride
            }
            Pattern::Staggered { local } => {
                table.local = Some(local);
                PatternName::Staggered
            }
            Pattern::AllToAll => PatternName::AllToAll,
            Pattern::Pairs(pairs) => {
                table.pairs = Some(pairs.iter().map(|(a, b)| (a.0, b.0)).collect());
                PatternName::Pairs
            }
            Pattern::Listed(list) => {
                match list {
                    FlowList::File(FlowFile { path, format }) => {
                        let is_suggested = ListFormat::of_file(&path) == format;
                        match format {
                            ListFormat::Columns(columns) => table.columns = Some(columns),
                            _ if is_suggested => {}
                            ListFormat::Csv => table.format = Some(FormatName::Csv),
                            ListFormat::Htsim => table.format = Some(FormatName::Htsim),
                            ListFormat::Hpcc => table.format = Some(FormatName::Hpcc),
                        }
                        table.file = Some(path);
                    }
                    FlowList::Flows(flows) => table.flows = Some(flows),
                }
                PatternName::List
            }
        };
        table
    }
}
