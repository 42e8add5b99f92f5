//! `[queue]`, the queue of all transports, and `[queue.NAME]`, the queue of one transport.

use super::{Scenario, is_transport, unknown_transport};
use crate::diagnostic::Diagnostic;
use crate::document::{Entry, Kind, Node, Table, decode};
use crate::suggest;
use punctual_core::{QueueSpec, Rate};
use punctual_fluid::Policy;
use punctual_net::Network;
use punctual_sim::Simulate;
use serde_json::{Map, Value};
use std::ops::Range;

/// The queues of a scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queues {
    /// The queue of all transports without one of their own.
    pub all: Option<QueueSpec>,
    /// The queues of single transports, by name, with defaults filled in.
    pub own: Vec<(String, SwitchQueues)>,
}

/// The queues of switch ports, by port rate: a transport's default queue depends on the rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchQueues(Vec<(Rate, QueueSpec)>);

impl SwitchQueues {
    /// One queue for each of these rates; there must be at least one rate.
    fn for_rates<E>(
        rates: &[Rate],
        queue: impl Fn(Rate) -> Result<QueueSpec, E>,
    ) -> Result<Self, E> {
        rates.iter().map(|rate| Ok((*rate, queue(*rate)?))).collect::<Result<_, E>>().map(Self)
    }

    /// The queue of a port with this rate.
    pub fn at(&self, rate: Rate) -> QueueSpec {
        let own = self.0.iter().find(|(of, _)| *of == rate);
        own.unwrap_or(&self.0[0]).1
    }

    /// The queue of all ports, if their queues are equal.
    pub fn single(&self) -> Option<QueueSpec> {
        let first = self.0[0].1;
        self.0.iter().all(|(_, queue)| *queue == first).then_some(first)
    }

    /// Each rate and the queue of ports with that rate.
    pub fn iter(&self) -> impl Iterator<Item = (Rate, &QueueSpec)> {
        self.0.iter().map(|(rate, queue)| (*rate, queue))
    }
}

/// The rates of a network's switch ports, lowest first; those of its hosts if it has no switch.
pub(super) fn port_rates(network: &Network) -> Vec<Rate> {
    let of_switch = |link: &&punctual_net::Link| link.from.0 >= network.hosts;
    let mut rates: Vec<Rate> = network.links.iter().filter(of_switch).map(|l| l.rate).collect();
    if rates.is_empty() {
        rates = network.links.iter().map(|link| link.rate).collect();
    }
    rates.sort();
    rates.dedup();
    rates
}

/// The key of a queue whose value is a table: any other table below `[queue]` is a transport's.
const QUEUE_SUBTABLE: &str = "red";
/// Keys that exclude each other: one in `[queue.NAME]` replaces the other of the default queue.
const EXCLUSIVE_KEYS: [&str; 2] = ["mark_above", "red"];

impl Queues {
    /// Decodes `[queue]` and the tables below it.
    ///
    /// `rates` are those of switch ports. `suggested` is the default queue of a transport at a port
    /// of that rate, or none if other errors make it unknown.
    pub(super) fn decode<S: Simulate>(
        node: &Node,
        rates: &[Rate],
        suggested: impl Fn(&str, Rate) -> Option<QueueSpec>,
    ) -> Result<Self, Vec<Diagnostic>> {
        let table = table_at(node, "queue").map_err(|e| vec![e])?;
        let is_own = |e: &&Entry| {
            is_transport::<S>(&e.key) || e.key != QUEUE_SUBTABLE && e.value.table().is_some()
        };
        let (own, rest): (Vec<&Entry>, Vec<&Entry>) = table.entries.iter().partition(is_own);
        let mut errors = Vec::new();
        let mut queues = Queues::default();
        if own.is_empty() || !rest.is_empty() {
            // If a transport's table comes first, the span of `queue` may be that of the table.
            let first = rest.first().filter(|_| !own.is_empty());
            let span = first.map_or(&node.span, |e| &e.key_span).clone();
            let entries = rest.into_iter().cloned().collect();
            match decode(&Node { span, kind: Kind::Table(Table { entries }) }) {
                Ok(queue) => queues.all = Some(queue),
                Err(e) if e.message.starts_with("`kind` is missing") => errors.push(e.help(
                    "[queue] is the queue of all transports and needs a `kind`; keys for a single \
                     transport go below [queue.NAME]",
                )),
                Err(e) => errors.push(e),
            }
        }
        for entry in own {
            let at = |rate| {
                let base = || queues.all.or_else(|| suggested(&entry.key, rate));
                own_queue::<S>(entry, base).map_err(Some)?.ok_or(None)
            };
            match SwitchQueues::for_rates(rates, at) {
                Ok(own) => queues.own.push((entry.key.clone(), own)),
                Err(None) => {}
                Err(Some(e)) => errors.push(e),
            }
        }
        if errors.is_empty() { Ok(queues) } else { Err(errors) }
    }

