"""Sweeps on Dask clusters: the same bytes, lost workers, no shared directory, other builds."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

distributed = pytest.importorskip("distributed")

import punctual  # noqa: E402
import punctual.dask  # noqa: E402
from conftest import assert_same  # noqa: E402


def cluster(workers):
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address=None, processes=True
    )


def test_two_workers_and_lost_ones_give_the_bytes_of_one_process(two_hundred, one_process):
    with cluster(2) as two, distributed.Client(two) as client:
        parts = []
        punctual.dask.sweep(
            two_hundred, "plan", out="two", client=client, on_part=parts.append, progress=False
        )
        assert sorted(part["task"] for part in parts) == list(range(200))
        assert all(os.path.exists(part["directory"]) for part in parts)
    assert_same(one_process, "two")
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
    assert_same(one_process, "four")


@pytest.mark.parametrize("shared", [None, False])
def test_a_sweep_waits_for_workers_that_start_later(scenario, shared, monkeypatch, caplog):
    """As those that a batch system starts."""
    monkeypatch.setattr(punctual.dask, "NO_WORKER_SECONDS", 0.5)
    punctual.compare(scenario, out="one", progress=False)
    with cluster(0) as later, distributed.Client(later) as client:
        threading.Timer(2, later.scale, [1]).start()
        punctual.dask.sweep(scenario, client=client, shared=shared, out="two", progress=False)
    assert "the sweep waits for one" in caplog.text
    assert_same("one", "two")
    assert punctual.status("sweeps/tiny")["missing"] == []


def test_ctrl_c_stops_a_sweep_and_keeps_what_is_finished(scenario):
    scenario["run"]["repetitions"] = 20_000
    script = f"""
import punctual.dask

if __name__ == "__main__":
    try:
        punctual.dask.sweep({scenario!r}, "plan", shard_seconds=0.1, progress=False)
    except KeyboardInterrupt:
        print("stopped")
