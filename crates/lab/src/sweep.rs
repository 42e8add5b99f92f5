//! `[sweep]`: every combination of the values given for some keys.

use crate::diagnostic::Diagnostic;
use crate::document::{Entry, Kind, Node, Table, resolve, set_path};
use std::ops::Range;

/// One key that varies.
struct Axis {
    path: String,
    at: Range<usize>,
    values: Vec<Node>,
}

/// What distinguishes one point of a sweep: key and value, in the order of the file.
pub type Labels = Vec<(String, String)>;

/// The scenario's trees, one for each point of its sweep; the first key varies slowest. One tree
/// without labels when there is no sweep.
pub(crate) fn expand(root: &Table) -> Result<Vec<(Labels, Table)>, Vec<Diagnostic>> {
    let mut base = root.clone();
    let Some(sweep) = base.remove("sweep") else { return Ok(vec![(Vec::new(), base)]) };
    let Some(table) = sweep.value.table() else {
        let message = "`sweep` is a table: write [sweep] and its keys below";
        return Err(vec![Diagnostic::new(message).at(sweep.value.span)]);
    };
    let mut axes = Vec::new();
    collect(table, "", &mut axes).map_err(|e| vec![e])?;
    let mut points = vec![(Vec::new(), base)];
    for axis in &axes {
        let mut next = Vec::with_capacity(points.len() * axis.values.len());
        for (labels, tree) in &points {
            for value in &axis.values {
                let mut tree = tree.clone();
                set_path(&mut tree, &axis.path, axis.at.clone(), value.clone())
                    .map_err(|e| vec![e])?;
                let mut labels: Labels = labels.clone();
                labels.push((axis.path.clone(), value.to_string()));
                next.push((labels, tree));
            }
        }
        points = next;
    }
    Ok(points)
}

/// The tree with a single value for one key in its sweep, in the place of the key's own values
/// there, however it was spelt, or else after all others.
pub(crate) fn with_axis(
    root: &Table,
    path: &str,
    at: Range<usize>,
    value: Node,
) -> Result<Table, Vec<Diagnostic>> {
    let mut axes = Vec::new();
    if let Some(table) = root.get("sweep").and_then(Node::table) {
        collect(table, "", &mut axes).map_err(|e| vec![e])?;
    }
    let place = |path: &str| resolve(root, path).map(|(place, _)| place);
    let same = |axis: &Axis| axis.path == path || place(&axis.path) == place(path);
    let own = Axis { path: path.to_owned(), at: at.clone(), values: vec![value] };
    match axes.iter().position(same) {
        Some(i) => axes[i] = own,
        None => axes.push(own),
    }
    let list = |values| Node { span: at.clone(), kind: Kind::List(values) };
    let entry = |a: Axis| Entry { key: a.path, key_span: a.at, value: list(a.values) };
    let sweep = Table { entries: axes.into_iter().map(entry).collect() };
    let mut tree = root.clone();
    let value = Node { span: at.clone(), kind: Kind::Table(sweep) };
    tree.put(Entry { key: "sweep".into(), key_span: at.clone(), value });
    Ok(tree)
}

/// Keys may be written `"traffic.senders" = [...]` or `traffic.senders = [...]`.
fn collect(table: &Table, prefix: &str, axes: &mut Vec<Axis>) -> Result<(), Diagnostic> {
    for entry in &table.entries {
        let path = format!("{prefix}{}", entry.key);
        match &entry.value.kind {
            Kind::Table(inner) => collect(inner, &format!("{path}."), axes)?,
            Kind::List(values) if !values.is_empty() => {
                axes.push(Axis { path, at: entry.key_span.clone(), values: values.clone() });
            }
            _ => {
                return Err(Diagnostic::new(format!("`{path}` needs a list of values to try"))
                    .at(entry.value.span.clone())
                    .help(format!("write for example {path} = [1, 2, 4]")));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::parse;

    fn points(text: &str) -> Result<Vec<String>, String> {
        let root = parse(text, 0).unwrap();
        let points = expand(&root).map_err(|e| e[0].message.clone())?;
        let show = |labels: &Labels| {
            labels.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ")
        };
        Ok(points.iter().map(|(labels, _)| show(labels)).collect())
    }

    #[test]
    fn every_combination_once_first_key_slowest() {
        let text = "a = 1\nb.c = 2\n[sweep]\na = [1, 2]\n'b.c' = ['x', 'y']\n";
        assert_eq!(points(text).unwrap(), ["a=1 b.c=x", "a=1 b.c=y", "a=2 b.c=x", "a=2 b.c=y"]);
        assert_eq!(points("a = 1\n").unwrap(), [""]);
        assert_eq!(points("b.c = 1\n[sweep]\nb.c = [3]\n").unwrap(), ["b.c=3"]);
    }

    #[test]
    fn one_axis_is_replaced_however_it_is_spelt() {
        let text = "x = 1\n[[t]]\na = 1\n[sweep]\nt.0.a = [1, 2]\nx = [7, 8]\n";
        let root = parse(text, 0).unwrap();
        let value = Node { span: 0..1, kind: Kind::Integer(5) };
        let labels = |path: &str| {
            let tree = with_axis(&root, path, 0..1, value.clone()).unwrap();
            let points = expand(&tree).unwrap();
            points.iter().map(|(l, _)| format!("{l:?}")).collect::<Vec<_>>()
        };
        let expected = |x| format!(r#"[("t.a", "5"), ("x", "{x}")]"#);
        assert_eq!(labels("t.a"), [expected(7), expected(8)]);
        assert_eq!(labels("y").len(), 4);
    }

    #[test]
    fn values_must_be_lists() {
        assert!(points("a = 1\n[sweep]\na = 2\n").unwrap_err().contains("list of values"));
        assert!(points("a = 1\n[sweep]\na = []\n").is_err());
        assert!(points("sweep = 1\n").unwrap_err().contains("[sweep]"));
    }
}
