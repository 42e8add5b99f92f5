//! The set-up of a run on a testbed, and what a scenario may not have there.

use super::{Scenario, Subject};
use crate::diagnostic::Diagnostic;
use punctual_sim::{Setup, Simulate};
use punctual_testbed::{KernelTcp, TestbedSetup};
use punctual_transports::AnyTransport;
use std::any::Any;

/// The transport for which the kernel's TCP runs.
const TCP: &str = KernelTcp::STANDS_FOR;

/// The set-up of a run on a testbed.
#[derive(Debug, Clone)]
pub struct TestbedRun<S: Simulate = AnyTransport> {
    /// What a simulation of it would be.
    pub simulated: Setup<S>,
    /// What runs.
    pub setup: TestbedSetup,
}

impl<S: Simulate> Scenario<S> {
    /// The subjects to run on a testbed: `tcp` is one for each of `run.kernel_tcp`.
    pub(super) fn testbed_subjects(&self) -> Vec<Subject> {
        let mut subjects = Vec::new();
        let has_tcp = self.names(None).contains(&TCP);
        let first = self.run.kernel_tcp.first().copied();
        if self.transports.is_empty() {
            let label = self.carriers(None, first).join("+");
            let kernel_tcp = first.filter(|_| has_tcp);
            return vec![Subject { label, transport: None, kernel_tcp }];
        }
        for name in &self.transports {
            let transport = Some(name.clone());
            if name != TCP {
                let kernel_tcp = first.filter(|_| has_tcp);
                subjects.push(Subject { label: name.clone(), transport, kernel_tcp });
                continue;
            }
            for kernel in &self.run.kernel_tcp {
                subjects.push(Subject {
                    label: kernel.label().to_owned(),
                    transport: transport.clone(),
                    kernel_tcp: Some(*kernel),
                });
            }
        }
        subjects
    }

    /// The names of what carries the flows of a subject, by transport id.
    pub fn carriers_of(&self, subject: &Subject) -> Vec<&str> {
        self.carriers(subject.transport.as_deref(), subject.kernel_tcp)
    }

    fn carriers(&self, transport: Option<&str>, kernel: Option<KernelTcp>) -> Vec<&str> {
        let mut names = self.names(transport);
        if let Some(kernel) = kernel {
            names.iter_mut().filter(|name| **name == TCP).for_each(|name| *name = kernel.label());
        }
        names
    }

    /// The set-up of a run on a testbed. Fails if the scenario has what a testbed cannot do.
    pub(super) fn testbed_run(
        &self,
        subject: &Subject,
        setup: Setup<S>,
    ) -> Result<TestbedRun<S>, Diagnostic> {
        let at = |key: &str| self.span(key).or_else(|| self.span("run.on"));
        let Some(own) = (&setup as &dyn Any).downcast_ref::<Setup>() else {
            return Err(Diagnostic::new("only the transports of punctual itself run on a testbed")
                .at(at("run.on"))
                .help("remove `on = \"testbed\"` from [run]"));
        };
        if let Some(refused) = punctual_testbed::unsupported(own) {
            return Err(Diagnostic::new(refused.message).at(at(refused.key)).help(refused.help));
        }
        let kernel_tcp = subject.kernel_tcp.unwrap_or(KernelTcp::Reno);
        let time_scale = self.run.time_scale;
        let sockets = self.run.sockets;
        let setup_here = TestbedSetup { setup: own.clone(), time_scale, kernel_tcp, sockets };
        if let Some(refused) = punctual_testbed::unsupported_by_host_stack(&setup_here) {
            return Err(Diagnostic::new(refused.message).at(at(refused.key)).help(refused.help));
        }
        Ok(TestbedRun { setup: setup_here, simulated: setup })
    }
}
