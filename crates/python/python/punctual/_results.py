"""Results: directories of runs, with their tables as Arrow."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional

import pyarrow
import pyarrow.parquet

from . import _native

if TYPE_CHECKING:
    import pandas

TABLES = ("flows", "ports", "queues", "gauges", "pauses", "network")
"""The tables of a run; a run has only those that it has something for, but always `flows`."""


@dataclass(frozen=True)
class Run:
    """One run: a transport with a seed at a point of the sweep."""

    path: Path
    transport: str
    seed: int
    point: Dict[str, str]

    @property
    def summary(self) -> Dict[str, Any]:
        """Its metrics (docs/results.md)."""
        with open(self.path / "summary.json", encoding="utf-8") as file:
            return dict(json.load(file))

    @property
    def manifest(self) -> Dict[str, Any]:
        """What is needed to repeat it."""
        with open(self.path / "manifest.json", encoding="utf-8") as file:
            return dict(json.load(file))

    def table(self, name: str = "flows") -> pyarrow.Table:
        """One of its tables; empty if the run has nothing for it."""
        if name not in TABLES:
            raise KeyError(f"there is no table {name!r}; tables are {', '.join(TABLES)}")
        path = self.path / f"{name}.parquet"
        return pyarrow.parquet.read_table(path) if path.exists() else pyarrow.table({})

    @property
    def flows(self) -> pyarrow.Table:
        """One row per flow."""
        return self.table("flows")

    def explain(
        self,
        flow: Optional[int] = None,
        *,
        worst: Optional[int] = None,
        missed: bool = False,
        sample: Optional[int] = None,
        folder: str = ".",
    ) -> "Explanation":
        """Repeats the run and explains where the time of flows went."""
        text = _native.explain(str(self.path), flow, worst, missed, sample, str(folder))
        return Explanation(json.loads(text))


class Results:
    """A directory of results.

    Tables over all runs have the columns `transport`, `seed` and one for each axis of the sweep.
    """

    def __init__(self, path: Any) -> None:
        self.path = Path(path)
        if not (self.path / "plan.json").exists():
            raise _native.PunctualError(f"{self.path} has no plan.json; give a directory of results")

    @property
    def plan(self) -> Dict[str, Any]:
        """The planned runs."""
        with open(self.path / "plan.json", encoding="utf-8") as file:
            return dict(json.load(file))

    @property
    def runs(self) -> List[Run]:
        """All runs, by point of the sweep, transport and seed."""
        return [
            Run(self.path / run["directory"], run["transport"], run["seed"], dict(point["values"]))
            for point in self.plan["points"]
            for run in point["runs"]
        ]

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def table(self, name: str = "flows", transport: Optional[str] = None) -> pyarrow.Table:
        """A table of all runs, or of those of one transport."""
        tables = []
        for run in self.runs:
            if transport is not None and run.transport != transport:
                continue
            table = run.table(name)
            if table.num_columns == 0:
                continue
            count = table.num_rows
            columns: Dict[str, Any] = {"seed": pyarrow.array([run.seed] * count, pyarrow.uint64())}
            if "transport" not in table.column_names:
                columns["transport"] = pyarrow.array([run.transport] * count, pyarrow.string())
            for key, label in run.point.items():
                columns[key] = pyarrow.array([number(label)] * count)
            for key, column in columns.items():
                table = table.append_column(key, column)
            tables.append(table.replace_schema_metadata(None))
        return pyarrow.concat_tables(tables, promote_options="permissive") if tables else pyarrow.table({})

    @property
    def flows(self) -> pyarrow.Table:
        """One row per flow of every run."""
        return self.table("flows")

    @property
    def summaries(self) -> pyarrow.Table:
        """One row per run: its point, transport, seed and every metric that is a number."""
        rows = []
        for run in self.runs:
            row: Dict[str, Any] = {key: number(label) for key, label in run.point.items()}
            row.update(transport=run.transport, seed=run.seed)
            for key, value in run.summary.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    row.setdefault(key, value)
            rows.append(row)
        names = list(dict.fromkeys(name for row in rows for name in row))
        return pyarrow.table({name: [row.get(name) for row in rows] for name in names})

    def to_pandas(self) -> "pandas.DataFrame":
        """The summaries as a DataFrame."""
        return self.summaries.to_pandas()

    def report(self) -> str:
        """The report, one HTML page that needs no network."""
        return _native.report(str(self.path))

    def _repr_html_(self) -> str:
        return framed(self.report())

    def __repr__(self) -> str:
        return f"<punctual.Results {str(self.path)!r}: {len(self)} runs>"


class Capacity:
    """The answers of a capacity search."""

    def __init__(self, path: Any) -> None:
        self.path = Path(path)
        with open(self.path / "capacity.json", encoding="utf-8") as file:
            self.data: Dict[str, Any] = json.load(file)

    @property
    def answers(self) -> List[Dict[str, Any]]:
        """One answer per transport and point of the rest of the sweep (docs/capacity.md)."""
        return list(self.data["answers"])

    @property
    def table(self) -> pyarrow.Table:
        """One row per answer: point, transport, outcome, capacity, holds_to, fails_from, runs."""
        names = ("transport", "outcome", "capacity", "holds_to", "fails_from", "runs")
        rows = [
            {**answer["point"], **{name: answer[name] for name in names}} for answer in self.answers
        ]
        keys = list(dict.fromkeys(name for row in rows for name in row))
        return pyarrow.table({key: [row.get(key) for row in rows] for key in keys})

    def to_pandas(self) -> "pandas.DataFrame":
        """The table as a DataFrame."""
        return self.table.to_pandas()

    def __getitem__(self, transport: str) -> Optional[str]:
        """The capacity of a transport; None if the condition never holds."""
        for answer in self.answers:
            if answer["transport"] == transport:
                capacity: Optional[str] = answer["capacity"]
                return capacity
        raise KeyError(transport)

    def report(self) -> str:
        """The report, one HTML page that needs no network."""
        return _native.report(str(self.path))

    def _repr_html_(self) -> str:
        return framed(self.report())

    def __repr__(self) -> str:
        found = ", ".join(f"{a['transport']} {a['capacity']}" for a in self.answers)
        return f"<punctual.Capacity {self.data['vary']} until {self.data['until']}: {found}>"


class Explanation:
    """Where the time of some flows of a run went (docs/explain.md)."""

    def __init__(self, data: Dict[str, Any]) -> None:
        self.data = data

    @property
    def flows(self) -> List[Dict[str, Any]]:
        """One entry per flow, with the parts of its time."""
        return list(self.data["flows"])

    def __len__(self) -> int:
        return len(self.flows)

    def __repr__(self) -> str:
        about = f"{self.data['transport']}, seed {self.data['seed']}"
        return f"<punctual.Explanation {about}: {len(self)} flows>"


def framed(page: str, height: int = 700) -> str:
    """A page as an inline frame, so that its styles and those of the notebook do not mix."""
    data = base64.b64encode(page.encode()).decode()
    return (
        f'<iframe src="data:text/html;charset=utf-8;base64,{data}" width="100%" height="{height}" '
        'style="border:0" sandbox="allow-scripts allow-downloads"></iframe>'
    )


def number(label: str) -> Any:
    """The value of an axis as a number, if it is one."""
    for kind in (int, float):
        try:
            return kind(label)
        except ValueError:
            pass
    return label
