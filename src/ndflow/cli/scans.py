"""Scans that are named one by one: which they are, what becomes of each, what was written."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ndflow.cli.console import ProgressDisplay, Verbosity, print_error, results_of
from ndflow.cli.endings import warn_of_scans
from ndflow.cli.options import ScanOptions
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import remove_abandoned
from ndflow.files.model_files import is_model
from ndflow.files.outputs import make_folder, refuse_given_twice, sidecar_of
from ndflow.image.mask import to_be_found
from ndflow.image.subject import CHANNEL, Subject, TissueMaps
from ndflow.study.tasks import FAILURES, Outcome, Task, check_jobs, record_failures, run_tasks
from ndflow.subject.records import MapRecord
from ndflow.subject.voxels import check_found_mask
from ndflow.values import Doubt, plural

_NONZERO = "nonzero"  # of --mask
_NONE = "none"  # of --exclude
_WORD = re.compile(rf"({CHANNEL})=(.+)", re.DOTALL)  # T1w=a.nii.gz, a channel of one subject


# ── what was typed ────────────────────────────────────────────────────────────────────────────────


def typed_subjects(
    words: Sequence[str], given: ScanOptions, *, joint: bool = False
) -> list[Subject]:
    """Return the subjects on a command line: one per image, or one with several channels.

    Parameters
    ----------
    words : images, or ``NAME=IMAGE`` for each channel of one subject.
    given : masks and tissue maps of each subject, in order; ``auto`` or ``brain`` alone is for all.
    joint : whether channels are treated together.
    """
    images = _images(words, joint=joint)
    masks = [None if one == _NONZERO else one for one in given.mask]
    if len(masks) == 1 and (masks[0] is None or to_be_found(masks[0])):
        masks *= len(images)
    for word in filter(to_be_found, given.exclude):
        raise InvalidValueError(f"--exclude: {word} is for --mask only; give a file, or none")
    columns = [
        _one_each(masks, images, "--mask"),
        _one_each([None if one == _NONE else one for one in given.exclude], images, "--exclude"),
        _tissue_maps(images, given.tissue_maps),
    ]
    subjects = [Subject(*files) for files in zip(images, *columns, strict=True)]
    for subject in subjects:
        check_found_mask(subject)
    return subjects


def _images(words: Sequence[str], *, joint: bool) -> list[Any]:
    """Return the images; or, in one dictionary, those of the channels of one subject."""
    # A word that is the name of an existing file is that file, whatever it looks like.
    found = [None if os.path.lexists(word) else _WORD.fullmatch(word) for word in words]
    named = [(match[1], match[2]) for match in found if match]
    if not named and not joint:
        return [*words]
    if len(named) < len(words):
        plain = words[found.index(None)]
        raise InvalidValueError(
            f"{plain}: without the name of a channel; --joint, and images with names, are for the "
            f"channels of one subject, for example T1w={plain} FLAIR=FILE"
        )
    images = dict(named)
    if len(images) < len(named):
        raise InvalidValueError(f"{' '.join(words)}: two images of one channel; give one of each")
    refuse_given_twice([*images.values()])
    return [images]


def _tissue_maps(images: Sequence[Any], words: Sequence[str]) -> list[TissueMaps]:
    """Return the tissue probability maps of each image."""
    if not words:
        return [TissueMaps()] * len(images)
    pairs = [word.partition("=")[::2] for word in words]
    found = [[file for tissue, file in pairs if tissue == name] for name in TissueMaps._fields]
    if len(words) != 3 * len(images) or any(len(files) != len(images) for files in found):
        raise InvalidValueError(
            f"--tissue-maps {' '.join(words)}: write csf=FILE gm=FILE wm=FILE for "
            f"{plural(len(images), 'scan')}, in order"
        )
    return [TissueMaps(*files) for files in zip(*found, strict=True)]


def _one_each(
    given: Sequence[str | None], images: Sequence[Any], option: str
) -> Sequence[str | None]:
    """Return one file per image, from an option that is given for all images or not at all."""
    if given and len(given) != len(images):
        scans, hint = plural(len(images), "image"), "give one for each, in the same order"
        if any(isinstance(image, dict) for image in images):
            scans, hint = "one subject", "its channels share one"
        raise InvalidValueError(f"{option}: {len(given)} given for {scans}; {hint}")
    return given or [None] * len(images)


# ── what becomes of each ──────────────────────────────────────────────────────────────────────────


def run_scans(
    stage: str,
    function: Callable[..., Any],
    tasks: Sequence[Task],
    verbosity: Verbosity,
    *,
    jobs: int = 1,
    folder: Path | None = None,
    files: Sequence[Path] = (),
) -> tuple[int, list[Outcome]]:
    """Run a function on each scan, and print on one line what was written.

    Parameters
    ----------
    stage : the name of the work, for the progress bar and the list of failures.
    function, tasks, jobs : see `run_tasks`; the result of the function may have warnings, and
        doubts about the scan.
    verbosity : how much to print.
    folder : the folder for the results and the list of failures; created if it does not exist.
    files : where results go, images or mixtures; a single scan may have several channels.

    Returns
    -------
    tuple of int and list of Outcome
        The exit code, and the outcome of each scan.
    """
    outcomes: list[Outcome] = []
    check_jobs(jobs)
    make_folder(folder)
    try:
        with (
            ProgressDisplay(verbosity, lines=False) as progress,
            closing(run_tasks(function, tasks, jobs=jobs)) as work,
        ):
            if len(tasks) > 1:
                progress.begin(stage, len(tasks))
            for outcome in work:
                progress.step(stage, outcome)
                outcomes.append(outcome)
    finally:
        if folder is not None:
            remove_abandoned(folder)  # temporary files of workers that were stopped
    doubts = dict(pair for one in outcomes for pair in _doubts(one).items())
    if len(tasks) > 1:
        warn_of_scans(doubts, len(tasks), verbosity)
    else:
        for path, doubt in ((path, doubt) for path, own in doubts.items() for doubt in own):
            verbosity.warn(f"{path}: {doubt}")
    failures = [outcome.failure for outcome in outcomes if outcome.failure]
    if folder is not None:
        try:
            record_failures(folder, {stage: [task.scan for task in tasks]}, {stage: failures})
        except FileError as error:
            print_error(str(error))
    if failures and len(tasks) > 1:
        listed = f"; see {folder / FAILURES}" if folder else ""
        print_error(f"{len(failures)} of {len(tasks)} scans failed{listed}")
    done = [outcome.failure is None for outcome in outcomes]
    done = done * len(files) if len(done) == 1 else done
    written = [file for file, fine in zip(files, done, strict=False) if fine]
    if len(written) == 1:
        model = is_model(written[0])
        beside = "" if model else f" and its sidecar {sidecar_of(written[0]).name}"
        verbosity.say(f"wrote {written[0]}{beside}")
    elif written:
        verbosity.say(f"wrote {plural(len(written), 'result')} to {folder}")
    return (0 if not failures else 1 if len(failures) < len(tasks) else 2), outcomes


def quality(records: Sequence[MapRecord]) -> str:
    """Return in a line how well images were brought to their target; of several, the worst."""
    matches = [one.match for one in records if one.match is not None]
    pairs = [one.divergence for one in matches if one.divergence and one.divergence.before]
    slopes = [one.slopes[1] for one in matches if one.slopes]
    said = [(one.warnings, one.doubts, one.target and one.target.doubts) for one in records]
    flagged, parts = sum(map(any, said)), []
    if pairs:
        left = max(one.after / one.before for one in pairs)
        least = "at least " if len(records) > 1 else ""
        parts.append(
            f"{least}{int(100 * (1 - left))}% less difference from the target than z-scored"
        )
    if slopes:
        parts.append(f"noise amplified up to {max(slopes):.2g} times")
    of = f"warnings about {flagged} of {plural(len(records), 'image')}"
    return "; ".join([*parts, of if flagged else "no warnings"])


def _doubts(outcome: Outcome) -> dict[str, list[Doubt]]:
    """Return the doubts about each image of a scan; what channels share is said of the first."""
    found: dict[str, list[Doubt]] = {}
    said: set[Doubt] = set()
    for name, result in results_of(outcome).items():
        files = result.record.inputs.get(name) if name else None
        own = [doubt for doubt in getattr(result, "doubts", ()) if doubt not in said]
        found[files[0].file if files else outcome.scan] = own
        said.update(own)
    return found
