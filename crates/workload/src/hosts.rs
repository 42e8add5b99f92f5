//! The hosts of a network, and sets of hosts in scenarios.

use punctual_core::{HostId, Rate};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// What a workload needs to know about the network's hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostsView {
    /// NIC rate of each host.
    pub nic_rates: Vec<Rate>,
    /// Hosts per rack, counted from host 0; `None` if the network has no racks.
    pub rack_size: Option<u32>,
}

impl HostsView {
    /// `count` hosts with the same NIC rate.
    pub fn uniform(count: u32, nic_rate: Rate, rack_size: Option<u32>) -> Self {
        HostsView { nic_rates: vec![nic_rate; count as usize], rack_size }
    }

    /// The number of hosts. Hosts are numbered 0 to `count`−1.
    pub fn count(&self) -> u32 {
        self.nic_rates.len() as u32
    }

    /// The NIC rate of a host.
    pub fn nic_rate(&self, host: HostId) -> Rate {
        self.nic_rates[host.index()]
    }
}

/// A set of hosts: `"0-3, 8"`, `[0, 1, 2, 3, 8]` or `8` in scenarios.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostSet {
    /// First and last of each range, in the order given.
    ranges: Vec<(u32, u32)>,
}

/// A text that is not a set of hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a set of hosts; write numbers and ranges, such as \"0-3, 8\"")]
pub struct HostSetError(String);

impl HostSet {
    /// The empty set.
    pub const EMPTY: HostSet = HostSet { ranges: Vec::new() };

    /// Whether `host` is in the set.
    pub fn contains(&self, host: HostId) -> bool {
        let within = |&(first, last): &(u32, u32)| (first..=last).contains(&host.0);
        self.ranges.iter().any(within)
    }

    /// The highest host number in the set.
    pub fn last(&self) -> Option<HostId> {
        self.ranges.iter().map(|&(_, last)| HostId(last)).max()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

impl FromIterator<u32> for HostSet {
    fn from_iter<I: IntoIterator<Item = u32>>(hosts: I) -> Self {
        HostSet { ranges: hosts.into_iter().map(|h| (h, h)).collect() }
    }
}

impl FromStr for HostSet {
    type Err = HostSetError;
    fn from_str(text: &str) -> Result<Self, HostSetError> {
        let bad = || HostSetError(text.into());
        let number = |t: &str| t.trim().parse::<u32>().map_err(|_| bad());
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(bad());
            }
            Ok((first, last))
        };
        let ranges = text.split(',').map(range).collect::<Result<_, _>>()?;
        Ok(HostSet { ranges })
    }
}

impl fmt::Display for HostSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (first, last)) in self.ranges.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for HostSet {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostSet {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = HostSet;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("hosts such as \"0-3, 8\" or [0, 1, 8]")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<HostSet, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: serde::de::Error>(self, host: u64) -> Result<HostSet, E> {
                let host = u32::try_from(host).map_err(E::custom)?;
                Ok([host].into_iter().collect())
            }
            fn visit_i64<E: serde::de::Error>(self, host: i64) -> Result<HostSet, E> {
                let host = u64::try_from(host).map_err(E::custom)?;
                self.visit_u64(host)
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> Result<HostSet, A::Error> {
                let mut hosts = Vec::new();
                while let Some(host) = seq.next_element::<u32>()? {
                    hosts.push(host);
                }
                Ok(hosts.into_iter().collect())
            }
        }
        d.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_goes_both_ways() {
        let set: HostSet = "0-3,8 , 10 - 11".parse().unwrap();
        assert_eq!(set.to_string(), "0-3, 8, 10-11");
        assert!(set.contains(HostId(2)) && set.contains(HostId(11)) && !set.contains(HostId(9)));
        assert_eq!(set.last(), Some(HostId(11)));
        assert!("3-1".parse::<HostSet>().is_err());
        assert!("a".parse::<HostSet>().is_err());
        assert!("".parse::<HostSet>().is_err());
    }
}
