//! The lab: from a scenario file to a plan of runs, their execution and their results.
//!
//! A [`Study`] is a scenario file, read and checked. It plans [runs](PlannedRun): one for each
//! transport, point of the sweep and repetition. [`execute`] runs them on several threads and
//! writes a directory for each. A [`CapacitySearch`] plans runs step by step, to find the largest
//! value of a key for which a condition holds.

mod answers;
mod bench;
mod capacity;
pub mod catalogue;
mod diagnostic;
mod document;
mod execute;
mod explain;
mod fingerprint;
mod flow_paths;
mod flow_run;
mod ideal_run;
pub mod idle_network;
mod keys;
mod load;
mod plan;
mod plan_file;
mod queue_words;
mod scenario;
mod settings;
mod source;
mod suggest;
mod survey;
mod sweep;
mod tasks;
mod wire_cost;

pub use bench::{BENCH_CASES, BenchCase};
pub use capacity::{
    Answer, CapacitySearch, Condition, Estimate, Outcome, Probe, Question, REPETITIONS_FACTOR,
    REPETITIONS_MIN, Reason, VALUE_FACTOR, Verdict,
};
pub use diagnostic::{Diagnostic, ScenarioError};
pub use execute::{
    ExecuteError, Options, RunReport, Watch, execute, execute_surveyed, survey, utilisation,
};
pub use explain::{Chosen, ExplainError, MISSED_MAX, Pick, explain, pick};
pub use fingerprint::{build_id, set_commit, set_program};
pub use flow_run::FlowRunSetup;
pub use ideal_run::{IdealRun, IdealSetup};
pub use keys::keys;
pub use load::{Limited, LinkLoad, OfferedLoad, TierLoad};
pub use plan::{LoadError, PlannedRun, Point, Study, StudyOfRun, load_study, study_from_text};
pub use punctual_testbed::KernelTcp;
pub use queue_words::queue_words;
pub use scenario::{
    Level, LinkSection, NetworkSection, Queues, RunOn, RunSection, RunSetup, Scenario, StopWhen,
    Subject, SwitchQueues, SwitchSection, TOP_KEYS, TestbedRun, TierName, TopologyInfo,
    TrafficSection,
};
pub use source::{Place, Sources};
pub use suggest::nearest;
pub use survey::{RerunReason, RunState, describe};
pub use sweep::Labels;
pub use tasks::{PartProblem, Parts, Round, SweepDir, TaskError, TaskRuns};
