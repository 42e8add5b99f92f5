"""The notebooks run from their first cell to their last."""

import os
import signal
import textwrap
import threading
import time
from pathlib import Path

import pytest

from conftest import command

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=180, resources=where).execute()
    # Plots are pictures, tables are HTML.
    data = [o.get("data", {}) for c in notebook.cells for o in c.get("outputs", [])]
    assert any("image/png" in d for d in data) and any("text/html" in d for d in data)


def kernel_cells(*cells, interrupt_when=None):
    """Runs cells in a kernel; interrupts the kernel when a file appears. Returns their outputs."""
    made = [nbformat.v4.new_code_cell(cell) for cell in cells]
    notebook = nbformat.v4.new_notebook(cells=made)
    client = nbclient.NotebookClient(notebook, timeout=60, allow_errors=True)
    client.create_kernel_manager()
    with client.setup_kernel(cwd=os.getcwd()):
        if interrupt_when is not None:
            threading.Thread(target=interrupt, args=(client, interrupt_when), daemon=True).start()
        for number, cell in enumerate(made):
            client.execute_cell(cell, number)
    return [output for cell in made for output in cell.outputs]


def errors(outputs):
    return [output for output in outputs if output.output_type == "error"]


def test_progress_and_report_are_shown_in_a_notebook(scenario):
    bar, report = kernel_cells(f"import punctual\npunctual.compare({scenario!r}, out='out')")
    # One bar, which is drawn again.
    assert bar.output_type == "display_data"
    assert '<progress value="4" max="4">' in bar.data["text/html"] and "4 of 4 runs" in bar.data["text/html"]
    assert report.output_type == "execute_result"
    assert report.data["text/html"].startswith('<iframe src="data:text/html')


def interrupt(client, path):
    for _ in range(1000):
        if os.path.exists(path):
            break
        time.sleep(0.03)
    os.kill(client.km.provisioner.pid, signal.SIGINT)


def test_interrupting_a_kernel_stops_the_runs(scenario):
    scenario["run"]["repetitions"] = 100_000
    begun = time.monotonic()
    first = f"import punctual\npunctual.run({scenario!r}, out='out')"
    outputs = kernel_cells(first, "assert punctual.results", interrupt_when="out/tcp/seed-3")
    (error,) = errors(outputs)
    assert error.ename == "KeyboardInterrupt"
    assert time.monotonic() - begun < 60  # 200,000 runs take minutes.


def test_a_wrong_scenario_in_a_kernel_has_the_error_of_the_command(tmp_path):
    wrong = textwrap.dedent(
        """
        name = "wrong"
        transports = ["ndp"]
        [network]
        topology = "star"
        hosts = 4
        rate = "10Gbps"
        delay = "1us"
        [[traffic]]
        pattern = "incast"
        sizes = "30KB"
        dedlines = "1ms"
        """
    )
    (tmp_path / "wrong.toml").write_text(wrong)
    (error,) = errors(kernel_cells("import punctual\npunctual.compare('wrong.toml')"))
    assert error.ename == "ScenarioError" and "wrong.toml:12" in error.evalue
    assert error.evalue.strip() == command("compare", "wrong.toml", code=2).stderr.strip()
