"""The evaluation of a study on its page, if there is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ndflow.errors import FileError
from ndflow.evaluation.measure import TISSUE_ROWS
from ndflow.evaluation.save import VERDICT
from ndflow.evaluation.summary import ABOUT, TISSUES_TITLE
from ndflow.files.model_files import read_text
from ndflow.files.stream import sha256_of
from ndflow.files.tables import read_delimited
from ndflow.reporting.content import Numbers, Picture, Verdict
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
_PICTURES = {
    **{
        f"tissues_{tissue}": f"Quartiles of {tissue} in each scan, by site, under each condition"
        for tissue in TISSUE_ROWS
    },
    "entropy": "Entropy of the predicted sites",
    "confidence": "Confidence of the predicted sites",
}


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table that we wrote; none if it does not exist.

    Raises
    ------
    FileError : if the table was cut short.
    """
    if not path.exists():
        return []
    try:
        columns, rows = read_delimited(path, delimiter="\t")
    except FileError as error:
        raise FileError(path, error.cause, _AGAIN) from None
    if not (columns and path.read_bytes().endswith(b"\n")):
        raise FileError(path, "cut short, or edited", _AGAIN)
    return [dict(zip(columns, cells, strict=True)) for _, cells in rows]


class EvaluationSection(NamedTuple):
    """What the page shows of an evaluation: nothing, if there is none."""

    verdicts: list[Verdict]
    tables: list[Numbers]
    pictures: list[Picture]


_NOTHING = EvaluationSection([], [], [])


def evaluation_section(folder: Path, fingerprint: str) -> EvaluationSection:
    """Return the verdict, the tables and the figures of an evaluation.

    Parameters
    ----------
    folder : of the evaluation.
    fingerprint : of the results that are there now; an evaluation of others is not shown.
    """
    try:
        record = EvaluationRecord.read(folder / EVALUATION_RECORD)
    except FileError:
        return _NOTHING
    if fingerprint not in record.results.values():
        return _NOTHING
    for name, sha256 in record.sha256.items():
        if (folder / name).exists() and sha256_of(folder / name) != sha256:
            raise FileError(folder / name, "cut short, or edited", _AGAIN)
    pictures = [
        Picture(path.read_bytes(), caption, caption)
        for name, caption in _PICTURES.items()
        if (path := folder / f"{name}.svg").exists()
    ]
    covariate = record.settings.get("covariate")
    names = covariate if isinstance(covariate, list) else [covariate] if covariate else []
    tables = _tables(folder, " and ".join(map(str, names)) or "the covariate")
    return EvaluationSection(_verdicts(folder / VERDICT), tables, pictures)


def _verdicts(path: Path) -> list[Verdict]:
    """Return the verdict of an evaluation; none of evaluations that have no such file."""
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


def _tables(folder: Path, covariate: str) -> list[Numbers]:
    found = []
    for name, (title, note) in _ABOUT.items():
        rows = rows_of(folder / f"{name}.tsv")
        if rows:
            try:
                head, cells = _LAYOUTS.get(name, _plain)(rows)
            except (KeyError, ValueError) as error:
                cause = f"not a table of an evaluation ({error})"
                raise FileError(folder / f"{name}.tsv", cause, _AGAIN) from None
            note = f"{note} All digits: evaluation/{name}.tsv."
            found.append(Numbers(title.replace("the covariate", covariate), note, head, cells))
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
    """Return the quartiles with one row per condition, as in the paper's Table 1."""
    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        less = row["paired_holm"] != "n/a" and float(row["paired_holm"]) < _SIGNIFICANT
        mean = f"{float(row['mean']) + 0.0:.2f}".replace("-0.00", "0.00").replace("-", "−")
        # Blanks at which no line is broken.
        text = f"{mean}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{float(row['sd']):.3f}{'*' * less}"
        cells.setdefault(row["condition"], {})[f"{row['tissue']} Q{row['quartile']}"] = text
    names = list(next(iter(cells.values())))
    lines = [[condition, *(own[name] for name in names)] for condition, own in cells.items()]
    return ["condition", *names], lines


def _covariate(rows: Sequence[Mapping[str, str]]) -> tuple[list[str], list[list[str]]]:
    """Return correlations with their intervals, one row per condition and covariate."""
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        ends = ", ".join(f"{float(row[f'correlation_{end}']):.2f}" for end in ("low", "high"))
        mark = "*" * (float(row["p"]) < _SIGNIFICANT)
        text = f"{float(row['correlation']):.2f}{mark} [{ends}]".replace("-", "−")
        own = cells.setdefault((row["condition"], row["covariate"]), {})
        own[row["tissue"]] = text.replace(" ", "\N{NO-BREAK SPACE}")
    tissues = list(next(iter(cells.values())))
    lines = [[*known, *(own[name] for name in tissues)] for known, own in cells.items()]
    return ["condition", "covariate", *tissues], lines


def _reliability(rows: Sequence[Mapping[str, str]]) -> tuple[list[str], list[list[str]]]:
    """Return the coefficients of all tissues with their intervals, one row per condition."""
    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        own = cells.setdefault(row["condition"], {"subjects": row["subjects"]})
        own[f"icc {row['tissue']}"] = _with_interval(row, "icc")
    names = list(next(iter(cells.values())))
    return ["condition", *names], [[one, *own.values()] for one, own in cells.items()]


def _with_interval(row: Mapping[str, str], name: str) -> str:
    """Return a number and the ends of its interval, where the table has them."""
    ends = [row.get(f"{name}_{end}", "n/a") for end in ("low", "high")]
    if "n/a" in (row[name], *ends):
        return _shortened(row[name])
    value, low, high = (f"{float(text):.2f}".replace("-", "−") for text in (row[name], *ends))
    return f"{value} [{low}, {high}]".replace(" ", "\N{NO-BREAK SPACE}")


_LAYOUTS = {"tissue": _tissue, "covariate": _covariate, "reliability": _reliability}


def _shortened(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        return "–" if text == "n/a" else text
    return text if text.isdigit() else f"{number:.3g}"
