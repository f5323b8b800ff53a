"""Listing: the subjects that a table, a folder or a BIDS dataset lists; and names of results.

Plain results are ``OUT/images/<name>.nii.gz`` with sidecars ``OUT/maps/<name>.json``; those of a
BIDS dataset have the names of a BIDS derivative, with sidecars beside the images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol
from unicodedata import normalize

from ndflow.errors import FileError
from ndflow.files.outputs import safe_name, stem
from ndflow.image.mask import FoundMask
from ndflow.image.subject import Output, Subject


@dataclass(frozen=True)
class Listing:
    """Subjects, and where they were listed.

    Attributes
    ----------
    subjects : as they were listed.
    source : what messages call the list.
    root : the folder that the sources of results are relative to.
    table : the file of the list, if it is one.
    unused : columns that are not used, and why not.
    skipped : how many images are not scans, by reason.
    warnings : for the user.
    """

    subjects: Sequence[Subject]
    source: str
    root: Path
    table: str | None = None
    unused: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    warnings: Sequence[str] = ()

    def alone(self, channel: str) -> Listing:
        """Return the same with one of several channels only."""
        subjects = [subject.alone(channel) for subject in self.subjects]
        return replace(self, subjects=subjects, source=f"{self.source} ({channel})")


class Naming(Protocol):
    """What results are called."""

    def output(self, subject: Subject, image: str, name: str) -> Output:
        """Return where the result of an image goes.

        Parameters
        ----------
        subject : that it is of.
        image : the file.
        name : its name among others.
        """


class PlainNames:
    """Results in a folder of images and one of sidecars."""

    def output(self, subject: Subject, image: str, name: str) -> Output:
        """Return where the result of an image goes; see `Naming`."""
        return Output(name, f"images/{name}.nii.gz", f"maps/{name}.json")


def named(
    subjects: Sequence[Subject], naming: Naming, unmasked: FoundMask | None = None
) -> list[Subject]:
    """Return subjects with names of their own, and the places of their results.

    An image is called like its file. Where several files have the same name, that of the person, or
    else of the site, comes first.

    Parameters
    ----------
    subjects : as they were listed.
    naming : what results are called.
    unmasked : the mask to find for subjects without one.

    Raises
    ------
    FileError : if two images would have the same name, apart from upper and lower case.
    """
    called = Counter(alike(stem(str(image))) for one in subjects for image in one.images.values())
    within = any(
        len({alike(stem(str(image))) for image in one.images.values()}) < len(one.images)
        for one in subjects
    )
    seen: dict[str, tuple[int, str, str]] = {}  # by name: which subject and channel, and its name
    found = []
    for place, subject in enumerate(subjects):
        outputs = {}
        for channel, image in subject.images.items():
            name = stem(str(image))
            if called[alike(name)] > (len(subject.images) if within else 1):
                name = "_".join(part for part in (subject.person or subject.site, name) if part)
            name = safe_name(f"{name}_{channel}" if within else name)
            other = seen.setdefault(alike(name), (place, channel, name))
            if other[:2] != (place, channel):
                like = subjects[other[0]].origin
                cause = f"{subject.origin}: the scan would be called {name}, like that of {like}"
                but = "" if other[2] == name else f" ({other[2]})"
                hint = "give them different subjects, or other file names"
                raise FileError(str(image), f"{cause}{but}", hint)
            outputs[channel] = naming.output(subject, str(image), name)
        found.append(replace(subject, mask=subject.mask or unmasked, outputs=outputs))
    return [replace(one, name=name) for one, name in zip(found, _names(found), strict=True)]


def _names(subjects: Sequence[Subject]) -> list[str]:
    """Return what subjects are called: like their only image; of several channels, like people."""
    first = [subject.output.name for subject in subjects]
    if all(len(subject.images) == 1 for subject in subjects):
        return first
    people = [subject.name or subject.person or "" for subject in subjects]
    return [*map(safe_name, people)] if all(people) and _differ(people) else first


def _differ(names: Sequence[str]) -> bool:
    return len({*map(alike, names)}) == len(names)


def alike(name: str) -> str:
    """Return what names have in common that differ only in case or in how accents are encoded."""
    return normalize("NFC", normalize("NFC", name).casefold())


def kept_mask(name: str) -> str:
    """Return the file of a brain mask that a study finds, relative to its folder."""
    return f"masks/{name}.nii.gz"
