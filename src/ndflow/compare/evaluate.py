"""Compare finished studies, and write what came of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ndflow.compare.comparison import Comparison, compare
from ndflow.compare.save import check_evaluation, write_evaluation
from ndflow.errors import InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.scan.settings import Reading
from ndflow.study.finished import unchanging
from ndflow.study.folder import EVALUATION
from ndflow.study.passes import Progress, Silent
from ndflow.values import instance, path_like, short, whole

__all__ = ["Evaluation", "evaluate"]


class Evaluation(NamedTuple):
    """What came of a comparison.

    Attributes
    ----------
    comparison : every scan under every condition.
    folder : where tables and figures are.
    text : the verdict, and all tables in the layout of the paper.
    verdict : what became more alike, what it cost, and what to look at, in words.
    overview : the most important numbers, in a table of at most 100 columns.
    """

    comparison: Comparison
    folder: Path
    text: str
    verdict: str
    overview: str

    def __repr__(self) -> str:
        """Return the verdict, and all tables."""
        return self.text


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
    max_bytes: int = Reading.max_bytes,
    progress: Progress | None = None,
    command: Sequence[str] = (),
) -> Evaluation:
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
        The comparison, and what it says: a verdict in words, and tables.

    Raises
    ------
    FileError, InvalidValueError
        Where a folder holds no finished study, or the studies cannot be compared.

    Examples
    --------
    >>> import ndflow
    >>> print(ndflow.evaluate("out", covariate="age").verdict)  # doctest: +SKIP
    """
    if not isinstance(runs, str | os.PathLike | Sequence):
        raise InvalidValueError(f"runs must be a folder or a list of folders, not {short(runs)}")
    folders = [runs] if isinstance(runs, str | os.PathLike) else list(runs)
    for one in folders:
        path_like(one, "each run")
    if output is not None:
        path_like(output, "output")
    if not folders:
        raise InvalidValueError("runs must name at least one study")
    covariates = (covariate,) if isinstance(covariate, str) else tuple(covariate or ())
    for name in covariates:
        instance(name, "each covariate", str)
    seed = whole(seed, "seed", 0, (1 << 32) - 1)
    permutations = whole(permutations, "permutations", 0, 1 << 20)
    trees = whole(trees, "trees", 1, 1 << 20)
    if output is None and len(folders) != 1:
        raise InvalidValueError("a comparison of several runs needs a folder; give --output DIR")
    folder = Path(folders[0]) / EVALUATION if output is None else Path(output)
    with unchanging(folders) as finished:
        check_evaluation(folder, force=force)
        comparison = compare(
            finished,
            progress or Silent(),
            seed=seed,
            permutations=permutations,
            trees=trees,
            covariates=covariates,
            jobs=jobs,
            max_bytes=max_bytes,
        )
    texts = write_evaluation(
        comparison,
        folder,
        covariates=covariates,
        settings={
            "covariate": list(covariates),
            "permutations": permutations,
            "trees": trees,
            "seed": seed,
        },
        command=command,
        progress=progress,
        jobs=jobs,
    )
    return Evaluation(comparison, folder, texts.whole, texts.verdict, texts.overview)
