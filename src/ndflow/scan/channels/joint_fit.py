"""The densities of the channels of a subject: joint, or each by itself."""

from __future__ import annotations

from typing import NamedTuple

from ndflow import density
from ndflow.density import Fit
from ndflow.files.atomic import AnyPath
from ndflow.files.fingerprints import contents
from ndflow.files.model_files import check_model
from ndflow.methods.matching import Matching
from ndflow.scan.channels.channel_records import JointModel, ScanModels
from ndflow.scan.channels.channel_subject import Subject, check_grids, said
from ndflow.scan.channels.channel_voxels import EVIDENCE, SubjectVoxels, read_subject
from ndflow.scan.fit import FittedScan, fit_scan, fit_voxels
from ndflow.scan.reading import error_about, selection
from ndflow.scan.settings import Fitting, Reading, flat

__all__ = ["FittedSubject", "SubjectModel", "fit_jointly", "fit_subject", "joint_model"]


class FittedSubject(NamedTuple):
    """What was estimated from the voxels of all channels.

    Attributes
    ----------
    voxels : the channels.
    fit : their joint density.
    scans : each channel by itself.
    warnings : for the user, about all channels.
    """

    voxels: SubjectVoxels
    fit: Fit
    scans: dict[str, FittedScan]
    warnings: tuple[str, ...]


class SubjectModel(NamedTuple):
    """What was written to the file of a subject, and what to tell the user."""

    record: JointModel | ScanModels
    warnings: tuple[str, ...]


def fit_jointly(subject: Subject, *, reading: Reading, fitting: Fitting) -> FittedSubject:
    """Read the channels of a subject and estimate their joint density, and that of each.

    Parameters
    ----------
    subject : the channels.
    reading, fitting : what the user chose.
    """
    voxels = read_subject(subject, reading)
    with error_about(subject.path):
        fitted = density.fit(voxels.cells, effective_count=EVIDENCE * fitting.effective_count)
    warnings = list(voxels.channels.warnings)
    if not fitted.status.converged:
        warnings.append(f"{subject.path}: the fit of the joint density {fitted.status.message}")
    scans = {
        name: fit_voxels(
            subject.scan(name), own, reading=reading, fitting=fitting, matching=Matching()
        )
        for name, own in voxels.scans.items()
    }
    return FittedSubject(voxels, fitted, scans, tuple(warnings))


def fit_subject(
    subject: Subject,
    output: AnyPath,
    *,
    joint: bool,
    force: bool,
    reading: Reading,
    fitting: Fitting,
) -> SubjectModel:
    """Estimate the densities of the channels of a subject and write them to one file.

    Parameters
    ----------
    subject : the channels.
    output : the file to write.
    joint : whether to estimate one joint density, or that of each channel by itself.
    force : whether another file may be replaced.
    reading, fitting : what the user chose.
    """
    inputs = [name for names in subject.files().values() for name in names]
    check_model(output, inputs, force=force)
    made = (joint_model if joint else _separate_models)(subject, reading, fitting)
    made.record.write(output, force=force, inputs=inputs)
    return made


def joint_model(subject: Subject, reading: Reading, fitting: Fitting) -> SubjectModel:
    """Return the joint density of a subject, as its file holds it, and what to tell the user."""
    voxels, fitted, scans, warnings = fit_jointly(subject, reading=reading, fitting=fitting)
    first = scans[subject.names[0]]
    made = JointModel(
        fitted.mixture,
        sha256=contents(voxels.channels.files) or None,
        settings=selection(subject.scan(subject.mask_channel)) | flat(fitting),
        voxels=voxels.counts,
        fit=fitted.status.message,
        mask=first.mask,
        warnings=(*warnings, *(line for one in scans.values() for line in one.warnings)),
        doubts=tuple(dict.fromkeys(doubt for one in scans.values() for doubt in one.doubts)),
        channel_names=subject.names,
        marginals=tuple(one.model.mixture for one in scans.values()),
    )
    told = ((subject.scan(name).path, one.warnings, one.doubts) for name, one in scans.items())
    return SubjectModel(made, (*warnings, *said(told)))


def _separate_models(subject: Subject, reading: Reading, fitting: Fitting) -> SubjectModel:
    warnings = check_grids(subject)
    scans = {
        name: fit_scan(
            subject.scan(name),
            reading=reading,
            fitting=fitting,
            matching=Matching(),
            tissues=subject.tissues.complete,
        )
        for name in subject.names
    }
    told = ((subject.scan(name).path, one.warnings, one.doubts) for name, one in scans.items())
    return SubjectModel(ScanModels(subject.names, scans), (*warnings, *said(told)))
