use super::*;
use punctual_results::{AtLeast, Ci95, RunKind};

fn summary(transport: &str, met: Option<f64>, fct_us: f64, drops: f64) -> Summary {
    Summary {
        transport: transport.into(),
        repetitions: 3,
        flows: 500.0,
        deadlines_met: met,
        fct_mean_us: Some(fct_us),
        fct_p50_us: Some(fct_us * 0.8),
        fct_p99_us: Some(fct_us * 9.0),
        slowdown_p99: Some(fct_us / 7.0),
        drops,
        ci95: Ci95 {
            deadlines_met: met.map(|_| 0.004),
            fct_mean_us: Some(fct_us * 0.02),
            ..Ci95::default()
        },
        ..Summary::default()
    }
}

/// Three repetitions that differ by a per cent or less from their mean, of each transport a little
/// otherwise.
fn repeated(summary: Summary) -> Repeated {
    let own = summary.transport.bytes().map(f64::from).sum::<f64>() / 100.0;
    let one = |(seed, factor): (u64, f64)| Summary {
        seeds: vec![seed],
        repetitions: 1,
        deadlines_met: summary.deadlines_met.map(|met| met + (factor - 1.0) / (10.0 + own)),
        fct_mean_us: summary.fct_mean_us.map(|us| us * factor),
        fct_p50_us: summary.fct_p50_us.map(|us| us * factor),
        fct_p99_us: summary.fct_p99_us.map(|us| us * factor),
        slowdown_p99: summary.slowdown_p99.map(|times| times * factor),
        drops: summary.drops * factor,
        ..summary.clone()
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
    assert_eq!(table(&three(), Style::Plain, None).0.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_narrow_table_leaves_out_what_tells_least() {
    let (all, left_out) = table(&three(), Style::Plain, Some(90));
    assert!(left_out.is_empty() && all == table(&three(), Style::Plain, None).0);
    let (narrow, left_out) = table(&three(), Style::Plain, Some(72));
    assert_eq!(left_out, ["trims", "FCT p50"]);
    assert!(narrow.lines().all(|line| line.chars().count() <= 72), "{narrow}");
    // What matters most stays, however narrow.
    let (least, _) = table(&three(), Style::Plain, Some(3));
    assert!(least.contains("Deadlines") && least.contains("FCT p99"), "{least}");
    assert!(!least.contains("Drops"), "{least}");
}

#[test]
fn best_is_bold_on_a_terminal() {
    let (table, _) = table(&three(), Style::Colour, None);
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
    let lost = Summary { flows_unfinished: 3.0, ..summary("a", None, 5.0, 0.0) };
    let rows = [repeated(lost)];
    assert!(markdown(&rows).contains("| Unfinished |"), "{}", markdown(&rows));
    assert!(!markdown(&three()).contains("Unfinished"));
}

#[test]
fn what_is_only_a_bound_is_marked_and_never_best() {
    let open = |name: &str, us: f64| {
        let bound = |one: Summary| Summary {
            at_least: AtLeast { fct_p99_us: one.fct_p99_us, ..AtLeast::default() },
            fct_p99_us: None,
            ..one
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
    let few = repeated(Summary { flows: 24.0, ..summary("ndp", None, 90.0, 0.0) });
    let text = markdown(std::slice::from_ref(&few));
    assert!(text.contains("| max 810 | max 12.9 |"), "{text}");
    assert!(notes(&[few])[0].contains("fewer than 100 flows"));
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
        repeated(Summary {
            kind,
            deadline_flows: 4.0,
            deadline_flows_met: 3.0,
            deadline_flows_late: 1.0,
            ..summary(name, Some(1.0), 1.0, 0.0)
        })
    };
    let mut rows = three();
    rows.push(ideal("ideal-edf", RunKind::Ideal));
    rows.push(ideal("optimal", RunKind::Bound));
    let text = markdown(&rows);
    assert!(text.contains("| optimal (bound) | 100.0"), "{text}");
    assert!(text.contains("| ideal-edf | 100.0 ± 0.4 | 3 | 1 | 0 |"), "{text}");
    assert!(text.contains("| ndp | **99.3 ± 0.4** | – | – | – |"), "{text}");
    // No packets, so no drops.
    assert!(text.lines().last().is_some_and(|line| line.ends_with("| – | – |")), "{text}");
}

#[test]
fn nothing_to_compare_is_an_empty_table() {
    assert!(table(&[], Style::Plain, None).0.contains("Transport"));
}
