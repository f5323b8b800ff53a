"""What an evaluation has left in the folder of a study, for its page."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from ndflow.compare.save import RECORD
from ndflow.compare.text import ABOUT, TISSUES_TITLE
from ndflow.errors import FileError
from ndflow.files.json_model import read_model
from ndflow.files.stream import open_file
from ndflow.report.content import Numbers, Picture
from ndflow.study.finished import FinishedStudy, results_fingerprint

__all__ = ["evaluated_numbers", "evaluated_pictures", "rows_of"]

_ABOUT = {
    "tissue": (
        TISSUES_TITLE,
        "Mean ± sd over scans; *: sd less than aligned (paired Brown–Forsythe, Holm, p < .05).",
    ),
    **ABOUT,
    "recovery": (  # of the demonstration
        "Known intensity curves recovered",
        "How far maps are from the true ones, in standard deviations, and how far from each other.",
    ),
}
_LIKELY = 0.05
_PICTURES = {
    "tissues": "Quartiles of tissues by site, under each condition",
    "predictions": "Entropy and confidence of predicted sites",
    "fitness": "One scan under each condition: histogram and quantiles against the target",
}


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table that may be there."""
    if not path.exists():
        return []
    with open_file(path) as file:
        text = file.read().decode("utf-8")
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter="\t"))


def evaluated_numbers(folder: Path, run: FinishedStudy) -> list[Numbers]:
    """Return the tables of an evaluation, if there was one of the results that are there now."""
    if not _is_current(folder, run):
        return []
    found = []
    for name, (title, note) in _ABOUT.items():
        rows = rows_of(folder / f"{name}.tsv")
        if rows:
            head, cells = (_tissue if name == "tissue" else _plain)(rows)
            note = f"{note} All digits: evaluation/{name}.tsv."
            found.append(Numbers(title, note, head, cells))
    return found


def _plain(rows: Sequence[Mapping[str, str]]) -> tuple[list[str], list[list[str]]]:
    """Return head and cells of a table as it is, with numbers shortened."""
    head = [column.replace("_", " ") for column in rows[0]]
    cells = [
        [cell if column == "condition" else _shortened(cell) for column, cell in row.items()]
        for row in rows
    ]
    return head, cells


def _tissue(rows: Sequence[Mapping[str, str]]) -> tuple[list[str], list[list[str]]]:
    """Return the quartiles with a row a condition, as the paper's Table 1 has them."""
    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        less = row["paired_holm"] != "n/a" and float(row["paired_holm"]) < _LIKELY
        text = f"{float(row['mean']):.2f} ± {float(row['sd']):.3f}{'*' if less else ''}"
        cells.setdefault(row["condition"], {})[f"{row['tissue']} Q{row['quartile']}"] = text
    names = list(next(iter(cells.values())))
    lines = [[condition, *(own[name] for name in names)] for condition, own in cells.items()]
    return ["condition", *names], lines


def evaluated_pictures(folder: Path, run: FinishedStudy) -> list[Picture]:
    """Return the figures of an evaluation, if there was one of the results that are there now."""
    if not _is_current(folder, run):
        return []
    return [
        Picture(path.read_bytes(), caption, caption)
        for name, caption in _PICTURES.items()
        if (path := folder / f"{name}.svg").exists()
    ]


def _is_current(folder: Path, run: FinishedStudy) -> bool:
    try:
        _, record = read_model(folder / RECORD, "evaluation")
    except FileError:
        return False
    return results_fingerprint(run) in (record.get("results") or {}).values()


def _shortened(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        return "–" if text == "n/a" else text
    return text if text.isdigit() else f"{number:.3g}"
