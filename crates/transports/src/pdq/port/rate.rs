//! A port's capacity for the flows in its list, and RCP's rate for the flows beyond.

use super::super::header::kbps;
use super::Params;
use super::list::{FlowEntry, FlowKey};
use punctual_core::rng::mix;
use punctual_core::{Duration, Instant, PortView, Rate};

/// Weight of the last interval in the mean rate of other transports.
const FOREIGN_WEIGHT: f64 = 0.25;
/// Other transports below this share of the line rate count as absent.
const FOREIGN_NONE: f64 = 0.001;
/// Bits of the sketch that counts flows beyond the list.
const SKETCH_BITS: u32 = 4096;

/// A port's capacity and the measurements behind it.
///
/// ```text
/// C ← r_PDQ − q / (2 · RTT)                            for the flows in the list
/// R ← R + (T/d) · (α(C' − y) − β·q/d) / n              for each of the n flows beyond it
/// ```
///
/// with the line rate less other transports' traffic, r_PDQ; the queue q; the mean RTT d; and the
/// rates C' left to and y used by the flows beyond the list.
#[derive(Clone, Debug)]
pub struct RateController {
    /// C, in kb/s.
    capacity: u32,
    /// The mean RTT of the flows in the list.
    rtt: Duration,
    /// Mean rate of other transports, in b/s.
    foreign: f64,
    /// RCP's rate for flows beyond the list, in b/s.
    share: f64,
    /// Sketch of the flows beyond the list that sent in this interval and are not paused here;
    /// empty until there is one.
    sketch: Vec<u64>,
    /// Probes of flows beyond the list that are paused here, in this interval.
    probes_beyond: u64,
    /// Bytes that flows beyond the list sent in this interval.
    beyond_bytes: u64,
    /// Packets and bytes of PDQ in this interval, without retransmissions.
    own_packets: u64,
    own_bytes: u64,
    /// Whether any packet arrived in this interval.
    busy: bool,
    clock: Option<Clock>,
}

/// The present interval, while there are flows.
#[derive(Clone, Copy, Debug)]
struct Clock {
    start: Instant,
    end: Instant,
    /// Bytes that had arrived at the port when the interval began.
    come_bytes: u64,
}

impl RateController {
    /// A port without flows.
    pub(super) fn new(params: &Params) -> Self {
        RateController {
            capacity: 0,
            rtt: params.rtt_initial,
            foreign: 0.0,
            share: 0.0,
            sketch: Vec::new(),
            probes_beyond: 0,
            beyond_bytes: 0,
            own_packets: 0,
            own_bytes: 0,
            busy: false,
            clock: None,
        }
    }

    /// C in kb/s.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The mean RTT.
    #[inline]
    pub fn rtt(&self) -> Duration {
        self.rtt
    }

    /// The rate of each flow beyond the list, in kb/s.
    pub fn share(&self) -> u32 {
        kbps(Rate::from_bps(self.share as u64))
    }

    /// Counts a packet of PDQ.
    #[inline]
    pub(super) fn count(&mut self, params: &Params, port: &PortView, wire_bytes: u16, again: bool) {
        if self.clock.is_none() {
            self.capacity = kbps(port.rate);
            (self.foreign, self.share) = (0.0, 0.0);
            self.start(params, port);
        }
        self.busy = true;
        // A retransmission was counted before. If the first copy was dropped here, counting it
        // twice would attribute bytes of other transports to PDQ.
        if !again {
            self.own_packets += 1;
            self.own_bytes += u64::from(wire_bytes);
        }
    }

    /// Counts a packet of a flow beyond the list, which is a probe if the flow is paused here.
    pub(super) fn count_beyond(&mut self, key: FlowKey, wire_bytes: u16, is_paused: bool) {
        self.beyond_bytes += u64::from(wire_bytes);
        if is_paused {
            self.probes_beyond += 1;
            return;
        }
        if self.sketch.is_empty() {
            self.sketch = vec![0; SKETCH_BITS as usize / 64];
        }
        let bit = (mix(key.bits()) % u64::from(SKETCH_BITS)) as usize;
        self.sketch[bit / 64] |= 1 << (bit % 64);
    }

    /// n, the number of flows beyond the list. Flows that are not paused send in every interval and
    /// are estimated by linear counting. A paused flow probes every `probe_rtts` RTTs, so that each
    /// probe in an interval of `interval_rtts` stands for `probe_rtts / interval_rtts` flows.
    fn flows_beyond(&self, probe_rtts: f64, interval_rtts: f64) -> f64 {
        self.flows_sending_beyond() + self.probes_beyond as f64 * probe_rtts / interval_rtts
    }

