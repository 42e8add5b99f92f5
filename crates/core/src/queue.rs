//! Queue disciplines and their parameters, which transports suggest and users choose.

use crate::{Bytes, units::UnitError};
use serde::{Deserialize, Serialize};

/// How much a queue holds: `"128KB"` or `"100packets"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes on the wire, the packet in service included.
    Bytes(Bytes),
    /// Packets, the one in service included.
    Packets(u32),
}

/// A queue discipline and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum QueueSpec {
    /// One queue; arrivals that do not fit are dropped.
    DropTail {
        /// What fits.
        limit: Limit,
    },
    /// Drop-tail that marks ECN-capable arrivals while the queue, with the arrival, is above a
    /// threshold.
    Ecn {
        /// What fits.
        limit: Limit,
        /// Marks above this.
        mark_above: Limit,
    },
    /// Strict priority by class, drop-tail in each.
    Priority {
        /// What fits in each class.
        limit: Limit,
    },
    /// No drops: the ports of a switch share a buffer, and the switch pauses links that fill it.
    /// Strict priority by class.
    Lossless {
        /// The buffer of a switch.
        buffer: Bytes,
        /// The switch pauses a class of a link that has more than this in the buffer.
        pause_above: Bytes,
        /// The switch resumes it once it has no more than this.
        resume_below: Bytes,
        /// Marks ECN-capable arrivals while the queue of their class is above this.
        #[serde(default)]
        mark_above: Option<Limit>,
        /// Marks them at random instead, with a probability that grows with their class's queue.
        #[serde(default)]
        red: Option<RedMarking>,
    },
    /// NDP's two queues: data that does not fit is trimmed to its header, headers and control
    /// packets go first ten to one, headers that do not fit return to their sender.
    Trim {
        /// What fits in the data queue.
        data: Limit,
        /// What fits in the header queue: bytes, or those of so many full packets.
        headers: Limit,
        /// Marks ECN-capable data above this, for other transports.
        #[serde(default)]
        mark_above: Option<Limit>,
    },
    /// A trimming switch as built or sold: see [`TrimModel`].
    TrimModel {
        /// Which switch.
        model: TrimModel,
        /// What fits in the data queue.
        data: Limit,
        /// What fits in the header queue: bytes, or those of so many full packets.
        headers: Limit,
        /// Bytes left of a trimmed packet.
        #[serde(default = "header_bytes")]
        trim_to: Bytes,
    },
    /// Cut Payload, the predecessor of NDP's switch: one queue, in which arrivals above a threshold
    /// are trimmed and, when it is full, dropped.
    CutPayload {
        /// What fits.
        limit: Limit,
        /// Trims arrivals that would make the queue longer than this; half of `limit` if absent.
        #[serde(default)]
        trim_above: Option<Limit>,
        /// Bytes left of a trimmed packet.
        #[serde(default = "header_bytes")]
        trim_to: Bytes,
    },
    /// Two classes that share the link fairly: [`QueueSpec::Trim`] for transports that ask for
    /// it, and a longer drop-tail or marking queue for all others.
    FairClasses {
        /// What fits in the trimming class's data queue.
        trim_data: Limit,
        /// What fits in the trimming class's header queue: bytes, or those of so many full packets.
        trim_headers: Limit,
        /// What fits in the other class.
        rest: Limit,
        /// Marks ECN-capable packets of the other class above this.
        #[serde(default)]
        rest_mark_above: Option<Limit>,
        /// Per cent of the link that the trimming class has while both wait.
        #[serde(default = "half")]
        trim_percent: u8,
    },
}

/// RED marking by the queue length that a packet finds, the packet in service included.
///
/// No packet is marked up to `from` and every packet above `to`. In between the probability rises
/// linearly to `most_percent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedMarking {
    /// No marks up to this length.
    pub from: Bytes,
    /// All are marked above this.
    pub to: Bytes,
    /// The probability of a mark at length `to`, in per cent.
    pub most_percent: u8,
}

/// Trimming switches that differ from the paper's simulated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TrimModel {
    /// The paper's simulated switch, but trimming to any size.
    Paper,
    /// The NetFPGA prototype: it always trims the arrival; headers have strict priority and are
    /// dropped when they do not fit.
    Netfpga,
    /// The P4 prototype: like the NetFPGA one, but counters at ingress and egress keep the length
    /// of the data queue, so that the packet in service does not count.
    P4,
}

