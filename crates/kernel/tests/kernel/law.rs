//! The law in the kernel is the simulator's, bit for bit.

use crate::Test;
use crate::support::{Sandbox, because, ensure, has_program};
use libtest_mimic::Failed;
use punctual_core::{Duration, Instant};
use punctual_kernel::{LawPoint, Loaded, OBJECT, load_object};
use punctual_transports::tcp::{
    D2tcpParams, DctcpParams, Feedback, Fraction, Imminence, imminence, next_alpha, power,
};

pub(crate) const TESTS: &[Test] = &[
    ("law__power_is_the_simulators", power__is_the_simulators),
    ("law__alpha_is_the_simulators", alpha__is_the_simulators),
    ("law__imminence_is_the_simulators", imminence__is_the_simulators),
    ("law__rebuilt_object_is_the_embedded_one", object__rebuilt_behaves_the_same),
];

const ALPHA_ONE: u32 = 1 << 20;

fn fraction(bits: u32) -> Fraction {
    Fraction::from_f64(f64::from(bits) / f64::from(ALPHA_ONE))
}

fn loaded(object: &[u8], sandbox: &Sandbox) -> Result<Loaded, Failed> {
    load_object(object, &sandbox.d2tcp, &sandbox.dctcp).map_err(because("load"))
}

fn power__is_the_simulators(sandbox: &Sandbox) -> Result<(), Failed> {
    let kernel = loaded(OBJECT, sandbox)?;
    let mut points = 0;
    // α in steps of 2^-20 below 64 of them, then by a prime; d from 0.25 to 4, ends included.
    let alphas = (0..64).chain((64..ALPHA_ONE).step_by(1_361)).chain([ALPHA_ONE - 1, ALPHA_ONE]);
    for alpha in alphas {
        for d in (16_384..=262_144).step_by(1_024).chain([65_535, 65_537]) {
            let got = kernel.law(&LawPoint { alpha, d, ..LawPoint::default() });
            let got = got.map_err(because("run"))?[0];
            let want = power(fraction(alpha), Imminence::from_f64(f64::from(d) / 65536.0)).bits();
            ensure!(got == want, "alpha {alpha}, d {d}: kernel {got}, simulator {want}");
            points += 1;
        }
    }
    println!("p = alpha^d: {points} points equal");
    Ok(())
}

fn alpha__is_the_simulators(sandbox: &Sandbox) -> Result<(), Failed> {
    let kernel = loaded(OBJECT, sandbox)?;
    let gain = fraction(ALPHA_ONE / 16);
    let mut points = 0;
    for alpha in (0..40).chain((40..=ALPHA_ONE).step_by(8_191)) {
        for acked in [0, 1, 2, 3, 10, 1_000, 65_537, u32::MAX] {
            for marked in [0, 1, acked / 3, acked / 2, acked.saturating_sub(1), acked] {
                let point = LawPoint { alpha, marked, acked, ..LawPoint::default() };
                let got = kernel.law(&point).map_err(because("run"))?[1];
                let (marked, acked) = (u64::from(marked), u64::from(acked));
                let want = next_alpha(fraction(alpha), gain, marked, acked).bits();
                ensure!(got == want, "{point:?}: kernel {got}, simulator {want}");
                points += 1;
            }
        }
    }
    println!("alpha: {points} points equal");
    Ok(())
}

/// d of the simulator, within 0.25 and 4.
fn simulated_d(point: &LawPoint) -> u32 {
    let fraction = Fraction::ONE;
    let params = D2tcpParams {
        dctcp: DctcpParams {
            gain: fraction,
            initial_alpha: fraction,
            window_min: 2,
            cut_every_window: false,
        },
        least: Imminence::LEAST,
        most: Imminence::MOST,
        after_miss: Imminence::ONE,
    };
    let ack = Feedback {
        now: Instant::ZERO,
        newly_acked_bytes: 0,
        marked: true,
        una: 0,
        next: 0,
        cwnd_bytes: point.window,
        slow_start: false,
        remaining_bytes: point.bytes,
        smoothed_rtt: Some(Duration::from_micros(point.rtt_us)),
    };
    let deadline = Instant::ZERO + Duration::from_micros(point.left_us);
    imminence(Some(deadline), &ack, &params).bits()
}

fn imminence__is_the_simulators(sandbox: &Sandbox) -> Result<(), Failed> {
    let kernel = loaded(OBJECT, sandbox)?;
    let (mut points, mut within) = (0, 0);
    for bytes in [0, 1, 1_000, 99_999, 12_000_000, 1 << 40, 1 << 50] {
        for window in [0, 1, 1_448, 2 * 1_448, 43_440, 10_000_019, 1 << 48] {
            for rtt_us in [1, 37, 100, 1_499, 7_300, 250_000, 1 << 29] {
                // 2^43 us are the simulator's longest time.
                for left_us in [1, 2, 999, 20_000, 333_333, 3_400_000, 1 << 36, 1 << 42] {
                    let point = LawPoint { bytes, window, rtt_us, left_us, ..LawPoint::default() };
                    let got = kernel.law(&point).map_err(because("run"))?[2];
                    let got = got.clamp(Imminence::LEAST.bits(), Imminence::MOST.bits());
                    let want = simulated_d(&point);
                    ensure!(got == want, "{point:?}: kernel {got}, simulator {want}");
                    points += 1;
                    let ends = [Imminence::LEAST.bits(), Imminence::MOST.bits()];
                    within += u32::from(!ends.contains(&got));
                }
            }
        }
    }
    // Around d = 0.5 to 2, by the time left.
    for left_us in (1_500_000..6_500_000).step_by(997) {
        let point = LawPoint {
            bytes: 12_000_000,
            window: 20 * 1_448,
            rtt_us: 7_301,
            left_us,
            ..LawPoint::default()
        };
        let got = kernel.law(&point).map_err(because("run"))?[2];
        ensure!(got == simulated_d(&point), "{point:?}: kernel {got}");
        (points, within) = (points + 1, within + 1);
    }
    ensure!(within > 5_000, "only {within} points are within the bounds of d");
    println!("d: {points} points equal, {within} of them between the bounds");
    Ok(())
}

fn object__rebuilt_behaves_the_same(sandbox: &Sandbox) -> Result<(), Failed> {
    if !has_program("clang", "--version")? {
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("d2tcp.bpf.o");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/build.sh");
    let built = std::process::Command::new(script).arg(&path).output()?;
    ensure!(built.status.success(), "build.sh: {}", String::from_utf8_lossy(&built.stderr));
    let object = std::fs::read(&path)?;
    let (new, old) = (loaded(&object, sandbox)?, loaded(OBJECT, sandbox)?);
    // Linear congruential numbers of Knuth, MMIX.
    let mut seed = 1u64;
    let mut draw = |bits: u32| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> (64 - bits)
    };
    for _ in 0..20_000 {
        let point = LawPoint {
            alpha: draw(20) as u32,
            d: 16_384 + draw(17) as u32,
            marked: draw(10) as u32,
            acked: draw(10) as u32,
            bytes: draw(40),
            window: draw(24),
            rtt_us: draw(14),
            left_us: draw(26),
        };
        let (new, old) = (new.law(&point), old.law(&point));
        let (new, old) = (new.map_err(because("run"))?, old.map_err(because("run"))?);
        ensure!(new == old, "{point:?}: rebuilt {new:?}, embedded {old:?}; run bpf/build.sh");
    }
    Ok(())
}
