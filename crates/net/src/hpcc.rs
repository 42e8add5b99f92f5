//! The topology file of the HPCC simulator (ns-3).
//!
//! The first line has the numbers of nodes, switches and links. The second line names the switches
//! by number; all other nodes are hosts. Each further line is a link: `a b rate delay error`, as in
//! `0 16 100Gbps 0.001ms 0`. Nodes get the names `node 0`, `node 1` and so on.

use crate::{LinkEntry, NodeEntry, TopologyFile};
use std::collections::BTreeSet;

/// Why a text is not a topology of the HPCC simulator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct HpccError {
    /// Line number, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// Limit on the nodes of a file, to catch mistakes.
const NODES_MAX: u32 = 1 << 21;

impl TopologyFile {
    /// Parses a topology file of the HPCC simulator.
    pub fn parse_hpcc(text: &str) -> Result<TopologyFile, HpccError> {
        let wrong = |line: usize, message: String| HpccError { line, message };
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(i, line)| (i + 1, line.split('#').next().unwrap_or_default().trim()))
            .filter(|(_, line)| !line.is_empty());
        let empty = || wrong(1, "give the numbers of nodes, switches and links first".into());
        let (line, head) = lines.next().ok_or_else(empty)?;
        let numbers: Vec<u32> = head.split_whitespace().filter_map(|w| w.parse().ok()).collect();
        let [nodes, switches, links] = numbers[..] else {
            let message = format!("`{head}` is not three numbers: nodes, switches, links");
            return Err(wrong(line, message));
        };
        if nodes > NODES_MAX {
            return Err(wrong(line, format!("{nodes} nodes; the limit is {NODES_MAX}")));
        }
        let mut is_switch = BTreeSet::new();
        if switches > 0 {
            let none =
                || wrong(line, "the line with the numbers of the switches is missing".into());
            let (line, text) = lines.next().ok_or_else(none)?;
            for word in text.split_whitespace() {
                let number = word.parse::<u32>().ok().filter(|number| *number < nodes);
                let number = number.ok_or_else(|| {
                    wrong(
                        line,
                        format!(
                            "`{word}` is not a node; nodes are 0 to {}",
                            nodes.saturating_sub(1)
                        ),
                    )
                })?;
                is_switch.insert(number);
            }
            if is_switch.len() != switches as usize {
                let found = is_switch.len();
                let message = format!("{switches} switches are announced, and {found} are named");
                return Err(wrong(line, message));
            }
        }
        let name = |node: u32| format!("node {node}");
        let entries = |of_switches: bool| {
            let own = (0..nodes).filter(|node| is_switch.contains(node) == of_switches);
            own.map(|node| NodeEntry { name: name(node) }).collect::<Vec<_>>()
        };
        let mut file =
            TopologyFile { host: entries(false), switch: entries(true), link: Vec::new() };
        for (line, text) in lines {
            file.link.push(link(text, nodes).map_err(|message| wrong(line, message))?);
        }
        if file.link.len() != links as usize {
            let found = file.link.len();
            return Err(wrong(line, format!("{links} links are announced, and {found} follow")));
        }
        Ok(file)
    }
}

fn link(text: &str, nodes: u32) -> Result<LinkEntry, String> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [a, b, rate, delay, error] = fields[..] else {
        return Err(format!(
            "{} fields; a link has 5: a, b, rate, delay, error rate",
            fields.len()
        ));
    };
    let node = |text: &str| {
        let number = text.parse::<u32>().ok().filter(|number| *number < nodes);
        number.map(|number| format!("node {number}")).ok_or_else(|| {
            format!("`{text}` is not a node; nodes are 0 to {}", nodes.saturating_sub(1))
        })
    };
    if error.parse::<f64>() != Ok(0.0) {
        return Err(format!("error rate {error}: set losses by [[link]] of the scenario instead"));
    }
    Ok(LinkEntry {
        between: [node(a)?, node(b)?],
        rate: rate.parse().map_err(|e| format!("{e}"))?,
        delay: delay.parse().map_err(|e| format!("{e}"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topology;

    const STAR: &str = "4 1 3\n3\n0 3 100Gbps 0.001ms 0\n1 3 100Gbps 1us 0.0\n2 3 40Gbps 1us 0\n";

    #[test]
    fn nodes_and_links_are_read() {
        let file = TopologyFile::parse_hpcc(STAR).unwrap();
        let topology = Topology::from_file(&file).unwrap();
        assert_eq!(topology.hosts, 3);
        assert_eq!(topology.names, ["node 0", "node 1", "node 2", "node 3"]);
        assert_eq!(file.link[0].delay, file.link[1].delay);
        // Switches may come first.
        let text = "4 1 3\n0\n3 0 100Gbps 1us 0\n1 0 100Gbps 1us 0\n2 0 40Gbps 1us 0\n";
        let topology = Topology::from_file(&TopologyFile::parse_hpcc(text).unwrap()).unwrap();
        assert_eq!(topology.names, ["node 1", "node 2", "node 3", "node 0"]);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (from, to, line, message) in [
            ("4 1 3", "4 1", 1, "not three numbers"),
            ("4 1 3", "4 1 9", 1, "9 links are announced, and 3 follow"),
            ("\n3\n", "\n4\n", 2, "`4` is not a node"),
            ("\n3\n", "\n3 2\n", 2, "1 switches are announced, and 2 are named"),
            ("0 3 100Gbps", "7 3 100Gbps", 3, "`7` is not a node"),
            ("100Gbps 1us", "fast 1us", 4, "`fast`"),
            ("100Gbps 1us 0.0", "100Gbps 1us 0.1", 4, "set losses by [[link]]"),
            ("40Gbps 1us 0", "40Gbps 1us", 5, "4 fields"),
        ] {
            let error = TopologyFile::parse_hpcc(&STAR.replace(from, to)).unwrap_err();
            assert!(error.line == line && error.message.contains(message), "{error}");
        }
        for text in ["", "0 1 0\n0\n", "0 0 0", "2 1 1\n0\n1 0 1Gbps 1us -0.5"] {
            let file = TopologyFile::parse_hpcc(text);
            assert!(file.is_err() || Topology::from_file(&file.unwrap()).is_err(), "{text}");
        }
    }
}