    fn flows_sending_beyond(&self) -> f64 {
        if self.sketch.is_empty() {
            return 0.0;
        }
        let set: u32 = self.sketch.iter().map(|word| word.count_ones()).sum();
        let size = f64::from(SKETCH_BITS);
        size * libm::log(size / f64::from(SKETCH_BITS - set.min(SKETCH_BITS - 1)))
    }

    fn start(&mut self, params: &Params, port: &PortView) {
        let come_bytes = port.arrived_bytes();
        let end = port.now.saturating_add(self.rtt.mul_f64(params.update_rtts));
        self.clock = Some(Clock { start: port.now, end, come_bytes });
        (self.own_packets, self.own_bytes) = (0, 0);
        (self.beyond_bytes, self.probes_beyond) = (0, 0);
        self.busy = false;
        self.sketch.fill(0);
    }

    /// When the next interval ends.
    #[inline]
    pub fn next_update(&self) -> Option<Instant> {
        self.clock.as_ref().map(|clock| clock.end)
    }

    /// Updates capacity and rate at the end of an interval (PDQ-R19 to PDQ-R21). Without flows the
    /// timer stops.
    pub(super) fn update(&mut self, params: &Params, port: &PortView, list: &[FlowEntry]) {
        let Some(clock) = self.clock else { return };
        let interval = port.now.saturating_since(clock.start);
        if interval.is_zero() {
            return;
        }
        if list.is_empty() && !self.busy {
            self.clock = None;
            return;
        }
        let (sum, count) = list
            .iter()
            .filter(|e| e.rtt > 0)
            .fold((0u64, 0u64), |(s, n), e| (s + u64::from(e.rtt), n + 1));
        if let Some(mean) = sum.checked_div(count) {
            self.rtt = Duration::from_nanos(mean.max(1));
        }
        let line = port.rate.as_bps() as f64;
        let seconds = interval.as_secs_f64();
        let rtt = self.rtt.as_secs_f64();
        let queue = port.queue_link_bytes() as f64 * 8.0;

        // PDQ-R20: other transports' bytes = arrived bytes − PDQ's bytes.
        let come = port.arrived_bytes().saturating_sub(clock.come_bytes);
        let own = self.own_bytes + self.own_packets * port.framing.get();
        let foreign = come.saturating_sub(own) as f64 * 8.0 / seconds;
        self.foreign += FOREIGN_WEIGHT * (foreign - self.foreign);
        let floor = params.share_min * line;
        let alone = self.foreign < FOREIGN_NONE * line;
        let budget = if alone { line } else { (line - self.foreign).max(floor) };

        // PDQ-R19.
        let lowest = if alone { 0.0 } else { floor };
        let capacity = (budget - queue / (2.0 * rtt)).max(lowest);
        self.capacity = kbps(Rate::from_bps(capacity as u64));

        // PDQ-R21.
        let held = list.iter().map(|e| f64::from(e.rate)).sum::<f64>() * 1000.0;
        let left = (budget - held).max(0.0);
        let used = self.beyond_bytes as f64 * 8.0 / seconds;
        let probe_rtts = (params.probe_spread * list.len() as f64).max(1.0);
        let flows = self.flows_beyond(probe_rtts, params.update_rtts).max(1.0);
        let change = params.rcp_alpha * (left - used) - params.rcp_beta * queue / rtt;
        self.share = (self.share + seconds / rtt * change / flows).clamp(0.0, left);
        self.start(params, port);
    }

    /// Resets everything.
    pub(super) fn reset(&mut self, params: &Params) {
        *self = RateController::new(params);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pdq::PdqConfig;

    /// Linear counting of n flows in m bits has a standard error of √(m(e^t − t − 1)), t = n/m.
    #[test]
    fn sketch_counts_flows_and_has_an_end() {
        let mut rates = RateController::new(&Params::new(&PdqConfig::default()));
        assert_eq!(rates.flows_sending_beyond(), 0.0);
        for flow in 0..1000 {
            (0..3).for_each(|_| rates.count_beyond(FlowKey::new(flow, 0), 60, false));
        }
        let t: f64 = 1000.0 / 4096.0;
        let error = (4096.0 * (t.exp() - t - 1.0)).sqrt();
        let found = rates.flows_sending_beyond();
        assert!((found - 1000.0).abs() < 4.0 * error, "{found}");
        // With all bits set, as with all but one.
        rates.sketch.fill(u64::MAX);
        let most = rates.flows_sending_beyond();
        assert!((most - 4096.0 * 4096f64.ln()).abs() < 1e-6, "{most}");
    }
}
