"""How well two Dask workers use two cores.

    cargo xtask test python
    PYTHONPATH=target/python target/python-tests/bin/python crates/python/benches/overhead.py

First a whole sweep of 200 runs as a user sees it: the wall time of `punctual.compare` with one thread
and of `punctual.dask.sweep` on two workers, with planning, merging, figures and report; how much of a
core the one process had, and how many cores other work on the machine left to the two workers. Then
1,000 runs alone: by the same two workers as one task for each, which is what the two cores can do, and
as `punctual.dask.sweep` batches them. A run takes about 20 ms of CPU time on this machine: the sizes
of flows are chosen for that. Starting workers is not counted, and results are in memory (`/dev/shm`)
where a system has that: to wait for a disk is no work, and two workers would wait at the same time.
`--whole` and `--short` measure only one of them; `--json` prints one object.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

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


RUN_SECONDS = 0.02
"""The CPU time of a run."""


def scenario(runs, megabytes=2.0):
    """Runs whose time grows with the sizes of their flows."""
    traffic = [{**SCENARIO["traffic"][0], "sizes": f"{megabytes:.1f}MB"}]
    repeated = {**SCENARIO["run"], "repetitions": runs // 2}
    return {**SCENARIO, "traffic": traffic, "run": repeated}


def megabytes_of_a_run(place, runs=20):
    """The sizes of flows with which a run takes `RUN_SECONDS` of CPU time here."""
    megabytes = 4.0
    begun = time.process_time()
    punctual.run(scenario(runs, megabytes), out=f"{place}/measured", threads=1, progress=False)
    return megabytes * RUN_SECONDS * runs / (time.process_time() - begun)


def is_same(one, other):
    """Whether two directories have the same files, but for those that name the machine."""
    def files(root):
        paths = (path for path in Path(root).rglob("*") if path.is_file())
        named = (path for path in paths if path.name not in ("host.json", ".lock"))
        return {path.relative_to(root): path.read_bytes() for path in named}

    return files(one) == files(other)


def clock(what, *arguments, **options):
    begun = time.monotonic()
    what(*arguments, **options)
    return time.monotonic() - begun


def machine_seconds():
    """The CPU time of everything on this machine, which Linux counts, with what a hypervisor took."""
    with open("/proc/stat") as file:
        user, nice, system, _idle, _wait, *others = map(int, file.readline().split()[1:9])
    return (user + nice + system + sum(others)) / os.sysconf("SC_CLK_TCK")


def two_workers():
    return distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)


def run_tasks(plan, tasks):
    punctual._native.sweep_run(plan, tasks, 1, None)


def halves(client, given, runs, plan):
    """The time that two workers need for half of the runs each, as one task."""
    punctual.plan(given, plan)
    workers = list(punctual.dask.workers_of(client))
    begun = time.monotonic()
    futures = [
        client.submit(run_tasks, plan, list(range(half, runs, 2)), workers=[worker])
        for half, worker in enumerate(workers)
    ]
    client.gather(futures)
    return time.monotonic() - begun


def whole_sweep(client, place, megabytes, runs=200):
    """Wall times of a whole sweep by one thread of one process and by two workers."""
    def own_seconds():
        return time.process_time() + sum(client.run(time.process_time).values())

    given = scenario(runs, megabytes)
    options = {"progress": False}
    cpu = time.process_time()
    one = clock(punctual.compare, given, out=f"{place}/one", threads=1, **options)
    cpu = time.process_time() - cpu
    others = machine_seconds() - own_seconds()
    two = clock(
        punctual.dask.sweep, given, f"{place}/plan", out=f"{place}/two", client=client, **options
    )
    others = machine_seconds() - own_seconds() - others
    return {"runs": runs, "one": one, "core": cpu / one, "two": two, "of_one": two / one,
            "cores": os.cpu_count() - others / two, "same": is_same(f"{place}/one", f"{place}/two")}


def short_runs(client, place, megabytes, runs=1000):
    """Times of many short runs by two workers: half of them each, and in measured shards."""
    given = scenario(runs, megabytes)
    cores = halves(client, given, runs, f"{place}/halves")
    punctual.plan(given, f"{place}/shards")
    sweep = punctual.dask.Sweep(client, f"{place}/shards", True, punctual.dask.SHARD_SECONDS, None)
    two = clock(sweep.run, None, None)
    return {"runs": runs, "ms_each": 2000 * cores / runs, "cores": cores, "two": two,
            "of_two_cores": cores / two}


def main():
    whole = short = None
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="punctual-overhead-", dir=memory) as place:
        megabytes = megabytes_of_a_run(place)
        with two_workers() as cluster, distributed.Client(cluster) as client:
            client.run(__import__, "punctual.dask")
            if "--short" not in sys.argv:
                whole = whole_sweep(client, place, megabytes)
            if "--whole" not in sys.argv:
                short = short_runs(client, place, megabytes)
    if "--json" in sys.argv:
        print(json.dumps({"whole": whole, "short": short}))
        return
    if whole:
        print("whole sweep of {runs} runs: one process {one:.2f} s on {0:.0f} % of a core, two workers "
              "{two:.2f} s with {cores:.2f} cores to be had, {of_one:.2f} of one's"
              .format(100 * whole["core"], **whole))
    if short:
        print("{runs} runs of {ms_each:.1f} ms: the cores need {cores:.1f} s, a sweep {two:.1f} s, "
              "{0:.0f} % of two cores".format(100 * short["of_two_cores"], **short))


if __name__ == "__main__":
    main()
