//! The TOML form of `[[traffic]]`: parsing, serialization and error messages.

use punctual_core::{Bytes, Class, Duration, HostId, Instant, TransportId};
use punctual_workload::{
    Arrivals, BuiltIn, DeadlineChange, Deadlines, FlowList, Gap, LoadError, LoopSpec, Pareto,
    Pattern, Senders, Sizes, TrafficSpec,
};
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Scenario {
    traffic: Vec<TrafficSpec>,
}

fn read(text: &str) -> TrafficSpec {
    toml::from_str(text).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

fn error(text: &str) -> String {
    let text = format!("[[traffic]]\n{text}");
    toml::from_str::<Scenario>(&text).unwrap_err().to_string()
}

#[test]
fn every_form_is_read_and_written_back() {
    let text = r#"
        [[traffic]]
        name = "queries"
        pattern = "incast"
        workers = 40
        receiver = 0
        sizes = { uniform = ["2KB", "50KB"] }
        deadlines = { exponential = { mean = "20ms", floor = "3ms" } }
        deadlines_below = "40KB"
        deadline_change = { after = "5ms", deadline = "10ms" }
        arrivals = { periodic = "2ms" }
        flows_each = 2
        jitter = "10us"
        redraw = true
        start = "5ms"
        stop = "1s"
        limit = 1000
        transport = 1
        class = 3

        [[traffic]]
        pattern = "permutation"
        sizes = "endless"
        background = true
        hosts = "2-9, 12"
        exclude = [3]

        [[traffic]]
        pattern = "random"
        sizes = "web-search"
        arrivals = { poisson-load = 0.6 }

        [[traffic]]
        pattern = "stride"
        stride = 3
        sizes = { pareto = { mean = "100KB", shape = 1.1, cap = "10MB" } }
        arrivals = { poisson-per-second = 2500 }

        [[traffic]]
        pattern = "staggered"
        local = 0.7
        sizes = { cdf = [["1KB", 0.5], ["10KB", 1]] }
        deadlines = { uniform = ["18ms", "22ms"] }
        arrivals = { closed-loop = { connections = 5, gap = { exponential-median = "1ms" } } }

        [[traffic]]
        pattern = "all-to-all"
        sizes = { fixed = "64KB" }
        deadlines = "20ms"
        arrivals = "together"

        [[traffic]]
        pattern = "pairs"
        pairs = [[0, 1], [2, 3]]
        sizes = { file = "sizes.txt" }
        arrivals = { closed-loop = {} }

        [[traffic]]
        pattern = "incast"
        senders = 2
        sizes = "90KB"
        arrivals = { poisson-per-second-per-sender = 1300 }

        [[traffic]]
        pattern = "incast"
        sizes = "90KB"
        arrivals = { poisson-bursts = "2ms" }

        [[traffic]]
        pattern = "list"
        file = "flows.csv"

        [[traffic]]
        pattern = "list"
        flows = [{ src = 0, dst = 1, size = "1MB", start = "1ms", deadline = "5ms", transport = 2 },
                 { src = 1, dst = 0, size = "endless" }]
    "#;
    let scenario: Scenario = toml::from_str(text).unwrap();
    let written = toml::to_string(&scenario).unwrap();
    assert_eq!(toml::from_str::<Scenario>(&written).unwrap(), scenario, "{written}");

    let queries = &scenario.traffic[0];
    assert_eq!(
        *queries,
        TrafficSpec {
            name: Some("queries".into()),
            arrivals: Arrivals::Periodic(Duration::from_millis(2)),
            flows_each: 2,
            jitter: Duration::from_micros(10),
            redraw: Some(true),
            deadlines: Deadlines::Exponential {
                mean: Duration::from_millis(20),
                floor: Duration::from_millis(3),
            },
            deadlines_below: Some(Bytes::new(40_000)),
            deadline_change: Some(DeadlineChange {
                after: Duration::from_millis(5),
                deadline: Some(Duration::from_millis(10)),
            }),
            start: Instant::ZERO + Duration::from_millis(5),
            stop: Some(Instant::ZERO + Duration::from_secs(1)),
            limit: Some(1000),
            transport: TransportId(1),
            class: Class(3),
            ..TrafficSpec::new(
                Pattern::Incast { senders: Senders::Workers(40), receiver: Some(HostId(0)) },
                Sizes::Uniform(Bytes::new(2_000), Bytes::new(50_000)),
            )
        }
    );
    let [_, permutation, random, stride, staggered, all, pairs, ..] = &scenario.traffic[..] else {
        panic!("eleven traffics");
    };
    assert_eq!(permutation.sizes, Sizes::Endless);
    assert!(permutation.exclude.contains(HostId(3)) && permutation.background);
    assert_eq!(random.sizes, Sizes::Named(BuiltIn::WebSearch));
    assert_eq!(random.arrivals, Arrivals::PoissonLoad(0.6));
    assert_eq!(
        stride.sizes,
        Sizes::Pareto(Pareto {
            mean: Bytes::new(100_000),
            shape: 1.1,
            cap: Some(Bytes::new(10_000_000)),
        })
    );
    assert_eq!(
        staggered.arrivals,
        Arrivals::ClosedLoop(LoopSpec {
            connections: 5,
            gap: Gap::ExponentialMedian(Duration::from_millis(1)),
        })
    );
    assert_eq!(all.sizes, Sizes::Fixed(Bytes::new(64_000)));
    assert_eq!(all.deadlines, Deadlines::Fixed(Duration::from_millis(20)));
    assert_eq!(pairs.arrivals, Arrivals::ClosedLoop(LoopSpec::default()));
}

#[test]
fn files_are_loaded_by_the_caller() {
    let mut spec = read("pattern = 'random'\nsizes = { file = 'sizes.txt' }");
    let file = |file: &str| match file {
        "sizes.txt" => Ok(String::from("1000 0.5\n2000 1\n")),
        _ => Err("no such file"),
    };
    spec.load_files(file, |_| None).unwrap();
    assert_eq!(spec.sizes.mean(), Some(1250.0));

    let mut spec = read("pattern = 'list'\nfile = 'flows.csv'");
    let text = |_: &str| Ok::<_, String>("src,dst,size,start\n0,1,1KB,0s\n".into());
    spec.load_files(text, |_| None).unwrap();
    assert!(matches!(&spec.pattern, Pattern::Listed(FlowList::Flows(flows)) if flows.len() == 1));

    let mut spec = read("pattern = 'list'\nfile = 'flows.csv'");
    let problem = spec.load_files(|_| Ok::<_, String>("src,dst\n".into()), |_| None);
    assert!(matches!(problem, Err(LoadError::Flows { .. })));
    let problem = problem.unwrap_err().to_string();
    assert!(problem.starts_with("flows.csv: line 1"), "{problem}");
}

#[test]
fn mistakes_are_explained() {
    let cases = [
        ("pattern = 'incst'\nsizes = '1KB'", "unknown variant `incst`"),
        ("pattern = 'incast'", "needs `sizes`"),
        ("sizes = '1KB'", "missing field `pattern`"),
        ("pattern = 'random'\nsizes = 64", "64"),
        ("pattern = 'random'\nsizes = '64'", "has no unit"),
        ("pattern = 'random'\nsizes = 'web-serach'", "web-search"),
        ("pattern = 'random'\nsizes = '0KB'", "at least one byte"),
        ("pattern = 'random'\nsizes = { uniform = ['9KB', '1KB'] }", "swap"),
        ("pattern = 'random'\nsizes = { unifrom = ['1KB', '9KB'] }", "`uniform`"),
        ("pattern = 'random'\nsizes = { cdf = [] }", "no points"),
        ("pattern = 'random'\nsizes = { cdf = [['1KB', 0.5]] }", "must be 1"),
        ("pattern = 'random'\nsizes = '1KB'\nstride = 3", "`stride` has no meaning"),
        ("pattern = 'random'\nsizes = '1KB'\nsendres = 3", "sendres"),
        ("pattern = 'stride'\nsizes = '1KB'", "stride = 1"),
        ("pattern = 'staggered'\nsizes = '1KB'", "local = 0.7"),
        ("pattern = 'pairs'\nsizes = '1KB'", "pairs = [[0, 1]]"),
        ("pattern = 'list'\nsizes = '1KB'\nfile = 'a'", "`sizes` has no meaning"),
        ("pattern = 'list'", "needs `file`"),
        ("pattern = 'incast'\nsizes = '1KB'\nsenders = 1\nworkers = 2", "keep one"),
        ("pattern = 'random'\nsizes = '1KB'\nclass = 8", "below 8"),
        ("pattern = 'random'\nsizes = '1KB'\nhosts = '3-1'", "set of hosts"),
        ("pattern = 'random'\nsizes = '1KB'\ndeadlines = '20'", "has no unit"),
        ("pattern = 'random'\nsizes = '1KB'\narrivals = { poison-load = 1 }", "poisson-load"),
        (
            "pattern = 'random'\nsizes = '1KB'\narrivals = { closed-loop = { conections = 1 } }",
            "`connections`",
        ),
    ];
    for (text, part) in cases {
        let error = error(text);
        assert!(error.contains(part), "{text}\n{error}");
        assert!(error.contains("TOML parse error at line"), "{error}");
    }
}
