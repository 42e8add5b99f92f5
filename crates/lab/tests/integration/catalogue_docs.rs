//! The tables of the docs that show the last results of the catalogue, `experiments/results/`.
//!
//! An experiment's claims come from `full.jsonl` if it is there, and else from `quick.jsonl`. Those
//! about real packets come from `testbed.jsonl`.

use punctual_lab::catalogue::{
    Catalogue, ClaimLine, ClaimVerdict, Cost, Judgement, MEASUREMENTS, MadeBy, Measured, Open,
    ReadingLine, ResultsKind, ResultsState, sums,
};
use punctual_testkit::{markdown_table, print_figure, text_table};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

/// A claim of the last results.
struct Last {
    line: ClaimLine,
    is_quick: bool,
}

impl Last {
    fn is_of(&self, paper: &str) -> bool {
        self.line.experiment.split('/').next() == Some(paper)
    }
}

pub(crate) fn lines(name: &str) -> Vec<ClaimLine> {
    let Ok(text) = std::fs::read_to_string(folder().join("results").join(name)) else {
        return Vec::new();
    };
    let line = |text: &str| serde_json::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}"));
    text.lines().map(line).collect()
}

/// The last results, in the catalogue's order.
fn last() -> Vec<Last> {
    let (full, quick, real) = (lines("full.jsonl"), lines("quick.jsonl"), lines("testbed.jsonl"));
    let with_full: BTreeSet<String> = full.iter().map(|line| line.experiment.clone()).collect();
    let name = |line: &ClaimLine| (line.experiment.clone(), line.claim.clone());
    let is_real: BTreeSet<(String, String)> = real.iter().map(name).collect();
    let full = full.into_iter().map(|line| Last { line, is_quick: false });
    let quick = quick.into_iter().filter(|line| !with_full.contains(&line.experiment));
    let mut all: Vec<Last> = full.chain(quick.map(|line| Last { line, is_quick: true })).collect();
    all.retain(|last| !is_real.contains(&name(&last.line)));
    all.extend(real.into_iter().map(|line| Last { line, is_quick: false }));
    let order: Vec<String> = catalogue().experiments.into_iter().map(|e| e.id).collect();
    all.sort_by_key(|last| order.iter().position(|id| *id == last.line.experiment));
    all
}

pub(crate) fn catalogue() -> Catalogue {
    Catalogue::load(&folder()).unwrap_or_else(|e| panic!("{e}"))
}

/// `d3/fig9`: its title, and whether its results are quick ones.
fn heading(catalogue: &Catalogue, id: &str, is_quick: bool) -> String {
    let experiment = catalogue.experiments.iter().find(|e| e.id == id);
    let title = experiment.map(|e| e.title.clone()).unwrap_or_default();
    let quick = if is_quick { " (quick)" } else { "" };
    format!("`{id}`: {title}{quick}")
}

/// Results one after another of the same experiment.
fn by_experiment(all: &[Last]) -> impl Iterator<Item = &[Last]> {
    all.chunk_by(|a, b| a.line.experiment == b.line.experiment)
}

/// A verdict as a reader says it.
fn verdict(judgement: &Judgement) -> String {
    judgement.verdict_text().replace('-', " ")
}

/// A table of the claims of each experiment of a paper.
fn table_of(paper: &str) -> String {
    let catalogue = catalogue();
    let mut all = last();
    all.retain(|last| last.is_of(paper));
    let mut text = String::new();
    for own in by_experiment(&all) {
        let id = &own[0].line.experiment;
        let is_quick = own.iter().any(|last| last.is_quick);
        text += &format!("### {}\n\n", heading(&catalogue, id, is_quick));
        let row = |Last { line, .. }: &Last| {
            let here = line.here_text();
            let paper = line.paper_text().to_owned();
            let verdict = verdict(&line.judgement);
            vec![line.sentence(), paper, line.accepted_text(), here, verdict]
        };
        let rows: Vec<Vec<String>> = own.iter().map(row).collect();
        text += &text_table(&["claim", "paper", "accepted", "here", "verdict"], &rows);
        text.push('\n');
    }
    text
}

