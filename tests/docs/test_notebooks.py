"""The notebooks run, and are stored with what they show."""

from pathlib import Path

import pytest

from docs.notebooks import Notebook, notebooks

NOTEBOOKS = notebooks()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda one: one.path.name)
def test_the_notebook_runs(notebook: Notebook, tmp_path: Path) -> None:
    notebook.run(tmp_path)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda one: one.path.name)
def test_outputs_are_stored_in_order_and_without_errors(notebook: Notebook) -> None:
    counts = [cell["execution_count"] for cell in notebook.code]
    assert counts == [*range(1, len(counts) + 1)], "run make notebooks"
    outputs = [output for cell in notebook.code for output in cell["outputs"]]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert "error" not in {output["output_type"] for output in outputs}
    shown = "".join("".join(output.get("text", [])) for output in outputs)
    assert "/tmp/" not in shown  # nothing of the machine that it was run on
    assert "/home/" not in shown
