//! What `cargo xtask bench-instructions` counts instructions of, under callgrind.
//!
//! Each benchmark does its preparations and then a number of operations that grows with its
//! length. The caller runs it at one length and at twice that length, in processes of their own,
//! and divides the difference in instructions by the difference in operations: what is done once
//! falls out. Counts do not depend on how busy the machine is.
//!
//! ```text
//! instructions --catalogue        a line for each: name, length
//! instructions --run NAME LENGTH  runs it, prints operations and a digest of the results
//! instructions                    runs all on tiny input, so that `cargo test` keeps them alive
//! ```

mod endpoints;
mod headers;
mod queues;
mod runs;

use punctual_core::rng::Stream;
use std::hint::black_box;
use std::process::ExitCode;

/// What a benchmark did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) operations: u64,
    /// Depends on every result, so that nothing is optimised away and changes show.
    pub(crate) digest: u64,
}

struct Benchmark {
    name: &'static str,
    /// Long enough that an operation's average has settled, short enough for callgrind.
    length: u64,
    run: fn(u64) -> Done,
}

const BENCHMARKS: &[Benchmark] = &[
    Benchmark { name: "events/push-pop-1k", length: 200_000, run: |n| events(1 << 10, n) },
    Benchmark { name: "events/push-pop-64k", length: 400_000, run: |n| events(1 << 16, n) },
    Benchmark { name: "queue/drop-tail", length: 100_000, run: queues::drop_tail },
    Benchmark { name: "queue/ecn", length: 100_000, run: queues::ecn },
    Benchmark { name: "queue/priority", length: 100_000, run: queues::priority },
    Benchmark { name: "queue/trim", length: 100_000, run: queues::trim },
    Benchmark { name: "header/emit-ndp", length: 20_000, run: headers::emit_ndp },
    Benchmark { name: "header/parse-ndp", length: 20_000, run: headers::parse_ndp },
    Benchmark { name: "sender/tcp", length: 10_000, run: |n| endpoints::sender("tcp", n) },
    Benchmark { name: "sender/dctcp", length: 10_000, run: |n| endpoints::sender("dctcp", n) },
    Benchmark { name: "sender/rcpdc", length: 10_000, run: |n| endpoints::sender("rcpdc", n) },
    Benchmark { name: "sender/ndp", length: 10_000, run: |n| endpoints::sender("ndp", n) },
    Benchmark { name: "receiver/tcp", length: 10_000, run: |n| endpoints::receiver("tcp", n) },
    Benchmark { name: "receiver/dctcp", length: 10_000, run: |n| endpoints::receiver("dctcp", n) },
    Benchmark { name: "receiver/rcpdc", length: 10_000, run: |n| endpoints::receiver("rcpdc", n) },
    Benchmark { name: "receiver/ndp", length: 10_000, run: |n| endpoints::receiver("ndp", n) },
    Benchmark { name: "port/rcpdc-request", length: 1_000, run: |n| endpoints::port("rcpdc", n) },
    Benchmark { name: "hop/tcp-16", length: 2_000, run: |us| runs::permutation("tcp", 4, us) },
    Benchmark { name: "hop/dctcp-16", length: 2_000, run: |us| runs::permutation("dctcp", 4, us) },
    Benchmark { name: "hop/rcpdc-16", length: 2_000, run: |us| runs::permutation("rcpdc", 4, us) },
    Benchmark { name: "hop/ndp-128", length: 1_000, run: |us| runs::permutation("ndp", 8, us) },
    Benchmark { name: "ten-flows/dctcp", length: 300, run: |us| runs::ten_each("dctcp", us) },
    Benchmark { name: "ten-flows/d2tcp", length: 300, run: |us| runs::ten_each("d2tcp", us) },
    Benchmark { name: "ten-flows/d3", length: 300, run: |us| runs::ten_each("d3", us) },
    Benchmark { name: "ten-flows/pdq", length: 300, run: |us| runs::ten_each("pdq", us) },
    Benchmark {
        name: "aggregation/dctcp",
        length: 8_000,
        run: |us| runs::aggregation("dctcp", us),
    },
    Benchmark {
        name: "aggregation/d2tcp",
        length: 8_000,
        run: |us| runs::aggregation("d2tcp", us),
    },
    Benchmark { name: "aggregation/d3", length: 8_000, run: |us| runs::aggregation("d3", us) },
    Benchmark { name: "aggregation/pdq", length: 8_000, run: |us| runs::aggregation("pdq", us) },
];

/// An event in, an event out, with gaps like those of a network at 10 Gb/s: packets leave and
/// arrive within microseconds, and one event in 64 is a timer far away.
fn events(pending: u32, rounds: u64) -> Done {
    let mut stream = Stream::named(1, "gaps", 0);
    let gaps_picos: Vec<u64> = (0..4096)
        .map(|n| if n % 64 == 0 { 1_000_000_000 } else { 51_200 + stream.below(8_000_000) })
        .collect();
    Done {
        operations: rounds,
        digest: punctual_sim::bench::hold_events(pending, rounds, &gaps_picos),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["--catalogue"] => {
            for benchmark in BENCHMARKS {
                println!("{} {}", benchmark.name, benchmark.length);
            }
        }
        ["--run", name, length] => {
            let benchmark = BENCHMARKS.iter().find(|b| b.name == name);
            let (Some(benchmark), Ok(length)) = (benchmark, length.parse()) else {
                eprintln!("no benchmark {name} of length {length}");
                return ExitCode::from(2);
            };
            let done = black_box((benchmark.run)(black_box(length)));
            println!("operations {} digest {:016x}", done.operations, done.digest);
        }
        // Whatever a test runner passes.
        _ => {
            for benchmark in BENCHMARKS {
                let length = benchmark.length / 50;
                let (once, twice) = ((benchmark.run)(length), (benchmark.run)(2 * length));
                assert!(twice.operations > once.operations, "{}: does nothing", benchmark.name);
                println!(
                    "{} operations {} digest {:016x}",
                    benchmark.name, twice.operations, twice.digest
                );
            }
        }
    }
    ExitCode::SUCCESS
}
