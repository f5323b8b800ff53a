"""Figures that the build draws, by the scripts of ``experiments`` that need neither scans nor time.

Pages show ``figures/NAME.svg``, which is stored for readers of the repository. On the site, they
show the same figure as the build has just drawn it, ``figures/generated/NAME.svg``. To add one,
name its script in `SCRIPTS`, and give the script a dictionary `DRAWN` of functions that return the
bytes of figures, by their file names. Keep them cheap (a second or two), and free of chance.

The other figures need real scans, minutes or a browser: they are only stored, and drawn by
``experiments/draw_readme.py`` and ``draw_tutorial.py``.
"""

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "figures" / "generated"
SCRIPTS = ("draw_concepts",)

_IMAGE = re.compile(r"(!\[[^]]*\]\([./]*figures/)([\w-]+\.svg)\)")


def setup(app: Sphinx) -> dict[str, bool]:
    """Draw figures before pages are read, and show them."""
    app.connect("builder-inited", _draw_all)
    app.connect("source-read", _show_drawn)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def drawn() -> dict[str, Callable[[], bytes]]:
    """Return how figures are drawn, by their names."""
    folder = str(ROOT / "experiments")
    if folder not in sys.path:
        sys.path.append(folder)
    return {name: draw for script in SCRIPTS for name, draw in import_module(script).DRAWN.items()}


def _draw_all(app: Sphinx) -> None:
    FIGURES.mkdir(exist_ok=True)
    for name, draw in drawn().items():
        content = draw()
        if not (FIGURES / name).exists() or (FIGURES / name).read_bytes() != content:
            (FIGURES / name).write_bytes(content)


def _show_drawn(app: Sphinx, page: str, source: list[str]) -> None:
    names = drawn()

    def shown(image: re.Match[str]) -> str:
        return f"{image[1]}generated/{image[2]})" if image[2] in names else image[0]

    source[0] = _IMAGE.sub(shown, source[0])
