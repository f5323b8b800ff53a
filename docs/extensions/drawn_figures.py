"""Figures that the build draws, into ``figures/generated``, before it reads the pages.

A figure ``figures/generated/NAME.svg`` is drawn by the function `draw` of ``figures_src/NAME.py``,
which returns a matplotlib figure; scripts are run in the order of their names, and only if they
are newer than their figure. To add one, write such a file, and show the figure in a page
as ``![What it shows](figures/generated/NAME.svg)``. Keep it cheap (a second or two) and free of
chance: the same bytes each time. All are drawn on white, also for readers of dark pages.
"""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

SOURCES = Path(__file__).parents[1] / "figures_src"
FIGURES = Path(__file__).parents[1] / "figures" / "generated"

_log = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, bool]:
    """Draw figures before pages are read."""
    app.connect("builder-inited", lambda _: draw_all())
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def draw_all() -> None:
    """Draw all figures that are missing or out of date."""
    FIGURES.mkdir(exist_ok=True)
    for source in sorted(SOURCES.glob("[!_]*.py")):
        figure = FIGURES / f"{source.stem}.svg"
        if not figure.exists() or figure.stat().st_mtime < source.stat().st_mtime:
            _log.info("drawing %s", figure.name)
            draw(source, figure)


def draw(source: Path, figure: Path) -> None:
    """Draw one figure, with the style and the metadata that all of them share."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    spec = spec_from_file_location(f"figures_src.{source.stem}", source)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    style = {"svg.hashsalt": source.stem, "svg.fonttype": "path", "font.size": 9}
    with mpl.rc_context({**style, "axes.spines.top": False, "axes.spines.right": False}):
        spec.loader.exec_module(module)
        module.draw().savefig(
            figure, metadata={"Date": None}, facecolor="white", bbox_inches="tight"
        )
    plt.close("all")
