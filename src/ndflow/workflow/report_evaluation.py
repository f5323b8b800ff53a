"""What an evaluation has left in the folder of a study, for its page."""

from __future__ import annotations

import csv
from pathlib import Path

from ndflow.io import open_file
from ndflow.report import Numbers, Picture

__all__ = ["evaluated_numbers", "evaluated_pictures", "rows_of"]

_TABLES = {
    "tissue": "Quartiles of tissues",
    "fitness": "Histograms against the average density",
    "centres": "Distances between and within centres",
    "classification": "Centres told apart by random forests",
    "repeats": "Scans of the same subject",
    "covariate": "Effect of the covariate on tissues",
}
_LIKELY = 0.05
_PICTURES = {
    "tissues": "Quartiles of tissues by centre, under each condition",
    "predictions": "Entropy and confidence of predicted centres",
    "fitness": "One scan under each condition: histogram and quantiles against the target",
}


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table that may be there."""
    if not path.exists():
        return []
    with open_file(path) as file:
        lines = file.read().decode("utf-8").splitlines()
    return list(csv.DictReader(lines, delimiter="\t"))


def evaluated_numbers(folder: Path) -> list[Numbers]:
    """Return the tables of an evaluation, if there was one."""
    found = []
    for name, title in _TABLES.items():
        rows = rows_of(folder / f"{name}.tsv")
        if rows:
            note = f"With all digits in evaluation/{name}.tsv."
            if name == "tissue":
                found.append(_tissue(title, note, rows))
                continue
            head = [column.replace("_", " ") for column in rows[0]]
            cells = [[_shortened(cell) for cell in row.values()] for row in rows]
            found.append(Numbers(title, note, head, cells))
    return found


def _tissue(title: str, note: str, rows: list[dict[str, str]]) -> Numbers:
    """Return the quartiles with a row a condition, as the paper's Table 1 has them."""
    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        less = row["paired_holm"] != "n/a" and float(row["paired_holm"]) < _LIKELY
        text = f"{float(row['mean']):.2f} ± {float(row['sd']):.3f}{'*' if less else ''}"
        cells.setdefault(row["condition"], {})[f"{row['tissue']} Q{row['quartile']}"] = text
    names = list(next(iter(cells.values())))
    lines = [[condition, *(own[name] for name in names)] for condition, own in cells.items()]
    how = "Mean ± sd over scans; *: sd less than aligned (paired Brown–Forsythe, Holm, p < .05). "
    return Numbers(title, how + note, ["condition", *names], lines)


def evaluated_pictures(folder: Path) -> list[Picture]:
    """Return the figures of an evaluation, if there was one."""
    return [
        Picture(path.read_bytes(), caption, caption)
        for name, caption in _PICTURES.items()
        if (path := folder / f"{name}.svg").exists()
    ]


def _shortened(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        return "–" if text == "n/a" else text
    return text if text.isdigit() else f"{number:.3g}"
