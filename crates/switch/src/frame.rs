//! What a switch reads in a frame, and what it writes.

use punctual_core::{Class, Packet, PacketFlags, rng::mix};
use punctual_wire::{
    Datagram, Envelope, TAG_BYTES, WireError, class_of, dscp_of, entropy_port, ones_sum, set_flags,
    trim_frame, udp_checksum,
};

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;
const UDP_HEADER: usize = 8;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV4_TYPE: u16 = 0x0800;
const IPV6_TYPE: u16 = 0x86dd;
const VLAN_TYPES: [u16; 2] = [0x8100, 0x88a8];

/// Where an IP packet is in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IpPlace {
    /// The first byte of the IP header.
    pub(crate) at: usize,
    /// The first byte after it: of the TCP or UDP header, if the packet is no later fragment.
    pub(crate) transport: usize,
    pub(crate) is_ipv6: bool,
}

/// A datagram of ours in a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ours {
    pub(crate) envelope: Envelope,
    /// Where the datagram begins and ends.
    pub(crate) at: usize,
    pub(crate) end: usize,
    /// A hash of the flow's sender and number: one value for both directions.
    pub(crate) flow: u32,
}

/// What a switch needs to know about a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Layers {
    pub(crate) ip: Option<IpPlace>,
    /// DSCP and ECN; 0 for frames that carry no IP packet.
    pub(crate) traffic_class: u8,
    /// A hash of addresses and ports, to choose among equal paths.
    pub(crate) hash: u32,
    pub(crate) ours: Option<Ours>,
}

fn half(frame: &[u8], at: usize) -> Option<u16> {
    let bytes = frame.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// A hash of bytes of any length.
fn hash(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(bytes.len() as u64, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(hash ^ u64::from_le_bytes(word))
    })
}

impl Layers {
    /// Reads the headers of a frame. A frame that is not understood is forwarded as a plain one.
    pub(crate) fn of(frame: &[u8]) -> Layers {
        let plain =
            || Layers { hash: hash(&frame[..frame.len().min(12)]) as u32, ..Layers::default() };
        Layers::of_ip(frame).unwrap_or_else(plain)
    }

    fn of_ip(frame: &[u8]) -> Option<Layers> {
        let mut type_at = ETHERNET - 2;
        while VLAN_TYPES.contains(&half(frame, type_at)?) {
            type_at += 4;
        }
        let at = type_at + 2;
        let (is_ipv6, header, addresses) = match half(frame, type_at)? {
            IPV4_TYPE => {
                let words = *frame.get(at)?;
                let header = usize::from(words & 15) * 4;
                (words >> 4 == 4 && header >= 20).then_some(())?;
                (false, header, at + 12..at + 20)
            }
            IPV6_TYPE => {
                (*frame.get(at)? >> 4 == 6).then_some(())?;
                (true, 40, at + 8..at + 40)
            }
            _ => return None,
        };
        let ip = frame.get(at..at + header)?;
        let (protocol, traffic_class, bytes, is_fragment) = if is_ipv6 {
            let bytes = header + usize::from(half(ip, 4)?);
            (ip[6], ip[0] << 4 | ip[1] >> 4, bytes, false)
        } else {
            (ip[9], ip[1], usize::from(half(ip, 2)?), half(ip, 6)? & 0x3fff != 0)
        };
        let transport = at + header;
        let has_ports = matches!(protocol, TCP | UDP) && !is_fragment;
        let ports = if has_ports { frame.get(transport..transport + 4) } else { None };
        let of_ends = hash(frame.get(addresses.clone())?);
        let of_ports = u64::from(protocol) << 32 | ports.map_or(0, |p| hash(p) & 0xffff_ffff);
        let mut layers = Layers {
            ip: Some(IpPlace { at, transport, is_ipv6 }),
            traffic_class,
            hash: mix(of_ends ^ of_ports) as u32,
            ours: None,
        };
        if protocol == UDP && has_ports {
            let end = frame.len().min(at + bytes);
            layers.ours = layers.datagram(frame, transport, end, addresses);
        }
        Some(layers)
    }