/// The manifest of a file of results: what made each experiment of it.
fn made_by(kind: ResultsKind) -> BTreeMap<String, MadeBy> {
    let manifest = catalogue().results(kind).unwrap_or_else(|e| panic!("{e}"));
    let is_quick = kind == ResultsKind::Quick;
    assert_eq!(manifest.quick, Some(is_quick), "{}.json: `quick`", kind.name());
    manifest.experiments
}

/// Every claim of the catalogue has a result, and every result is one of its claims.
#[test]
fn every_claim_has_a_result() {
    let found: BTreeSet<(String, String)> =
        last().into_iter().map(|last| (last.line.experiment, last.line.claim)).collect();
    let catalogue = catalogue();
    let claims = catalogue
        .experiments
        .iter()
        .flat_map(|e| e.claims.iter().map(|claim| (e.id.clone(), claim.id.clone())));
    let expected: BTreeSet<(String, String)> = claims.collect();
    let missing: Vec<_> = expected.difference(&found).collect();
    let unknown: Vec<_> = found.difference(&expected).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "without result {missing:?}, unknown {unknown:?}"
    );
}

/// Each file of results has the manifest that names what made each experiment: a build, a commit
/// without changes, and how many runs.
#[test]
fn results_name_what_made_them() {
    for kind in ResultsKind::ALL {
        let name = kind.name();
        let made = made_by(kind);
        let lines = lines(&format!("{name}.jsonl"));
        let with_lines: BTreeSet<&String> = lines.iter().map(|line| &line.experiment).collect();
        assert_eq!(made.keys().collect::<BTreeSet<_>>(), with_lines, "{name}.json");
        for (id, made) in &made {
            let (commit, build) = (&made.commit, &made.build);
            let is_hash = |text: &str| text.chars().all(|c| c.is_ascii_hexdigit());
            assert!(commit.len() == 12 && is_hash(commit), "{name}.json, {id}: {commit:?}");
            assert!(build.len() >= 16 && is_hash(build), "{name}.json, {id}: {build:?}");
            assert!(made.runs != Some(0), "{name}.json, {id}: no runs");
        }
    }
}

/// Each experiment has quick and full results, and both are of its file as it is now.
#[test]
fn no_results_are_stale() {
    let catalogue = catalogue();
    let mut faults = Vec::new();
    for kind in [ResultsKind::Quick, ResultsKind::Full] {
        let manifest = catalogue.results(kind).unwrap_or_else(|e| panic!("{e}"));
        for experiment in &catalogue.experiments {
            let state = manifest.state(experiment, &catalogue.folder);
            let state = state.unwrap_or_else(|e| panic!("{e}"));
            let runs = manifest.experiments.get(&experiment.id).and_then(|made| made.runs);
            if state != ResultsState::Current || runs.is_none() {
                let (kind, id) = (kind.name(), &experiment.id);
                faults.push(format!("{}: cargo xtask results {kind} {id}", state.name()));
            }
        }
    }
    assert!(faults.is_empty(), "results that are not of today's files:\n{}", faults.join("\n"));
}

/// On real packets old results may not name the file that made them; those that do are of it as it
/// is now.
#[test]
fn no_testbed_results_are_stale() {
    let catalogue = catalogue();
    let manifest = catalogue.results(ResultsKind::Testbed).unwrap_or_else(|e| panic!("{e}"));
    for (id, made) in manifest.experiments.iter().filter(|(_, made)| made.file.is_some()) {
        let experiment = catalogue.experiments.iter().find(|e| e.id == *id).expect("its file");
        let now = experiment.fingerprint(&folder()).unwrap_or_else(|e| panic!("{e}"));
        let command = format!("cargo xtask results testbed {id}");
        assert_eq!(made.file.as_ref(), Some(&now), "{id} has changed: {command}");
    }
}

