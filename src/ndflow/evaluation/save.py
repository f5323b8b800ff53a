"""Compare finished studies, and write tables, a summary in words, figures, and how it was made.

OUT/*.tsv            the numbers, see `ndflow.evaluation.tables`
OUT/verdict.txt      what became more alike, and at what cost, in words
OUT/summary.txt      the same, and the tables in the layout of the paper
OUT/*.svg, *.png     the figures
OUT/failures.tsv     scans that could not be read, if any
OUT/evaluation.json  what was compared, and how
"""

from __future__ import annotations

import math
import os
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ndflow._version import installing, not_installed
from ndflow.errors import FileError, InvalidValueError, NdflowError
from ndflow.evaluation.classification import run_followed
from ndflow.evaluation.comparison import Comparison, compare
from ndflow.evaluation.figures import Drawing, drawings
from ndflow.evaluation.summary import as_text, overview, sections, verdict
from ndflow.evaluation.tables import tables
from ndflow.files.atomic import AnyPath, refuse_links
from ndflow.files.model_files import write_listed
from ndflow.files.outputs import check_folder, make_folder
from ndflow.files.tables import table_bytes
from ndflow.options import Options
from ndflow.study.finished import unchanging
from ndflow.study.manifest import read_record
from ndflow.study.plan import EVALUATION, EVALUATION_RECORD
from ndflow.study.tasks import FAILURES, Progress, Silent, Task, failures_table
from ndflow.subject.records import EvaluationRecord
from ndflow.values import JSON, whole

# ── files ─────────────────────────────────────────────────────────────────────────────────────────

VERDICT = "verdict.txt"

_ELSEWHERE = "move it elsewhere, or choose another folder"


class Evaluation(NamedTuple):
    """What came of a comparison.

    Attributes
    ----------
    comparison : every scan under every condition.
    folder : where tables and figures are.
    text : the verdict, and all tables in the layout of the paper.
    verdict : what became more alike, and at what cost, in words; the most direct comparison first.
    overview : the most important numbers, with a column for each condition.
    """

    comparison: Comparison
    folder: Path
    text: str
    verdict: str
    overview: str

    def __repr__(self) -> str:
        """Return the verdict, and all tables."""
        return self.text


def check_evaluation(folder: Path, *, force: bool) -> None:
    """Say before any work why an evaluation may not be written to a folder, if so.

    Even with `force`, it replaces nothing but an earlier evaluation.
    """
    check_folder(folder)
    if folder.exists() and not folder.is_dir():
        raise FileError(folder, "not a folder", "choose another name for the results")
    if missing := not_installed("matplotlib", "sklearn"):
        raise InvalidValueError(f"an evaluation needs {missing[0]}; try {installing('evaluate')}")
    if not force and folder.is_dir() and any(folder.iterdir()):
        raise FileError(folder, "not empty", "choose another folder, or --force to write there")
    refuse_links(folder, _former(folder))


def _write(
    comparison: Comparison, folder: Path, progress: Progress, jobs: int, **made_by: JSON
) -> Evaluation:
    """Write all of it, and return what it says; `made_by` is the command, and what it chose."""
    made = tables(comparison)
    judged = verdict(comparison, made)
    whole = as_text(sections(made), comparison.notes)
    evaluation = Evaluation(comparison, folder, f"{judged}\n\n{whole}", judged, overview(made))
    tasks = [Task(one.name, {"self": one}) for one in drawings(comparison)]
    drawn, failures = run_followed(Drawing.files, tasks, "figures", progress, jobs)
    if failures:
        raise NdflowError(failures[0].message)
    contents = {VERDICT: judged.encode(), "summary.txt": evaluation.text.encode()}
    contents |= ChainMap(*drawn.values())
    for name, rows in made.items():
        cells = ([_cell(part) for part in row.values()] for row in rows)
        contents[f"{name}.tsv"] = table_bytes(list(rows[0]), cells)
    if comparison.failures:
        contents[FAILURES] = failures_table({"evaluate": comparison.failures})
    make_folder(folder)
    record = EvaluationRecord(
        results={run.name: run.results for run in comparison.runs},
        runs={run.name: str(run.study.folder) for run in comparison.runs},
        **made_by,
    )
    _write_listed(record, folder, contents, earlier=_former(folder))
    return evaluation


