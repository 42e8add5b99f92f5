"""run, compare, capacity, explain, sweep, errors, interruption."""

import inspect
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pyarrow
import pytest

import punctual
from conftest import assert_same, command

TOML = """
name = "tiny"
transports = ["tcp", "ndp"]

[network]
topology = "star"
hosts = 6
rate = "10Gbps"
delay = "1us"

[[traffic]]
pattern = "incast"
senders = 4
sizes = "30KB"
deadlines = "1ms"

[run]
duration = "5ms"
repetitions = 2
"""


def test_tables_are_arrow(scenario):
    results = punctual.compare(scenario, out="out", progress=False)
    assert len(results) == 4 and len(results.runs) == 4
    flows = results.flows
    assert isinstance(flows, pyarrow.Table)
    assert set(flows["transport"].to_pylist()) == {"tcp", "ndp"}
    assert flows.num_rows == 4 * 4
    summaries = results.summaries
    assert summaries.num_rows == 4
    # A column and a metric agree.
    met = flows["met"].to_pylist()
    mean = sum(summaries["deadlines_met"].to_pylist()) / 4
    assert mean == pytest.approx(sum(m is True for m in met) / len(met))
    assert results.table("ports", "ndp").num_rows > 0
    with pytest.raises(KeyError):
        results.table("nonsense")
    frame = results.to_pandas()
    assert list(frame["seed"]) == [1, 2, 1, 2]


def test_polars_and_duckdb_read_the_tables(scenario):
    polars = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    flows = punctual.run(scenario, out="out", progress=False).flows
    assert polars.from_arrow(flows).height == flows.num_rows
    count = duckdb.sql("select count(*) from flows").fetchall()
    assert count == [(flows.num_rows,)]


def test_a_path_a_text_and_a_dict_are_the_same_scenario(scenario, tmp_path):
    (tmp_path / "s.toml").write_text(TOML)
    by_path = punctual.compare("s.toml", out="path", progress=False)
    by_text = punctual.compare(TOML, out="text", progress=False)
    by_dict = punctual.compare(scenario, out="dict", progress=False)
    assert by_path.flows.equals(by_text.flows)
    assert by_path.flows.equals(by_dict.flows)
    # The command writes the same bytes.
    command("compare", "s.toml", "--out", "command", "--quiet")
    assert_same("path", "command")


def test_sweeps_have_a_column_for_each_axis(scenario):
    scenario["sweep"] = {"traffic": {"senders": [2, 4]}}
    results = punctual.run(scenario, out="out", progress=False)
    assert set(results.flows["traffic.senders"].to_pylist()) == {2, 4}
    assert results.summaries["traffic.senders"].to_pylist() == [2, 2, 2, 2, 4, 4, 4, 4]


