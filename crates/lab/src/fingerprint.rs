//! A number that changes when anything a run depends on changes.

use std::fmt::{self, Debug, Write};

/// 64-bit FNV-1a over whatever is written into it.
struct Fnv(u64);

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        Ok(())
    }
}

/// The set-up and this program's version in one number. The set-up holds everything a run depends
/// on, the contents of files that a scenario names included.
pub fn fingerprint(setup: &impl Debug) -> String {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    write!(hash, "{} {setup:?}", env!("CARGO_PKG_VERSION")).expect("hashing does not fail");
    format!("{:016x}", hash.0)
}
