"""A study of several channels, each by itself: one study per channel, in a folder of its own.

OUT/T1w, OUT/FLAIR       the studies, see `ndflow.study.folder`
OUT/reference.json       the references of all channels; reference_<site>.json those of a site
OUT/report.html          what came of all channels, with links to the page of each

So everything that is known about studies of one channel holds for each of them, and any number of
channels can be added later.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.files.model_files import kind_in
from ndflow.image.subject import Subject
from ndflow.study.folder import PROVENANCE, REPORT, refuse_foreign_page
from ndflow.study.plan import Study
from ndflow.study.references import reference_name
from ndflow.study.table import ScanTable, check_channel_names, read_table
from ndflow.subject.records import ReferenceModel, ReferenceModels

_ELSEWHERE = "choose another folder for the results"


def read_channel_tables(path: AnyPath, channels: Sequence[str]) -> dict[str, ScanTable]:
    """Read a table with one column of images per channel: the scans of each channel.

    Scans of other channels than the first know the first, whose grid they must share.

    Parameters
    ----------
    path : the table.
    channels : the names of the columns, in order.
    """
    check_channel_names(channels)
    tables = {name: read_table(path, channel=name, channels=channels) for name in channels}
    first = tables[channels[0]].scans
    return {
        name: table if name == channels[0] else table._replace(scans=_beside(table.scans, first))
        for name, table in tables.items()
    }


def _beside(scans: Sequence[Subject], first: Sequence[Subject]) -> list[Subject]:
    return [replace(scan, beside=one.path) for scan, one in zip(scans, first, strict=True)]


def folders_of_channels(out: Path, channels: Sequence[str]) -> dict[str, Path]:
    """Return the folder for the study of each channel; refuse a folder that is a study itself."""
    if (out / PROVENANCE).exists():
        cause = "holds a study, but each of several channels needs a folder of its own in it"
        raise FileError(out, cause, _ELSEWHERE)
    return {name: out / name for name in channels}


def check_channel_studies(out: Path, studies: Sequence[Study]) -> None:
    """Refuse, before any work, to replace a file that we did not write, or that is read.

    Parameters
    ----------
    out : the folder of all channels.
    studies : of each channel.
    """
    refuse_foreign_page(out / REPORT)
    sites = {site for study in studies for site in study.site_counts}
    for site in (None, *sites):
        path = out / reference_name(site)
        if path.exists() and kind_in(path) != ReferenceModels.kind:
            cause = "exists, and does not hold the references of several channels"
            raise FileError(path, cause, f"move it, or {_ELSEWHERE}")
        for given in (source for study in studies for source in (study.table, study.given)):
            if given is not None and os.path.realpath(given) == os.path.realpath(path):
                cause = "lies where the study writes a file of that name"
                raise FileError(given, cause, f"move it, or {_ELSEWHERE}")


def write_shared_references(out: Path, studies: Mapping[str, Study]) -> Path | None:
    """Write the references of all channels to one file, and those of each site likewise.

    Parameters
    ----------
    out : the folder of all channels.
    studies : of each channel, by its name.

    Returns
    -------
    Path or None
        The file; None, if some channel has no reference because all of its scans failed.
    """
    sites = {site for study in studies.values() for site in study.site_counts}
    for site in (None, *sorted(sites)):
        name = reference_name(site)
        known = {
            channel: ReferenceModel.read(study.folder / name)
            for channel, study in studies.items()
            if (study.folder / name).exists()
        }
        if len(known) == len(studies):
            ReferenceModels(tuple(known), known).write_if_changed(out / name)
        else:
            (out / name).unlink(missing_ok=True)
    path = out / reference_name(None)
    return path if path.exists() else None
