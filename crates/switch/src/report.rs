//! What a switch reports: counters, lateness, and whether its timing can be trusted.

use crate::counters::{HostCounters, PortCounters};
use serde::Serialize;
use std::fmt::Write as _;

/// Lateness in powers of two of nanoseconds.
#[derive(Clone, Debug)]
pub struct LatenessHistogram {
    /// `counts[n]` departures were late by less than 2ⁿ ns, and by 2ⁿ⁻¹ ns or more if n > 0.
    counts: [u64; 41],
    total: u64,
    worst_nanos: u64,
}

impl Default for LatenessHistogram {
    fn default() -> Self {
        LatenessHistogram { counts: [0; 41], total: 0, worst_nanos: 0 }
    }
}

impl LatenessHistogram {
    /// Adds a departure.
    pub fn add(&mut self, nanos: u64) {
        let bits = (u64::BITS - nanos.leading_zeros()) as usize;
        self.counts[bits.min(40)] += 1;
        self.total += 1;
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
    /// Upper bounds in µs, and departures up to each bound and above the one before.
    pub lateness_histogram: Vec<(f64, u64)>,
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
        let mut line = |cells: [String; 7]| {
            let [name, rest @ ..] = cells;
            let _ = write!(text, "{name:<width$}");
            for cell in rest {
                let _ = write!(text, "  {cell:>11}");
            }
            text.push('\n');
        };
        line(["port", "sent", "bytes", "drops", "trims", "marks", "bounces"].map(str::to_owned));
        for port in &self.ports {
            let PortCounters { drops, trims, marks, bounces } = port.counters;
            let numbers = [port.sent_packets, port.sent_bytes, drops, trims, marks, bounces];
            let [a, b, c, d, e, f] = numbers.map(|n| n.to_string());
            line([port.port.clone(), a, b, c, d, e, f]);
        }
        for host in &self.hosts {
            let c = &host.counters;
            let odd = [
                ("short", c.short),
                ("oversize", c.oversize),
                ("checksum_missing", c.checksum_missing),
                ("returned", c.returned),
                ("overload", c.overload),
                ("malformed", c.malformed),
                ("untrimmable", c.untrimmable),
                ("arrived_late", c.arrived_late),
                ("ring_full", host.ring_full),
                ("send_errors", host.send_errors),
            ];
            let odd: Vec<String> =
                odd.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {n}")).collect();
            if !odd.is_empty() {
                let _ = writeln!(text, "host {}: {}", host.host, odd.join(", "));
            }
        }
        let _ = writeln!(
            text,
            "delivered {} frames in {:.1} s; departures late by p50 {:.1} us, p99 {:.1} us, at \
             most {:.1} us",
            self.delivered,
            self.seconds,
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
        let port = |value: fn(&PortReport) -> u64| {
            self.ports.iter().map(|p| (format!("{{port=\"{}\"}}", p.port), value(p))).collect()
        };
        let host = |value: fn(&HostReport) -> u64| {
            self.hosts.iter().map(|h| (format!("{{host=\"{}\"}}", h.host), value(h))).collect()
        };
        series("sent_packets_total", "counter", port(|p| p.sent_packets));
        series("sent_bytes_total", "counter", port(|p| p.sent_bytes));
        series("drops_total", "counter", port(|p| p.counters.drops));
        series("trims_total", "counter", port(|p| p.counters.trims));
        series("marks_total", "counter", port(|p| p.counters.marks));
        series("bounces_total", "counter", port(|p| p.counters.bounces));
        series("delivered_total", "counter", host(|h| h.counters.delivered));
        series("received_total", "counter", host(|h| h.counters.received));
        series("arrived_late_total", "counter", host(|h| h.counters.arrived_late));
        series("ring_full_total", "counter", host(|h| h.ring_full));
        series("late_departures_total", "counter", vec![(String::new(), self.late_departures)]);
        series("valid", "gauge", vec![(String::new(), u64::from(self.valid))]);
        text
    }
}
