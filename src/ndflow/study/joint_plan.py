"""A study in which all channels of a subject are brought to one joint reference together.

OUT/images/<name>.nii.gz   the normalised scans, one per subject and channel
OUT/models/<subject>.json  the joint densities
OUT/maps/<name>.json       the sidecars of the images, each of which holds the joint map
OUT/figures/<name>.png     previews for the report
OUT/reference.json         the joint reference
OUT/scans.tsv, OUT/failures.tsv, OUT/provenance.json, OUT/report.html

as in a study of one channel (`ndflow.study.folder`), where a row of scans.tsv is one image, and one
of failures.tsv a subject.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, NamedTuple

from ndflow.errors import InvalidValueError
from ndflow.image.mask import FoundMask
from ndflow.image.subject import Subject, TissueMaps
from ndflow.methods.modes import MODES
from ndflow.options import Options
from ndflow.study.plan import ResultPaths, Study
from ndflow.study.table import alike, named_scans
from ndflow.subject.channels import Subject
from ndflow.subject.outputs import safe_name
from ndflow.subject.presets import Choices, PresetRecord
from ndflow.subject.records import StudyRecord

_ALONE = "leave out --joint"


@dataclass(frozen=True)
class JointStudyRecord(StudyRecord):
    """What was run in a joint study, and how it ended; see `StudyRecord`.

    Attributes
    ----------
    channel_names : what the images show, in the order of the joint reference.
    """

    kind: ClassVar[str] = "joint-study"

    channel_names: tuple[str, ...] = ()


class JointSubject(NamedTuple):
    """One subject of a joint study.

    Attributes
    ----------
    channels : its images.
    scans : each channel by itself, with the places of its results.
    """

    channels: Subject
    scans: tuple[Subject, ...]


@dataclass(frozen=True)
class JointStudy:
    """What is to be done with all channels together; a plan, see `ndflow.study.plan.Plan`.

    Attributes
    ----------
    study : how, and where to; its scans are the first channels of all subjects, called like the
        subjects.
    channel_names : what the channels show, in order.
    subjects : by name.
    choices : what the user chose.
    """

    study: Study
    channel_names: tuple[str, ...]
    subjects: Mapping[str, JointSubject]
    choices: Choices

    @property
    def folder(self) -> Path:
        """The folder for the results."""
        return self.study.folder

    @property
    def scans(self) -> Sequence[Subject]:
        """The first channel of each subject, called like the subject."""
        return self.study.scans

    @property
    def jobs(self) -> int:
        """How many subjects at a time."""
        return self.study.jobs

    @property
    def scheduler(self) -> str | None:
        """Where workers are, if not on this machine."""
        return self.study.scheduler

    def paths(self, scan: Subject) -> tuple[Path, ...]:
        """Return where the results of a subject go, its density first."""
        results = self.results(scan)
        return (results[0].model, *(path for one in results for path in one[1:]))

    def results(self, scan: Subject) -> tuple[ResultPaths, ...]:
        """Return where the results of each channel of a subject go."""
        model = self.folder / "models" / f"{scan.name}.json"
        own = (self.study.paths(one) for one in self.subjects[scan.name].scans)
        return tuple(one._replace(model=model) for one in own)

    @property
    def images(self) -> list[Subject]:
        """All images, as scans.tsv lists them: with their channels."""
        return [
            replace(scan, covariates={**scan.covariates, "channel": name})
            for subject in self.subjects.values()
            for name, scan in zip(self.channel_names, subject.scans, strict=True)
        ]


def named_channels(
    scans: Mapping[str, Sequence[Subject]], *, unmasked: FoundMask | None = None
) -> dict[str, list[Subject]]:
    """Return the scans of each channel with names of their own.

    Where images of two channels share a name, the channel is added to the names.

    Parameters
    ----------
    scans : one per subject, by channel.
    unmasked : what to find in subjects without a mask; by default nothing.
    """
    named = {channel: named_scans(own, unmasked=unmasked) for channel, own in scans.items()}
    called = Counter(alike(scan.name) for own in named.values() for scan in own)
    if max(called.values()) == 1:
        return named
    return {
        channel: [_renamed(scan, f"{scan.name}_{channel}") for scan in own]
        for channel, own in named.items()
    }


def _renamed(scan: Subject, name: str) -> Subject:
    return replace(scan, name=name, output=f"images/{name}.nii.gz", sidecar=f"maps/{name}.json")


def joint_study(
    study: Study, scans: Mapping[str, Sequence[Subject]], names: Sequence[str], choices: Choices
) -> JointStudy:
    """Return the plan of a joint study.

    Parameters
    ----------
    study : how, and where to; its scans do not count.
    scans : one per subject, by channel, with the places of their results.
    names : of the subjects, in the same order; where two are alike, or one has none, those of their
        first images are taken.
    choices : what the user chose; what a joint study cannot honour is refused.
    """
    _check(choices)
    channels, rows = tuple(scans), list(zip(*scans.values(), strict=True))
    if not all(names) or len({*map(alike, names)}) < len(names):
        names = [row[0].name for row in rows]
    subjects = {
        safe_name(name): JointSubject(
            Subject(
                {channel: scan.image for channel, scan in zip(channels, row, strict=True)},
                row[0].mask,
                row[0].lesion,
            ),
            row,
        )
        for name, row in zip(names, rows, strict=True)
    }
    leads = [
        replace(one.scans[0], name=name, tissues=TissueMaps()) for name, one in subjects.items()
    ]
    preset = PresetRecord("auto", "individual, joint target, averaged densities")
    planned = replace(
        study,
        scans=leads,
        options=Options(**choices.options),
        channel="+".join(channels),
        preset=preset,
    )
    return JointStudy(planned, channels, subjects, choices)


def _check(choices: Choices) -> None:
    """Refuse settings of the averages that are for one channel."""
    options = Options(**choices.options)
    if MODES[options.mode].by_site:
        raise InvalidValueError(f"--mode {options.mode} is for channels one by one; {_ALONE}")
    if options.average != "density":
        raise InvalidValueError(
            f"--set average={options.average} is for channels one by one; {_ALONE}, or leave it out"
        )
    if options.balance:
        raise InvalidValueError(f"--balance is for channels one by one; {_ALONE}")
