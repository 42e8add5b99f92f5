//! The texts of `--help` below the options: examples, files, exit codes.

pub(crate) const EXAMPLES: &str = "\
Examples:
  punctual compare scenarios/search.toml
  punctual compare scenarios/search.toml --set traffic.workers=40 --out results/forty
  punctual compare --on both scenarios/testbed.toml          # real packets beside the simulator
  punctual run scenarios/permutation.toml --set 'transports=[\"ndp\"]' --json
  punctual capacity scenarios/d3-burst.toml --vary traffic.workers --until 'deadlines_met >= 95%'
  punctual report results/search --open
  punctual explain results/search/tcp/seed-1 --worst 5
  punctual reproduce ndp/fig14 --quick
  punctual init my-scenario.toml
  punctual check my-scenario.toml
  punctual replay results/search/ndp/seed-1/manifest.json
  punctual sweep plan scenarios/incast.toml --out sweep
  punctual bench ndp-permutation-432 --json
  punctual receive --listen 0.0.0.0:7000 --out copy.bin
  punctual send file.bin 10.0.0.2:7000 --deadline 50ms

Exit codes:
    0  success
    1  failure: a file cannot be read or written, or the disk is full
    2  the command line or the scenario is wrong
    3  a checker found a broken invariant
    4  a capacity is outside the bounds: the condition always holds within them, or never
    5  the files of a replay differ from those of its run
    6  some results of a report, or parts of a sweep, are missing or damaged
    9  the timing of a run on a testbed was invalid
   10  a capacity search has another round of tasks to run
  130  interrupted; finished runs are kept, and the same command continues from there

Environment:
  NO_COLOR  if set and not empty: no colours and no bold text";

pub(crate) const RUN_HELP: &str = "\
Each run has a directory DIR/[POINT/]TRANSPORT/seed-SEED with flows.parquet, queues.parquet,
summary.json and manifest.json; and gauges.parquet and pauses.parquet if they would have rows.
Repetition r has the seed SEED + r for every transport, so all transports carry the same flows.

A finished run is reused if this build made it with these settings. Results of other settings are
not replaced without --fresh (docs/results.md).

Example:
  punctual run scenarios/incast.toml --set run.sample=10us --out results/sampled";

pub(crate) const EXPLAIN_HELP: &str = "\
The causes of a flow's end are traced back to its start: packets and their queues, the calls that
sent them, timers, grants and pulls. The parts add up to the completion time exactly. They are also
stored as explain.json in the run's directory, and the report shows them (docs/explain.md).

Examples:
  punctual explain results/search/tcp/seed-1 --worst 5
  punctual explain results/search/tcp/seed-1 --missed
  punctual explain results/search/tcp/seed-1 17 --json
  punctual explain results/search                # where the time went, by transport
  punctual explain results/search --transport ndp --sample 500";

pub(crate) const COMPARE_HELP: &str = "\
Numbers are means over the repetitions, ± half the width of their 95 % interval. DIR has a directory
for each run (see `punctual run --help`) and plots of the completion times.

On a terminal the table omits columns that do not fit; --wide and --json show all.

For two directories, each metric of each transport is compared: the difference B - A, its 95 %
interval over the runs, and whether the interval excludes zero. Runs with the same seeds are
compared in pairs, others by Welch's t (docs/commands.md).

Examples:
  punctual compare scenarios/search.toml --set run.repetitions=10 --out /tmp/search
  punctual compare scenarios/search.toml --set network.spines=2 --out results/two-spines
  punctual compare results/search results/two-spines";

pub(crate) const CAPACITY_HELP: &str = "\
A value surely holds or fails if the whole 95 % interval of the metric's mean does. Otherwise
repetitions are added up to the maximum, and then the mean decides. Runs are stored like those of a
sweep, and the same command continues an interrupted search. Exit code 4: for at least one
transport the condition always holds within the bounds, or never.

