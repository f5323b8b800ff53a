"""Draw the picture of docs/architecture.md from the imports of the source itself.

    python experiments/draw_architecture.py

Writes docs/figures/architecture.svg. The order of the packages is that of the layers in
pyproject.toml, the lines are the imports that grimp finds (it comes with import-linter), and only
the descriptions and the flow of data are written down here. The same source gives the same file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "figures" / "architecture.svg"

MAIN = {  # packages of the main column
    "cli": "commands, options, messages",
    "integrations": "scikit-learn, TorchIO, MONAI",
    "demo": "a study with a known truth",
    "reporting": "the page of a study",
    "evaluation": "finished studies, measured",
    "study": "many scans: plan, passes, results",
    "subject": "one scan: read it, map it, write it",
    "methods": "one contract, one module per method",
    "population": "references, tissues",
    "transport": "one density to another",
    "density": "what intensities look like",
}
BESIDE = {  # packages beside it: description, and the row of the main column they stand at
    "figures": ("drawn with matplotlib", "demo"),
    "preparation": ("masks, bias fields, tissues", "subject"),
    "image": ("NIfTI, MGH, masks", "methods"),
    "files": ("JSON, tables, locks", "transport"),
}
EVERYWHERE = ("values", "record", "doubt", "errors")  # imported by all, so not drawn
NOT_DRAWN = {*EVERYWHERE, "__main__", "_version", "ndflow"}

DATA = (  # how data flow, from the bottom up: package, column, word
    ("density", 0, "histogram"),
    ("density", 1, "mixture"),
    ("transport", 1, "match"),
    ("transport", 2, "flow"),
    ("transport", 3, "map"),
    ("subject", 3, "image"),
    ("evaluation", 3, "comparison"),
    ("reporting", 3, "report"),
)

# Lengths are in pixels.
WIDTH = 1010
TOP, ROW, HEIGHT = 66, 62, 44  # of the first box, from box to box, of a box
SIDE_X, SIDE_WIDTH = 24, 172
MAIN_X, MAIN_WIDTH = 272, 620
CHIP_X, CHIP_STEP, CHIP_WIDTH, CHIP_HEIGHT = 533, 100, 84, 26  # CHIP_X: middle of the first
LANE = 11
INK, GREY, FAINT, BLUE = "#222222", "#5f6873", "#9aa3ad", "#0072B2"
PAPER, BOX, SIDE_BOX, CHIP = "#ffffff", "#f3f5f7", "#fbf7ee", "#dcebf6"

Imports = Mapping[tuple[str, str], int]  # (importer, imported): how many modules import it


def imports() -> Imports:
    """Return how many modules of each package import another package."""
    from grimp import build_graph

    graph, ignored = build_graph("ndflow"), _contract().get("ignore_imports", ())
    importers: dict[tuple[str, str], set[str]] = {}
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            if f"{module} -> {other}" in ignored:
                continue
            pair = _package(module), _package(other)
            if pair[0] != pair[1] and NOT_DRAWN.isdisjoint(pair):
                importers.setdefault(pair, set()).add(module)
    return {pair: len(modules) for pair, modules in sorted(importers.items())}


def _package(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def layers() -> list[str]:
    """Return the packages from the top to the bottom, as pyproject.toml has them."""
    return [name.strip() for layer in _contract()["layers"] for name in layer.split("|")]


def _contract() -> dict[str, Any]:
    """Return the contract of layers."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for contract in tomllib.loads(text)["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            return contract
    raise ValueError("pyproject.toml has no contract of layers")


