"""Scenarios, options and questions as the native part takes them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, List, Mapping, Optional, Union

from . import _native

ScenarioLike = Union[str, "os.PathLike[str]", Mapping[str, Any]]
"""A path, the text of a TOML file, or a dict with the same keys."""


@dataclass
class Scenario:
    path: Optional[str]
    text: Optional[str]
    name: str
    folder: str
    overrides: List[str] = field(default_factory=list)


@dataclass
class Execution:
    out: Optional[str]
    threads: Optional[int]
    fresh: bool
    csv: bool


@dataclass
class Question:
    vary: str
    until: str
    from_: Optional[str]
    to: Optional[str]
    step: Optional[str]
    smallest: bool
    max_repetitions: Optional[int]


def scenario(
    given: ScenarioLike,
    changes: Optional[Mapping[str, Any]],
    folder: Optional[Union[str, "os.PathLike[str]"]],
    level: Optional[str] = None,
) -> Scenario:
    """The scenario that a user gives: a dict, a path, or a text of more than one line."""
    overrides = [f"{key}={value(v)}" for key, v in (changes or {}).items()]
    if level is not None:
        overrides.append(f"run.level={level}")
    where = os.fspath(folder) if folder is not None else os.getcwd()
    if isinstance(given, Mapping):
        text = _native.to_toml(json.dumps(given, default=plain))
        return Scenario(None, text, "scenario", where, overrides)
    if isinstance(given, str) and "\n" in given:
        return Scenario(None, given, "scenario", where, overrides)
    path = Path(given)
    return Scenario(str(path), None, path.stem, str(path.parent), overrides)


def value(given: Any) -> str:
    """A value of a change, as TOML. Texts need no quotes."""
    if isinstance(given, str):
        return given
    return json.dumps(given, default=plain)


def plain(given: Any) -> Any:
    """A number of numpy, a path or another object as JSON has it."""
    for method in ("tolist", "item"):
        if hasattr(given, method):
            return getattr(given, method)()
    if isinstance(given, os.PathLike):
        return os.fspath(given)
    if isinstance(given, (set, frozenset, range, tuple)):
        return list(given)
    raise TypeError(f"a scenario cannot have a value of type {type(given).__name__}: {given!r}")


def text(given: Any) -> Optional[str]:
    return None if given is None else str(given)
