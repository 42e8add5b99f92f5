"""What two Dask workers make of two cores, as `benches/overhead.py` measures it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import BUSY

pytest.importorskip("distributed")

BENCH = Path(__file__).parents[1] / "benches" / "overhead.py"

pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="two workers need two cores"
)


def measured(which):
    line = [sys.executable, BENCH, f"--{which}", "--json"]
    return json.loads(subprocess.run(line, stdout=subprocess.PIPE, check=True).stdout)[which]


IDLE = 1.94
"""Other work that takes 0.06 of the two cores makes a sweep longer by 3 %."""


def skip_as_busy(had):
    pytest.skip(f"{BUSY}: of the cores that are needed, there were {', '.join(had)}")


def test_two_workers_use_two_cores():
    """1,000 runs of 20 ms, with planning, merging, figures and report."""
    turns = []
    # Other work on the machine disturbs a measurement; it can only make the workers look slower.
    for _ in range(3):
        turns.append(measured("short"))
        if turns[-1]["of_two_cores"] >= 0.7:
            return
    idle = [turn for turn in turns if turn["cores"] >= IDLE]
    if not idle:
        skip_as_busy(f"{turn['cores']:.2f} of 2" for turn in turns)
    pytest.fail(f"less than 70 % of what two idle cores can do: {idle}")


def test_two_workers_need_at_most_0_6_of_the_time_of_one_process():
    """A whole sweep of 200 runs of 20 ms, W = 4 s of work, with planning, merging, figures and report.

    Two workers need W/2 + F, where F is what only one process does and what Dask needs. So the ratio
    is at most 0.6 if F is at most 0.1 W, 0.4 s.
    """
    turns = []
    for _ in range(3):
        turn = measured("whole")
        assert turn["same"] and turn["runs"] == 200
        turns.append(turn)
        # Without a core to itself, one process looks slower than it is.
        if turn["core"] >= 0.95 and turn["of_one"] <= 0.6:
            return
    idle = [turn for turn in turns if turn["core"] >= 0.95 and turn["cores"] >= IDLE]
    if not idle:
        skip_as_busy("{core:.2f} of 1 and {cores:.2f} of 2".format(**turn) for turn in turns)
    pytest.fail(f"two workers took more than 0.6 of one process's time on idle cores: {idle}")
