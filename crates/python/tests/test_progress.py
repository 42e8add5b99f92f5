"""Progress: what a terminal, a notebook and a function of the user get."""

import os
import pty
import re
import subprocess
import sys

import pytest

import punctual
from punctual import _progress

LINE = re.compile(r"(\d+) of 4 runs, \d+ s(, \d+ s to go)?")


def check(lines, total=4):
    """A line for each step, up to the whole; none counts backwards."""
    counts = [int(LINE.fullmatch(line)[1]) for line in lines]
    assert counts == sorted(counts) and counts[-1] == total
    assert "to go" not in lines[-1]


def lines_of(text):
    """The line of a terminal is written again from its beginning, and ends with the last run."""
    assert text.startswith("\r") and text.rstrip("\r").endswith("\x1b[K\n")
    return [line.removesuffix("\x1b[K") for line in text.strip("\r\n").split("\r") if line]


def test_progress_is_a_line_that_is_written_again(scenario, capsys):
    punctual.run(scenario, out="out", progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    check(lines_of(shown.err))


def test_progress_of_a_sweep(scenario, capsys):
    punctual.sweep(scenario, "plan", out="out", progress=True)
    check(lines_of(capsys.readouterr().err))


def test_progress_of_a_sweep_on_dask(scenario, capsys):
    distributed = pytest.importorskip("distributed")
    import punctual.dask

    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(processes=False, **options) as one:
        with distributed.Client(one) as client:
            seen = []

            def count(done, total):
                seen.append((done, total))

            punctual.dask.sweep(scenario, "plan", out="a", client=client, progress=count)
            counts = [done for done, _ in seen]
            assert counts == sorted(counts) and seen[-1] == (4, 4)
            capsys.readouterr()
            punctual.dask.sweep(scenario, "again", out="b", client=client, progress=True)
            check(lines_of(capsys.readouterr().err))


def test_progress_counts_what_is_left(scenario):
    """Runs that an earlier call has finished take no time."""
    planned = punctual.plan(scenario, "plan")
    punctual._native.sweep_run(planned["directory"], [0, 2, 3], 1, None)
    seen = []
    punctual.sweep(scenario, "plan", out="out", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (1, 1)


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_where_someone_watches(scenario, terminal):
    """Without `progress`: on a terminal, and not in the log of a batch job."""
    line = [sys.executable, "-c", f"import punctual; punctual.run({scenario!r}, out='out')"]
    if terminal:
        ours, theirs = pty.openpty()
        subprocess.run(line, stderr=theirs, check=True)
        os.close(theirs)
        shown = os.read(ours, 1 << 16).decode().replace("\r\n", "\n")
        os.close(ours)
        check(lines_of(shown))
    else:
        assert subprocess.run(line, capture_output=True, check=True, text=True).stderr == ""


def test_progress_in_a_notebook_is_one_bar(monkeypatch):
    pages = []

    class Handle:
        def update(self, page):
            pages.append(page.data)

    def display(page, display_id):
        assert display_id is True and not pages
        pages.append(page.data)
        return Handle()

    import IPython.display

    monkeypatch.setattr(IPython.display, "display", display)
    monkeypatch.setattr(_progress, "is_notebook", lambda: True)
    bar = _progress.progress(None)
    for done in range(5):
        bar(done, 4)
    shown = [re.fullmatch(r'<progress value="(\d)" max="4"></progress> (.*)', page) for page in pages]
    assert [int(page[1]) for page in shown] == [0, 1, 2, 3, 4]
    check([page[2] for page in shown])


def test_time_to_go_follows_from_the_runs_that_are_done(monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    bar = _progress.Bar()
    now[0] += 6
    bar(0, 4)
    bar(1, 4)
    bar(4, 4)
    assert lines_of(capsys.readouterr().err) == [
        "0 of 4 runs, 6 s", "1 of 4 runs, 6 s, 18 s to go", "4 of 4 runs, 6 s",
    ]
