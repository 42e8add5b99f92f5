//! Dotted paths, as in `--set a.b=c` and the keys of `[sweep]`.

use super::node::{Entry, Kind, Node, Table, parse_value};
use crate::diagnostic::Diagnostic;
use crate::source::Sources;
use crate::suggest;
use std::ops::Range;

/// Applies `a.b=c` and returns the span of its key.
///
/// The value is TOML; a text such as `10Gbps` needs no quotes.
pub(crate) fn set(
    root: &mut Table,
    sources: &mut Sources,
    text: &str,
) -> Result<Range<usize>, Diagnostic> {
    let start = sources.add("--set", text);
    let Some(equals) = text.find('=') else {
        return Err(Diagnostic::new(format!("--set {text}: no value"))
            .at(start..start + text.len())
            .help("write a key, an equals sign and a value, such as --set network.rate=40Gbps"));
    };
    let value = text[equals + 1..].trim();
    let value_start = start + text.len() - text[equals + 1..].trim_start().len();
    let value = match parse_value(value, value_start) {
        Ok(value) => value,
        Err(_) if is_whole(value) => {
            return Err(Diagnostic::new(format!("{value} is too large"))
                .at(value_start..value_start + value.len())
                .help(format!("whole numbers go up to {}", i64::MAX)));
        }
        // A bare word is a text. An incomplete list, table or quoted text is a mistake.
        Err(e) if value.is_empty() || value.starts_with(['[', '{', '"', '\'']) => return Err(e),
        Err(_) => Node {
            span: value_start..value_start + value.len(),
            kind: Kind::Text(value.to_owned()),
        },
    };
    let at = start..start + equals;
    set_path(root, text[..equals].trim(), at.clone(), value)?;
    Ok(at)
}

/// Whether a text is a whole number, of any size.
fn is_whole(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']);
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '_')
}

/// Sets the value at a dotted path; `at` is the span of the path.
pub(crate) fn set_path(
    root: &mut Table,
    path: &str,
    at: Range<usize>,
    value: Node,
) -> Result<(), Diagnostic> {
    let segments = segments_of(path);
    if segments.iter().any(|s| s.is_empty()) {
        return Err(Diagnostic::new(format!("`{path}` is not a dotted key")).at(at));
    }
    put(root, &segments, &at, value).map_err(|d| d.at(at.clone()))
}

fn segments_of(path: &str) -> Vec<&str> {
    path.split('.').map(|s| s.trim().trim_matches('"')).collect()
}

/// The number of leading segments that form a key of the table.
///
/// A quoted key may contain dots, as those of `[sweep]` do: the longest match wins.
fn longest_key(table: &Table, segments: &[&str]) -> Option<usize> {
    (1..=segments.len()).rev().find(|n| table.get(&segments[..*n].join(".")).is_some())
}

/// Finds the value at a path like [`set_path`], and its full path with list indices.
pub(crate) fn resolve<'a>(root: &'a Table, path: &str) -> Option<(String, &'a Node)> {
    let segments = segments_of(path);
    let mut rest = &segments[..];
    let mut table = root;
    let mut full = Vec::new();
    loop {
        let (key, after) = rest.split_at(longest_key(table, rest)?);
        let key = key.join(".");
        let mut node = table.get(&key)?;
        rest = after;
        full.push(key.clone());
        if let (Kind::List(items), false) = (&node.kind, rest.is_empty()) {
            let (index, after) = choose(items, &key, rest).ok()?;
            node = &items[index];
            let used = rest.len() - after.len();
            rest = &rest[used..];
            full.push(index.to_string());
        }
        if rest.is_empty() {
            return Some((full.join("."), node));
        }
        table = node.table()?;
    }
}

