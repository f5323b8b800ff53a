"""Execute notebooks and store their outputs: ``make notebooks``, after a change of one of them.

Figures are stored at a resolution that keeps the files small. Random names of folders, and what
differs from run to run, are not printed by the notebooks themselves.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

_QUIET = "%config InlineBackend.rc = {'figure.dpi': 80}"


def execute(path: Path) -> None:
    """Execute a notebook from the first cell to the last, and store what its cells show."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(_QUIET))
    NotebookClient(notebook, timeout=600, record_timing=False).execute()
    del notebook.cells[0]
    for number, cell in enumerate(cell for cell in notebook.cells if cell.cell_type == "code"):
        cell.execution_count = number + 1
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number + 1
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        execute(Path(name))
