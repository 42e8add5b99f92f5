//! D2TCP's study of online services (`scenarios/oldi.toml`): where its law acts. Figures 9 to 11 and
//! the paper's other claims are in the catalogue, `experiments/d2tcp`.

use crate::common::{Ran, folder, one};
use punctual_core::{Duration, Instant};
use punctual_lab::Study;
use punctual_testkit::{assert_figure, assert_mean, claimed, print_figure};
use std::fmt::Write as _;

/// Base deadlines of the services, in ms.
const DEADLINES_MS: [f64; 5] = [20.0, 30.0, 35.0, 40.0, 45.0];
/// Where the paper's claims about misses hold (SIGCOMM 2012, Figure 9).
const FAN_INS: [u32; 4] = [25, 30, 35, 40];
/// A seed that nothing was calibrated on.
const FRESH_SEED: u64 = 1001;
const ROUND: Duration = Duration::from_millis(60);
const FIRST_ROUND: Duration = Duration::from_millis(50);

/// How the deadlines of a service's answers lie about its base deadline.
#[derive(Clone, Copy, Debug)]
enum Spread {
    /// Uniform, from 1 − x to 1 + x times the base.
    Uniform(f64),
    /// Exponential, at least a tenth of the base.
    Exponential,
}

/// How large answers are.
#[derive(Clone, Copy, Debug)]
enum Sizes {
    /// Uniform, from 1 − x to 1 + x times the mean.
    Uniform(f64),
    /// In proportion to the base deadline of the service.
    LikeDeadlines,
}

/// The set-up of the scenario, and what a study changes in it.
#[derive(Clone, Debug)]
struct Case {
    gbps: f64,
    /// K, in packets.
    mark_above: u32,
    link_us: f64,
    /// 1 for the base deadlines, 0 where all services have their mean.
    unlikeness: f64,
    spread: Spread,
    sizes: Sizes,
    /// Rounds of queries in each run.
    rounds: u64,
    seed: u64,
    repetitions: u32,
    /// Further changes, as on the command line.
    more: Vec<String>,
}

impl Default for Case {
    fn default() -> Self {
        Case {
            gbps: 10.0,
            mark_above: 65,
            link_us: 22.0,
            unlikeness: 1.0,
            spread: Spread::Uniform(0.1),
            sizes: Sizes::Uniform(0.0),
            rounds: 20,
            seed: FRESH_SEED,
            repetitions: 1,
            more: Vec::new(),
        }
    }
}

impl Case {
    fn mean_deadline_ms() -> f64 {
        DEADLINES_MS.iter().sum::<f64>() / DEADLINES_MS.len() as f64
    }

    /// Changes to the scenario, as on the command line.
    fn changes(&self, transport: &str, fan_in: u32) -> Vec<String> {
        let stop_ms =
            FIRST_ROUND.as_secs_f64() * 1e3 + ROUND.as_secs_f64() * 1e3 * self.rounds as f64;
        let mut changes = vec![
            "sweep={}".to_owned(),
            format!("transports=['{transport}']"),
            format!("network.rate={}Mbps", self.gbps * 1e3),
            format!("network.delay={}us", self.link_us),
            format!("run.seed={}", self.seed),
            format!("run.repetitions={}", self.repetitions),
            "run.network_trace=false".to_owned(),
        ];
        for name in ["dctcp", "d2tcp"] {
            changes.push(format!("queue.{name}.mark_above={}packets", self.mark_above));
        }
        for base in DEADLINES_MS {
            let mean = Self::mean_deadline_ms();
            let own = mean + self.unlikeness * (base - mean);
            let deadlines = match self.spread {
                Spread::Uniform(x) => {
                    format!(
                        "{{ uniform = ['{}us', '{}us'] }}",
                        us(own * (1.0 - x)),
                        us(own * (1.0 + x))
                    )
                }
                Spread::Exponential => format!(
                    "{{ exponential = {{ mean = '{}us', floor = '{}us' }} }}",
                    us(own),
                    us(own * 0.1)
                ),
            };
            // The same share of the link at every rate.
            let mean_bytes = 85_000.0 * self.gbps;
            let sizes = match self.sizes {
                Sizes::Uniform(x) => format!(
                    "{{ uniform = ['{:.0}B', '{:.0}B'] }}",
                    mean_bytes * (1.0 - x),
                    mean_bytes * (1.0 + x)
                ),
                Sizes::LikeDeadlines => format!("{:.0}B", mean_bytes * base / mean),
            };
            let service = format!("traffic.service-{base}ms");
            changes.push(format!("{service}.workers={}", fan_in / 5));
            changes.push(format!("{service}.deadlines={deadlines}"));
            changes.push(format!("{service}.sizes={sizes}"));
            changes.push(format!("{service}.stop={stop_ms}ms"));
        }
        changes.extend(self.more.iter().cloned());
        changes
    }

