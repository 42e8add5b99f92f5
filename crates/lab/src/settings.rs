//! Compares the settings of two scenarios.

use crate::document::{self, Kind, Node, Table};
use crate::source::Sources;
use punctual_results::AxisValue;
use std::collections::BTreeMap;

/// Keys that select runs. The outcome of a run does not depend on them.
const SELECTING_KEYS: [&str; 8] = [
    "name",
    "description",
    "transports",
    "sweep",
    "run.repetitions",
    "run.seed",
    "run.network_trace",
    crate::plan::EXPERIMENT_KEY,
];

/// The tree of a scenario's text with overrides; none if it cannot be read.
pub(crate) fn tree(text: &str, overrides: &[String]) -> Option<Table> {
    let mut sources = Sources::new("scenario", text);
    let mut tree = document::parse(text, 0).ok()?;
    for text in overrides {
        document::set(&mut tree, &mut sources, text).ok()?;
    }
    Some(tree)
}

/// The keys of a scenario that a run depends on, and their values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings(BTreeMap<String, String>);

impl Settings {
    /// The settings of a tree.
    pub(crate) fn of(tree: &Table) -> Settings {
        let mut settings = BTreeMap::new();
        flatten("", tree, &mut settings);
        settings.retain(|key, _| !selects_runs(key));
        Settings(settings)
    }

    /// The settings of a scenario's text at a point of its sweep; none if it cannot be read.
    pub(crate) fn read_at(
        text: &str,
        overrides: &[String],
        point: &[AxisValue],
    ) -> Option<Settings> {
        let set = point.iter().flat_map(|axis| &axis.set);
        let all: Vec<String> = overrides.iter().chain(set).cloned().collect();
        Some(Settings::of(&tree(text, &all)?))
    }

    /// These settings without some keys, given as full paths of [`document::resolve`].
    pub(crate) fn without(mut self, keys: &[String]) -> Settings {
        let is_within = |key: &str, of: &str| {
            key.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.0.retain(|key, _| !keys.iter().any(|of| is_within(key, of)));
        self
    }

    /// The differences between these settings and those of `here`, in words; none if equal.
    pub(crate) fn differences(&self, here: &Settings) -> Option<String> {
        let keys: std::collections::BTreeSet<&String> =
            self.0.keys().chain(here.0.keys()).collect();
        let mut found = Vec::new();
        for key in keys {
            match (self.0.get(key), here.0.get(key)) {
                (Some(there), Some(here)) if there == here => {}
                (Some(there), Some(here)) => {
                    found.push(format!("`{key}` is {there} there and {here} here"));
                }
                (Some(there), None) => found.push(format!("`{key}` is {there} there, unset here")),
                (None, Some(here)) => found.push(format!("`{key}` is unset there, {here} here")),
                (None, None) => {}
            }
        }
        let more = found.len().saturating_sub(SHOWN);
        found.truncate(SHOWN);
        let mut text = found.join("; ");
        if more > 0 {
            text.push_str(&format!("; and {more} more"));
        }
        (!text.is_empty()).then_some(text)
    }
}

/// Limit on the differences that a message names.
const SHOWN: usize = 3;

fn selects_runs(key: &str) -> bool {
    SELECTING_KEYS.iter().any(|own| {
        key.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

fn flatten(prefix: &str, table: &Table, out: &mut BTreeMap<String, String>) {
    for entry in &table.entries {
        flatten_node(format!("{prefix}{}", entry.key), &entry.value, out);
    }
}

fn flatten_node(path: String, node: &Node, out: &mut BTreeMap<String, String>) {
    match &node.kind {
        Kind::Table(inner) => flatten(&format!("{path}."), inner, out),
        Kind::List(items) if items.iter().any(|item| item.table().is_some()) => {
            for (i, item) in items.iter().enumerate() {
                flatten_node(format!("{path}.{i}"), item, out);
            }
        }
        _ => {
            out.insert(path, node.toml());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = 'a'\n[run]\nseed = 1\n[[traffic]]\nworkers = 20\nsizes = ['1KB']\n";

    fn differences(other: &str, overrides: &[&str]) -> Option<String> {
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        let there = Settings::read_at(TEXT, &[], &[]).unwrap();
        there.differences(&Settings::read_at(other, &overrides, &[]).unwrap())
    }

    #[test]
    fn comments_order_and_keys_that_select_runs_are_no_difference() {
        let other = "# other\nname = 'b'\ntransports = ['tcp']\n[[traffic]]\nsizes = ['1KB']\n\
                     workers = 20\n[run]\nseed = 7\nrepetitions = 3\n[sweep]\n";
        assert_eq!(differences(other, &[]), None);
    }

    #[test]
    fn differences_are_named() {
        let found = differences(TEXT, &["traffic.workers=40", "network.rate=1Gbps"]).unwrap();
        let expected = "`network.rate` is unset there, \"1Gbps\" here; \
                        `traffic.0.workers` is 20 there and 40 here";
        assert_eq!(found, expected);
        let many = differences("[a]\nb = 1\nc = 2\n", &[]).unwrap();
        assert!(many.ends_with("; and 1 more"), "{many}");
    }

    #[test]
    fn keys_that_vary_are_left_out() {
        let there = Settings::read_at(TEXT, &[], &[]).unwrap();
        let here = Settings::read_at(TEXT, &["traffic.workers=40".into()], &[]).unwrap();
        let vary = ["traffic.0.workers".to_owned()];
        assert_eq!(there.without(&vary).differences(&here.without(&vary)), None);
    }
}
