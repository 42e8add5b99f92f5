//! The experiments of D3's paper on its testbed, as functions of a transport and a seed.
//!
//! Links have 1 Gb/s, a round trip takes 500 µs, and frames have 1538 bytes. Deadlines are
//! exponential and at least 5 ms.

use super::*;
use punctual_core::{Limit, PortId, Tolerance};
use punctual_sim::{FlowRecord, FlowStatus, Sampling};

pub const GBPS: Rate = Rate::from_gbps(1);

/// How far the clocks of ports may be apart beside long flows: what Ethernet allows. Between
/// exactly equal clocks a long TCP flow has no queue at the receiver's port.
pub const CLOCKS: Tolerance = Tolerance::from_ppm(100);

/// Sizes of response flows in bytes: U[2, 50] KB.
pub const RESPONSES: (u64, u64) = (2_000, 50_000);

pub fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// Hosts on one switch.
pub fn testbed(hosts: u32) -> Network {
    testbed_with_delay(hosts, Duration::from_micros(120))
}

pub fn testbed_with_delay(hosts: u32, delay: Duration) -> Network {
    let links = ClosLinks::uniform(GBPS, delay);
    ClosShape::star(hosts).build(&links, Bytes::new(1500), Bytes::new(38))
}

/// The output port towards host 0, where flows to it share the line.
pub fn port_to_host_0(network: &Network) -> PortId {
    network.links[network.nic(punctual_core::HostId(0)).index()].twin
}

pub fn drop_tail_bytes(bytes: u64) -> QueueSpec {
    QueueSpec::DropTail { limit: Limit::Bytes(Bytes::new(bytes)) }
}

/// A flow to host 0 with a deadline.
pub fn timed(src: u32, size: u64, start: Instant, deadline_us: u64) -> FlowSpec {
    let deadline = Some(start + Duration::from_micros(deadline_us));
    FlowSpec { start, deadline, ..flow(src, 0, size) }
}

/// An endless flow to host 0.
pub fn long_flow(src: u32) -> FlowSpec {
    FlowSpec { background: true, ..flow(src, 0, u64::MAX) }
}

fn response(stream: &mut Stream, sizes: (u64, u64), mean_us: f64, floor_us: f64) -> (u64, u64) {
    let size = sizes.0 + (stream.unit() * (sizes.1 - sizes.0) as f64) as u64;
    (size, stream.exponential(mean_us).max(floor_us) as u64)
}

/// Flows with deadlines of one or more runs.
#[derive(Clone, Debug, Default)]
pub struct Timed {
    pub met: usize,
    pub total: usize,
    /// For each completed flow that was late, by how much, as a share of its allowance.
    pub overruns: Vec<f64>,
    /// Completion times in milliseconds.
    pub fct_ms: Vec<f64>,
}

impl Timed {
    pub fn add(&mut self, outcome: &Outcome) {
        for record in outcome.flows.iter().filter(|f| f.spec.deadline.is_some()) {
            self.total += 1;
            self.met += usize::from(record.met_deadline() == Some(true));
            if record.status == FlowStatus::Completed {
                self.add_completed(record);
            }
        }
    }

    fn add_completed(&mut self, record: &FlowRecord) {
        let took = (record.ended.unwrap() - record.spec.start).as_secs_f64();
        let allowed = (record.spec.deadline.unwrap() - record.spec.start).as_secs_f64();
        self.fct_ms.push(took * 1e3);
        if took > allowed {
            self.overruns.push(took / allowed - 1.0);
        }
    }

    pub fn met_share(&self) -> f64 {
        self.met as f64 / self.total as f64
    }

    pub fn missed_percent(&self) -> f64 {
        100.0 * (1.0 - self.met_share())
    }
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The value below which `share` of all values lie; 0 where there is none.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len() as f64 * share) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// A burst: workers on eleven hosts answer host 0 at once (Figures 9 to 13).
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    pub sizes: (u64, u64),
    pub mean_deadline_us: f64,
    pub floor_us: f64,
    pub delay_us: u64,
    /// How many milliseconds before the burst a long flow starts, if there is one. Then the
    /// clocks of ports differ, see [`CLOCKS`].
    pub long_flow_ms: Option<u64>,
    /// The queue at switch ports, if not the transport's own.
    pub queue: Option<QueueSpec>,
}

/// Moderate deadlines: a mean of 30 ms.
pub const BURST: Burst = Burst {
    sizes: RESPONSES,
    mean_deadline_us: 30_000.0,
    floor_us: 5_000.0,
    delay_us: 120,
    long_flow_ms: None,
    queue: None,
};

/// Moderate deadlines beside a long flow, which started five seconds before (Figures 12 and 13).
pub const BURST_BESIDE_LONG_FLOW: Burst = Burst { long_flow_ms: Some(5_000), ..BURST };

