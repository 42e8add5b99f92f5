//! How many cases a property test runs.

/// The number of cases for a property test: `PROPTEST_CASES`, or `default` if it is not set.
///
/// proptest itself reads that variable only for tests that do not choose a number. With
/// `ProptestConfig::with_cases(cases(96))`, `cargo xtask swarm` can run more cases.
pub fn cases(default: u32) -> u32 {
    chosen(std::env::var("PROPTEST_CASES").ok().as_deref(), default)
}

fn chosen(variable: Option<&str>, default: u32) -> u32 {
    variable.and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen__the_default_unless_a_number_is_given() {
        assert_eq!(chosen(None, 96), 96);
        assert_eq!(chosen(Some("100000"), 96), 100_000);
        assert_eq!(chosen(Some("many"), 96), 96);
    }
}
