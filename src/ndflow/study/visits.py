"""People who were scanned several times, and what is said about their scans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ndflow.image.subject import Subject
from ndflow.study.plan import Study
from ndflow.study.references import visits_of


def visits_in(scans: Iterable[Subject]) -> dict[str, list[Subject]]:
    """Return the scans of each person who has several, as they were listed."""
    people: dict[str, list[Subject]] = {}
    for scan in scans:
        if scan.person is not None:
            people.setdefault(scan.person, []).append(scan)
    return {person: own for person, own in people.items() if len(own) > 1}


def visits_said(study: Study, scans: Sequence[Subject]) -> str | None:
    """Return how many people were scanned several times, and what these scans share."""
    if not (people := visits_in(scans)):
        return None
    counts, shared = {len(own) for own in people.values()}, visits_of(study, scans)
    least, most = min(counts), max(counts)
    often = (
        "twice" if most == 2 else f"{most} times" if least == most else f"{least} to {most} times"
    )
    how = "their scans at one site share a map"
    if not shared:
        how = "each scan is matched by itself"
    elif not study.mode.per_scan:
        how = "each scan has a straight line of its own before the map of its site"
    elif all(len(shared.get(one.name, ())) == len(own) for own in people.values() for one in own):
        how = "the scans of each share a map"
    who = "1 person was" if len(people) == 1 else f"{len(people)} people were"
    return f"{who} scanned {often}; {how}"
