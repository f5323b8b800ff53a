r"""The report as one self-contained HTML file.

Style, script, drawings, volumes and viewer are all part of the page. Three things keep it from
doing anything else, each sufficient by itself:

- every text is escaped by the template engine, also within the data of scripts (as ``\u003c``);
- drawings are cleaned when they are taken in (`ndflow.reporting.svg`);
- the page's own security policy lets a browser run the page's scripts, known by their SHA-256, and
  no others, and lets it load nothing but ``data:`` and ``blob:``.

The viewer's bundle is large and is needed only by those who open it: it is kept compressed, and the
script unpacks it on demand.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from importlib.resources import files
from itertools import count
from typing import TYPE_CHECKING

from ndflow._version import __version__
from ndflow.errors import InvalidValueError
from ndflow.reporting.content import Page, Picture
from ndflow.reporting.svg import inline
from ndflow.reporting.viewer import packed
from ndflow.study.study_doubts import doubt_counts

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["render"]

_SOURCE_MAP = re.compile(r"^\s*//[#@] sourceMappingURL=.*$", re.MULTILINE)


def render(page: Page, *, bundle: str | None = None) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    page : what to say.
    bundle : NiiVue's script, see `ndflow.reporting.viewer.niivue`; without it the page shows slices
        in place of the viewer.
    """
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise InvalidValueError(
            "the report needs jinja2, which is not installed; try pip install 'ndflow[report]'"
        ) from None
    numbers = count(1)

    def drawing(picture: Picture) -> Markup:
        return Markup(inline(picture, f"picture-{next(numbers)}"))

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"shown": _shown, "known": _known, "base64": _base64}
    script = _template("report.js")
    viewer = None
    if bundle is not None and any(scan.views for scan in page.scans):
        # Browsers read any end of line as \n, and the hash is of what they read.
        viewer = _SOURCE_MAP.sub("", bundle.replace("\r\n", "\n").replace("\r", "\n"))
    scans = list(enumerate(page.scans, 1))
    doubts = doubt_counts({str(number): scan.flags for number, scan in scans})
    text = environment.from_string(_template("report.html.jinja")).render(
        page=page,
        scans=scans,
        flagged=[(number, scan) for number, scan in scans if scan.flags],
        doubts=[(count.kind, len(count.scans), count.hint) for count in doubts],
        viewed=[(number, scan) for number, scan in scans if scan.views],
        colours={site.name: site.colour for site in page.sites},
        drawing=drawing,
        style=Markup(_template("report.css")),
        script=Markup(script),
        viewer=viewer and packed(viewer),
        policy=_policy(script, viewer),
        version=__version__,
    )
    # File names that are not Unicode come as lone surrogates, which HTML cannot hold.
    return text.encode("utf-8", "replace").decode("utf-8")


def _template(name: str) -> str:
    return files("ndflow.reporting").joinpath("templates", name).read_text(encoding="utf-8")


def _policy(*scripts: str | None) -> str:
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
        if script is not None
    ]
    return (
        f"default-src 'none'; script-src {' '.join(hashes)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; connect-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _known(cell: str | float | None) -> bool:
    return cell is not None and not (isinstance(cell, float) and math.isnan(cell))


def _shown(cell: str | float | None) -> str:
    """Return a cell as the table shows it."""
    if cell is None or not _known(cell):
        return "–"
    if isinstance(cell, str):
        return cell
    # Three digits are enough to compare scans; counts are given in full.
    text = f"{cell:,.0f}" if 1000 <= abs(cell) < 1e15 else f"{cell:.3g}"
    return text.replace("-", "−")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
