//! Errors in datagrams and frames.

/// Why a datagram or a frame is not a valid packet. The reader drops it and counts the
/// [name](WireError::name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// It ends inside the header.
    #[error("datagram of {0} bytes ends inside its header")]
    Short(usize),
    /// Its first four bits are wrong.
    #[error("the first byte is {0:#04x}, so the datagram is not of this protocol")]
    Magic(u8),
    /// Its version is not supported.
    #[error("version {0} of the protocol is not supported")]
    Version(u8),
    /// It belongs to another transport.
    #[error("the datagram is for transport number {0}, which does not run here")]
    Transport(u8),
    /// Its transport's fields have the wrong size.
    #[error("transport fields of {0} bytes have the wrong size")]
    FieldsSize(usize),
    /// Its header is corrupt.
    #[error("header check does not match")]
    HeaderCheck,
    /// It carries more payload than its header says.
    #[error("{carried} bytes follow a header that announces {announced}")]
    Long {
        /// Bytes that its header announces: payload, and its tag in keyed mode.
        announced: usize,
        /// Bytes after its header.
        carried: usize,
    },
    /// Its payload is corrupt.
    #[error("payload check does not match")]
    PayloadCheck,
    /// Its transport has no such kind of packet.
    #[error("packet kind {0} is unknown")]
    Kind(u8),
    /// Its kind and its payload, flags or direction contradict each other.
    #[error("packet kind {0} contradicts the rest of its header")]
    Contradiction(u8),
    /// The capture cut it, not a switch: its payload is unknown.
    #[error("the capture has {captured} of the frame's {sent} bytes")]
    CaptureCut {
        /// Bytes in the capture.
        captured: usize,
        /// Bytes of the frame on the link.
        sent: usize,
    },
    /// The frame ends inside its Ethernet, IP or UDP header.
    #[error("frame of {0} bytes ends inside its Ethernet, IP or UDP header")]
    FrameShort(usize),
    /// The frame carries neither IPv4 nor IPv6.
    #[error("frame of EtherType {0:#06x} carries no IP packet")]
    EtherType(u16),
    /// The IP header contradicts itself.
    #[error("the IP header contradicts itself")]
    IpHeader,
    /// The IPv4 header is corrupt.
    #[error("IPv4 header checksum does not match")]
    IpChecksum,
    /// It is a fragment of an IP packet.
    #[error("the IP packet is a fragment")]
    Fragment,
    /// The IP packet does not carry UDP.
    #[error("the IP packet carries protocol {0}, not UDP")]
    Protocol(u8),
    /// The UDP header contradicts itself.
    #[error("the UDP header contradicts itself")]
    UdpHeader,
}

impl WireError {
    /// The name of the error in counters.
    pub fn name(&self) -> &'static str {
        match self {
            WireError::Short(_) => "short",
            WireError::Magic(_) => "magic",
            WireError::Version(_) => "version",
            WireError::Transport(_) => "transport",
            WireError::FieldsSize(_) => "fields_size",
            WireError::HeaderCheck => "header_check",
            WireError::Long { .. } => "long",
            WireError::PayloadCheck => "payload_check",
            WireError::Kind(_) => "kind",
            WireError::Contradiction(_) => "contradiction",
            WireError::CaptureCut { .. } => "capture_cut",
            WireError::FrameShort(_) => "frame_short",
            WireError::EtherType(_) => "ether_type",
            WireError::IpHeader => "ip_header",
            WireError::IpChecksum => "ip_checksum",
            WireError::Fragment => "fragment",
            WireError::Protocol(_) => "protocol",
            WireError::UdpHeader => "udp_header",
        }
    }
}
