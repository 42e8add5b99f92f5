"""Sweeps on a Dask cluster.

    import punctual.dask

    results = punctual.dask.sweep("scenarios/incast.toml", "sweep")

Without a client, workers are started on this machine. Any `distributed.Client` will do: dask-jobqueue
for Slurm, the Kubernetes operator, ssh. See docs/how-to/cluster.md.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
import tempfile
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import PathLike, PunctualError, _native, merge, plan, status
from ._progress import ProgressLike, progress as _bar
from ._results import Capacity, Results
from ._scenario import ScenarioLike

__all__ = ["sweep"]

SHARD_SECONDS = 2.0
"""How long a shard should take: much longer than the few milliseconds that Dask needs for a task, and
short enough that a lost worker loses little."""

SHARDS_PER_WORKER = 3
"""The least number of shards for each thread of a worker, so that all finish at about one time."""

TRIES = 5
"""How often a shard is tried, on other workers, before the sweep gives up."""


def sweep(
    scenario: ScenarioLike,
    directory: PathLike,
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

    `directory` gets the plan and the parts. `shared` says whether workers see it under the same
    path; by default one worker is asked. Otherwise the plan is sent to workers and parts come back.

    Small runs are batched into shards of about `shard_seconds`, from the measured time of the first
    runs of each transport and point. `memory` is what one run needs, in bytes: no more shards run at
    a time than fit into the memory limits of the workers. `on_part` is called with `{"task", "directory", "wall_seconds"}` for
    each finished run, in any order; its directory can be read at once.

    If workers are lost their shards run again elsewhere, and if the scheduler is lost the same call
    continues from the parts that are finished. With `vary` and `until` it is a capacity search.
    """
    plan(
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
    own = None
    if client is None:
        from distributed import Client, LocalCluster  # type: ignore[import-not-found]

        cores = os.cpu_count() or 1
        own = LocalCluster(n_workers=cores, threads_per_worker=1, dashboard_address=None)
        client = Client(own)
    try:
        if shared is None:
            shared = is_shared(client, os.path.abspath(directory))
        while True:
            Sweep(client, os.path.abspath(directory), shared, shard_seconds, memory).run(
                _bar(progress), on_part
            )
            merged = merge(directory, out=out)
            if merged is not None:
                return merged
    finally:
        if own is not None:
            client.close()
            own.close()


class Sweep:
    """One round of a sweep: all tasks that are not finished."""

    def __init__(
        self, client: Any, directory: str, shared: bool, shard_seconds: float, memory: Optional[int]
    ) -> None:
        self.client = client
        self.directory = directory
        self.shared = shared
        self.shard_seconds = shard_seconds
        self.memory = memory
        state = status(directory)
        self.build: str = state["build"]
        self.directories: List[str] = state["directories"]
        self.missing: List[int] = state["missing"]
        self.seconds: Dict[str, Tuple[int, float]] = {}
        # Shipped once to each worker, not with each shard.
        self.plan: Any = None if shared else client.scatter(pack_plan(directory), broadcast=True)

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

    def threads(self) -> int:
        """How many shards run at a time: one for each thread whose run fits into memory."""
        workers = workers_of(self.client).values()
        total = 0
        for worker in workers:
            threads, limit = worker["nthreads"], worker.get("memory_limit") or 0
            if self.memory and limit:
                threads = min(threads, max(1, limit // self.memory))
            total += threads
        return max(1, total)

    def take(self, waiting: List[int], threads: int) -> List[int]:
        """The next shard: one run while nothing is measured, then as many as fill the time."""
        most = max(1, -(-len(waiting) // (threads * SHARDS_PER_WORKER)))
        shard: List[int] = []
        total = 0.0
        while waiting and len(shard) < most:
            time = self.expected(waiting[-1])
            if shard and (time is None or total + time > self.shard_seconds):
                break
            total += time or 0.0
            shard.append(waiting.pop())
            if time is None:
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
        flight: Dict[Any, List[int]] = {}
        tries: Dict[int, int] = {}
        queue = as_completed()
        try:
            while waiting or flight:
                threads = self.threads()
                # Two shards for each thread: one runs, the next waits at its worker. None waits if
                # memory is short, because the scheduler might run it beside the first.
                while waiting and len(flight) < (1 if self.memory else 2) * threads:
                    shard = self.take(waiting, threads)
                    future = self.submit(shard)
                    flight[future] = shard
                    queue.add(future)
                future = next(queue)
                shard = flight.pop(future)
                error = future.exception() if future.status == "error" else None
                if future.status != "finished":
                    for task in shard:
                        tries[task] = tries.get(task, 0) + 1
                    if not is_lost(future, error) or max(tries[t] for t in shard) >= TRIES:
                        raise error or PunctualError(f"tasks {shard} were cancelled")
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
        finally:
            # After an error or an interruption, workers need not go on.
            self.client.cancel(list(flight))

    def submit(self, shard: List[int]) -> Any:
        arguments = (self.build, self.directory, shard, self.plan)
        return self.client.submit(work, *arguments, pure=False)

    def collect(self, result: Tuple[List[Dict[str, Any]], Optional[bytes]]) -> List[Dict[str, Any]]:
        """Puts parts that were shipped back into the directory."""
        parts, packed = result
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
    # A full disk is one worker's: the others have disks of their own, or say so as well.
    return isinstance(error, (OSError, MemoryError)) or "disk is full" in str(error)


def work(
    build: str, directory: str, tasks: List[int], packed: Optional[bytes]
) -> Tuple[List[Dict[str, Any]], Optional[bytes]]:
    """Runs a shard at a worker: in the shared directory, or in one of its own."""
    if _native.build_id != build:
        raise PunctualError(
            f"this worker has punctual build {_native.build_id}, and the sweep was planned by build "
            f"{build}: install the same punctual on every worker"
        )
    if packed is None:
        return list(json.loads(_native.sweep_run(directory, tasks, 1, None))), None
    place = tempfile.mkdtemp(prefix="punctual-")
    try:
        unpack(packed, place)
        parts = list(json.loads(_native.sweep_run(place, tasks, 1, None)))
        return parts, pack(place, ["parts"])
    finally:
        shutil.rmtree(place, ignore_errors=True)


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


def is_shared(client: Any, directory: str) -> bool:
    """Whether workers see a file of the directory that was written now."""
    handle, path = tempfile.mkstemp(prefix=".seen-", dir=directory)
    os.close(handle)
    try:
        for _ in range(100):
            if workers_of(client):
                break
            time.sleep(0.1)
        seen = client.run(os.path.exists, path)
        return bool(seen) and all(seen.values())
    finally:
        os.remove(path)
