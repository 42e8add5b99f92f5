use super::*;
use punctual_results::{Metrics, RunKind};

fn summary(transport: &str, met: Option<f64>, fct_us: f64, drops: f64) -> Summary {
    let mut summary = Summary { transport: transport.into(), repetitions: 3, ..Summary::default() }
        .with(Metric::Flows, 500.0)
        .with(Metric::FctMean, fct_us)
        .with(Metric::FctP50, fct_us * 0.8)
        .with(Metric::FctP99, fct_us * 9.0)
        .with(Metric::SlowdownP99, fct_us / 7.0)
        .with(Metric::Drops, drops)
        .with(Metric::Trims, 0.0);
    summary[Metric::DeadlinesMet] = Figure::known(met, met.map(|_| 0.004));
    summary[Metric::FctMean].half_width = Some(fct_us * 0.02);
    summary
}

/// Three repetitions that differ by a per cent or less from their mean, of each transport a little
/// otherwise.
fn repeated(summary: Summary) -> Repeated {
    let own = summary.transport.bytes().map(f64::from).sum::<f64>() / 100.0;
    let one = |(seed, factor): (u64, f64)| {
        let mut one = Summary { seeds: vec![seed], repetitions: 1, ..summary.clone() };
        use Metric::{Drops, FctMean, FctP50, FctP99, SlowdownP99};
        for metric in [FctMean, FctP50, FctP99, SlowdownP99, Drops] {
            one[metric].value = one[metric].value.map(|value| value * factor);
        }
        let met = one[Metric::DeadlinesMet].value;
        one[Metric::DeadlinesMet].value = met.map(|met| met + (factor - 1.0) / (10.0 + own));
        one
    };
    let repetitions = [(1, 0.99), (2, 1.0), (3, 1.01)].map(one).to_vec();
    Repeated { summary, repetitions }
}

fn three() -> Vec<Repeated> {
    let rows = [
        summary("ndp", Some(0.993), 93.4, 0.0),
        summary("d2tcp", Some(0.912), 240.0, 12.0),
        summary("tcp", Some(0.518), 1630.0, 4711.0),
    ];
    rows.map(repeated).to_vec()
}

