"""What the scans of a study are brought to: references made from their models, or given.

There is one common reference, and one for each site. They do not depend on the order of the scans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ndflow.errors import FileError
from ndflow.files.fingerprints import FileHash
from ndflow.files.model_files import read_model
from ndflow.image.subject import Subject
from ndflow.methods.base import DensityModel, build_reference
from ndflow.methods.modes import Goal, SiteMap
from ndflow.population import Reference, TissueModel, Tissues, tissue_model
from ndflow.study.plan import ANY_CHANNEL, Study
from ndflow.study.presets import by_one_labeller, decided, settled, study_facts
from ndflow.study.weights import EQUAL, ScanWeights, check_balance, scan_weights
from ndflow.subject.channels import listed
from ndflow.subject.outputs import safe_name
from ndflow.subject.presets import Choices
from ndflow.subject.records import MapRecord, ReferenceModel, ReferenceModels, ScanModel
from ndflow.subject.target import (
    Target,
    check_units,
    full_name,
    in_units,
    is_builtin,
    read_builtin,
    target_of,
    units_of,
)
from ndflow.subject.voxels import error_about
from ndflow.transport import Chain, IntensityMap

_OWN = "the reference of these scans"

Models = Mapping[str, DensityModel]  # by the name of the scan


class References(NamedTuple):
    """What the scans of a study are brought to.

    Attributes
    ----------
    common : the reference of all scans.
    sites : that of each site.
    goals : one per site where the study goes by site, and one for all under None.
    study : the study that they are for, with what its preset decided now that densities are known.
    read : the files that references were read from, where they were given.
    weights : of the scans that they were made from.
    """

    common: Reference
    sites: dict[str, Reference]
    goals: dict[str | None, Goal]
    study: Study
    read: tuple[FileHash, ...] = ()
    weights: ScanWeights = EQUAL


def check_references(study: Study) -> None:
    """Raise an error, before any work, if references cannot be made or used as asked."""
    options = study.options
    study.mode.check(options)
    check_balance(study)
    if study.given is None:
        check_units(options, name=_OWN)
        return
    given = read_reference(study.given, study.channel)
    check_units(options, name=study.given, model=in_units(_target(study, given), options))
    names = given.channel_names
    if ANY_CHANNEL not in (study.channel, *names) and names != (study.channel,):
        cause = f"a reference of {names[0]}, but the images show {study.channel}"
        raise FileError(study.given, cause, "use a reference of such images")


def read_models(study: Study, scans: Sequence[Subject]) -> dict[str, DensityModel]:
    """Read what is known about the intensities of some scans."""
    return {name: saved.model for name, saved in read_fits(study, scans).items()}


def read_fits(study: Study, scans: Sequence[Subject]) -> dict[str, ScanModel]:
    """Read the models of some scans with all that their files say, each once."""
    return {scan.name: ScanModel.read(study.paths(scan).model) for scan in scans}


def make_references(
    study: Study,
    scans: Sequence[Subject],
    models: Models,
    *,
    nested: bool = False,
    each: Callable[[], None] = lambda: None,
) -> References:
    """Return the references made from some scans of a study, and what scans are brought to.

    Parameters
    ----------
    study : the settings, and the reference that was given, if any.
    scans : the scans to make them from.
    models : what is known about these scans.
    nested : whether references of sites that other scans of the study went into are made anew.
    each : is called after each reference.
    """
    ordered = sorted(scans, key=lambda scan: scan.name)
    read: list[FileHash] = []
    weights = scan_weights(study, ordered)
    if study.given is None:
        common = _average(study, ordered, models, weights)
    else:
        common = _read(study.given, read, study.channel)
    study = decided(study, ordered, models, common)
    average = partial(_average, study, models=models, weights=weights)
    each()
    sites: dict[str, Reference] = {}
    for site in sorted({scan.site for scan in ordered if scan.site is not None}):
        sites[site] = _site_reference(study, site, ordered, average, read, nested=nested)
        each()
    common, ways = _with_tissues(study, ordered, models, common, sites, weights)
    goal = in_units(_target(study, common), study.options)
    check_units(study.options, name=_OWN, model=goal)
    goals = study.mode.goals(goal, ways, study.options)
    return References(common, sites, goals, study, tuple(read), weights)


def _with_tissues(
    study: Study,
    scans: Sequence[Subject],
    models: Models,
    common: Reference,
    sites: Mapping[str, Reference],
    weights: ScanWeights,
) -> tuple[Reference, dict[str, SiteMap]]:
    """Return the common reference with tissues, if these are needed, and the maps of sites to it.

    The tissues of scans are averaged through the maps of their sites. Where these in turn depend on
    the tissues, both are found again. Tissue maps that differ by site are left out where the target
    can do without: what they disagree about would be taken for a difference of people.
    """
    rule, scans = study.target_rule, weights.weighted(scans)
    if study.given is not None or not rule.needs_tissue_model:
        return common, _site_maps(study, sites, _target(study, common))
    known = any(isinstance(models[scan.name].tissues, Tissues) for scan in scans)
    if not known or not (rule.needs_tissue_maps or by_one_labeller(scans, models)):
        with error_about(_OWN):
            found = rule.population_tissues(common.mixture, None)
        common = replace(common, tissues=found)
        return common, _site_maps(study, sites, _target(study, common))
    ways = _site_maps(study, sites, _plain_target(study, common))
    common = replace(common, tissues=_tissues(study, scans, models, common, ways, weights))
    if rule.adapts_sites and ways:
        ways = _site_maps(study, sites, _target(study, common))
        common = replace(common, tissues=_tissues(study, scans, models, common, ways, weights))
    return common, ways


def _site_maps(study: Study, sites: Mapping[str, Reference], common: Target) -> dict[str, SiteMap]:
    """Return the maps from the references of sites to the common one, if the study goes by site."""
    if not study.mode.by_site:
        return {}
    target = in_units(common, study.options)
    return {
        site: SiteMap.to(target, DensityModel(own.mixture), study.options)
        for site, own in sites.items()
    }


def write_references(folder: Path, references: References) -> list[str]:
    """Write the references and the maps of sites; remove maps left by a run in another mode.

    Returns
    -------
    list of str
        The names of the files.
    """
    names = [reference_name(None)]
    ReferenceModel(references.common).write_if_changed(folder / names[0])
    for site, reference in references.sites.items():
        names.append(reference_name(site))
        ReferenceModel(reference).write_if_changed(folder / names[-1])
        name = reference_name(site, "map")
        goal = references.goals.get(site)
        if goal is None or goal.site is None:
            (folder / name).unlink(missing_ok=True)
        else:
            names.append(name)
            MapRecord(goal.site.solution.imap).write_if_changed(folder / name)
    return names


def reference_name(site: str | None, kind: str = "reference") -> str:
    """Return the file name of the reference of a site, or of the common one."""
    return f"{kind}.json" if site is None else f"{kind}_{safe_name(site)}.json"


def read_reference(path: str, channel: str = ANY_CHANNEL) -> Reference:
    """Read a reference; of a file with one for each of several channels, that of one of them.

    Parameters
    ----------
    path : the file, or the name of a reference in the package.
    channel : what the images show.

    Raises
    ------
    FileError : for a mixture in its place, a joint reference, or one of other channels.
    """
    return _read(path, [], channel)


def _read(path: str, read: list[FileHash], channel: str) -> Reference:
    """Read a reference, and note its file."""
    kinds = ("mixture", "reference", "references")
    kind, payload, file = read_builtin(path) if is_builtin(path) else read_model(path, *kinds)
    if kind == "mixture":
        raise FileError(path, "a mixture, not a reference", "make one with 'ndflow reference'")
    if kind == "references":
        known = ReferenceModels.of_payload(path, payload)
        if channel not in known.channel_names:
            cause = f"holds references of {listed(known.channel_names)}, not of {channel}"
            hint = f"say which, for example --channels {known.channel_names[0]}"
            raise FileError(path, cause, hint)
        found = known.references[channel].reference
    else:
        found = ReferenceModel.of_payload(path, payload).reference
    if found.mixture.channels > 1:
        cause = f"a joint reference of {listed(found.channel_names)}"
        raise FileError(path, cause, "use it with --joint and all of these channels")
    read.append(file)
    return found


def _average(
    study: Study, scans: Sequence[Subject], models: Models, weights: ScanWeights
) -> Reference:
    return build_reference(
        [replace(models[scan.name], tissues=None) for scan in scans],
        study.method,
        names=[scan.name for scan in scans],
        channel_names=study.channel,
        average=study.options.average,
        weights=weights.for_scans(scans),
    )


def _site_reference(
    study: Study,
    site: str,
    scans: Sequence[Subject],
    average: Callable[[Sequence[Subject]], Reference],
    read: list[FileHash],
    *,
    nested: bool,
) -> Reference:
    """Return the reference of a site: the one beside the given reference, or one of its scans."""
    alone = study.given is None or is_builtin(study.given)
    beside = None if alone else Path(str(study.given)).with_name(reference_name(site))
    if beside is not None and beside.exists():
        files: list[FileHash] = []
        known = _read(str(beside), files, study.channel)
        used = set(known.provenance.get("names") or ())
        own = {scan.name for scan in study.scans if scan.site == site}
        if not nested or used.isdisjoint(own):
            read += files
            return known
    return average([scan for scan in scans if scan.site == site])


def _plain_target(study: Study, common: Reference) -> Target:
    """Return the common reference as a target without its tissues."""
    model = DensityModel(common.mixture)
    name = _OWN if study.given is None else study.given
    return Target(model, name, has_units=False, files={})


def _target(study: Study, common: Reference) -> Target:
    """Return the common reference as a target of the method."""
    name = _OWN if study.given is None else study.given
    return target_of(DensityModel.of_reference(common), True, name, study.options)


def _tissues(
    study: Study,
    scans: Sequence[Subject],
    models: Models,
    common: Reference,
    ways: Mapping[str, SiteMap],
    weights: ScanWeights,
) -> TissueModel:
    """Return the tissues of a study, from the tissue maps of those scans that have any.

    Where scans go through a map of their site, so do their tissues, to the space of the reference.
    """
    known = [scan for scan in scans if isinstance(models[scan.name].tissues, Tissues)]
    tissues: list[Tissues] = [models[scan.name].tissues for scan in known]  # type: ignore[misc]
    if not ways:
        return tissue_model(tissues, weights=weights.for_scans(known))
    plain = _plain_target(study, common)
    units = units_of(plain, study.options)

    def to_reference(scan: Subject) -> IntensityMap:
        goal = Goal(in_units(plain, study.options), study.options, ways[scan.site or ""])
        imap = goal.solve(models[scan.name]).imap
        return imap if units is None else Chain((imap, units.inverse()))

    maps = [to_reference(scan) for scan in known]
    return tissue_model(tissues, maps.__getitem__, weights=weights.for_scans(known))


# ── what the preset decides before any work ───────────────────────────────────────────────────────


def with_choices(study: Study, choices: Choices) -> Study:
    """Return a study in which nothing is left open, and a reference in the package has a version.

    Parameters
    ----------
    study : its scans, and the reference that was given, if any.
    choices : what the user chose.

    Raises
    ------
    FileError : if a reference was given that cannot be read.
    InvalidValueError : for choices that the method does not use.
    """
    if is_builtin(study.given):
        study = replace(study, given=full_name(study.given))
    given = None if study.given is None else read_reference(study.given, study.channel)
    return settled(replace(study, choices=choices), study_facts(study, given))
