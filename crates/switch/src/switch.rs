//! A switch at work: frames from interfaces into the fabric, and back at their departure times.

use crate::config::SwitchConfig;
use crate::fabric::Fabric;
use crate::io::{FrameIo, IoLosses};
use crate::report::{HostReport, LatenessHistogram, PortReport, SwitchReport};
use punctual_core::{Duration, HostId, Instant, PortId};
use std::sync::atomic::{AtomicBool, Ordering};

/// A switch that does not spin sleeps at most this long, so that it notices a request to stop.
const SLEEP_MAX: Duration = Duration::from_millis(5);

/// How often the owner of a running switch has its turn.
const TICK: Duration = Duration::from_millis(10);

/// Why a switch does not take another configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// Something that cannot change while the switch runs.
    #[error("`{0}` cannot change while the switch runs; start it again")]
    Fixed(&'static str),
    /// An interface cannot be opened.
    #[error("{0}")]
    Interface(#[from] std::io::Error),
}

/// A fabric and its interfaces.
pub struct Switch<I> {
    fabric: Fabric,
    io: I,
    config: SwitchConfig,
    lateness: LatenessHistogram,
    late_departures: u64,
    /// By host: lateness from which a departure counts as late.
    late_after: Vec<Duration>,
    /// Departures that wait for a flush: host, virtual time.
    leaving: Vec<(HostId, Instant)>,
    started: Instant,
    /// How long turns that had something to do took in all.
    busy: Duration,
    reloads: u64,
    lost_at_reload: u64,
    reload_error: Option<String>,
}

/// By host: lateness from which a departure counts as late.
fn late_after(config: &SwitchConfig) -> Vec<Duration> {
    let hosts = (0..config.network.hosts).map(HostId);
    hosts.map(|h| config.packet_time(h) * config.late_after_packets).collect()
}

impl<I: FrameIo> Switch<I> {
    /// A switch as configured.
    pub fn new(config: SwitchConfig, mut io: I) -> Self {
        Switch {
            fabric: Fabric::new(&config, io.epoch()),
            started: io.now(),
            io,
            lateness: LatenessHistogram::default(),
            late_departures: 0,
            late_after: late_after(&config),
            leaving: Vec::new(),
            config,
            busy: Duration::ZERO,
            reloads: 0,
            lost_at_reload: 0,
            reload_error: None,
        }
    }

    /// Receives what has arrived and sends what is due. Returns whether anything happened.
    pub fn turn(&mut self) -> bool {
        let Switch { fabric, io, leaving, .. } = self;
        // Frames that arrived before this instant are in the rings now. Later ones wait for the next
        // turn as events: they must not overtake frames that arrive at other rings meanwhile.
        let mut horizon = io.settled();
        let mut is_busy = false;
        for host in (0..self.config.network.hosts).map(HostId) {
            let mut last = horizon;
            let more_wait = io.receive(host, &mut |received| {
                is_busy = true;
                last = received.at;
                fabric.receive(host, received);
            });
            // The virtual clock must not pass frames that are still in a ring.
            if more_wait {
                horizon = horizon.min(last);
            }
        }
        fabric.advance(horizon, &mut |host, frame, at| {
            io.send(host, frame);
            leaving.push((host, at));
        });
        is_busy |= !leaving.is_empty();
        self.flush();
        is_busy
    }

    /// Sends the frames that are due and records how late they are.
    fn flush(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        let now = self.io.now();
        let mut flushed = 0u64;
        for (host, at) in self.leaving.drain(..) {
            let bit = 1 << (host.0 & 63);
            if flushed & bit == 0 || host.0 >= 64 {
                flushed |= bit;
                self.io.flush(host);
            }
            let lateness = now.saturating_since(at);
            self.lateness.add(lateness.as_nanos());
            self.late_departures += u64::from(lateness > self.late_after[host.index()]);
        }
    }

    /// Goes on with another configuration. Packets that wait at ports which exist in both stay
    /// there; counters go on. If the configuration is refused, the old one stays.
    pub fn reload(&mut self, config: SwitchConfig) -> Result<(), ReloadError> {
        let result = self.try_reload(config);
        self.reload_error = result.as_ref().err().map(ToString::to_string);
        result
    }

    fn try_reload(&mut self, config: SwitchConfig) -> Result<(), ReloadError> {
        if config.network.mtu != self.config.network.mtu {
            return Err(ReloadError::Fixed("mtu"));
        }
        if config.network.framing != self.config.network.framing {
            return Err(ReloadError::Fixed("framing"));
        }
        let names: Vec<&str> = config.hosts.iter().map(|host| host.interface.as_str()).collect();
        self.io.set_interfaces(&names)?;
        self.lost_at_reload += self.fabric.reload(&self.config, &config);
        self.late_after = late_after(&config);
        self.config = config;
        self.reloads += 1;
        Ok(())
    }

    /// Notes that a new configuration was refused before it came here, for reports.
    pub fn refuse_reload(&mut self, error: String) {
        self.reload_error = Some(error);
    }

    /// Runs until `stop` is set. Every 10 ms `tick` gets the switch, to look at it or to change it.
    pub fn run(&mut self, stop: &AtomicBool, tick: &mut dyn FnMut(&mut Self)) {
        let mut began = self.io.now();
        let mut next_tick = began.saturating_add(TICK);
        while !stop.load(Ordering::Relaxed) {
            let is_busy = self.turn();
            let mut now = self.io.now();
            if is_busy {
                self.busy += now.saturating_since(began);
            } else if !self.config.spin {
                let next = self.fabric.next_at().unwrap_or(Instant::NEVER);
                self.io.wait(next.saturating_since(now).min(SLEEP_MAX));
                now = self.io.now();
            }
            if now >= next_tick {
                next_tick = now.saturating_add(TICK);
                tick(self);
                now = self.io.now();
            }
            began = now;
        }
    }

    /// The fabric.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The interfaces.
    pub fn io(&mut self) -> &mut I {
        &mut self.io
    }

    /// The interfaces of a switch that is not used any more.
    pub fn into_io(self) -> I {
        self.io
    }

    /// What happened so far.
    pub fn report(&mut self) -> SwitchReport {
        let network = &self.config.network;
        let ports: Vec<PortReport> = (0..network.links.len())
            .map(|port| {
                let port = PortId::from(port);
                let (counters, sent_packets, sent_bytes) = self.fabric.port_counters(port);
                PortReport { port: network.port_name(port), sent_packets, sent_bytes, counters }
            })
            .collect();
        let mut hosts = Vec::new();
        for (h, host) in self.config.hosts.iter().enumerate() {
            let id = HostId::from(h);
            let IoLosses { ring_full, send_errors } = self.io.losses(id);
            let counters = self.fabric.host_counters(id);
            let (host, interface) = (host.name.clone(), host.interface.clone());
            hosts.push(HostReport { host, interface, counters, ring_full, send_errors });
        }
        let problems = self.problems(&hosts);
        SwitchReport {
            valid: problems.is_empty(),
            problems,
            seconds: self.io.now().saturating_since(self.started).as_secs_f64(),
            busy_seconds: self.busy.as_secs_f64(),
            delivered: hosts.iter().map(|h| h.counters.delivered).sum(),
            late_departures: self.late_departures,
            late_after_packets: self.config.late_after_packets,
            lateness_p50_us: self.lateness.percentile_us(50.0),
            lateness_p99_us: self.lateness.percentile_us(99.0),
            lateness_worst_us: self.lateness.worst_us(),
            lateness_sum_us: self.lateness.sum_us(),
            lateness_histogram: self.lateness.buckets(),
            reloads: self.reloads,
            lost_at_reload: self.lost_at_reload,
            reload_error: self.reload_error.clone(),
            ports,
            hosts,
        }
    }

    /// Why the timing of the run cannot be trusted.
    fn problems(&self, hosts: &[HostReport]) -> Vec<String> {
        let mut problems = Vec::new();
        let share = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
        let most = self.config.late_percent_max;
        let late = share(self.late_departures, self.lateness.total());
        if late > most {
            problems.push(format!(
                "{late:.2} % of the departures were more than {} packet times late, {most} % may \
                 be; use lower rates or a machine with an idle core",
                self.config.late_after_packets
            ));
        }
        let sum = |value: fn(&HostReport) -> u64| hosts.iter().map(value).sum::<u64>();
        let arrived_late = share(sum(|h| h.counters.arrived_late), sum(|h| h.counters.received));
        if arrived_late > most {
            problems.push(format!(
                "{arrived_late:.2} % of the frames arrived behind the virtual clock, {most} % may"
            ));
        }
        let ring_full = sum(|h| h.ring_full);
        if ring_full > 0 {
            problems.push(format!("{ring_full} frames found no room in a receive ring"));
        }
        let unfinished = sum(|h| h.counters.checksum_missing);
        if unfinished > 0 {
            problems.push(format!(
                "{unfinished} frames had no checksum yet; turn off the transmit checksum offload of \
                 the hosts' interfaces (ethtool -K INTERFACE tx off)"
            ));
        }
        problems
    }
}