    /// The queue of a transport's own `[queue.NAME]`.
    fn of(&self, transport: &str) -> Option<&SwitchQueues> {
        self.own.iter().find(|(name, _)| name == transport).map(|(_, queues)| queues)
    }

    /// Every queue with its path in the scenario.
    fn places(&self) -> impl Iterator<Item = (String, &QueueSpec)> {
        let all = self.all.iter().map(|queue| ("queue".to_owned(), queue));
        let own = self.own.iter().flat_map(|(name, queues)| {
            queues.iter().map(move |(_, queue)| (format!("queue.{name}"), queue))
        });
        all.chain(own)
    }
}

fn table_at<'a>(node: &'a Node, path: &str) -> Result<&'a Table, Diagnostic> {
    node.table().ok_or_else(|| {
        let message = format!("`{path}` is a table: write [{path}] and its keys below");
        Diagnostic::new(message).at(node.span.clone())
    })
}

/// Decodes `[queue.NAME]`: a whole queue if it has a `kind`, else changes of `base`.
///
/// None if it has no `kind` and there is no base.
fn own_queue<S: Simulate>(
    entry: &Entry,
    base: impl Fn() -> Option<QueueSpec>,
) -> Result<Option<QueueSpec>, Diagnostic> {
    let name = &entry.key;
    if Policy::by_name(name).is_some() {
        return Err(Diagnostic::new(format!("`{name}` is an ideal scheduler and has no queues"))
            .at(entry.key_span.clone())
            .help(format!("remove [queue.{name}]")));
    }
    if !is_transport::<S>(name) {
        return Err(unknown_transport::<S>(name).at(entry.key_span.clone()));
    }
    let own = table_at(&entry.value, &format!("queue.{name}"))?;
    if own.get("kind").is_some() {
        return decode(&entry.value).map(Some);
    }
    let Some(base) = base() else { return Ok(None) };
    let Ok(Value::Object(mut under)) = serde_json::to_value(base) else { return Ok(None) };
    if let Some(written) = EXCLUSIVE_KEYS.iter().find(|key| own.get(key).is_some()) {
        under.retain(|key, _| key == written || !EXCLUSIVE_KEYS.contains(&key.as_str()));
    }
    let kind = under.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let whole = laid_over(under, own, &entry.value.span);
    let whole = Node { span: entry.value.span.clone(), kind: Kind::Table(whole) };
    decode(&whole).map(Some).map_err(|e| match &e.help {
        Some(known) if e.message.starts_with("unknown key") => {
            let help = format!(
                "{known}; `{name}` has a queue of kind `{kind}` here: for another, write its \
                 `kind` and all its keys"
            );
            e.help(help)
        }
        _ => e,
    })
}

/// A queue as a table, with the written keys in the place of its own.
fn laid_over(under: Map<String, Value>, written: &Table, span: &Range<usize>) -> Table {
    let mut whole = Table::default();
    for (key, value) in under {
        let kind = match (written.get(&key).map(|n| &n.kind), value) {
            (Some(Kind::Table(inner)), Value::Object(under)) => {
                Kind::Table(laid_over(under, inner, span))
            }
            (Some(kind), _) => kind.clone(),
            (None, value) => match kind_of(value, span) {
                Some(kind) => kind,
                None => continue,
            },
        };
        let at = written.entry(&key);
        let span = at.map_or(span, |e| &e.value.span).clone();
        let key_span = at.map_or(&span, |e| &e.key_span).clone();
        whole.put(Entry { key, key_span, value: Node { span, kind } });
    }
    for entry in &written.entries {
        if whole.get(&entry.key).is_none() {
            whole.put(entry.clone());
        }
    }
    whole
}