    /// The datagram, if it is one of ours. Its header check is right; its payload is not read.
    fn datagram(
        &self,
        frame: &[u8],
        udp: usize,
        ip_end: usize,
        addresses: core::ops::Range<usize>,
    ) -> Option<Ours> {
        let end = ip_end.min(udp + usize::from(half(frame, udp + 4)?));
        let at = udp + UDP_HEADER;
        let datagram = frame.get(at..end)?;
        let (words, flags) = (datagram.get(1)? >> 4, *datagram.get(3)?);
        // The flag of keyed packets is in the place of an ECN flag.
        let is_keyed = flags & PacketFlags::ECN_MARKED.bits() != 0;
        let header = (usize::from(words) + 1) * 4 + if is_keyed { TAG_BYTES } else { 0 };
        let mut envelope = Datagram::parse(datagram.get(..header)?).ok()?.envelope;
        // The parser saw the header alone and takes the packet for a trimmed one.
        let carried = datagram.len() - header;
        let is_whole = flags & PacketFlags::TRIMMED.bits() == 0
            && carried >= usize::from(envelope.payload_bytes);
        if is_whole && envelope.flags.has(PacketFlags::TRIMMED) {
            envelope.flags = envelope.flags.toggled(PacketFlags::TRIMMED);
        }
        let middle = (addresses.start + addresses.end) / 2;
        let sender = if envelope.flags.has(PacketFlags::TO_SENDER) {
            middle..addresses.end
        } else {
            addresses.start..middle
        };
        let flow = mix(hash(&frame[sender]) ^ u64::from(envelope.name.flow)) as u32;
        Some(Ours { envelope, at, end, flow })
    }

    /// The service class: of our packets as their header says, of others by their DSCP.
    pub(crate) fn class(&self) -> Class {
        match &self.ours {
            Some(ours) => ours.envelope.class,
            None => class_of(self.traffic_class >> 2),
        }
    }
}

/// Sets the ECN codepoint to "congestion experienced".
pub(crate) fn mark(frame: &mut [u8], ip: IpPlace) {
    if ip.is_ipv6 {
        frame[ip.at + 1] |= 0x30;
    } else {
        frame[ip.at + 1] |= 3;
        fix_ipv4_checksum(frame, ip);
    }
}

/// Trims as our switch does, with lengths and checksums corrected. Returns the new length.
pub(crate) fn trim(frame: &mut [u8]) -> Result<usize, WireError> {
    trim_frame(frame)
}

/// Trims as many hardware switches do: cuts the frame to `ip_bytes` and sets a DSCP, but leaves the
/// lengths in the headers, and the UDP checksum, as they were. Returns the new length.
pub(crate) fn cut(frame: &mut [u8], ip: IpPlace, ip_bytes: usize, dscp: u8) -> usize {
    if ip.is_ipv6 {
        let traffic_class = dscp << 2 | frame[ip.at + 1] >> 4 & 3;
        frame[ip.at] = 6 << 4 | traffic_class >> 4;
        frame[ip.at + 1] = traffic_class << 4 | frame[ip.at + 1] & 15;
    } else {
        frame[ip.at + 1] = dscp << 2 | frame[ip.at + 1] & 3;
        fix_ipv4_checksum(frame, ip);
    }
    frame.len().min(ip.at + ip_bytes.max(ip.transport - ip.at + UDP_HEADER))
}

/// Corrects the lengths and checksums of a UDP packet that was cut at the end of this frame.
pub(crate) fn correct_lengths(frame: &mut [u8], ip: IpPlace) {
    let udp = ip.transport;
    let lengths = [
        (udp + 4, frame.len() - udp),
        match ip.is_ipv6 {
            true => (ip.at + 4, frame.len() - udp),
            false => (ip.at + 2, frame.len() - ip.at),
        },
    ];
    for (at, bytes) in lengths {
        frame[at..at + 2].copy_from_slice(&(bytes as u16).to_be_bytes());
    }
    if !ip.is_ipv6 {
        fix_ipv4_checksum(frame, ip);
    }
    fix_udp_checksum(frame, ip);
}

