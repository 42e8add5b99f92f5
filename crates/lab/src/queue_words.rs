//! Describes the queues of a run's switches in words.

use punctual_core::{Rate, TransportSet};
use punctual_sim::Setup;
use serde::Serialize;
use serde_json::Value;

/// The queue of every switch port with its limits, by rate where they differ:
/// `ecn, limit 200packets, mark above 65packets at 10Gbps; …`.
pub fn queue_words<S: TransportSet>(setup: &Setup<S>) -> String {
    if setup.port_queues.is_empty() {
        return words(&setup.switch_queue);
    }
    let network = &setup.network;
    let mut queues: Vec<(Rate, String)> = Vec::new();
    for (link, queue) in network.links.iter().zip(&setup.port_queues) {
        if link.from.0 >= network.hosts && !queues.iter().any(|(rate, _)| *rate == link.rate) {
            queues.push((link.rate, words(queue)));
        }
    }
    queues.sort();
    let texts = queues.iter().map(|(rate, queue)| format!("{queue} at {rate}"));
    texts.collect::<Vec<_>>().join("; ")
}

/// The keys of a scenario's queue and their values, without those that are not set.
fn words(queue: &impl Serialize) -> String {
    let Ok(Value::Object(fields)) = serde_json::to_value(queue) else { return String::new() };
    let mut parts: Vec<String> = fields.get("kind").map(text).into_iter().collect();
    let set = fields.iter().filter(|(key, value)| *key != "kind" && !value.is_null());
    parts.extend(set.map(|(key, value)| format!("{} {}", key.replace('_', " "), text(value))));
    parts.join(", ")
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(_) => format!("({})", words(value)),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_its_kind_and_what_is_set() {
        let queue = serde_json::json!({
            "kind": "lossless",
            "buffer": "9MB",
            "pause_above": "40KB",
            "mark_above": null,
            "red": { "from": "5KB", "most": 0.1 },
        });
        let text = words(&queue);
        assert!(text.starts_with("lossless, "), "{text}");
        for part in ["buffer 9MB", "pause above 40KB", "red (from 5KB, most 0.1)"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("mark above"), "{text}");
    }
}
