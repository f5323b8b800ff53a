"""A whole study in three passes.

1. Every scan → its density, in a file of its own; nothing else comes back from the workers.
2. Densities → the common reference, and one for each site.
3. Every scan → its map → its normalised image.

A scan that fails is left out and reported, and the others go on. What is there already, with the
fingerprint it should have, is kept (`ndflow.files.fingerprints`). Results are the same for any
number of workers: densities are averaged in an order that does not depend on them.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ndflow.doubt import Doubt
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.fingerprints import FileHash
from ndflow.image.subject import Subject
from ndflow.methods.base import DensityModel
from ndflow.methods.modes import Goal
from ndflow.options import Options
from ndflow.population.balancing import SiteBalance
from ndflow.preparation.brain import is_other_contrast
from ndflow.study.checks import (
    Compared,
    Doubts,
    compared_doubts,
    doubt_counts,
    labeller_doubts,
    odd_scans,
)
from ndflow.study.distances import ScanQuantiles, SiteDistances, site_distances
from ndflow.study.plan import Plan, Study
from ndflow.study.prepared_images import keeps_mask
from ndflow.study.presets import proportions_by_site
from ndflow.study.references import (
    References,
    check_references,
    make_references,
    read_fits,
    write_references,
)
from ndflow.study.scan_jobs import (
    fit_job,
    fitted_before,
    lacks_tissue_maps,
    normalise_job,
    normalised_before,
)
from ndflow.study.scan_pass import ScanTasks, Work, outcomes_of
from ndflow.study.tasks import Failure, Outcome, Progress, check_jobs
from ndflow.study.weights import age_doubts, ages_by_site, balance_doubts
from ndflow.subject.presets import PresetRecord
from ndflow.subject.records import ScanModel
from ndflow.subject.voxels import check_found_mask

if TYPE_CHECKING:
    from ndflow.study.prepare_run import PreparationSummary

Arguments = dict[str, Any]


@dataclass
class Pass:
    """What a pass over the scans gave.

    Attributes
    ----------
    done : the names of the scans that did not fail.
    kept : how many of them had been done before.
    failures : of the others that were tried.
    doubts : about scans that did not fail, by their names.
    compared : what is compared between scans, by their names.
    quantiles : of scans and their results, by their names.
    """

    done: set[str] = field(default_factory=set)
    kept: int = 0
    failures: list[Failure] = field(default_factory=list)
    doubts: dict[str, tuple[Doubt, ...]] = field(default_factory=dict)
    compared: dict[str, Compared] = field(default_factory=dict)
    quantiles: dict[str, ScanQuantiles] = field(default_factory=dict)

    @property
    def tried(self) -> list[str]:
        """The names of all scans that were tried."""
        return [*self.done, *(failure.scan for failure in self.failures)]

    def all_doubts(self) -> dict[str, tuple[Doubt, ...]]:
        """Return the doubts about scans, with those that only show in comparison with others."""
        more = compared_doubts(self.compared)
        return {
            name: (*self.doubts.get(name, ()), *more.get(name, ()))
            for name in self.compared
            if name in self.doubts or name in more
        }

    def distances(self) -> SiteDistances | None:
        """Return how far apart the sites are, before and after; None of fewer than two scans."""
        sites = [self.compared[name].site for name in self.quantiles]
        return site_distances(list(self.quantiles.values()), sites)


class ReferencePass(NamedTuple):
    """What the second pass gave.

    Attributes
    ----------
    study : with what its preset decided, now that densities are known.
    goals : what scans are brought to, see `References`.
    doubts : about scans that are unlike the others, or unlike the reference.
    read, written : the files of references that were given, and the names of those made.
    of_study : doubts about the study as a whole.
    balance : what the weights of each site achieve, if scans are weighted.
    """

    study: Study
    goals: dict[str | None, Goal]
    doubts: Doubts
    read: Sequence[FileHash]
    written: Sequence[str]
    of_study: tuple[Doubt, ...] = ()
    balance: Mapping[str, SiteBalance] = MappingProxyType({})


class Passes(NamedTuple):
    """What each pass of a study gave."""

    prepared: PreparationSummary | None
    fitted: Pass
    references: ReferencePass
    normalised: Pass


class Summary(NamedTuple):
    """How a study ended.

    Attributes
    ----------
    done, kept : scans that were normalised, and those of them that had been before.
    failures : of the others.
    doubts_of : what to check by eye, by the name of the scan.
    distances : how far apart the sites are, before and after; None of fewer than two scans.
    prepared : how their preparation ended, if they were prepared with the study.
    of_study : what is doubtful about the study as a whole, such as its tissue maps.
    preset : what the preset decided, and why; None for a method without presets.
    balance : what the weights of each site achieve, if scans are weighted.
    """

    done: int
    kept: int
    failures: list[Failure]
    doubts_of: Mapping[str, tuple[Doubt, ...]] = MappingProxyType({})
    distances: SiteDistances | None = None
    prepared: PreparationSummary | None = None
    of_study: tuple[Doubt, ...] = ()
    preset: PresetRecord | None = None
    balance: Mapping[str, SiteBalance] = MappingProxyType({})

    @property
    def doubts(self) -> dict[str, list[str]]:
        """The names of the scans to check by eye, by what is doubtful; the most frequent first."""
        return {count.kind: count.scans for count in doubt_counts(self.doubts_of)}


def check_study(study: Study) -> None:
    """Raise an error, before any work, for wrong options or scans that lack what these need."""
    check_jobs(study.jobs)
    check_references(study)
    if is_other_contrast(study.channel) and any(map(keeps_mask, study.scans)):
        raise InvalidValueError(
            f"--mask brain finds brains in T1w images, but these are {study.channel}; give masks"
        )
    for scan in study.scans:
        check_found_mask(scan)
        if study.target_rule.needs_tissue_maps and not scan.tissues.complete:
            raise lacks_tissue_maps(scan)
        if study.mode.by_site and scan.site is None:
            hint = "name it in the table or in participants.tsv, or use --mode individual"
            raise FileError(scan.path, f"its site is not known ({scan.origin})", hint)


def fit_scans(study: Study, progress: Progress) -> Pass:
    """Do the first pass."""
    options = fit_options(study)
    work = Work("fit", partial(fit_job, options=options), partial(fitted_before, options=options))
    return over_scans(study, work, ScanTasks(study, study.scans), progress)


def fit_options(study: Study) -> Options:
    """Return the options of the first pass.

    Where *auto* decides about the target by how many scans there are, their maps are read anyway:
    a participant of a BIDS dataset that is fitted alone has the same density as with the others.
    """
    if study.given is None and study.target_is_open:
        return replace(study.options, proportions="adaptive")
    if study.given is not None and not study.target_rule.needs_tissue_maps:
        # Tissue maps of these scans are not used.
        return replace(study.options, proportions="average")
    return study.options


def normalise_scans(done: Container[str], references: ReferencePass, progress: Progress) -> Pass:
    """Do the third pass, over the scans of the first that did not fail."""
    study = references.study
    chosen: Arguments = {"settings": study.settings}
    work = Work(
        "normalise",
        partial(normalise_job, options=study.options, **chosen),
        partial(normalised_before, **chosen),
    )
    tasks = ScanTasks(
        study,
        _done(study, done),
        lambda scan: {
            "goal": study.mode.goal_of(references.goals, scan.site),
            "doubts": references.doubts.get(scan.name, ()),
        },
    )
    return over_scans(study, work, tasks, progress)


def build_references(study: Study, done: Container[str], progress: Progress) -> ReferencePass:
    """Do the second pass: make and write references, and compare the scans with each other."""
    scans = _done(study, done)
    stage = "references"

    def step() -> None:
        progress.step(stage, Outcome(stage, None, None))

    progress.begin(stage, len(scans) + 1 + len({scan.site for scan in scans if scan.site}))
    fits: dict[str, ScanModel] = {}
    for scan in scans:
        fits |= read_fits(study, [scan])
        step()
    models = {name: fit.model for name, fit in fits.items()}
    made = make_references(study, scans, models, each=step)
    odd = odd_scans(scans, fits, made.common.mixture)
    written = write_references(study.folder, made)
    study = made.study
    doubts = (*_of_study(study, scans, models), *_confounded(study, scans, made))
    balance = made.weights.sites
    return ReferencePass(study, made.goals, odd, made.read, written, doubts, balance)


def _of_study(
    study: Study, scans: Sequence[Subject], models: Mapping[str, DensityModel]
) -> tuple[Doubt, ...]:
    """Return doubts about tissue maps, by the proportions of scans whose site is known."""
    by_site = proportions_by_site(scans, models)
    return labeller_doubts(by_site, maps_needed=study.target_rule.needs_tissue_maps)


def _confounded(study: Study, scans: Sequence[Subject], made: References) -> tuple[Doubt, ...]:
    """Return doubts about covariates that differ by site, or that could not be balanced."""
    if study.options.balance:
        return balance_doubts(made.weights, scans, study.options.balance)
    if study.mode.by_site and study.given is None:
        name, ages = ages_by_site(scans)
        return age_doubts(ages, name)
    return ()


def _done(study: Study, done: Container[str]) -> list[Subject]:
    return [scan for scan in study.scans if scan.name in done]


def over_scans(plan: Plan, work: Work, tasks: ScanTasks, progress: Progress) -> Pass:
    """Do a pass over some scans.

    Parameters
    ----------
    plan : how many workers there are.
    work, tasks : what to do, and for which scans.
    progress : follows how far it has come.
    """
    result = Pass()
    progress.begin(work.stage, len(tasks))
    with closing(outcomes_of(plan, work, tasks)) as outcomes:
        for scan, outcome in outcomes:
            progress.step(work.stage, outcome)
            if outcome.failure is None:
                result.done.add(scan.name)
                result.kept += outcome.result.kept
                result.compared[scan.name] = outcome.result.compared
                if outcome.result.quantiles is not None:
                    result.quantiles[scan.name] = outcome.result.quantiles
                if outcome.result.doubts:
                    result.doubts[scan.name] = outcome.result.doubts
            else:
                result.failures.append(outcome.failure)
    return result
