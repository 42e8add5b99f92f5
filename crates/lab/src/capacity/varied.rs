//! `--vary`: a number of the scenario, or several numbers that keep their proportions.

use super::grid::{Grid, Ratio};
use crate::diagnostic::Diagnostic;
use crate::document::{Kind, Node, leaves, resolve};
use crate::keys::keys;
use crate::plan::Study;
use crate::suggest;
use crate::sweep::Axis;
use punctual_sim::Simulate;
use std::ops::Range;

/// The varied quantity with its grid, and the keys that are scaled with it.
#[derive(Debug)]
pub(super) struct Varied {
    /// The keys, or the name of a linked axis.
    pub(super) name: String,
    pub(super) grid: Grid,
    keys: Vec<VariedKey>,
    /// Whether the quantity is the label of a linked axis, and not one of its keys.
    is_labelled: bool,
    at: Range<usize>,
}

/// A key that is proportional to the quantity.
#[derive(Debug)]
struct VariedKey {
    path: String,
    grid: Grid,
    /// Its value / the value of the quantity.
    ratio: Ratio,
    is_whole: bool,
}

/// Keys that the search sets itself.
const OWN_KEYS: [&str; 2] = ["run.repetitions", "run.seed"];

impl Varied {
    /// Parses `KEY`, `KEY,KEY` or the name of a linked axis; `at` is its span.
    pub(super) fn new<S: Simulate>(
        study: &Study<S>,
        text: &str,
        at: &Range<usize>,
    ) -> Result<Varied, Diagnostic> {
        let name = text.trim();
        let linked = study.axes().iter().find(|axis| axis.name == name && axis.is_linked());
        match linked {
            Some(axis) => Varied::of_axis(axis, at),
            None => Varied::of_keys(study, name, at),
        }
    }

    fn of_keys<S: Simulate>(
        study: &Study<S>,
        text: &str,
        at: &Range<usize>,
    ) -> Result<Varied, Diagnostic> {
        let mut keys: Vec<(String, Node)> = Vec::new();
        for key in text.split(',').map(str::trim) {
            if keys.iter().any(|(other, _)| other == key) {
                return Err(Diagnostic::new(format!("`{key}` is listed twice")).at(at.clone()));
            }
            keys.push((key.to_owned(), number(study, key, at)?));
        }
        let name = keys.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>().join(",");
        let quantity = keys[0].1.clone();
        Varied::made_of(name, &quantity, keys, false, at)
    }

    /// Takes the proportions from the first value of a linked axis. All other values must have
    /// them.
    fn of_axis(axis: &Axis, at: &Range<usize>) -> Result<Varied, Diagnostic> {
        let values = |nodes: &[Node]| nodes.first().cloned();
        let quantities = axis.named.as_deref().unwrap_or(&axis.keys[0].values);
        let keys: Vec<_> =
            axis.keys.iter().map(|k| (k.path.clone(), k.values[0].clone())).collect();
        let first = values(quantities).expect("an axis has values");
        let varied = Varied::made_of(axis.name.clone(), &first, keys, axis.named.is_some(), at)?;
        for (key, own) in axis.keys.iter().zip(&varied.keys) {
            for (quantity, value) in quantities.iter().zip(&key.values) {
                let ratio = ratio(quantity, value).filter(|(_, of)| *of == own.ratio);
                if ratio.is_none_or(|(grid, _)| grid.unit() != own.grid.unit()) {
                    let message = format!(
                        "`{}` of the linked axis `{}` is not proportional to {}: {value} at {quantity}",
                        key.path,
                        axis.name,
                        if axis.named.is_some() { "its label" } else { "its first key" },
                    );
                    let help = "a search scales all keys of an axis by one factor; give their \
                                values one proportion, or vary a single key";
                    return Err(Diagnostic::new(message).at(at.clone()).help(help));
                }
            }
        }
        Ok(varied)
    }

    fn made_of(
        name: String,
        quantity: &Node,
        keys: Vec<(String, Node)>,
        is_labelled: bool,
        at: &Range<usize>,
    ) -> Result<Varied, Diagnostic> {
        let Some(mut grid) = Grid::of(quantity) else {
            let message = format!("the labels of `{name}` are not numbers and cannot be varied");
            return Err(Diagnostic::new(message).at(at.clone()));
        };
        let mut varied = Vec::new();
        for (path, node) in keys {
            let Some((own, ratio)) = ratio(quantity, &node) else {
                let message = format!("`{path}` is {node}, which cannot be scaled with `{name}`");
                return Err(Diagnostic::new(message).at(at.clone()));
            };
            let is_whole = matches!(node.kind, Kind::Integer(_));
            if is_whole {
                grid.widen_step(ratio);
            }
            varied.push(VariedKey { path, grid: own, ratio, is_whole });
        }
        Ok(Varied { name, grid, keys: varied, is_labelled, at: at.clone() })
    }

