//! What a packet carries, told to observers.

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
        /// Of all data with a lower number.
        below: u64,
        /// And of the data with this number.
        named: Option<u64>,
    },
    /// Neither, or nothing that the transport tells.
    #[default]
    Other,
}
