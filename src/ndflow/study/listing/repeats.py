"""Scans that are the same, and sites that are called almost the same.

A scan that is listed twice would count twice in the reference. The same file, however it is named,
is refused before any work. Two files with the same content are noticed when their densities are
estimated, for which they are hashed anyway: the later one fails, and is left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

from ndflow.errors import FileError
from ndflow.files.fingerprints import identity_of
from ndflow.image.subject import Scan
from ndflow.study.listing.scan_table import alike
from ndflow.study.parallel.tasks import Failure, Outcome

__all__ = ["refuse_almost_equal_sites", "refuse_repeats", "without_repeats"]


def refuse_repeats(scans: Sequence[Scan]) -> None:
    """Refuse scans that are the same file: by path, symbolic link or hard link."""
    seen: dict[Hashable, Scan] = {}
    for scan in scans:
        other = seen.setdefault(identity_of(scan.path), scan)
        if other is not scan:
            cause = f"{scan.origin} is the same file as {other.origin}, {other.path}"
            raise FileError(scan.path, cause, "list each scan once")


def refuse_almost_equal_sites(scans: Sequence[Scan]) -> None:
    """Refuse names of sites that differ only in case, or in how an accent is encoded.

    They are probably one site; and on many discs their references would be one file.
    """
    seen: dict[str, Scan] = {}
    for scan in scans:
        if scan.site is None:
            continue
        other = seen.setdefault(alike(scan.site), scan)
        if other.site != scan.site:
            cause = f"{scan.origin} has the site {scan.site!r}, {other.origin} {other.site!r}"
            hint = (
                "write one site in one way, and give two sites names that differ in more than case"
            )
            raise FileError(scan.path, cause, hint)


def without_repeats(
    scans: Sequence[Scan], outcomes: Iterable[Outcome]
) -> Iterator[tuple[Scan, Outcome]]:
    """Yield each scan with its outcome; that of one with the content of an earlier is a failure.

    Parameters
    ----------
    scans : in the order of their outcomes.
    outcomes : whose results say what the images hold, see `ndflow.study.scan_jobs.ScanDone`.
    """
    seen: dict[tuple[str, ...], Scan] = {}
    for scan, outcome in zip(scans, outcomes, strict=True):
        content = outcome.result.content if outcome.failure is None else ()
        other = seen.setdefault(content, scan) if content else scan
        if other is scan:
            yield scan, outcome
        else:
            yield scan, Outcome(scan.name, None, _repeats(scan, other))


def _repeats(scan: Scan, other: Scan) -> Failure:
    cause = f"the same image as {other.path} ({scan.origin} and {other.origin})"
    error = FileError(scan.path, cause, "remove one of them")
    return Failure(scan.name, f"{scan.path}: {cause}", error.hint, str(error), "")
