//! The controller of every output port: one rate, written into the requests that pass.

use super::RcpConfig;
use crate::d3::{D3Header, RateBlock};
use punctual_core::{Controller, Duration, ExtArena, Instant, Packet, PortView, Rate};

/// Intervals without a request after which a port stops its timer (RCP-R06).
const SILENT_INTERVALS: u64 = 4;

/// A port's rate and mean RTT.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FairRate {
    /// R, the rate of every flow.
    pub rate: Rate,
    /// d, the mean RTT of the flows through the port.
    pub rtt: Duration,
}

impl FairRate {
    /// Adds the RTT that a request carries; zero stands for none (RCP-R04).
    fn take_rtt(&mut self, rtt: Duration) {
        if !rtt.is_zero() {
            self.rtt = self.rtt - self.rtt / 64 + rtt / 64;
        }
    }

    /// `R ← R · [1 + (T/d) · (α(C − y) − β·q/d) / C]` at the end of an interval T, in which
    /// `arrived_bytes` arrived (y) and at whose end `queue_bytes` are queued (q) (RCP-R02, RCP-R03).
    pub fn adapt(
        &mut self,
        config: &RcpConfig,
        line: Rate,
        interval: Duration,
        arrived_bytes: u64,
        queue_bytes: u64,
    ) {
        let (t, d) = (interval.as_secs_f64(), self.rtt.as_secs_f64());
        let c = line.as_bps() as f64;
        let y = arrived_bytes as f64 * 8.0 / t;
        let q = queue_bytes as f64 * 8.0;
        let change = (t / d).min(1.0) * (config.alpha * (c - y) - config.beta * q / d) / c;
        let next = self.rate.mul_f64((1.0 + change).max(0.0));
        self.rate = next.clamp(config.rate_min.min(line), line);
    }
}

/// RCP's controller of a port: the rate and its timer.
#[derive(Clone, Debug)]
pub struct RcpPort {
    config: RcpConfig,
    share: FairRate,
    clock: Option<Clock>,
}

/// The current interval; the timer stops after several intervals without a request.
#[derive(Clone, Copy, Debug)]
struct Clock {
    interval_start: Instant,
    interval: Duration,
    sent_bytes_at_start: u64,
    queue_bytes_at_start: u64,
    last_request: Instant,
}

impl RcpPort {
    /// A port without flows.
    pub fn new(config: &RcpConfig, line: Rate) -> Self {
        let share = FairRate { rate: line, rtt: config.rtt_initial };
        RcpPort { config: config.clone(), share, clock: None }
    }

    /// Its rate and mean RTT.
    pub fn share(&self) -> &FairRate {
        &self.share
    }

    fn interval(&self) -> Duration {
        self.config.update_interval.min(self.share.rtt).max(Duration::from_nanos(1))
    }

    fn start_interval(&self, port: &PortView, last_request: Instant) -> Clock {
        Clock {
            interval_start: port.now,
            interval: self.interval(),
            sent_bytes_at_start: port.sent_bytes,
            queue_bytes_at_start: port.queue_bytes,
            last_request,
        }
    }
}

impl Controller for RcpPort {
    fn gauges(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("rate_bps", self.share.rate.as_bps() as f64);
    }

    fn handle_forward(&mut self, packet: &mut Packet, port: &PortView, ext: &mut ExtArena) {
        let header: D3Header = packet.header.get();
        if packet.is_to_sender() || !header.has(D3Header::REQUEST) {
            return;
        }
        let Some(id) = packet.ext else { return };
        let Some(mut block) = RateBlock::for_port(ext.get(id)) else {
            return;
        };
        match &mut self.clock {
            Some(clock) => clock.last_request = port.now,
            None => {
                // RCP-R05: an idle port's law ends at the line rate.
                self.share = FairRate { rate: port.rate, rtt: self.config.rtt_initial };
                self.clock = Some(self.start_interval(port, port.now));
            }
        }
        self.share.take_rtt(block.rtt);
        // RCP-R01
        block.granted.lower_to(self.share.rate);
        block.write_grants(ext.get_mut(id));
    }

    fn handle_timeout(&mut self, port: &PortView) {
        let Some(clock) = self.clock else { return };
        let passed = port.now.saturating_since(clock.interval_start);
        if passed < clock.interval {
            return;
        }
        let longest = self.config.update_interval.max(self.share.rtt);
        if port.now.saturating_since(clock.last_request) >= longest * SILENT_INTERVALS {
            self.clock = None;
            return;
        }
        // Arrived = sent + growth of the queue.
        let sent = port.sent_bytes.saturating_sub(clock.sent_bytes_at_start);
        let arrived = (sent + port.queue_bytes).saturating_sub(clock.queue_bytes_at_start);
        self.share.adapt(&self.config, port.rate, passed, arrived, port.queue_bytes);
        self.clock = Some(self.start_interval(port, clock.last_request));
    }

    fn next_timeout(&self) -> Option<Instant> {
        let clock = self.clock.as_ref()?;
        Some(clock.interval_start.saturating_add(clock.interval))
    }

    fn reset(&mut self) {
        self.clock = None; // the next request starts over
    }
}
