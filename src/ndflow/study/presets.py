"""What a preset decides once the densities of a study are known.

Whether tissue maps were made by one labeller shows in their proportions of tissue, and whether a
reference can be split into tissues shows in its components. So *auto* decides twice: before any
work, by the table, and when the reference is made, by the same rules with these facts as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ndflow.image.subject import Subject
from ndflow.methods.base import DensityModel
from ndflow.population import Reference, Tissues
from ndflow.preparation.brain import contrast_in_name, is_other_contrast
from ndflow.study.checks import labeller_doubts
from ndflow.study.plan import ANY_CHANNEL, Study
from ndflow.subject.presets import StudyFacts, TargetFacts, can_split, settled_study
from ndflow.values import FloatArray


def study_facts(study: Study, given: Reference | None) -> StudyFacts:
    """Return what is known about a study before any work.

    Parameters
    ----------
    study : what is to be done.
    given : the reference that was given, if any.
    """
    return StudyFacts(
        len(study.scans),
        study.site_counts,
        sum(scan.tissues.complete for scan in study.scans),
        None if given is None else TargetFacts.of_reference(given),
        can_split=can_split(3, _contrast(study)),
    )


def settled(study: Study, facts: StudyFacts) -> Study:
    """Return a study with the settings that its preset gives it; as it is, if it has no preset."""
    if study.choices is None:
        return study
    options, preset = settled_study(study.choices, facts)
    return replace(study, options=options, preset=preset)


def decided(
    study: Study, scans: Sequence[Subject], models: Mapping[str, DensityModel], common: Reference
) -> Study:
    """Return a study with the settings that its preset gives it now that densities are known.

    Parameters
    ----------
    study : as it was planned.
    scans, models : what its references are made from.
    common : the reference of all scans, made or given; without tissues if it was made.
    """
    if study.choices is None:
        return study
    facts = study_facts(study, None if study.given is None else common)
    return settled(
        study,
        replace(
            facts,
            one_labeller=by_one_labeller(scans, models),
            can_split=can_split(common.mixture.components, _contrast(study)),
        ),
    )


def by_one_labeller(scans: Sequence[Subject], models: Mapping[str, DensityModel]) -> bool:
    """Tell whether the tissue maps of all sites seem to be made in the same way."""
    return not labeller_doubts(proportions_by_site(scans, models))


def proportions_by_site(
    scans: Sequence[Subject], models: Mapping[str, DensityModel]
) -> dict[str, FloatArray]:
    """Return the tissue proportions of each site, (n, 3), where sites and maps are known."""
    found: dict[str, list[FloatArray]] = {}
    for scan in scans:
        own = models[scan.name].tissues
        if scan.site is not None and isinstance(own, Tissues):
            found.setdefault(scan.site, []).append(own.proportions)
    return {site: np.array(rows) for site, rows in found.items()}


def _contrast(study: Study) -> str:
    """Return what the images show: as it was said or, where it was not, by their names."""
    if study.channel != ANY_CHANNEL:
        return study.channel
    named = (contrast_in_name(scan.path) for scan in study.scans)
    return next((one for one in named if one and is_other_contrast(one)), study.channel)
