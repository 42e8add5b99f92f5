use super::*;
use crate::document::parse;

fn points(text: &str) -> Result<Vec<String>, String> {
    let root = parse(text, 0).unwrap();
    let points = axes(&root).and_then(|axes| expand(&root, &axes)).map_err(|e| e.message)?;
    let show = |point: &SweepPoint| {
        let values = point.values.iter().map(|v| format!("{}={}", v.axis, v.label));
        values.collect::<Vec<_>>().join(" ")
    };
    Ok(points.iter().map(show).collect())
}

#[test]
fn every_combination_once_first_key_slowest() {
    let text = "a = 1\nb.c = 2\n[sweep]\na = [1, 2]\n'b.c' = ['x', 'y']\n";
    assert_eq!(points(text).unwrap(), ["a=1 b.c=x", "a=1 b.c=y", "a=2 b.c=x", "a=2 b.c=y"]);
    assert_eq!(points("a = 1\n").unwrap(), [""]);
    assert_eq!(points("b.c = 1\n[sweep]\nb.c = [3]\n").unwrap(), ["b.c=3"]);
}

const LINKED: &str = "x = 1\n[[t]]\na = 1\n[[t]]\na = 2\n[sweep.linked.both]\nt.0.a = [3, 4]\n";

#[test]
fn linked_keys_change_together() {
    let text = format!("{LINKED}'t.1.a' = [3, 4]\n[sweep]\nx = [7, 8]\n");
    assert_eq!(points(&text).unwrap(), ["both=3 x=7", "both=3 x=8", "both=4 x=7", "both=4 x=8"]);
    let root = parse(&text, 0).unwrap();
    let found = expand(&root, &axes(&root).unwrap()).unwrap();
    assert_eq!(found[2].values[0].set, ["t.0.a=4", "t.1.a=4"]);
    for place in ["t.0.a", "t.1.a"] {
        assert_eq!(resolve(&found[2].tree, place).unwrap().1.to_string(), "4", "{place}");
    }
}

#[test]
fn a_linked_axis_is_called_by_its_label_or_its_values() {
    let text = format!("{LINKED}t.1.a = [5, 4]\n");
    assert_eq!(points(&text).unwrap(), ["both=3/5", "both=4"]);
    let text = format!("{LINKED}t.1.a = [5, 4]\nlabel = [8, 'eight']\n");
    assert_eq!(points(&text).unwrap(), ["both=8", "both=eight"]);
}

#[test]
fn linked_keys_must_have_as_many_values() {
    let error = |text: &str| points(text).unwrap_err();
    let text = format!("{LINKED}t.1.a = [3, 4, 5]\n");
    assert_eq!(error(&text), "`t.1.a` has 3 values and `t.0.a` has 2");
    let text = format!("{LINKED}label = [3]\n");
    assert_eq!(error(&text), "`label` has 1 values and `t.0.a` has 2");
    assert!(error("[[sweep.linked]]\na = [1]\n").contains("table of tables"));
    assert!(error("[sweep.linked]\na = [1]\n").contains("is not a table"));
    assert!(error("[sweep.linked.a]\nlabel = [1]\n").contains("sets no key"));
    assert!(error("[sweep.linked.'a/b']\nx = [1]\n").contains("cannot name a directory"));
}

#[test]
fn a_key_is_in_one_axis_only() {
    let text = format!("{LINKED}[sweep]\nt.0.a = [1]\n");
    assert_eq!(points(&text).unwrap_err(), "`t.0.a` is in the sweep twice");
    let text = "[[t]]\na = 1\n[sweep]\nt.0.a = [1, 2]\n't.a' = [7, 8]\n";
    assert_eq!(points(text).unwrap_err(), "`t.a` is in the sweep twice");
}

