"""The notebooks run from their first cell to their last."""

from pathlib import Path

import pytest

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
