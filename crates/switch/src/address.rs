//! Which host has which Ethernet address.

use punctual_core::HostId;
use std::collections::BTreeMap;

/// An Ethernet address.
pub(crate) type Mac = [u8; 6];

/// Addresses learned at most, so that no host can fill the memory with invented ones.
const LEARNED_MAX: usize = 4096;

/// The address table: static entries, and those learned from the sources of frames.
#[derive(Debug, Default)]
pub(crate) struct AddressTable {
    entries: BTreeMap<Mac, Entry>,
    learned: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    host: HostId,
    is_static: bool,
}

impl AddressTable {
    /// Adds an address that never moves.
    pub(crate) fn insert_static(&mut self, mac: Mac, host: HostId) {
        self.entries.insert(mac, Entry { host, is_static: true });
    }

    /// Learns that frames from `mac` come from `host`. A static address is not moved.
    #[inline]
    pub(crate) fn learn(&mut self, mac: Mac, host: HostId) {
        if is_group(mac) {
            return;
        }
        match self.entries.get_mut(&mac) {
            Some(entry) if entry.is_static => {}
            Some(entry) => entry.host = host,
            None if self.learned < LEARNED_MAX => {
                self.learned += 1;
                self.entries.insert(mac, Entry { host, is_static: false });
            }
            None => {}
        }
    }

    /// Learns what another table has learned; `host` has the new number of a host, if it is still
    /// there.
    pub(crate) fn learn_from(
        &mut self,
        other: &AddressTable,
        host: impl Fn(HostId) -> Option<HostId>,
    ) {
        for (mac, entry) in other.entries.iter().filter(|(_, entry)| !entry.is_static) {
            if let Some(host) = host(entry.host) {
                self.learn(*mac, host);
            }
        }
    }

    /// The host with this address; nothing for groups and unknown addresses.
    #[inline]
    pub(crate) fn host(&self, mac: Mac) -> Option<HostId> {
        self.entries.get(&mac).map(|entry| entry.host)
    }
}

/// Whether an address is a multicast or broadcast address.
pub(crate) fn is_group(mac: Mac) -> bool {
    mac[0] & 1 == 1
}

/// Parses an address such as `02:00:00:00:00:01`.
pub(crate) fn parse_mac(text: &str) -> Option<Mac> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learn__moves_a_host_but_not_a_static_address() {
        let mut table = AddressTable::default();
        let (a, b) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        table.insert_static(a, HostId(0));
        table.learn(a, HostId(3));
        table.learn(b, HostId(1));
        table.learn(b, HostId(2));
        table.learn([255; 6], HostId(1));
        assert_eq!(table.host(a), Some(HostId(0)));
        assert_eq!(table.host(b), Some(HostId(2)));
        assert_eq!(table.host([255; 6]), None);
    }

    #[test]
    fn learn__is_bounded() {
        let mut table = AddressTable::default();
        for n in 0..2 * LEARNED_MAX as u32 {
            let [a, b, c, d] = n.to_be_bytes();
            table.learn([2, 0, a, b, c, d], HostId(0));
        }
        assert_eq!(table.entries.len(), LEARNED_MAX);
    }

    #[test]
    fn parse_mac__only_six_bytes() {
        assert_eq!(parse_mac("02:00:00:00:00:1f"), Some([2, 0, 0, 0, 0, 0x1f]));
        for bad in
            ["", "02:00:00:00:00", "02:00:00:00:00:00:00", "2:0:0:0:0:0", "xx:00:00:00:00:00"]
        {
            assert_eq!(parse_mac(bad), None, "{bad}");
        }
    }
}
