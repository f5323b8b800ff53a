"""The evaluation of a study on its page, if there is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ndflow.errors import FileError
from ndflow.evaluation.save import VERDICT
from ndflow.evaluation.summary import ABOUT, TISSUES_TITLE, Section
from ndflow.evaluation.tissues import TISSUE_ROWS
from ndflow.files.model_files import read_text
from ndflow.files.stream import sha256_of
from ndflow.files.tables import read_delimited
from ndflow.reporting.content import Picture
from ndflow.study.plan import EVALUATION, EVALUATION_RECORD
from ndflow.subject.records import EvaluationRecord

_ABOUT = {
    "recovery": (  # of the demonstration
        "How well the scans agree, measured against the truth",
        "Spread: where all scans show the same value, by how much their true intensities differ. "
        "Between sites: W1 of their histograms. Both in standard deviations; less is better. "
        "Error: distance from a scale that is linear in the true intensities, which no method aims "
        "at: a common scale is only defined up to one increasing map for all scans. The tissue "
        "maps of auto are those that the scans were made from, better than any real ones; "
        "auto-without-maps was given none.",
    ),
    "tissue": (
        TISSUES_TITLE,
        "Mean ± sd over scans; *: sd less than z-scored (paired Brown–Forsythe, Holm, p < .05).",
    ),
    **ABOUT,
    "covariate": (
        ABOUT["covariate"][0],
        "Partial correlation within sites, each covariate given the others, with its 95 % "
        "interval; *: p < .05.",
    ),
}
_SIGNIFICANT = 0.05
_MAX_BYTES = 1 << 20
_AGAIN = "run ndflow evaluate again, or remove it"
_Row = Mapping[str, str]
_PICTURES = {
    **{
        f"tissues_{tissue}": f"Quartiles of {tissue} in each scan, by site, under each condition"
        for tissue in TISSUE_ROWS
    },
    "entropy": "Entropy of the predicted sites",
    "confidence": "Confidence of the predicted sites",
}


def evaluation_section(folder: Path, fingerprint: str, channel: str = "") -> dict[str, Any]:
    """Return the verdicts, tables and pictures of an evaluation for a `Page`; none without one.

    Parameters
    ----------
    folder : of the evaluations of a study.
    fingerprint : of the results that are there now; an evaluation of others is not shown.
    channel : that it is about, where each channel has an evaluation of its own.
    """
    about, folder = f"{channel}: " if channel else "", folder / channel
    try:
        record = EvaluationRecord.read(folder / EVALUATION_RECORD)
    except FileError:
        return {}
    if fingerprint not in record.results.values():
        return {}
    for name, sha256 in record.outputs.items():
        if (folder / name).exists() and sha256_of(folder / name) != sha256:
            raise FileError(folder / name, "cut short, or edited", _AGAIN)
    pictures = [
        Picture(path.read_bytes(), about + caption, about + caption)
        for name, caption in _PICTURES.items()
        if (path := folder / f"{name}.svg").exists()
    ]
    names = record.settings.get("covariate")
    covariate = " and ".join(map(str, names)) if isinstance(names, list) else ""
    where = f"{EVALUATION}/{channel}" if channel else EVALUATION
    tables = _tables(folder, where, covariate or "the covariate")
    return {
        "verdicts": [(about + title, parts) for title, parts in _verdicts(folder / VERDICT)],
        "tables": [table._replace(title=about + table.title) for table in tables],
        "pictures": pictures,
    }


def _verdicts(path: Path) -> list[tuple[str, list[tuple[str, list[str]]]]]:
    """Return what an evaluation says of each run, if anything."""
    if not path.exists():
        return []
    text = read_text(path, max_bytes=_MAX_BYTES).replace("\n  ", " ")  # unwrapped
    found = []
    for block in text.strip().split("\n\n"):
        title, *lines = block.splitlines()
        parts: list[tuple[str, list[str]]] = []
        for line in lines:
            if line.startswith("- "):
                parts[-1][1].append(line[2:])
            else:
                parts.append((line, []))
        found.append((title, parts))
    return found


def _tables(folder: Path, where: str, covariate: str) -> list[Section]:
    found = []
    for name, (title, note) in _ABOUT.items():
        path = folder / f"{name}.tsv"
        if path.exists():
            columns, read = read_delimited(path)
            rows = [dict(zip(columns, cells, strict=True)) for _, cells in read]
            head, lines = _arranged(rows, *_LAYOUTS.get(name, (["condition"], _plain)))
            note = f"{note} All digits: {where}/{name}.tsv."
            found.append(Section(title.replace("the covariate", covariate), note, head, lines))
    return found


def _arranged(
    rows: Sequence[_Row], keys: Sequence[str], cells: Callable[[_Row], _Row]
) -> tuple[list[str], list[list[str]]]:
    """Return head and cells of a table with one line for all rows that share some keys.

    Parameters
    ----------
    rows : as they were written.
    keys : the columns that the rows of a line share.
    cells : what a row says, by the columns of the line.
    """
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        lines.setdefault(tuple(row[key] for key in keys), {}).update(cells(row))
    head = [*keys, *next(iter(lines.values()))]
    cells_of = [[*shared, *own.values()] for shared, own in lines.items()]
    return [column.replace("_", " ") for column in head], cells_of


def _plain(row: _Row) -> _Row:
    return {column: _shortened(row[column]) for column in row if column != "condition"}


def _quartile(row: _Row) -> _Row:
    mean = f"{float(row['mean']) + 0.0:.2f}".replace("-0.00", "0.00")
    text = f"{mean} ± {float(row['sd']):.3f}{_mark(row['paired_holm'])}"
    return {f"{row['tissue']} Q{row['quartile']}": _unbroken(text)}


def _correlation(row: _Row) -> _Row:
    return {row["tissue"]: _estimate(row, "correlation", _mark(row["p"]))}


def _agreement(row: _Row) -> _Row:
    return {f"icc {row['tissue']}": _estimate(row, "icc")}


def _estimate(row: _Row, name: str, mark: str = "") -> str:
    """Return an estimate with its interval."""
    parts = (row[name], row[f"{name}_low"], row[f"{name}_high"])
    if "n/a" in parts:
        return _shortened(row[name])
    value, low, high = (f"{float(part):.2f}" for part in parts)
    return _unbroken(f"{value}{mark} [{low}, {high}]")


def _mark(p: str) -> str:
    return "*" if p != "n/a" and float(p) < _SIGNIFICANT else ""


def _unbroken(text: str) -> str:
    return text.replace("-", "−").replace(" ", "\N{NO-BREAK SPACE}")


# Tables with several rows per condition, as in the paper's Table 1.
_LAYOUTS: dict[str, tuple[list[str], Callable[[_Row], _Row]]] = {
    "tissue": (["condition"], _quartile),
    "covariate": (["condition", "covariate"], _correlation),
    "reliability": (["condition", "subjects"], _agreement),
}


def _shortened(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        return "–" if text == "n/a" else text
    return text if text.isdigit() else f"{number:.3g}"
