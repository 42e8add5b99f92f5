//! Ethernet frames with IPv4 or IPv6 and UDP, whole or trimmed.

use crate::{Datagram, WireError, set_flags};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use punctual_core::{Class, Ecn, PacketFlags};
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The UDP port of hosts that choose none. IANA has assigned it to nobody.
pub const DEFAULT_PORT: u16 = 48_630;

/// The least port that [`entropy_port`] returns: the first of the dynamic ports of RFC 6335.
const ENTROPY_PORT_MIN: u16 = 49_152;

const ETHERNET: usize = 14;
const UDP: usize = 8;
const UDP_PROTOCOL: u8 = 17;
const IPV4_TYPE: u16 = 0x0800;
const IPV6_TYPE: u16 = 0x86dd;
const VLAN_TYPES: [u16; 2] = [0x8100, 0x88a8];
const MORE_FRAGMENTS_AND_OFFSET: u16 = 0x3fff;

/// The headers around a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// Ethernet addresses: source, destination.
    pub mac: [[u8; 6]; 2],
    /// IP source. Source and destination are of one family.
    pub source: IpAddr,
    /// IP destination.
    pub destination: IpAddr,
    /// UDP source port, by which switches choose among equal paths.
    pub source_port: u16,
    /// UDP destination port.
    pub destination_port: u16,
    /// Differentiated services code point.
    pub dscp: u8,
    /// ECN codepoint: 0 not capable, 1 and 2 capable, 3 marked.
    pub ecn: u8,
}

/// DSCPs by service class: CS5 for control, then downwards to lower effort (RFC 8622).
const DSCP: [u8; Class::COUNT] = [40, 32, 24, 16, 10, 0, 8, 1];

/// The DSCP of a service class.
pub fn dscp_of(class: Class) -> u8 {
    DSCP[usize::from(class.0).min(Class::COUNT - 1)]
}

/// The service class of a DSCP; ordinary data if no class has it.
pub fn class_of(dscp: u8) -> Class {
    let class = DSCP.iter().position(|of_class| *of_class == dscp);
    class.map_or(Class::DATA, |class| Class(class as u8))
}

/// The bits of an ECN codepoint: ECT(0) for a capable packet.
pub fn ecn_bits(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotCapable => 0,
        Ecn::Capable => 2,
        Ecn::Marked => 3,
    }
}

/// A packet's flags with those of the ECN codepoint in its IP header.
pub fn with_ecn(flags: PacketFlags, bits: u8) -> PacketFlags {
    match bits & 3 {
        0 => flags,
        3 => flags.with(PacketFlags::ECN_CAPABLE).with(PacketFlags::ECN_MARKED),
        _ => flags.with(PacketFlags::ECN_CAPABLE),
    }
}

/// The UDP source port for a path of a flow: a switch that hashes ports sends all packets with one
/// port over one path, and other ports over others.
pub fn entropy_port(flow: u32, path: u16) -> u16 {
    // The finalizer of MurmurHash3 spreads all input bits over all output bits.
    let mut hash = flow ^ u32::from(path).wrapping_mul(0x9e37_79b1);
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    ENTROPY_PORT_MIN | (hash ^ hash >> 16) as u16 & !ENTROPY_PORT_MIN
}

/// How switches mark trimmed frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrimMark {
    /// The DSCP that switches give to trimmed packets only, if the operator chose one. A frame with
    /// it counts as trimmed, even if it carries all its bytes.
    pub dscp: Option<u8>,
}

