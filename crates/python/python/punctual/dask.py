"""Sweeps on a Dask cluster.

    import punctual.dask

    results = punctual.dask.sweep("scenarios/incast.toml")

Without a client, workers are started on this machine. Any `distributed.Client` will do: dask-jobqueue
for Slurm, the Kubernetes operator, ssh. See docs/how-to/cluster.md.
"""

from __future__ import annotations

import asyncio
import errno
import io
import json
import logging
import os
import shutil
import tarfile
import tempfile
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import PathLike, PunctualError, _native, merge, plan, status
from ._progress import ProgressLike, progress as _bar
from ._results import Capacity, Results
from ._scenario import ScenarioLike

__all__ = ["sweep"]

SHARD_SECONDS = 2.0
"""How long a shard should take: much longer than the few milliseconds that Dask needs for a task, and
short enough that a lost worker loses little."""

SHARD_SECONDS_MIN = 0.03
"""How long a shard should take at least, at the end of a sweep, when few runs are left to share: ten
times what Dask needs for a task, and as short as one worker may wait for the others."""

WORKERS_SECONDS = 0.25
"""How long what the scheduler said of its workers is believed: to ask takes as long as a task."""

SHARDS_PER_WORKER = 3
"""The least number of shards for each thread of a worker, so that all finish at about one time."""

NO_WORKER_SECONDS = 30.0
"""How long a sweep waits for a worker before it says so."""

TRIES = 5
"""How often a shard is tried, on other workers, before the sweep gives up."""

OWN_MODULES = ("punctual", __name__)
"""What a worker without the package, or with one of another version, cannot import."""


def sweep(
    scenario: ScenarioLike,
    directory: Optional[PathLike] = None,
    *,
    client: Any = None,
    shared: Optional[bool] = None,
    out: Optional[PathLike] = None,
    set: Optional[Mapping[str, Any]] = None,
    level: Optional[str] = None,
    csv: bool = False,
    folder: Optional[PathLike] = None,
    vary: Optional[Union[str, Sequence[str]]] = None,
    until: Optional[str] = None,
    shard_seconds: float = SHARD_SECONDS,
    memory: Optional[int] = None,
    progress: ProgressLike = None,
    on_part: Optional[Callable[[Dict[str, Any]], None]] = None,
    **question: Any,
) -> Union[Results, Capacity]:
    """Runs a sweep on a Dask cluster and merges it: the same bytes as on one machine.

    `directory` (default `sweeps/NAME`) gets the plan and the parts. `shared` says whether workers see
    it under the same path; by default the workers are asked as soon as one is connected. Otherwise
    the plan is sent to workers and parts come back. The sweep waits for workers that a cluster has
    yet to start.

    Small runs are batched into shards of about `shard_seconds`, from the measured time of the first
    runs of each transport and point. A worker with several threads runs no more shards at a time
    than fit into its memory limit: `memory` is what one run needs, in bytes; by default it is
    measured, and a worker runs one shard at a time until then. `on_part` is called with
    `{"task", "directory", "wall_seconds"}` for each finished run, in any order; its directory can be
    read at once.

    If workers are lost their shards run again elsewhere. If the scheduler is restarted under its
    address before the client gives up (its `timeout`), the sweep goes on as soon as a worker
    connects; otherwise it fails, and the same call with a new client continues from the parts that
    are finished. Damaged parts are made again. A worker whose disk is full gets no more shards; the
    sweep fails when all are full, and the same call continues it. With `vary` and `until` it is a
    capacity search.

    Ctrl-C ends the sweep and leaves the cluster of a `client` as it is: workers finish the shards that
    they run and get no more, finished runs are kept, and the same call continues.
    """
    try:
        from distributed import Client  # type: ignore[import-not-found]
    except ModuleNotFoundError as error:
        raise PunctualError(
            "punctual.dask needs the packages dask and distributed: pip install dask distributed"
        ) from error
    planned = plan(
        scenario,
        directory,
        set=set,
        level=level,
        csv=csv,
        folder=folder,
        vary=vary,
        until=until,
        **question,
    )
    where = os.path.abspath(planned["directory"])
    own = None
    if client is None:
        own = local_cluster()
        client = Client(own)
    try:
        while True:
            one = Sweep(client, where, shared, shard_seconds, memory)
            try:
                one.run(_bar(progress), on_part)
            except (Exception, asyncio.CancelledError) as error:
                if client.status in ("running", "connecting"):
                    raise
                raise PunctualError(
                    "the connection to the Dask scheduler is lost\n"
                    "finished runs are kept: call again with a new client to continue"
                ) from error
            shared = one.shared
            merged = merge(where, out=out)
            if merged is not None:
                return merged
    finally:
        if own is not None:
            client.close()
            own.close()


