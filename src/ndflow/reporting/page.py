r"""The report as one HTML file.

Style, scripts, drawings, volumes and viewer are all part of the page; only slices may lie beside
it, as pictures. Three things keep it from doing anything else, each sufficient by itself:

- every text is escaped by the template engine, also within the data of scripts (as ``\u003c``);
- drawings are cleaned when they are taken in (`ndflow.reporting.svg`);
- the page's own security policy lets a browser run the page's scripts, known by their SHA-256, and
  no others, and lets it load nothing but ``data:``, ``blob:``, and pictures from where the page is.

What is drawn on demand, the curves of each scan, is data that the scripts read
(`ndflow.reporting.page_data`). The viewer's bundle is large and is needed only by those who open
it: it is kept compressed, and unpacked on demand.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from itertools import count
from typing import TYPE_CHECKING

from ndflow._version import __version__
from ndflow.errors import InvalidValueError
from ndflow.reporting.content import Page, Picture, SiteEntry
from ndflow.reporting.page_data import (
    column_digits,
    known,
    page_data,
    picture_address,
    picture_size,
    shown,
)
from ndflow.reporting.svg import inline
from ndflow.reporting.viewer import packed
from ndflow.study.checks.study_doubts import doubt_counts

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["render"]

_SOURCE_MAP = re.compile(r"^\s*//[#@] sourceMappingURL=.*$", re.MULTILINE)
# Each uses those before it.
_SCRIPTS = ("base", "enlarge", "ratings", "curves", "table", "volumes", "viewer")
_DASHES = ("", "7 4", "2 3", "7 3 2 3")  # as in figures: a repeated colour comes with another line
_OPEN = 20  # scans to check that are shown at once, of all kinds together
_LEAST_OPEN = 3  # of each kind
_PICTURES_OPEN = 12  # pictures of the preparation that are shown at once


def render(
    page: Page, *, bundle: str | None = None, fingerprint: str = "", options: str = ""
) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    page : what to say.
    bundle : NiiVue's script, see `ndflow.reporting.viewer.niivue`; without it the page shows slices
        alone.
    fingerprint, options : of all that the page depends on, and what the user chose for it, encoded;
        see `ndflow.study.page_fingerprint`.
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
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.filters |= {
        "shown": shown,
        "known": known,
        "base64": _base64,
        "address": picture_address,
        "size": picture_size,
        "capital": _capital,
        "sentence": _sentence,
    }
    script = _script()
    viewer = None
    if bundle is not None and any(scan.volumes for scan in page.scans):
        # Browsers read any end of line as \n, and the hash is of what they read.
        viewer = _SOURCE_MAP.sub("", bundle.replace("\r\n", "\n").replace("\r", "\n"))
    scans = list(enumerate(page.scans, 1))
    doubts = doubt_counts({str(number): scan.flags for number, scan in scans})
    text = environment.from_string(_template("report.html.jinja")).render(
        page=page,
        data=page_data(page),
        scans=scans,
        flagged=[number for number, scan in scans if scan.flags],
        doubts=doubts,
        open_each=max(_LEAST_OPEN, _OPEN // max(len(doubts), 1)),
        pictures_open=_PICTURES_OPEN,
        prepared_at=_prepared_at(page),
        viewed=[(number, scan) for number, scan in scans if scan.slices or scan.volumes],
        number_of={scan.name: number for number, scan in reversed(scans)},
        colours={site.name: site.colour for site in page.sites},
        lines=_lines(page.sites),
        digits=column_digits(page),
        drawing=drawing,
        style=Markup(_template("report.css")),
        script=Markup(script),
        viewer=viewer and packed(viewer),
        policy=_policy(script, viewer),
        version=__version__,
        fingerprint=fingerprint,
        options=options,
    )
    # File names that are not Unicode come as lone surrogates, which HTML cannot hold.
    return text.encode("utf-8", "replace").decode("utf-8")


def _prepared_at(page: Page) -> dict[str, int]:
    """Return the numbers of the pictures of prepared scans, by the names of the scans."""
    pictures = page.preparation.scans if page.preparation else ()
    return {scan.name: number for number, scan in enumerate(pictures, 1)}


def _template(name: str) -> str:
    return files("ndflow.reporting").joinpath("templates", name).read_text(encoding="utf-8")


def _script() -> str:
    """Return the page's script: one function around all files, which share its names."""
    parts = "\n".join(_template(f"{name}.js") for name in _SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}\n}})();'


def _policy(*scripts: str | None) -> str:
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
        if script is not None
    ]
    # To 'self', a page opened as a file need not be the same as the files beside it; no page from
    # elsewhere can load file:.
    return (
        f"default-src 'none'; script-src {' '.join(hashes)}; style-src 'unsafe-inline'; "
        "img-src data: blob: 'self' file:; connect-src data: blob:; base-uri 'none'; "
        "form-action 'none'"
    )


def _lines(sites: Sequence[SiteEntry]) -> dict[str, str]:
    """Return the dashes of each site's line: sites that share a colour differ in them."""
    seen: Counter[str] = Counter()
    found = {}
    for site in sites:
        found[site.name] = _DASHES[seen[site.colour] % len(_DASHES)]
        seen[site.colour] += 1
    return found


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sentence(text: str) -> str:
    """Return a text with a capital at its start and a stop at its end."""
    text = _capital(text)
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
