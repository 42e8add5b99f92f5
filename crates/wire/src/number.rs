//! Numbers that are shorter on the wire than in memory.

/// The number nearest to `near` whose low 32 bits are `short`, as in RFC 1982.
///
/// It is the writer's number if that is less than 2³¹ away from `near`. Of two equally near numbers
/// it is the lower one. If one of them is below 0 or above 2⁶⁴ − 1, it is the other.
#[inline]
pub const fn widen(short: u32, near: u64) -> u64 {
    widen_from(short as u64, 32, near)
}

/// The number nearest to `near` whose low `bits` bits are `short`; `bits` is 1 to 63.
///
/// It is the writer's number if that is less than 2^(bits − 1) away from `near`. Ties and the ends
/// of the range are as for [`widen`].
#[inline]
pub const fn widen_from(short: u64, bits: u32, near: u64) -> u64 {
    let mask = (1 << bits) - 1;
    let ahead = short.wrapping_sub(near) & mask;
    let behind = ahead.wrapping_neg() & mask;
    let forward = near.checked_add(ahead);
    let backward = near.checked_sub(behind);
    match (forward, backward) {
        (Some(forward), Some(backward)) => {
            if ahead < behind {
                forward
            } else {
                backward
            }
        }
        (Some(only), None) | (None, Some(only)) => only,
        // 2⁶⁴ − 1 and 0 cannot both be less than 2^bits away.
        (None, None) => near,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn widen__around_every_kind_of_wrap() {
        for bits in [16, 24, 32, 48] {
            let wrap = 1u64 << bits;
            let short = |value: u64| value & (wrap - 1);
            assert_eq!(widen_from(wrap - 2, bits, wrap + 3), wrap - 2, "{bits} bits");
            assert_eq!(widen_from(5, bits, wrap - 2), wrap + 5, "{bits} bits");
            assert_eq!(widen_from(5, bits, 3 * wrap + 4), 3 * wrap + 5, "{bits} bits");
            assert_eq!(widen_from(0, bits, wrap - 1), wrap, "{bits} bits");
            // Just within reach, on both sides.
            let value = 7 * wrap + 9;
            for near in [value - wrap / 2 + 1, value + wrap / 2 - 1] {
                assert_eq!(widen_from(short(value), bits, near), value, "{bits} bits");
            }
            // Out of reach by one: the nearer number, which is another.
            assert_eq!(widen_from(short(value), bits, value + wrap / 2 + 1), value + wrap);
        }
    }

    #[test]
    fn widen__at_the_ends() {
        assert_eq!(widen(0xffff_ffff, 0), 0xffff_ffff);
        assert_eq!(widen(0, 0), 0);
        assert_eq!(widen(0, u64::MAX), u64::MAX - 0xffff_ffff);
        assert_eq!(widen(7, 7), 7);
        assert_eq!(widen_from(0xff_ffff, 24, 0), 0xff_ffff);
        assert_eq!(widen_from(0, 24, u64::MAX), u64::MAX - 0xff_ffff);
    }

    proptest! {
        #[test]
        fn widen__restores_what_is_near(value: u64, distance in -(1i64 << 31) + 1..1 << 31) {
            if let Some(near) = value.checked_add_signed(distance) {
                prop_assert_eq!(widen(value as u32, near), value);
            }
        }

        #[test]
        fn widen_from__restores_what_is_near(value: u64, bits in 2u32..63, part: i64) {
            let distance = part % (1i64 << (bits - 1));
            if let Some(near) = value.checked_add_signed(distance) {
                prop_assert_eq!(widen_from(value & ((1 << bits) - 1), bits, near), value);
            }
        }

        #[test]
        fn widen__keeps_the_low_bits(short: u32, near: u64) {
            prop_assert_eq!(widen(short, near) as u32, short);
        }
    }
}
