//! `punctual list`.

use crate::args::Global;
use punctual_fluid::Policy;
use punctual_lab::{BENCH_CASES, NetworkSection, load_study};
use punctual_sim::Simulate;
use punctual_workload::BuiltIn;
use std::io::Write as _;
use std::path::Path;

/// A heading and what stands under it: name and a line about it.
type Section = (&'static str, Vec<(String, String)>);

pub(crate) fn list<S: Simulate>(global: &Global) -> anyhow::Result<()> {
    let transports = S::catalogue().iter().map(|t| (t.name, t.summary));
    let ideal = Policy::ALL.iter().map(|p| (p.name(), p.summary()));
    let topologies = NetworkSection::catalogue().iter().map(|t| (t.name, t.summary));
    let patterns = PATTERNS.iter().copied();
    let sizes = BuiltIn::ALL.iter().map(|b| (b.name(), "")).chain(SIZES.iter().copied());
    let owned = |items: Vec<(&str, &str)>| {
        items.into_iter().map(|(name, about)| (name.to_owned(), about.to_owned())).collect()
    };
    let sections: Vec<Section> = vec![
        ("transports", owned(transports.collect())),
        ("ideal schedulers", owned(ideal.collect())),
        ("topologies", owned(topologies.collect())),
        ("patterns", owned(patterns.collect())),
        ("arrivals", owned(ARRIVALS.to_vec())),
        ("sizes", owned(sizes.collect())),
        ("scenarios", scenarios::<S>(Path::new("scenarios"))),
        ("benchmarks", BENCH_CASES.iter().map(|c| (c.name.to_owned(), String::new())).collect()),
    ];
    let mut out = std::io::stdout().lock();
    if global.json {
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
        let width = items.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(26);
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

/// Forms of `arrivals`; docs/scenario.md explains them.
const ARRIVALS: &[(&str, &str)] = &[
    ("\"together\"", "one burst of the whole pattern"),
    ("{ periodic = \"2ms\" }", "a burst every so often"),
    ("{ poisson-bursts = \"2ms\" }", "bursts with exponential gaps"),
    ("{ poisson-load = 0.6 }", "single flows that fill this share of the senders' NICs"),
    ("{ poisson-per-second = 2500 }", "so many single flows a second from all senders together"),
    ("{ poisson-per-second-per-sender = 1300 }", "so many single flows a second from each sender"),
    ("{ closed-loop = { connections, gap } }", "a flow starts one gap after the end of the last"),
    ("  gap = \"1ms\"", "always the same; also { fixed = \"1ms\" }"),
    ("  gap = { exponential = \"1ms\" }", "exponential with this mean"),
    ("  gap = { exponential-median = \"1ms\" }", "exponential with this median"),
];

/// Forms of `sizes` that are not built-in distributions.
const SIZES: &[(&str, &str)] = &[
    ("\"64KB\"", "all the same"),
    ("\"endless\"", "flows that never end"),
    ("{ uniform = [\"2KB\", \"50KB\"] }", "anything between two sizes"),
    ("{ pareto = { mean, shape, cap } }", "heavy-tailed"),
    ("{ cdf = [[\"1KB\", 0.5], …] }", "by its points"),
    ("{ file = \"sizes.txt\" }", "by its points, in a file"),
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
