//! The set-up of a run at flow level, and what a scenario may not have there.

use super::{Scenario, Subject};
use crate::diagnostic::Diagnostic;
use crate::flow_run::FlowRunSetup;
use punctual_core::{Class, FlowModel, HostId, NicInfo};
use punctual_sim::Simulate;
use punctual_workload::Workload;

impl<S: Simulate> Scenario<S> {
    /// The set-up of a run at flow level. Fails if the scenario has what flow level cannot model.
    pub(super) fn flow_setup(
        &self,
        subject: &Subject,
        workload: impl FnOnce() -> Result<Workload, Diagnostic>,
        seed: u64,
    ) -> Result<FlowRunSetup, Diagnostic> {
        let model = self.flow_model(subject)?;
        self.check_for_flows()?;
        let workload = workload()?;
        let loops = workload.closed_loops.iter().position(Option::is_some);
        if let Some(which) = loops {
            return Err(
                self.not_at_flow_level("a closed loop", &format!("traffic.{which}.arrivals"))
            );
        }
        let network = self.network_with_clocks(seed);
        FlowRunSetup::new(model, &network, workload.flows, &self.run, seed)
            .map_err(|e| Diagnostic::new(e.to_string()).at(self.span("run.level")))
    }

    /// The model of the run's only transport.
    fn flow_model(&self, subject: &Subject) -> Result<FlowModel, Diagnostic> {
        let names = self.names(subject.transport.as_deref());
        let which = self.traffic.iter().position(|t| t.transport.is_some()).unwrap_or(0);
        let at = format!("traffic.{which}.transport");
        let [name] = names[..] else {
            return Err(self.not_at_flow_level("several transports in one run", &at));
        };
        let nic = self.network.nic_info(HostId(0));
        let model = |name: &str| S::by_name(name, &self.settings)?.flow_model(&nic);
        model(name).ok_or_else(|| {
            let has_model = |name: &&str| {
                S::by_name(name, &S::Settings::default())
                    .is_some_and(|transport| has_model(&transport, &nic))
            };
            let known: Vec<&str> =
                S::catalogue().iter().map(|t| t.name).filter(has_model).collect();
            Diagnostic::new(format!("`{name}` has no flow-level model"))
                .at(self.span("transports").or_else(|| self.span(&at)))
                .help(format!(
                    "transports that have one: {}; or use `level = \"packet\"`",
                    known.join(", ")
                ))
        })
    }

    /// Refuses sections and keys that act on packets or switches.
    fn check_for_flows(&self) -> Result<(), Diagnostic> {
        if !self.link_changes.is_empty() {
            let what = "links that change, fail or lose packets";
            return Err(self.not_at_flow_level(what, "link"));
        }
        if !self.switches.resets.is_empty() || !self.switches.legacy.is_empty() {
            return Err(self.not_at_flow_level("legacy switches and resets", "switch"));
        }
        for (which, traffic) in self.traffic.iter().enumerate() {
            let key = |key: &str| format!("traffic.{which}.{key}");
            if traffic.spec.deadline_change.is_some() {
                let what = "deadlines that change";
                return Err(self.not_at_flow_level(what, &key("deadline_change")));
            }
            if traffic.spec.class != Class::DATA {
                return Err(self.not_at_flow_level("classes of priority", &key("class")));
            }
        }
        Ok(())
    }

    fn not_at_flow_level(&self, what: &str, key: &str) -> Diagnostic {
        let at = self.span(key).or_else(|| self.span("run.level"));
        Diagnostic::new(format!("flow level does not model {what}"))
            .at(at)
            .help("remove this, or use `level = \"packet\"` in [run]")
    }
}

fn has_model<S: Simulate>(transport: &S, nic: &NicInfo) -> bool {
    transport.flow_model(nic).is_some()
}
