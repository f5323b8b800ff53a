"""People who were scanned several times, and what is said about their scans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ndflow.image.subject import Subject
from ndflow.study.plan import Study
from ndflow.study.references import visits_of


def later_scans(scans: Iterable[Subject]) -> list[tuple[Subject, Subject]]:
    """Return the first scan of a person with each later one, in the order of the list."""
    people: dict[str, list[Subject]] = {}
    for scan in scans:
        if scan.person is not None:
            people.setdefault(scan.person, []).append(scan)
    return [(first, later) for first, *others in people.values() for later in others]


def visits_said(study: Study, scans: Sequence[Subject]) -> str | None:
    """Return how many people were scanned several times, and what these scans share."""
    if not (pairs := later_scans(scans)):
        return None
    times, shared = Counter(first.person for first, _ in pairs), visits_of(study, scans)
    least, most = min(times.values()) + 1, max(times.values()) + 1
    often = f"{most} times" if least == most else f"{least} to {most} times"
    often = "twice" if most == 2 else often
    away = {one.person for one, other in pairs if one.site and other.site not in (None, one.site)}
    if away:
        some = "" if len(away) == len(times) else f" {len(away)} of them"
        often = f"{often},{some} at several sites"
    how = "their scans at one site share a map"
    if not shared:
        how = "each scan is matched by itself"
    elif not study.mode.per_scan:
        how = "each scan has a straight line of its own before the map of its site"
    elif all(first in shared.get(later.name, ()) for first, later in pairs):
        how = "the scans of each share a map"
    who = "1 person was" if len(times) == 1 else f"{len(times)} people were"
    return f"{who} scanned {often}; {how}"
