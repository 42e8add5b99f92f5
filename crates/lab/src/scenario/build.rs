//! Builds the set-up of a run from a scenario, and checks the scenario as a whole.

use super::run::NETWORK_TRACE_HOSTS_MAX;
use super::{Level, RunOn, Scenario, TestbedRun, is_transport};
use crate::diagnostic::Diagnostic;
use crate::document::span_of;
use crate::flow_run::FlowRunSetup;
use crate::ideal_run::IdealSetup;
use crate::load::{self, OfferedLoad};
use punctual_core::{Bytes, FlowSpec, HostId, PortId, Rate};
use punctual_fluid::Policy;
use punctual_net::{Network, clocked};
use punctual_sim::{EngineOptions, LinkChange, LinkFault, Setup, Simulate};
use punctual_testbed::KernelTcp;
use punctual_transports::AnyTransport;
use punctual_workload::{HostsView, Workload};
use std::borrow::Cow;
use std::ops::Range;

/// The transport or transports that one run compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The transport's name, or the names of all transports in the run, joined by `+`.
    pub label: String,
    /// The transport of all traffic without a `transport` key.
    pub transport: Option<String>,
    /// On a testbed, what runs in the place of `tcp`.
    pub kernel_tcp: Option<KernelTcp>,
}

impl Subject {
    /// The ideal scheduler with this name, if there is one.
    pub fn policy(&self) -> Option<Policy> {
        Policy::by_name(self.transport.as_deref()?)
    }
}

/// The set-up of a run: everything that its outcome depends on.
#[derive(Debug, Clone)]
pub enum RunSetup<S: Simulate = AnyTransport> {
    /// A packet simulation.
    Packets(Box<Setup<S>>),
    /// Real packets on a testbed.
    Testbed(Box<TestbedRun<S>>),
    /// A simulation of whole flows by a transport's model.
    Flows(Box<FlowRunSetup>),
    /// An ideal scheduler of whole flows.
    Ideal(Box<IdealSetup>),
}

impl<S: Simulate> RunSetup<S> {
    /// The set-up of the packet simulation; none at flow level and for an ideal scheduler.
    pub fn packets(self) -> Option<Setup<S>> {
        match self {
            RunSetup::Packets(setup) => Some(*setup),
            RunSetup::Testbed(_) | RunSetup::Flows(_) | RunSetup::Ideal(_) => None,
        }
    }
}

/// Up to this many hosts, the paths between all pairs are checked.
const PAIRWISE_HOSTS_MAX: u32 = 256;

impl<S: Simulate> Scenario<S> {
    /// The subjects to run: one for each of `transports`, or a single one if every traffic has its
    /// own `transport`.
    pub fn subjects(&self) -> Vec<Subject> {
        if self.run.on == RunOn::Testbed {
            return self.testbed_subjects();
        }
        if self.transports.is_empty() {
            let label = self.names(None).join("+");
            return vec![Subject { label, transport: None, kernel_tcp: None }];
        }
        let subject = |name: &String| Subject {
            label: name.clone(),
            transport: Some(name.clone()),
            kernel_tcp: None,
        };
        self.transports.iter().map(subject).collect()
    }

    /// The names of a run's transports, by id: the subject, then those that traffic names.
    pub fn names(&self, subject: Option<&str>) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        let fixed = self.traffic.iter().filter_map(|t| t.transport.as_deref());
        for name in self.transports.iter().map(String::as_str).filter(|n| Some(*n) == subject) {
            names.push(name);
        }
        for name in fixed {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The names of all transports that carry traffic in some run.
    pub(crate) fn used(&self) -> Vec<&str> {
        let fixed = self.traffic.iter().filter_map(|t| t.transport.as_deref());
        self.transports.iter().map(String::as_str).chain(fixed).collect()
    }

    /// The set-up of a run.
    pub(crate) fn setup(&self, subject: &Subject, seed: u64) -> Result<RunSetup<S>, Diagnostic> {
        let names = self.names(subject.transport.as_deref());
        let workload = || self.workload(&names, seed);
        if let Some(policy) = subject.policy() {
            return self.ideal_setup(policy, workload, seed).map(Box::new).map(RunSetup::Ideal);
        }
        if self.run.level == Level::Flow {
            return self.flow_setup(subject, workload, seed).map(Box::new).map(RunSetup::Flows);
        }
        let setup = self.packet_setup(subject, workload()?, seed)?;
        match self.run.on {
            RunOn::Simulator => Ok(RunSetup::Packets(Box::new(setup))),
            RunOn::Testbed => self.testbed_run(subject, setup).map(Box::new).map(RunSetup::Testbed),
        }
    }

    /// The set-up of a run with packets, wherever it runs.
    fn packet_setup(
        &self,
        subject: &Subject,
        workload: Workload,
        seed: u64,
    ) -> Result<Setup<S>, Diagnostic> {
        let transports = self.transports_of(subject);
        let queues = self.switch_queues(&transports)?;
        let links = &self.network.links;
        let port_queues = match queues.single() {
            Some(_) => Vec::new(),
            None => links.iter().map(|link| queues.at(link.rate)).collect(),
        };
        Ok(Setup {
            network: self.network_with_clocks(seed).into_owned(),
            switch_queue: queues.at(Rate::ZERO),
            port_queues,
            stop: self.run.stop(&workload.flows),
            workload,
            transports,
            seed,
            link_changes: self.link_changes_with_clocks(seed),
            switch_resets: self.switches.resets.clone(),
            legacy_switches: self.switches.legacy.clone(),
            sampling: self.run.sampling(&self.network),
            sampled_flows: self.run.sampled_flows(),
            check: self.run.check,
            network_trace: seed == self.run.seed && self.run.has_network_trace(&self.network),
            packet_latency: self.run.packet_latency,
            capture_max: 0,
            measure: self.run.measure(),
            engine: EngineOptions::default(),
        })
    }

    /// The transports of a run, by id.
    fn transports_of(&self, subject: &Subject) -> Vec<S> {
        let names = self.names(subject.transport.as_deref());
        let transport = |name| {
            let transport = S::by_name(name, &self.settings);
            transport.expect("names were checked when the scenario was read")
        };
        names.into_iter().map(transport).collect()
    }

    /// The network of the run with this seed: `clock_tolerance` changes each port's rate at random.
    pub fn network_with_clocks(&self, seed: u64) -> Cow<'_, Network> {
        match self.clock_tolerance.is_zero() {
            true => Cow::Borrowed(&self.network),
            false => Cow::Owned(self.network.with_clocks(self.clock_tolerance, seed)),
        }
    }