def test_runs_are_reused_and_progress_is_reported(scenario):
    seen = []
    punctual.run(scenario, out="out", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (4, 4)
    scenario["run"]["repetitions"] = 3
    punctual.run(scenario, out="out", progress=False)
    with pytest.raises(punctual.PunctualError, match="other settings"):
        punctual.run(scenario, out="out", set={"traffic.senders": 2}, progress=False)

    def broken(done, total):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        punctual.run(scenario, out="other", progress=broken)


def test_errors_point_at_the_line_as_those_of_the_command(tmp_path):
    wrong = TOML.replace("senders = 4", "sender = 4")
    (tmp_path / "wrong.toml").write_text(wrong)
    with pytest.raises(punctual.ScenarioError) as raised:
        punctual.run("wrong.toml")
    message = str(raised.value)
    assert "sender = 4" in message and "wrong.toml:13" in message
    told = command("run", "wrong.toml", code=2).stderr
    assert message.strip() == told.strip()
    with pytest.raises(punctual.ScenarioError, match="unknown transport `nds`"):
        punctual.run(TOML, set={"transports": ["nds"]})
    with pytest.raises(punctual.PunctualError, match="cannot read"):
        punctual.run("nowhere.toml")
    with pytest.raises(TypeError, match="object"):
        punctual.run({"name": object()})


def test_capacity_is_that_of_the_command(scenario):
    change = {"network.rate": "1Gbps", "traffic.deadlines": "700us"}
    options = {"to": 5, "set": change, "progress": False}
    found = punctual.capacity(scenario, "traffic.senders", "deadlines_met >= 99%", out="a", **options)
    assert found.table.num_rows == 2
    assert found["tcp"] == found.answers[0]["capacity"]
    swept = punctual.sweep(
        scenario, "plan", out="b", vary="traffic.senders", until="deadlines_met >= 99%", **options
    )
    assert isinstance(swept, punctual.Capacity)
    assert_same("a", "b")


def test_explain_says_where_the_time_went(scenario):
    results = punctual.run(scenario, out="out", progress=False)
    explained = results.runs[0].explain(worst=2)
    assert len(explained) == 2
    again = punctual.explain(results.runs[0], explained.flows[0]["flow"])
    assert again.flows[0]["flow"] == explained.flows[0]["flow"]
    assert (results.runs[0].path / "explain.json").exists()


def test_reports_are_shown_inline(scenario):
    results = punctual.compare(scenario, out="out", progress=False)
    assert results.report() == (results.path / "report.html").read_text()
    assert results._repr_html_().startswith("<iframe src=\"data:text/html")


def test_sweep_merges_to_the_bytes_of_a_comparison(scenario):
    punctual.compare(scenario, out="a", progress=False)
    punctual.sweep(scenario, "plan", out="b", progress=False)
    assert_same("a", "b")
    assert punctual.status("plan")["missing"] == []
    part = next(run for run in punctual.results("b")).path.relative_to("b")
    flows = "plan/parts" / part / "flows.parquet"
    flows.write_bytes(flows.read_bytes()[:100])
    with pytest.raises(punctual.IncompleteError, match="is damaged"):
        punctual.merge("plan", out="c")


def test_check_counts_runs_and_tells_the_load(scenario):
    found = punctual.check(scenario)
    assert found["runs"] == 4 and found["points"][0]["offered_load"]


def test_ctrl_c_stops_and_finished_runs_are_kept():
    with open("many.toml", "w") as file:
        file.write(TOML.replace("senders = 4", "senders = 5").replace("= 2\n", "= 20000\n"))
    script = textwrap.dedent(
        """
        import punctual
        try:
            punctual.run("many.toml", out="out", progress=False)
        except KeyboardInterrupt:
            print("stopped")
        """
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    for _ in range(600):
        time.sleep(0.05)
        if os.path.exists("out/tcp/seed-3"):
            break
    asked = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert out == "stopped\n"
    # Signals are looked at every 50 ms; a busy machine may take a hundred times as long.
    assert time.monotonic() - asked < 5
    assert punctual.results("out").runs[0].flows.num_rows == 5


def test_other_threads_run_beside_the_simulation(scenario):
    scenario["run"]["repetitions"] = 200
    ticks, is_over = [], threading.Event()

    def tick():
        while not is_over.wait(0.001):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    begun = time.monotonic()
    punctual.run(scenario, out="out", threads=1, progress=False)
    ended = time.monotonic()
    is_over.set()
    thread.join()
    # With the GIL held, it would be released at most for one switch at the beginning and the end.
    within = [t for t in ticks if begun + 0.1 * (ended - begun) < t < ended - 0.1 * (ended - begun)]
    assert len(within) >= 10


def test_sweeps_have_a_directory_of_their_own(scenario):
    planned = punctual.plan(scenario)
    assert planned["directory"] == "sweeps/tiny" and planned["tasks"] == 4
    assert punctual.sweep(scenario, out="out", progress=False).path == Path("out")
    assert punctual.status("sweeps/tiny")["missing"] == []
    # A changed scenario needs another directory.
    with pytest.raises(punctual.PunctualError, match="another sweep; choose another directory"):
        punctual.sweep(scenario, set={"traffic.senders": 2}, progress=False)


def test_what_the_package_names_is_there():
    assert [name for name in punctual.__all__ if not hasattr(punctual, name)] == []
    functions = {n for n, f in vars(punctual).items() if inspect.isfunction(f) and n[0] != "_"}
    assert functions <= set(punctual.__all__)


def test_the_command_comes_with_the_package():
    done = subprocess.run([sys.executable, "-m", "punctual", "list", "--json"], capture_output=True)
    assert done.returncode == 0 and b'"ndp"' in done.stdout
    done = subprocess.run([sys.executable, "-m", "punctual", "nonsense"], capture_output=True)
    assert done.returncode == 2 and b"unrecognized subcommand" in done.stderr


def test_types_are_declared():
    root = punctual.__path__[0]
    assert os.path.exists(os.path.join(root, "py.typed"))
    mypy = pytest.importorskip("mypy.api")
    # Dask and IPython declare no types.
    options = ["--strict", "--allow-untyped-calls", "--no-warn-unused-ignores"]
    out, _, code = mypy.run([*options, "--ignore-missing-imports", root])
    assert code == 0, out
