"""A drawing within a page: from an SVG file to an element of HTML.

In a file of its own a drawing has its own names and its own style sheet; in a page it shares both
with all others. So every ``id`` gets the drawing's prefix, wherever it is defined or referred to,
and a style sheet is nested under the drawing's own ``id``. An ``id`` that nothing refers to is left
out.

Ink follows the colours of the page, light or dark: what was drawn in black or dark grey takes the
colour of text, and what was white that of the paper. Colours of sites are readable on both.

Only elements that draw are kept, and of their attributes no event handlers and no references to
anything but the drawing itself or a picture within it (``data:image/``): wherever a drawing comes
from, it can neither run nor load anything.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from ndflow.reporting.content import Picture

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_KEPT = {"svg", "g", "defs", "path", "rect", "text", "tspan", "use", "image", "clipPath", "style"}
_REFERENCE = re.compile(r"""url\(\s*['"]?#([^'")\s]+)['"]?\s*\)""")
_OUTSIDE = re.compile(r"""url\(\s*(?!['"]?#)|@import|\\""", re.IGNORECASE)
_INK = re.compile(r"#(?:000000|222222|666666)\b", re.IGNORECASE)  # see ndflow.figures.style
_PAPER = re.compile(r"#ffffff\b", re.IGNORECASE)
_PAINTED = ("style", "fill", "stroke")
_LENGTH = re.compile(r"([\d.]+)(pt|px|)")


def inline(picture: Picture, prefix: str) -> str:
    """Return a drawing as an ``<svg>`` element whose names start with a prefix of its own."""
    root = ElementTree.fromstring(picture.svg)
    element = _cleaned(root, prefix, _referred(root))
    width = _width(root)
    for name in ("width", "height"):  # the page decides, from the width the drawing was made for
        element.attrib.pop(name, None)
    element.attrib |= {"id": prefix, "role": "img", "aria-label": picture.alt}
    if width:
        element.set("style", f"--width:{width:.0f}px")
    return ElementTree.tostring(element, encoding="unicode")


def _referred(root: ElementTree.Element) -> set[str]:
    names = set()
    for element in root.iter():
        for value in element.attrib.values():
            names.update(_REFERENCE.findall(value))
            if value.startswith("#"):
                names.add(value[1:])
    return names


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
            painted = _painted(value) if name in _PAINTED else value
            copy.set(name, _REFERENCE.sub(rf"url(#{prefix}-\1)", painted))
    copy.text, copy.tail = element.text, element.tail
    if copy.tag == "style":
        text = "" if _OUTSIDE.search(element.text or "") else element.text
        copy.text = f"#{prefix}{{{text}}}"
    for child in element:
        if child.tag.startswith(_SVG) and child.tag.removeprefix(_SVG) in _KEPT:
            copy.append(_cleaned(child, prefix, referred))
    return copy


def _painted(value: str) -> str:
    """Return a colour or a style in the colours of the page."""
    return _PAPER.sub("var(--paper, #ffffff)", _INK.sub("currentColor", value))


def _width(root: ElementTree.Element) -> float | None:
    """Return the width that a drawing was made for, in pixels of a page."""
    if length := _LENGTH.fullmatch(root.get("width", "")):
        return float(length[1]) * (4 / 3 if length[2] == "pt" else 1)
    return None
