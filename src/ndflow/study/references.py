"""What the scans of a study are brought to, made from their densities and landmarks.

One reference of all scans, and one of each site; or those that the user gives. They do not depend
on the order of the scans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import new_file
from ndflow.files.json_model import model_bytes
from ndflow.methods.landmarks import Landmarks, check_installed, standard
from ndflow.methods.model import Portrait, needs_landmarks
from ndflow.methods.modes import Goal, site_goal
from ndflow.population import HealthyCeiling, Reference, TissueModel, reference, tissue_model
from ndflow.scan.model_files import load_described
from ndflow.scan.results import safe_name
from ndflow.scan.target import (
    in_units,
    known_tissues,
    read_target,
    refuse_coarse,
    refuse_other_units,
)
from ndflow.scan.tissue_maps import needs_tissues
from ndflow.study.plan import ANY_CHANNEL, Study
from ndflow.study.scan_jobs import Member, portrait_of_member
from ndflow.transport import align, check_rules

__all__ = [
    "References",
    "Standard",
    "check_references",
    "given_reference",
    "make_references",
    "reference_name",
    "write_references",
]

_OWN = "the reference of these scans"

# What any reference is like, in mean and spread.
_STANDARD = GaussianMixture(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)))


class Standard(NamedTuple):
    """A reference, and what belongs to it for those who look at it."""

    reference: Reference
    landmarks: Landmarks | None = None
    tissues: TissueModel | None = None
    alarm: HealthyCeiling | None = None


class References(NamedTuple):
    """What the scans of a study are brought to.

    Attributes
    ----------
    whole : the reference of all scans.
    sites : that of each site.
    goals : one for each site where the study goes by sites, and one for all under None.
    """

    whole: Standard
    sites: dict[str, Standard]
    goals: dict[str | None, Goal]


def check_references(study: Study) -> None:
    """Say before any work what would stand in the way of references."""
    matching = study.matching
    mode = study.averaging.mode
    if matching.method != "ndflow" and mode != "individual":
        raise InvalidValueError(
            f"the method {matching.method!r} knows no sites; leave out --mode {mode}"
        )
    if (matching.lesions or matching.freeze) and mode != "individual":
        raise InvalidValueError(
            f"--lesions and --freeze are for the densities of single scans; leave out --mode {mode}"
        )
    if matching.lesions and study.given is None:
        raise InvalidValueError(
            "--lesions auto needs a reference of healthy scans: make one with 'ndflow reference "
            "--lesions auto' and give it with --reference"
        )
    if needs_tissues(matching) and mode == "site":
        raise InvalidValueError(
            f"--target {matching.target} is for each scan, but --mode site treats all scans of a "
            f"site alike; use --mode two-level or individual"
        )
    refuse_other_units(matching)
    check_rules(matching.freeze)
    if needs_landmarks(matching):
        check_installed(matching.method)
    if study.given is not None:
        given = given_reference(study.given)
        _in_units(study, given, study.given)
        channels = given.reference.channels
        if ANY_CHANNEL not in (study.channel, *channels) and channels != (study.channel,):
            cause = f"a reference of {channels[0]}, but the images show {study.channel}"
            raise FileError(study.given, cause, "use a reference of such images")
    elif matching.range is None:
        _in_units(study, Standard(Reference(_STANDARD, (study.channel,), 1)))


def make_references(study: Study, members: Sequence[Member], *, nested: bool = False) -> References:
    """Return the references made from some scans of a study, and what the scans are brought to.

    Parameters
    ----------
    study : the settings, and the reference that was given, if any.
    members : the scans to make them from.
    nested : whether what other scans of the study went into is not to be used.
    """
    given, mode = study.given, study.averaging.mode
    whole = _average(study, members) if given is None else given_reference(given)
    sites: dict[str, Standard] = {}
    for site in sorted({member.site for member in members if member.site is not None}):
        own = _known(given, site)
        if nested and own is not None and _is_of(own, study, site):
            own = None
        if own is None:
            own = _average(study, [member for member in members if member.site == site])
        sites[site] = own
    if needs_tissues(study.matching) and given is None:
        whole = whole._replace(tissues=_tissues(study, members, whole, sites))
    target = _in_units(study, whole, given)
    goals: dict[str | None, Goal] = {None: Goal(target, study.matching)}
    if mode != "individual":
        for site, own in sites.items():
            goals[site] = site_goal(
                target,
                Portrait(own.reference.mixture),
                study.matching,
                further=mode == "two-level",
            )
    return References(whole, sites, goals)


def _tissues(
    study: Study, members: Sequence[Member], whole: Standard, sites: dict[str, Standard]
) -> TissueModel:
    """Return the tissues of a study: from its maps where there are any, or from components."""
    ordered = sorted(members, key=lambda member: member.name)
    mapped = [member for member in ordered if member.maps is not None]
    density = whole.reference.mixture
    if not mapped:
        return known_tissues(_OWN, density, None, study.matching)
    scans = _Parts(mapped, "tissues")
    if study.averaging.mode != "two-level":
        return tissue_model(scans)
    plain = replace(study.matching, target="average", range=None, scale=None)
    space = Portrait(density)
    ways = {
        site: site_goal(space, Portrait(own.reference.mixture), plain)
        for site, own in sites.items()
    }
    maps = [ways[member.site or ""].solve(portrait_of_member(member)).imap for member in mapped]
    return tissue_model(scans, maps.__getitem__)


def write_references(folder: Path, references: References) -> None:
    """Write references, and the maps of sites where there are any; others are outdated."""
    for site, made in [(None, references.whole), *references.sites.items()]:
        payload = {"reference": made.reference.to_dict()}
        if made.landmarks is not None:
            payload["landmarks"] = made.landmarks.to_dict()
        if made.tissues is not None:
            payload["tissues"] = made.tissues.to_dict()
        if made.alarm is not None:
            payload["alarm"] = made.alarm.to_dict()
        _write(folder / reference_name(site), "reference", payload)
    for site in references.sites:
        path = folder / reference_name(site, "map")
        goal = references.goals.get(site)
        if goal is None or goal.site is None:
            path.unlink(missing_ok=True)
        else:
            _write(path, "map", {"map": goal.site[1].imap.to_dict()})


def _in_units(study: Study, whole: Standard, path: str | None = None) -> Portrait:
    """Return the reference of all in the units of the result."""
    if path is not None:
        target = read_target(path, matching=study.matching)
    else:
        target = read_target(whole.reference)._replace(
            name=_OWN, landmarks=whole.landmarks, tissues=whole.tissues
        )
    aim = in_units(target, study.matching)
    refuse_coarse(aim.mixture, study.writing)
    return aim


class _Parts(Sequence[Any]):
    """A part of the portraits of some scans, read one after the other when they are looked at."""

    def __init__(self, members: Sequence[Member], part: str) -> None:
        self._members, self._part = members, part

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, place: Any) -> Any:
        return getattr(portrait_of_member(self._members[place]), self._part)


def _average(study: Study, members: Sequence[Member]) -> Standard:
    names = [member.name for member in members]
    average = reference(
        _Parts(members, "mixture"),
        average=study.averaging.average,
        names=names,
        channels=study.channel,
    )
    if not needs_landmarks(study.matching):
        return Standard(average)
    ordered = sorted(members, key=lambda member: member.name)
    portraits = (portrait_of_member(member) for member in ordered)
    return Standard(
        average,
        standard(
            (portrait.landmarks, align(portrait.mixture), 1.0)
            for portrait in portraits
            if portrait.landmarks is not None
        ),
    )


def reference_name(site: str | None, kind: str = "reference") -> str:
    """Return what the reference of a site is called, or that of all."""
    if site is None:
        return f"{kind}.json"
    return f"{kind}_{safe_name(site)}.json"


def given_reference(path: str) -> Standard:
    """Read a reference, and what stands beside it."""
    model = load_described(path)
    if not isinstance(model.density, Reference):
        raise FileError(path, "a mixture, not a reference", "make one with 'ndflow reference'")
    tissues = model.tissues if isinstance(model.tissues, TissueModel) else None
    return Standard(model.density, model.landmarks, tissues, model.alarm)


def _known(given: str | None, site: str) -> Standard | None:
    """Return the reference of a site that was made together with the one given."""
    beside = None if given is None else Path(given).with_name(reference_name(site))
    return given_reference(str(beside)) if beside is not None and beside.exists() else None


def _is_of(own: Standard, study: Study, site: str) -> bool:
    """Tell whether scans of the study itself went into the reference of a site."""
    names = {member.name for member in study.members if member.site == site}
    return not names.isdisjoint(own.reference.provenance.get("names") or ())


def _write(path: Path, kind: str, payload: dict[str, Any]) -> None:
    """Write a model, unless it stands there already."""
    content = model_bytes(kind, payload)
    if path.exists() and path.read_bytes() == content:
        return
    with new_file(path, force=True) as file:
        file.write(content)