    /// The link changes of the run with this seed: new rates keep the error of the port's clock.
    fn link_changes_with_clocks(&self, seed: u64) -> Vec<LinkChange> {
        let mut changes = self.link_changes.clone();
        for change in &mut changes {
            if let LinkFault::Rate(rate) = &mut change.what {
                *rate = clocked(*rate, self.clock_tolerance, seed, change.port);
            }
        }
        changes
    }

    /// The set-up of an ideal scheduler. Fails if the scenario has what it cannot model.
    fn ideal_setup(
        &self,
        policy: Policy,
        workload: impl FnOnce() -> Result<Workload, Diagnostic>,
        seed: u64,
    ) -> Result<IdealSetup, Diagnostic> {
        let name = policy.name();
        let at = |path: &str| self.span(path).or_else(|| self.span("transports"));
        if let Some(which) = self.traffic.iter().position(|t| t.transport.is_some()) {
            let other = self.traffic[which].transport.as_deref().unwrap_or_default();
            return Err(Diagnostic::new(format!(
                "`{name}` is an ideal scheduler and cannot share a network with `{other}`"
            ))
            .at(at(&format!("traffic.{which}.transport")))
            .help(format!("remove this `transport`, or `{name}` from `transports`")));
        }
        if !self.link_changes.is_empty() {
            return Err(Diagnostic::new(format!(
                "`{name}` is an ideal scheduler and cannot model links that change, fail or lose packets"
            ))
            .at(at("link"))
            .help(format!("remove the [[link]], or `{name}` from `transports`")));
        }
        let workload = workload()?;
        if let Some(which) = workload.closed_loops.iter().position(Option::is_some) {
            return Err(Diagnostic::new(format!(
                "`{name}` is an ideal scheduler and cannot run a closed loop"
            ))
            .at(at(&format!("traffic.{which}.arrivals")))
            .help(format!("use other `arrivals`, or remove `{name}` from `transports`")));
        }
        IdealSetup::new(policy, &self.network_with_clocks(seed), workload.flows, &self.run)
            .map_err(|e| Diagnostic::new(format!("`{name}`: {e}")).at(at("transports")))
    }

    /// The properties of hosts that traffic depends on.
    pub fn hosts_view(&self) -> HostsView {
        let network = &self.network;
        let hosts = 0..network.hosts;
        HostsView {
            nic_rates: hosts.map(|host| network.nic_info(HostId(host)).total_rate()).collect(),
            rack_size: network.rack_size(),
        }
    }

    pub(crate) fn span(&self, path: &str) -> Option<Range<usize>> {
        span_of(&self.tree, path)
    }

