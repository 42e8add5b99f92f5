//! The CRC of the header.

/// CRC-16 with the CCITT polynomial, starting from all ones. It detects any three wrong bits in a
/// header.
pub(crate) fn crc16(parts: &[&[u8]]) -> u16 {
    parts
        .iter()
        .flat_map(|part| part.iter())
        .fold(0xffff, |crc, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc16__known_value() {
        // The check value of CRC-16/IBM-3740.
        assert_eq!(crc16(&[b"12345", b"6789"]), 0x29b1);
    }

    #[test]
    fn crc16__finds_any_two_wrong_bits() {
        let header = [0u8; 64];
        let good = crc16(&[&header]);
        for a in 0..512 {
            for b in a + 1..512 {
                let mut bad = header;
                bad[a / 8] ^= 1 << (a % 8);
                bad[b / 8] ^= 1 << (b % 8);
                assert_ne!(crc16(&[&bad]), good, "bits {a} and {b}");
            }
        }
    }
}
