"""The page of images that were brought to a target one by one: ``ndflow normalise --report``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath, check_new, new_file
from ndflow.files.outputs import stem
from ndflow.image.subject import ANY_CHANNEL, Subject
from ndflow.methods.base import DensityModel
from ndflow.reporting import scan_section
from ndflow.reporting.content import Headline, Page
from ndflow.reporting.page import render
from ndflow.study.finished import is_page
from ndflow.study.plan import ResultPaths
from ndflow.subject.normalise import Result

_OF_SCANS = "scans"  # marks such a page, where others have the fingerprint of a study


def check_results_page(path: AnyPath, *, force: bool = False) -> None:
    """Refuse to replace another file by a page; even with `force`, unless it is such a page."""
    place = check_new(path, force=force)
    if place.exists() and place.stat().st_size and not is_page(place, _OF_SCANS):
        raise FileError(path, "exists, and was not written by ndflow", "choose another name")


def write_results_page(
    path: AnyPath, results: Sequence[Result], sentence: str, *, force: bool = False
) -> None:
    """Write the page of images that were mapped and written, with their previews.

    Parameters
    ----------
    path : of the page.
    results : of single channels.
    sentence : what was achieved.
    force : whether an earlier such page may be replaced.
    """
    entries, facts = [], dict[str, str]()
    for result in results:
        record, place = result.record, Path(result.output or "image")
        if result.seen is None or (target := record.target) is None:
            raise TypeError("only images that were brought to a target have a page")
        (model, preview), paths = result.seen, ResultPaths(place, place, place, place)
        scan = Subject({ANY_CHANNEL: str(place)}, name=stem(place))
        goal = DensityModel(target.mixture, target.landmarks, target.tissues)
        entry = scan_section.scan_entry(
            scan_section.ScanSummary(scan, paths, model, record),
            [*record.doubts, *scan_section.noted(record.warnings)],
            goal,
            scan_section.COLUMNS,
        )
        slices = scan_section.slices_of(place, preview, embedded=True)
        entries.append(replace(entry, slices=replace(slices, link="")))
        facts |= {"Target": target.name, "Command": shlex.join(record.command or ())}
        facts |= {"Preset": record.preset.text} if record.preset else {}
    page = Page(
        Path(path).stem,
        "",
        Headline(sentence),
        columns=scan_section.COLUMNS,
        scans=entries,
        facts=[*facts.items()],
    )
    content = render(page, fingerprint=_OF_SCANS).encode()
    check_results_page(path, force=force)  # again, because making images takes a while
    with new_file(path, force=force) as file:
        file.write(content)
