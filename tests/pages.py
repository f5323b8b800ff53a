"""Pages of HTML, taken apart."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

# Names of sites and subjects that must not become markup.
SCRIPT = "<script>alert(1)</script>"
QUOTED = """o'x"y"><b>&amp;"""
_VOID = {"meta", "link", "br", "input"}  # elements that have no end tag


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
        """The cells of the row of each scan."""
        bodies = re.findall(r'<tbody id="scan-.*?</tbody>', self.source, re.DOTALL)
        parts = [ReportPage(body) for body in bodies]
        return {part.texts("th")[0]: part.texts("td") for part in parts}

    def pictured(self) -> set[str]:
        """The scans with figures."""
        alts = [own["aria-label"] for name, own, _ in self.elements if name == "svg"]
        ends = ": histogram and mixture, intensity map, and histogram of the result"
        return {alt.removesuffix(ends) for alt in alts if alt.endswith(ends)}

    def viewed(self) -> set[str]:
        """The scans whose volumes are in the page."""
        found = re.findall(r'<script type="application/json" id="volumes-\d+">(.*?)<', self.source)
        return {json.loads(text)["name"] for text in found}


def report_of(folder: Path) -> ReportPage:
    return ReportPage((folder / "report.html").read_text("utf-8"))
