"""Datacenter transports that finish on time, in a deterministic simulator.

    import punctual

    results = punctual.compare("scenarios/search.toml")
    flows = results.flows.to_pandas()

A scenario is a path, the text of a TOML file, or a dict with the same keys. A wrong scenario raises
`ScenarioError`, whose message points at the line.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import _native
from ._native import IncompleteError, PunctualError, ScenarioError, __version__, build_id
from ._progress import ProgressLike, progress as _bar
from ._results import Capacity, Explanation, Results, Run
from ._scenario import Execution, Question, ScenarioLike, scenario as _scenario, text as _text

__all__ = [
    "Capacity",
    "Explanation",
    "IncompleteError",
    "PunctualError",
    "Results",
    "Run",
    "ScenarioError",
    "build_id",
    "capacity",
    "check",
    "compare",
    "explain",
    "merge",
    "plan",
    "results",
    "run",
    "status",
    "sweep",
    "__version__",
]

PathLike = Union[str, "os.PathLike[str]"]


def check(
    scenario: ScenarioLike,
    *,
    set: Optional[Mapping[str, Any]] = None,
    folder: Optional[PathLike] = None,
) -> Dict[str, Any]:
    """Checks a scenario: its name, the number of its runs, and the offered load of each point."""
    return dict(json.loads(_native.check(_scenario(scenario, set, folder))))


def run(
    scenario: ScenarioLike,
    *,
    out: Optional[PathLike] = None,
    set: Optional[Mapping[str, Any]] = None,
    level: Optional[str] = None,
    threads: Optional[int] = None,
    fresh: bool = False,
    csv: bool = False,
    folder: Optional[PathLike] = None,
    progress: ProgressLike = None,
) -> Results:
    """Runs every transport of a scenario, at every point of its sweep.

    Finished runs in `out` (default `results/NAME`) with the same settings are reused. `set` changes
    values, as in `set={"traffic.workers": 40}`. `folder` is the directory of files that a text or a
    dict names. Ctrl-C stops the runs; those that are finished are kept.
    """
    return _study(scenario, out, set, level, threads, fresh, csv, folder, progress, False)


def compare(
    scenario: ScenarioLike,
    *,
    out: Optional[PathLike] = None,
    set: Optional[Mapping[str, Any]] = None,
    level: Optional[str] = None,
    threads: Optional[int] = None,
    fresh: bool = False,
    csv: bool = False,
    folder: Optional[PathLike] = None,
    progress: ProgressLike = None,
) -> Results:
    """Runs every transport on the same flows, and draws figures; else as `run`."""
    return _study(scenario, out, set, level, threads, fresh, csv, folder, progress, True)


def _study(
    scenario: ScenarioLike,
    out: Optional[PathLike],
    set: Optional[Mapping[str, Any]],
    level: Optional[str],
    threads: Optional[int],
    fresh: bool,
    csv: bool,
    folder: Optional[PathLike],
    progress: ProgressLike,
    is_comparison: bool,
) -> Results:
    given = _scenario(scenario, set, folder, level)
    execution = Execution(None if out is None else os.fspath(out), threads, fresh, csv)
    done = json.loads(_native.study(given, execution, is_comparison, _bar(progress)))
    return Results(done["directory"])


def results(path: PathLike) -> Results:
    """Opens a directory of results that `run` or `compare` wrote."""
    return Results(path)


def _question(
    vary: Union[str, Sequence[str]],
    until: str,
    from_: Any,
    to: Any,
    step: Any,
    smallest: bool,
    max_repetitions: Optional[int],
) -> Question:
    keys = vary if isinstance(vary, str) else ",".join(vary)
    return Question(keys, until, _text(from_), _text(to), _text(step), smallest, max_repetitions)


def capacity(
    scenario: ScenarioLike,
    vary: Union[str, Sequence[str]],
    until: str,
    *,
    from_: Any = None,
    to: Any = None,
    step: Any = None,
    smallest: bool = False,
    max_repetitions: Optional[int] = None,
    out: Optional[PathLike] = None,
    set: Optional[Mapping[str, Any]] = None,
    level: Optional[str] = None,
    threads: Optional[int] = None,
    fresh: bool = False,
    folder: Optional[PathLike] = None,
    progress: ProgressLike = None,
) -> Capacity:
    """Finds the largest value of `vary` for which the condition `until` holds, by transport.

    punctual.capacity("search.toml", "traffic.workers", "deadlines_met >= 99%")
    """
    question = _question(vary, until, from_, to, step, smallest, max_repetitions)
    given = _scenario(scenario, set, folder, level)
    execution = Execution(None if out is None else os.fspath(out), threads, fresh, False)
    done = json.loads(_native.capacity(given, question, execution, _bar(progress)))
    return Capacity(done["directory"])


def explain(
    run: Union[Run, PathLike],
    flow: Optional[int] = None,
    *,
    worst: Optional[int] = None,
    missed: bool = False,
    sample: Optional[int] = None,
    folder: PathLike = ".",
) -> Explanation:
    """Repeats a run and explains one flow, the worst ones, the late ones, or a sample."""
    path = run.path if isinstance(run, Run) else run
    text = _native.explain(os.fspath(path), flow, worst, missed, sample, os.fspath(folder))
    return Explanation(json.loads(text))


def sweep(
    scenario: ScenarioLike,
    directory: Optional[PathLike] = None,
    *,
    out: Optional[PathLike] = None,
    set: Optional[Mapping[str, Any]] = None,
    level: Optional[str] = None,
    threads: Optional[int] = None,
    csv: bool = False,
    folder: Optional[PathLike] = None,
    progress: ProgressLike = None,
    vary: Optional[Union[str, Sequence[str]]] = None,
    until: Optional[str] = None,
    **question: Any,
) -> Union[Results, Capacity]:
    """Runs a sweep by its numbered plan in `directory` (default `sweeps/NAME`), on this machine, and
    merges it.

    Other machines may run tasks of the same plan at the same time (`punctual sweep run`). With
    `vary` and `until` it is a capacity search in rounds. `punctual.dask.sweep` uses a cluster.
    """
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
    where: str = planned["directory"]
    while True:
        missing = status(where, verify=True)["missing"]
        _native.sweep_run(where, missing, threads or os.cpu_count() or 1, _bar(progress))
        merged = merge(where, out=out, threads=threads)
        if merged is not None:
            return merged


def plan(
    scenario: ScenarioLike,
    directory: Optional[PathLike] = None,
    *,
    set: Optional[Mapping[str, Any]] = None,
    level: Optional[str] = None,
    csv: bool = False,
    folder: Optional[PathLike] = None,
    vary: Optional[Union[str, Sequence[str]]] = None,
    until: Optional[str] = None,
    from_: Any = None,
    to: Any = None,
    step: Any = None,
    smallest: bool = False,
    max_repetitions: Optional[int] = None,
) -> Dict[str, Any]:
    """Writes the numbered plan of a sweep, as `punctual sweep plan` does, into `directory` (default
    `sweeps/NAME`). Returns its directory, the number of its tasks, its name and its build."""
    if (vary is None) != (until is None):
        raise PunctualError("a capacity search needs both `vary` and `until`")
    question = None
    if vary is not None and until is not None:
        question = _question(vary, until, from_, to, step, smallest, max_repetitions)
    given = _scenario(scenario, set, folder, level)
    where = None if directory is None else os.fspath(directory)
    return dict(json.loads(_native.sweep_plan(given, where, csv, question)))


def status(directory: PathLike, *, verify: bool = False) -> Dict[str, Any]:
    """Which tasks of a plan are finished. `verify` compares every file of their parts with its hash,
    so that a damaged or truncated part is not finished."""
    return dict(json.loads(_native.sweep_status(os.fspath(directory), verify)))


def merge(
    directory: PathLike,
    *,
    others: Sequence[PathLike] = (),
    out: Optional[PathLike] = None,
    threads: Optional[int] = None,
) -> Optional[Union[Results, Capacity]]:
    """Checks all parts of a sweep and writes one directory of results.

    Returns None if a capacity search has another round of tasks, which are then in the plan.
    """
    where = None if out is None else os.fspath(out)
    paths: List[str] = [os.fspath(other) for other in others]
    merged = json.loads(_native.sweep_merge(os.fspath(directory), paths, where, threads))
    if "directory" not in merged:
        return None
    path = merged["directory"]
    return Results(path) if os.path.exists(os.path.join(path, "plan.json")) else Capacity(path)