def _write_listed(
    record: EvaluationRecord, folder: Path, contents: Mapping[str, bytes], **how: Any
) -> None:
    """Write some files of an evaluation, and list them in its record besides what it lists."""

    def content(written: dict[str, str]) -> bytes:
        outputs = dict(sorted((record.outputs | written).items()))
        return replace(record, outputs=outputs).content()

    files = {folder / name: data for name, data in contents.items()}
    write_listed(folder / EVALUATION_RECORD, files, content, force=True, **how)


def add_table(
    folder: Path, name: str, columns: Sequence[str], rows: Sequence[Sequence[str | None]]
) -> None:
    """Write one more table of an evaluation, and note it in the evaluation's record."""
    record = EvaluationRecord.read(folder / EVALUATION_RECORD)
    _write_listed(record, folder, {name: table_bytes(columns, rows)})


def _former(folder: Path) -> list[Path]:
    """Return the files of an earlier evaluation in a folder."""
    record = folder / EVALUATION_RECORD
    refuse_links(folder, [record])
    if not record.exists():
        return []
    try:
        read = EvaluationRecord.read(record)
    except FileError as error:
        raise FileError(error.path, error.cause, _ELSEWHERE) from None
    return [folder / name for name in read.outputs]


def _cell(part: float | str | None) -> str | None:
    """Return a number with all its digits."""
    if part is None or (isinstance(part, float) and math.isnan(part)):
        return None
    return repr(float(part)) if isinstance(part, float) else str(part)


# ── the whole evaluation ──────────────────────────────────────────────────────────────────────────


def evaluate(
    runs: AnyPath | Sequence[AnyPath],
    *,
    output: AnyPath | None = None,
    covariate: str | Sequence[str] | None = None,
    permutations: int = 50,
    trees: int = 200,
    seed: int = 0,
    force: bool = False,
    jobs: int = 1,
    max_bytes: int = Options.max_bytes,
    progress: Progress | None = None,
    command: Sequence[str] = (),
) -> Evaluation | dict[str, Evaluation]:
    """Compare finished studies of the same scans, as ``ndflow evaluate`` does.

    The page of a study is not renewed, as the command does it: call `ndflow.report` afterwards.

    Parameters
    ----------
    runs : the folders of the studies.
    output : the folder for tables and figures. Default: ``evaluation`` in the study, if there is
        only one.
    covariate : columns of the table, with numbers such as ``age`` or two values such as ``sex``:
        are their effects on tissues, each given the others, preserved?
    permutations : how often sites are shuffled to measure the accuracy of chance; 0: not at all.
    trees : in a random forest.
    seed : of folds, forests and permutations.
    force : write to a folder that is not empty.
    jobs : how many scans, forests or figures at a time; -1 for one per core.
    max_bytes : refuse files with more bytes than this when decompressed.
    progress : follows how far the work has come.
    command : what the user typed, for the record.

    Returns
    -------
    Evaluation
        The comparison, and what it says: a verdict in words, and tables. Of a study whose channels
        were normalised together, one for each channel, in a folder of its name.

    Raises
    ------
    FileError, InvalidValueError
        Where a folder holds no finished study, or the studies cannot be compared.

    Examples
    --------
    >>> import ndflow
    >>> print(ndflow.evaluate("out", covariate="age").verdict)  # doctest: +SKIP
    """
    folders = [runs] if isinstance(runs, str | os.PathLike) else list(runs)
    if not folders:
        raise InvalidValueError("runs must name at least one study")
    if output is None and len(folders) != 1:
        raise InvalidValueError("a comparison of several runs needs a folder; give --output DIR")
    root = Path(folders[0]) if output is None else Path(output)
    folder = root / EVALUATION if output is None else root
    covariates = (covariate,) if isinstance(covariate, str) else tuple(covariate or ())
    numbers = {
        "permutations": whole(permutations, "permutations", 0, 1 << 20),
        "trees": whole(trees, "trees", 1, 1 << 20),
        "seed": whole(seed, "seed", 0, (1 << 32) - 1),
    }
    settings = {"covariate": list(covariates), **numbers}
    follow, how = progress or Silent(), {"jobs": jobs, "max_bytes": max_bytes}

    def one(place: Path, channel: str | None) -> Evaluation:
        with unchanging(folders, channel) as finished:
            refuse_links(root, [place])
            check_evaluation(place, force=force)
            comparison = compare(finished, follow, covariates=covariates, **how, **numbers)
        return _write(comparison, place, follow, jobs, command=tuple(command), settings=settings)

    channels = read_record(Path(folders[0])).channels
    if len(channels) < 2:
        return one(folder, None)
    check_evaluation(folder, force=force)
    make_folder(folder)
    return {name: one(folder / name, name) for name in channels}
