//! Writes a study's plan as `plan.json`.

use crate::plan::{PlannedRun, Study};
use crate::scenario::TierName;
use punctual_results::{Plan, PlanPoint, PlanPort, PlanRun};
use punctual_sim::Simulate;

impl<S: Simulate> Study<S> {
    /// The plan of these runs for `plan.json`. Runs must be in the order of their points.
    pub fn plan_file(&self, runs: &[PlannedRun<S>]) -> Plan {
        let about = &self.points()[0].scenario.description;
        let mut plan = Plan::new(self.name(), about, self.text(), self.overrides());
        let mut last = None;
        for run in runs {
            if last != Some(&run.point_dir) {
                last = Some(&run.point_dir);
                let (values, ports) = (run.labels.clone(), sampled_ports(run));
                let load = run.scenario.offered_load(run.scenario.run.seed).unwrap_or_default();
                let (offered_load, warnings) = (load.to_string(), load.warnings);
                let runs = Vec::new();
                plan.points.push(PlanPoint { values, ports, offered_load, warnings, runs });
            }
            let Some(point) = plan.points.last_mut() else { continue };
            point.runs.push(PlanRun {
                directory: run.dir.display().to_string(),
                transport: run.subject.label.clone(),
                seed: run.seed,
            });
        }
        plan
    }
}

fn sampled_ports<S: Simulate>(run: &PlannedRun<S>) -> Vec<PlanPort> {
    let network = &run.scenario.network;
    let Some(sampling) = run.scenario.run.sampling(network) else { return Vec::new() };
    let port = |port: punctual_core::PortId| {
        let link = network.link(port);
        PlanPort {
            port: port.0,
            name: network.port_name(port),
            tier: TierName::of(link.tier).name().to_owned(),
            rate_bps: link.rate.as_bps(),
        }
    };
    sampling.ports.into_iter().map(port).collect()
}
