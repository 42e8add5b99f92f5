//! Fixed scenarios that measure the simulator's speed.

use crate::scenario::Level;

/// A benchmark: one transport on a fixed scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BenchCase {
    /// Its name.
    pub name: &'static str,
    transport: &'static str,
    network: BenchNetwork,
    duration: &'static str,
    stop: &'static str,
    traffic: &'static str,
    level: Level,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BenchNetwork {
    /// A fat tree with links of 10 Gb/s and 1 µs.
    FatTree { k: u32, mtu: u32 },
    /// BCube(n, 1) with links of 10 Gb/s and 1 µs.
    Bcube { n: u32 },
    /// A Jellyfish of switches with 16 ports to switches and 8 to hosts, 10 Gb/s and 1 µs.
    Jellyfish { switches: u32 },
    /// The tree of PDQ's query aggregation: 12 hosts, links of 1 Gb/s and 25.1 µs.
    Tree,
}

const PERMUTATION: &str = "pattern = \"permutation\"\nsizes = \"endless\"";
const INCAST: &str = "pattern = \"incast\"\nreceiver = 0\nsizes = \"450KB\"";
/// 25 flows to one host every 30 ms.
const AGGREGATION: &str = "pattern = \"incast\"\nreceiver = 0\nworkers = 25\n\
    arrivals = { periodic = \"30ms\" }\nstop = \"900ms\"\n\
    sizes = { uniform = [\"2KB\", \"198KB\"] }\n\
    deadlines = { exponential = { mean = \"20ms\", floor = \"3ms\" } }";
/// Ten flows from each host every 3 ms, all at once.
const TEN_EACH: &str = "pattern = \"random\"\nflows_each = 10\n\
    arrivals = { periodic = \"3ms\" }\nstop = \"9ms\"\n\
    sizes = { uniform = [\"2KB\", \"198KB\"] }\n\
    deadlines = { exponential = { mean = \"2ms\", floor = \"300us\" } }";

const fn permutation(name: &'static str, transport: &'static str, k: u32) -> BenchCase {
    let duration = match k {
        0..32 => "10ms",
        32..64 => "2ms",
        _ => "200us",
    };
    let network = BenchNetwork::FatTree { k, mtu: 9064 };
    let (stop, traffic, level) = ("duration", PERMUTATION, Level::Packet);
    BenchCase { name, transport, network, duration, stop, traffic, level }
}

const fn aggregation(name: &'static str, transport: &'static str) -> BenchCase {
    let network = BenchNetwork::Tree;
    let (duration, stop, traffic, level) = ("2s", "done", AGGREGATION, Level::Packet);
    BenchCase { name, transport, network, duration, stop, traffic, level }
}

const fn ten_each(name: &'static str, transport: &'static str) -> BenchCase {
    let network = BenchNetwork::FatTree { k: 8, mtu: 1500 };
    let (duration, stop, traffic, level) = ("100ms", "done", TEN_EACH, Level::Packet);
    BenchCase { name, transport, network, duration, stop, traffic, level }
}

/// Flows of web-search sizes between random hosts at flow level. Each host starts about one per
/// millisecond.
const fn web_search(name: &'static str, k: u32, traffic: &'static str) -> BenchCase {
    flow_level(name, BenchNetwork::FatTree { k, mtu: 1500 }, traffic)
}

const fn flow_level(name: &'static str, network: BenchNetwork, traffic: &'static str) -> BenchCase {
    BenchCase {
        name,
        transport: "pdq",
        network,
        duration: "100s",
        stop: "done",
        traffic,
        level: Level::Flow,
    }
}

macro_rules! web_search_traffic {
    ($per_second:literal, $stop:literal) => {
        concat!(
            "pattern = \"random\"\nsizes = \"web-search\"\narrivals = { poisson-per-second = ",
            $per_second,
            " }\nstop = \"",
            $stop,
            "\""
        )
    };
}