def architecture_svg() -> str:
    """Return the picture."""
    order = [name for name in layers() if name in MAIN]
    unknown = set(layers()) - MAIN.keys() - BESIDE.keys() - NOT_DRAWN
    if unknown or len(order) < len(MAIN):
        raise ValueError(f"packages and picture differ: {sorted(unknown | MAIN.keys() ^ {*order})}")
    found = imports()
    tops = {name: TOP + ROW * row for row, name in enumerate(order)}
    tops |= {name: tops[row] for name, (_, row) in BESIDE.items()}
    height = tops[order[-1]] + HEIGHT + 128
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="Helvetica, Arial, sans-serif" '
        f'role="img" aria-label="The packages of ndflow, what imports what, and how data flow">',
        _markers(),
        f'<rect width="{WIDTH}" height="{height}" rx="10" fill="{PAPER}"/>',
        *_headings(),
        *_buses_beside(order, tops, found),
        *_buses_past(order, tops, found),
        *_boxes(tops),
        *_steps_down(order, tops, found),
        *_data(tops),
        *_legend(height),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _markers() -> str:
    heads = "".join(
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" fill="{colour}"/>'
        f"</marker>"
        for name, colour in (("grey", GREY), ("faint", FAINT), ("blue", BLUE))
    )
    return f"<defs>{heads}</defs>"


def _headings() -> Iterator[str]:
    y = TOP - 26
    right = MAIN_X + MAIN_WIDTH
    yield _text(SIDE_X, y, "beside the column", size=12, fill=GREY)
    yield _text(MAIN_X, y, "a package imports only from those below it", size=12, fill=GREY)
    yield _text(right, y, "data flow, from the bottom up", size=12, fill=BLUE, anchor="end")


def _boxes(tops: Mapping[str, int]) -> Iterator[str]:
    for name, words in MAIN.items():
        yield _box(MAIN_X, tops[name], MAIN_WIDTH, BOX, name, words)
    for name, (words, _) in BESIDE.items():
        yield _box(SIDE_X, tops[name], SIDE_WIDTH, SIDE_BOX, name, words)


def _box(x: int, y: int, width: int, fill: str, name: str, words: str) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{HEIGHT}" rx="6" fill="{fill}" '
        f'stroke="{FAINT}"/>'
        + _text(x + 12, y + 19, name, size=14, weight="bold")
        + _text(x + 12, y + 35, words, size=11, fill=GREY)
    )


def _steps_down(order: list[str], tops: Mapping[str, int], found: Imports) -> Iterator[str]:
    """Imports of the next package below."""
    for upper, lower in pairwise(order):
        if (upper, lower) in found:
            x, begin, end = MAIN_X + 60, tops[upper] + HEIGHT, tops[lower]
            yield _line(f"M{x} {begin}V{end - 1}", GREY, _width(found[upper, lower]), "grey")


