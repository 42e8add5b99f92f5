"""How much of two cores 1,000 short runs use on two Dask workers.

    PYTHONPATH=target/python target/python-tests/bin/python crates/python/benches/overhead.py

Runs 1,000 runs in one process, then on two workers, and prints the share of what two cores could do:
time of one process / (2 x time of two workers). Planning and starting workers are not counted;
merging is, and shown apart.
"""

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
    "traffic": [{"pattern": "permutation", "sizes": "250KB"}],
    "run": {"duration": "20ms", "repetitions": int(sys.argv[1]) if len(sys.argv) > 1 else 500},
}


def clock(what):
    begun = time.monotonic()
    what()
    return time.monotonic() - begun


def main():
    place = tempfile.mkdtemp(prefix="punctual-overhead-")
    runs = punctual.plan(SCENARIO, f"{place}/one")["tasks"]
    tasks = list(range(runs))
    one = clock(lambda: punctual._native.sweep_run(f"{place}/one", tasks, 1, None))
    print(f"one process: {runs} runs in {one:.1f} s, {1000 * one / runs:.1f} ms each")
    # Two workers must not find the parts of the first.
    punctual.plan(SCENARIO, f"{place}/two")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster, distributed.Client(cluster) as client:
        sweep = punctual.dask.Sweep(client, f"{place}/two", True, punctual.dask.SHARD_SECONDS, None)
        two = clock(lambda: sweep.run(None, None))
    merged = clock(lambda: punctual.merge(f"{place}/two", out=f"{place}/out"))
    print(f"two workers: {two:.1f} s, {100 * one / (2 * two):.0f} % of two cores; {two / one:.2f} of one")
    print(f"merge: {merged:.1f} s")


if __name__ == "__main__":
    main()
