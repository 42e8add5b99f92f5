//! The valid name nearest to a wrong one.

/// The candidate most similar to `wrong`, if one is similar enough.
pub fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |s: &str| s.to_lowercase().replace(['-', '_', ' '], "");
    let target = plain(wrong);
    candidates
        .into_iter()
        .map(|c| {
            let candidate = plain(c);
            let mut distance = strsim::damerau_levenshtein(&target, &candidate);
            // `search` is close to `web-search` whatever the edit distance.
            if target.len().min(candidate.len()) >= 3
                && (candidate.contains(&target) || target.contains(&candidate))
            {
                distance = distance.min(1);
            }
            (distance, c)
        })
        .filter(|(distance, c)| *distance <= (wrong.len().max(c.len()) / 3).max(1))
        // On a tie, prefer the same first letter: first letters are rarely mistyped.
        .min_by_key(|(distance, c)| (*distance, c.chars().next() != wrong.chars().next()))
        .map(|(_, c)| c)
}

/// Names as a list in a sentence: `a`, `b` or `c`.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|n| format!("`{n}`")).collect();
    match names.split_last() {
        None => "nothing".into(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names = ["senders", "receivers", "web-search", "size", "ndp", "tcp"];
        assert_eq!(nearest("sender", names), Some("senders"));
        assert_eq!(nearest("reciever", names), Some("receivers"));
        assert_eq!(nearest("websearch", names), Some("web-search"));
        assert_eq!(nearest("search", names), Some("web-search"));
        assert_eq!(nearest("sise", names), Some("size"));
        assert_eq!(nearest("ndb", names), Some("ndp"));
        assert_eq!(nearest("dtcp", ["tcp", "dctcp"]), Some("dctcp"));
        assert_eq!(nearest("quic", names), None);
        assert_eq!(nearest("hosts_per_rack", ["k"]), None);
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(list([]), "nothing");
        assert_eq!(list(["a"]), "`a`");
        assert_eq!(list(["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
