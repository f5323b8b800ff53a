"""The evaluation of a study in its report, if there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ndflow.errors import FileError
from ndflow.evaluation.save import VERDICT
from ndflow.evaluation.summary import sections
from ndflow.evaluation.tissues import TISSUE_ROWS
from ndflow.files.model_files import read_text
from ndflow.files.stream import sha256_of
from ndflow.files.tables import read_delimited
from ndflow.reporting.content import Picture
from ndflow.study.plan import EVALUATION, EVALUATION_RECORD
from ndflow.subject.records import EvaluationRecord

_MAX_BYTES = 1 << 20
_HIDDEN = "fitness"  # a table for experts, which only its file holds


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
    files = {Path(name): sha256 for name, sha256 in record.outputs.items()}
    files = {name: sha256 for name, sha256 in files.items() if (folder / name).exists()}
    for name, sha256 in files.items():
        if sha256_of(folder / name) != sha256:
            hint = "run ndflow evaluate again, or remove it"
            raise FileError(folder / name, "cut short, or edited", hint)
    pictures = [
        Picture(
            (folder / f"tissues_{tissue}.svg").read_bytes(),
            f"{about}quartiles of {tissue} in each scan, by site, under each condition",
        )
        for tissue in TISSUE_ROWS
        if Path(f"tissues_{tissue}.svg") in files
    ]
    made = {name.stem: _rows(folder / name) for name in files if name.suffix == ".tsv"}
    where = "/".join((EVALUATION, channel)).rstrip("/")
    tables = [
        one._replace(title=about + one.title, note=f"{one.note} All digits: {where}/{one.name}.tsv")
        for one in sections(made)
        if one.name != _HIDDEN
    ]
    verdicts = _verdicts(folder / VERDICT) if Path(VERDICT) in files else []
    return {
        "verdicts": [(about + title, parts) for title, parts in verdicts],
        "tables": tables,
        "pictures": pictures,
    }


def _verdicts(path: Path) -> list[tuple[str, list[tuple[str, list[str]]]]]:
    """Return what an evaluation says of each run, if anything."""
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


def _rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a table as they were before they were written."""
    columns, rows = read_delimited(path)
    return [
        {name: _value(name, text) for name, text in zip(columns, cells, strict=True)}
        for _, cells in rows
    ]


def _value(column: str, text: str) -> str | float | None:
    if column == "condition":
        return text
    if text == "n/a":
        return None
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        return text
