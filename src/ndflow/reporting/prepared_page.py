"""The page of a preparation, OUT/report.html: to look at before the study goes on.

It has the section *Preparation* of the page of a study, the scans to check, those that failed, and
a table of all scans with what was measured, which can be sorted, filtered and rated.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from ndflow.errors import FileError
from ndflow.figures.style import colours
from ndflow.files.tables import MISSING, read_delimited
from ndflow.reporting.content import Headline, Page, ScanEntry, SiteEntry
from ndflow.reporting.preparation_section import (
    COLUMNS,
    PreparedScan,
    cells,
    preparation_section,
)
from ndflow.study.distances import NO_SITE
from ndflow.study.finished import preparation_of
from ndflow.study.folder import PROVENANCE
from ndflow.study.prepare_folder import MEASURES
from ndflow.study.prepare_records import PreparedRecord
from ndflow.study.tasks import read_failures
from ndflow.values import plural


def prepared_page(
    folder: Path,
    *,
    title: str | None,
    date: str,
    study: str,
    sample: int,
    begin: Callable[[int], Callable[[], None]],
) -> Page:
    """Return the page of a preparation.

    Parameters
    ----------
    folder : of the preparation.
    title, date : of the page; the title is by default the name of the folder.
    study : what readers' ratings are kept under.
    sample : how many scans have their pictures in the page itself, those to check first.
    begin : is told how many scans there are, and returns what is to be called after each.

    Raises
    ------
    FileError
        Where the folder holds no finished preparation.
    """
    record = PreparedRecord.read(folder / PROVENANCE)
    if not record.finished:
        cause = "holds a preparation that was stopped"
        raise FileError(folder, cause, "run the same command again to finish it")
    scans = _scans(folder, begin)
    scans.sort(key=lambda scan: not scan.doubts)  # those to check come first
    failures = read_failures(folder)
    counts = Counter(scan.site for scan in scans)
    sites = sorted(counts)
    palette = colours(sites)
    named = [SiteEntry(site, counts[site], palette[site], [], "") for site in sites]
    return Page(
        title=title or folder.name,
        date=date,
        headline=Headline(_sentence(scans, len(failures)), []),
        montage=None,
        failures=failures,
        populations=[],
        sites=named if len(sites) > 1 else [],
        columns=COLUMNS,
        scans=[
            ScanEntry(
                scan.name,
                scan.site,
                cells(scan.record),
                scan.doubts,
                notes=scan.record.warnings,
            )
            for scan in scans
        ],
        windows=None,
        verdicts=[],
        tables=[],
        pictures=[],
        methods="",
        citation="",
        facts=[
            ("Command", shlex.join(record.command)),
            ("Scans", f"{len(scans)} prepared, {len(failures)} failed"),
            ("Settings", ", ".join(f"{name} {value}" for name, value in record.settings.items())),
            ("Versions", ", ".join(f"{name} {one}" for name, one in record.versions.items())),
        ],
        preparation=preparation_section(
            scans,
            folder,
            embedded={scan.name for scan in scans[:sample]},
            table=False,
        ),
        done="prepared",
        study=study,
    )


def _scans(folder: Path, begin: Callable[[int], Callable[[], None]]) -> list[PreparedScan]:
    """Return the scans that its table lists."""
    rows = _rows(folder / MEASURES)
    step = begin(len(rows))
    found = []
    for row in rows:
        prepared = preparation_of(folder / row["image"])
        if prepared is None:
            cause = "the sidecar of a prepared image is missing or damaged"
            raise FileError(folder / row["image"], cause, "prepare the scans again")
        found.append(PreparedScan(row["name"], row["site"] or NO_SITE, prepared))
        step()
    return found


def _rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of one of our tables, empty where a cell has no value."""
    columns, rows = read_delimited(path)
    if not {"image", "site"} <= set(columns):
        raise FileError(path, "has no column 'image' or 'site'", "prepare the scans again")
    return [
        {
            name: "" if cell.lower() in MISSING else cell
            for name, cell in zip(columns, row, strict=True)
        }
        for _, row in rows
    ]


def _sentence(scans: list[PreparedScan], failed: int) -> str:
    flagged = sum(bool(scan.doubts) for scan in scans)
    done = f"{plural(len(scans), 'scan')} {'was' if len(scans) == 1 else 'were'} prepared"
    check = (
        f"{flagged or 'none'} of them should be checked" if scans else "there is nothing to check"
    )
    return f"{done}, {failed or 'none'} failed, and {check}."