Examples:
  punctual capacity scenarios/d3-burst.toml --vary traffic.workers --until 'deadlines_met >= 95%'
  punctual capacity scenarios/d3-burst.toml --vary traffic.deadlines.exponential.mean --smallest \
      --until 'deadlines_met >= 99%' --to 200ms";

pub(crate) const REPORT_HELP: &str = "\
The page is DIR/report.html, or --out FILE. `run`, `compare` and `capacity` write it too. The page
can export every plot as SVG, PNG or CSV.

Examples:
  punctual report results/search --open
  punctual report results/search/ndp/seed-1 --out /tmp/ndp.html";

pub(crate) const REPRODUCE_HELP: &str = "\
An experiment is a file of the catalogue: a scenario with the paper's claims, the accepted values and
where they come from. Every claim has a verdict: holds, differs, blind (measured, without an
expectation) or cannot-run. A verdict with ~ is not sure: the 95 % interval over seeds does not
exclude the other one. A single seed is never sure.

Runs are stored under DIR/PAPER/FIGURE/PART; the same command continues an interrupted one and gives
the same bytes. DIR has claims.jsonl, claims.json for each experiment, and report.html.

JSON fields: experiment, claim, rows, kind, text, paper, tolerance, unit, measured, interval, verdict,
sure, seeds, note, readings.

Exit code 0: everything ran, whatever the verdicts. 2: unknown experiment or wrong file. 130:
interrupted; finished runs are kept.

Examples:
  punctual reproduce --list
  punctual reproduce --quick
  punctual reproduce d3/fig10 ndp --json";

pub(crate) const INIT_HELP: &str = "\
Examples:
  punctual init
  punctual init incast.toml && punctual compare incast.toml";

pub(crate) const CONVERT_HELP: &str = "\
Formats: csv (with a header and units), htsim (a connection matrix), hpcc (the flow file of the HPCC
simulator), columns (numbers). A scenario lists the flows of its first run.

Examples:
  punctual convert scenarios/search.toml --to htsim --out search.cm
  punctual convert flows.txt --from hpcc --to csv --out flows.csv
  punctual convert trace.tsv --columns 'src dst size:KB start:us' --number-hosts --to csv
  punctual convert topology.txt --from hpcc-topology --out network.toml";

pub(crate) const SWEEP_HELP: &str = "\
`plan` writes tasks.json: one numbered task for each run, and all that a worker needs. `run` makes
some tasks; it may be started any number of times, anywhere, and keeps what is finished. `merge`
checks every part and writes a directory of results with the same bytes as `compare` or `capacity`
on one machine. Exit codes: 6 if parts are missing, damaged or foreign; 10 if a capacity search has
another round of tasks to run.

Examples:
  punctual sweep plan scenarios/incast.toml --out sweep
  punctual sweep run sweep --shard 0/2
  punctual sweep run sweep --task 0-9,12
  punctual sweep status sweep
  punctual sweep merge sweep --out results/incast
  punctual sweep emit slurm sweep --jobs 100 > sweep.sh
  punctual sweep plan scenarios/d3-burst.toml --out search --vary traffic.workers --until 'deadlines_met >= 95%'";

pub(crate) const REPLAY_HELP: &str = "\
The new run goes to results/NAME-replay, or --out DIR. Exit code 5: some file differs from that of
the manifest's run. Files of that run that are missing or changed are not compared.

Examples:
  punctual replay results/search/ndp/seed-1/manifest.json
  punctual replay results/splitting/ndp/seed-1 --folder scenarios --out /tmp/again";

pub(crate) const CAPTURE_HELP: &str = "\
Runs the first point and seed of one transport, on a network of at most 256 hosts. Each link is an
interface of the capture, and each packet is captured on every link of its path, when its first bit
leaves. NDP, D3, RCP with D3's header and PDQ have the bytes of a real network; packets of other
transports have a generic header. Payloads are zeros, of which the first bytes are kept.

With --interface, packets of real transfers are captured in both directions, with the time at which
the kernel saw them.

