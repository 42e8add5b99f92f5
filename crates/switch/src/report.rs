//! What a switch reports: counters, lateness, and whether its timing can be trusted.

use crate::counters::{HostCounters, PortCounters};
use serde::Serialize;
use std::fmt::Write as _;

/// Prometheus's buckets of lateness: powers of two of nanoseconds, from 128 ns to 0.5 s.
const LEAST_BUCKET: u32 = 7;
const GREATEST_BUCKET: u32 = 29;

/// Lateness in powers of two of nanoseconds.
#[derive(Clone, Debug)]
pub struct LatenessHistogram {
    /// `counts[n]` departures were late by less than 2ⁿ ns, and by 2ⁿ⁻¹ ns or more if n > 0.
    counts: [u64; 41],
    total: u64,
    sum_nanos: u64,
    worst_nanos: u64,
}

impl Default for LatenessHistogram {
    fn default() -> Self {
        LatenessHistogram { counts: [0; 41], total: 0, sum_nanos: 0, worst_nanos: 0 }
    }
}

impl LatenessHistogram {
    /// Adds a departure.
    pub fn add(&mut self, nanos: u64) {
        let bits = (u64::BITS - nanos.leading_zeros()) as usize;
        self.counts[bits.min(40)] += 1;
        self.total += 1;
        self.sum_nanos = self.sum_nanos.saturating_add(nanos);
        self.worst_nanos = self.worst_nanos.max(nanos);
    }

    /// Departures so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The upper bound of the bucket with this share of the departures at or below it, in µs.
    pub fn percentile_us(&self, percent: f64) -> f64 {
        let wanted = (self.total as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bits, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return ((1u64 << bits) as f64).min(self.worst_nanos as f64) / 1000.0;
            }
        }
        0.0
    }

    /// Non-empty buckets: upper bound in µs, departures.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let all = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        all.map(|(bits, count)| ((1u64 << bits) as f64 / 1000.0, *count)).collect()
    }

    /// The sum of all, in µs.
    pub fn sum_us(&self) -> f64 {
        self.sum_nanos as f64 / 1000.0
    }

    /// The worst lateness, in µs.
    pub fn worst_us(&self) -> f64 {
        self.worst_nanos as f64 / 1000.0
    }
}

/// What happened at an output port.
#[derive(Clone, Debug, Serialize)]
pub struct PortReport {
    /// The names of its two ends.
    pub port: String,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes sent, framing included.
    pub sent_bytes: u64,
    /// What the queue discipline did.
    #[serde(flatten)]
    pub counters: PortCounters,
}

/// What happened at the interface of a host.
#[derive(Clone, Debug, Serialize)]
pub struct HostReport {
    /// The host.
    pub host: String,
    /// Its interface.
    pub interface: String,
    /// Counters of its frames.
    #[serde(flatten)]
    pub counters: HostCounters,
    /// Frames for which the receive ring had no room.
    pub ring_full: u64,
    /// Frames that the interface did not take.
    pub send_errors: u64,
}

/// The report of a run.
#[derive(Clone, Debug, Serialize)]
pub struct SwitchReport {
    /// Whether the timing of the run can be trusted.
    pub valid: bool,
    /// Why not.
    pub problems: Vec<String>,
    /// How long it ran.
    pub seconds: f64,
    /// How long it was at work: the rest of the time it waited for frames. At full load both are
    /// equal.
    pub busy_seconds: f64,
    /// Frames delivered to hosts.
    pub delivered: u64,
    /// Departures that were later than the bound.
    pub late_departures: u64,
    /// The bound: MTU times of the port.
    pub late_after_packets: u64,
    /// Median lateness of departures.
    pub lateness_p50_us: f64,
    /// 99th percentile of the lateness of departures.
    pub lateness_p99_us: f64,
    /// Worst lateness of a departure.
    pub lateness_worst_us: f64,
    /// Sum of the lateness of departures.
    pub lateness_sum_us: f64,
    /// Upper bounds in µs, and departures up to each bound and above the one before.
    pub lateness_histogram: Vec<(f64, u64)>,
    /// How often the configuration changed while it ran.
    pub reloads: u64,
    /// Packets that were lost with the links or hosts that a new configuration removed.
    pub lost_at_reload: u64,
    /// Why the last new configuration was refused, if it was.
    pub reload_error: Option<String>,
    /// Output ports.
    pub ports: Vec<PortReport>,
    /// Hosts.
    pub hosts: Vec<HostReport>,
}