    fn runs(&self, transport: &str, fan_in: u32, until: Option<Instant>) -> Vec<Ran> {
        let path = folder().join("oldi.toml");
        let study = Study::load(&path, &self.changes(transport, fan_in));
        let study = study.unwrap_or_else(|e| panic!("{e}"));
        study.runs().into_iter().map(|run| one(&study, run, until)).collect()
    }

    /// Missed deadlines, in per cent.
    fn missed(&self, transport: &str, fan_in: u32) -> f64 {
        let (mut missed, mut answers) = (0, 0);
        for ran in self.runs(transport, fan_in, None) {
            let own = ran.outcome.flows.iter().filter_map(|f| f.met_deadline());
            answers += own.clone().count();
            missed += own.filter(|met| !met).count();
        }
        100.0 * missed as f64 / answers as f64
    }

    /// Missed deadlines over some fan-ins, in per cent: the mean of theirs.
    fn missed_over(&self, transport: &str, fan_ins: &[u32]) -> f64 {
        let sum: f64 = fan_ins.iter().map(|&n| self.missed(transport, n)).sum();
        sum / fan_ins.len() as f64
    }

    /// Time to send a full packet with its framing, in µs.
    fn packet_us(&self) -> f64 {
        1538.0 * 8.0 / self.gbps / 1e3
    }

    /// The round trip with empty queues, in µs: four links; a packet is sent twice, and so is its
    /// acknowledgement of 78 bytes.
    fn rtt_us(&self) -> f64 {
        4.0 * self.link_us + 2.0 * self.packet_us() * (1.0 + 78.0 / 1538.0)
    }

    /// The window that N answers and the two long flows have each: (K + C·RTT) / (N + 2), in
    /// packets.
    fn fair_window(&self, fan_in: f64) -> f64 {
        (f64::from(self.mark_above) + self.rtt_us() / self.packet_us()) / (fan_in + 2.0)
    }

    /// The nearest base deadline in round trips, with K packets in the queue.
    fn round_trips(&self) -> f64 {
        let mean = Self::mean_deadline_ms();
        let nearest_ms = mean + self.unlikeness * (DEADLINES_MS[0] - mean);
        let loaded_us = self.rtt_us() + f64::from(self.mark_above) * self.packet_us();
        nearest_ms * 1e3 / loaded_us
    }
}

/// Whole microseconds of milliseconds.
fn us(ms: f64) -> u64 {
    (ms * 1e3).round() as u64
}

/// What alpha is at that window: about sqrt(2 / W), and at most 1.
fn alpha_at(window: f64) -> f64 {
    (2.0 / window).sqrt().min(1.0)
}

/// By how many per cent fewer deadlines are missed than before.
fn fewer(before: f64, after: f64) -> f64 {
    100.0 * (1.0 - after / before)
}

/// [`fewer`] as a cell of a table; nothing where hardly any deadline was missed before.
fn fewer_cell(before: f64, after: f64) -> String {
    // Adding zero turns a rounded -0 into 0.
    if before < 1.0 {
        "–".to_owned()
    } else {
        format!("{:.0}", fewer(before, after).round() + 0.0)
    }
}

#[test]
fn d2tcp_misses_at_most_half_of_dctcps_deadlines() {
    let case = Case { rounds: 10, repetitions: 3, ..Case::default() };
    let [dctcp, d2tcp] = ["dctcp", "d2tcp"].map(|name| case.missed_over(name, &FAN_INS));
    println!("missed over fan-ins {FAN_INS:?}: DCTCP {dctcp:.1} %, D2TCP {d2tcp:.1} %");
    assert!(fewer(dctcp, d2tcp) >= 50.0, "{dctcp} {d2tcp}");
}