Examples:
  punctual capture scenarios/incast.toml --transport ndp --out incast.pcapng
  wireshark -X lua_script:tools/wireshark/punctual.lua incast.pcapng
  punctual capture --interface eth0 --port 7000 --for 10s --out live.pcapng";

pub(crate) const COMPLETIONS_HELP: &str = "\
Examples:
  punctual completions bash > ~/.local/share/bash-completion/completions/punctual
  punctual completions zsh > ~/.zfunc/_punctual
  punctual completions fish > ~/.config/fish/completions/punctual.fish";

pub(crate) const MAN_HELP: &str = "\
Example:
  punctual man ~/.local/share/man/man1 && man punctual-compare";

pub(crate) const CHECK_HELP: &str = "\
Examples:
  punctual check my-scenario.toml
  punctual check scenarios/search.toml --set network.spines=2 --json";

pub(crate) const LIST_HELP: &str = "\
Examples:
  punctual list
  punctual list --json | grep '\"transports\"'";

pub(crate) const SEND_HELP: &str = "\
Nothing is encrypted. With --key both ends authenticate packets; without it, use only networks that
you trust. With --into, names come from the sender: paths, hidden files and control characters are
refused. An interrupted transfer is continued by the same two commands.

JSON: one object for each file, also of failures. `outcome` is done, met, missed, unknown or failed;
`traffic` counts datagrams, with drops by reason.

Examples:
  punctual receive --listen 0.0.0.0:7000 --out copy.bin
  punctual send file.bin 10.0.0.2:7000 --deadline 50ms
  punctual receive --listen 0.0.0.0:7000 --into inbox --count 2
  punctual send a.bin b.bin 10.0.0.2:7000
  punctual receive --via /run/punctual/hostd.sock --service backup --into inbox
  punctual send a.bin 10.0.0.2:7000 --via /run/punctual/hostd.sock --service backup";

pub(crate) const PERF_HELP: &str = "\
`perf` prints where client and server run and how they wait (--placement, --spin): figures of
different placements are not comparable. The server takes UDP PORT (NDP), UDP PORT+1 (bare
datagrams), TCP PORT and, built with the feature `quic`, UDP PORT+2 (QUIC). The throughput of UDP
is what arrives.

TCP Fast Open needs `sysctl -w net.ipv4.tcp_fastopen=3` at both ends.

JSON fields of perf: placement, bytes, requests, mtu, latency (p50_us, p90_us, p99_us of each, or
not_measured with the reason), bulk_bytes, bulk_gbps. JSON fields of ping: peer, sent, answered, microseconds (null if lost).

Examples:
  punctual perf --placement two-cores --spin
  punctual perf --listen 0.0.0.0:7000
  punctual perf 10.0.0.2:7000 --json
  punctual ping 10.0.0.2:7000";

pub(crate) const BENCH_HELP: &str = "\
JSON fields: scenario, simulated_seconds, packet_hops (packets sent by output ports, NICs and
control packets included), delivered_packets, events, cpu_seconds (of all threads), wall_seconds,
threads (used: fewer than asked for where they would not pay), packet_hops_per_second (of CPU time),
peak_rss_bytes, utilisation (of the links into receiving hosts).

Example:
  punctual bench ndp-permutation-128 ndp-permutation-432 --json";

#[cfg(target_os = "linux")]
pub(crate) const SWITCH_HELP: &str = "\
Needs CAP_NET_RAW. Prints a table at the end, or the report as JSON. Exit code 9: departures were so
late that timing cannot be trusted.

Example:
  punctual switch --config switch.toml --report report.json";

#[cfg(target_os = "linux")]
pub(crate) const TESTBED_HELP: &str = "\
Needs CAP_NET_ADMIN, CAP_SYS_ADMIN and CAP_NET_RAW.

Example:
  punctual testbed up scenarios/testbed.toml
  punctual testbed exec scenarios/testbed.toml 1 ping -c 3 10.0.0.1
  punctual testbed status scenarios/testbed.toml
  punctual testbed restart scenarios/testbed.toml
  punctual testbed down scenarios/testbed.toml";
