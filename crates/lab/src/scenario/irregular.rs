//! `[network]` of topologies whose paths differ in length: BCube and Jellyfish.

use punctual_core::{Bytes, Duration, Rate};
use punctual_net::{
    BcubeError, BcubeShape, JellyfishError, JellyfishLinks, JellyfishShape, Network,
};
use serde::Deserialize;

/// What is wrong with a topology: the key, the message and what to do.
pub(super) type Mistake = (&'static str, String, String);

/// The keys that every topology has and that building needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Medium {
    pub(super) mtu: Bytes,
    pub(super) framing: Bytes,
    pub(super) processing: Duration,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bcube {
    n: u32,
    k: u32,
    rate: Rate,
    delay: Duration,
}

impl Bcube {
    fn shape(&self) -> BcubeShape {
        BcubeShape { n: self.n, k: self.k }
    }

    pub(super) fn hosts(&self) -> u64 {
        self.shape().hosts().map_or(0, u64::from)
    }

    pub(super) fn check(&self) -> Result<(), Mistake> {
        self.shape().hosts().map(drop).map_err(mistake_of_bcube)
    }

    pub(super) fn build(&self, medium: &Medium) -> Result<Network, Mistake> {
        let Medium { mtu, framing, processing } = *medium;
        let network = self.shape().build(self.rate, self.delay, processing, mtu, framing);
        network.map_err(mistake_of_bcube)
    }
}

fn mistake_of_bcube(error: BcubeError) -> Mistake {
    match error {
        BcubeError::Ports(_) => ("n", error.to_string(), "give 2 or more".into()),
        BcubeError::Hosts { .. } => ("k", error.to_string(), "lower n or k".into()),
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Jellyfish {
    switches: u32,
    ports: u32,
    hosts_per_switch: Option<u32>,
    #[serde(default = "default_paths")]
    paths: u32,
    #[serde(default = "default_seed")]
    seed: u64,
    rate: Rate,
    switch_rate: Option<Rate>,
    delay: Duration,
}

/// As in the Jellyfish paper.
fn default_paths() -> u32 {
    8
}

fn default_seed() -> u64 {
    1
}

impl Jellyfish {
    fn shape(&self) -> JellyfishShape {
        JellyfishShape {
            switches: self.switches,
            ports: self.ports,
            // Two ports to switches for each port to a host, as in the PDQ paper.
            hosts_per_switch: self.hosts_per_switch.unwrap_or(self.ports / 3),
            paths: self.paths,
            seed: self.seed,
        }
    }

    pub(super) fn hosts(&self) -> u64 {
        self.shape().hosts()
    }

    pub(super) fn check(&self) -> Result<(), Mistake> {
        self.shape().check().map_err(mistake_of_jellyfish)
    }

    pub(super) fn build(&self, medium: &Medium) -> Result<Network, Mistake> {
        let links = JellyfishLinks {
            host_rate: self.rate,
            switch_rate: self.switch_rate.unwrap_or(self.rate),
            delay: self.delay,
            processing: medium.processing,
        };
        let network = self.shape().build(&links, medium.mtu, medium.framing);
        network.map_err(mistake_of_jellyfish)
    }
}

fn mistake_of_jellyfish(error: JellyfishError) -> Mistake {
    let (key, help) = match error {
        JellyfishError::Switches(_) => ("switches", "give another number of switches".to_owned()),
        JellyfishError::Hosts { ports, .. } => {
            ("hosts_per_switch", format!("give about a third of {ports}, or raise `ports`"))
        }
        JellyfishError::Degree { hosts_per_switch, switches, .. } => (
            "ports",
            format!("give at most {} ports, or more switches", hosts_per_switch + switches - 1),
        ),
        JellyfishError::Odd { .. } => {
            ("switches", "change `switches` by one, or `ports` by one".to_owned())
        }
        JellyfishError::Paths(_) => ("paths", "the Jellyfish paper has 8".to_owned()),
        JellyfishError::Ring(_) | JellyfishError::Disconnected { .. } => {
            ("ports", "give switches at least 3 ports more than hosts".to_owned())
        }
    };
    (key, error.to_string(), help)
}
