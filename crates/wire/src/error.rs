//! What can be wrong with a datagram.

/// Why a datagram is not a packet. It is dropped and counted under its [name](WireError::name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// It ends inside the header.
    #[error("datagram of {0} bytes ends inside its header")]
    Short(usize),
    /// Its first byte is not ours.
    #[error("first byte {0:#04x} is not this protocol's")]
    Magic(u8),
    /// Its version is not ours.
    #[error("version {0} is not spoken here")]
    Version(u8),
    /// Its transport is not the one listening.
    #[error("transport number {0} does not listen here")]
    Transport(u8),
    /// Its transport's fields do not have the size they should.
    #[error("transport fields of {0} bytes do not have the right size")]
    FieldsSize(usize),
    /// Its header was damaged.
    #[error("header check does not match")]
    HeaderCheck,
    /// It carries more than its header says.
    #[error("{carried} bytes follow a header that announces {announced}")]
    Long {
        /// Bytes its header announces.
        announced: usize,
        /// Bytes after its header.
        carried: usize,
    },
    /// Its payload was damaged.
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
    /// Its name in counters.
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