"""
    with open("many.py", "w") as file:
        file.write(script)
    # A group of its own, as a shell makes one: Ctrl-C reaches the workers too.
    child = subprocess.Popen(
        [sys.executable, "many.py"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True,
    )
    try:
        for _ in range(1200):
            if os.path.exists("plan/parts/tcp/seed-9/manifest.json"):
                break
            time.sleep(0.05)
        os.killpg(child.pid, signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    assert out == "stopped\n"
    finished = punctual.status("plan")["finished"]
    assert 1 <= len(finished) < 40_000
    assert punctual.status("plan", verify=True)["finished"] == finished


@pytest.mark.parametrize("shared", [None, False])
def test_ctrl_c_leaves_the_cluster_of_the_user_alive(two_hundred, one_process, shared):
    """Processes of their own, as those of a batch system: Ctrl-C does not reach them."""

    def slow(dask_worker):
        """Makes shards take long enough to be interrupted, and counts those that run."""
        import time

        from punctual import dask

        native, dask.now = dask.run_shard, 0

        def run_shard(*arguments):
            dask.now += 1
            try:
                time.sleep(0.3)
                return native(*arguments)
            finally:
                dask.now -= 1

        dask.run_shard = run_shard

    def running(dask_worker):
        from punctual import dask

        return dask.now

    def known(dask_scheduler):
        return list(dask_scheduler.tasks)

    with Processes() as processes:
        processes.scheduler()
        processes.worker()
        processes.worker()
        with distributed.Client(processes.address, timeout="30s") as client:
            client.wait_for_workers(2)
            client.run(slow)
            workers = client.run(os.getpid)
            seen = []

            def interrupt(part):
                seen.append(part["task"])
                if len(seen) == 20:
                    main = threading.main_thread().ident
                    threading.Timer(0.1, signal.pthread_kill, [main, signal.SIGINT]).start()

            options = {"client": client, "shared": shared, "shard_seconds": 0.02, "progress": False}
            with pytest.raises(KeyboardInterrupt) as interrupted:
                punctual.dask.sweep(two_hundred, "plan", out="two", on_part=interrupt, **options)
            # The cluster has nothing left to do, though a notebook keeps the traceback.
            assert interrupted.tb is not None
            begun = time.monotonic()
            while client.run_on_scheduler(known) or sum(client.run(running).values()):
                assert time.monotonic() - begun < 30, client.run_on_scheduler(known)
                time.sleep(0.1)
            # It is as it was, and works.
            assert client.run(os.getpid) == workers
            assert all(process.poll() is None for process in processes.running)
            assert client.submit(sum, [1, 2]).result() == 3
            # What is finished is whole, and the same call makes the rest.
            state = punctual.status("plan")
            assert set(seen) <= set(state["finished"]) and 20 <= len(seen) < 200
            assert punctual.status("plan", verify=True)["finished"] == state["finished"]
            again = []
            punctual.dask.sweep(
                two_hundred, "plan", out="two", on_part=lambda part: again.append(part["task"]),
                **options,
            )
            assert sorted(again) == state["missing"]
    assert_same(one_process, "two")


def test_workers_leave_ctrl_c_to_the_sweep():
    with punctual.dask.local_cluster() as own, distributed.Client(own) as client:
        workers = client.run(os.getpid)
        for pid in workers.values():
            os.kill(pid, signal.SIGINT)
        # One that ended would be started again as another process.
        time.sleep(1)
        assert client.run(os.getpid) == workers


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
    punctual.compare(scenario, out="one", progress=False)
    assert_same("one", "two")


def test_without_dask_the_message_says_what_to_install(scenario, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(punctual.PunctualError, match="pip install dask distributed"):
        punctual.dask.sweep(scenario, "plan", progress=False)
    assert not os.path.exists("plan")


class Processes:
    """A scheduler and workers as processes of their own, which can be killed."""

    def __init__(self):
        with socket.socket() as any_port:
            any_port.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{any_port.getsockname()[1]}"
        self.running = []

    def start(self, program, *args, **environment):
        line = [sys.executable, "-m", f"distributed.cli.dask_{program}", *args, "--no-dashboard"]
        env = {**os.environ, **environment}
        self.running.append(subprocess.Popen(line, stderr=subprocess.DEVNULL, env=env))
        return self.running[-1]

    def scheduler(self):
        host, port = self.address[len("tcp://") :].split(":")
        return self.start("scheduler", "--host", host, "--port", port)

    def worker(self, **environment):
        return self.start("worker", self.address, "--nthreads", "1", "--no-nanny", **environment)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running:
            process.kill()
            process.wait()


@pytest.mark.skipif("PYTHONPATH" not in os.environ, reason="the package is installed")
def test_a_worker_without_the_package_is_named(scenario):
    with Processes() as processes:
        processes.scheduler()
        processes.worker(PYTHONPATH="")
        with distributed.Client(processes.address, timeout="30s") as client:
            with pytest.raises(punctual.PunctualError, match="install the same punctual on every"):
                punctual.dask.sweep(scenario, "plan", client=client, progress=False)


@pytest.mark.parametrize("shared", [True, False])
def test_a_restarted_scheduler_goes_on(two_hundred, one_process, shared):
    with Processes() as processes:
        scheduler = processes.scheduler()
        processes.worker()
        client = distributed.Client(processes.address, timeout="30s")
        client.wait_for_workers(1)
        seen = []

        def restart(part):
            seen.append(part["task"])
            if len(seen) == 10:
                scheduler.kill()
                scheduler.wait()
                processes.scheduler()
                processes.worker()  # Dask's workers end with their scheduler.

        punctual.dask.sweep(
            two_hundred, "plan", out="two", client=client, shared=shared, on_part=restart,
            shard_seconds=0.02, progress=False,
        )
        # No run is reported twice, and none is lost.
        assert sorted(seen) == list(range(200))
        client.close()
    assert_same(one_process, "two")


def test_a_lost_scheduler_leaves_what_is_finished(two_hundred, one_process):
    with Processes() as processes:
        scheduler = processes.scheduler()
        processes.worker()
        client = distributed.Client(processes.address, timeout="30s")
        client.wait_for_workers(1)
        client._timeout = 2  # How long it looks for the scheduler again.
        seen = []

        def stop(part):
            seen.append(part["task"])
            if len(seen) == 10:
                scheduler.kill()

        with pytest.raises(punctual.PunctualError, match="call again with a new client"):
            punctual.dask.sweep(
                two_hundred, "plan", out="two", client=client, on_part=stop, shard_seconds=0.02,
                progress=False,
            )
        client.close()
    finished = len(punctual.status("plan")["finished"])
    assert 10 <= finished < 200
    with cluster(1) as second, distributed.Client(second) as client:
        again = []
        punctual.dask.sweep(
            two_hundred, "plan", out="two", client=client, on_part=again.append, progress=False
        )
        assert len(again) == 200 - finished
    assert_same(one_process, "two")


def test_a_full_disk_is_named_and_the_rest_goes_on(scenario, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None or os.system(
        f"mount -t tmpfs -o size=300k tmpfs {small}"
    ):
        pytest.skip("a small file system needs root")
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


def test_a_worker_with_a_full_disk_gets_no_more_shards(two_hundred, one_process, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None or os.system(
        f"mount -t tmpfs -o size=100k tmpfs {small}"
    ):
        pytest.skip("a small file system needs root")

    def use(place):
        import tempfile

        tempfile.tempdir = place

    try:
        with cluster(2) as two, distributed.Client(two) as client:
            full = list(client.run(os.getpid))[0]
            client.run(use, str(small), workers=[full])
            parts = []
            punctual.dask.sweep(
                two_hundred, "plan", out="two", client=client, shared=False, progress=False,
                on_part=parts.append, shard_seconds=0.5,
            )
            assert sorted(part["task"] for part in parts) == list(range(200))
            assert_same(one_process, "two")
            # Where all disks are full, the sweep says so, keeps what is there, and continues later.
            client.run(use, str(small))
            with pytest.raises(punctual.PunctualError, match="no worker is left whose disk is not full"):
                punctual.dask.sweep(
                    two_hundred, "again", out="three", client=client, shared=False, progress=False,
                    shard_seconds=0.5,
                )
            client.run(use, None)
            punctual.dask.sweep(
                two_hundred, "again", out="three", client=client, shared=False, progress=False
            )
        assert_same(one_process, "three")
    finally:
        os.system(f"umount {small}")


def test_a_truncated_part_is_made_again(scenario):
    punctual.compare(scenario, out="one", progress=False)
    with cluster(1) as one, distributed.Client(one) as client:
        punctual.dask.sweep(scenario, "plan", out="two", client=client, progress=False)
        part = "plan/parts/ndp/seed-1/flows.parquet"
        os.truncate(part, os.path.getsize(part) // 2)
        shutil.rmtree("two")
        with pytest.raises(punctual.IncompleteError, match="ndp/seed-1"):
            punctual.merge("plan", out="two")
        again = []
        punctual.dask.sweep(
            scenario, "plan", out="two", client=client, on_part=again.append, progress=False
        )
        assert len(again) == 1
    assert_same("one", "two")


def test_runs_beside_each_other_fit_into_the_memory_of_their_worker(scenario):
    def beside(dask_worker):
        """Counts how many shards this worker runs at a time."""
        import threading

        from punctual import dask

        native, lock = dask.run_shard, threading.Lock()
        dask.now, dask.most = 0, 0

        def run_shard(*arguments):
            import time

            with lock:
                dask.now += 1
                dask.most = max(dask.most, dask.now)
            try:
                time.sleep(0.05)  # Long enough to meet others.
                return native(*arguments)
            finally:
                with lock:
                    dask.now -= 1

        dask.run_shard = run_shard

    def most(dask_worker):
        from punctual import dask

        return dask.most

    scenario["run"]["repetitions"] = 10
    gigabyte = 10**9
    options = {"n_workers": 1, "threads_per_worker": 4, "dashboard_address": None}
    with distributed.LocalCluster(memory_limit=4 * gigabyte, **options) as one:
        with distributed.Client(one) as client:
            for memory, fit in [(4 * gigabyte, 1), (2 * gigabyte, 2)]:
                client.run(beside)
                punctual.dask.sweep(
                    scenario, f"plan-{fit}", out=f"out-{fit}", client=client, memory=memory,
                    shard_seconds=0.001, progress=False,
                )
                assert list(client.run(most).values()) == [fit]
                client.restart()
            # Measured: a run of this scenario needs a few megabytes, so that all threads are used.
            client.run(beside)
            punctual.dask.sweep(
                scenario, "plan", out="out", client=client, shard_seconds=0.001, progress=False
            )
            assert list(client.run(most).values()) == [4]


def test_memory_of_a_shard_is_measured():
    with punctual.dask.PeakMemory() as memory:
        block = bytearray(64 << 20)
        block[::4096] = b"x" * len(block[::4096])
        del block
    assert memory.peak is not None and 60 << 20 <= memory.peak < 100 << 20
    with punctual.dask.PeakMemory() as outer:
        with punctual.dask.PeakMemory() as inner:
            pass
    assert outer.peak is None and inner.peak is None


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
    assert len(sweep.take(list(range(6)), 2)) == 2  # but none shorter than 30 ms
    sweep.seconds = {"ndp": (1, 30.0)}
    assert len(sweep.take(waiting, 2)) == 1