/// One value changed at a time.
fn cases() -> Vec<(&'static str, String, Case, Vec<u32>)> {
    let base = Case::default;
    let over = || FAN_INS.to_vec();
    let mut cases = vec![("base", "10 Gb/s, K = 65, 22 µs links".to_owned(), base(), over())];
    for (gbps, scaled) in [(1.0, 20), (2.5, 20), (5.0, 33)] {
        let scaled_case = Case { gbps, mark_above: scaled, ..base() };
        cases.push(("link rate", format!("{gbps} Gb/s, K = {scaled}"), scaled_case, over()));
        let fixed = Case { gbps, ..base() };
        cases.push(("link rate", format!("{gbps} Gb/s, K = 65"), fixed, over()));
    }
    for mark_above in [5, 20, 40, 130, 260] {
        let case = Case { mark_above, ..base() };
        cases.push(("K", format!("{mark_above} packets"), case, over()));
    }
    for link_us in [1.0, 5.0, 11.0, 44.0, 88.0] {
        let case = Case { link_us, ..base() };
        cases.push(("RTT", format!("{} µs", 4.0 * link_us), case, over()));
    }
    for unlikeness in [0.0, 0.25, 0.5, 1.5] {
        let mean = Case::mean_deadline_ms();
        let own = DEADLINES_MS.map(|base| mean + unlikeness * (base - mean));
        let title = match own {
            [first, .., last] if first == last => format!("{first} ms all"),
            [first, .., last] => format!("{first:.0} to {last:.0} ms"),
        };
        cases.push(("base deadlines", title, Case { unlikeness, ..base() }, over()));
    }
    for (title, spread) in [
        ("none", Spread::Uniform(0.0)),
        ("± 50 %", Spread::Uniform(0.5)),
        ("exponential", Spread::Exponential),
    ] {
        cases.push(("deadlines about base", title.to_owned(), Case { spread, ..base() }, over()));
    }
    for (title, sizes) in [
        ("± 25 %", Sizes::Uniform(0.25)),
        ("± 50 %", Sizes::Uniform(0.5)),
        ("± 90 %", Sizes::Uniform(0.9)),
        ("in proportion to deadline", Sizes::LikeDeadlines),
    ] {
        cases.push(("sizes", title.to_owned(), Case { sizes, ..base() }, over()));
    }
    for fan_in in [15, 20, 25, 30, 35, 40, 45, 50, 60] {
        cases.push(("fan-in", fan_in.to_string(), base(), vec![fan_in]));
    }
    cases
}

#[test]
#[ignore = "study: cargo xtask figures"]
fn where_the_gain_begins_and_ends() {
    let mut table = String::from(
        "| varied | value | fair window W | alpha | weight w | nearest deadline, RTTs \
         | DCTCP missed, % | D2TCP missed, % | fewer, % |\n|---|---|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for (varied, value, case, fan_ins) in cases() {
        let fan_in = fan_ins.iter().sum::<u32>() as f64 / fan_ins.len() as f64;
        let window = case.fair_window(fan_in);
        let alpha = alpha_at(window);
        let [dctcp, d2tcp] = ["dctcp", "d2tcp"].map(|name| case.missed_over(name, &fan_ins));
        let line = format!(
            "| {varied} | {value} | {window:.1} | {alpha:.2} | {:.1} | {:.0} | {dctcp:.1} \
             | {d2tcp:.1} | {} |",
            alpha.powf(-1.5),
            case.round_trips(),
            fewer_cell(dctcp, d2tcp)
        );
        println!("{line}");
        writeln!(table, "{line}").unwrap();
    }
    print_figure("d2tcp-where-it-acts", &table);
}

/// What the two long flows move from the first query on, in Mb/s: while answers are under way, and
/// over whole rounds. For each run.
fn long_flows_mbps(case: &Case, transport: &str, fan_in: u32) -> Vec<[f64; 2]> {
    let delivered = |after: Duration| {
        let until = Instant::ZERO + FIRST_ROUND + after;
        let long = |ran: &Ran| -> u64 {
            let own = ran.outcome.flows.iter().filter(|f| f.spec.background);
            own.map(|f| f.delivered.get()).sum()
        };
        case.runs(transport, fan_in, Some(until)).iter().map(long).collect::<Vec<u64>>()
    };
    // Shorter than N·S/C, so that some answers of every transport are under way all the time.
    let under_way = Duration::from_micros(us(f64::from(fan_in) * 0.5));
    let spans = [under_way, ROUND * case.rounds];
    let before = delivered(Duration::ZERO);
    let after = spans.map(delivered);
    let mbps = |run: usize, n: usize| {
        (after[n][run] - before[run]) as f64 * 8.0 / spans[n].as_secs_f64() / 1e6
    };
    (0..before.len()).map(|run| [mbps(run, 0), mbps(run, 1)]).collect()
}

