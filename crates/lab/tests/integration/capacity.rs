//! Whole searches, on scenarios whose answers arithmetic gives.

use punctual_core::rng::Stream;
use punctual_lab::{
    Answer, CapacitySearch, Estimate, Options, Outcome, Question, Reason, RunReport, RunState,
    Study, Verdict, execute,
};
use punctual_results::{Metric, Summary};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Workers that share 1 Gb/s and send 125 KB each, 1.053 ms with headers (1538 B on the wire for
/// 1460 B of data): 19 of them need 20.0 ms, 20 of them 21.1 ms.
const SHARED: &str = r#"
name = "shared"
transports = ["ideal-fair", "ideal-edf"]
[network]
topology = "star"
hosts = 4
rate = "1Gbps"
delay = "0us"
[[traffic]]
pattern = "incast"
receiver = 0
workers = 8
sizes = "125KB"
deadlines = "20.5ms"
[run]
duration = "1s"
"#;

fn question(vary: &str, until: &str) -> Question {
    Question { vary: vary.into(), until: until.into(), ..Question::default() }
}

fn study(text: &str) -> Study {
    Study::from_text("test", text, Path::new("."), &[]).unwrap_or_else(|e| panic!("{e}"))
}

/// Searches to the end and returns the answers and how many runs were there already.
fn search(text: &str, question: &Question, out: &Path, threads: usize) -> (Vec<Answer>, usize) {
    let mut search = CapacitySearch::new(&study(text), question).unwrap_or_else(|e| panic!("{e}"));
    let options = Options { out: out.to_owned(), threads, fresh: false, csv: false, sync: false };
    let mut reused = 0;
    loop {
        let runs = search.next_runs().unwrap_or_else(|e| panic!("{e}"));
        if runs.is_empty() {
            return (search.answers(), reused);
        }
        let never = AtomicBool::new(false);
        let reports: Vec<RunReport> =
            execute(search.study(), &runs, &options, &(), &never).unwrap_or_else(|e| panic!("{e}"));
        reused += reports.iter().filter(|r| r.reused).count();
        search.learn(&reports).unwrap_or_else(|e| panic!("{e}"));
    }
}

fn answers(text: &str, question: &Question) -> Vec<Answer> {
    let out = tempfile::tempdir().unwrap();
    search(text, question, out.path(), 2).0
}

fn refusal(text: &str, question: &Question) -> String {
    match CapacitySearch::new(&study(text), question) {
        Ok(_) => panic!("{question:?} was accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_fair_share_gives_the_capacity_of_arithmetic() {
    let found = answers(SHARED, &question("traffic.workers", "deadlines_met >= 100%"));
    let names: Vec<&str> = found.iter().map(|a| &*a.transport).collect();
    assert_eq!(names, ["ideal-fair", "ideal-edf"]);
    for answer in &found {
        assert_eq!(answer.outcome, Outcome::Found);
        assert_eq!(answer.capacity.as_deref(), Some("19"), "{answer:?}");
        // That every flow of all is on time is never sure, that one of them is late is. More
        // repetitions would not help.
        assert_eq!(answer.holds_to.as_deref(), None);
        assert!(answer.probes.iter().all(|probe| !probe.estimate.capped), "{answer:?}");
        assert_eq!(answer.fails_from.as_deref(), Some("20"));
        let runs: u32 = answer.probes.iter().map(|probe| probe.estimate.repetitions).sum();
        assert_eq!(answer.runs, runs as usize);
    }
    // In order of time EDF misses one of 20 and two of 21: 19/21 is above 90 %, 19/22 is not.
    let found = answers(SHARED, &question("traffic.workers", "deadlines_met >= 90%"));
    assert_eq!(found[0].capacity.as_deref(), Some("19"));
    assert_eq!(found[1].capacity.as_deref(), Some("21"));
}

#[test]
fn values_with_units_and_the_other_direction() {
    let smallest =
        Question { smallest: true, ..question("traffic.deadlines", "deadlines_met > 99%") };
    let found = answers(SHARED, &smallest);
    // 8 × 1.053 ms; the default step is 1 ms.
    assert_eq!(found[0].capacity.as_deref(), Some("9ms"), "{found:?}");
    let finer = Question { step: Some("0.5ms".into()), ..smallest };
    assert_eq!(answers(SHARED, &finer)[0].capacity.as_deref(), Some("8.5ms"));
    let size =
        Question { step: Some("5".into()), ..question("traffic.sizes", "fct_max_us < 16ms") };
    let found = answers(SHARED, &size);
    // With headers 8 × 235 KB take 15.8 ms, 8 × 240 KB 16.2 ms.
    assert_eq!(found[0].capacity.as_deref(), Some("235KB"), "{found:?}");
}

#[test]
fn a_condition_that_never_or_always_holds_says_so() {
    let bounded = |from: &str, to: &str| Question {
        from: Some(from.into()),
        to: Some(to.into()),
        ..question("traffic.workers", "deadlines_met >= 100%")
    };
    let never = &answers(SHARED, &bounded("25", "50"))[0];
    assert_eq!((never.outcome, &never.capacity), (Outcome::Never, &None));
    assert_eq!(never.probes.last().unwrap().value, "25");
    assert_eq!(never.fails_from.as_deref(), Some("25"));
    let always = &answers(SHARED, &bounded("1", "15"))[0];
    assert_eq!((always.outcome, always.capacity.as_deref()), (Outcome::Always, Some("15")));
    assert_eq!(always.probes.last().unwrap().value, "15");
    let last = always.probes.last().unwrap().estimate;
    // 15 flows of each of 20 runs: n / (n + t²) with t at 98.3 %, as there may be three looks.
    assert_eq!((last.verdict, last.mean), (Verdict::LeansToHold, Some(1.0)));
    assert!((last.low.unwrap() - 0.9774).abs() < 2e-3, "{last:?}");
    // Where the scenario itself ends, so does the search: three hosts can send, not four.
    let hosts = SHARED.replace("workers = 8", "senders = 2");
    let found = &answers(&hosts, &question("traffic.senders", "deadlines_met >= 100%"))[0];
    assert_eq!((found.outcome, found.capacity.as_deref()), (Outcome::Always, Some("3")));
}

/// A report of a run in which a metric had a value.
fn reported(metric: Metric, value: f64) -> RunReport {
    RunReport {
        summary: Summary::default().with(Metric::Flows, 1000.0).with(metric, value),
        dir: "nowhere".into(),
        reused: false,
        state: RunState::New,
        wall: std::time::Duration::ZERO,
        cpu_seconds: None,
    }
}

/// Searches at one value with runs whose mean FCT comes from `draw`, and returns the estimate
/// there.
fn judged_by(question: &Question, draw: &mut impl FnMut() -> f64) -> Estimate {
    let mut search =
        CapacitySearch::new(&study(SHARED), question).unwrap_or_else(|e| panic!("{e}"));
    loop {
        let runs = search.next_runs().unwrap_or_else(|e| panic!("{e}"));
        if runs.is_empty() {
            return search.answers()[0].probes[0].estimate;
        }
        let reports: Vec<RunReport> =
            runs.iter().map(|_| reported(Metric::FctMean, draw())).collect();
        search.learn(&reports).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// A question about one value, which is judged over and over while repetitions double.
fn of_one_value(most: u32) -> Question {
    Question {
        from: Some("8".into()),
        to: Some("8".into()),
        repetitions_max: Some(most),
        ..question("traffic.workers", "fct_mean_us <= 1000")
    }
}

/// Runs whose mean lies exactly at the threshold are sure of nothing, so each sure verdict is
/// wrong. With up to four looks at 5, 10, 20 and 40 repetitions, at most 5 % of verdicts may be
/// sure; with 95 % intervals at every look more than 10 % would be.
#[test]
fn several_looks_are_wrong_no_more_often_than_one() {
    const TRIALS: u32 = 1500;
    let mut random = Stream::named(1, "looks", 0);
    // Nearly normal: the sum of twelve uniform numbers, with variance 1.
    let mut draw = || 1000.0 + 10.0 * ((0..12).map(|_| random.unit()).sum::<f64>() - 6.0);
    let question = of_one_value(40);
    let sure = (0..TRIALS).filter(|_| judged_by(&question, &mut draw).verdict.is_sure()).count();
    let share = sure as f64 / f64::from(TRIALS);
    // A standard error of 0.6 %.
    assert!((0.005..0.065).contains(&share), "{share}");
}

#[test]
fn a_verdict_says_that_repetitions_reached_their_maximum() {
    let mut i = 0;
    let mut around = |step: f64| {
        i += 1;
        1000.0 + if i % 2 == 0 { step } else { -step } - 0.1
    };
    let open = judged_by(&of_one_value(12), &mut || around(10.0));
    assert_eq!((open.verdict, open.repetitions), (Verdict::LeansToHold, 12));
    assert!(open.capped && open.reason.is_none(), "{open:?}");
    let sure = judged_by(&of_one_value(12), &mut || around(0.01));
    assert_eq!((sure.verdict, sure.repetitions), (Verdict::Holds, 5));
    assert!(!sure.capped, "{sure:?}");
}

#[test]
fn what_else_a_sweep_varies_has_answers_of_its_own() {
    let text = format!("{SHARED}[sweep]\ntraffic.deadlines = ['10ms', '20.5ms']\n");
    let text = text.replace(", \"ideal-edf\"", "");
    let found = answers(&text, &question("traffic.workers", "deadlines_met >= 100%"));
    let by_point: Vec<(&str, Option<&str>)> =
        found.iter().map(|a| (&*a.labels[0].1, a.capacity.as_deref())).collect();
    assert_eq!(by_point, [("10ms", Some("9")), ("20.5ms", Some("19"))]);
    // Its own values of the key are not in the way.
    let text = format!("{SHARED}[sweep]\ntraffic.0.workers = [1, 2]\n");
    let found = answers(&text, &question("traffic.workers", "deadlines_met >= 100%"));
    assert_eq!((found.len(), found[0].capacity.as_deref()), (2, Some("19")));
}

/// Two services that send to one receiver: of 19 workers that share 1 Gb/s all are on time.
const SERVICES: &str = r#"
name = "services"
transports = ["ideal-fair"]
[network]
topology = "star"
hosts = 4
rate = "1Gbps"
delay = "0us"
[[traffic]]
name = "a"
pattern = "incast"
receiver = 0
workers = 4
sizes = "125KB"
deadlines = "20.5ms"
[[traffic]]
name = "b"
pattern = "incast"
receiver = 0
workers = 2
sizes = "125KB"
deadlines = "20.5ms"
[run]
duration = "1s"
"#;

#[test]
fn several_keys_vary_in_proportion() {
    let found = answers(
        SERVICES,
        &question("traffic.a.workers, traffic.b.workers", "deadlines_met >= 100%"),
    );
    // 12 and 6 workers are 18, 14 and 7 are 21; 13 and 6.5 cannot be.
    assert_eq!(found[0].capacity.as_deref(), Some("12"), "{found:?}");
    assert_eq!(found[0].fails_from.as_deref(), Some("14"), "{found:?}");
    // Sizes and deadlines together: twice the time for twice the bytes changes nothing.
    let asked = Question {
        to: Some("600KB".into()),
        ..question(
            "traffic.0.sizes,traffic.0.deadlines,traffic.1.sizes,traffic.1.deadlines",
            "deadlines_met >= 100%",
        )
    };
    assert_eq!(answers(SERVICES, &asked)[0].outcome, Outcome::Always);
}

#[test]
fn a_linked_axis_varies_by_its_label() {
    let axis = "[sweep.linked.fan-in]\nlabel = [6, 12]\ntraffic.0.workers = [4, 8]\n\
                traffic.1.workers = [2, 4]\n";
    let text = format!("{SERVICES}{axis}");
    let asked = question("fan-in", "deadlines_met >= 100%");
    let out = tempfile::tempdir().unwrap();
    let (found, _) = search(&text, &asked, out.path(), 2);
    let (capacity, first_not) = (found[0].capacity.as_deref(), found[0].fails_from.as_deref());
    assert_eq!((capacity, first_not), (Some("18"), Some("21")), "{found:?}");
    assert!(out.path().join("fan-in=18/ideal-fair/seed-1").exists());
    let odd = Question { step: Some("4".into()), ..asked.clone() };
    assert!(refusal(&text, &odd).contains("use a multiple of 3"), "{}", refusal(&text, &odd));
    let alone = question("traffic.0.workers", "deadlines_met >= 100%");
    assert!(refusal(&text, &alone).contains("changes with the linked axis `fan-in`"));
    let text = text.replace("[2, 4]", "[2, 5]");
    assert!(refusal(&text, &asked).contains("is not proportional to its label: 5 at 12"));
    let text = text.replace("[6, 12]", "['few', 'many']");
    assert!(refusal(&text, &asked).contains("are not numbers"));
}

#[test]
fn a_key_that_is_swept_and_set_is_refused() {
    let text = format!("{SERVICES}[sweep]\ntraffic.0.workers = [4, 8]\n");
    let load = |set: &str| {
        let set = [set.to_owned()];
        Study::from_text("test", &text, Path::new("."), &set).map(|s| s.points().len())
    };
    let error = load("traffic.a.workers=5").unwrap_err().to_string();
    assert!(error.contains("`traffic.a.workers` is swept, so --set cannot set it"), "{error}");
    assert!(error.contains("--set 'sweep.traffic.0.workers=[VALUE, ...]'"), "{error}");
    assert_eq!(load("traffic.b.workers=5").unwrap(), 2);
    assert_eq!(load("sweep.traffic.0.workers=[1,2,3]").unwrap(), 3);
    assert_eq!(load("sweep={}").unwrap(), 1);
}

/// Eight senders share a link: half of their flows are unfinished when a run of 20 ms ends.
const UNFINISHED: &str = r#"
name = "unfinished"
transports = ["ideal-fair"]
[network]
topology = "star"
hosts = 9
rate = "10Gbps"
delay = "0us"
[[traffic]]
pattern = "incast"
receiver = 0
workers = 8
sizes = { uniform = ["1MB", "20MB"] }
[run]
duration = "20ms"
"#;

/// With 8 workers 84 MB are asked for, of which 20 ms move 25: most flows are cut off. Completed
/// flows alone would say that no flow takes longer than 20 ms.
#[test]
fn flows_that_did_not_finish_do_not_hold() {
    let bounded = Question {
        from: Some("4".into()),
        to: Some("32".into()),
        ..question("traffic.workers", "fct_p99_us <= 20ms")
    };
    let found = &answers(UNFINISHED, &bounded)[0];
    assert_eq!((found.outcome, &found.holds_to), (Outcome::Never, &None), "{found:?}");
    for probe in &found.probes {
        let e = probe.estimate;
        assert_eq!((e.mean, e.reason), (None, Some(Reason::Unfinished)), "{probe:?}");
        assert!(e.unfinished > 0.0 && e.at_least.is_some_and(|us| us <= 20_000.0), "{probe:?}");
        // More repetitions would not help.
        assert_eq!(e.repetitions, 5);
    }
    // In a run that lasts until all have arrived it is known.
    let longer = UNFINISHED.replace("20ms", "1s");
    let found = &answers(&longer, &bounded)[0];
    assert!(found.probes.iter().all(|p| p.estimate.mean.is_some()), "{found:?}");
}

/// Random sizes and deadlines: verdicts need repetitions.
const RANDOM: &str = r#"
name = "random"
transports = ["tcp", "d3"]
[network]
topology = "star"
hosts = 5
rate = "1Gbps"
delay = "10us"
[[traffic]]
pattern = "incast"
receiver = 0
workers = 6
sizes = { uniform = ["2KB", "50KB"] }
deadlines = { exponential = { mean = "10ms", floor = "3ms" } }
[run]
duration = "100ms"
"#;

#[test]
fn the_answer_does_not_depend_on_threads_and_is_found_again() {
    let asked = question("traffic.workers", "deadlines_met >= 85%");
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (alone, reused) = search(RANDOM, &asked, one.path(), 1);
    assert_eq!(reused, 0);
    assert_eq!(alone, search(RANDOM, &asked, two.path(), 3).0);
    // It takes the runs that are there, and only those that are not are made.
    let runs: usize = alone.iter().map(|a| a.runs).sum();
    std::fs::remove_dir_all(one.path().join("traffic.workers=6/d3")).unwrap();
    let of_d3 = alone[1].probes.iter().find(|p| p.value == "6").unwrap();
    let lost = of_d3.estimate.repetitions as usize;
    let (again, reused) = search(RANDOM, &asked, one.path(), 2);
    assert_eq!((&again, reused), (&alone, runs - lost));
    for answer in &alone {
        let value = |text: &Option<String>| text.as_ref().unwrap().parse::<u32>().unwrap();
        let capacity = value(&answer.capacity);
        assert!(value(&answer.holds_to) <= capacity && capacity < value(&answer.fails_from));
        // Repetitions were added where the interval included the threshold, and only there.
        for probe in &answer.probes {
            let e = probe.estimate;
            assert!(e.verdict.is_sure() || e.repetitions == 20, "{probe:?}");
            assert!([5, 10, 20].contains(&e.repetitions), "{probe:?}");
        }
        assert!(answer.probes.iter().any(|p| p.estimate.repetitions > 5), "{answer:?}");
    }
}

#[test]
fn wrong_questions_are_refused_at_the_place() {
    let until = "deadlines_met >= 99%";
    for (asked, words) in [
        (question("traffic.worker", until), "did you mean `traffic.workers`?"),
        (question("trafic.workers", until), "did you mean `traffic.workers`?"),
        (question("traffic.size", until), "did you mean `traffic.sizes`?"),
        (question("traffic.jitter", until), "--set traffic.jitter=VALUE"),
        (question("traffic.pattern", until), "is `incast`, not a number"),
        (question("traffic", until), "is a list, not a number"),
        (question("network", until), "vary `network.hosts`, `network.rate` or `network.delay`"),
        (question("run.seed", until), "`run.seed` controls repetitions"),
        (question("transports", until), "is a list"),
        (question("", until), "unknown key ``"),
        (question("traffic.workers", "deadlines_met >= lots"), "--until:1:18"),
        (question("traffic.workers", "deadline_met >= 9%"), "did you mean `deadlines_met`?"),
    ] {
        let message = refusal(SHARED, &asked);
        assert!(message.contains(words), "{asked:?}\n{message}");
    }
    let workers = || question("traffic.workers", until);
    let from = |from: &str| Question { from: Some(from.into()), ..workers() };
    assert!(refusal(SHARED, &from("many")).contains("--from:1:1"));
    assert!(refusal(SHARED, &from("5ms")).contains("has no unit"));
    let nothing = Question { to: Some("3".into()), ..from("5") };
    assert!(refusal(SHARED, &nothing).contains("no value to try"));
    let deadline = Question { to: Some("1s".into()), ..question("traffic.deadlines", until) };
    assert!(refusal(SHARED, &deadline).contains("the key is in ms"));
    // Bounds that the scenario refuses are refused with its words.
    let senders = SHARED.replace("workers = 8", "senders = 2");
    let beyond = Question { to: Some("9".into()), ..question("traffic.senders", until) };
    assert!(refusal(&senders, &beyond).contains("traffic.senders = 9"));
}

#[test]
fn a_column_without_values_is_an_error() {
    let text = SHARED.replace("deadlines = \"20.5ms\"\n", "");
    let asked = question("traffic.workers", "deadlines_met >= 99%");
    let mut search = CapacitySearch::new(&study(&text), &asked).unwrap();
    let runs = search.next_runs().unwrap();
    let out = tempfile::tempdir().unwrap();
    let options =
        Options { out: out.path().to_owned(), threads: 1, fresh: false, csv: false, sync: false };
    let stop = AtomicBool::new(false);
    let reports = execute(search.study(), &runs, &options, &(), &stop).unwrap();
    let message = search.learn(&reports).unwrap_err().to_string();
    assert!(message.contains("`deadlines_met` has no value for ideal-fair"), "{message}");
}

/// Flows arrive at 1.4 times what their hosts can send, but for 4 ms only: what is left over then
/// takes 1.6 ms more, and every flow has 10 ms. So all are on time, at this load and at the next,
/// which says nothing of the load.
const TRAP: &str = r#"
name = "trap"
transports = ["ideal-fair"]
[network]
topology = "star"
hosts = 8
rate = "1Gbps"
delay = "0us"
[[traffic]]
pattern = "random"
arrivals = { poisson-load = 1.4 }
sizes = "20KB"
deadlines = "10ms"
stop = "4ms"
[run]
duration = "100ms"
"#;

#[test]
fn a_load_above_one_that_ends_too_soon_holds_not_surely() {
    let key = "traffic.arrivals.poisson-load";
    let bounds = |to: &str| Question {
        from: Some("1.4".into()),
        to: Some(to.into()),
        ..question(key, "deadlines_met >= 99%")
    };
    let found = answers(TRAP, &bounds("1.5"));
    let (answer, probe) = (&found[0], &found[0].probes[0]);
    assert_eq!(answer.outcome, Outcome::Always, "{answer:?}");
    assert_eq!(answer.holds_to, None, "{answer:?}");
    assert_eq!(probe.estimate.mean, Some(1.0));
    assert_eq!(probe.estimate.verdict, Verdict::LeansToHold);
    let reason = &probe.reasons[0];
    assert!(
        reason.starts_with("offered load is 1.") && reason.contains("arrives for 4ms"),
        "{reason}"
    );
    assert!(reason.contains("less than 3 deadlines of 10ms"), "{reason}");
    // With arrivals of some deadlines it does not hold, and that is sure.
    let longer = TRAP.replace("stop = \"4ms\"", "stop = \"40ms\"");
    let found = answers(&longer, &bounds("1.4"));
    assert_eq!(
        (found[0].outcome, found[0].probes[0].estimate.verdict),
        (Outcome::Never, Verdict::Fails)
    );
    assert!(found[0].probes[0].reasons.is_empty());
}

/// Flows of 1.05 times what a link carries arrive for five deadlines: its queue grows to a quarter
/// of a deadline, so that most are on time. In 900 ms it grows to 4.3 deadlines.
#[test]
fn a_load_just_above_one_needs_time_to_fail() {
    let incast = TRAP.replace("pattern = \"random\"", "pattern = \"incast\"\nreceiver = 0");
    let incast = incast.replace("[[traffic]]", "[[traffic]]\nname = \"web\"");
    let with = |stop: &str| {
        let text = incast.replace("stop = \"4ms\"", &format!("stop = \"{stop}\""));
        let text = text.replace("duration = \"100ms\"", "duration = \"2s\"");
        let asked = Question {
            from: Some("0.142".into()),
            to: Some("0.142".into()),
            step: Some("0.001".into()),
            ..question("traffic.web.arrivals.poisson-load", "deadlines_met >= 50%")
        };
        let found = answers(&text, &asked);
        (found[0].outcome, found[0].probes[0].estimate.verdict, found[0].probes[0].reasons.len())
    };
    // Seven senders at 0.142, with 78 B for each 1,460 of payload: 1.048.
    assert_eq!(with("50ms"), (Outcome::Always, Verdict::LeansToHold, 1));
    let (outcome, verdict, reasons) = with("900ms");
    assert_eq!((outcome, reasons), (Outcome::Never, 0), "{verdict:?}");
}

/// The trap at its full size: 128 hosts at 1.3 with web-search sizes, whose few large flows a run
/// of 2 ms may not draw. Also for a condition on completion times, which has no deadlines to be
/// compared with.
#[test]
fn heavy_tails_do_not_make_an_overload_sure() {
    let text = TRAP
        .replace("hosts = 8", "hosts = 128")
        .replace("1Gbps", "10Gbps")
        .replace("\"20KB\"", "\"web-search\"")
        .replace("stop = \"4ms\"", "stop = \"2ms\"")
        .replace("deadlines = \"10ms\"", "deadlines = \"20ms\"");
    for (text, until, than) in [
        (text.clone(), "deadlines_met >= 50%", "3 deadlines of 20ms"),
        (text.replace("deadlines = \"20ms\"", ""), "fct_p50_us <= 20ms", "3 times 20ms"),
    ] {
        let asked = Question {
            from: Some("1.3".into()),
            to: Some("1.3".into()),
            step: Some("0.1".into()),
            ..question("traffic.arrivals.poisson-load", until)
        };
        let found = answers(&text, &asked);
        let probe = &found[0].probes[0];
        assert_eq!(found[0].outcome, Outcome::Always, "{probe:?}");
        assert_eq!(found[0].holds_to, None, "{probe:?}");
        assert_eq!(probe.estimate.verdict, Verdict::LeansToHold, "{probe:?}");
        assert!(probe.reasons[0].contains(than), "{probe:?}");
    }
}