/// The DSCP that trimmed packets get, unless the operator chose one.
pub(crate) fn trimmed_dscp() -> u8 {
    dscp_of(Class::CONTROL)
}

/// Turns a trimmed frame around: it goes back to its sender, marked as bounced.
///
/// A sender that puts entropy into its source port listens at the port that it sends to; any other
/// listens at its source port.
pub(crate) fn bounce(frame: &mut [u8], ip: IpPlace, ours: &Ours) -> Result<(), WireError> {
    let flags = ours.envelope.flags.with(PacketFlags::TRIMMED);
    let flags = flags.with(PacketFlags::BOUNCED).with(PacketFlags::TO_SENDER);
    let flags = flags.toggled(PacketFlags::REVERSE_PATH);
    set_flags(&mut frame[ours.at..], flags)?;
    let (macs, rest) = frame.split_at_mut(12);
    let (to, from) = macs.split_at_mut(6);
    to.swap_with_slice(from);
    let ip_at = ip.at - 12;
    let (addresses, size) = if ip.is_ipv6 { (ip_at + 8, 16) } else { (ip_at + 12, 4) };
    let (source, destination) = rest[addresses..addresses + 2 * size].split_at_mut(size);
    source.swap_with_slice(destination);
    let udp = ip.transport;
    let name = ours.envelope.name;
    let entropy = entropy_port(name.flow, ours.envelope.path).to_be_bytes();
    if frame[udp..udp + 2] == entropy {
        let listens = [frame[udp + 2], frame[udp + 3]];
        frame[udp..udp + 2].copy_from_slice(&listens);
    } else {
        let (source, destination) = frame[udp..udp + 4].split_at_mut(2);
        source.swap_with_slice(destination);
    }
    fix_udp_checksum(frame, ip);
    Ok(())
}

/// Writes the fields that controllers changed into a datagram, with its checks.
pub(crate) fn rewrite(
    frame: &mut [u8],
    ip: IpPlace,
    ours: &Ours,
    packet: &Packet,
    emit: impl FnOnce(&mut [u8]),
    fields_bytes: usize,
) {
    let datagram = &mut frame[ours.at..ours.end];
    let fields = &mut datagram[punctual_wire::ENVELOPE_BYTES..][..fields_bytes];
    fields.fill(0);
    emit(fields);
    let ecn = PacketFlags::ECN_CAPABLE.with(PacketFlags::ECN_MARKED).bits();
    let flags = PacketFlags::from_bits(packet.flags.bits() & !ecn);
    Envelope { flags, ..ours.envelope }.seal(datagram, fields_bytes);
    fix_udp_checksum(frame, ip);
}

fn fix_ipv4_checksum(frame: &mut [u8], ip: IpPlace) {
    frame[ip.at + 10..ip.at + 12].fill(0);
    let sum = !ones_sum(&frame[ip.at..ip.transport], 0);
    frame[ip.at + 10..ip.at + 12].copy_from_slice(&sum.to_be_bytes());
}

/// Computes the UDP checksum again, if the datagram has one.
fn fix_udp_checksum(frame: &mut [u8], ip: IpPlace) {
    let udp = ip.transport;
    if frame[udp + 6..udp + 8] == [0, 0] {
        return;
    }
    let bytes = usize::from(u16::from_be_bytes([frame[udp + 4], frame[udp + 5]]));
    let end = frame.len().min(udp + bytes);
    frame[udp + 6..udp + 8].fill(0);
    let addresses = if ip.is_ipv6 { ip.at + 8..ip.at + 40 } else { ip.at + 12..ip.at + 20 };
    let sum = udp_checksum(&frame[addresses], &frame[udp..end]);
    frame[udp + 6..udp + 8].copy_from_slice(&sum.to_be_bytes());
}