/// The mean over runs of one of the figures.
fn mean_of(runs: &[[f64; 2]], n: usize) -> f64 {
    runs.iter().map(|run| run[n]).sum::<f64>() / runs.len() as f64
}

/// Four rounds with six seeds: what long flows get in a round is chance, above all with TCP, where a
/// long flow that loses a whole window waits for its timer.
fn several_seeds() -> Case {
    Case { rounds: 4, repetitions: 6, ..Case::default() }
}

/// D2TCP is DCTCP for flows without deadline, so that long flows keep what DCTCP leaves them while
/// answers are under way, and nearly what TCP leaves them over whole rounds (SIGCOMM 2012, §4.2).
#[test]
fn long_flows_keep_their_bandwidth() {
    let case = several_seeds();
    for fan_in in [25, 40] {
        let [tcp, dctcp, d2tcp, pdq] = ["tcp", "dctcp", "d2tcp", "pdq"].map(|name| {
            let runs = long_flows_mbps(&case, name, fan_in);
            println!(
                "fan-in {fan_in}, {name}: long flows {:.0} Mb/s while answers are under way, {:.0} \
                 over whole rounds",
                mean_of(&runs, 0),
                mean_of(&runs, 1)
            );
            runs
        });
        let under_way = |runs: &[[f64; 2]]| mean_of(runs, 0);
        assert!(under_way(&d2tcp) >= 0.9 * under_way(&dctcp), "{d2tcp:?} {dctcp:?}");
        // The metric discriminates: PDQ, which serves deadlines first, is far below.
        assert!(under_way(&pdq) < 0.5 * under_way(&dctcp), "{pdq:?} {dctcp:?}");
        let of_tcp: Vec<f64> = d2tcp.iter().zip(&tcp).map(|(own, tcp)| own[1] / tcp[1]).collect();
        let accepted = claimed("d2tcp/background", &format!("long-over-tcp-{fan_in}"));
        assert_mean(&format!("d2tcp-background-bandwidth-{fan_in}"), &of_tcp, accepted);
    }
}

/// Long flows of TCP beside answers of D2TCP: alpha is near 1, where every d makes the same cut.
#[test]
fn tcp_keeps_its_bandwidth_beside_answers_of_d2tcp() {
    let queue = "queue.tcp={ kind = 'ecn', limit = '500packets', mark_above = '65packets' }";
    let more = vec![queue.to_owned(), "traffic.long.transport=tcp".to_owned()];
    let (case, alone) = (Case { more, ..several_seeds() }, several_seeds());
    for fan_in in [25, 40] {
        let [tcp, dctcp, d2tcp] = ["tcp", "dctcp", "d2tcp"].map(|name| {
            let runs = long_flows_mbps(&case, name, fan_in);
            let of_runs: Vec<String> = runs.iter().map(|run| format!("{:.0}", run[1])).collect();
            let of_runs = of_runs.join(" ");
            println!("fan-in {fan_in}: TCP's long flows {of_runs} Mb/s beside {name}");
            runs
        });
        let keeps = claimed("d2tcp/coexistence", &format!("tcp-keeps-{fan_in}"));
        let of_dctcp: Vec<f64> =
            d2tcp.iter().zip(&dctcp).map(|(own, dctcp)| own[1] / dctcp[1]).collect();
        assert_mean(&format!("d2tcp-tcp-keeps-{fan_in}"), &of_dctcp, keeps);
        // The metric discriminates: beside answers that do not yield to marks TCP has less.
        assert!(mean_of(&tcp, 1) < 0.9 * mean_of(&dctcp, 1), "{tcp:?} {dctcp:?}");
        if fan_in == 40 {
            let rise = case.missed("d2tcp", fan_in) - alone.missed("d2tcp", fan_in);
            let little = claimed("d2tcp/coexistence", "misses-rise-40");
            assert_figure("d2tcp-misses-beside-tcp", rise, little);
        }
    }
}
