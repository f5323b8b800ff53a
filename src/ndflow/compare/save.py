"""The files of a comparison: tables, a summary in words, figures, and how it was made.

OUT/*.tsv            the numbers, see `ndflow.compare.result_tables`
OUT/summary.txt      the tables in the layout of the paper
OUT/*.svg, *.png     the figures
OUT/failures.tsv     scans that could not be read, if any
OUT/evaluation.json  what was compared, and how
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ndflow.compare.comparison import Comparison
from ndflow.compare.draw import figures
from ndflow.compare.result_tables import Part, tables
from ndflow.compare.summary import as_text, sections
from ndflow.errors import FileError, InvalidValueError
from ndflow.figures.export import png, svg
from ndflow.files.atomic import new_file
from ndflow.files.tables import write_table
from ndflow.record import JSON
from ndflow.scan.outputs import check_folder, make_folder
from ndflow.scan.records import EvaluationRecord
from ndflow.study.finished import results_fingerprint
from ndflow.study.parallel.tasks import record_failures

__all__ = ["RECORD", "check_evaluation", "write_evaluation"]

RECORD = "evaluation.json"


def check_evaluation(folder: Path, *, force: bool) -> None:
    """Say before any work why an evaluation may not be written to a folder, if so."""
    check_folder(folder)
    if folder.exists() and not folder.is_dir():
        raise FileError(folder, "not a folder", "choose another name for the results")
    for package in ("matplotlib", "sklearn"):
        if find_spec(package) is None:
            raise InvalidValueError(
                f"an evaluation needs {package}, which is not installed; "
                f"try pip install 'ndflow[evaluate]'"
            )
    if not force and folder.is_dir() and any(folder.iterdir()):
        raise FileError(folder, "not empty", "choose another folder, or --force to write there")


def write_evaluation(
    comparison: Comparison,
    folder: Path,
    *,
    covariate: str | None,
    settings: dict[str, JSON],
    command: Sequence[str],
) -> str:
    """Write all of it, and return the tables as text.

    Parameters
    ----------
    comparison : what was measured.
    folder : where to.
    covariate : the column whose effect is tested.
    settings : what the user chose, for the record.
    command : what the user typed, for the record.
    """
    files = ["summary.txt"]
    made = tables(comparison, covariate)
    lost = [f"{failure.scan}: {failure.message}" for failure in comparison.failures]
    text = as_text(sections(comparison, made), [*comparison.notes, *lost])
    make_folder(folder)
    _remove_former(folder)
    for table in made:
        rows = ([_cell(part) for part in row] for row in table.rows)
        write_table(folder / f"{table.name}.tsv", table.columns, rows)
        files.append(f"{table.name}.tsv")
    _write(folder / "summary.txt", text.encode())
    for name, figure in figures(comparison):
        _write(folder / f"{name}.svg", svg(figure))
        _write(folder / f"{name}.png", png(figure))
        files += [f"{name}.svg", f"{name}.png"]
    record_failures(folder, None, {"evaluate": comparison.failures})
    EvaluationRecord(
        results={run.name: results_fingerprint(run) for run in comparison.runs},
        files=tuple(sorted(files)),
        command=tuple(command),
        settings=settings,
        runs={run.name: str(run.study.folder) for run in comparison.runs},
        conditions=tuple(condition.name for condition in comparison.conditions),
        scans=tuple(scan.name for scan in comparison.scans),
        failed=tuple(failure.scan for failure in comparison.failures),
        notes=tuple(comparison.notes),
    ).write(folder / RECORD, force=True)
    return text


def _remove_former(folder: Path) -> None:
    """Remove what an earlier evaluation has left, which this one may not replace."""
    if (folder / RECORD).exists():
        for name in EvaluationRecord.read(folder / RECORD).files:
            (folder / Path(name).name).unlink(missing_ok=True)


def _cell(part: Part) -> str | None:
    """Return a number with all its digits."""
    if part is None or (isinstance(part, float) and math.isnan(part)):
        return None
    return repr(float(part)) if isinstance(part, float) else str(part)


def _write(path: Path, content: bytes) -> None:
    with new_file(path, force=True) as file:
        file.write(content)