/// A parsed frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The headers around the datagram.
    pub outer: Outer,
    /// The datagram. Of a trimmed frame it has no payload, whatever the frame carried.
    pub datagram: Datagram<'a>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawIpv4 {
    version_words: u8,
    traffic_class: u8,
    total_bytes: U16,
    id: U16,
    fragment: U16,
    hops_left: u8,
    protocol: u8,
    checksum: U16,
    source: [u8; 4],
    destination: [u8; 4],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawIpv6 {
    version_class_label: [u8; 4],
    payload_bytes: U16,
    next_header: u8,
    hops_left: u8,
    source: [u8; 16],
    destination: [u8; 16],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawUdp {
    source: U16,
    destination: U16,
    bytes: U16,
    checksum: U16,
}

/// Where the headers of a frame are, and what they say.
struct Found {
    outer: Outer,
    /// The first byte of the IP header, of the UDP header.
    ip: usize,
    udp: usize,
    /// Whether the frame has fewer bytes than its IP or UDP header says.
    is_cut: bool,
    /// Where the datagram ends in the frame.
    end: usize,
    /// Whether the checksum of the IPv4 header is right.
    is_ip_sound: bool,
}

fn find(frame: &[u8]) -> Result<Found, WireError> {
    let short = || WireError::FrameShort(frame.len());
    let half = |at: usize| {
        let bytes = frame.get(at..at + 2).ok_or_else(short)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let (Some(to), Some(from)) =
        (frame.first_chunk(), frame.get(6..).and_then(|f| f.first_chunk()))
    else {
        return Err(short());
    };
    let mut type_at = ETHERNET - 2;
    while VLAN_TYPES.contains(&half(type_at)?) {
        type_at += 4;
    }
    let ip = type_at + 2;
    let rest = &frame[ip..];
    let (source, destination, traffic_class, ip_header, ip_bytes, is_ip_sound): (
        IpAddr,
        IpAddr,
        _,
        _,
        _,
        _,
    );
    match half(type_at)? {
        IPV4_TYPE => {
            let (header, _) = RawIpv4::read_from_prefix(rest).map_err(|_| short())?;
            ip_header = usize::from(header.version_words & 15) * 4;
            if header.version_words >> 4 != 4 || ip_header < size_of::<RawIpv4>() {
                return Err(WireError::IpHeader);
            }
            let bytes = rest.get(..ip_header).ok_or_else(short)?;
            is_ip_sound = ones_sum(bytes, 0) == 0xffff;
            if header.fragment.get() & MORE_FRAGMENTS_AND_OFFSET != 0 {
                return Err(WireError::Fragment);
            }
            if header.protocol != UDP_PROTOCOL {
                return Err(WireError::Protocol(header.protocol));
            }
            ip_bytes = usize::from(header.total_bytes.get());
            (source, destination) =
                (Ipv4Addr::from(header.source).into(), Ipv4Addr::from(header.destination).into());
            traffic_class = header.traffic_class;
        }
        IPV6_TYPE => {
            let (header, _) = RawIpv6::read_from_prefix(rest).map_err(|_| short())?;
            if header.version_class_label[0] >> 4 != 6 {
                return Err(WireError::IpHeader);
            }
            if header.next_header != UDP_PROTOCOL {
                return Err(WireError::Protocol(header.next_header));
            }
            ip_header = size_of::<RawIpv6>();
            ip_bytes = ip_header + usize::from(header.payload_bytes.get());
            (source, destination) =
                (Ipv6Addr::from(header.source).into(), Ipv6Addr::from(header.destination).into());
            let [high, low, ..] = header.version_class_label;
            (traffic_class, is_ip_sound) = (high << 4 | low >> 4, true);
        }
        other => return Err(WireError::EtherType(other)),
    }
    if ip_bytes < ip_header + UDP {
        return Err(WireError::IpHeader);
    }
    let udp = ip + ip_header;
    let udp_header = frame.get(udp..).ok_or_else(short)?;
    let (header, _) = RawUdp::read_from_prefix(udp_header).map_err(|_| short())?;
    let udp_bytes = usize::from(header.bytes.get());
    if udp_bytes < UDP {
        return Err(WireError::UdpHeader);
    }
    // Bytes after the IP packet are padding of a short frame. IP may be longer than UDP as well.
    let end = frame.len().min(ip + ip_bytes).min(udp + udp_bytes);
    let outer = Outer {
        mac: [*from, *to],
        source,
        destination,
        source_port: header.source.get(),
        destination_port: header.destination.get(),
        dscp: traffic_class >> 2,
        ecn: traffic_class & 3,
    };
    let is_cut = frame.len() < ip + ip_bytes || ip + ip_bytes < udp + udp_bytes;
    Ok(Found { outer, ip, udp, is_cut, end, is_ip_sound })
}

impl<'a> Frame<'a> {
    /// Parses a captured Ethernet frame without its FCS. `sent_bytes` is its length on the link: a
    /// capture may have less.
    ///
    /// A frame that has fewer bytes than its IP or UDP header says was trimmed by a switch that left
    /// lengths as they were; checksums may be wrong then too. The result is the same as for a switch
    /// that corrects them. Of whole frames the IPv4 header checksum is verified; the UDP checksum is
    /// not, because the datagram has checks of its own.
    pub fn parse(bytes: &'a [u8], sent_bytes: usize, mark: TrimMark) -> Result<Self, WireError> {
        if bytes.len() < sent_bytes {
            return Err(WireError::CaptureCut { captured: bytes.len(), sent: sent_bytes });
        }
        let Found { outer, udp, is_cut, end, is_ip_sound, .. } = find(bytes)?;
        let is_marked = mark.dscp == Some(outer.dscp);
        let datagram = Datagram::parse(&bytes[udp + UDP..end])?;
        if is_cut || is_marked {
            return Ok(Frame { outer, datagram: datagram.trimmed() });
        }
        // A switch that corrects lengths alone leaves a wrong checksum, which a trim may have.
        if !is_ip_sound && !datagram.envelope.flags.has(PacketFlags::TRIMMED) {
            return Err(WireError::IpChecksum);
        }
        Ok(Frame { outer, datagram })
    }
}

/// Writes a frame around a datagram into `frame`, whose memory is reused.
///
/// Over IPv4 the UDP checksum is 0, so that switches may trim and rewrite. IPv6 requires one.
///
/// # Panics
///
/// If the addresses are of two families, or the datagram does not fit in an IP packet.
pub fn write_frame(outer: &Outer, datagram: &[u8], frame: &mut Vec<u8>) {
    let udp_bytes = U16::from(u16::try_from(UDP + datagram.len()).expect("fits in a UDP packet"));
    let [from, to] = outer.mac;
    let traffic_class = outer.dscp << 2 | outer.ecn & 3;
    let udp = RawUdp {
        source: outer.source_port.into(),
        destination: outer.destination_port.into(),
        bytes: udp_bytes,
        checksum: 0.into(),
    };
    frame.clear();
    frame.extend_from_slice(&to);
    frame.extend_from_slice(&from);
    match (outer.source, outer.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let total = size_of::<RawIpv4>() + UDP + datagram.len();
            let ip = RawIpv4 {
                version_words: 0x45,
                traffic_class,
                total_bytes: u16::try_from(total).expect("fits in an IPv4 packet").into(),
                id: 0.into(),
                fragment: 0x4000.into(), // Never fragmented.
                hops_left: 64,
                protocol: UDP_PROTOCOL,
                checksum: 0.into(),
                source: source.octets(),
                destination: destination.octets(),
            };
            frame.extend_from_slice(&IPV4_TYPE.to_be_bytes());
            frame.extend_from_slice(ip.as_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let ip = RawIpv6 {
                version_class_label: [6 << 4 | traffic_class >> 4, traffic_class << 4, 0, 0],
                payload_bytes: udp_bytes,
                next_header: UDP_PROTOCOL,
                hops_left: 64,
                source: source.octets(),
                destination: destination.octets(),
            };
            frame.extend_from_slice(&IPV6_TYPE.to_be_bytes());
            frame.extend_from_slice(ip.as_bytes());
        }
        _ => panic!("IPv4 and IPv6 in one packet"),
    }
    let udp_at = frame.len();
    frame.extend_from_slice(udp.as_bytes());
    frame.extend_from_slice(datagram);
    fix_checksums(frame, ETHERNET, udp_at, outer.source.is_ipv6());
}

/// Trims a frame as our switch does: cuts it after the datagram's header, sets the datagram's flag,
/// gives it the service class and DSCP of control packets, and corrects lengths and checksums.
/// Returns its new length. Fails, without changing the frame, if it is none of ours.
pub fn trim_frame(frame: &mut [u8]) -> Result<usize, WireError> {
    let Found { outer, ip, udp, end, .. } = find(frame)?;
    let datagram = &mut frame[udp + UDP..end];
    let flags = Datagram::parse(datagram)?.envelope.flags.with(PacketFlags::TRIMMED);
    let header_bytes = set_flags(datagram, flags)?;
    let udp_bytes = (UDP + header_bytes) as u16;
    let end = udp + usize::from(udp_bytes);
    let traffic_class = dscp_of(Class::CONTROL) << 2 | outer.ecn;
    frame[udp + 4..udp + 6].copy_from_slice(&udp_bytes.to_be_bytes());
    if outer.source.is_ipv6() {
        frame[ip] = 6 << 4 | traffic_class >> 4;
        frame[ip + 1] = traffic_class << 4 | frame[ip + 1] & 15;
        frame[ip + 4..ip + 6].copy_from_slice(&udp_bytes.to_be_bytes());
    } else {
        frame[ip + 1] = traffic_class;
        frame[ip + 2..ip + 4].copy_from_slice(&((end - ip) as u16).to_be_bytes());
    }
    let has_checksum = frame[udp + 6..udp + 8] != [0, 0];
    fix_checksums(&mut frame[..end], ip, udp, has_checksum);
    Ok(end)
}

/// Writes the IPv4 header checksum and, if there is one, the UDP checksum of a frame that ends with
/// its datagram.
fn fix_checksums(frame: &mut [u8], ip: usize, udp: usize, has_udp_checksum: bool) {
    let is_ipv6 = frame[ip] >> 4 == 6;
    if !is_ipv6 {
        frame[ip + 10..ip + 12].fill(0);
        let sum = !ones_sum(&frame[ip..udp], 0);
        frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
    }
    frame[udp + 6..udp + 8].fill(0);
    if has_udp_checksum {
        let addresses = if is_ipv6 { ip + 8..ip + 40 } else { ip + 12..ip + 20 };
        let sum = udp_checksum(&frame[addresses], &frame[udp..]);
        frame[udp + 6..udp + 8].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The UDP checksum of a datagram whose checksum field is 0. `addresses` are the source and
/// destination of its IP header. It is never 0, which would mean that there is none.
pub fn udp_checksum(addresses: &[u8], datagram: &[u8]) -> u16 {
    let length = datagram.len() as u32;
    let pseudo = u32::from(ones_sum(addresses, 0)) + u32::from(UDP_PROTOCOL) + length;
    match !ones_sum(datagram, pseudo) {
        0 => 0xffff,
        sum => sum,
    }
}

/// The ones' complement sum of the bytes as 16-bit numbers, and of `start` (RFC 1071).
pub fn ones_sum(bytes: &[u8], start: u32) -> u16 {
    let (pairs, last) = bytes.as_chunks::<2>();
    let mut sum = u64::from(start);
    sum += pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum::<u64>();
    sum += last.first().map_or(0, |byte| u64::from(*byte) << 8);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
