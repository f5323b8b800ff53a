"""The notebooks of the documentation, run cell by cell in this process.

That is faster than a kernel, and warnings are errors. ``make notebooks`` runs them in a kernel, and
stores what the cells show.
"""

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from docs.blocks import ROOT
from docs.run_blocks import captured


@dataclass(frozen=True)
class Notebook:
    """A notebook: where it is, and its cells."""

    path: Path

    @property
    def cells(self) -> list[dict[str, Any]]:
        cells: list[dict[str, Any]] = json.loads(self.path.read_text(encoding="utf-8"))["cells"]
        return cells

    @property
    def code(self) -> list[dict[str, Any]]:
        return [cell for cell in self.cells if cell["cell_type"] == "code"]

    def run(self, folder: Path) -> None:
        """Run all code cells in a folder; magics and lines for the shell are refused."""
        names: dict[str, Any] = {"__name__": self.path.stem}
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("MPLBACKEND", "agg")
            patch.setattr(tempfile, "tempdir", str(folder))
            for number, cell in enumerate(self.code):
                where = f"{self.path.name}, code cell {number + 1}"
                with captured():
                    exec(compile("".join(cell["source"]), where, "exec"), names)
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")


def notebooks() -> list[Notebook]:
    """Return all notebooks."""
    return [Notebook(path) for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))]