    /// Checks the sections against each other.
    ///
    /// Returns the offered load of the first run, whose workload these checks build anyway.
    pub(super) fn check(&self) -> Result<OfferedLoad, Vec<Diagnostic>> {
        let mut errors = self.check_queues();
        let free = self.traffic.iter().any(|t| t.transport.is_none());
        if free && self.transports.is_empty() {
            let which = self.traffic.iter().position(|t| t.transport.is_none()).unwrap_or(0);
            let any = S::catalogue().first().map_or("NAME", |t| t.name);
            errors.push(
                Diagnostic::new("no transport carries this traffic")
                    .at(self.span(&format!("traffic.{which}")))
                    .help(format!(
                        "add `transports = [\"{any}\"]` at the top, or `transport` here"
                    )),
            );
        }
        if !free && !self.transports.is_empty() {
            errors.push(
                Diagnostic::new("these transports would carry no traffic")
                    .at(self.span("transports"))
                    .help("every [[traffic]] has its own `transport`; remove `transports` or one of those"),
            );
        }
        let used = self.used();
        for name in used.iter().copied().filter(|name| is_transport::<S>(name)) {
            let transport = S::by_name(name, &self.settings).expect("it is one");
            if let Err(message) = transport.check_config() {
                let span = self.span(&format!("transport.{name}"));
                errors.push(Diagnostic::new(message).at(span));
            }
            let mut nics = (0..self.network.hosts).map(|host| self.network.nic_info(HostId(host)));
            let refused = nics.find_map(|nic| transport.check_nic(&nic).err());
            if let Some((key, message)) = refused {
                let span = self.span(&format!("transport.{name}.{key}"));
                let help = "lower it or raise the network's `mtu`; without it packets fill the MTU";
                errors.push(Diagnostic::new(message).at(span).help(help));
            }
        }
        errors.extend(self.check_hops(&used));
        let hosts = self.network.hosts;
        if self.run.network_trace == Some(true) && hosts > NETWORK_TRACE_HOSTS_MAX {
            errors.push(
                Diagnostic::new(format!(
                    "a network of {hosts} hosts is too large for `network_trace`"
                ))
                .at(self.span("run.network_trace"))
                .help(format!("remove this, or use at most {NETWORK_TRACE_HOSTS_MAX} hosts")),
            );
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        // Mistakes do not depend on the seed, so the first seed is enough. They do not depend on
        // the transport of a flow either, so one workload is enough.
        let workload = self.workload(&[], self.run.seed).map_err(|error| vec![error])?;
        for subject in self.subjects() {
            errors.extend(self.check_subject(&subject, &workload).err());
        }
        if errors.is_empty() && self.subjects().iter().any(|subject| subject.policy().is_none()) {
            errors.extend(self.check_window(&workload));
        }
        if errors.is_empty() { Ok(load::of(self, &workload)) } else { Err(errors) }
    }

    /// Refuses a transport or ideal scheduler that cannot run this scenario.
    fn check_subject(&self, subject: &Subject, workload: &Workload) -> Result<(), Diagnostic> {
        match subject.policy() {
            Some(policy) => {
                let workload = || Ok(workload.clone());
                self.ideal_setup(policy, workload, self.run.seed).map(|_| ())
            }
            None if self.run.level == Level::Flow => {
                let workload = || Ok(workload.clone());
                self.flow_setup(subject, workload, self.run.seed).map(|_| ())
            }
            None => {
                self.switch_queues(&self.transports_of(subject))?;
                if self.run.on == RunOn::Testbed {
                    let setup = self.packet_setup(subject, workload.clone(), self.run.seed)?;
                    self.testbed_run(subject, setup)?;
                }
                Ok(())
            }
        }
    }

    /// Refuses a measured window in which no measurable flow starts.
    fn check_window(&self, workload: &Workload) -> Option<Diagnostic> {
        let measure = self.run.measure();
        let has_end = |flow: &&FlowSpec| !flow.background && flow.size != Bytes::ENDLESS;
        let mut flows = workload.flows.iter().filter(has_end).peekable();
        let is_empty = flows.peek().is_some() && !flows.any(|f| measure.contains(f.start));
        let goes_on = workload.closed_loops.iter().any(Option::is_some);
        (is_empty && !goes_on).then(|| {
            Diagnostic::new("no flow starts in the measured window, so none would be measured")
                .at(self.span("run.measure"))
                .help("a flow is measured if it starts at `from` or later, and before `until`")
        })
    }

    /// Refuses a network with longer paths than a transport's headers have room for.
    fn check_hops(&self, used: &[&str]) -> Option<Diagnostic> {
        let short = S::catalogue().iter().filter(|t| used.contains(&t.name));
        let (room, name) = short.filter_map(|t| Some((t.max_hops?, t.name))).min()?;
        // Ports of legacy switches take no room in headers.
        let grants = |port: &PortId| !self.switches.legacy.contains(&self.network.link(*port).from);
        let network = &self.network;
        let ports = |src, dst| {
            // Paths of one length differ in nothing here.
            let paths = if network.has_equal_paths() { 1 } else { network.paths(src, dst) };
            let routes = (0..paths).map(|path| network.path_links(src, dst, path));
            routes.map(|route| route.iter().filter(|port| grants(port)).count()).max().unwrap_or(0)
        };
        let hosts = || (0..self.network.hosts).map(HostId);
        let farthest = |src| {
            let others = hosts().filter(|dst| *dst != src);
            others.map(|dst| (ports(src, dst), dst)).max().unwrap_or((0, src))
        };
        // All pairs take too long on a large network. In a tree, a longest path starts at the host
        // that is farthest from host 0; in a BCube, at every host.
        let longest = match self.network.hosts {
            ..=PAIRWISE_HOSTS_MAX => hosts().map(|src| farthest(src).0).max().unwrap_or(0),
            _ => farthest(farthest(HostId(0)).1).0,
        };
        (longest > room).then(|| {
            Diagnostic::new(format!(
                "{name} allows {room} ports on a path, but this network has paths of {longest}"
            ))
            .at(self.span("network.topology"))
            .help(format!("use a network with shorter paths, or remove {name}"))
        })
    }
}
