use super::*;
use crate::DeadlineBars;
use punctual_core::rng::Stream;
use punctual_results::{Figure, Metric, Summary};

/// Completion times spread over some orders of magnitude.
fn times(seed: u64, n: usize, shortest_us: f64, spread: f64) -> Vec<Duration> {
    let mut stream = Stream::from_seed(seed);
    let mut time = || {
        let u = stream.unit();
        shortest_us * libm::exp(spread * u * u * u + 0.3 * stream.unit())
    };
    (0..n).map(|_| Duration::from_secs_f64(time() * 1e-6)).collect()
}

fn cdf() -> FctCdf {
    let curve = |name, seed, shortest, spread, given_up| {
        let open = vec![Time::Never(0.0); given_up];
        Curve::new(name, times(seed, 3000, shortest, spread), open)
    };
    FctCdf {
        title: "Flow completion times under incast".into(),
        subtitle: "40 senders to 1 receiver, 64 KB each, 10 Gb/s links, 5 repetitions".into(),
        curves: vec![
            curve("ndp", 1, 60.0, 1.2, 0),
            curve("pdq", 2, 75.0, 1.6, 0),
            curve("d2tcp", 4, 90.0, 3.0, 0),
            curve("mptcp", 5, 120.0, 4.0, 0),
            curve("tcp", 6, 120.0, 6.5, 300),
        ],
        deadline: Some(Duration::from_millis(1)),
    }
}

fn bars() -> DeadlineBars {
    let summary = |name: &str, met, half| {
        let mut summary = Summary { transport: name.into(), ..Summary::default() };
        summary[Metric::DeadlinesMet] = Figure::known(Some(met), Some(half));
        summary
    };
    let summaries = [
        summary("ndp", 0.997, 0.002),
        summary("pdq", 0.954, 0.011),
        summary("d2tcp", 0.871, 0.024),
        summary("mptcp", 0.702, 0.031),
        summary("tcp", 0.433, 0.066),
    ];
    DeadlineBars::new(
        "Deadlines met under incast",
        "40 senders to 1 receiver, 64 KB each, 10 Gb/s links, 5 repetitions",
        &summaries,
    )
}

fn png_size(png: &[u8]) -> (u32, u32) {
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

/// Draws to where a person can look, when asked: `FIGURES=dir cargo test -p punctual-report`.
fn show(name: &str, svg: String, png: Vec<u8>) {
    if let Some(dir) = std::env::var_os("FIGURES") {
        let path = std::path::Path::new(&dir).join(name);
        std::fs::write(path.with_extension("svg"), svg).unwrap();
        std::fs::write(path.with_extension("png"), png).unwrap();
    }
}

#[test]
fn cdf_is_the_same_every_time_and_large_enough() {
    let figure = cdf();
    show("cdf", figure.svg(), figure.png());
    let (svg, png) = (figure.svg(), figure.png());
    assert!(svg == cdf().svg() && png == cdf().png());
    assert_eq!(png_size(&png), (1920, 1040));
    assert!(svg.starts_with("<svg width=\"960\" height=\"520\" viewBox=\"0 0 3840 2080\""));
    for part in ["ndp", "mptcp", "100 µs", "deadline 1 ms", "Share of flows", "#0072B2"] {
        assert!(svg.contains(part), "{part}");
    }
    assert!(svg.trim_end().ends_with("</svg>"));
}

#[test]
fn bars_are_the_same_every_time_and_large_enough() {
    let figure = bars();
    show("bars", figure.svg(), figure.png());
    let (svg, png) = (figure.svg(), figure.png());
    assert!(svg == bars().svg() && png == bars().png());
    assert!(png_size(&png).0 >= 1200);
    for part in ["99.7 % ± 0.2", "43.3 % ± 6.6", "100 %"] {
        assert!(svg.contains(part), "{part}");
    }
}

#[test]
fn figures_of_nothing_can_be_drawn() {
    let empty = FctCdf::default();
    assert!(empty.svg().contains("no flow completed"));
    assert!(!empty.png().is_empty());
    let none = FctCdf {
        curves: vec![Curve::new("tcp", Vec::new(), vec![Time::Never(0.0); 5])],
        ..FctCdf::default()
    };
    show("none", none.svg(), none.png());
    assert!(none.svg().contains("p50 never"));
    let bars =
        DeadlineBars::new("", "", &[Summary { transport: "a".into(), ..Summary::default() }]);
    assert!(bars.is_empty());
    assert!(bars.svg().contains("no deadlines"));
}

#[test]
fn names_are_escaped_and_cut() {
    let long = "tcp <with> & a very long description of its parameters";
    let figure = FctCdf {
        curves: vec![
            Curve::new(long, times(1, 10, 5.0, 0.5), Vec::new()),
            Curve::new("tcp", times(2, 1, 5.0, 0.1), Vec::new()),
        ],
        title: "a < b & c".into(),
        subtitle: long.repeat(5),
        ..FctCdf::default()
    };
    show("names", figure.svg(), figure.png());
    let svg = figure.svg();
    assert!(svg.contains("a &lt; b &amp; c") && svg.contains("…"), "{svg}");
    assert!(!svg.contains("<with>"));
}

#[test]
fn a_million_flows_make_a_small_figure() {
    let figure = FctCdf {
        curves: vec![Curve::new("ndp", times(3, 1_000_000, 10.0, 7.0), Vec::new())],
        ..FctCdf::default()
    };
    assert!(figure.svg().len() < 200_000);
}

#[test]
fn quantiles_count_flows_that_did_not_complete() {
    let completed: Vec<Duration> = (1..=98).map(Duration::from_micros).collect();
    let cut_off = Time::Censored(Duration::from_micros(200).as_picos() as f64);
    let curve = Curve::new("tcp", completed.clone(), vec![cut_off; 2]);
    assert_eq!(curve.quantile(500), "50 µs");
    assert_eq!(curve.quantile(980), "98 µs");
    assert_eq!(curve.quantile(990), "> 200 µs");
    let given_up = Curve::new("tcp", completed, vec![Time::Never(0.0); 2]);
    assert_eq!(given_up.quantile(990), "> 98 µs");
}