def local_cluster() -> Any:
    """A worker for each core of this machine.

    Ctrl-C reaches the workers too. They leave it to the sweep, which then ends them: a worker that
    ended by itself would be started again while the cluster closes, and the cluster may wait for it.
    """
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=os.cpu_count() or 1,
        threads_per_worker=1,
        dashboard_address=None,
        preload="punctual._worker",
    )


Result = Tuple[List[Dict[str, Any]], Optional[bytes], Optional[int]]
"""What a shard returns: its runs, their files if nothing is shared, and the memory that it needed."""


class DiskFull(Exception):
    """The disk of a worker is full."""

    def __init__(self, worker: str, message: str) -> None:
        super().__init__(worker, message)
        self.worker, self.message = worker, message

    def __str__(self) -> str:
        return self.message


class Flight(NamedTuple):
    """A shard that was submitted, and the only workers that may run it; empty for any."""

    shard: List[int]
    workers: List[str]


class Watch:
    """Gives up shards whose only workers are lost, which the scheduler would hold for ever, and at the
    end all that are left, and the plan: after an error or an interruption, workers need not go on."""

    def __init__(self, sweep: "Sweep", seconds: float = 2.0) -> None:
        self.sweep, self.seconds = sweep, seconds
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_: Any) -> None:
        self.done.set()
        self.thread.join()
        left = [*self.sweep.flight]
        if self.sweep.plan is not None:
            # A traceback, which a notebook keeps, refers to the sweep: the plan would stay at workers.
            left.append(self.sweep.plan)
            self.sweep.plan = None
        if self.sweep.client.status == "running":
            self.sweep.client.cancel(left)

    def watch(self) -> None:
        waited = 0.0
        while not self.done.wait(self.seconds):
            try:
                alive = workers_of(self.sweep.client)
                waited = 0.0 if alive else waited + self.seconds
                if NO_WORKER_SECONDS <= waited < NO_WORKER_SECONDS + self.seconds:
                    say_no_worker()
                lost = [
                    future
                    for future, flight in list(self.sweep.flight.items())
                    if flight.workers and not any(name in alive for name in flight.workers)
                ]
                if lost:
                    self.sweep.client.cancel(lost)
            except Exception:  # The scheduler is not there now: the sweep itself notices if it stays away.
                continue