/// All scalar values of a tree with their shortest paths, those in lists of scalars excluded.
pub(crate) fn leaves(root: &Table) -> Vec<(String, &Node)> {
    fn walk<'a>(root: &Table, prefix: &str, table: &'a Table, out: &mut Vec<(String, &'a Node)>) {
        for entry in &table.entries {
            let path = format!("{prefix}{}", entry.key);
            match &entry.value.kind {
                Kind::Table(inner) => walk(root, &format!("{path}."), inner, out),
                Kind::List(items) => {
                    for (i, item) in items.iter().enumerate() {
                        let Kind::Table(inner) = &item.kind else { continue };
                        let mut own = Vec::new();
                        walk(root, &format!("{path}.{i}."), inner, &mut own);
                        let short = |(long, node): (String, &'a Node)| {
                            let tail = &long[format!("{path}.{i}.").len()..];
                            let short = format!("{path}.{tail}");
                            let same = resolve(root, &short).is_some_and(|(full, _)| full == long);
                            (if same { short } else { long }, node)
                        };
                        out.extend(own.into_iter().map(short));
                    }
                }
                _ => out.push((path, &entry.value)),
            }
        }
    }
    let mut out = Vec::new();
    walk(root, "", root, &mut out);
    out
}

fn put(
    table: &mut Table,
    segments: &[&str],
    at: &Range<usize>,
    value: Node,
) -> Result<(), Diagnostic> {
    let known = longest_key(table, segments);
    let (key, rest) = segments.split_at(known.unwrap_or(1));
    let key = key.join(".");
    let entry = |value| Entry { key: key.clone(), key_span: at.clone(), value };
    if rest.is_empty() {
        table.put(entry(value));
        return Ok(());
    }
    if known.is_none() {
        table.put(entry(Node { span: at.clone(), kind: Kind::Table(Table::default()) }));
    }
    match &mut table.get_mut(&key).expect("just found or put").kind {
        Kind::Table(inner) => put(inner, rest, at, value),
        Kind::List(items) => {
            let (index, rest) = choose(items, &key, rest)?;
            match &mut items[index].kind {
                Kind::Table(inner) if !rest.is_empty() => put(inner, rest, at, value),
                _ => Err(Diagnostic::new(format!("`{key}.{index}` is not a single value"))),
            }
        }
        _ => Err(Diagnostic::new(format!("`{key}` is a single value and holds no keys"))),
    }
}

/// Selects the element of an array of tables that a path names: by number, by its `name`, or as the
/// only one that has the key.
fn choose<'s>(
    items: &[Node],
    key: &str,
    rest: &'s [&'s str],
) -> Result<(usize, &'s [&'s str]), Diagnostic> {
    if let Ok(index) = rest[0].parse::<usize>() {
        if index < items.len() {
            return Ok((index, &rest[1..]));
        }
        let help = format!("`{key}` has {} entries, counted from 0", items.len());
        return Err(Diagnostic::new(format!("there is no `{key}.{index}`")).help(help));
    }
    let has = |item: &Node, key: &str| item.table().is_some_and(|t| t.get(key).is_some());
    let name = |item: &Node| item.table().and_then(|t| t.get("name")?.text().map(str::to_owned));
    if rest.len() > 1
        && let Some(index) = items.iter().position(|i| name(i).as_deref() == Some(rest[0]))
    {
        return Ok((index, &rest[1..]));
    }
    let with_key: Vec<usize> = (0..items.len()).filter(|&i| has(&items[i], rest[0])).collect();
    match with_key[..] {
        [index] => Ok((index, rest)),
        [] if items.len() == 1 => Ok((0, rest)),
        _ => {
            let choices: Vec<String> = (0..items.len())
                .filter(|i| with_key.is_empty() || with_key.contains(i))
                .map(|i| format!("{key}.{i}.{}", rest.join(".")))
                .collect();
            let message = match with_key.len() {
                0 => format!("no entry of `{key}` has `{}`", rest[0]),
                n => format!("{n} entries of `{key}` have `{}`", rest[0]),
            };
            let choices = suggest::list(choices.iter().map(String::as_str));
            Err(Diagnostic::new(message).help(format!("write {choices}")))
        }
    }
}

