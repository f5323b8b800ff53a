"""Pages of single subjects, made of the entries of the page of their study.

OUT/report-<subject>.html shows the scans of one subject: before and after, what to check, and its
curves. What is about the study as a whole stays on OUT/report.html.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ndflow.image.preview import read_preview
from ndflow.reporting.content import Headline, Montage, Page, Preparation, ScanEntry
from ndflow.reporting.montage import Windows, in_words, montage_of
from ndflow.scan.outputs import safe_name
from ndflow.study.folder import SUBJECT_REPORT
from ndflow.values import plural

__all__ = ["pages_of_subjects"]


def pages_of_subjects(
    page: Page, subjects: Mapping[str, str | None], folder: Path
) -> dict[str, Page]:
    """Return the pages of all subjects, by the names of their files.

    Parameters
    ----------
    page : of the study.
    subjects : of each scan, by its name; None where it is not known.
    folder : of the study, where previews lie.
    """
    of_subject: dict[str, list[ScanEntry]] = {}
    for scan in page.scans:
        subject = subjects.get(scan.name)
        if subject is not None:
            of_subject.setdefault(subject, []).append(_alone(scan, folder))
    return {
        SUBJECT_REPORT.format(safe_name(subject)): replace(
            page,
            title=f"{page.title}: {subject}",
            headline=Headline(_sentence(page, scans), []),
            montage=_montage(page, scans, folder),
            failures=[],
            populations=[],
            sites=[],
            scans=scans,
            verdicts=[],
            tables=[],
            pictures=[],
            remarks=[],
            preparation=_preparation(page, scans, folder),
        )
        for subject, scans in sorted(of_subject.items())
    }


def _alone(scan: ScanEntry, folder: Path) -> ScanEntry:
    """Return a scan with its slices in the page, and without volumes, which need a large viewer."""
    slices = scan.slices
    if slices is not None and slices.png is None:
        slices = replace(slices, png=(folder / slices.link).read_bytes())
    return replace(scan, slices=slices, volumes=None)


def _preparation(page: Page, scans: Sequence[ScanEntry], folder: Path) -> Preparation | None:
    """Return the pictures of a subject's scans."""
    names = {scan.name for scan in scans}
    whole = page.preparation
    own = [one for one in whole.scans if one.name in names] if whole else []
    if whole is None or not own:
        return None
    own = [replace(one, png=one.png or (folder / one.link).read_bytes()) for one in own]
    return replace(whole, sentences=[], scans=own, table=None)


def _montage(page: Page, scans: Sequence[ScanEntry], folder: Path) -> Montage | None:
    alone = len({scan.site for scan in scans}) == len(scans)
    shown = [
        (scan.site if alone else scan.name, scan.name, read_preview(folder / scan.slices.link))
        for scan in scans
        if scan.slices is not None
    ]
    if page.windows is None or not shown:
        return None
    windows = Windows(*page.windows)
    caption = f"The grey window of the whole study: {in_words(windows)}."
    return montage_of(shown, windows, caption)


def _sentence(page: Page, scans: Sequence[ScanEntry]) -> str:
    """Return how the scans of a subject did among those of the study."""
    names = [column.name for column in page.columns]
    left = [cell for scan in scans if isinstance(cell := scan.cells[names.index("W1")], float)]
    several = plural(len(scans), "scan")
    if not left:
        return f"{several} of this subject."
    everybody = sorted(
        cell for scan in page.scans if isinstance(cell := scan.cells[names.index("W1")], float)
    )
    middle = everybody[len(everybody) // 2]
    *first, last = (f"{one:.3g}" for one in left)
    distances = f"{', '.join(first)} and {last}" if first else last
    lies = "lies" if len(left) == 1 else "lie"
    return (
        f"{several} of this subject {lies} {distances} standard deviations from the target "
        f"(Wasserstein distance); the median scan of the study lies {middle:.3g} from it."
    )
