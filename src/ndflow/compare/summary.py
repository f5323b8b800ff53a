"""The summary of a comparison: tables to read, in the layout of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ndflow.compare.comparison import AFFINE, Comparison
from ndflow.compare.measure import TISSUE_ROWS
from ndflow.compare.result_tables import tissue_cells
from ndflow.compare.site_classifier import ANATOMY, FLOORS, RANKS
from ndflow.compare.table import Part, Table

__all__ = ["ABOUT", "TISSUES_TITLE", "Section", "as_text", "overview", "sections"]

_SIGNIFICANT = 0.05
_LONGEST_NAME = 24  # of a condition, in the overview

# The titles of tables, and how to read them; also on the page of a study.
TISSUES_TITLE = "Tissue quartiles"
ABOUT = {
    "fitness": (
        "Histograms compared with the average density of the aligned scans",
        "Medians over scans: differences of densities (mae, rmse), Wasserstein (w1), "
        "Kolmogorov–Smirnov (ks) and Jensen–Shannon (js) distances, differences of quantiles (qq); "
        "own: compared with the average of the condition itself; variation: total variation of the "
        "log slope of the maps; jump: their largest change of slope, and the largest of any scan.",
    ),
    "sites": (
        "Distances between and within sites",
        "W1 of histograms, in standard deviations of the average scan (the report's first numbers "
        "are in those of the scans themselves); shares are relative to the alignment.",
    ),
    "classification": (
        "Site classification by random forests",
        "Share of scans whose site is predicted correctly, with references made without them; "
        "chance from shuffled sites; entropy in bits, and p of a paired t-test of it against the "
        "alignment. What remains without any difference of intensity: ranks, where all scans have "
        "the same histogram; anatomy, where each tissue has one intensity in all scans.",
    ),
    "repeats": (
        "Scans of the same subject",
        "W1 of histograms within and between subjects, and their ratio.",
    ),
    "contrast": (
        "Contrast and variation of tissues",
        "Contrast: mean of WM minus that of GM, in standard deviations of the average brain; "
        "dprime: the same in standard deviations of the tissues themselves, which no straight line "
        "changes, and p of a paired t-test of it against the alignment; sd: over scans; cv: "
        "coefficient of variation of tissue medians over scans, with the scanner's average zero.",
    ),
    "reliability": (
        "Reliability of tissue medians in scans of the same subject",
        "Intraclass correlation (icc, absolute agreement of single scans); 1 is best; low and high "
        "are the ends of 95 % intervals.",
    ),
    "covariate": (
        "Effect of the covariate on tissue medians",
        "Within sites, each given the others; the correlation is partial; low and high are the "
        "ends of 95 % intervals.",
    ),
}

# The overview: table, column, title there, and what it means.
_OVERVIEW = (
    ("fitness", "w1_own", "scans", "distance of a scan from the average of all, median, in sd"),
    ("sites", "between", "sites", "distance between sites, in sd"),
    ("sites", "within", "within", "distance of a scan from the average of its site, in sd"),
    (
        "classification",
        "balanced",
        "predicted",
        "balanced accuracy of a forest that predicts sites",
    ),
    ("contrast", "dprime", "d′", "separability of GM and WM by intensity"),
    ("repeats", "ratio", "repeats", "differences of scans of one subject, as a share of others"),
)
_OF_FLOORS = {
    RANKS: "what remains if all scans have the same histogram",
    ANATOMY: "what remains if each tissue has one intensity in all scans",
}
_OF_TISSUES = "sd of the quartiles of WM, GM and CSF over scans, mean"


class Section(NamedTuple):
    """A table with its title.

    Attributes
    ----------
    title : what it shows.
    note : how to read it.
    head : the names of the columns.
    rows : cells.
    """

    title: str
    note: str
    head: list[str]
    rows: list[list[str]]


def overview(comparison: Comparison, made: Sequence[Table]) -> str:
    """Return the most important numbers in a table of at most 100 columns, and how to read it.

    Parameters
    ----------
    comparison : what was measured.
    made : its tables.
    """
    known = {table.name: table for table in made}
    columns: dict[str, dict[str, str]] = {}
    for name, column, title, _ in _OVERVIEW:
        if name in known:
            place = known[name].columns.index(column)
            cells = {str(row[0]): row[place] for row in known[name].rows}
            columns[title] = {
                one: _share(cell) if column == "balanced" else _cell(cell)
                for one, cell in cells.items()
            }
    if "tissue" in known:
        columns["tissues"] = {row[0]: f"{float(row[-2]):.3g}" for row in _tissue(comparison).rows}
    rows = [
        [_shortened(one.name), *(column.get(one.name, "–") for column in columns.values())]
        for one in comparison.conditions
    ]
    floors = [floor for floor in FLOORS if floor in columns.get("predicted", ())]
    rows += [
        [f"({floor})", *(column.get(floor, "–") for column in columns.values())] for floor in floors
    ]
    explained = {title: text for *_, title, text in _OVERVIEW} | {"tissues": _OF_TISSUES}
    notes = [f"{title:<9}  {explained[title]}" for title in columns]
    notes += [f"{f'({floor})':<9}  {_OF_FLOORS[floor]}" for floor in floors]
    return "\n".join([*_aligned([["condition", *columns], *rows]), "", *notes]) + "\n"


def sections(comparison: Comparison, made: Sequence[Table]) -> list[Section]:
    """Return the sections of the summary, given the tables of a comparison."""
    known = {table.name: table for table in made}
    parts = [_tissue(comparison)] if "tissue" in known else []
    parts += [_plain(known[name], *about) for name, about in ABOUT.items() if name in known]
    return parts


def as_text(parts: Sequence[Section], notes: Sequence[str]) -> str:
    """Return sections as plain text."""
    blocks = []
    for part in parts:
        body = _aligned([part.head, *part.rows])
        blocks.append("\n".join([part.title, part.note, "", *body]))
    if notes:
        blocks.append("\n".join(["Not done", *notes]))
    return "\n\n\n".join(blocks) + "\n"


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, whose columns but the first are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _tissue(comparison: Comparison) -> Section:
    """The paper's Table 1."""
    head = [f"{tissue} Q{quartile}" for tissue in TISSUE_ROWS for quartile in (1, 2, 3)]
    rows = []
    for condition in comparison.conditions:
        cells = tissue_cells(comparison, condition)
        texts = [
            f"{cell.mean:.3f}±{cell.sd:.3f}{_stars(cell.paired_holm, cell.unpaired_holm)}"
            for cell in cells
        ]
        mean = sum(cell.sd for cell in cells) / len(cells)
        relative = sum(cell.relative_sd for cell in cells) / len(cells)
        rows.append([condition.name, *texts, f"{mean:.4f}", f"{relative:.4f}"])
    return Section(
        TISSUES_TITLE,
        f"Mean ± sd over {len(comparison.shared)} scans. The sd is less than with {AFFINE}: "
        "* paired, † unpaired (Brown–Forsythe, Holm, p < .05). Last: mean sd, and the same in "
        "units of the gap between WM and GM.",
        ["condition", *head, "mean sd", "÷ gap"],
        rows,
    )


def _stars(paired: float | None, unpaired: float | None) -> str:
    marks = ((paired, "*"), (unpaired, "†"))
    return "".join(mark if p is not None and p < _SIGNIFICANT else " " for p, mark in marks)


def _plain(table: Table, title: str, note: str) -> Section:
    rows = [[_cell(part) for part in row] for row in table.rows]
    return Section(title, note, list(table.columns), rows)


def _share(part: Part) -> str:
    return f"{part:.0%}" if isinstance(part, float) else "–"


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME :]}"


def _cell(part: Part) -> str:
    if part is None:
        return "–"
    return f"{part:.3g}" if isinstance(part, float) else str(part)
