//! What a host daemon reports about itself.

use super::session::{OUTCOMES, SessionCounts};
use crate::driver::Traffic;
use std::fmt::Write as _;

/// What a client of the host daemon has now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostdClientStats {
    /// Its process, if the system tells.
    pub process: Option<u32>,
    /// Messages that it sends.
    pub sends: usize,
    /// Messages that it receives.
    pub messages: usize,
    /// Memory of messages that it sends.
    pub send_memory: usize,
    /// Memory of messages that it receives.
    pub receive_memory: usize,
}

/// What a host daemon has done and what it holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostdStats {
    /// Counts of datagrams.
    pub traffic: Traffic,
    /// The clients that are attached.
    pub clients: Vec<HostdClientStats>,
    /// Clients that were ever attached.
    pub attached: u64,
    /// Clients that ended without a goodbye.
    pub crashed: u64,
    /// Clients that were disconnected because they broke the protocol.
    pub violations: u64,
    /// Clients that were refused.
    pub refused: u64,
    /// Peers remembered.
    pub peers: usize,
    /// Flows that are open or in their time-wait.
    pub flows: usize,
    /// Pulls that wait for their turn.
    pub pull_queue: u32,
    /// Memory of messages that are being received or wait to be read.
    pub receive_memory: usize,
    /// Memory of messages that are being sent.
    pub send_memory: usize,
    /// Services that clients listen for.
    pub services: usize,
    /// Messages that wait to be passed to their client.
    pub backlog: usize,
    /// Messages that wait because their client has reached its limits.
    pub held: usize,
    pub(super) counts: SessionCounts,
}

impl HostdStats {
    /// Messages that clients submitted.
    pub fn sends(&self) -> u64 {
        self.counts.sends
    }

    /// Messages that were passed to clients.
    pub fn messages(&self) -> u64 {
        self.counts.messages
    }

    /// The stats in Prometheus's text format.
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        let mut series = |name: &str, kind: &str, help: &str, values: &[(String, u64)]| {
            let _ = writeln!(text, "# HELP punctual_hostd_{name} {help}");
            let _ = writeln!(text, "# TYPE punctual_hostd_{name} {kind}");
            for (labels, value) in values {
                let _ = writeln!(text, "punctual_hostd_{name}{labels} {value}");
            }
        };
        let one = |value: u64| [(String::new(), value)];
        let label = |name: &str, value: &str| format!("{{{name}=\"{value}\"}}");
        let counts = &self.counts;
        let traffic = &self.traffic;
        series("datagrams_sent_total", "counter", "Datagrams sent.", &one(traffic.sent));
        series("datagrams_received_total", "counter", "Datagrams taken.", &one(traffic.received));
        let dropped: Vec<_> =
            traffic.dropped.iter().map(|(cause, n)| (label("cause", cause), *n)).collect();
        series("datagrams_dropped_total", "counter", "Datagrams dropped, by cause.", &dropped);
        series(
            "socket_errors_total",
            "counter",
            "Errors of the UDP socket.",
            &one(traffic.socket_errors),
        );
        series("clients", "gauge", "Clients attached.", &one(self.clients.len() as u64));
        series("clients_attached_total", "counter", "Clients ever attached.", &one(self.attached));
        let ended = [("crash", self.crashed), ("violation", self.violations)]
            .map(|(cause, n)| (label("cause", cause), n));
        series("clients_lost_total", "counter", "Clients lost, by cause.", &ended);
        series("clients_refused_total", "counter", "Clients refused.", &one(self.refused));
        series("claims_refused_total", "counter", "Claims refused.", &one(counts.refused_claims));
        series("sends_total", "counter", "Messages submitted.", &one(counts.sends));
        series("sent_bytes_total", "counter", "Bytes submitted.", &one(counts.sent_bytes));
        let outcomes: Vec<_> = OUTCOMES
            .iter()
            .zip(counts.outcomes)
            .map(|(name, n)| (label("outcome", name), n))
            .collect();
        series("outcomes_total", "counter", "Sends ended, by outcome.", &outcomes);
        series("messages_total", "counter", "Messages passed to clients.", &one(counts.messages));
        let received = one(counts.received_bytes);
        series("received_bytes_total", "counter", "Bytes passed to clients.", &received);
        let gauges = [
            ("peers", "Peers remembered.", self.peers),
            ("flows", "Flows open or in time-wait.", self.flows),
            ("pull_queue", "Pulls that wait for their turn.", self.pull_queue as usize),
            ("receive_memory_bytes", "Memory of messages in.", self.receive_memory),
            ("send_memory_bytes", "Memory of messages out.", self.send_memory),
            ("services", "Services claimed.", self.services),
            ("backlog", "Messages that wait for their client.", self.backlog),
            ("held", "Messages that wait for their client's limits.", self.held),
        ];
        for (name, help, value) in gauges {
            series(name, "gauge", help, &one(value as u64));
        }
        text
    }
}
