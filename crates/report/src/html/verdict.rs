//! The verdict above the page: which transport is best, and better than which others. It claims
//! only differences that are significant at 95 %.

use super::model::Unit;
use crate::svg::formatted;
use punctual_results::significance::{Comparison, compare};
use punctual_results::{Better, Capacities, CapacityAnswer, Metric, Repeated, Summary};

/// A metric that the verdict is about.
struct Measure {
    metric: Metric,
    /// What the best did, with `{}` for its value.
    best: &'static str,
    /// How the best compares with the others.
    than: &'static str,
    /// The measure as a noun.
    noun: &'static str,
}

const MET: Measure = Measure {
    metric: Metric::DeadlinesMet,
    best: "met {} of deadlines",
    than: "significantly more than",
    noun: "deadlines met",
};
const MEAN: Measure = Measure {
    metric: Metric::FctMean,
    best: "had the shortest mean FCT ({})",
    than: "significantly shorter than",
    noun: "mean FCT",
};
const P99: Measure = Measure {
    metric: Metric::FctP99,
    best: "had the shortest FCT p99 ({})",
    than: "significantly shorter than",
    noun: "FCT p99",
};
/// FCT p99 of fewer than 100 flows.
const LONGEST: Measure =
    Measure { best: "had the shortest maximum FCT ({})", noun: "maximum FCT", ..P99 };

/// How many transports a list names, if it leaves out any.
const LISTED: usize = 4;
/// How a sentence without a significant difference begins.
const NO_DIFFERENCE: &str = "No significant difference";
/// Below so many runs of each transport, the verdict suggests more of them.
const REPETITIONS_ENOUGH: u32 = 5;

/// The verdict on the transports of one point, in sentences. Ideal schedulers take no part.
pub(super) fn of(rows: &[Repeated]) -> Vec<String> {
    let rows: Vec<&Repeated> = rows.iter().filter(|row| !row.summary.is_ideal()).collect();
    let summaries = || rows.iter().map(|row| &row.summary);
    let has_deadlines = summaries().any(|summary| summary[MET.metric].value.is_some());
    let is_maximum = summaries().any(|summary| summary[P99.metric].is_maximum);
    let first = if has_deadlines { MET } else { MEAN };
    let second = if is_maximum { LONGEST } else { P99 };
    let mut sentences: Vec<String> =
        [first, second].iter().filter_map(|measure| sentence(&rows, measure)).collect();
    if rows.len() > 1 && summaries().all(|summary| summary.repetitions < 2) {
        sentences.push(
            "There is one run of each transport, so no difference can be called significant: set \
             run.repetitions to 5."
                .to_owned(),
        );
    } else if rows.len() > 1
        && sentences.iter().all(|sentence| sentence.starts_with(NO_DIFFERENCE))
        && summaries().any(|summary| summary.repetitions < REPETITIONS_ENOUGH)
        && !sentences.is_empty()
    {
        let runs = summaries().map(|summary| summary.repetitions).min().unwrap_or(0);
        sentences.push(format!(
            "With {runs} runs of each transport only large differences are significant: set \
             run.repetitions to {REPETITIONS_ENOUGH} or more."
        ));
    }
    sentences
}

