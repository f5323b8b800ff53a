"""Pages of HTML: one that is made up, and any taken apart."""

import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ndflow.evaluation.summary import Section
from ndflow.reporting.content import (
    Column,
    Headline,
    Montage,
    Page,
    Picture,
    Preparation,
    PreparedPicture,
    ScanEntry,
    SiteEntry,
    Slices,
    Volumes,
)
from ndflow.values import Doubt

CURVES = ("x", "histogram", "mixture", "map", "alignment", "y", "result", "target")  # of a scan
_VOID = {"meta", "link", "br", "input", "img"}  # elements that have no end tag


def png(grey: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.asarray(grey, np.uint8)).save(file, "PNG")
    return file.getvalue()


def a_page(drawing: bytes, name: str = "site", **changes: Any) -> Page:
    """Return a page with every part once, and the same name wherever there is one."""
    picture = Picture(drawing, name, name)
    grey = png(np.full((5, 4), 90))
    slices = Slices(f"figures/{name}.png", png(np.full((6, 9), 40)), 9, 3, (0, 10), (-1, 1))
    curves = {curve: [0.0, 1.0, 2.0] for curve in CURVES}
    volumes = Volumes(b"before" + bytes(range(256)), b"after")
    flags = [Doubt(name, name, name)]
    prepared = PreparedPicture(f"figures/{name}.png", None, 9, 6)
    page = Page(
        title=name,
        date=name,
        headline=Headline(name, [(name, name), (name, name)], name, name),
        montage=Montage([name], [name], [grey], [grey], name),
        failures=[(name, name, name)],
        populations=[picture, picture],
        sites=[SiteEntry(name, 2, "#0072B2")],
        columns=[Column("W1", name, shown=True), Column(name, name)],
        scans=[
            ScanEntry(
                *(name, name, [0.25, name], flags, grey, slices, curves, volumes, [name]),
                prepared,
                {name: (0.0, 1.0)},
            ),
            ScanEntry("plain", name, [None, "x"], prepared=replace(prepared, png=grey)),
            *(ScanEntry(name, name, [place, "x"]) for place in range(3)),
        ],
        windows=((0, 20), (-2, 2)),
        verdicts=[(name, [(name, [name, name])])],
        tables=[Section(name, name, name, [name, "b"], [[name, "1"]])],
        pictures=[picture],
        tissues=Headline(name, [(name, name), (name, name)], name),
        visits=Headline(name, [(name, name), (name, name)], name),
        methods=name,
        citation=name,
        facts=[(name, name)],
        preparation=Preparation([name], [(name, "#0072B2")]),
        study=name,
    )
    return replace(page, **changes)


class Html(HTMLParser):
    """The elements of a page: their names, their attributes and all text within them."""

    nested = True  # whether the text of an element includes that of the elements within it

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.elements: list[tuple[str, dict[str, str], list[str]]] = []
        self.open: list[tuple[str, list[str]]] = []
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        text: list[str] = []
        self.elements.append((tag, {name: value or "" for name, value in attrs}, text))
        if tag not in _VOID:
            self.open.append((tag, text))

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}, []))

    def handle_endtag(self, tag: str) -> None:
        last, _ = self.open.pop()
        assert last == tag

    def handle_data(self, data: str) -> None:
        for _, text in self.open if self.nested else self.open[-1:]:
            text.append(data)


class ReportPage(Html):
    """The report of a study: its facts, and what it shows of each scan."""

    def texts(self, tag: str, **attributes: str) -> list[str]:
        return [
            " ".join("".join(text).split())
            for name, own, text in self.elements
            if name == tag and attributes.items() <= own.items()
        ]

    @property
    def facts(self) -> dict[str, str]:
        return dict(zip(self.texts("dt"), self.texts("dd"), strict=True))

    @property
    def rows(self) -> dict[str, list[str]]:
        """The cells of the row of each scan, without its thumbnail."""
        bodies = re.findall(r'<tbody id="scan-.*?</tbody>', self.source, re.DOTALL)
        bodies = [re.sub(r'<td class="thumb">.*?</td>', "", body) for body in bodies]
        parts = [ReportPage(body) for body in bodies]
        return {part.texts("th")[0]: part.texts("td") for part in parts}

    @property
    def data(self) -> dict[str, Any]:
        """What the scripts of the page read."""
        found = re.search(r'<script type="application/json" id="data">(.*?)<', self.source)
        return json.loads(found[1]) if found else {"scans": []}

    def pictured(self) -> set[str]:
        """The scans with curves."""
        return {scan["name"] for scan in self.data["scans"] if "curves" in scan}

    def sliced(self) -> set[str]:
        """The scans with slices."""
        return {scan["name"] for scan in self.data["scans"] if "slices" in scan}

    def embedded(self) -> set[str]:
        """The scans whose slices are in the page, and do not only lie beside it."""
        end = ": slices before (above) and after normalisation (below)"
        pictures = [own for tag, own, _ in self.elements if tag == "img"]
        return {
            own["alt"].removesuffix(end)
            for own in pictures
            if own["alt"].endswith(end) and own["src"].startswith("data:")
        }

    def viewed(self) -> set[str]:
        """The scans whose volumes are in the page."""
        found = re.findall(r'<script type="application/json" id="volumes-\d+">(.*?)<', self.source)
        return {json.loads(text)["name"] for text in found}


def report_of(folder: Path) -> ReportPage:
    return ReportPage((folder / "report.html").read_text("utf-8"))
