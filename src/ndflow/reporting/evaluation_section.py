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
from ndflow.reporting.content import Picture, Verdict
from ndflow.study.folder import EVALUATION_RECORD
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
        "Mean ± sd over scans; *: sd less than aligned (paired Brown–Forsythe, Holm, p < .05).",
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
_AGAIN = "make it anew (ndflow evaluate), or remove it"
_Row = Mapping[str, str]
_PICTURES = {
    **{
        f"tissues_{tissue}": f"Quartiles of {tissue} in each scan, by site, under each condition"
        for tissue in TISSUE_ROWS
    },
    "entropy": "Entropy of the predicted sites",
    "confidence": "Confidence of the predicted sites",
}


def evaluation_section(folder: Path, fingerprint: str) -> dict[str, Any]:
    """Return the verdicts, tables and pictures of an evaluation for a `Page`; none without one.

    Parameters
    ----------
    folder : of the evaluation.
    fingerprint : of the results that are there now; an evaluation of others is not shown.
    """
    try:
        record = EvaluationRecord.read(folder / EVALUATION_RECORD)
    except FileError:
        return {}
    if fingerprint not in record.results.values():
        return {}
    for name, sha256 in record.sha256.items():
        if (folder / name).exists() and sha256_of(folder / name) != sha256:
            raise FileError(folder / name, "cut short, or edited", _AGAIN)
    pictures = [
        Picture(path.read_bytes(), caption, caption)
        for name, caption in _PICTURES.items()
        if (path := folder / f"{name}.svg").exists()
    ]
    names = record.settings.get("covariate")
    covariate = " and ".join(map(str, names)) if isinstance(names, list) else ""
    return {
        "verdicts": _verdicts(folder / VERDICT),
        "tables": _tables(folder, covariate or "the covariate"),
        "pictures": pictures,
    }


def _verdicts(path: Path) -> list[Verdict]:
    """Return what an evaluation says of each run, if anything."""
    if not path.exists():
        return []
    found = []
    for block in read_text(path, max_bytes=_MAX_BYTES).strip().split("\n\n"):
        title, *lines = block.splitlines()
        parts: list[tuple[str, list[str]]] = []
        for line in lines:
            if line.startswith("- "):
                parts[-1][1].append(line[2:])
            elif line.startswith("  "):
                parts[-1][1][-1] += f" {line.strip()}"
            else:
                parts.append((line, []))
        found.append(Verdict(title, parts))
    return found


def _tables(folder: Path, covariate: str) -> list[Section]:
    found = []
    for name, (title, note) in _ABOUT.items():
        path = folder / f"{name}.tsv"
        if path.exists():
            columns, read = read_delimited(path, delimiter="\t")
            rows = [dict(zip(columns, cells, strict=True)) for _, cells in read]
            head, lines = _pivoted(rows, *_LAYOUTS[name]) if name in _LAYOUTS else _plain(rows)
            note = f"{note} All digits: evaluation/{name}.tsv."
            found.append(Section(title.replace("the covariate", covariate), note, head, lines))
    return found


def _plain(rows: Sequence[_Row]) -> tuple[list[str], list[list[str]]]:
    """Return head and cells of a table as it is, with numbers shortened."""
    head = [column.replace("_", " ") for column in rows[0]]
    cells = [
        [cell if column == "condition" else _shortened(cell) for column, cell in row.items()]
        for row in rows
    ]
    return head, cells


def _pivoted(
    rows: Sequence[_Row], keys: Sequence[str], column: str, cell: Callable[[_Row], str]
) -> tuple[list[str], list[list[str]]]:
    """Return head and cells of a table with one line for all rows that share some keys.

    Parameters
    ----------
    rows : as they were written.
    keys : the columns that the rows of a line share.
    column : the name of the column that a row belongs to, from its parts.
    cell : what a row says.
    """
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        # Blanks at which no line is broken.
        text = cell(row).replace("-", "−").replace(" ", "\N{NO-BREAK SPACE}")
        lines.setdefault(tuple(row[key] for key in keys), {})[column.format(**row)] = text
    names = list(next(iter(lines.values())))
    return [*keys, *names], [[*shared, *own.values()] for shared, own in lines.items()]


def _quartile(row: _Row) -> str:
    less = row["paired_holm"] != "n/a" and float(row["paired_holm"]) < _SIGNIFICANT
    mean = f"{float(row['mean']) + 0.0:.2f}".replace("-0.00", "0.00")
    return f"{mean} ± {float(row['sd']):.3f}{'*' * less}"


def _correlation(row: _Row) -> str:
    mark = "*" * (float(row["p"]) < _SIGNIFICANT)
    return f"{float(row['correlation']):.2f}{mark} [{_interval(row, 'correlation')}]"


def _agreement(row: _Row) -> str:
    if "n/a" in (row["icc"], row["icc_low"], row["icc_high"]):
        return _shortened(row["icc"])
    return f"{float(row['icc']):.2f} [{_interval(row, 'icc')}]"


def _interval(row: _Row, name: str) -> str:
    return f"{float(row[f'{name}_low']):.2f}, {float(row[f'{name}_high']):.2f}"


# Tables with several rows per condition, as in the paper's Table 1.
_LAYOUTS: dict[str, tuple[Sequence[str], str, Callable[[_Row], str]]] = {
    "tissue": (["condition"], "{tissue} Q{quartile}", _quartile),
    "covariate": (["condition", "covariate"], "{tissue}", _correlation),
    "reliability": (["condition", "subjects"], "icc {tissue}", _agreement),
}


def _shortened(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        return "–" if text == "n/a" else text
    return text if text.isdigit() else f"{number:.3g}"
