"""How well two Dask workers use two cores.

    cargo xtask test python
    PYTHONPATH=target/python target/python-tests/bin/python crates/python/benches/overhead.py

First 200 runs of about 60 ms as a user sees them: the wall time of `punctual.compare` with one thread
and of `punctual.dask.sweep` on two workers, with planning, merging, figures and report; the shorter
of two each, in turns. Then 1,000 runs of about 20 ms alone: by the same two workers as one task for
each, which is what the two cores can do, and as `punctual.dask.sweep` batches them. Starting workers
is not counted. `--short` leaves the whole sweep out; `--json` prints one object.
"""

import json
import sys
import tempfile
import time

import distributed

import punctual
import punctual.dask

SCENARIO = {
    "name": "short",
    "transports": ["dctcp", "ndp"],
    "network": {"topology": "star", "hosts": 24, "rate": "10Gbps", "delay": "1us"},
    "traffic": [{"pattern": "permutation", "sizes": "2MB"}],
    "run": {"duration": "20ms"},
}


def scenario(runs, sizes="2MB"):
    """Runs of about 20 ms on one core; their time grows with the sizes of their flows."""
    traffic = [{**SCENARIO["traffic"][0], "sizes": sizes}]
    return {**SCENARIO, "traffic": traffic, "run": {**SCENARIO["run"], "repetitions": runs // 2}}


def clock(what):
    begun = time.monotonic()
    what()
    return time.monotonic() - begun


def two_workers():
    return distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)


def whole_sweep(client, place, runs=200, turns=2):
    """Wall times of a whole sweep: by one thread of one process, and by two workers."""
    given = scenario(runs, "10MB")
    ones, twos = [], []
    for turn in range(turns):
        here = f"{place}/turn-{turn}"
        ones.append(
            clock(lambda: punctual.compare(given, out=f"{here}/one", threads=1, progress=False))
        )
        twos.append(
            clock(
                lambda: punctual.dask.sweep(
                    given, f"{here}/plan", out=f"{here}/two", client=client, progress=False
                )
            )
        )
    one, two = min(ones), min(twos)
    return {"runs": runs, "one": one, "two": two, "of_one": two / one}


def run_tasks(plan, tasks):
    punctual._native.sweep_run(plan, tasks, 1, None)


def short_runs(client, place, runs=1000):
    """Times of many short runs by two workers: half of them each, and in measured shards."""
    for name in ("halves", "shards"):
        punctual.plan(scenario(runs), f"{place}/{name}")
    workers = list(punctual.dask.workers_of(client))
    begun = time.monotonic()
    halves = [
        client.submit(run_tasks, f"{place}/halves", list(range(half, runs, 2)), workers=[worker])
        for half, worker in enumerate(workers)
    ]
    client.gather(halves)
    cores = time.monotonic() - begun
    sweep = punctual.dask.Sweep(client, f"{place}/shards", True, punctual.dask.SHARD_SECONDS, None)
    two = clock(lambda: sweep.run(None, None))
    return {"runs": runs, "ms_each": 2000 * cores / runs, "cores": cores, "two": two,
            "of_two_cores": cores / two}


def main():
    with tempfile.TemporaryDirectory(prefix="punctual-overhead-") as place:
        with two_workers() as cluster, distributed.Client(cluster) as client:
            client.run(__import__, "punctual")
            whole = None if "--short" in sys.argv else whole_sweep(client, place)
            short = short_runs(client, place)
    if "--json" in sys.argv:
        print(json.dumps({"whole": whole, "short": short}))
        return
    if whole:
        print("whole sweep of {runs} runs: one process {one:.1f} s, two workers {two:.1f} s, "
              "{of_one:.2f} of one's".format(**whole))
    print("{runs} runs of {ms_each:.1f} ms: the cores need {cores:.1f} s, a sweep {two:.1f} s, "
          "{0:.0f} % of two cores".format(100 * short["of_two_cores"], **short))


if __name__ == "__main__":
    main()
