//! What a packet carries, for observers that cannot read its header.

/// What a packet carries or acknowledges, as its transport reads its header.
///
/// Data are numbered in a unit of the transport's own, bytes or packets, such that numbers increase
/// in the order in which a flow's data are sent for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Content {
    /// Data with this number.
    Data(u64),
    /// An acknowledgement.
    Ack {
        /// All data with a lower number are acknowledged.
        below: u64,
        /// The data with this number are acknowledged too.
        named: Option<u64>,
    },
    /// Neither, or the transport does not say.
    #[default]
    Other,
}
