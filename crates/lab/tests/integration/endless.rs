//! Runs in which no flow ends.

use crate::common::text;
use punctual_core::{Duration, Instant};

const ENDLESS: &str = r#"
name = "endless"
transports = ["tcp", "ndp", "pdq"]
[network]
topology = "star"
hosts = 3
rate = "1Gbps"
delay = "1us"
[[traffic]]
pattern = "pairs"
pairs = [[1, 0], [2, 0]]
"#;

/// Such a run has nothing to wait for. It once ended as it began, with 0 flows and no warning.
#[test]
fn endless__a_run_without_finite_flows_lasts_for_its_duration() {
    let run =
        |flows: &str, run: &str| text(&format!("{ENDLESS}{flows}\n[run]\nduration = '5ms'\n{run}"));
    let ends = |ms| Instant::ZERO + Duration::from_millis(ms);
    for level in ["level = 'packet'", "level = 'flow'"] {
        for flows in ["sizes = 'endless'", "sizes = '9MB'\nbackground = true"] {
            for ran in run(flows, level) {
                assert_eq!(ran.outcome.totals.ended_at, ends(5), "{}, {level}", ran.name());
                // The link carries 625 KB in 5 ms. Start-up costs less than half of it.
                let bytes: u64 = ran.outcome.flows.iter().map(|f| f.delivered.get()).sum();
                assert!(bytes > 312_500, "{}, {level}: {bytes} bytes", ran.name());
            }
        }
        // A measured window ends the run, as it does with flows that end.
        for ran in run("sizes = 'endless'", &format!("{level}\nmeasure = {{ until = '2ms' }}")) {
            assert_eq!(ran.outcome.totals.ended_at, ends(2), "{}, {level}", ran.name());
        }
    }
}
