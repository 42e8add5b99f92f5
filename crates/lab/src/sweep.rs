//! `[sweep]`: every combination of the values given for some keys.

use crate::diagnostic::Diagnostic;
use crate::document::{Kind, Node, Table, set_path};
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
    fn values_must_be_lists() {
        assert!(points("a = 1\n[sweep]\na = 2\n").unwrap_err().contains("list of values"));
        assert!(points("a = 1\n[sweep]\na = []\n").is_err());
        assert!(points("sweep = 1\n").unwrap_err().contains("[sweep]"));
    }
}