    /// Sets the step. Keys that are whole numbers must stay whole.
    pub(super) fn set_step(&mut self, text: &str) -> Result<(), String> {
        let default = self.grid.step_text();
        self.grid.set_step(text)?;
        let broken = |key: &&VariedKey| key.is_whole && !self.grid.is_whole_step(key.ratio);
        match self.keys.iter().find(broken) {
            Some(key) => Err(format!(
                "with a step of {text}, `{}` would not be a whole number; use a multiple of {default}",
                key.path
            )),
            None => Ok(()),
        }
    }

    /// The axis of the sweep at a point of the grid.
    pub(super) fn axis(&self, point: u64) -> Axis {
        let value =
            |key: &VariedKey| (key.path.clone(), key.grid.scaled(&self.grid, point, key.ratio));
        let label = self.is_labelled.then(|| self.grid.text(point));
        Axis::single(&self.name, self.at.clone(), self.keys.iter().map(value).collect(), label)
    }
}

/// The grid of a value, and the ratio of the value to a quantity.
fn ratio(quantity: &Node, value: &Node) -> Option<(Grid, Ratio)> {
    let grid = Grid::of(value)?;
    let ratio = grid.ratio_to(&Grid::of(quantity)?)?;
    Some((grid, ratio))
}

/// The number of a key in the scenario or in the first value of the sweep. Fails if it cannot vary.
fn number<S: Simulate>(
    study: &Study<S>,
    key: &str,
    span: &Range<usize>,
) -> Result<Node, Diagnostic> {
    let tree = study.tree();
    let leaves = leaves(tree);
    let numbers = || leaves.iter().filter(|(_, node)| Grid::of(node).is_some());
    let is_own = |path: &str| OWN_KEYS.contains(&path);
    let numeric: Vec<&str> =
        numbers().map(|(path, _)| path.as_str()).filter(|path| !is_own(path)).collect();
    let help = format!("numbers of this scenario: {}", suggest::list(numeric.iter().copied()));
    if is_own(key) {
        let message = format!("`{key}` controls repetitions and cannot be varied");
        return Err(Diagnostic::new(message).at(span.clone()).help(help));
    }
    let swept = || {
        let own = study.axes().iter().flat_map(|axis| &axis.keys).find(|own| own.path == key);
        own.map(|own| (key.to_owned(), &own.values[0]))
    };
    let Some((place, node)) = resolve(tree, key).or_else(swept) else {
        return Err(missing::<S>(key, &leaves.iter().map(|(p, _)| &**p).collect::<Vec<_>>())
            .at(span.clone())
            .help(help));
    };
    if Grid::of(node).is_some() {
        return Ok(node.clone());
    }
    let within: Vec<&str> = numbers()
        .filter(|(path, _)| {
            resolve(tree, path).is_some_and(|(p, _)| p.starts_with(&format!("{place}.")))
        })
        .map(|(path, _)| path.as_str())
        .collect();
    let what = match &node.kind {
        Kind::Table(_) => "a table".to_owned(),
        Kind::List(_) => "a list".to_owned(),
        Kind::Integer(_) | Kind::Float(_) => format!("below zero, {node}"),
        _ => format!("`{node}`"),
    };
    let help = match &within[..] {
        [] => help,
        _ => format!("vary {}", suggest::list(within.iter().copied())),
    };
    let message = format!("`{key}` is {what}, not a number that can vary");
    Err(Diagnostic::new(message).at(span.clone()).help(help))
}

/// The message for a key that the scenario does not have.
fn missing<S: Simulate>(key: &str, present: &[&str]) -> Diagnostic {
    let sections = keys::<S>();
    let known: Vec<String> = sections
        .iter()
        .flat_map(|(section, keys)| {
            let section = section.split('.').next().unwrap_or(section);
            keys.iter().map(move |key| format!("{section}.{key}"))
        })
        .collect();
    // `traffic.0.senders` and `traffic.queries.senders` are `traffic.senders` in the list of keys.
    let parts: Vec<&str> = key.split('.').collect();
    let plain = match parts[..] {
        [section, _, name] => format!("{section}.{name}"),
        _ => key.to_owned(),
    };
    if known.iter().any(|k| *k == key || *k == plain) {
        return Diagnostic::new(format!("`{key}` has no value in this scenario, or more than one"))
            .label(format!("set a value to start from: --set {key}=VALUE"));
    }
    let unknown = Diagnostic::new(format!("unknown key `{key}`"));
    // Keys of this scenario are suggested before other valid keys, and the last part of a dotted
    // key is compared first.
    let last = |key: &'_ str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let lasts: Vec<String> = present.iter().map(|path| last(path)).collect();
    let by_last = suggest::nearest(&last(key), lasts.iter().map(String::as_str));
    let by_last = by_last.and_then(|near| lasts.iter().position(|last| last == near));
    let near = by_last
        .map(|i| present[i])
        .or_else(|| suggest::nearest(key, present.iter().copied()))
        .or_else(|| suggest::nearest(key, known.iter().map(String::as_str)));
    match near {
        Some(near) => unknown.label(format!("did you mean `{near}`?")),
        None => unknown,
    }
}
