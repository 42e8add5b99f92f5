//! Checks that the tests of several transports share.

/// Asserts that `rules.md` and the tests of a transport agree: each row names its tests, each test
/// named exists in `sources`, and each test whose name starts with one of `prefixes` is named.
pub(crate) fn assert_rules_match(prefixes: &[&str], rules: &str, sources: &[&str]) {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let tests: Vec<&str> = sources
        .iter()
        .flat_map(|source| source.split("fn ").skip(1))
        .map(|text| text.split(|c| !is_name(c)).next().unwrap_or_default())
        .collect();
    let mut rows = 0;
    let is_rule = |line: &&str| line.split('|').nth(1).is_some_and(|id| id.contains("-R"));
    for row in rules.lines().filter(is_rule) {
        let column = row.split('|').nth(4).unwrap_or_default().trim();
        assert!(!column.is_empty(), "no test in {row}");
        for name in column.split('`').skip(1).step_by(2) {
            assert!(tests.contains(&name), "{name} is no test");
        }
        rows += 1;
    }
    assert!(rows > 0, "no rows in rules.md");
    for name in tests.iter().filter(|name| prefixes.iter().any(|p| name.starts_with(p))) {
        assert!(rules.contains(&format!("`{name}`")), "{name} is in no row of rules.md");
    }
}
