//! Numbers that are shorter on the wire than in memory.

/// The number nearest to `near` whose low 32 bits are `short`, as in RFC 1982.
///
/// It is the writer's number if that is less than 2³¹ away from `near`. Of two equally near numbers
/// it is the lower one. If one of them is below 0 or above 2⁶⁴ − 1, it is the other.
#[inline]
pub const fn widen(short: u32, near: u64) -> u64 {
    let ahead = short.wrapping_sub(near as u32);
    let behind = ahead.wrapping_neg();
    let forward = near.checked_add(ahead as u64);
    let backward = near.checked_sub(behind as u64);
    match (forward, backward) {
        (Some(forward), Some(backward)) => {
            if ahead < behind {
                forward
            } else {
                backward
            }
        }
        (Some(only), None) | (None, Some(only)) => only,
        // 2⁶⁴ − 1 and 0 cannot both be less than 2³² away.
        (None, None) => near,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn widen__around_a_wrap() {
        let wrap = 1u64 << 32;
        assert_eq!(widen(0xffff_fffe, wrap + 3), wrap - 2);
        assert_eq!(widen(5, wrap - 2), wrap + 5);
        assert_eq!(widen(5, 3 * wrap + 4), 3 * wrap + 5);
        assert_eq!(widen(0, wrap - 1), wrap);
    }

    #[test]
    fn widen__at_the_ends() {
        assert_eq!(widen(0xffff_ffff, 0), 0xffff_ffff);
        assert_eq!(widen(0, 0), 0);
        assert_eq!(widen(0, u64::MAX), u64::MAX - 0xffff_ffff);
        assert_eq!(widen(7, 7), 7);
    }

    proptest! {
        #[test]
        fn widen__restores_what_is_near(value: u64, distance in -(1i64 << 31) + 1..1 << 31) {
            if let Some(near) = value.checked_add_signed(distance) {
                prop_assert_eq!(widen(value as u32, near), value);
            }
        }

        #[test]
        fn widen__keeps_the_low_bits(short: u32, near: u64) {
            prop_assert_eq!(widen(short, near) as u32, short);
        }
    }
}