/// The span of the value at a dotted path, or of the nearest table above it.
pub(crate) fn span_of(root: &Table, path: &str) -> Option<Range<usize>> {
    let mut found = None;
    let mut here: Option<&Node> = None;
    for segment in path.split('.') {
        let next = match here.map(|n| &n.kind) {
            None => root.get(segment),
            Some(Kind::Table(table)) => table.get(segment),
            Some(Kind::List(items)) => segment.parse().ok().and_then(|i: usize| items.get(i)),
            Some(_) => None,
        };
        let Some(next) = next else { break };
        found = Some(next.span.clone());
        here = Some(next);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::parse;

    const TEXT: &str = "
[network]
rate = '10Gbps'
[[traffic]]
name = 'queries'
senders = 4
[[traffic]]
name = 'background'
load = 0.5
[sweep]
'traffic.senders' = [1, 2]
";

    fn value(set_to: &[&str], path: &str) -> Result<String, String> {
        let mut sources = Sources::new("a.toml", TEXT);
        let mut table = parse(TEXT, 0).unwrap();
        for text in set_to {
            set(&mut table, &mut sources, text).map_err(|d| d.message)?;
        }
        let place = sources.place(&span_of(&table, path).unwrap()).clone();
        Ok(place.text[place.range.clone()].to_owned())
    }

    #[test]
    fn values_are_typed_as_toml_and_bare_words_are_text() {
        assert_eq!(value(&[], "network.rate").unwrap(), "'10Gbps'");
        assert_eq!(value(&["network.rate=40Gbps"], "network.rate").unwrap(), "40Gbps");
        assert_eq!(value(&["network.k = 4"], "network.k").unwrap(), "4");
        assert!(value(&["network.k"], "network").unwrap_err().contains("no value"));
        assert!(value(&["network.k=[1"], "network").is_err());
        assert!(value(&["network..k=1"], "network").is_err());
        assert!(value(&["network.rate.x=1"], "network").unwrap_err().contains("single value"));
    }

    #[test]
    fn entries_of_a_list_go_by_number_name_or_key() {
        assert_eq!(value(&["traffic.1.load=0.7"], "traffic.1.load").unwrap(), "0.7");
        assert_eq!(value(&["traffic.background.load=0.7"], "traffic.1.load").unwrap(), "0.7");
        assert_eq!(value(&["traffic.senders=40"], "traffic.0.senders").unwrap(), "40");
        assert!(value(&["traffic.2.load=1"], "traffic").unwrap_err().contains("no `traffic.2`"));
        assert!(value(&["traffic.name=x"], "traffic").unwrap_err().contains("2 entries"));
        assert!(value(&["traffic.size=x"], "traffic").unwrap_err().contains("no entry"));
    }

    #[test]
    fn resolve_finds_the_value_that_set_path_sets() {
        let table = parse(TEXT, 0).unwrap();
        let found = |path| resolve(&table, path).map(|(full, node)| format!("{full}={node}"));
        assert_eq!(found("traffic.senders").unwrap(), "traffic.0.senders=4");
        assert_eq!(found("traffic.background.load").unwrap(), "traffic.1.load=0.5");
        assert_eq!(found("network.rate").unwrap(), "network.rate=10Gbps");
        assert_eq!(found("traffic.name"), None);
        assert_eq!(found("network.rate.x"), None);
        assert_eq!(found("network.k"), None);
        let paths: Vec<String> = leaves(&table).into_iter().map(|(path, _)| path).collect();
        let expected = "network.rate traffic.0.name traffic.senders traffic.1.name traffic.load";
        assert_eq!(paths.join(" "), expected);
    }

    #[test]
    fn keys_with_dots_are_found() {
        let mut sources = Sources::new("a.toml", TEXT);
        let mut table = parse(TEXT, 0).unwrap();
        set(&mut table, &mut sources, "sweep.traffic.senders=[7]").unwrap();
        let sweep = table.get("sweep").unwrap().table().unwrap();
        assert_eq!(sweep.entries.len(), 1);
        assert_eq!(sweep.get("traffic.senders").unwrap().to_string(), "[7]");
    }
}