/// Full results took at least as long as quick ones. Two measurements of the same runs may differ by
/// a quarter, or half a second.
#[test]
fn full_takes_at_least_as_long_as_quick() {
    let catalogue = catalogue();
    let mut faults = Vec::new();
    for experiment in &catalogue.experiments {
        let id = &experiment.id;
        let times = catalogue.times.get(id).copied().unwrap_or_default();
        let (Some(quick), Some(full)) = (times.quick, times.full) else {
            faults.push(format!("{id}: no time"));
            continue;
        };
        for (what, quick, full) in [("CPU", quick.cpu, full.cpu), ("wall", quick.wall, full.wall)] {
            if full * 1.25 + 0.5 < quick {
                faults.push(format!("{id}: {what} {full} s in full, {quick} s quick"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A result says of its claim what the catalogue says today, and has been judged under every
/// reading that the catalogue has today. Claims about real packets have theirs in `testbed.jsonl`.
#[test]
fn results_are_of_the_claims_of_today() {
    let catalogue = catalogue();
    let mut faults = Vec::new();
    let id = |line: &ClaimLine| (line.experiment.clone(), line.claim.clone());
    let real: BTreeSet<(String, String)> = lines("testbed.jsonl").iter().map(id).collect();
    for name in ResultsKind::ALL.map(ResultsKind::name) {
        let mut own = lines(&format!("{name}.jsonl"));
        own.retain(|line| name == "testbed" || !real.contains(&id(line)));
        for line in own {
            let experiment = catalogue.experiments.iter().find(|e| e.id == line.experiment);
            let experiment = experiment.expect("its file");
            let Some(claim) = experiment.claims.iter().find(|c| c.id == line.claim) else {
                faults.push(format!("{name}: {} has no claim {}", line.experiment, line.claim));
                continue;
            };
            let today = experiment.line(claim, line.judgement.clone());
            let readings: Vec<&str> = experiment
                .readings
                .iter()
                .filter(|r| r.judges(claim) && name != "testbed")
                .filter(|_| line.judgement.verdict != ClaimVerdict::CannotRun)
                .filter(|r| !(name == "quick" && r.full_only))
                .map(|r| &*r.name)
                .collect();
            let own: Vec<&str> = line.readings.iter().map(|r| &*r.reading).collect();
            let line =
                ClaimLine { readings: Vec::new(), cause: today.cause.clone(), ..line.clone() };
            if line != today || own != readings {
                let (id, claim) = (&line.experiment, &line.claim);
                faults.push(format!("cargo xtask results {name} {id}: {claim} has changed"));
            }
        }
    }
    assert!(faults.is_empty(), "results of other claims:\n{}", faults.join("\n"));
}

/// `66 experiments by commit 134f85c4e58f`, for each that made some of the results.
fn makers() -> String {
    let mut texts = Vec::new();
    for kind in ResultsKind::ALL {
        let name = kind.name();
        let mut commits: BTreeMap<(String, String), usize> = BTreeMap::new();
        for made in made_by(kind).into_values() {
            *commits.entry((made.commit, made.build)).or_default() += 1;
        }
        let text = |((commit, build), count): ((String, String), usize)| {
            format!("{count} by commit `{commit}` (build `{build}`)")
        };
        let all: Vec<String> = commits.into_iter().map(text).collect();
        texts.push(format!("- `{name}.jsonl`: {}", all.join(", ")));
    }
    texts.join("\n")
}

/// Which results are shown, and how many claims hold.
#[test]
fn sums_of_all_claims() {
    let all = last();
    let count = |is_quick: bool| {
        let own = all.iter().filter(|last| last.is_quick == is_quick);
        own.map(|last| &last.line.experiment).collect::<BTreeSet<_>>().len()
    };
    let rows: Vec<Vec<String>> = ["d3", "d2tcp", "pdq", "ndp"]
        .iter()
        .map(|paper| {
            let own: Vec<&Last> = all.iter().filter(|last| last.is_of(paper)).collect();
            let reversed = own.iter().filter(|l| l.line.judgement.is_reversed()).count();
            let of = |verdict: ClaimVerdict| {
                own.iter().filter(|l| l.line.judgement.verdict == verdict).count().to_string()
            };
            let verdicts = [
                ClaimVerdict::Holds,
                ClaimVerdict::Differs,
                ClaimVerdict::Blind,
                ClaimVerdict::CannotRun,
            ];
            let mut row = vec![paper.to_uppercase()];
            row.extend(verdicts.map(of));
            row.insert(3, reversed.to_string());
            row
        })
        .collect();
    let papers = all.iter().filter(|last| !last.is_of("matrix")).map(|last| &last.line);
    let head = ["paper", "holds", "differs", "of these reversed", "blind", "cannot run"];
    let table = markdown_table(&head, &rows);
    let (full, quick) = (count(false), count(true));
    let of = format!("Experiments at full size: {full}; with `--quick`: {quick}.");
    let made = format!("What made the results:\n\n{}", makers());
    print_figure("catalogue-sums", &format!("{}\n{of}\n\n{table}\n{made}", sums(papers)));
}

#[test]
fn claims_of_d3() {
    print_figure("catalogue-d3", &table_of("d3"));
}

#[test]
fn claims_of_d2tcp() {
    print_figure("catalogue-d2tcp", &table_of("d2tcp"));
}

#[test]
fn claims_of_pdq() {
    print_figure("catalogue-pdq", &table_of("pdq"));
}

#[test]
fn claims_of_ndp() {
    print_figure("catalogue-ndp", &table_of("ndp"));
}

/// Missed deadlines by fan-in, D2TCP's Figures 9 to 11, beside the paper's points of Figure 9.
#[test]
fn d2tcp_by_fan_in() {
    const TRANSPORTS: [&str; 4] = ["tcp", "dctcp", "d3", "d2tcp"];
    let all = last();
    let cell = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |v| format!("{v:.1}"));
    // By how many per cent D2TCP misses fewer than DCTCP; nothing where hardly any was missed.
    let fewer = |[_, dctcp, _, d2tcp]: [Option<f64>; 4]| -> String {
        let before = dctcp.filter(|missed| *missed >= 1.0);
        let fewer = before.zip(d2tcp).map(|(before, after)| 100.0 * (1.0 - after / before));
        fewer.map_or_else(|| "–".to_owned(), |fewer| format!("{:.0}", fewer.round() + 0.0))
    };
    let mut text = String::new();
    for (id, title) in [
        ("d2tcp/fig9", "Deadlines ± 10 % (Figure 9)"),
        ("d2tcp/fig10", "Deadlines ± 50 % (Figure 10)"),
        ("d2tcp/fig11", "Exponential deadlines (Figure 11)"),
    ] {
        let at = |transport: &str, fan_in: usize| {
            let claim = format!("{transport}-at-{fan_in}");
            let own = all.iter().find(|l| l.line.experiment == id && l.line.claim == claim);
            let line = &own.unwrap_or_else(|| panic!("{id} has no {claim}")).line;
            let Measured::One(here) = line.judgement.measured else { panic!("{claim}: a number") };
            (here, line.paper.parse::<f64>().ok())
        };
        let row = |fan_ins: &[usize]| -> (Vec<String>, bool) {
            let mean = |values: Vec<Option<f64>>| -> Option<f64> {
                let all: Option<Vec<f64>> = values.into_iter().collect();
                all.map(|all| all.iter().sum::<f64>() / all.len() as f64)
            };
            let of = |is_paper: bool| {
                TRANSPORTS.map(|transport| {
                    let value = |fan_in: &usize| {
                        let (here, paper) = at(transport, *fan_in);
                        if is_paper { paper } else { here }
                    };
                    mean(fan_ins.iter().map(value).collect())
                })
            };
            let (here, paper) = (of(false), of(true));
            let mut cells: Vec<String> = here.map(cell).to_vec();
            cells.push(fewer(here));
            let has_paper = paper[0].is_some();
            if has_paper {
                cells.extend(paper.map(cell));
                cells.push(fewer(paper));
            }
            (cells, has_paper)
        };
        let groups = (1..=8).map(|i| (format!("{}", 5 * i), vec![5 * i]));
        let mean = ("25–40, mean".to_owned(), vec![25, 30, 35, 40]);
        let (mut rows, mut has_paper) = (Vec::new(), false);
        for (name, fan_ins) in groups.chain([mean]) {
            let (cells, with_paper) = row(&fan_ins);
            has_paper |= with_paper;
            rows.push([vec![name], cells].concat());
        }
        let mut head = vec!["fan-in", "TCP", "DCTCP", "D3", "D2TCP", "fewer than DCTCP, %"];
        if has_paper {
            head.extend(["paper: TCP", "DCTCP", "D3", "D2TCP", "fewer than DCTCP, %"]);
        }
        text += &format!("{title}, missed in %:\n\n{}\n", markdown_table(&head, &rows));
    }
    print_figure("catalogue-d2tcp-by-fan-in", &text);
}

/// What the papers leave open, how it is read, and what other readings change.
#[test]
fn readings() {
    let all = last();
    let mut text = String::new();
    let catalogue = catalogue();
    for experiment in catalogue.experiments.iter().filter(|e| e.paper() != "matrix") {
        let own: Vec<&Last> = all.iter().filter(|l| l.line.experiment == experiment.id).collect();
        let with_readings = own.iter().filter(|last| !last.line.readings.is_empty());
        let mut rows = Vec::new();
        for Last { line, .. } in with_readings {
            let judgement = &line.judgement;
            let value = judgement.measured_text();
            rows.push(vec![line.sentence(), "ours".into(), value, verdict(judgement)]);
            for reading in &line.readings {
                let judgement = &reading.judgement;
                let value = judgement.measured_text();
                let about = reading.about.clone();
                rows.push(vec![String::new(), about, value, verdict(judgement)]);
            }
        }
        if experiment.open.is_empty() && rows.is_empty() {
            continue;
        }
        let is_quick = own.iter().any(|last| last.is_quick);
        text += &format!("### {}\n\n", heading(&catalogue, &experiment.id, is_quick));
        if !experiment.open.is_empty() {
            let row = |open: &Open| vec![open.what.clone(), open.reading.clone(), open.why.clone()];
            let open: Vec<Vec<String>> = experiment.open.iter().map(row).collect();
            text += &text_table(&["what the paper leaves open", "our reading", "why"], &open);
            text.push('\n');
        }
        if !rows.is_empty() {
            text += &text_table(&["claim", "reading", "value", "verdict"], &rows);
            text.push('\n');
        }
    }
    print_figure("catalogue-readings", &text);
}

/// Every claim that differs, with its paragraph; claims that differ with `--quick` alone have one
/// too.
#[test]
fn differences() {
    let catalogue = catalogue();
    let cause = |line: &ClaimLine| {
        let experiment = catalogue.experiments.iter().find(|e| e.id == line.experiment);
        let claim = experiment.and_then(|e| e.claims.iter().find(|c| c.id == line.claim));
        claim.map(|claim| claim.differs.clone())
    };
    let mut all = last();
    all.retain(|last| last.line.judgement.verdict == ClaimVerdict::Differs);
    let mut text = String::new();
    for own in by_experiment(&all) {
        let id = &own[0].line.experiment;
        let is_quick = own.iter().any(|last| last.is_quick);
        text += &format!("### {}\n\n", heading(&catalogue, id, is_quick));
        // Claims with the same cause have one paragraph.
        let mut causes: Vec<(String, Vec<&ClaimLine>)> = Vec::new();
        for Last { line, .. } in own {
            let Some(cause) = cause(line) else { continue };
            match causes.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, lines)) => lines.push(line),
                None => causes.push((cause, vec![line])),
            }
        }
        for (cause, lines) in causes {
            let reading = |reading: &ReadingLine| {
                let judgement = &reading.judgement;
                let value = judgement.measured_text();
                format!("{}: {value}, {}", reading.about, verdict(judgement))
            };
            let row = |line: &&ClaimLine| {
                let readings: Vec<String> = line.readings.iter().map(reading).collect();
                let (paper, here) = (line.paper_text().to_owned(), line.here_text());
                let (verdict, readings) = (verdict(&line.judgement), readings.join("; "));
                vec![line.sentence(), paper, line.accepted_text(), here, verdict, readings]
            };
            let rows: Vec<Vec<String>> = lines.iter().map(row).collect();
            let head = ["claim", "paper", "accepted", "here", "verdict", "other readings"];
            text += &text_table(&head, &rows);
            text += &format!("\n{cause}\n\n");
        }
    }
    print_figure("catalogue-differences", &text);
    let mut silent = Vec::new();
    for kind in ResultsKind::ALL {
        for line in lines(&format!("{}.jsonl", kind.name())) {
            let is_silent = cause(&line).is_some_and(|cause| cause.is_empty());
            if line.judgement.verdict == ClaimVerdict::Differs && is_silent {
                silent.push(format!("{} {} ({})", line.experiment, line.claim, kind.name()));
            }
        }
    }
    assert!(
        silent.is_empty(),
        "claims that differ without a word about it (`differs`): {silent:#?}"
    );
}

/// The whole catalogue takes less than 20 minutes with `--quick` and 2.5 hours without, on two idle
/// processors.
#[test]
fn times() {
    let catalogue = catalogue();
    let mut papers: Vec<&str> = catalogue.experiments.iter().map(|e| e.paper()).collect();
    papers.dedup();
    let minutes = |seconds: f64| format!("{:.1}", seconds / 60.0);
    let (mut rows, mut sums) = (Vec::new(), [Cost::default(); 2]);
    for paper in papers {
        let own = || catalogue.experiments.iter().filter(|e| e.paper() == paper);
        let mut row = vec![paper.to_owned(), own().count().to_string()];
        for (kind, sum) in sums.iter_mut().enumerate() {
            let cost = |id: &str| -> Cost {
                let times = catalogue.times.get(id).unwrap_or_else(|| panic!("no time of {id}"));
                let cost = [times.quick, times.full][kind];
                cost.unwrap_or_else(|| panic!("no {} time of {id}", ["quick", "full"][kind]))
            };
            let costs: Vec<Cost> = own().map(|e| cost(&e.id)).collect();
            let cpu = costs.iter().map(|cost| cost.cpu).sum::<f64>();
            let wall = costs.iter().map(|cost| cost.wall).sum::<f64>();
            (sum.cpu, sum.wall) = (sum.cpu + cpu, sum.wall + wall);
            row.extend([minutes(cpu), minutes(wall)]);
        }
        rows.push(row);
    }
    let count = catalogue.experiments.len().to_string();
    let all = sums.iter().flat_map(|sum| [minutes(sum.cpu), minutes(sum.wall)]);
    rows.push(["all".to_owned(), count].into_iter().chain(all).collect());
    let head =
        ["paper", "experiments", "quick, CPU min", "quick, min", "full, CPU min", "full, min"];
    print_figure("catalogue-times", &markdown_table(&head, &rows));
    assert!(sums[0].wall < 20.0 * 60.0, "quick takes {} s", sums[0].wall);
    assert!(sums[1].wall < 150.0 * 60.0, "all takes {} s", sums[1].wall);
}

/// Measurements that claims may use besides the metrics of summary.json.
#[test]
fn measurements() {
    let row = |(name, what): &(&str, &str)| vec![format!("`{name}`"), (*what).to_owned()];
    let rows: Vec<Vec<String>> = MEASUREMENTS.iter().map(row).collect();
    print_figure("catalogue-measurements", &text_table(&["measurement", "what"], &rows));
}

/// All transports on each paper's headline workload.
#[test]
fn matrix() {
    let all: Vec<Last> = last().into_iter().filter(|last| last.is_of("matrix")).collect();
    let catalogue = catalogue();
    let matrix: Vec<_> = catalogue.experiments.iter().filter(|e| e.paper() == "matrix").collect();
    let mut transports: Vec<&str> = Vec::new();
    for claim in matrix.iter().flat_map(|e| &e.claims) {
        if !transports.contains(&&*claim.id) {
            transports.push(&claim.id);
        }
    }
    let mut head = vec!["transport".to_owned()];
    for experiment in &matrix {
        let unit = experiment.claims.first().map(|c| c.unit.clone()).unwrap_or_default();
        head.push(format!("{} ({unit})", experiment.rows[0]));
    }
    let cell_of = |id: &str, transport: &str| {
        let own = all.iter().find(|l| l.line.experiment == id && l.line.claim == transport);
        let Some(Last { line, .. }) = own else { return "–".to_owned() };
        let Measured::One(Some(value)) = line.judgement.measured else { return "–".to_owned() };
        let half = line.judgement.interval.and_then(|[low, high]| Some((high? - low?) / 2.0));
        let digits = if value.abs() >= 100.0 && line.unit != "%" { 0 } else { 1 };
        let digits = if line.unit.starts_with("times") { 2 } else { digits };
        match half {
            Some(half) => format!("{value:.digits$} ± {half:.digits$}"),
            None => format!("{value:.digits$}"),
        }
    };
    let mut rows = Vec::new();
    for transport in transports {
        let mut row = vec![transport.to_owned()];
        row.extend(matrix.iter().map(|e| cell_of(&e.id, transport)));
        rows.push(row);
    }
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    print_figure("catalogue-matrix", &markdown_table(&head, &rows));
}