#[test]
fn one_axis_is_replaced_however_it_is_spelt() {
    let text = "x = 1\n[[t]]\na = 1\n[sweep]\nt.0.a = [1, 2]\nx = [7, 8]\n";
    let root = parse(text, 0).unwrap();
    let labels = |path: &str| {
        let own = Axis::single(path, 0..1, vec![(path.to_owned(), Kind::Integer(5))], None);
        let axes = with_axis(&root, axes(&root).unwrap(), own).unwrap();
        let points = expand(&root, &axes).unwrap();
        let show = |v: &AxisValue| format!("{}={}", v.axis, v.label);
        points.iter().map(|p| p.values.iter().map(show).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    assert_eq!(labels("t.a"), [["t.a=5", "x=7"], ["t.a=5", "x=8"]]);
    assert_eq!(labels("y").len(), 4);
}

#[test]
fn a_key_of_a_linked_axis_does_not_vary_alone() {
    let root = parse(&format!("{LINKED}t.1.a = [3, 4]\n"), 0).unwrap();
    let own = Axis::single("t.0.a", 0..1, vec![("t.0.a".to_owned(), Kind::Integer(5))], None);
    let error = with_axis(&root, axes(&root).unwrap(), own).unwrap_err();
    assert_eq!(error.message, "`t.0.a` changes with the linked axis `both`");
}

/// The message with which `--set key=…` is refused, where `text` is the scenario with it.
fn refusal(text: &str, key: &str) -> Option<String> {
    let root = parse(text, 0).unwrap();
    check_override(&root, &axes(&root).unwrap(), key, 0..1).err().map(|e| e.message)
}

#[test]
fn a_swept_key_is_not_set_alone_within_a_table_or_in_part() {
    let text = "[[t]]\na = { b = 1, c = 2 }\n[sweep]\nt.a.b = [1, 2]\n";
    let swept = |key: &str| Some(format!("`{key}` is swept, so --set cannot set it"));
    assert_eq!(refusal(text, "t.a.b"), swept("t.a.b"));
    assert_eq!(refusal(text, "t.0.a.b"), swept("t.0.a.b"));
    let within =
        |key: &str| Some(format!("`t.a.b` is swept, so --set cannot set it within `{key}`"));
    assert_eq!(refusal(text, "t.a"), within("t.a"));
    assert_eq!(refusal(text, "t.0"), within("t.0"));
    assert_eq!(refusal(text, "t"), within("t"));
    assert_eq!(refusal(text, "t.a.c"), None);
    // A table without the swept key leaves it to the sweep.
    let text = "[[t]]\na = { c = 2 }\n[sweep]\nt.a.b = [1, 2]\n";
    assert_eq!(refusal(text, "t.a"), None);
    // A sweep of whole tables.
    let text = "[[t]]\na = { b = 1 }\n[sweep]\nt.a = [{ b = 1 }, { b = 2 }]\n";
    assert_eq!(refusal(text, "t.a.b"), swept("t.a.b"));
}

#[test]
fn the_values_of_a_run_make_its_axis_again() {
    let text = "[sweep]\na = [['tcp', \"n\\\"p\"], 0.5, 1.0, 3, true, { b = 'x' }]\n";
    let root = parse(text, 0).unwrap();
    for point in expand(&root, &axes(&root).unwrap()).unwrap() {
        let again = Axis::of_run(&point.values[0], 9).unwrap();
        assert_eq!(again.value(0), point.values[0]);
    }
}

#[test]
fn a_huge_sweep_is_refused_before_it_is_made() {
    let list = format!("{:?}", (0..1000).collect::<Vec<_>>());
    let text = format!("[sweep]\na = {list}\nb = {list}\nc = {list}\n");
    let error = points(&text).unwrap_err();
    assert_eq!(error, "this sweep has 1000 × 1000 × 1000 points; the limit is 10000");
}

#[test]
fn values_must_be_lists() {
    assert!(points("a = 1\n[sweep]\na = 2\n").unwrap_err().contains("list of values"));
    assert!(points("a = 1\n[sweep]\na = []\n").is_err());
    assert!(points("sweep = 1\n").unwrap_err().contains("[sweep]"));
}
