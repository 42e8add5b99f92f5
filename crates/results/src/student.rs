//! Student's t distribution.

/// The largest quantile that is computed. With one degree of freedom it is that of an alpha of
/// 6e-13.
const T_MAX: f64 = (1u64 << 40) as f64;

/// The value that |t| exceeds with probability `alpha`, for any number of degrees of freedom.
/// The interval of a mean with confidence 1 − `alpha` is this many standard errors to each side.
pub(crate) fn t_quantile(alpha: f64, freedom: f64) -> f64 {
    // Bisection, down to the last bit.
    let (mut low, mut high) = (0.0, T_MAX);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if tail(middle, freedom) > alpha {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The probability that |T| is above `t`: I_x(ν/2, 1/2) with x = ν / (ν + t²).
fn tail(t: f64, freedom: f64) -> f64 {
    let both = freedom + t * t;
    incomplete_beta(freedom / both, t * t / both, freedom / 2.0, 0.5)
}

/// The regularised incomplete beta function I_x(a, b); `rest` is 1 − x without rounding.
fn incomplete_beta(x: f64, rest: f64, a: f64, b: f64) -> f64 {
    let logarithm = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b)
        + a * libm::log(x)
        + b * libm::log(rest);
    let front = libm::exp(logarithm);
    // The continued fraction converges fast on this side of the mean, its mirror on the other.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * continued_fraction(x, a, b) / a
    } else {
        1.0 - front * continued_fraction(rest, b, a) / b
    }
}

/// The continued fraction of the incomplete beta function, evaluated by Lentz's method.
fn continued_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let not_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / not_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut product = d;
    for m in 1..500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / not_zero(1.0 + even * d);
        c = not_zero(1.0 + even / c);
        product *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / not_zero(1.0 + odd * d);
        c = not_zero(1.0 + odd / c);
        let factor = d * c;
        product *= factor;
        if (factor - 1.0).abs() < 1e-15 {
            break;
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two-sided 95 % and 99 % quantiles as tables of the distribution print them.
    #[test]
    fn quantiles_are_those_of_printed_tables() {
        let printed = [
            (1.0, 12.706, 63.657),
            (2.0, 4.303, 9.925),
            (4.0, 2.776, 4.604),
            (10.0, 2.228, 3.169),
            (29.0, 2.045, 2.756),
            (30.0, 2.042, 2.750),
            (40.0, 2.021, 2.704),
            (60.0, 2.000, 2.660),
            (120.0, 1.980, 2.617),
            (1e7, 1.960, 2.576),
        ];
        for (freedom, at_95, at_99) in printed {
            assert!((t_quantile(0.05, freedom) - at_95).abs() < 6e-4, "{freedom}");
            assert!((t_quantile(0.01, freedom) - at_99).abs() < 6e-4, "{freedom}");
        }
    }

    #[test]
    fn one_degree_of_freedom_is_the_cauchy_distribution() {
        // P(|T| > t) = 1 − 2/π · atan(t).
        for t in [0.0, 1e-6, 1e-3, 0.1, 1.0, 3.0, 50.0] {
            let expected = 1.0 - std::f64::consts::FRAC_2_PI * f64::atan(t);
            assert!((tail(t, 1.0) - expected).abs() < 1e-12, "{t}");
        }
        // Far out, 1 − 2/π · atan(t) = 2/π · atan(1/t), to a relative precision.
        for t in [1e2, 1e4, 1e8] {
            let expected = std::f64::consts::FRAC_2_PI * f64::atan(1.0 / t);
            assert!((tail(t, 1.0) / expected - 1.0).abs() < 1e-9, "{t}");
        }
    }

    #[test]
    fn quantiles_fall_with_freedom_and_rise_with_confidence() {
        for freedom in 1..200 {
            let freedom = f64::from(freedom);
            assert!(t_quantile(0.05, freedom) > t_quantile(0.05, freedom + 1.0));
            assert!(t_quantile(0.05 / 3.0, freedom) > t_quantile(0.05, freedom));
        }
    }
}
