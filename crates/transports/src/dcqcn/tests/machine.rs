//! The rate machine alone, step by step.

use super::*;

/// What happens to a machine.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A notification at this microsecond.
    Cnp(u64),
    /// The time is this microsecond: what is due happens.
    Time(u64),
    /// So many bytes are sent.
    Sent(u64),
}

/// Rates that halve well: a line of 8,192 Mb/s, steps of 16 and 64 Mb/s, α by quarters.
fn params() -> MachineParams {
    let config = DcqcnConfig {
        gain: 0.25,
        fast_recovery: 2,
        byte_counter: Bytes::new(1_000),
        alpha_timer: Duration::from_micros(40),
        increase_timer: Duration::from_micros(50),
        additive_increase: Rate::from_mbps(16),
        hyper_increase: Rate::from_mbps(64),
        rate_min: Rate::from_mbps(4),
        ..DcqcnConfig::default()
    };
    MachineParams::new(&config, Rate::from_mbps(8_192))
}

/// R_C and R_T in Mb/s, and α.
fn state(machine: &RateMachine) -> (f64, f64, f64) {
    let mbps = |rate: Rate| rate.as_bps() as f64 / 1e6;
    (mbps(machine.current()), mbps(machine.target()), machine.alpha().as_f64())
}

fn follow(steps: &[(Step, (f64, f64, f64))]) {
    let params = params();
    let mut machine = RateMachine::new(&params);
    for (n, &(step, expected)) in steps.iter().enumerate() {
        match step {
            Step::Cnp(us) => {
                machine.handle_timeout(at(us), &params);
                machine.handle_cnp(at(us), &params);
            }
            Step::Time(us) => {
                machine.handle_timeout(at(us), &params);
            }
            Step::Sent(bytes) => {
                machine.count_sent(bytes, &params);
            }
        }
        assert_eq!(state(&machine), expected, "step {n}: {step:?}");
    }
}

use Step::*;

/// The whole life of a flow, as the paper's Figure 7 has it.
#[test]
fn dcqcn_r04_r05_r06_r07_r08_r09_the_machine_step_by_step() {
    follow(&[
        // At line rate nothing rises and α stays as it was.
        (Time(1_000), (8_192.0, 8_192.0, 1.0)),
        (Sent(5_000), (8_192.0, 8_192.0, 1.0)),
        // The first cut: by half of α = 1. α = 3/4 + 1/4.
        (Cnp(2_000), (4_096.0, 8_192.0, 1.0)),
        // 40 µs without one: α = 3/4. Not before.
        (Time(2_039), (4_096.0, 8_192.0, 1.0)),
        (Time(2_040), (4_096.0, 8_192.0, 0.75)),
        // 50 µs: the first rise, halfway back. The second at 100 µs; α at 80 µs.
        (Time(2_050), (6_144.0, 8_192.0, 0.75)),
        (Time(2_100), (7_168.0, 8_192.0, 0.5625)),
        // A cut by half of 0.5625: R_T is where it was, counters and timers start anew.
        (Cnp(2_110), (5_152.0, 7_168.0, 0.671875)),
        (Time(2_149), (5_152.0, 7_168.0, 0.671875)),
        (Time(2_150), (5_152.0, 7_168.0, 0.50390625)),
        (Time(2_159), (5_152.0, 7_168.0, 0.50390625)),
        (Time(2_160), (6_160.0, 7_168.0, 0.50390625)),
        // Bytes raise it too: 999 do not, the thousandth does, and the rest counts on.
        (Sent(999), (6_160.0, 7_168.0, 0.50390625)),
        (Sent(501), (6_664.0, 7_168.0, 0.50390625)),
        // The second by bytes is the last of fast recovery on that side.
        (Sent(500), (6_916.0, 7_168.0, 0.50390625)),
        // The third by bytes is above F: additive.
        (Sent(1_000), (7_050.0, 7_184.0, 0.50390625)),
        (Sent(1_000), (7_125.0, 7_200.0, 0.50390625)),
        // The second by time: still one side alone above F. α fell at 190 µs.
        (Time(2_210), (7_170.5, 7_216.0, 0.3779296875)),
        // The third by time: both above F, hyper. α fell at 230 µs.
        (Time(2_260), (7_225.25, 7_280.0, 0.283447265625)),
        (Sent(1_000), (7_284.625, 7_344.0, 0.283447265625)),
    ]);
}

/// Two cuts in a row: the target is the rate of the moment, not that of before both.
#[test]
fn dcqcn_r04_each_cut_starts_from_the_rate_of_the_moment() {
    follow(&[(Cnp(0), (4_096.0, 8_192.0, 1.0)), (Cnp(10), (2_048.0, 4_096.0, 1.0))]);
}

#[test]
fn dcqcn_r04_no_cut_below_the_least_rate() {
    let params = params();
    let mut machine = RateMachine::new(&params);
    for _ in 0..40 {
        machine.handle_cnp(Instant::ZERO, &params);
    }
    assert_eq!(machine.current(), Rate::from_mbps(4));
}

/// Timers that the driver comes late to are made up for.
#[test]
fn dcqcn_r06_late_timers_count_as_often_as_they_passed() {
    let params = params();
    let (mut early, mut late) = (RateMachine::new(&params), RateMachine::new(&params));
    for machine in [&mut early, &mut late] {
        machine.handle_cnp(Instant::ZERO, &params);
    }
    for us in 0..=1_000 {
        early.handle_timeout(at(us), &params);
    }
    late.handle_timeout(at(1_000), &params);
    assert_eq!(early, late);
}

/// A flow left alone gets all the way back, and then wants to be called no more but for α.
#[test]
fn dcqcn_r09_gets_back_to_the_line() {
    let params = params();
    let mut machine = RateMachine::new(&params);
    machine.handle_cnp(Instant::ZERO, &params);
    for us in 0..100_000 {
        machine.handle_timeout(at(us), &params);
        machine.count_sent(1_000, &params);
    }
    assert_eq!(state(&machine), (8_192.0, 8_192.0, 0.0));
    assert_eq!(machine.next_timeout(), Instant::NEVER);
    assert!(!machine.count_sent(1_000_000, &params));
}
