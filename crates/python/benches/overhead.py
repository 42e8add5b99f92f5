"""How well two Dask workers use two cores.

    cargo xtask test python
    PYTHONPATH=target/python target/python-tests/bin/python crates/python/benches/overhead.py

First a whole sweep of 200 runs as a user sees it: the wall time of `punctual.compare` with one thread
and of `punctual.dask.sweep` on two workers, with planning, merging, figures and report; how much of a
core the one process had, and how many cores other work on the machine left to the two workers. Then
1,000 runs: the CPU time that the same two workers need for half of them each as one task, which is
what two idle cores can do, and the wall time of `punctual.dask.sweep`, again with all that it does:
until the last task is done, and until the merged results and their report are there. A run takes about 20 ms of CPU time on this machine: the sizes
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


def measured(client, what, /, *arguments, **options):
    """The wall time of a call, and how many cores other work left to this process and the workers."""
    def own_seconds():
        return time.process_time() + sum(client.run(time.process_time).values())

    others = machine_seconds() - own_seconds()
    wall = clock(what, *arguments, **options)
    others = machine_seconds() - own_seconds() - others
    return wall, os.cpu_count() - others / wall


def two_workers():
    return distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)


def run_tasks(plan, tasks):
    punctual._native.sweep_run(plan, tasks, 1, None)


def halves(client, given, runs, plan):
    """The CPU time that each of two workers needs for half of the runs as one task, on average."""
    punctual.plan(given, plan)
    workers = list(punctual.dask.workers_of(client))
    begun = sum(client.run(time.process_time).values())
    futures = [
        client.submit(run_tasks, plan, list(range(half, runs, 2)), workers=[worker])
        for half, worker in enumerate(workers)
    ]
    client.gather(futures)
    return (sum(client.run(time.process_time).values()) - begun) / 2


def whole_sweep(client, place, megabytes, runs=200):
    """Wall times of a whole sweep by one thread of one process and by two workers."""
    given = scenario(runs, megabytes)
    options = {"progress": False}
    cpu = time.process_time()
    one = clock(punctual.compare, given, out=f"{place}/one", threads=1, **options)
    cpu = time.process_time() - cpu
    sweep, options["client"] = punctual.dask.sweep, client
    two, cores = measured(client, sweep, given, f"{place}/plan", out=f"{place}/two", **options)
    return {"runs": runs, "one": one, "core": cpu / one, "two": two, "of_one": two / one,
            "cores": cores, "same": is_same(f"{place}/one", f"{place}/two")}


def short_runs(client, place, megabytes, runs=1000):
    """What two cores need for many short runs, and the times of a whole sweep of them."""
    given = scenario(runs, megabytes)
    ideal = halves(client, given, runs, f"{place}/halves")
    ended = []

    def progress(done, total):
        if done == total:
            ended.append(time.monotonic())

    options = {"client": client, "out": f"{place}/merged", "progress": progress}
    begun = time.monotonic()
    two, cores = measured(client, punctual.dask.sweep, given, f"{place}/shards", **options)
    return {"runs": runs, "ms_each": 2000 * ideal / runs, "ideal": ideal, "tasks": ended[0] - begun,
            "two": two, "cores": cores, "of_two_cores": ideal / two}


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
        print("{runs} runs of {ms_each:.1f} ms: two cores need {ideal:.1f} s; a sweep has run them "
              "after {tasks:.1f} s and merged them after {two:.1f} s with {cores:.2f} cores to be had, "
              "{0:.0f} % of what two cores can do"
              .format(100 * short["of_two_cores"], **short))


if __name__ == "__main__":
    main()
