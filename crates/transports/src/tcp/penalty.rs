//! α to the power of d, in integers: two small tables and straight lines between their entries.
//!
//! p = α^d = 2^(d · log2 α). Both tables hold 256 intervals, which keeps p within 5e-6 of the
//! real value for every α and every d from 0.25 to 4 (D2TCP-R02).

use super::Fraction;

/// D2TCP's deadline imminence d, as a multiple of 2⁻¹⁶.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Imminence(u32);

impl Imminence {
    /// Bits after the binary point.
    pub const BITS: u32 = 16;
    /// d of a flow without deadline.
    pub const ONE: Imminence = Imminence(1 << Self::BITS);
    /// The least for which [`power`] is accurate: 0.25.
    pub const LEAST: Imminence = Imminence(1 << (Self::BITS - 2));
    /// The greatest for which [`power`] is accurate: 4.
    pub const MOST: Imminence = Imminence(4 << Self::BITS);

    /// From a real number, to the nearest multiple; held within 0.25 and 4.
    pub fn from_f64(value: f64) -> Self {
        Imminence((value * f64::from(Self::ONE.0) + 0.5) as u32).clamp(Self::LEAST, Self::MOST)
    }

    /// `numerator / denominator`, rounded down; held within `least` and `most`. The numerator
    /// must be below 2¹¹².
    pub(super) fn of(numerator: u128, denominator: u128, least: Self, most: Self) -> Self {
        let quotient = (numerator << Self::BITS).checked_div(denominator).unwrap_or(u128::MAX);
        Imminence(u32::try_from(quotient).unwrap_or(u32::MAX)).clamp(least, most)
    }

    /// As a real number, exactly.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ONE.0)
    }

    /// The number of multiples of 2⁻¹⁶.
    pub const fn bits(self) -> u32 {
        self.0
    }
}

/// Each table divides its range into 2⁸ intervals.
const INDEX_BITS: u32 = 8;
const INTERVALS: usize = 1 << INDEX_BITS;
/// Bits after the binary point of what the tables hold.
const TABLE_BITS: u32 = 30;
/// Bits after the binary point while the tables are made.
const FINE_BITS: u32 = 60;

/// log2(1 + i/256).
static LOG2: [u32; INTERVALS + 1] = log2_table();
/// 2^(i/256).
static EXP2: [u32; INTERVALS + 1] = exp2_table();

/// The tables of [`power`], log2(1 + i/256) and 2^(i/256), as multiples of 2⁻³⁰. The kernel's D2TCP
/// is built with them.
pub fn power_tables() -> [&'static [u32; INTERVALS + 1]; 2] {
    [&LOG2, &EXP2]
}

const fn rounded(fine: u128) -> u32 {
    ((fine + (1 << (FINE_BITS - TABLE_BITS - 1))) >> (FINE_BITS - TABLE_BITS)) as u32
}

const fn log2_table() -> [u32; INTERVALS + 1] {
    let mut table = [0; INTERVALS + 1];
    let mut i = 0;
    while i < INTERVALS {
        // Squaring doubles the logarithm: each time it passes 1, that is a digit.
        let mut x = (1u128 << FINE_BITS) + ((i as u128) << (FINE_BITS - INDEX_BITS));
        let mut log = 0u128;
        let mut digit = 0;
        while digit < 40 {
            x = (x * x) >> FINE_BITS;
            log <<= 1;
            if x >= 2 << FINE_BITS {
                x >>= 1;
                log |= 1;
            }
            digit += 1;
        }
        table[i] = rounded(log << (FINE_BITS - 40));
        i += 1;
    }
    table[INTERVALS] = 1 << TABLE_BITS;
    table
}

const fn exp2_table() -> [u32; INTERVALS + 1] {
    // roots[k] = 2^(2^-(k+1))
    let mut roots = [0u128; INDEX_BITS as usize];
    let mut root = 2u128 << FINE_BITS;
    let mut k = 0;
    while k < roots.len() {
        root = (root << FINE_BITS).isqrt();
        roots[k] = root;
        k += 1;
    }
    let mut table = [0; INTERVALS + 1];
    let mut i = 0;
    while i < INTERVALS {
        let mut product = 1u128 << FINE_BITS;
        let mut k = 0;
        while k < roots.len() {
            if i & (INTERVALS >> (k + 1)) != 0 {
                product = (product * roots[k]) >> FINE_BITS;
            }
            k += 1;
        }
        table[i] = rounded(product);
        i += 1;
    }
    table[INTERVALS] = 2 << TABLE_BITS;
    table
}

/// The table's value at `x`, a fraction of its range with `TABLE_BITS` bits, on a straight line
/// between entries.
fn interpolate(table: &[u32; INTERVALS + 1], x: u32) -> u64 {
    const STEP_BITS: u32 = TABLE_BITS - INDEX_BITS;
    let index = (x >> STEP_BITS) as usize;
    let within = u64::from(x & ((1 << STEP_BITS) - 1));
    let (low, high) = (u64::from(table[index]), u64::from(table[index + 1]));
    low + (((high - low) * within) >> STEP_BITS)
}

/// α^d. Exactly α for d = 1, 0 for α = 0 and 1 for α = 1. D2TCP-R02.
pub fn power(alpha: Fraction, d: Imminence) -> Fraction {
    if d == Imminence::ONE || alpha == Fraction::ZERO || alpha >= Fraction::ONE {
        return alpha;
    }
    // α = mantissa · 2^(top − 20), the mantissa from 1 to below 2.
    let top = alpha.bits().ilog2();
    let mantissa = alpha.bits() << (TABLE_BITS - top);
    let log = interpolate(&LOG2, mantissa - (1 << TABLE_BITS));
    // −log2 α, above 0 and at most 20.
    let minus_log = (u64::from(Fraction::BITS - top) << TABLE_BITS) - log;
    // At most 80, with 30 bits after the point.
    let exponent = (minus_log * u64::from(d.bits())) >> Imminence::BITS;
    let (whole, rest) = ((exponent >> TABLE_BITS) as u32, exponent & ((1 << TABLE_BITS) - 1));
    // 2^−(whole + rest) = 2^(1 − rest) / 2^(whole + 1)
    let (scale, shift) = match rest {
        0 => (1 << TABLE_BITS, whole),
        rest => (interpolate(&EXP2, (1 << TABLE_BITS) - rest as u32), whole + 1),
    };
    let shift = shift + TABLE_BITS - Fraction::BITS;
    let bits = if shift >= 64 { 0 } else { (scale + (1 << (shift - 1))) >> shift };
    Fraction::from_bits(bits as u32)
}
