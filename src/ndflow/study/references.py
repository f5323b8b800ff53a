"""What the scans of a study are brought to: references made from their models, or given.

There is one common reference, and one for each site. They do not depend on the order of the scans.

Whether tissue maps were made by one labeller shows in their proportions of tissue, and whether a
reference can be split into tissues shows in its components. So *auto* decides twice: before any
work, by the table, and when the reference is made, by the same rules with these facts as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import multimode
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.errors import FileError
from ndflow.files.model_files import not_ours, read_model
from ndflow.files.stream import FileHash, fingerprint_of
from ndflow.image.subject import (
    ANY_CHANNEL,
    T1W,
    Subject,
    contrast_called,
    contrast_in_name,
)
from ndflow.methods.base import DensityModel, build_reference
from ndflow.methods.modes import Goal, SiteMap, Visit
from ndflow.population import Reference, TissueModel, Tissues, tissue_model
from ndflow.population.proportions import OF_ANY, OF_SITE, Trust, trust, variation_of
from ndflow.population.travelling import Seen, travellers_by_site
from ndflow.study import weights as weighting
from ndflow.study.checks import site_doubts
from ndflow.study.plan import PROVENANCE, Study, reference_name
from ndflow.study.scan_steps import NormaliseStep
from ndflow.study.site_checks import maps_in_doubt, odd_scans, sites_in_doubt
from ndflow.study.steps import Done
from ndflow.study.tasks import Outcome, Progress
from ndflow.study.weights import ScanWeights
from ndflow.subject import presets, target
from ndflow.subject.doubts import density_distance, reference_doubts
from ndflow.subject.records import MapRecord, ReferenceModel, ScanModel, StudyRecord, densities_in
from ndflow.subject.target import Target, check_units, in_units, is_builtin
from ndflow.subject.voxels import error_about
from ndflow.transport import Chain, IntensityMap, align
from ndflow.values import Doubt, FloatArray, listed

ALL_SCANS = "all scans"
_OWN = "the reference of these scans"

Models = Mapping[str, DensityModel]  # by the name of the scan
Visits = Mapping[str, Sequence[Subject]]


class References(NamedTuple):
    """What the scans of a study are brought to.

    Attributes
    ----------
    common, sites : the references.
    goals : what scans are brought to: one goal per site, and one for all under None.
    study : with what its preset decided, now that densities are known.
    read : the files of references that were given.
    weights : of the scans in the references.
    of_study : doubts about the study as a whole.
    scans, fits : those that were compared, and their densities, by their names.
    odd : what is doubtful about scans in comparison with others, by their names.
    made_from : the hash of all that the averages depend on.
    visits : see `visits_of`.
    """

    common: Reference
    sites: dict[str, Reference]
    goals: dict[str | None, Goal]
    study: Study
    read: tuple[FileHash, ...]
    weights: ScanWeights
    of_study: tuple[Doubt, ...] = ()
    scans: Sequence[Subject] = ()
    fits: Mapping[str, ScanModel] = MappingProxyType({})
    odd: Mapping[str, tuple[Doubt, ...]] = MappingProxyType({})
    made_from: str | None = None
    visits: Visits = MappingProxyType({})

    @property
    def trust(self) -> dict[str, Trust]:
        """How far proportions are known at each site, or of all scans; where that was estimated."""
        return {
            site or ALL_SCANS: trust(goal.reference.tissues, goal.variation)
            for site, goal in self.goals.items()
            if isinstance(goal.reference.tissues, TissueModel)
            and goal.variation not in (OF_ANY, OF_SITE)
        }

    def step(self, scan: Subject) -> NormaliseStep:
        """Return the last step of a scan, which brings it to its goal."""
        study = replace(self.study, scans=(), raw=None)  # which need not go to every worker
        models = {one.name: self.fits[one.name].model for one in self.visits.get(scan.name, ())}
        goal = goal_of(study, self.goals, scan, self.visits, models)
        return NormaliseStep(study, goal, self.odd.get(scan.name, ()), self.fits.get(scan.name))


def compare_scans(
    study: Study, fitted: Mapping[str, Done], before: StudyRecord | None, progress: Progress
) -> References:
    """Make the references of some scans that were fitted, and compare the scans with each other.

    Parameters
    ----------
    study : that they belong to.
    fitted : what became of those that were fitted, by their names.
    before : an earlier run in the same folder; its averages are kept if they were made from the
        same.
    progress : follows how far it has come.
    """
    progress.begin("references", 1)
    scans = [scan for scan in study.scans if scan.name in fitted]
    fits = {
        scan.name: fitted[scan.name].model or ScanModel.read(study.model(scan)) for scan in scans
    }
    names = study.options.balance
    made_from = fingerprint_of(
        densities=[(scan.name, scan.site, fits[scan.name].fingerprint) for scan in scans],
        settings={**study.settings, "channels": study.channels},
        covariates={name: [scan.covariates.get(name) for scan in scans] for name in names},
        people=[scan.person for scan in scans] if names == weighting.PEOPLE else None,
        preset=None if study.preset is None else study.preset.to_dict(),
    )
    known: dict[str, Reference] = {}
    if before is not None and before.made_from == made_from and not before.inputs:
        files = [study.folder / name for name in before.outputs if name.startswith("reference")]
        for path in files:
            if path.exists() and not not_ours(study.folder / PROVENANCE, [path]):
                known[path.name] = ReferenceModel.read(path).reference
    if study.partial:  # whose reference was given: each scan by itself, whatever others are there
        made, odd = make_references(study, [], {}), dict[str, tuple[Doubt, ...]]()
        for scan in scans:
            odd |= odd_scans(
                [scan], fits, made.common.mixture, _shown(made.common.channel_names, scans)
            )
        progress.step("references", Outcome("references", None))
        return made._replace(scans=scans, fits=fits, odd=odd, visits=visits_of(study, scans))
    models = {name: fit.model for name, fit in fits.items()}
    made = make_references(study, scans, models, known=known)
    few, more = reference_doubts(made.common.scans), tuple[Doubt, ...]()
    if names == weighting.PEOPLE:
        more = weighting.traveller_doubts(weighting.travellers(made.study, scans))
    elif names:
        more = weighting.balance_doubts(made.weights, scans, names)
    elif made.study.mode.by_site and study.given is None:
        name, ages = weighting.ages_by_site(scans)
        more = weighting.age_doubts(ages, name)
    of_sites = sites_in_doubt(scans, fits, t1w=_shows_t1w(made.common, scans))
    progress.step("references", Outcome("references", None))
    return made._replace(
        of_study=(*of_sites, *listing_doubts(study), *few, *made.of_study, *more),
        scans=scans,
        fits=fits,
        odd=odd_scans(scans, fits, made.common.mixture, _shown(made.common.channel_names, scans)),
        made_from=made_from,
        visits=visits_of(made.study, scans),
    )


def visits_of(study: Study, scans: Sequence[Subject]) -> dict[str, list[Subject]]:
    """Return the scans of a person that share a map, in order, by the name of each of them.

    Those are the scans at one site. Those at other sites are among them only if sites have maps,
    and the target does not tell people from scanners.
    """
    together = study.options.visits == "together" and study.method.matches_densities
    if not together or len(study.channels) > 1:
        return {}
    across = study.mode.by_site and not study.target_rule.needs_tissue_model
    people: dict[tuple[str, str | None], list[Subject]] = {}
    for scan in sorted(scans, key=lambda scan: scan.name):
        if scan.person is not None:
            people.setdefault((scan.person, None if across else scan.site), []).append(scan)
    return {scan.name: own for own in people.values() if len(own) > 1 for scan in own}


def goal_of(
    study: Study,
    goals: Mapping[str | None, Goal],
    scan: Subject,
    visits: Visits,
    models: Models,
) -> Goal:
    """Return what a scan is brought to, with the other visits of the same person.

    Parameters
    ----------
    study, goals : the settings, and the goal of each site.
    scan : the scan.
    visits : see `visits_of`.
    models : what is known about these.
    """
    goal = study.mode.goal_of(goals, scan.site)
    own = visits.get(scan.name, ())
    sites = [study.mode.goal_of(goals, one.site).site for one in own]
    return replace(
        goal,
        visits=tuple(Visit(models[one.name], site) for one, site in zip(own, sites, strict=True)),
        place=[one.name for one in own].index(scan.name) if own else 0,
    )


def listing_doubts(study: Study) -> tuple[Doubt, ...]:
    """Return what is doubtful about a study as it was listed and asked for, before any work."""
    if study.partial:
        return ()
    only_sites = study.given is None and study.mode.by_site and not study.mode.per_scan
    return site_doubts(study.site_counts, mapped=only_sites)


def check_references(study: Study) -> None:
    """Raise an error, before any work, if references cannot be made or used as asked."""
    options = study.options
    study.mode.check(options)
    weighting.check_balance(study)
    if study.given is None:
        check_units(options, name=_OWN)
        return
    given = read_reference(study.given, study.channels)[0]
    check_units(options, name=study.given, model=in_units(_target(study, given), options))
    target.check_contrast(study.scans, given.channel_names, study.given)


def make_references(
    study: Study,
    scans: Sequence[Subject],
    models: Models,
    *,
    nested: bool = False,
    known: Mapping[str, Reference] = MappingProxyType({}),
) -> References:
    """Return the references made from some scans of a study, and what scans are brought to.

    Parameters
    ----------
    study : the settings, and the reference that was given, if any.
    scans : the scans to make them from.
    models : what is known about these scans.
    nested : whether references of sites that other scans of the study went into are made anew.
    known : averages that need not be made again, by the names of their files.
    """
    ordered = sorted(scans, key=lambda scan: scan.name)
    weights = weighting.scan_weights(study, ordered)
    travelled = weighting.travellers(study, ordered)
    if ordered and study.options.balance == weighting.PEOPLE and not nested:
        weighting.check_connected(study, travelled)

    def average(site: str | None) -> Reference:
        some = [scan for scan in ordered if site in (None, scan.site)]
        some = [scan for scan in some if site and scan.person in travelled] or some
        return known.get(reference_name(site)) or build_reference(
            [replace(models[scan.name], tissues=None) for scan in some],
            study.method,
            names=[scan.name for scan in some],
            channel_names=study.channels,
            average=study.options.average,
            weights=weights.for_scans(some),
        )

    read: list[FileHash] = []
    if study.given is None:
        common = average(None)
    else:
        common, file = read_reference(study.given, study.channels)
        read.append(file)
    one_labeller = not maps_in_doubt(ordered, models, t1w=_shows_t1w(common, ordered))
    study = settled(
        study,
        None if study.given is None else common,
        components=common.mixture.components,
        one_labeller=one_labeller,
    )
    sites, unlike = dict[str, Reference](), list[Doubt]()
    single = len(study.channels) == 1
    beside = references_of_sites(study)
    for site in sorted({scan.site for scan in ordered if scan.site is not None and single}):
        given = read_reference(str(beside[site]), study.channels) if site in beside else None
        names = {scan.name for scan in study.scans if scan.site == site}
        if given and nested and not names.isdisjoint(given[0].provenance.get("names") or ()):
            given = None
        sites[site] = given[0] if given else average(site)
        read += [given[1]] if given else []
        if given and study.mode.by_site and not nested:
            some = [models[scan.name].mixture for scan in ordered if scan.site == site]
            unlike += _scanner_doubts(site, given[0], average(site).mixture, some)
    seen = travellers_by_site(
        {
            person: {site: _mean_quantiles(own, models) for site, own in by_site.items()}
            for person, by_site in travelled.items()
        }
    )
    common, ways = _with_tissues(study, ordered, models, common, sites, weights, one_labeller, seen)
    goal = in_units(_target(study, common), study.options)
    check_units(study.options, name=_OWN, model=goal)
    goals = study.mode.goals(goal, ways, study.options)
    goals = _with_variation(study, goals, ordered, models, seen)
    return References(common, sites, goals, study, tuple(read), weights, tuple(unlike))


def references_of_sites(study: Study) -> dict[str, Path]:
    """Return the references of its sites that lie beside the reference that was given."""
    if study.given is None or is_builtin(study.given) or len(study.channels) > 1:
        return {}
    paths = {site: Path(study.given).with_name(reference_name(site)) for site in study.site_counts}
    return {site: path for site, path in paths.items() if path.exists()}


def _scanner_doubts(
    site: str, given: Reference, average: GaussianMixture, scans: Sequence[GaussianMixture]
) -> tuple[Doubt, ...]:
    """Return a doubt if the scans of a site are, on average, unlike the reference of that name.

    Let s be the mean distance of n scans from their average, and N those of the reference. Then the
    two averages may be 2 s √(1 + 1/n + 1/N) apart: people of other ages (the 1) and chance. In 68
    scans of three sites, parts of one need at most 1.7 instead of 2, also the youngest and oldest
    third; two scanners 1.3 (alike like people of two ages, and so not noticed), others 4 to 5.
    """
    n, apart = len(scans), density_distance(average, given.mixture)
    single = sum(density_distance(one, average) for one in scans) / max(n - 1, 1)
    usual = max(single * ((n - 1) / n) ** 0.5, 0.03)  # of those 68; few scans may be alike
    if apart <= 2 * usual * (1 + 1 / n + 1 / given.scans) ** 0.5:
        return ()
    text = f"Z-scored, the average of {site} is {apart:.2f} sd from {reference_name(site)}; "
    text += f"single scans are {usual:.2f} from the average of their site."
    hint = "if it is not the scanner of that reference, give the site another name"
    return (Doubt("other scanner", text, hint),)


def _with_tissues(
    study: Study,
    scans: Sequence[Subject],
    models: Models,
    common: Reference,
    sites: Mapping[str, Reference],
    weights: ScanWeights,
    one_labeller: bool,
    seen: Mapping[str, Seen],
) -> tuple[Reference, dict[str, SiteMap]]:
    """Return the common reference with tissues, if these are needed, and the maps of sites to it.

    The tissues of scans are averaged through the maps of their sites. Tissue maps that differ by
    site are left out where the target can do without: what they disagree about would be taken for
    a difference of people. Tissues that an earlier run found in the same way are kept.
    """
    rule, scans = study.target_rule, weights.weighted(scans)
    ways = _site_maps(study, sites, _plain_target(study, common), seen)
    if study.given is not None or not rule.needs_tissue_model:
        return common, ways
    mapped = any(isinstance(models[scan.name].tissues, Tissues) for scan in scans)
    if not mapped or not (rule.needs_tissue_maps or one_labeller):
        with error_about(_OWN):
            common = replace(common, tissues=rule.population_tissues(common.mixture, None))
    elif common.tissues is None:
        common = replace(common, tissues=_tissues(study, scans, models, common, ways, weights))
    return common, ways


def _with_variation(
    study: Study,
    goals: Mapping[str | None, Goal],
    scans: Sequence[Subject],
    models: Models,
    seen: Mapping[str, Seen],
) -> dict[str | None, Goal]:
    """Return goals that know the people of each, and how scans differ beside them, if it counts.

    Scans that go to a given reference by themselves must not depend on the others. A map that is
    known from travelling people keeps the people of its site as it is.
    """
    alone = study.given is not None and not study.mode.by_site
    if alone or not (study.mode.per_scan and study.target_rule.carries_voxels):
        return dict(goals)
    found = dict(goals)
    for site, goal in goals.items():
        if (goal.site is not None) != study.mode.by_site:
            continue
        own = [scan for scan in scans if site is None or scan.site == site]
        goal = goal if site in seen else goal.for_people()
        quantiles = [goal.on_the_way(models[scan.name]).distribution for scan in own]
        usual = OF_ANY if goal.site is None else OF_SITE
        tissues: TissueModel = goal.reference.tissues  # type: ignore[assignment]
        found[site] = replace(goal, variation=variation_of(quantiles, tissues, usual))
    return found


def _site_maps(
    study: Study, sites: Mapping[str, Reference], common: Target, seen: Mapping[str, Seen]
) -> dict[str, SiteMap]:
    """Return the maps from the references of sites to the common one, if the study goes by site.

    Those of sites where people were seen who travelled are known from these alone.
    """
    if not study.mode.by_site:
        return {}
    goal, found = in_units(common, study.options), dict[str, SiteMap]()
    for site, own in sites.items():
        model = DensityModel(own.mixture)
        if site in seen:
            found[site] = SiteMap.of_travellers(goal, model, seen[site])
        else:
            found[site] = SiteMap.to(goal, model, study.options)
    return found


def _mean_quantiles(scans: Sequence[Subject], models: Models) -> FloatArray:
    """Return the mean of the quantiles of some scans, z-scored."""
    known = [models[scan.name] for scan in scans]
    return np.asarray(np.mean([align(one.mixture)(one.distribution) for one in known], axis=0))


def reference_files(references: References) -> dict[str, bytes]:
    """Return the references and the maps of sites, by the names of their files."""
    files = {reference_name(None): ReferenceModel(references.common).content()}
    for site, reference in references.sites.items():
        files[reference_name(site)] = ReferenceModel(reference).content()
        goal = references.goals.get(site)
        if goal is not None and goal.site is not None:
            imap = goal.site.solution.imap
            files[reference_name(site, "map")] = MapRecord(imap).content()
    return files


def read_reference(path: str, channels: Sequence[str]) -> tuple[Reference, FileHash]:
    """Read the reference of some channels, from a file that may hold more; return its file, too."""
    kinds = ("mixture", "reference", "references")
    read = target.read_builtin(path) if is_builtin(path) else read_model(path, *kinds)
    if read.kind == "mixture":
        raise FileError(path, "a mixture, not a reference", "make one with 'ndflow reference'")
    known = densities_in(read)
    part = known.get("") or (known.get(channels[0]) if len(channels) == 1 else None)
    found = part.reference if isinstance(part, ReferenceModel) else None
    if found is None or found.mixture.channels != len(channels):
        names = found.channel_names if found is not None else [*known]
        each = "" if found is not None else ", each by itself"
        cause = f"holds references of {listed(names)}{each}, not of {listed(channels)}"
        hint = f"choose with --channels {' '.join(names)}; --joint is for a joint reference"
        raise FileError(path, cause, hint)
    return found, read.file


def _plain_target(study: Study, common: Reference) -> Target:
    """Return the common reference as a target without its tissues."""
    return Target(DensityModel(common.mixture), study.given or _OWN, has_units=False, files={})


def _target(study: Study, common: Reference) -> Target:
    """Return the common reference as a target of the method."""
    model = DensityModel.of_reference(common)
    return target.target_of(model, True, study.given or _OWN, study.options)


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
    plain = _plain_target(study, common)
    units = target.units_of(plain, study.options)

    def to_reference(scan: Subject) -> IntensityMap:
        goal = Goal(in_units(plain, study.options), study.options, ways[scan.site or ""])
        imap = goal.solve(models[scan.name]).imap
        return imap if units is None else Chain((imap, units.inverse()))

    maps = [to_reference(scan) for scan in known] if ways else None
    return tissue_model(tissues, maps, weights=weights.for_scans(known))


# ── what the preset decides ───────────────────────────────────────────────────────────────────────


def settled(
    study: Study, given: Reference | None, *, components: int = 3, one_labeller: bool = True
) -> Study:
    """Return a study with the settings that its preset gives it; as it is, if it has no preset.

    Parameters
    ----------
    study : with what the user chose.
    given : the reference that was given, if any.
    components : of the common reference, once that is made.
    one_labeller : whether the tissue maps of all sites seem to be made in the same way.
    """
    if study.choices is None:
        return study
    facts = presets.StudyFacts(
        len(study.scans),
        study.site_counts,
        sum(scan.tissues.complete for scan in study.scans),
        None if given is None else presets.TargetFacts.of_reference(given),
        one_labeller,
        presets.can_split(components, _shown((study.channel,), study.scans)[0]),
        len(study.channels),
        study.dataset and given is not None,
    )
    options, preset = presets.settled_study(study.choices, facts)
    return replace(study, options=options, preset=preset)


def _shown(said: Sequence[str], scans: Sequence[Subject]) -> Sequence[str]:
    """Return what images show: as it was said or, where it was not, as most of their names say."""
    usual = multimode(contrast_in_name(scan.path) for scan in scans)
    by_name = tuple(said) == (ANY_CHANNEL,) and len(usual) == 1
    return (usual[0] or ANY_CHANNEL,) if by_name else said


def _shows_t1w(common: Reference, scans: Sequence[Subject]) -> bool:
    """Tell whether images are known to be T1w, those of the first of several channels."""
    return contrast_called(_shown(common.channel_names, scans)[0]) == T1W
