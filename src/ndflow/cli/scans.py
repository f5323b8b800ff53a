"""Scans that are named one by one: which they are, what becomes of each, what was written."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ndflow.cli.console import ProgressDisplay, print_error
from ndflow.cli.options import Verbosity
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import remove_abandoned
from ndflow.files.model_files import is_model
from ndflow.files.outputs import make_folder, refuse_given_twice, sidecar_of
from ndflow.image.mask import to_be_found
from ndflow.image.subject import CHANNEL, Subject, TissueMaps
from ndflow.study.tasks import FAILURES, Outcome, Task, check_jobs, record_failures, run_tasks
from ndflow.subject.voxels import check_found_mask
from ndflow.values import Doubt, plural

_NONZERO = "nonzero"  # of --mask
_NONE = "none"  # of --exclude
_WORD = re.compile(rf"({CHANNEL})=(.+)", re.DOTALL)  # T1w=a.nii.gz, a channel of one subject


def command_line() -> list[str]:
    """Return the command line as the user typed it, for the record."""
    return ["ndflow", *sys.argv[1:]]


# ── what was typed ────────────────────────────────────────────────────────────────────────────────


def typed_subjects(
    words: Sequence[str],
    *,
    mask: Sequence[str] = (),
    exclude: Sequence[str] = (),
    tissue_maps: Sequence[str] = (),
    joint: bool = False,
) -> list[Subject]:
    """Return the subjects on a command line: one per image, or one with several channels.

    Parameters
    ----------
    words : images, or ``NAME=IMAGE`` for each channel of one subject.
    mask, exclude, tissue_maps : of each subject, in order; ``auto`` or ``brain`` alone is for all.
    joint : whether channels are treated together.
    """
    images = _images(words, joint=joint)
    masks = _one_each(mask, images, "--mask")
    excluded = _one_each(exclude, images, "--exclude")
    tissues = _tissue_maps(images, tissue_maps)
    subjects = [Subject(*files) for files in zip(images, masks, excluded, tissues, strict=True)]
    for subject in subjects:
        check_found_mask(subject)
    return subjects


def _images(words: Sequence[str], *, joint: bool) -> list[Any]:
    """Return the images; or, in one dictionary, those of the channels of one subject."""
    plain = [word for word in words if channel_file(word) is None]
    if plain and len(plain) < len(words):
        raise InvalidValueError(
            f"{plain[0]}: without the name of a channel, among others with one; give all images "
            f"of the subject as NAME=FILE, for example T1w={plain[0]}, or all without"
        )
    if plain and joint:
        example = f"T1w={plain[0]} FLAIR={plain[1] if len(plain) > 1 else 'FILE'}"
        raise InvalidValueError(
            f"--joint: needs the channels of one subject by their names, for example {example}"
        )
    if plain or not words:
        return plain
    images: dict[str, str] = {}
    for name, file in filter(None, map(channel_file, words)):
        if name in images:
            raise InvalidValueError(
                f"{name}: two images of one channel, {images[name]} and {file}; one subject at a "
                f"time, with one image per channel"
            )
        images[name] = file
    refuse_given_twice([*images.values()])
    return [images]


def channel_file(word: str) -> tuple[str, str] | None:
    """Return the channel and the file that a word names; None for a plain path.

    A word that is the name of an existing file is that file, whatever it looks like.

    >>> channel_file("T1w=scans/a.nii.gz")
    ('T1w', 'scans/a.nii.gz')
    >>> channel_file("scans/desc=x.nii.gz") is None
    True
    """
    found = _WORD.fullmatch(word)
    return None if found is None or os.path.lexists(word) else (found[1], found[2])


def _tissue_maps(images: Sequence[Any], words: Sequence[str]) -> list[TissueMaps]:
    """Return the tissue probability maps of each image."""
    if not words:
        return [TissueMaps()] * len(images)
    found: dict[str, list[str]] = {name: [] for name in TissueMaps._fields}
    for word in words:
        name, equals, file = word.partition("=")
        if name not in found or not equals:
            raise InvalidValueError(f"--tissue-maps {word}: write csf=FILE gm=FILE wm=FILE")
        found[name].append(file)
    for name, files in found.items():
        if len(files) != len(images):
            raise InvalidValueError(
                f"--tissue-maps: {len(files)} of {name} for {plural(len(images), 'scan')}; give "
                f"csf, gm and wm of each, in order"
            )
    return [TissueMaps(*files) for files in zip(*found.values(), strict=True)]


def _one_each(given: Sequence[str], images: Sequence[Any], option: str) -> list[str | None]:
    """Return one file per image, from an option that is given for all images or not at all.

    A mask may be ``auto``, ``brain`` or ``nonzero``, for one image or for all; instead of a lesion
    mask, ``none`` stands for no file.

    Parameters
    ----------
    given : the values of the option, in the order of the images.
    images : the images.
    option : the name of the option, for messages.
    """
    if not given:
        return [None] * len(images)
    absent = _NONZERO if option == "--mask" else _NONE
    words = [name for name in given if to_be_found(name) or name == _NONZERO]
    if words and option != "--mask":
        raise InvalidValueError(f"{option}: {words[0]} is for --mask only; give a file, or none")
    files = [None if name == absent else name for name in given]
    if images and words and len(files) == 1:
        return files * len(images)
    if len(files) != len(images):
        scans, hint = plural(len(images), "image"), "give one for each, in the same order"
        if any(isinstance(image, dict) for image in images):
            scans, hint = "one subject", "its channels share one"
        raise InvalidValueError(f"{option}: {len(files)} given for {scans}; {hint}")
    return files


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
            ProgressDisplay(verbosity, lines=False, warnings_of=_warnings) as progress,
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
    failures = [outcome.failure for outcome in outcomes if outcome.failure]
    if folder is not None:
        scans = [task.scan for task in tasks]
        try:
            record_failures(folder, {stage: scans}, {stage: failures})
        except FileError as error:
            print_error(str(error))
    if failures and len(tasks) > 1:
        listed = f"; see {folder / FAILURES}" if folder else ""
        print_error(f"{len(failures)} of {len(tasks)} scans failed{listed}")
    done = [outcome.failure is None for outcome in outcomes]
    done = done * len(files) if len(done) == 1 else done
    written = [file for file, fine in zip(files, done, strict=False) if fine]
    images = not any(map(is_model, written))
    if len(written) == 1:
        beside = f" and its sidecar {sidecar_of(written[0]).name}" if images else ""
        verbosity.say(f"wrote {written[0]}{beside}")
    elif written:
        what = plural(len(written), "image" if images else "mixture")
        verbosity.say(f"wrote {what}{' and their sidecars' if images else ''} to {folder}")
    return (0 if not failures else 1 if len(failures) < len(tasks) else 2), outcomes


def _warnings(outcome: Outcome) -> Iterator[str]:
    """Yield the warnings and doubts about a scan; what channels share is said of the first."""
    found = outcome.result
    doubts: dict[Doubt, str] = {}
    for name, result in found.items() if isinstance(found, dict) else [("", found)]:
        files = result.record.inputs.get(name) if name else None
        path = files[0].file if files else outcome.scan
        doubts = dict.fromkeys(getattr(result, "doubts", ()), path) | doubts
        yield from getattr(result, "warnings", ())
    for doubt, path in doubts.items():
        yield f"{path}: {doubt}"
