"""Sweeps on Dask clusters: the same bytes, lost workers, no shared directory, other builds."""

import os
import shutil
import threading

import pytest

distributed = pytest.importorskip("distributed")

import punctual  # noqa: E402
import punctual.dask  # noqa: E402
from conftest import assert_same  # noqa: E402


@pytest.fixture
def two_hundred(scenario):
    """200 runs."""
    scenario["run"]["repetitions"] = 25
    scenario["sweep"] = {"traffic": {"senders": [2, 3, 4, 5]}}
    return scenario


def cluster(workers):
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address=None, processes=True
    )


def test_two_workers_and_lost_ones_give_the_bytes_of_one_process(two_hundred):
    punctual.compare(two_hundred, out="one", threads=1, progress=False)
    with cluster(2) as two, distributed.Client(two) as client:
        parts = []
        punctual.dask.sweep(
            two_hundred, "plan", out="two", client=client, on_part=parts.append, progress=False
        )
        assert sorted(part["task"] for part in parts) == list(range(200))
        assert all(os.path.exists(part["directory"]) for part in parts)
    assert_same("one", "two")
    # Four workers; two are killed when a tenth of the runs is done. None takes their places.
    with cluster(4) as four, distributed.Client(four) as client:
        pids = client.run(os.getpid)
        killed = []

        def kill(part):
            if part["task"] >= 0 and not killed and punctual.status("lost")["finished"][19:]:
                for address in list(pids)[:2]:
                    killed.append(pids[address])
                    os.kill(pids[address], 9)

        punctual.dask.sweep(
            two_hundred, "lost", out="four", client=client, on_part=kill, shard_seconds=0.05,
            progress=False,
        )
        assert len(killed) == 2
    assert_same("one", "four")


def test_parts_are_shipped_back_where_nothing_is_shared(scenario):
    punctual.compare(scenario, out="one", progress=False)
    with cluster(1) as one, distributed.Client(one) as client:
        punctual.dask.sweep(scenario, "plan", out="two", client=client, shared=False, progress=False)
        # Again, with everything finished: nothing is sent.
        punctual.dask.sweep(scenario, "plan", out="two", client=client, shared=False, progress=False)
    assert_same("one", "two")


def test_a_worker_of_another_build_is_named(scenario):
    def another():
        import punctual._native

        punctual._native.build_id = "0123456789abcdef"

    with cluster(1) as one, distributed.Client(one) as client:
        client.run(another)
        with pytest.raises(punctual.PunctualError, match="build 0123456789abcdef"):
            punctual.dask.sweep(scenario, "plan", out="two", client=client, progress=False)
        # A worker of the right build completes it.
        client.restart()
        punctual.dask.sweep(scenario, "plan", out="two", client=client, progress=False)


def test_a_lost_scheduler_leaves_what_is_finished(two_hundred):
    punctual.compare(two_hundred, out="one", progress=False)
    first = cluster(1)
    client = distributed.Client(first, timeout="5s")
    seen = []

    def stop(part):
        seen.append(part["task"])
        if len(seen) == 10:
            threading.Thread(target=first.close).start()

    with pytest.raises(BaseException):
        punctual.dask.sweep(
            two_hundred, "plan", out="two", client=client, on_part=stop, shard_seconds=0.02,
            progress=False,
        )
    client.close()
    first.close()
    finished = len(punctual.status("plan")["finished"])
    assert 10 <= finished < 200
    with cluster(1) as second, distributed.Client(second) as client:
        again = []
        punctual.dask.sweep(
            two_hundred, "plan", out="two", client=client, on_part=again.append, progress=False
        )
        assert len(again) == 200 - finished
    assert_same("one", "two")


def test_a_full_disk_is_named_and_the_rest_goes_on(scenario, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None or os.system(
        f"mount -t tmpfs -o size=300k tmpfs {small}"
    ):
        pytest.skip("SKIPPED: a small file system needs root")
    try:
        scenario["run"]["repetitions"] = 20
        punctual.plan(scenario, small / "plan")
        with pytest.raises(punctual.PunctualError, match="disk is full"):
            punctual._native.sweep_run(str(small / "plan"), list(range(40)), 1, None)
        # What is there is whole, and the rest completes elsewhere.
        there = punctual.status(small / "plan")["finished"]
        shutil.copytree(small / "plan", "plan")
        results = punctual.sweep(scenario, "plan", out="out", progress=False)
        assert 0 < len(there) < 40 and len(results) == 40
    finally:
        os.system(f"umount {small}")


def test_capacity_searches_run_in_rounds(scenario):
    change = {"network.rate": "1Gbps", "traffic.deadlines": "700us"}
    question = {"vary": "traffic.senders", "until": "deadlines_met >= 99%", "to": 5}
    punctual.capacity(scenario, out="one", set=change, progress=False, **question)
    with cluster(2) as two, distributed.Client(two) as client:
        punctual.dask.sweep(
            scenario, "plan", out="two", client=client, set=change, progress=False, **question
        )
    assert_same("one", "two")


def test_shards_follow_the_measured_time():
    sweep = object.__new__(punctual.dask.Sweep)
    sweep.shard_seconds, sweep.seconds = 2.0, {}
    sweep.directories = [f"ndp/seed-{i}" for i in range(1000)]
    waiting = list(range(1000))
    assert len(sweep.take(waiting, 2)) == 1  # nothing is measured
    sweep.seconds = {"ndp": (2, 0.04)}
    assert len(sweep.take(waiting, 2)) in (99, 100)  # 2 s of 20 ms, as sums of floats have it
    assert len(sweep.take(list(range(60)), 2)) == 10  # at least three shards for each thread
    sweep.seconds = {"ndp": (1, 30.0)}
    assert len(sweep.take(waiting, 2)) == 1