/// A JSON value as a TOML value; none if the key is left out.
fn kind_of(value: Value, span: &Range<usize>) -> Option<Kind> {
    Some(match value {
        Value::String(text) => Kind::Text(text),
        Value::Bool(b) => Kind::Boolean(b),
        Value::Number(n) => n.as_i64().map_or(Kind::Float(n.as_f64()?), Kind::Integer),
        Value::Object(under) => Kind::Table(laid_over(under, &Table::default(), span)),
        Value::Null | Value::Array(_) => return None,
    })
}

/// The transports that carry traffic according to a scenario's tree.
pub(crate) fn carriers(tree: &Table) -> Vec<&str> {
    let list = |key: &str| tree.get(key).and_then(Node::list).unwrap_or_default();
    let fixed = list("traffic").iter().filter_map(|t| t.table()?.get("transport"));
    list("transports").iter().chain(fixed).filter_map(Node::text).collect()
}

impl<S: Simulate> Scenario<S> {
    /// The queues of switch ports in a run with these transports.
    pub(super) fn switch_queues(&self, run: &[S]) -> Result<SwitchQueues, Diagnostic> {
        let own = |t: &S| Some((t.name(), self.queues.of(t.name())?));
        let mut with_own = run.iter().filter_map(own);
        if let Some((first, queue)) = with_own.next() {
            return match with_own.find(|(_, other)| *other != queue) {
                None => Ok(queue.clone()),
                Some((other, _)) => Err(Diagnostic::new(format!(
                    "`{first}` and `{other}` share a network but have different queues"
                ))
                .at(self.span(&format!("queue.{other}")))
                .help(format!(
                    "a network has one kind of queue: make [queue.{first}] and [queue.{other}] \
                     equal, or remove one of them; the other then applies to both"
                ))),
            };
        }
        let rates = port_rates(&self.network);
        let everywhere = |queue: &dyn Fn(Rate) -> QueueSpec| {
            SwitchQueues(rates.iter().map(|rate| (*rate, queue(*rate))).collect())
        };
        if let Some(queue) = self.queues.all {
            return Ok(everywhere(&|_| queue));
        }
        let suggested = |t: &S| everywhere(&|rate| t.default_queue(rate, self.network.mtu));
        let suits: Vec<SwitchQueues> = run.iter().map(suggested).collect();
        if let Some(first) = suits.first()
            && suits.iter().all(|queues| queues == first)
        {
            return Ok(first.clone());
        }
        let names = suggest::list(run.iter().map(S::name));
        Err(Diagnostic::new(format!("{names} share a network but have different default queues"))
            .help(
                "add [queue] with the queue they share; `kind = \"trim\"` with `mark_above` suits \
                 every transport",
            ))
    }

    /// Mistakes in the limits of queues.
    pub(super) fn check_queues(&self) -> Vec<Diagnostic> {
        let mut errors = Vec::new();
        for (place, queue) in self.queues.places() {
            if let Some(mistake) = punctual_net::lossless_mistake(queue) {
                errors.push(
                    Diagnostic::new(mistake).at(self.span(&place)).help(
                        "keep resume_below <= pause_above, and pause_above well below buffer",
                    ),
                );
            }
            if let Err(message) = queue.validate() {
                errors.push(Diagnostic::new(message).at(self.span(&place)));
            }
        }
        errors
    }

    /// Errors for the queues of transports that are not in `carriers`.
    pub(crate) fn idle_queues(&self, carriers: &[&str]) -> Vec<Diagnostic> {
        let idle = self.queues.own.iter().filter(|(name, _)| !carriers.contains(&&**name));
        idle.map(|(name, _)| {
            Diagnostic::new(format!("`{name}` has a queue but carries no traffic in this scenario"))
                .at(self.span(&format!("queue.{name}")))
                .help(format!("add \"{name}\" to `transports`, or remove [queue.{name}]"))
        })
        .collect()
    }
}
