//! `[sweep]`: all combinations of the values of some keys.

use crate::diagnostic::Diagnostic;
use crate::document::{Kind, Node, Table, resolve, set_path};
use punctual_results::AxisValue;
use std::ops::Range;

/// Limit on the points of a sweep. Each point holds a network and its traffic in memory.
pub(crate) const MAX_POINTS: usize = 10_000;

/// The table of `[sweep]` that holds axes of several keys.
const LINKED: &str = "linked";
/// The key of a linked axis that names its values.
const LABEL: &str = "label";

/// One dimension of a sweep: a key that varies, or several keys that vary together.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    /// Its name in tables and directories: the dotted key, or the name of a linked axis.
    pub(crate) name: String,
    /// The keys. Each has one value per point of the axis.
    pub(crate) keys: Vec<AxisKey>,
    /// The labels of the values, if the scenario gives them (`label = [...]`).
    pub(crate) named: Option<Vec<Node>>,
    at: Range<usize>,
}

/// A key of an axis and its values.
#[derive(Debug, Clone)]
pub(crate) struct AxisKey {
    pub(crate) path: String,
    pub(crate) values: Vec<Node>,
    at: Range<usize>,
}

/// The axes of a sweep and their values at one point, in the order of the file.
pub type Labels = Vec<(String, String)>;

/// A point of a sweep: its values, and the tree of its scenario, not yet decoded.
pub(crate) struct SweepPoint {
    pub(crate) values: Vec<AxisValue>,
    pub(crate) tree: Table,
}

impl Axis {
    /// An axis with a single value: the value of each key, and its label.
    pub(crate) fn single(
        name: &str,
        at: Range<usize>,
        keys: Vec<(String, Kind)>,
        label: Option<String>,
    ) -> Axis {
        let node = |kind| Node { span: at.clone(), kind };
        let key = |(path, kind)| AxisKey { path, at: at.clone(), values: vec![node(kind)] };
        Axis {
            name: name.to_owned(),
            keys: keys.into_iter().map(key).collect(),
            named: label.map(|label| vec![node(Kind::Text(label))]),
            at: at.clone(),
        }
    }

    /// An axis with the single value of a finished run; spans count from `start`.
    pub(crate) fn of_run(value: &AxisValue, start: usize) -> Result<Axis, Diagnostic> {
        let at = start..start;
        let mut keys = Vec::new();
        for text in &value.set {
            let (path, toml) = text.split_once('=').ok_or_else(|| {
                Diagnostic::new(format!("`{text}` in the manifest's `point` has no value"))
            })?;
            keys.push((path.to_owned(), crate::document::parse_value(toml, start)?.kind));
        }
        Ok(Axis::single(&value.axis, at, keys, Some(value.label.clone())))
    }

    /// Whether it comes from `[sweep.linked]`.
    pub(crate) fn is_linked(&self) -> bool {
        self.named.is_some() || self.keys.len() > 1 || self.keys[0].path != self.name
    }

    pub(crate) fn len(&self) -> usize {
        self.keys[0].values.len()
    }