impl SwitchReport {
    /// The report as one line of JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts")
    }

    /// The report as a table for people.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let width = self.ports.iter().map(|p| p.port.chars().count()).max().unwrap_or(0).max(4);
        let mut line = |name: &str, cells: &mut dyn Iterator<Item = String>| {
            let _ = write!(text, "{name:<width$}");
            cells.for_each(|cell| _ = write!(text, "  {cell:>11}"));
            text.push('\n');
        };
        // What is rare has a column only if it happened.
        let is_shown =
            |n: usize| n < 4 || self.ports.iter().any(|port| port.counters.named()[n].1 > 0);
        let columns: Vec<usize> = (0..6).filter(|n| is_shown(*n)).collect();
        let named = PortCounters::default().named();
        let titles = columns.iter().map(|n| named[*n].0);
        line("port", &mut ["sent", "bytes"].into_iter().chain(titles).map(str::to_owned));
        for port in &self.ports {
            let counters = port.counters.named();
            let numbers = columns.iter().map(|n| counters[*n].1);
            let sent = [port.sent_packets, port.sent_bytes].into_iter();
            line(&port.port, &mut sent.chain(numbers).map(|n| n.to_string()));
        }
        for host in &self.hosts {
            let usual = ["received", "delivered", "flooded"];
            let more = [("ring_full", host.ring_full), ("send_errors", host.send_errors)];
            let odd = host.counters.named().into_iter().chain(more);
            let odd: Vec<String> = odd
                .filter(|(name, n)| *n > 0 && !usual.contains(name))
                .map(|(name, n)| format!("{name} {n}"))
                .collect();
            if !odd.is_empty() {
                let _ = writeln!(text, "host {}: {}", host.host, odd.join(", "));
            }
        }
        if self.reloads > 0 || self.lost_at_reload > 0 {
            let _ = writeln!(
                text,
                "reloaded {} times, {} packets lost with their links",
                self.reloads, self.lost_at_reload
            );
        }
        if let Some(error) = &self.reload_error {
            let _ = writeln!(text, "the last reload was refused: {error}");
        }
        let _ = writeln!(
            text,
            "delivered {} frames in {:.1} s, {:.1} s of it at work; departures late by p50 {:.1} us, p99 {:.1} us, at \
             most {:.1} us",
            self.delivered,
            self.seconds,
            self.busy_seconds,
            self.lateness_p50_us,
            self.lateness_p99_us,
            self.lateness_worst_us
        );
        match self.valid {
            true => text.push_str("timing: valid\n"),
            false => {
                for problem in &self.problems {
                    let _ = writeln!(text, "timing: INVALID: {problem}");
                }
            }
        }
        text
    }

    /// The report in Prometheus's text format.
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        let mut series = |name: &str, kind: &str, values: Vec<(String, u64)>| {
            let _ = writeln!(text, "# TYPE punctual_switch_{name} {kind}");
            for (labels, value) in values {
                let _ = writeln!(text, "punctual_switch_{name}{labels} {value}");
            }
        };
        let port = |value: &dyn Fn(&PortReport) -> u64| {
            let labels = |p: &PortReport| format!("{{port=\"{}\"}}", escaped(&p.port));
            self.ports.iter().map(|p| (labels(p), value(p))).collect()
        };
        let host = |value: &dyn Fn(&HostReport) -> u64| {
            let labels = |h: &HostReport| format!("{{host=\"{}\"}}", escaped(&h.host));
            self.hosts.iter().map(|h| (labels(h), value(h))).collect()
        };
        series("sent_packets_total", "counter", port(&|p| p.sent_packets));
        series("sent_bytes_total", "counter", port(&|p| p.sent_bytes));
        for (n, (name, _)) in PortCounters::default().named().iter().enumerate() {
            let values = port(&|p| p.counters.named()[n].1);
            series(&format!("{name}_total"), "counter", values);
        }
        for (n, (name, _)) in HostCounters::default().named().iter().enumerate() {
            let values = host(&|h| h.counters.named()[n].1);
            series(&format!("{name}_total"), "counter", values);
        }
        series("ring_full_total", "counter", host(&|h| h.ring_full));
        series("send_errors_total", "counter", host(&|h| h.send_errors));
        series("reloads_total", "counter", vec![(String::new(), self.reloads)]);
        series("lost_at_reload_total", "counter", vec![(String::new(), self.lost_at_reload)]);
        series("late_departures_total", "counter", vec![(String::new(), self.late_departures)]);
        series("valid", "gauge", vec![(String::new(), u64::from(self.valid))]);
        let _ = writeln!(text, "# TYPE punctual_switch_lateness_seconds histogram");
        // Every scrape has the same buckets: a series that begins late has no rate before.
        let name = "punctual_switch_lateness_seconds";
        let up_to = |bound_us: f64| -> u64 {
            let buckets = self.lateness_histogram.iter();
            buckets.filter(|(bound, _)| *bound <= bound_us).map(|(_, count)| count).sum()
        };
        for bits in LEAST_BUCKET..=GREATEST_BUCKET {
            let bound_us = (1u64 << bits) as f64 / 1000.0;
            let (le, count) = (bound_us / 1e6, up_to(bound_us));
            let _ = writeln!(text, "{name}_bucket{{le=\"{le}\"}} {count}");
        }
        let (sum, count) = (self.lateness_sum_us / 1e6, up_to(f64::INFINITY));
        let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum {sum}\n{name}_count {count}");
        text
    }
}

/// The value of a label, with the characters that Prometheus's format reserves escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
