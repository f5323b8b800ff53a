"""Links and images of Markdown pages, and the anchors that headings have on GitHub."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from docs.blocks import prose_of

_LINK = re.compile(r"(!?)\[(?:[^][]|\[[^]]*\])*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.MULTILINE)
_MARKUP = re.compile(r"!?\[([^]]*)\]\([^)]*\)|[`*]")
_CODE = re.compile(r"(`+)(?:(?!\1).)*\1")
_MADE = re.compile(r"^\(([\w-]+)\)=$|<a (?:id|name)=\"([^\"]+)\"", re.MULTILINE)


class Link(NamedTuple):
    """A link of a page: to a file, or an address; to an anchor in it, if any; or an image."""

    target: str
    anchor: str
    image: bool

    @property
    def is_address(self) -> bool:
        return bool(re.match(r"[a-z]+:", self.target))


def links_of(text: str) -> Iterator[Link]:
    """Yield the links of a page, except those in code."""
    for found in _LINK.finditer(_CODE.sub("code", prose_of(text))):
        target, _, anchor = found[2].partition("#")
        yield Link(target, anchor, bool(found[1]))


def anchors_of(path: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub and MyST make them."""
    text = prose_of(path.read_text(encoding="utf-8"))
    found: list[str] = []
    for heading in _HEADING.findall(text):
        plain = _MARKUP.sub(r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        same = sum(re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", one) is not None for one in found)
        found.append(f"{anchor}-{same}" if same else anchor)
    return {*found, *(one or other for one, other in _MADE.findall(text))}