impl Burst {
    /// Runs one burst of `workers` responses for each seed.
    pub fn run(
        &self,
        transport: &AnyTransport,
        workers: u32,
        seeds: std::ops::Range<u64>,
    ) -> Timed {
        let hosts = 11;
        let network = testbed_with_delay(hosts + 2, Duration::from_micros(self.delay_us));
        let mut timed_flows = Timed::default();
        for seed in seeds {
            let mut stream = Stream::named(seed, "burst", u64::from(workers));
            let start = ms(self.long_flow_ms.unwrap_or(0));
            let mut flows: Vec<FlowSpec> = (0..workers)
                .map(|w| {
                    let (size, deadline_us) =
                        response(&mut stream, self.sizes, self.mean_deadline_us, self.floor_us);
                    timed(1 + w % hosts, size, start, deadline_us)
                })
                .collect();
            flows.extend(self.long_flow_ms.map(|_| long_flow(hosts + 1)));
            let network = match self.long_flow_ms {
                Some(_) => network.with_clocks(CLOCKS, seed),
                None => network.clone(),
            };
            let mut setup = setup(network, vec![transport.clone()], flows);
            setup.switch_queue = self.queue.unwrap_or(setup.switch_queue);
            setup.seed = seed;
            setup.check = false;
            timed_flows.add(&run(setup));
        }
        timed_flows
    }

    /// The most workers with which `share` of the deadlines are met; 0 if not even one.
    pub fn most_workers(
        &self,
        transport: &AnyTransport,
        share: f64,
        seeds: &std::ops::Range<u64>,
    ) -> u32 {
        self.most_workers_up_to(80, transport, share, seeds)
    }

    /// The most workers up to `limit` with which `share` of the deadlines are met; 0 if not even one.
    pub fn most_workers_up_to(
        &self,
        limit: u32,
        transport: &AnyTransport,
        share: f64,
        seeds: &std::ops::Range<u64>,
    ) -> u32 {
        most(1, limit, |workers| self.run(transport, workers, seeds.clone()).met_share() >= share)
    }
}

/// The largest multiple of `step` up to `steps` steps that passes, by bisection; 0 if none.
pub fn most(step: u32, steps: u32, passes: impl Fn(u32) -> bool) -> u32 {
    let (mut good, mut bad) = (0, steps + 1);
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        if passes(middle * step) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    good * step
}

/// Responses with deadlines that arrive as a Poisson process for half a second (Table 1, Figures 14
/// and 15, and loads without long flows).
#[derive(Clone, Copy, Debug)]
pub struct Arrivals {
    /// Hosts 1 to this send to host 0.
    pub senders: u32,
    /// Responses per second and sender.
    pub per_second: f64,
    /// Whether each sender has a long flow as well, from 100 ms before the first response.
    pub beside_long_flows: bool,
    /// The queue at switch ports, if not the transport's own.
    pub queue: Option<QueueSpec>,
}

/// Table 1: two senders, each with a long flow.
pub fn table_1(per_second: f64) -> Arrivals {
    Arrivals { senders: 2, per_second, beside_long_flows: true, queue: None }
}

impl Arrivals {
    const FIRST_MS: u64 = 100;
    const LAST_MS: u64 = 600;

    fn setup(&self, transport: &AnyTransport, seed: u64) -> Setup {
        let mut flows = Vec::new();
        for src in 1..=self.senders {
            let mut stream = Stream::named(seed, "arrivals", u64::from(src));
            let mut at_us = Self::FIRST_MS as f64 * 1e3;
            loop {
                at_us += stream.exponential(1e6 / self.per_second);
                if at_us >= Self::LAST_MS as f64 * 1e3 {
                    break;
                }
                let start = Instant::ZERO + Duration::from_nanos((at_us * 1e3) as u64);
                let (size, deadline_us) = response(&mut stream, RESPONSES, 30_000.0, 5_000.0);
                flows.push(timed(src, size, start, deadline_us));
            }
            flows.extend(self.beside_long_flows.then(|| long_flow(src)));
        }
        let mut setup = setup(testbed(self.senders + 1), vec![transport.clone()], flows);
        setup.switch_queue = self.queue.unwrap_or(setup.switch_queue);
        setup.seed = seed;
        setup.check = false;
        setup.stop.at = ms(Self::LAST_MS + 200);
        setup.measure.from = ms(Self::FIRST_MS);
        setup
    }