    /// The label of its value `i`: as given, or the distinct values of its keys.
    fn label(&self, i: usize) -> String {
        if let Some(named) = &self.named {
            return named[i].to_string();
        }
        let mut texts: Vec<String> = Vec::new();
        for key in &self.keys {
            let text = key.values[i].to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        texts.join("/")
    }

    fn value(&self, i: usize) -> AxisValue {
        let set = self.keys.iter().map(|key| format!("{}={}", key.path, key.values[i].toml()));
        AxisValue { axis: self.name.clone(), label: self.label(i), set: set.collect() }
    }

    /// Whether it varies the key at a path.
    pub(crate) fn varies(&self, root: &Table, path: &str) -> bool {
        self.sets(root, &place(root, path))
    }

    /// Whether it sets the value at a full path, see [`place`].
    fn sets(&self, root: &Table, at: &str) -> bool {
        self.keys.iter().any(|key| place(root, &key.path) == at)
    }
}

/// The full path of a key, with list indices; the path itself if the tree lacks the key.
pub(crate) fn place(root: &Table, path: &str) -> String {
    resolve(root, path).map_or_else(|| path.to_owned(), |(place, _)| place)
}

/// The axes of a scenario's sweep; empty without one.
pub(crate) fn axes(root: &Table) -> Result<Vec<Axis>, Diagnostic> {
    let Some(sweep) = root.get("sweep") else { return Ok(Vec::new()) };
    let Some(table) = sweep.table() else {
        let message = "`sweep` is a table: write [sweep] and its keys below";
        return Err(Diagnostic::new(message).at(sweep.span.clone()));
    };
    let mut axes = Vec::new();
    for entry in &table.entries {
        if entry.key == LINKED {
            linked(&entry.value, &mut axes)?;
            continue;
        }
        let mut keys = Vec::new();
        collect(&entry.key, entry.key_span.clone(), &entry.value, &mut keys)?;
        axes.extend(keys.into_iter().map(|key| Axis {
            name: key.path.clone(),
            at: key.at.clone(),
            named: None,
            keys: vec![key],
        }));
    }
    check_keys(root, &axes)?;
    check_size(&axes, sweep.span.clone())?;
    Ok(axes)
}

/// `[sweep.linked.NAME]`: keys that change together.
fn linked(node: &Node, axes: &mut Vec<Axis>) -> Result<(), Diagnostic> {
    let help = "write [sweep.linked.NAME] and below it the keys that change together, \
                each with a list of values, all of one length";
    let fail = |message: String, at: Range<usize>| Diagnostic::new(message).at(at).help(help);
    let Some(table) = node.table() else {
        return Err(fail("`sweep.linked` is not a table of tables".into(), node.span.clone()));
    };
    for entry in &table.entries {
        let (name, at) = (&entry.key, entry.key_span.clone());
        let Some(inner) = entry.value.table() else {
            return Err(fail(format!("`sweep.linked.{name}` is not a table"), at));
        };
        if !crate::scenario::is_directory_name(name) {
            let message = format!("`{name}` cannot name a directory of results");
            return Err(Diagnostic::new(message)
                .at(at)
                .help("use letters, digits, `-`, `_` and `.`"));
        }
        let mut keys = Vec::new();
        let mut named = None;
        for entry in &inner.entries {
            collect(&entry.key, entry.key_span.clone(), &entry.value, &mut keys)?;
            if entry.key == LABEL {
                named = keys.pop();
            }
        }
        let Some(first) = keys.first() else {
            return Err(fail(format!("`sweep.linked.{name}` sets no key"), at));
        };
        let count = first.values.len();
        if let Some(odd) = keys.iter().chain(&named).find(|key| key.values.len() != count) {
            let (found, path) = (odd.values.len(), &odd.path);
            let message = format!("`{path}` has {found} values and `{}` has {count}", first.path);
            return Err(Diagnostic::new(message)
                .at(odd.at.clone())
                .label(format!("{found} here, {count} in `{}`", first.path))
                .help(format!(
                    "the keys of `{name}` change together: give them equally many values"
                )));
        }
        axes.push(Axis { name: name.clone(), keys, named: named.map(|key| key.values), at });
    }
    Ok(())
}

/// Collects keys written as `"traffic.senders" = [...]` or `traffic.senders = [...]`.
fn collect(
    path: &str,
    at: Range<usize>,
    node: &Node,
    keys: &mut Vec<AxisKey>,
) -> Result<(), Diagnostic> {
    match &node.kind {
        Kind::Table(inner) => {
            for entry in &inner.entries {
                let path = format!("{path}.{}", entry.key);
                collect(&path, entry.key_span.clone(), &entry.value, keys)?;
            }
            Ok(())
        }
        Kind::List(values) if !values.is_empty() => {
            keys.push(AxisKey { path: path.to_owned(), at, values: values.clone() });
            Ok(())
        }
        _ => Err(Diagnostic::new(format!("`{path}` needs a list of values to try"))
            .at(node.span.clone())
            .help(format!("write for example {path} = [1, 2, 4]"))),
    }
}

/// Refuses a key that two axes set, and two axes with one name.
fn check_keys(root: &Table, axes: &[Axis]) -> Result<(), Diagnostic> {
    let mut places: Vec<String> = Vec::new();
    for (i, axis) in axes.iter().enumerate() {
        if axes[..i].iter().any(|other| other.name == axis.name) {
            let message = format!("the sweep has two axes called `{}`", axis.name);
            return Err(Diagnostic::new(message).at(axis.at.clone()));
        }
        for key in &axis.keys {
            let place = place(root, &key.path);
            if places.contains(&place) {
                let message = format!("`{}` is in the sweep twice", key.path);
                return Err(Diagnostic::new(message)
                    .at(key.at.clone())
                    .help("only one axis may set a key; put all its values in one list"));
            }
            places.push(place);
        }
    }
    Ok(())
}

/// Refuses a sweep with too many points, before any of them is built.
fn check_size(axes: &[Axis], at: Range<usize>) -> Result<(), Diagnostic> {
    let points = axes.iter().try_fold(1usize, |points, axis| points.checked_mul(axis.len()));
    if points.is_some_and(|points| points <= MAX_POINTS) {
        return Ok(());
    }
    let lengths: Vec<String> = axes.iter().map(|axis| axis.len().to_string()).collect();
    let message =
        format!("this sweep has {} points; the limit is {MAX_POINTS}", lengths.join(" × "));
    Err(Diagnostic::new(message)
        .at(at)
        .help("try fewer values, or split the sweep into several scenarios"))
}

/// Refuses an override that the sweep would replace. `at` is the span of the override's key.
pub(crate) fn check_override(
    root: &Table,
    axes: &[Axis],
    key: &str,
    at: Range<usize>,
) -> Result<(), Diagnostic> {
    let own = place(root, key);
    for axis in axes {
        let swept = axis.keys.iter().find(|swept| match resolve(root, &swept.path) {
            // The sweep sets this value, a part of it, or a value that contains it.
            Some((swept, _)) => is_within(&own, &swept) || is_within(&swept, &own),
            // The override may set a table without the swept key.
            None => is_within(&own, &swept.path),
        });
        let Some(swept) = swept else { continue };
        let path = match axis.name == swept.path {
            true => format!("sweep.{}", swept.path),
            false => format!("sweep.{LINKED}.{}.{}", axis.name, swept.path),
        };
        let message = match is_within(&own, &place(root, &swept.path)) {
            true => format!("`{key}` is swept, so --set cannot set it"),
            false => format!("`{}` is swept, so --set cannot set it within `{key}`", swept.path),
        };
        return Err(Diagnostic::new(message)
            .at(at)
            .help(format!("give the sweep other values: --set '{path}=[VALUE, ...]'")));
    }
    Ok(())
}

/// Whether a full path is `outer` or lies below it.
fn is_within(place: &str, outer: &str) -> bool {
    place.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Adds an axis in the place of one with its name or keys, or after all others.
pub(crate) fn with_axis(
    root: &Table,
    mut axes: Vec<Axis>,
    own: Axis,
) -> Result<Vec<Axis>, Diagnostic> {
    let mut at = None;
    let places: Vec<String> = own.keys.iter().map(|key| place(root, &key.path)).collect();
    for i in (0..axes.len()).rev() {
        let axis = &axes[i];
        if axis.name != own.name && !places.iter().any(|place| axis.sets(root, place)) {
            continue;
        }
        if !axis.keys.iter().all(|key| places.contains(&place(root, &key.path))) {
            let message = format!("`{}` changes with the linked axis `{}`", own.name, axis.name);
            return Err(Diagnostic::new(message)
                .at(own.at.clone())
                .help(format!("vary that axis: --vary {}", axis.name)));
        }
        axes.remove(i);
        at = Some(i);
    }
    axes.insert(at.unwrap_or(axes.len()), own);
    Ok(axes)
}

/// The scenario's trees, one for each combination of values; the first axis varies slowest.
///
/// Without axes there is one tree, with no values.
pub(crate) fn expand(root: &Table, axes: &[Axis]) -> Result<Vec<SweepPoint>, Diagnostic> {
    let mut base = root.clone();
    base.remove("sweep");
    let mut points = vec![SweepPoint { values: Vec::new(), tree: base }];
    for axis in axes {
        let mut next = Vec::with_capacity(points.len() * axis.len());
        for point in &points {
            for i in 0..axis.len() {
                let mut tree = point.tree.clone();
                for key in &axis.keys {
                    set_path(&mut tree, &key.path, key.at.clone(), key.values[i].clone())?;
                }
                let mut values = point.values.clone();
                values.push(axis.value(i));
                next.push(SweepPoint { values, tree });
            }
        }
        points = next;
    }
    Ok(points)
}

#[cfg(test)]
mod tests;
