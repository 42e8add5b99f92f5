"""Skipped tests are counted, and fail where skips are failures."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import BUSY, NO_HQ

TESTS = f"""
import pytest

@pytest.mark.skipif(True, reason="Slurm is missing")
def test_slurm(): pass

def test_yaml():
    pytest.importorskip("no_such_package")

@pytest.mark.skipif(True, reason={NO_HQ!r})
def test_hq(): pass

def test_time():
    pytest.skip({BUSY!r} + ": of two cores there was one")
"""

NOTEBOOKS = "import pytest\npytest.importorskip('no_such_notebook')\n"


@pytest.mark.parametrize("beside", [[], ["-p", "xdist", "-n", "2"]])
@pytest.mark.parametrize("strict", ["0", "1"])
def test_skips_are_counted_and_fail_where_they_are_failures(tmp_path, beside, strict):
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_here.py").write_text(TESTS)
    (tmp_path / "test_file.py").write_text(NOTEBOOKS)
    options = ["-q", "--continue-on-collection-errors", "-p", "no:cacheprovider", *beside]
    line = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    done = subprocess.run(
        line, env={**os.environ, "PUNCTUAL_NO_SKIPS": strict}, capture_output=True, text=True
    )
    # What `cargo xtask test python` counts.
    told = [text.split("SKIPPED: ")[1] for text in done.stdout.splitlines() if "SKIPPED: " in text]
    named = {"test_slurm", "test_yaml", "test_hq", "test_time", "test_file"}
    if strict == "1":
        named = {"test_hq", "test_time"}
        assert done.returncode != 0
        assert "skipped, which PUNCTUAL_NO_SKIPS forbids: Slurm is missing" in done.stdout
        assert "forbids: could not import 'no_such_package'" in done.stdout
        assert "forbids: could not import 'no_such_notebook'" in done.stdout
    else:
        # 5: no test was left.
        assert done.returncode in (0, 5)
    assert len(told) == len(named), done.stdout
    assert all(any(name in text for text in told) for name in named), done.stdout