fn sentence(rows: &[&Repeated], measure: &Measure) -> Option<String> {
    let exact = |row: &Repeated| row.summary[measure.metric].exact();
    let is_higher_better = measure.metric.better() == Better::Higher;
    let sign = if is_higher_better { 1.0 } else { -1.0 };
    let known = rows.iter().filter_map(|row| Some((*row, sign * exact(row)?)));
    let (best, _) = known.reduce(|a, b| if b.1 > a.1 { b } else { a })?;
    let shown = value(&best.summary, measure);
    let words = measure.best.replace("{}", &shown);
    // Those with the same value, as far as the sentence shows it, are best together.
    let (first, others): (Vec<&Repeated>, Vec<&Repeated>) =
        rows.iter().partition(|row| value(&row.summary, measure) == shown);
    let names: Vec<String> = first.iter().map(|row| row.summary.title()).collect();
    let name = match &names[..] {
        [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    };
    let is_better = |c: &Comparison| match is_higher_better {
        true => c.is_more(),
        false => c.is_less(),
    };
    let (mut worse, mut open) = (Vec::new(), Vec::new());
    for row in others {
        let than = |best: &&Repeated| compare(&row.repetitions, &best.repetitions, measure.metric);
        let text = format!("{} ({})", row.summary.title(), value(&row.summary, measure));
        match first.iter().map(than).collect::<Option<Vec<Comparison>>>() {
            Some(all) if all.iter().all(is_better) => worse.push(text),
            Some(_) => open.push(text),
            None => {}
        }
    }
    let noun = measure.noun;
    Some(match (worse.is_empty(), open.is_empty()) {
        (true, true) if first.len() < rows.len() => return None,
        (true, true) => format!("{name} {words}."),
        // With one run each nothing is significant; the last sentence says so.
        (true, false) if best.summary.repetitions < 2 => {
            let open = listed(&open);
            format!("{name} {words}; compare {open}.")
        }
        (true, false) => {
            let first = first.iter().map(|row| format!("{} ({shown})", row.summary.title()));
            let all = listed(&first.chain(open).collect::<Vec<_>>());
            format!("{NO_DIFFERENCE} in {noun} between {all}.")
        }
        (false, true) => format!("{name} {words}, {} {}.", measure.than, listed(&worse)),
        (false, false) => format!(
            "{name} {words}, {} {}; no significant difference from {}.",
            measure.than,
            listed(&worse),
            listed(&open)
        ),
    })
}

/// A column of a summary in words.
fn value(summary: &Summary, measure: &Measure) -> String {
    let figure = summary[measure.metric];
    let bound = if figure.is_bound { "> " } else { "" };
    match figure.value {
        None => "none".to_owned(),
        Some(value) if measure.metric == MET.metric => format!("{bound}{:.1} %", value * 100.0),
        Some(value) => format!("{bound}{}", formatted(value, &Unit::Time)),
    }
}

/// `a, b and c`; of many the first few and the number of the others.
fn listed(texts: &[String]) -> String {
    match texts {
        [first @ .., _, _] if first.len() >= LISTED => {
            format!("{} and {} others", first[..LISTED].join(", "), texts.len() - LISTED)
        }
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The verdict of a search for capacities.
pub(super) fn of_capacities(found: &Capacities) -> Vec<String> {
    let answer = |answer: &CapacityAnswer| {
        let at: Vec<String> = answer.point.iter().map(|(k, v)| format!(", {k} = {v}")).collect();
        let capacity = match (answer.outcome.as_str(), found.smallest) {
            ("never", _) => "none".to_owned(),
            ("always", true) => format!("{} or less", found.from),
            ("always", false) => format!("{} or more", found.to),
            _ => answer.capacity.clone().unwrap_or_else(|| "not known".into()),
        };
        let sure = answer.holds_to.as_ref().filter(|sure| Some(*sure) != answer.capacity.as_ref());
        let sure = sure.map_or_else(String::new, |sure| format!(" (surely to {sure})"));
        format!("{capacity} with {}{}{sure}", answer.transport, at.concat())
    };
    let answers: Vec<String> = found.answers.iter().map(answer).collect();
    if answers.is_empty() {
        return Vec::new();
    }
    let which = if found.smallest { "Smallest" } else { "Largest" };
    vec![format!("{which} {} with {}: {}.", found.vary, found.until, answers.join("; "))]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transport with the same seeds as all others; `met` and `p99` of each run.
    fn row(name: &str, runs: &[(f64, f64)]) -> Repeated {
        let run = |(i, (met, p99)): (usize, &(f64, f64))| {
            Summary {
                transport: name.into(),
                repetitions: 1,
                seeds: vec![i as u64],
                ..Summary::default()
            }
            .with(Metric::Flows, 1000.0)
            .with(Metric::DeadlineFlows, 1000.0)
            .with(Metric::DeadlineFlowsMet, met * 1000.0)
            .with(Metric::DeadlinesMet, *met)
            .with(Metric::FctP99, *p99)
        };
        Repeated::new(runs.iter().enumerate().map(run).collect()).unwrap()
    }

    #[test]
    fn only_significant_differences_are_claimed() {
        let quick = row("quick", &[(1.0, 900.0), (0.999, 1000.0), (1.0, 950.0)]);
        let close = row("close", &[(0.998, 930.0), (1.0, 950.0), (0.999, 980.0)]);
        let slow = row("slow", &[(0.80, 9000.0), (0.82, 8000.0), (0.81, 9500.0)]);
        let said = of(&[slow.clone(), quick.clone(), close.clone()]);
        assert_eq!(
            said,
            [
                "quick met 100.0 % of deadlines, significantly more than slow (81.0 %); no \
                 significant difference from close (99.9 %).",
                "quick had the shortest FCT p99 (950 µs), significantly shorter than slow \
                 (8.83 ms); no significant difference from close (953 µs).",
            ]
        );
        let said = of(&[quick.clone(), close]);
        assert_eq!(
            said[0],
            "No significant difference in deadlines met between quick (100.0 %) and close (99.9 %)."
        );
        assert!(said[2].starts_with("With 3 runs of each transport only large"), "{said:?}");
        assert_eq!(of(&[quick])[0], "quick met 100.0 % of deadlines.");
        let one = of(&[row("quick", &[(1.0, 900.0)]), row("slow", &[(0.5, 9000.0)])]);
        assert_eq!(one[0], "quick met 100.0 % of deadlines; compare slow (50.0 %).");
        let tied = of(&[
            row("a", &[(1.0, 900.0), (1.0, 910.0)]),
            row("slow", &[(0.5, 9000.0), (0.51, 9100.0)]),
            row("b", &[(1.0, 950.0), (1.0, 960.0)]),
        ]);
        assert!(tied[0].starts_with("a and b met 100.0 % of deadlines"), "{tied:?}");
        assert!(one[2].contains("no difference can be called significant"), "{one:?}");
        assert!(of(&[slow])[1].contains("FCT p99"));
        assert!(of(&[]).is_empty());
        let names = |count: usize| (0..count).map(|i| i.to_string()).collect::<Vec<_>>();
        assert_eq!(listed(&names(5)), "0, 1, 2, 3 and 4");
        assert_eq!(listed(&names(9)), "0, 1, 2, 3 and 5 others");
    }

    #[test]
    fn capacities_are_listed() {
        let mut found = Capacities { vary: "traffic.workers".into(), ..Capacities::new() };
        (found.until, found.to) = ("deadlines_met >= 99%".into(), "40".into());
        let answer = |transport: &str, outcome: &str, capacity: Option<&str>| CapacityAnswer {
            transport: transport.into(),
            outcome: outcome.into(),
            capacity: capacity.map(str::to_owned),
            ..Default::default()
        };
        found.answers = vec![
            CapacityAnswer { holds_to: Some("11".into()), ..answer("a", "found", Some("12")) },
            answer("b", "never", None),
            answer("c", "always", Some("40")),
        ];
        assert_eq!(
            of_capacities(&found),
            ["Largest traffic.workers with deadlines_met >= 99%: 12 with a (surely to 11); none \
              with b; 40 or more with c."]
        );
    }
}
