//! The lab: from a scenario file to a plan of runs, their execution and their results.
//!
//! A [`Study`] is a scenario file, read and checked. It plans [runs](PlannedRun): one for each
//! transport, each point of a sweep and each repetition. [`execute`] runs them on several threads
//! and writes a directory for each. A [`CapacitySearch`] plans runs as it goes, to find how far a
//! value of the scenario can go while a condition holds.

mod bench;
mod capacity;
mod diagnostic;
mod document;
mod execute;
mod explain;
mod fingerprint;
pub mod ideal;
mod keys;
mod load;
mod plan;
mod plan_file;
mod queue_words;
mod scenario;
mod scheduler;
mod settings;
mod source;
mod suggest;
mod survey;
mod sweep;

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
pub use keys::keys;
pub use load::{LinkLoad, OfferedLoad, TierLoad};
pub use plan::{LoadError, PlannedRun, Point, Study, StudyOfRun, load_study, study_from_text};
pub use queue_words::queue_words;
pub use scenario::{
    LinkSection, NetworkSection, Queues, RunSection, RunSetup, Scenario, StopWhen, Subject,
    SwitchQueues, SwitchSection, TOP_KEYS, TierName, TopologyInfo, TrafficSection,
};
pub use scheduler::{IdealRun, IdealSetup};
pub use source::{Place, Sources};
pub use suggest::nearest;
pub use survey::{Again, RunState, describe};
pub use sweep::Labels;
