//! Errors in datagrams.

/// Why a datagram is not a valid packet. The reader drops it and counts the [name](WireError::name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// It ends inside the header.
    #[error("datagram of {0} bytes ends inside its header")]
    Short(usize),
    /// Its first byte is wrong.
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
        /// Payload bytes that its header announces.
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
        }
    }
}