#[test]
fn plain_table_is_aligned_and_free_of_escapes() {
    let expected = [
        " Transport    Deadlines        FCT mean   FCT p50   FCT p99   Slowdown   Drops   Trims",
        "                met (%)            (µs)      (µs)      (µs)    p99 (×)",
        "───────────────────────────────────────────────────────────────────────────────────────",
        " ndp         99.3 ± 0.4      93.4 ± 1.9      74.7       841       13.3       0       0",
        " d2tcp       91.2 ± 0.4     240.0 ± 4.8     192.0      2160       34.3      12       0",
        " tcp         51.8 ± 0.4   1630.0 ± 32.6    1304.0     14670      232.9    4711       0",
    ];
    assert_eq!(table(&three(), Style::Plain, Width::Usual).0.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_narrow_table_leaves_out_what_tells_least() {
    let (all, left_out) = table(&three(), Style::Plain, Width::Within(90));
    assert!(left_out.is_empty() && all == table(&three(), Style::Plain, Width::Usual).0);
    let (narrow, left_out) = table(&three(), Style::Plain, Width::Within(72));
    assert_eq!(left_out, ["Trims", "FCT p50"]);
    assert!(narrow.lines().all(|line| line.chars().count() <= 72), "{narrow}");
    // What matters most stays, however narrow.
    let (least, _) = table(&three(), Style::Plain, Width::Within(3));
    assert!(least.contains("Deadlines") && least.contains("FCT p99"), "{least}");
    assert!(!least.contains("Drops"), "{least}");
}

#[test]
fn best_is_bold_on_a_terminal() {
    let (table, _) = table(&three(), Style::Colour, Width::Usual);
    let bold: Vec<_> = table.split("\u{1b}[1m").skip(1).collect();
    // Of every column but the trims.
    assert_eq!(bold.len(), 6, "{table}");
    assert!(bold[0].trim_start().starts_with("99.3"), "{table}");
}

#[test]
fn markdown_marks_the_best() {
    let text = markdown(&three()[..2]);
    assert_eq!(
        text,
        "| Transport | Deadlines met (%) | FCT mean (µs) | FCT p50 (µs) | FCT p99 (µs) | \
         Slowdown p99 (×) | Drops | Trims |\n\
         | :-- | --: | --: | --: | --: | --: | --: | --: |\n\
         | ndp | **99.3 ± 0.4** | **93.4 ± 1.9** | **74.7** | **841** | **13.3** | **0** | 0 |\n\
         | d2tcp | 91.2 ± 0.4 | 240.0 ± 4.8 | 192.0 | 2160 | 34.3 | 12 | 0 |\n"
    );
}

#[test]
fn what_may_be_chance_is_not_best() {
    // Half a per cent apart, while repetitions differ by one: paired they always differ the same
    // way, so give each its own seeds.
    let mut rows = vec![
        repeated(summary("a", Some(0.9), 100.0, 5.0)),
        repeated(summary("b", Some(0.9005), 100.5, 5.0)),
    ];
    rows[1].repetitions.iter_mut().for_each(|one| one.seeds[0] += 100);
    assert!(!markdown(&rows).contains("**"), "{}", markdown(&rows));
    // A single run is no evidence, however far it is from the other.
    let mut far = three();
    far.iter_mut().for_each(|row| row.repetitions.truncate(1));
    assert!(!markdown(&far).contains("**"), "{}", markdown(&far));
    assert!(!notes(&far).iter().any(|note| note.starts_with("bold")));
    assert!(notes(&three()).iter().any(|note| note.starts_with("bold")));
}

#[test]
fn equal_values_have_no_best_and_missing_ones_no_column() {
    let rows =
        |met| vec![repeated(summary("a", met, 5.0, 0.0)), repeated(summary("b", None, 5.0, 0.0))];
    let text = markdown(&rows(None));
    assert!(!text.contains("**") && !text.contains("Deadlines"), "{text}");
    assert!(markdown(&rows(Some(0.5))).contains("| – |"));
}

#[test]
fn flows_that_did_not_finish_are_shown() {
    let all = repeated(summary("b", None, 5.0, 0.0).with(Metric::FlowsUnfinished, 0.0));
    let lost = repeated(summary("a", None, 5.0, 0.0).with(Metric::FlowsUnfinished, 3.0));
    let text = markdown(&[all.clone(), lost]);
    assert!(text.contains("| Flows unfinished |"), "{text}");
    assert!(text.contains("| a | 3 |") && text.contains("| b | 0 |"), "{text}");
    assert!(!markdown(&[all]).contains("unfinished"));
}

#[test]
fn what_is_only_a_bound_is_marked_and_never_best() {
    let open = |name: &str, us: f64| {
        let bound = |mut one: Summary| {
            one[Metric::FctP99].is_bound = true;
            one
        };
        let Repeated { summary, repetitions } = repeated(summary(name, None, us, 0.0));
        Repeated {
            summary: bound(summary),
            repetitions: repetitions.into_iter().map(bound).collect(),
        }
    };
    let text = markdown(&[open("dctcp", 10.0), repeated(summary("ndp", None, 90.0, 0.0))]);
    assert!(text.contains("| > 90.0 |") && text.contains("| 810.0 |"), "{text}");
    // But what is below a bound is better than it.
    let rows = [open("dctcp", 90.0), repeated(summary("ndp", None, 10.0, 0.0))];
    let text = markdown(&rows);
    assert!(text.contains("| > 810.0 |") && text.contains("| **90.0** |"), "{text}");
    assert!(notes(&rows)[0].starts_with("> x: at least x"), "{:?}", notes(&rows));
}

#[test]
fn p99_of_few_flows_is_called_the_maximum() {
    let few = repeated(summary("ndp", None, 90.0, 0.0).with(Metric::Flows, 24.0));
    let text = markdown(std::slice::from_ref(&few));
    assert!(text.contains("| max 810 | max 12.9 |"), "{text}");
    assert!(notes(&[few])[0].contains("too few flows per run (p99: fewer than 100)"));
    assert!(!markdown(&three()).contains("max"));
}

#[test]
fn long_times_are_in_a_longer_unit() {
    let of = |us| markdown(&[repeated(summary("a", None, us, 0.0))]);
    assert!(of(2e3).contains("FCT p99 (ms)"));
    assert!(of(2e6).contains("FCT p99 (s)"));
}

#[test]
fn ideals_are_named_and_never_best() {
    let ideal = |name: &str, kind| {
        let ideal = Summary { kind, ..summary(name, Some(1.0), 1.0, 0.0) }
            .with(Metric::DeadlineFlows, 4.0)
            .with(Metric::DeadlineFlowsMet, 3.0)
            .with(Metric::DeadlineFlowsLate, 1.0);
        repeated(ideal)
    };
    let mut rows = three();
    rows.push(ideal("ideal-edf", RunKind::Ideal));
    rows.push(ideal("optimal", RunKind::Bound));
    let text = markdown(&rows);
    assert!(text.contains("| optimal (bound) | 100.0"), "{text}");
    assert!(text.contains("| ideal-edf | 100.0 ± 0.4 | 3 | 1 | 1.00"), "{text}");
    assert!(text.contains("| ndp | **99.3 ± 0.4** | – | – | **93.40"), "{text}");
    // No packets, so no drops.
    assert!(text.lines().last().is_some_and(|line| line.ends_with("| – | – |")), "{text}");
}

#[test]
fn nothing_to_compare_is_an_empty_table() {
    assert!(table(&[], Style::Plain, Width::Usual).0.contains("Transport"));
}

#[test]
fn headers_break_where_lines_are_even() {
    let lines = |title, symbol| header(title, symbol).join("/");
    assert_eq!(lines("Deadlines met", "%"), "Deadlines/met (%)");
    assert_eq!(lines("FCT mean", "µs"), "FCT mean/(µs)");
    assert_eq!(lines("Deadline flows met", ""), "Deadline/flows met");
    assert_eq!(lines("Flows unfinished", ""), "Flows/unfinished");
    assert_eq!(
        (lines("Drops", ""), lines("Utilisation", "%")),
        ("Drops/".into(), "Utilisation/(%)".into())
    );
}

/// Transports with two traffic classes: the first class unchanged, the second slower.
fn with_classes(rows: Vec<Repeated>) -> Vec<Repeated> {
    let group = |name: &str, summary: &Summary, factor: f64| {
        let mut metrics = Metrics::default();
        for metric in [Metric::Flows, Metric::DeadlinesMet, Metric::FctP50, Metric::FctP99] {
            metrics[metric] = summary[metric];
        }
        for metric in [Metric::FctP50, Metric::FctP99] {
            metrics[metric].value = metrics[metric].value.map(|value| value * factor);
        }
        Group { name: name.into(), metrics }
    };
    let classes = |summary: Summary| Summary {
        by_traffic: vec![group("queries", &summary, 1.0), group("updates", &summary, 2.0)],
        ..summary
    };
    let row = |row: Repeated| Repeated {
        summary: classes(row.summary),
        repetitions: row.repetitions.into_iter().map(classes).collect(),
    };
    rows.into_iter().map(row).collect()
}

#[test]
fn traffic_classes_have_rows_of_their_own() {
    let rows = with_classes(three());
    let text = group_table(&rows, GroupedBy::Traffic, Style::Plain).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..5],
        [
            " Transport   Traffic    Deadlines   Flows   FCT p50   FCT p99",
            "                          met (%)              (µs)      (µs)",
            "──────────────────────────────────────────────────────────────",
            " ndp         queries   99.3 ± 0.4     500      74.7       841",
            " d2tcp       queries   91.2 ± 0.4     500     192.0      2160",
        ],
        "{text}"
    );
    assert!(lines[6].starts_with(" ndp         updates   99.3"), "{text}");
    // The best of each class.
    let (_, cells) = group_cells(&rows, GroupedBy::Traffic).unwrap();
    let best: Vec<&[usize]> = cells.iter().map(|(_, best)| &**best).collect();
    assert_eq!(best, [&[2, 4, 5][..], &[], &[], &[2, 4, 5], &[], &[]]);
}

#[test]
fn one_class_needs_no_table() {
    let mut rows = with_classes(three());
    rows.iter_mut().for_each(|row| row.summary.by_traffic.truncate(1));
    assert_eq!(group_table(&rows, GroupedBy::Traffic, Style::Plain), None);
    assert_eq!(group_table(&rows, GroupedBy::Size, Style::Plain), None);
}
