//! Fixed scenarios by which the simulator's speed is measured.

/// A fixed scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BenchCase {
    /// What it is called.
    pub name: &'static str,
    transport: &'static str,
    /// Arity of the fat tree.
    k: u32,
    duration: &'static str,
    stop: &'static str,
    traffic: &'static str,
}

const PERMUTATION: &str = "pattern = \"permutation\"\nsizes = \"endless\"";
const INCAST: &str = "pattern = \"incast\"\nreceiver = 0\nsizes = \"450KB\"";

const fn permutation(name: &'static str, transport: &'static str, k: u32) -> BenchCase {
    let duration = if k < 32 { "10ms" } else { "2ms" };
    BenchCase { name, transport, k, duration, stop: "duration", traffic: PERMUTATION }
}

/// All of them.
pub const BENCH_CASES: &[BenchCase] = &[
    permutation("ndp-permutation-128", "ndp", 8),
    permutation("ndp-permutation-432", "ndp", 12),
    permutation("ndp-permutation-1024", "ndp", 16),
    permutation("ndp-permutation-8192", "ndp", 32),
    permutation("dctcp-permutation-432", "dctcp", 12),
    permutation("tcp-permutation-432", "tcp", 12),
    permutation("rcpdc-permutation-432", "rcpdc", 12),
    BenchCase {
        name: "ndp-incast-432",
        transport: "ndp",
        k: 12,
        duration: "1s",
        stop: "done",
        traffic: INCAST,
    },
];

impl BenchCase {
    /// The case of that name.
    pub fn by_name(name: &str) -> Option<&'static BenchCase> {
        BENCH_CASES.iter().find(|case| case.name == name)
    }

    /// The scenario: 10 Gb/s, links of 1 µs, 9 KB of payload in packets of 9064 bytes, NDP with
    /// an initial window of 30, and the queues that transports suggest: 8 packets for NDP.
    pub fn scenario(&self) -> String {
        let BenchCase { name, transport, k, duration, stop, traffic } = self;
        let settings = match *transport {
            "ndp" => "[transport.ndp]\npayload = \"9000B\"\ninitial_window = 30\n",
            _ => "",
        };
        format!(
            "name = \"{name}\"\ntransports = [\"{transport}\"]\n\
             [network]\ntopology = \"fat-tree\"\nk = {k}\nrate = \"10Gbps\"\ndelay = \"1us\"\n\
             mtu = \"9064B\"\nframing = \"0B\"\n{settings}\
             [[traffic]]\n{traffic}\n[run]\nduration = \"{duration}\"\nstop = \"{stop}\"\n"
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
        for case in BENCH_CASES.iter().filter(|case| case.k < 32) {
            if AnyTransport::catalogue().iter().any(|t| t.name == case.transport) {
                let study = Study::from_text(case.name, &case.scenario(), Path::new("."), &[]);
                let study = study.unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(study.runs().len(), 1);
            }
        }
    }
}
