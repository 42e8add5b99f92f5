//! Where each field is in its header: the source of the tables in docs/wire.md, which the Wireshark
//! dissector is compared with too.

/// A field of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLayout {
    /// Its name.
    pub name: &'static str,
    /// Its first byte, from the beginning of its header or of its transport's fields.
    pub at: usize,
    /// Number of bytes.
    pub bytes: usize,
    /// The bits of those bytes that it has, where it shares them; else 0.
    pub mask: u32,
    /// What it means.
    pub meaning: &'static str,
}

impl FieldLayout {
    /// A field of whole bytes.
    pub const fn new(
        name: &'static str,
        at: usize,
        bytes: usize,
        meaning: &'static str,
    ) -> FieldLayout {
        FieldLayout { name, at, bytes, mask: 0, meaning }
    }

    /// A field that shares its bytes.
    pub const fn bits(
        name: &'static str,
        at: usize,
        bytes: usize,
        mask: u32,
        meaning: &'static str,
    ) -> FieldLayout {
        FieldLayout { name, at, bytes, mask, meaning }
    }

    /// The value of the field in a header.
    ///
    /// # Panics
    ///
    /// If the header ends before the field.
    pub fn value(&self, header: &[u8]) -> u64 {
        let bytes = &header[self.at..self.at + self.bytes];
        let value = bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        match self.mask {
            0 => value,
            mask => (value & u64::from(mask)) >> mask.trailing_zeros(),
        }
    }
}
