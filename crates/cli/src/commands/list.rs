//! `punctual list`.

use punctual_core::Bytes;
use punctual_fluid::Policy;
use punctual_lab::{BENCH_CASES, NetworkSection, load_study};
use punctual_sim::Simulate;
use punctual_workload::BuiltIn;
use std::io::Write as _;
use std::path::Path;

/// A heading and its entries: name and description.
type Section = (&'static str, Vec<(String, String)>);

pub(crate) fn list<S: Simulate>(json: bool) -> anyhow::Result<()> {
    let transports = S::catalogue().iter().map(|t| (t.name, t.summary));
    let ideal = Policy::ALL.iter().map(|p| (p.name(), p.summary()));
    let topologies = NetworkSection::catalogue().iter().map(|t| (t.name, t.summary));
    let patterns = PATTERNS.iter().copied();
    let built_in = BuiltIn::ALL.map(|sizes| (sizes.name().to_owned(), about(sizes)));
    let given = SIZES.iter().map(|(name, about)| ((*name).to_owned(), (*about).to_owned()));
    let owned = |items: Vec<(&str, &str)>| {
        items.into_iter().map(|(name, about)| (name.to_owned(), about.to_owned())).collect()
    };
    let sections: Vec<Section> = vec![
        ("transports", owned(transports.collect())),
        ("ideal schedulers", owned(ideal.collect())),
        ("topologies", owned(topologies.collect())),
        ("patterns", owned(patterns.collect())),
        ("arrivals", owned(ARRIVALS.to_vec())),
        ("sizes", built_in.into_iter().chain(given).collect()),
        ("queues", owned(QUEUES.to_vec())),
        ("scenarios", scenarios::<S>(Path::new("scenarios"))),
        ("benchmarks", BENCH_CASES.iter().map(|c| (c.name.to_owned(), String::new())).collect()),
    ];
    let mut out = std::io::stdout().lock();
    if json {
        for (kind, items) in &sections {
            for (name, about) in items {
                let object = serde_json::json!({ "kind": kind, "name": name, "about": about });
                writeln!(out, "{object}")?;
            }
        }
        return Ok(());
    }
    for (i, (heading, items)) in sections.iter().filter(|(_, items)| !items.is_empty()).enumerate()
    {
        writeln!(out, "{}{heading}", if i > 0 { "\n" } else { "" })?;
        let width = items.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, about) in items {
            writeln!(out, "{}", format!("  {name:<width$}  {about}").trim_end())?;
        }
    }
    Ok(())
}

const PATTERNS: &[(&str, &str)] = &[
    ("incast", "many to one"),
    ("permutation", "each host sends to one other and receives from one other"),
    ("random", "each host sends to others drawn at random"),
    ("stride", "host i sends to host i + stride"),
    ("staggered", "each host sends within its rack with some probability"),
    ("all-to-all", "each host sends to each other"),
    ("pairs", "from the first to the second of each pair"),
    ("list", "flows one by one, in a CSV file or in the scenario"),
];

/// Kinds of `[queue]`; docs/scenario.md has their keys.
const QUEUES: &[(&str, &str)] = &[
    ("drop-tail", "drops arrivals that do not fit"),
    ("ecn", "drop-tail; marks ECN-capable packets above a threshold"),
    ("priority", "strict priority by service class, drop-tail in each"),
    ("lossless", "PFC: pauses links instead of dropping"),
    ("trim", "NDP's two queues: trims packets that do not fit to their header"),
    ("trim-model", "a trimming switch as simulated by NDP's paper, or as built"),
    ("cut-payload", "trims arrivals above a threshold; headers queue with whole packets"),
    ("fair-classes", "a trim queue and another one that share the link"),
];

/// One line about a size distribution: its source, median and mean.
fn about(sizes: BuiltIn) -> String {
    let cdf = sizes.cdf();
    let [median, mean] = [cdf.quantile(0.5), cdf.mean()].map(|bytes| Bytes::new(bytes as u64));
    format!("{}; median {}, mean {}", sizes.source(), rounded(median), rounded(mean))
}

/// A size rounded to two digits.
fn rounded(size: Bytes) -> Bytes {
    let unit = 10u64.pow(size.get().max(1).ilog10().saturating_sub(1));
    Bytes::new((size.get() + unit / 2) / unit * unit)
}

/// Forms of `arrivals`; docs/scenario.md explains them.
const ARRIVALS: &[(&str, &str)] = &[
    ("\"together\"", "one burst of the whole pattern"),
    ("{ periodic = \"2ms\" }", "bursts at fixed intervals"),
    ("{ poisson-bursts = \"2ms\" }", "bursts with exponential gaps"),
    ("{ poisson-load = 0.6 }", "single flows that fill this share of the senders' NICs"),
    ("{ poisson-per-second = 2500 }", "single flows per second, from all senders together"),
    ("{ poisson-per-second-per-sender = 1300 }", "single flows per second, from each sender"),
    ("{ closed-loop = { connections, gap } }", "a flow starts one gap after the end of the last"),
    ("  gap = \"1ms\"", "constant; also { fixed = \"1ms\" }"),
    ("  gap = { exponential = \"1ms\" }", "exponential with this mean"),
    ("  gap = { exponential-median = \"1ms\" }", "exponential with this median"),
];

/// Forms of `sizes` that are not built-in distributions.
const SIZES: &[(&str, &str)] = &[
    ("\"64KB\"", "constant"),
    ("\"endless\"", "flows that never end"),
    ("{ uniform = [\"2KB\", \"50KB\"] }", "uniform between two sizes"),
    ("{ pareto = { mean, shape, cap } }", "heavy-tailed"),
    ("{ cdf = [[\"1KB\", 0.5], …] }", "CDF given by points"),
    ("{ file = \"sizes.txt\" }", "CDF given by points in a file"),
];

/// Scenario files of a directory with their descriptions.
fn scenarios<S: Simulate>(dir: &Path) -> Vec<(String, String)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .map(|entries| entries.filter_map(|e| Some(e.ok()?.path())).collect())
        .unwrap_or_default();
    files.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    files.sort();
    let about = |path: &Path| match load_study::<S>(path, &[]) {
        Ok(study) => study.points()[0].scenario.description.clone(),
        Err(_) => "cannot be read; `punctual check` says why".to_owned(),
    };
    files.iter().map(|path| (path.display().to_string(), about(path))).collect()
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;
    use punctual_core::QueueSpec;

    /// The error for an unknown kind lists all kinds.
    #[test]
    fn every_kind_of_queue_is_listed() {
        let error = serde_json::from_str::<QueueSpec>(r#"{ "kind": "no" }"#).unwrap_err();
        let names: Vec<String> = QUEUES.iter().map(|(name, _)| format!("`{name}`")).collect();
        let text = error.to_string();
        let (_, known) = text.split_once("expected one of ").expect("a list");
        let known: Vec<&str> = known.split(" at line").next().expect("it").split(", ").collect();
        assert_eq!(known, names);
    }

    #[test]
    fn rounded__two_digits() {
        let text = |bytes| rounded(Bytes::new(bytes)).to_string();
        assert_eq!([0, 7, 64, 1_749, 1_671_432].map(text), ["0B", "7B", "64B", "1.7KB", "1.7MB"]);
    }
}
