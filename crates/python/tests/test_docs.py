"""The examples in Python of the documentation, as a user would follow them: in order, in one directory."""

import os
import re
from pathlib import Path

import pytest

from conftest import program

ROOT = Path(__file__).parents[3]

SHORTER = {
    "search": {'duration = "200ms"': 'duration = "20ms"', 'stop = "100ms"': 'stop = "10ms"',
               "repetitions = 5": "repetitions = 2"},
    "incast": {"[8, 32, 100]": "[8, 32]"},
}
"""What makes the scenarios short enough for a test."""


@pytest.fixture
def scenarios(tmp_path, monkeypatch):
    """The scenarios and the command `punctual`, where the examples expect them."""
    here = tmp_path / "home" / "user"
    (here / "scenarios").mkdir(parents=True)
    monkeypatch.chdir(here)
    for name, changes in SHORTER.items():
        text = (ROOT / "scenarios" / f"{name}.toml").read_text()
        for given, shorter in changes.items():
            assert given in text
            text = text.replace(given, shorter)
        (here / "scenarios" / f"{name}.toml").write_text(text)
    script = tmp_path / "bin" / "punctual"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\nexec {} "$@"\n'.format(" ".join(f"'{word}'" for word in program())))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")


def fences(page, language):
    text = (ROOT / "docs" / "how-to" / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def test_the_page_on_python(scenarios):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pandas")
    names = {"__name__": "__main__"}
    examples = fences("python.md", "python")
    assert len(examples) == 5
    for example in examples:
        exec(example, names)
    # The last example reads the summaries that the command prints.
    assert names["summary"]["transport"] in ("tcp", "dctcp", "d2tcp", "d3", "pdq", "ndp")
    (query,) = fences("python.md", "sql")
    rows = duckdb.sql(query).fetchall()
    assert len(rows) == 6 and all(0 <= met <= 1 for _, met, _ in rows)


def test_the_page_on_clusters(scenarios):
    """The first example; those on Slurm and Kubernetes need them (test_engines.py has the first)."""
    pytest.importorskip("distributed")
    names = {}
    exec(fences("cluster.md", "python")[0], names)
    assert len(names["results"]) == 24 and Path("sweeps/incast/tasks.json").exists()