/// All benchmarks.
pub const BENCH_CASES: &[BenchCase] = &[
    permutation("ndp-permutation-128", "ndp", 8),
    permutation("ndp-permutation-432", "ndp", 12),
    permutation("ndp-permutation-1024", "ndp", 16),
    permutation("ndp-permutation-8192", "ndp", 32),
    permutation("ndp-permutation-65536", "ndp", 64),
    permutation("dctcp-permutation-432", "dctcp", 12),
    permutation("dctcp-lossless-permutation-432", "dctcp-lossless", 12),
    permutation("dcqcn-permutation-432", "dcqcn", 12),
    permutation("phost-permutation-432", "phost", 12),
    permutation("tcp-permutation-432", "tcp", 12),
    permutation("mptcp-permutation-432", "mptcp", 12),
    permutation("rcpdc-permutation-432", "rcpdc", 12),
    BenchCase {
        name: "ndp-incast-432",
        transport: "ndp",
        network: BenchNetwork::FatTree { k: 12, mtu: 9064 },
        duration: "1s",
        stop: "done",
        traffic: INCAST,
        level: Level::Packet,
    },
    aggregation("dctcp-aggregation-12", "dctcp"),
    aggregation("d2tcp-aggregation-12", "d2tcp"),
    aggregation("d3-aggregation-12", "d3"),
    aggregation("pdq-aggregation-12", "pdq"),
    ten_each("dctcp-ten-flows-128", "dctcp"),
    ten_each("d2tcp-ten-flows-128", "d2tcp"),
    ten_each("d3-ten-flows-128", "d3"),
    ten_each("pdq-ten-flows-128", "pdq"),
    web_search("pdq-flow-level-128", 8, web_search_traffic!(125_000, "100ms")),
    web_search("pdq-flow-level-1024", 16, web_search_traffic!(1_000_000, "100ms")),
    web_search("pdq-flow-level-8192", 32, web_search_traffic!(8_000_000, "125ms")),
    web_search("pdq-flow-level-65536", 64, web_search_traffic!(64_000_000, "10ms")),
    flow_level(
        "pdq-flow-level-bcube-4096",
        BenchNetwork::Bcube { n: 64 },
        web_search_traffic!(4_000_000, "100ms"),
    ),
    flow_level(
        "pdq-flow-level-jellyfish-4096",
        BenchNetwork::Jellyfish { switches: 512 },
        web_search_traffic!(4_000_000, "100ms"),
    ),
];

impl BenchCase {
    /// The benchmark with this name.
    pub fn by_name(name: &str) -> Option<&'static BenchCase> {
        BENCH_CASES.iter().find(|case| case.name == name)
    }

    /// The name of its transport.
    pub fn transport(&self) -> &'static str {
        self.transport
    }

    /// Whether others are compared with it: its transport is DCTCP, whose ports only queue and
    /// mark.
    pub fn is_reference(&self) -> bool {
        self.transport == "dctcp"
    }

    /// Its name without that of the transport: equal for transports on one scenario.
    pub fn work(&self) -> &'static str {
        let work = self.name.strip_prefix(self.transport);
        work.map_or(self.name, |work| work.trim_start_matches('-'))
    }

    /// The text of its scenario.
    ///
    /// NDP has 9 KB of payload in packets of 9064 bytes and an initial window of 30. Queues are the
    /// transports' defaults, except for pHost.
    pub fn scenario(&self) -> String {
        let BenchCase { name, transport, network, duration, stop, traffic, level } = self;
        let level = level.name();
        let network = match network {
            BenchNetwork::FatTree { k, mtu } => format!(
                "topology = \"fat-tree\"\nk = {k}\nrate = \"10Gbps\"\ndelay = \"1us\"\n\
                 mtu = \"{mtu}B\"\n"
            ),
            BenchNetwork::Bcube { n } => format!(
                "topology = \"bcube\"\nn = {n}\nk = 1\nrate = \"10Gbps\"\ndelay = \"1us\"\n\
                 mtu = \"1500B\"\n"
            ),
            BenchNetwork::Jellyfish { switches } => format!(
                "topology = \"jellyfish\"\nswitches = {switches}\nports = 24\n\
                 rate = \"10Gbps\"\ndelay = \"1us\"\nmtu = \"1500B\"\n"
            ),
            BenchNetwork::Tree => "topology = \"tree\"\nrate = \"1Gbps\"\ndelay = \"25.1us\"\n\
                 mtu = \"1500B\"\n"
                .to_owned(),
        };
        let settings = match *transport {
            "ndp" => "[transport.ndp]\npayload = \"9000B\"\ninitial_window = 30\n",
            // As in the NDP paper's comparison: slow start ends at 15 packets.
            "mptcp" => {
                "[transport.mptcp]\ncoupling = \"none\"\njoin = \"at-once\"\ninitial_ssthresh = \"135360B\"\n"
            }
            // As in the NDP paper's comparison: an initial burst, drop-tail queues of 8 packets.
            "phost" => {
                "[transport.phost]\nvariant = \"ndp-paper\"\nwindow = 32\n\
                 [queue]\nkind = \"drop-tail\"\nlimit = \"8packets\"\n"
            }
            _ => "",
        };
        format!(
            "name = \"{name}\"\ntransports = [\"{transport}\"]\n\
             [network]\n{network}framing = \"0B\"\n{settings}\
             [[traffic]]\n{traffic}\n[run]\nlevel = \"{level}\"\nduration = \"{duration}\"\n\
             stop = \"{stop}\"\nnetwork_trace = false\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Study;
    use punctual_transports::AnyTransport;
    use std::path::Path;

    #[test]
    fn every_case_is_a_valid_scenario() {
        let is_large = |case: &&BenchCase| match case.network {
            BenchNetwork::FatTree { k, .. } => k >= 32,
            BenchNetwork::Bcube { .. } | BenchNetwork::Jellyfish { .. } => true,
            BenchNetwork::Tree => false,
        };
        for case in BENCH_CASES.iter().filter(|case| !is_large(case)) {
            if AnyTransport::catalogue().iter().any(|t| t.name == case.transport) {
                let study = Study::from_text(case.name, &case.scenario(), Path::new("."), &[]);
                let study = study.unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(study.runs().len(), 1);
            }
        }
    }
}
