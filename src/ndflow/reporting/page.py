r"""The report as one HTML file.

Style, scripts, drawings, volumes and viewer are all part of the page; only slices may lie beside
it, as pictures. Three things keep it from doing anything else, each sufficient by itself:

- every text is escaped by the template engine, also within the data of scripts (as ``\u003c``);
- drawings are cleaned when they are taken in (`_inline`);
- the page's own security policy lets a browser run the page's scripts, known by their SHA-256, and
  no others, and lets it load nothing but ``data:``, ``blob:``, and pictures from where the page is.

The curves of each scan are drawn when somebody opens its row, so a page of 500 scans holds some
300,000 points that are rarely seen. They are data that the scripts read (`page_data`), written as
whole numbers with a common exponent, ``[exponent, first, second, ...]``, to about four digits of
their range. The viewer is NiiVue, as nilearn ships it; ndflow has no copy of its own. Its bundle is
large, so it is kept compressed, and unpacked on demand.

In a file of its own a drawing has its own names and its own style sheet; in a page it shares both
with all others. So every ``id`` gets the drawing's prefix, wherever it is defined or referred to,
and a style sheet is nested under the drawing's own ``id``. An ``id`` that nothing refers to is left
out. Ink follows the colours of the page, light or dark: what was drawn in black or dark grey takes
the colour of text, and what was white that of the paper. Colours of sites are readable on both.
Only elements that draw are kept, and of their attributes no event handlers and no references to
anything but the drawing itself or a picture within it (``data:image/``): wherever a drawing comes
from, it can neither run nor load anything.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import math
import re
from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from itertools import count
from typing import Any, TypeGuard
from urllib.parse import quote
from xml.etree import ElementTree

import numpy as np

from ndflow._version import __version__
from ndflow.figures.style import line_styles
from ndflow.reporting.content import Page, Picture
from ndflow.reporting.strip import FEW, strip_of
from ndflow.study.checks import doubt_counts

_SOURCE_MAP = re.compile(r"^\s*//[#@] sourceMappingURL=.*$", re.MULTILINE)
# Each uses those before it.
_SCRIPTS = ("base", "enlarge", "ratings", "curves", "table", "volumes", "viewer")
_DASHES = {"-": "", "--": "7 4", ":": "2 3", "-.": "7 3 2 3"}  # lines as in figures
_OPEN = 12  # scans to check that are shown at once, of all kinds together
_LEAST_OPEN = 3  # of each kind


def render(page: Page, *, bundle: str | None = None, fingerprint: str = "") -> str:
    """Return the page as HTML.

    Parameters
    ----------
    page : what to say.
    bundle : NiiVue's script, see `niivue`; without it the page shows slices
        alone.
    fingerprint : of all that the page depends on, see `page_fingerprint`.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    numbers = count(1)

    def drawing(picture: Picture) -> str:
        return Markup(_inline(picture, f"picture-{next(numbers)}"))

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.filters |= {
        "shown": _shown,
        "known": _known,
        "base64": _base64,
        "address": partial(quote, errors="surrogateescape"),  # of a picture beside the page
        "size": picture_size,
        "capital": _capital,
        "sentence": _sentence,
    }
    # One function around all files, which share its names.
    parts = "\n".join(template(f"{name}.js") for name in _SCRIPTS)
    script = f'"use strict";\n(() => {{\n{parts}\n}})();'
    # Browsers read any end of line as \n, and the hash is of what they read.
    viewer = bundle and _SOURCE_MAP.sub("", bundle.replace("\r\n", "\n").replace("\r", "\n"))
    scans = list(enumerate(page.scans, 1))
    names = [site.name for site in page.sites]
    doubts = doubt_counts({str(number): scan.flags for number, scan in scans})
    text = environment.from_string(template("report.html.jinja")).render(
        page=page,
        data=_page_data(page),
        scans=scans,
        doubts=doubts,
        open_each=max(_LEAST_OPEN, _OPEN // max(len(doubts), 1)),
        few=len(scans) <= FEW,
        strip=strip_of(page),
        viewed=[(number, scan) for number, scan in scans if scan.slices or scan.volumes],
        number_of={scan.name: number for number, scan in reversed(scans)},
        colours={site.name: site.colour for site in page.sites},
        lines={site: _DASHES[line] for site, line in line_styles(names).items()},
        drawing=drawing,
        style=Markup(template("report.css")),
        script=Markup(script),
        viewer=viewer and _base64(gzip.compress(viewer.encode(), mtime=0)),
        hashes=[
            _base64(hashlib.sha256(code.encode()).digest()) for code in (script, viewer) if code
        ],
        version=__version__,
        fingerprint=fingerprint,
    )
    # File names that are not Unicode come as lone surrogates, which HTML cannot hold.
    return text.encode("utf-8", "replace").decode("utf-8")


def template(name: str) -> str:
    """Return the text of a template of the page, or of something that it includes."""
    return files("ndflow.reporting").joinpath("templates", name).read_text(encoding="utf-8")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sentence(text: str) -> str:
    """Return a text with a capital at its start and a stop at its end."""
    text = _capital(text)
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def niivue() -> str | None:
    """Return NiiVue's bundle as nilearn installed it, or None if it is not there."""
    try:
        bundle = files("nilearn").joinpath("_assets", "js", "niivue.umd.js")
        return bundle.read_text(encoding="utf-8")
    except (ImportError, OSError):
        return None


def _page_data(page: Page) -> dict[str, Any]:
    """Return what the scripts of the page read: the scans, their curves, the grey windows."""
    scans = []
    for scan in page.scans:
        found: dict[str, Any] = {"name": scan.name, "site": scan.site}
        if slices := scan.slices:
            windows = [_window(slices.before), _window(slices.after)]
            found["slices"] = {"width": slices.width, "height": slices.height, "windows": windows}
            found["slices"] |= {"lesion": slices.lesion} if slices.lesion else {}
        if scan.curves:
            found["curves"] = {name: _whole_numbers(line) for name, line in scan.curves.items()}
        if scan.bands:
            found["bands"] = {name: _window(band) for name, band in scan.bands.items()}
        scans.append(found)
    shared = page.windows and [_window(window) for window in page.windows]
    return {"study": page.study or page.title, "windows": shared, "scans": scans}


def _window(window: tuple[float, float]) -> list[float]:
    return [float(f"{value:.6g}") for value in window]


def _whole_numbers(values: Sequence[float]) -> list[int | None]:
    """Return values as whole numbers after the exponent of ten that they are multiples of."""
    array = np.asarray(values, np.float64)
    finite = array[np.isfinite(array)]
    spread = (np.ptp(finite) or abs(finite[0])) if finite.size else 0
    exponent = math.floor(math.log10(spread)) - 3 if spread else 0
    scaled = array * 10.0**-exponent
    return [exponent, *(round(v) if math.isfinite(v) else None for v in scaled.tolist())]


def _known(cell: float | None) -> TypeGuard[float]:
    return cell is not None and not math.isnan(cell)


def _shown(cell: float | None, form: str = "") -> str:
    """Return a number as the table shows it: three digits, or all of a large or whole number."""
    if not _known(cell):
        return "–"
    whole = abs(cell) >= 100 or cell == round(cell)
    return (form or ("{:,.0f}" if whole else "{:.3g}")).format(cell).replace("-", "−")


def picture_size(png: bytes) -> tuple[int, int]:
    """Return the width and height of a PNG, in pixels."""
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


# ── drawings ──────────────────────────────────────────────────────────────────────────────────────

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_KEPT = {"svg", "g", "defs", "path", "rect", "text", "tspan", "use", "image", "clipPath", "style"}
_NAME = re.compile(rb"""#([^'")\s]+)""")
_REFERENCE = re.compile(r"""url\(\s*['"]?#([^'")\s]+)['"]?\s*\)""")
_OUTSIDE = re.compile(r"""url\(\s*(?!['"]?#)|@import|\\""", re.IGNORECASE)
_INK = re.compile(r"#(?:000000|222222|666666)\b", re.IGNORECASE)  # see ndflow.figures.style
_PAPER = re.compile(r"#ffffff\b", re.IGNORECASE)
_LENGTH = re.compile(r"(\d+\.?\d*)pt")


def _inline(picture: Picture, prefix: str) -> str:
    """Return a drawing as an ``<svg>`` element whose names start with a prefix of its own."""
    root = ElementTree.fromstring(picture.svg)
    referred = {name.decode("utf-8", "replace") for name in _NAME.findall(picture.svg)}
    element = _cleaned(root, prefix, referred)
    element.tag = "svg"  # whatever it was
    for name in ("width", "height"):  # the page decides, from the width the drawing was made for
        element.attrib.pop(name, None)
    element.attrib |= {"id": prefix, "role": "img", "aria-label": picture.alt}
    if length := _LENGTH.fullmatch(root.get("width", "")):
        element.set("style", f"--width:{float(length[1]) * (4 / 3):.0f}px")
    return ElementTree.tostring(element, encoding="unicode")


def _cleaned(element: ElementTree.Element, prefix: str, referred: set[str]) -> ElementTree.Element:
    """Copy an element; without namespaces, which HTML knows by itself."""
    copy = ElementTree.Element(element.tag.removeprefix(_SVG))
    for name, value in element.attrib.items():
        if name == "id":
            if value in referred:
                copy.set("id", f"{prefix}-{value}")
        elif name in ("href", _LINK):
            if value.startswith("#"):
                copy.set("href", f"#{prefix}-{value[1:]}")
            elif value.startswith("data:image/"):
                copy.set("href", value)
        elif not name.lower().startswith(("{", "on")) and not _OUTSIDE.search(value):
            own = _REFERENCE.sub(rf"url(#{prefix}-\1)", value)
            copy.set(name, _PAPER.sub("var(--paper, #ffffff)", _INK.sub("currentColor", own)))
    copy.text, copy.tail = element.text, element.tail
    if copy.tag == "style":
        text = "" if _OUTSIDE.search(element.text or "") else element.text
        copy.text = f"#{prefix}{{{text}}}"
    for child in element:
        if child.tag.startswith(_SVG) and child.tag.removeprefix(_SVG) in _KEPT:
            copy.append(_cleaned(child, prefix, referred))
    return copy
