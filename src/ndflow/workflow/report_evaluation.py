"""What an evaluation has left in the folder of a study, for its page."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from ndflow.errors import FileError
from ndflow.io import open_file, read_model
from ndflow.report import Numbers, Picture
from ndflow.workflow.evaluation_files import RECORD
from ndflow.workflow.runs import Run, fingerprint

__all__ = ["evaluated_numbers", "evaluated_pictures", "rows_of"]

_TABLES = {
    "tissue": "Quartiles of tissues",
    "fitness": "Histograms against the average density",
    "centres": "Distances between and within centres",
    "classification": "Centres told apart by random forests",
    "repeats": "Scans of the same subject",
    "covariate": "Effect of the covariate on tissues",
    "recovery": "Known intensity curves recovered",
}
_NOTES = {
    "fitness": "Medians over scans: differences of densities (mae, rmse), Wasserstein (w1), "
    "Kolmogorov–Smirnov (ks) and Jensen–Shannon (js) distances, differences of quantiles (qq); "
    "own: against the average of the condition itself; total variation and largest jump of the "
    "slope of the maps.",
    "centres": "Wasserstein distances of histograms in standard deviations; shares are of what "
    "alignment leaves.",
    "classification": "Share of scans whose centre is recognised by forests that have not seen "
    "them; chance by shuffled labels; entropy in bits.",
    "repeats": "Wasserstein distances of histograms within and between subjects.",
    "covariate": "Within centres; the correlation is partial, given the centre.",
    "recovery": "How far maps are from the true ones, in standard deviations, and how far they are "
    "from each other.",
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
        text = file.read().decode("utf-8")
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter="\t"))


def evaluated_numbers(folder: Path, run: Run) -> list[Numbers]:
    """Return the tables of an evaluation, if there was one of the results that are there now."""
    if not _is_current(folder, run):
        return []
    found = []
    for name, title in _TABLES.items():
        rows = rows_of(folder / f"{name}.tsv")
        if rows:
            note = f"{_NOTES.get(name, '')} All digits: evaluation/{name}.tsv.".strip()
            if name == "tissue":
                found.append(_tissue(title, note, rows))
                continue
            head = [column.replace("_", " ") for column in rows[0]]
            cells = [
                [
                    cell if column == "condition" else _shortened(cell)
                    for column, cell in row.items()
                ]
                for row in rows
            ]
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


def evaluated_pictures(folder: Path, run: Run) -> list[Picture]:
    """Return the figures of an evaluation, if there was one of the results that are there now."""
    if not _is_current(folder, run):
        return []
    return [
        Picture(path.read_bytes(), caption, caption)
        for name, caption in _PICTURES.items()
        if (path := folder / f"{name}.svg").exists()
    ]


def _is_current(folder: Path, run: Run) -> bool:
    try:
        _, record = read_model(folder / RECORD, "evaluation")
    except FileError:
        return False
    return fingerprint(run) in (record.get("results") or {}).values()


def _shortened(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        return "–" if text == "n/a" else text
    return text if text.isdigit() else f"{number:.3g}"