fn header_bytes() -> Bytes {
    Bytes::new(64)
}

fn half() -> u8 {
    50
}

impl QueueSpec {
    /// This queue in a network with this MTU.
    ///
    /// A header queue for n packets gets the bytes of n full packets: NDP's two queues have equal
    /// sizes in bytes.
    pub fn sized_for(mut self, mtu: Bytes) -> Self {
        if let QueueSpec::Trim { headers, .. }
        | QueueSpec::TrimModel { headers, .. }
        | QueueSpec::FairClasses { trim_headers: headers, .. } = &mut self
            && let Limit::Packets(packets) = *headers
        {
            *headers = Limit::Bytes(Bytes::new(u64::from(packets) * mtu.get()));
        }
        self
    }

    /// What is wrong with the parameters, if anything.
    pub fn validate(&self) -> Result<(), String> {
        match *self {
            QueueSpec::TrimModel { trim_to, .. } | QueueSpec::CutPayload { trim_to, .. }
                if !(64..=9000).contains(&trim_to.get()) =>
            {
                Err(format!("trim_to = {trim_to}: a header needs 64B, and 9000B is a whole packet"))
            }
            QueueSpec::FairClasses { trim_percent, .. } if !(1..=99).contains(&trim_percent) => {
                Err(format!("trim_percent = {trim_percent}: each class needs 1 to 99 per cent"))
            }
            QueueSpec::Lossless { mark_above: Some(_), red: Some(_), .. } => {
                Err("`mark_above` and `red` exclude each other: remove one".to_owned())
            }
            QueueSpec::Lossless { red: Some(red), .. } if red.from >= red.to => {
                Err(format!("red: `from` ({}) must be less than `to` ({})", red.from, red.to))
            }
            QueueSpec::Lossless { red: Some(red), .. }
                if !(1..=100).contains(&red.most_percent) =>
            {
                Err(format!("red: most_percent = {}: must be 1 to 100", red.most_percent))
            }
            _ => Ok(()),
        }
    }
}

impl core::str::FromStr for Limit {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let packets =
            text.strip_suffix("packets").or_else(|| text.strip_suffix("packet")).map(str::trim);
        match packets {
            Some(n) => match n.parse() {
                Ok(n) => Ok(Limit::Packets(n)),
                Err(_) => Err(UnitError::NotANumber(text.into(), "100packets")),
            },
            None => text.parse().map(Limit::Bytes),
        }
    }
}

impl core::fmt::Display for Limit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Limit::Bytes(b) => b.fmt(f),
            Limit::Packets(n) => write!(f, "{n}packets"),
        }
    }
}

impl Serialize for Limit {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Limit;
            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("a queue length in quotes, such as \"128KB\" or \"100packets\"")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Limit, E> {
                text.parse().map_err(E::custom)
            }
        }
        d.deserialize_any(Visitor)
    }
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn sized_for__headers_have_the_bytes_of_full_packets() {
        let (packets, bytes) = (Limit::Packets(8), |n| Limit::Bytes(Bytes::new(n)));
        let mtu = Bytes::new(9000);
        let trim = |headers| QueueSpec::Trim { data: packets, headers, mark_above: None };
        // 72,000 bytes are 1,125 headers.
        assert_eq!(trim(packets).sized_for(mtu), trim(bytes(72_000)));
        assert_eq!(trim(bytes(5_000)).sized_for(mtu), trim(bytes(5_000)));
        let model = |headers| QueueSpec::TrimModel {
            model: TrimModel::P4,
            data: packets,
            headers,
            trim_to: Bytes::new(64),
        };
        assert_eq!(model(packets).sized_for(mtu), model(bytes(72_000)));
        let classes = |trim_headers| QueueSpec::FairClasses {
            trim_data: packets,
            trim_headers,
            rest: packets,
            rest_mark_above: None,
            trim_percent: 50,
        };
        assert_eq!(classes(packets).sized_for(mtu), classes(bytes(72_000)));
        let drop_tail = QueueSpec::DropTail { limit: packets };
        assert_eq!(drop_tail.sized_for(mtu), drop_tail);
    }
}