    /// The responses, and what long flows get from the first response to the end of the last, in
    /// Mb/s each.
    pub fn run(&self, transport: &AnyTransport, seed: u64) -> (Timed, f64) {
        let outcome = run(self.setup(transport, seed));
        let mut timed_flows = Timed::default();
        timed_flows.add(&outcome);
        let responses = outcome.flows.iter().filter(|f| !f.spec.background);
        let response_bytes: u64 = responses.map(|f| f.delivered.get()).sum();
        let long_bytes = outcome.totals.delivered_bytes - response_bytes;
        let seconds = (outcome.totals.ended_at - ms(Self::FIRST_MS)).as_secs_f64();
        (timed_flows, long_bytes as f64 * 8.0 / 1e6 / seconds / f64::from(self.senders))
    }
}

/// Throughput of long flows to one host and the queue they make there (Figure 16).
#[derive(Clone, Copy, Debug)]
pub struct LongFlows {
    /// Payload in Gb/s.
    pub gbps: f64,
    /// Bytes in the queue, the packet in service included.
    pub queue_mean: f64,
    pub queue_median: f64,
    pub queue_p99: f64,
    /// Frames that the port sent in each millisecond, as payload in Gb/s: the median.
    pub gbps_median: f64,
}

/// Long flows from as many hosts to host 0, which start at `start_us(sender)`: what happens from
/// 100 to 300 ms.
pub fn long_flows(
    transport: &AnyTransport,
    senders: u32,
    start_us: impl FnMut(u32) -> u64,
) -> LongFlows {
    long_flows_on(testbed(senders + 1), transport, senders, start_us)
}

/// Long flows as [`long_flows`] has them, on a testbed with clocks of its own.
pub fn long_flows_on(
    network: Network,
    transport: &AnyTransport,
    senders: u32,
    mut start_us: impl FnMut(u32) -> u64,
) -> LongFlows {
    let start = |us| Instant::ZERO + Duration::from_micros(us);
    let flows = (1..=senders)
        .map(|s| FlowSpec { start: start(start_us(s)), ..flow(s, 0, u64::MAX) })
        .collect();
    let mut setup = setup(network, vec![transport.clone()], flows);
    let port = port_to_host_0(&setup.network);
    setup.stop = until_ms(300);
    setup.measure.from = ms(100);
    setup.sampling = Some(Sampling { every: Duration::from_micros(37), ports: vec![port] });
    let outcome = run(setup);
    let late = outcome.samples.iter().filter(|s| s.at >= ms(100));
    let samples: Vec<_> = late.collect();
    let queue: Vec<f64> = samples.iter().map(|s| s.queue_bytes as f64).collect();
    let gbps = outcome.totals.delivered_bytes as f64 * 8.0 / 0.2 / 1e9;
    // 27 samples are 0.999 ms apart. The share of payload in what was sent is that of the whole.
    let bytes = |a: usize, b: usize| (samples[b].sent_bytes - samples[a].sent_bytes) as f64;
    let seconds = |a: usize, b: usize| (samples[b].at - samples[a].at).as_secs_f64();
    let last = samples.len() - 1;
    let payload_of_rate = gbps / (bytes(0, last) / seconds(0, last));
    let by_ms: Vec<f64> = (0..last / 27)
        .map(|n| bytes(27 * n, 27 * n + 27) / seconds(27 * n, 27 * n + 27) * payload_of_rate)
        .collect();
    LongFlows {
        gbps,
        gbps_median: quantile(&by_ms, 0.5),
        queue_mean: mean(&queue),
        queue_median: quantile(&queue, 0.5),
        queue_p99: quantile(&queue, 0.99),
    }
}

/// Flows 1→3, 2→3, 4→3 and 4→5 on the testbed, four racks of three hosts under one root, which
/// start at `start_us`: payload in Mb/s from 200 to 1,200 ms. Hosts count from 0 here.
pub fn multi_hop(transport: &AnyTransport, start_us: [u64; 4]) -> [f64; 4] {
    let links = ClosLinks::uniform(GBPS, Duration::from_micros(120));
    let network = ClosShape::leaf_spine(4, 3, 1).build(&links, Bytes::new(1500), Bytes::new(38));
    let pairs = [(0, 2), (1, 2), (3, 2), (3, 4)];
    let flows: Vec<FlowSpec> = pairs
        .iter()
        .zip(start_us)
        .map(|(&(src, dst), us)| FlowSpec {
            start: Instant::ZERO + Duration::from_micros(us),
            ..flow(src, dst, u64::MAX)
        })
        .collect();
    let mut setup = setup(network, vec![transport.clone()], flows);
    let mut delivered = |at: u64| {
        setup.stop = until_ms(at);
        let flows = run(setup.clone()).flows;
        let of = |(src, dst): (u32, u32)| {
            let own = flows.iter().find(|f| (f.spec.src.0, f.spec.dst.0) == (src, dst));
            own.expect("it has started").delivered.get() as f64
        };
        pairs.map(of)
    };
    let (before, after) = (delivered(200), delivered(1_200));
    [0, 1, 2, 3].map(|f| (after[f] - before[f]) * 8.0 / 1e6)
}
