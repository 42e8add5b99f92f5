//! Every key a scenario may have, section by section.

use crate::document::fields_of;
use crate::scenario::{LinkSection, NetworkSection, RunSection, SwitchSection, TOP_KEYS};
use punctual_sim::Simulate;
use punctual_workload::TrafficSpec;

/// Every section of a scenario with its keys. Keys of a topology are under
/// `network.NAME-OF-TOPOLOGY`; parameters of transports are the transports' own.
pub fn keys<S: Simulate>() -> Vec<(String, Vec<&'static str>)> {
    let mut sections = vec![
        ("scenario".to_owned(), TOP_KEYS.to_vec()),
        ("network".to_owned(), NetworkSection::common_keys()),
    ];
    for topology in NetworkSection::catalogue() {
        let keys = NetworkSection::keys_of(topology.name).to_vec();
        sections.push((format!("network.{}", topology.name), keys));
    }
    sections.push(("transport".to_owned(), fields_of::<S::Settings>().to_vec()));
    sections.push(("traffic".to_owned(), fields_of::<TrafficSpec>().to_vec()));
    sections.push(("link".to_owned(), fields_of::<LinkSection>().to_vec()));
    sections.push(("switch".to_owned(), fields_of::<SwitchSection>().to_vec()));
    sections.push(("run".to_owned(), fields_of::<RunSection>().to_vec()));
    sections
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Keys by section as docs/scenario.md has them: a heading names a section in backquotes, the
    /// first column of the tables below it has its keys.
    fn documented() -> BTreeMap<String, BTreeSet<String>> {
        let text = include_str!("../../../docs/scenario.md");
        let quoted = |line: &str| line.split('`').nth(1).map(str::to_owned);
        let mut sections: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut section = None;
        for line in text.lines() {
            if line.starts_with("##") {
                section = quoted(line);
            } else if line.starts_with("| `")
                && let (Some(section), Some(key)) = (&section, quoted(line))
            {
                sections.entry(section.clone()).or_default().insert(key);
            }
        }
        sections
    }

    #[test]
    fn every_key_is_documented_and_every_documented_key_exists() {
        let documented = documented();
        for (section, keys) in keys::<punctual_transports::AnyTransport>() {
            let keys: BTreeSet<String> = keys.iter().map(|k| (*k).to_owned()).collect();
            let found = documented.get(&section).cloned().unwrap_or_default();
            assert_eq!(found, keys, "docs/scenario.md, section {section}");
        }
    }
}