def _buses_beside(order: list[str], tops: Mapping[str, int], found: Imports) -> Iterator[str]:
    """Imports of a package beside the column: a lane for each, which its importers join."""
    names = sorted(BESIDE, key=lambda name: tops[name])
    for place, name in enumerate(names):
        x = SIDE_X + SIDE_WIDTH + 13 + LANE * place
        end = tops[name] + HEIGHT // 2 + 3
        joins = {
            importer: tops[importer] + 8 + 7 * place
            for importer in order
            if (importer, name) in found
        }
        for importer, y in joins.items():
            yield _line(f"M{MAIN_X} {y}H{x}", FAINT, _width(found[importer, name]))
            yield _dot(x, y)
        yield _lane(x, [*joins.values(), end])
        yield _line(f"M{x} {end}H{SIDE_X + SIDE_WIDTH + 1}", FAINT, 1.4, "faint")
    for upper, lower in ((a, b) for a in names for b in names if (a, b) in found):
        width = _width(found[upper, lower])
        if names.index(lower) - names.index(upper) == 1:
            x, begin = SIDE_X + 40, tops[upper] + HEIGHT
            yield _line(f"M{x} {begin}V{tops[lower] - 1}", FAINT, width, "faint")
        else:  # around the boxes between them
            begin, end = (tops[name] + HEIGHT // 2 for name in (upper, lower))
            yield _line(
                f"M{SIDE_X} {begin}H{SIDE_X - 12}V{end}H{SIDE_X - 1}", FAINT, width, "faint"
            )


def _buses_past(order: list[str], tops: Mapping[str, int], found: Imports) -> Iterator[str]:
    """Imports past the next package: a lane for each that is imported so."""
    place = 0
    right = MAIN_X + MAIN_WIDTH
    for row, name in enumerate(order):
        joins = {
            importer: tops[importer] + 6 + 4 * place
            for importer in order[: max(row - 1, 0)]
            if (importer, name) in found
        }
        if not joins:
            continue
        x = right + 13 + LANE * place
        end = tops[name] + 38
        for y in joins.values():
            yield _line(f"M{right} {y}H{x}", FAINT, 1)
            yield _dot(x, y)
        yield _lane(x, [*joins.values(), end], 1)
        yield _line(f"M{x} {end}H{right + 1}", FAINT, 1, "faint")
        place += 1


def _lane(x: int, ys: list[int], width: float = 1.4) -> str:
    return _line(f"M{x} {min(ys)}V{max(ys)}", FAINT, width)


def _dot(x: int, y: int) -> str:
    return f'<circle cx="{x}" cy="{y}" r="2.2" fill="{FAINT}"/>'


def _data(tops: Mapping[str, int]) -> Iterator[str]:
    """How data flow: from an image below the column to the report."""
    start = (CHIP_X, max(tops[name] for name in MAIN) + ROW + HEIGHT // 2)
    stops = [start, *((_chip_x(column), tops[name] + HEIGHT // 2) for name, column, _ in DATA)]
    for (x0, y0), (x1, y1) in pairwise(stops):
        if y0 == y1:
            path = f"M{x0 + CHIP_WIDTH // 2} {y0}H{x1 - CHIP_WIDTH // 2 - 1}"
        else:
            path = f"M{x0} {y0 - CHIP_HEIGHT // 2}V{y1 + CHIP_HEIGHT // 2 + 1}"
        yield _line(path, BLUE, 2.4, "blue")
    for (x, y), word in zip(stops, ("image", *(word for *_, word in DATA)), strict=True):
        yield (
            f'<rect x="{x - CHIP_WIDTH // 2}" y="{y - CHIP_HEIGHT // 2}" width="{CHIP_WIDTH}" '
            f'height="{CHIP_HEIGHT}" rx="13" fill="{CHIP}" stroke="{BLUE}"/>'
        )
        yield _text(x, y + 4, word, size=12.5, anchor="middle")


def _chip_x(column: int) -> int:
    return CHIP_X + CHIP_STEP * column


def _legend(height: int) -> Iterator[str]:
    y = height - 44
    samples = (
        (SIDE_X, "imports, in 1–3 modules", 2, GREY),
        (SIDE_X + 196, "4–7", 5, GREY),
        (SIDE_X + 272, "8 or more", 9, GREY),
        (
            SIDE_X + 396,
            "other imports: each dot on a line imports what the arrow of the line points to",
            1,
            FAINT,
        ),
    )
    for x, words, count, colour in samples:
        head = "grey" if colour == GREY else "faint"
        yield _line(f"M{x} {y - 4}h26", colour, _width(count), head)
        yield _text(x + 34, y, words, size=11, fill=GREY)
    note = f"Not drawn: {', '.join(EVERYWHERE)}, which any package may import."
    yield _text(SIDE_X, y + 22, note, size=11, fill=GREY)


def _width(count: int) -> float:
    """Few classes, so that the picture does not change with every new module."""
    return 1.4 if count < 4 else 2.6 if count < 8 else 4.2


def _line(path: str, colour: str, width: float, head: str = "") -> str:
    end = f' marker-end="url(#{head})"' if head else ""
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{end}/>'


def _text(
    x: float,
    y: float,
    words: str,
    *,
    size: float,
    fill: str = INK,
    weight: str = "normal",
    anchor: str = "start",
) -> str:
    more = f' font-weight="{weight}"' if weight != "normal" else ""
    more += f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}"{more}>{escape(words)}</text>'


DRAWN = {"architecture.svg": lambda: architecture_svg().encode()}


if __name__ == "__main__":
    PICTURE.write_text(architecture_svg(), encoding="utf-8")
    print(f"wrote {PICTURE}")