class Sweep:
    """One round of a sweep: all tasks that are not finished."""

    def __init__(
        self,
        client: Any,
        directory: str,
        shared: Optional[bool],
        shard_seconds: float,
        memory: Optional[int],
    ) -> None:
        self.client = client
        self.directory = directory
        self.shared = shared
        self.shard_seconds = shard_seconds
        self.memory = memory
        state = status(directory, verify=True)
        self.build: str = state["build"]
        self.directories: List[str] = state["directories"]
        self.missing: List[int] = state["missing"]
        self.seconds: Dict[str, Tuple[int, float]] = {}
        # The most memory that a run was measured to need; None before one is finished.
        self.peak: Optional[int] = None
        # Workers whose disks are full, by address, with their messages.
        self.full: Dict[str, str] = {}
        self.flight: Dict[Any, Flight] = {}
        # The plan at the workers, once it was sent there.
        self.plan: Any = None
        # The function of a shard. One for all of them, so that it is pickled once.
        self.work = carried()
        # What the scheduler last said of its workers, and when.
        self.known: Tuple[float, Dict[str, Any]] = (-WORKERS_SECONDS, {})

    def scatter(self) -> Any:
        """Ships the plan once to each worker, not with each shard. Its key is new: Dask may still be
        releasing the plan of an earlier sweep."""
        wait_for_a_worker(self.client)
        return self.client.scatter(pack_plan(self.directory), broadcast=True, hash=False)

    def kind(self, task: int) -> str:
        """Runs of one kind take about the same time: those of a transport at a point."""
        return os.path.dirname(self.directories[task])

    def expected(self, task: int) -> Optional[float]:
        """The measured time of a run of its kind; of any run, if none of its kind is finished."""
        count, total = self.seconds.get(self.kind(task), (0, 0.0))
        if count == 0:
            count = sum(n for n, _ in self.seconds.values())
            total = sum(t for _, t in self.seconds.values())
        return total / count if count else None

    def workers(self) -> Dict[str, Any]:
        """The workers that can take shards: those whose disks are not full."""
        asked, workers = self.known
        if not workers or time.monotonic() - asked >= WORKERS_SECONDS:
            workers = workers_of(self.client)
            self.known = (time.monotonic(), workers)
        return {name: worker for name, worker in workers.items() if name not in self.full}

    def slots(self, worker: Mapping[str, Any]) -> int:
        """How many shards run at a time at a worker: one for each thread whose run fits into memory,
        and one while the memory of a run is not known."""
        threads, limit = int(worker["nthreads"]), int(worker.get("memory_limit") or 0)
        need = self.memory if self.memory else self.peak
        if not limit or need == 0:
            return threads
        return 1 if need is None else min(threads, max(1, limit // need))

    def place(self, workers: Mapping[str, Any]) -> Optional[List[str]]:
        """The only workers that may take the next shard, empty for any; None if all have enough.

        Two shards for each thread: one runs, the next waits at its worker. None waits where memory is
        short, because the worker might run it beside the first.
        """
        if not workers:
            return None if self.flight else []
        slots = {name: self.slots(worker) for name, worker in workers.items()}
        if all(slots[name] == worker["nthreads"] for name, worker in workers.items()):
            if len(self.flight) >= 2 * sum(slots.values()):
                return None
            return list(workers) if self.full else []
        free = {
            name: most * (2 if most == workers[name]["nthreads"] else 1)
            for name, most in slots.items()
        }
        for flight in self.flight.values():
            for name in flight.workers:
                if name in free:
                    free[name] -= 1
        best = max(free, key=lambda name: free[name])
        return [best] if free[best] > 0 else None

    def take(self, waiting: List[int], threads: int) -> List[int]:
        """The next shard: one run while nothing is measured, then as many as fill the time.

        Shards get shorter as less is left, so that all workers finish at about one time.
        """
        most = max(1, -(-len(waiting) // (threads * SHARDS_PER_WORKER)))
        least = min(SHARD_SECONDS_MIN, self.shard_seconds)
        shard: List[int] = []
        total = 0.0
        while waiting and (len(shard) < most or total < least):
            expected = self.expected(waiting[-1])
            if shard and (expected is None or total + expected > self.shard_seconds):
                break
            total += expected or 0.0
            shard.append(waiting.pop())
            if expected is None:
                break
        return shard

    def run(
        self,
        bar: Optional[Callable[[int, int], None]],
        on_part: Optional[Callable[[Dict[str, Any]], None]],
    ) -> None:
        from distributed import as_completed

        # One run of each kind first: their times decide how the others are batched.
        first: Dict[str, int] = {}
        for task in self.missing:
            first.setdefault(self.kind(task), task)
        begin = sorted(first.values())
        chosen = {*begin}
        waiting = [task for task in reversed(self.missing) if task not in chosen] + begin[::-1]
        total, done = len(waiting), 0
        if not total:
            return
        if self.shared is None:
            self.shared = is_shared(self.client, self.directory)
        tries: Dict[int, int] = {}
        queue = as_completed()
        with Watch(self):
            while waiting or self.flight:
                workers = self.workers()
                if not workers and not self.flight and self.full:
                    name, message = next(iter(self.full.items()))
                    raise PunctualError(
                        f"no worker is left whose disk is not full; {name}: {message}\n"
                        "finished runs are kept: make room and call again to continue"
                    )
                threads = max(1, sum(self.slots(worker) for worker in workers.values()))
                while waiting:
                    only = self.place(workers)
                    if only is None:
                        break
                    shard = self.take(waiting, threads)
                    future = self.submit(shard, only)
                    self.flight[future] = Flight(shard, only)
                    queue.add(future)
                future = next(queue)
                shard = self.flight.pop(future).shard
                error = future.exception() if future.status == "error" else None
                if isinstance(error, DiskFull):
                    self.full[error.worker] = str(error)
                    waiting.extend(reversed(shard))
                    continue
                if isinstance(error, ModuleNotFoundError) and error.name in OWN_MODULES:
                    raise PunctualError(
                        "a worker does not have the package punctual: install the same punctual on "
                        "every worker"
                    ) from error
                if future.status != "finished":
                    for task in shard:
                        tries[task] = tries.get(task, 0) + 1
                    if not is_lost(future, error) or max(tries[t] for t in shard) >= TRIES:
                        raise error or PunctualError(
                            f"tasks {shard} were cancelled {TRIES} times\n"
                            "finished runs are kept: call again to continue"
                        )
                    waiting.extend(reversed(shard))
                    continue
                for part in self.collect(future.result()):
                    kind = self.kind(part["task"])
                    count, time = self.seconds.get(kind, (0, 0.0))
                    self.seconds[kind] = (count + 1, time + part["wall_seconds"])
                    done += 1
                    if on_part is not None:
                        on_part(part)
                if bar is not None:
                    bar(done, total)

    def submit(self, shard: List[int], workers: List[str]) -> Any:
        if not self.shared and (self.plan is None or self.plan.status in ("cancelled", "lost")):
            self.plan = self.scatter()
        arguments = (self.build, self.directory, shard, self.plan)
        return self.client.submit(self.work, *arguments, pure=False, workers=workers or None)

    def collect(self, result: Result) -> List[Dict[str, Any]]:
        """Notes the measured memory, and puts parts that were shipped back into the directory."""
        parts, packed, peak = result
        self.peak = max(self.peak or 0, peak or 0)
        if packed is not None:
            unpack_parts(packed, os.path.join(self.directory, "parts"))
        for part in parts:
            part["directory"] = os.path.join(
                self.directory, "parts", self.directories[part["task"]]
            )
        return parts


def is_lost(future: Any, error: Optional[BaseException]) -> bool:
    """Whether a shard failed because of its worker, so that another worker may finish it."""
    if future.status in ("lost", "cancelled"):
        return True
    name = type(error).__name__
    if name in ("KilledWorker", "CommClosedError", "FutureCancelledError", "CancelledError"):
        return True
    return isinstance(error, (OSError, MemoryError))


def carried() -> Callable[..., Result]:
    """`work` as a function that is sent by its code: a worker without the package then says so. Sent
    by its name, as functions of modules are, it would end the worker, which cannot read the message."""

    def shard(*arguments: Any) -> Any:
        from punctual.dask import work

        return work(*arguments)

    return shard


def work(build: str, directory: str, tasks: List[int], packed: Optional[bytes]) -> Result:
    """Runs a shard at a worker: in the shared directory, or in one of its own."""
    if _native.build_id != build:
        raise PunctualError(
            f"this worker has punctual build {_native.build_id}, and the sweep was planned by build "
            f"{build}: install the same punctual on every worker"
        )
    try:
        with PeakMemory() as memory:
            parts, files = run_shard(directory, tasks, packed)
        return parts, files, memory.peak
    except (OSError, PunctualError) as error:
        if getattr(error, "errno", None) != errno.ENOSPC and "disk is full" not in str(error):
            raise
        from distributed import get_worker

        raise DiskFull(get_worker().address, str(error)) from None


def run_shard(
    directory: str, tasks: List[int], packed: Optional[bytes]
) -> Tuple[List[Dict[str, Any]], Optional[bytes]]:
    if packed is None:
        return list(json.loads(_native.sweep_run(directory, tasks, 1, None))), None
    place = tempfile.mkdtemp(prefix="punctual-")
    try:
        unpack(packed, place)
        parts = list(json.loads(_native.sweep_run(place, tasks, 1, None)))
        return parts, pack(place, ["parts"])
    finally:
        shutil.rmtree(place, ignore_errors=True)


class PeakMemory:
    """How much the resident memory of this process grew, at most, while a shard ran alone in it.
    None if another ran beside it, and where Linux does not tell."""

    lock = threading.Lock()
    started = 0
    running = 0

    def __init__(self) -> None:
        self.peak: Optional[int] = None
        self.before: Optional[int] = None

    def __enter__(self) -> "PeakMemory":
        with PeakMemory.lock:
            PeakMemory.started += 1
            PeakMemory.running += 1
            self.number = PeakMemory.started
            if PeakMemory.running == 1:
                try:
                    with open("/proc/self/clear_refs", "w") as file:
                        file.write("5")  # The peak begins anew.
                    self.before = process_memory("VmRSS")
                except OSError:
                    pass
        return self

    def __exit__(self, *_: Any) -> None:
        with PeakMemory.lock:
            PeakMemory.running -= 1
            if self.before is not None and PeakMemory.started == self.number:
                peak = process_memory("VmHWM")
                self.peak = None if peak is None else max(0, peak - self.before)


def process_memory(name: str) -> Optional[int]:
    """A size in bytes from the status of this process."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    return None


def pack(directory: str, names: Sequence[str]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name in names:
            path = os.path.join(directory, name)
            if os.path.exists(path):
                tar.add(path, arcname=name)
    return data.getvalue()


def unpack(packed: bytes, place: str) -> None:
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        # Early versions of Python 3.9 to 3.11 cannot refuse files outside of the place.
        if hasattr(tarfile, "data_filter"):
            tar.extractall(place, filter="data")
        else:
            tar.extractall(place)


def pack_plan(directory: str) -> bytes:
    return pack(directory, ["tasks.json", "inputs"])


def unpack_parts(packed: bytes, parts: str) -> None:
    """Unpacks parts under a temporary name, then renames each."""
    os.makedirs(parts, exist_ok=True)
    place = tempfile.mkdtemp(prefix=".shipped-", dir=os.path.dirname(parts))
    try:
        unpack(packed, place)
        root = os.path.join(place, "parts")
        for here, _, files in os.walk(root):
            if "manifest.json" not in files:
                continue
            to = os.path.join(parts, os.path.relpath(here, root))
            os.makedirs(os.path.dirname(to), exist_ok=True)
            if os.path.exists(to):
                shutil.rmtree(to)
            os.rename(here, to)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def workers_of(client: Any) -> Dict[str, Any]:
    """What the scheduler knows of its workers."""
    try:
        info = client.scheduler_info(n_workers=-1)
    except TypeError:  # Before 2025 it always told of all of them.
        info = client.scheduler_info()
    return dict(info["workers"])


def say_no_worker() -> None:
    message = "no worker is connected to the scheduler; the sweep waits for one"
    logging.getLogger(__name__).warning(message)


def wait_for_a_worker(client: Any) -> None:
    """Waits until a worker is connected: those of a batch system may start hours later."""
    begun, told = time.monotonic(), False
    while not workers_of(client):
        if not told and time.monotonic() - begun >= NO_WORKER_SECONDS:
            told = True
            say_no_worker()
        time.sleep(0.1)


def is_shared(client: Any, directory: str) -> bool:
    """Whether workers see a file of the directory that was written now."""
    wait_for_a_worker(client)
    handle, path = tempfile.mkstemp(prefix=".seen-", dir=directory)
    os.close(handle)
    try:
        seen = client.run(os.path.exists, path)
        return bool(seen) and all(seen.values())
    finally:
        os.remove(path)
