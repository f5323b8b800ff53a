"""Studies in memory, above all of simulated worlds: models of scans, and the maps of a method.

References and maps are made by the same code as those of any study (`ndflow.study.references`), so
what is measured in worlds is what users get.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from ndflow.demo.worlds import World, WorldScan
from ndflow.density import fit, histogram
from ndflow.image.subject import Scan
from ndflow.methods.base import method_called
from ndflow.methods.matching import Matching
from ndflow.methods.model import DensityModel
from ndflow.methods.modes import Goal
from ndflow.population import Tissues
from ndflow.scan.settings import Averaging
from ndflow.study.plan import Study
from ndflow.study.references import make_references
from ndflow.transport import IntensityMap

__all__ = ["goals_in_memory", "world_maps", "world_models"]


def world_models(world: World, *, tissues: bool = False) -> dict[str, DensityModel]:
    """Return what a study knows about the intensities of its scans, by their names.

    Parameters
    ----------
    world : the study.
    tissues : whether the true tissue probability maps are known, too.
    """
    return {scan.name: _model(scan, tissues) for scan in world.scans}


def goals_in_memory(
    sites: Mapping[str, str],
    models: Mapping[str, DensityModel],
    averaging: Averaging,
    matching: Matching,
) -> dict[str, Goal]:
    """Return what each scan of a study is brought to, by its name.

    Parameters
    ----------
    sites : of the scans, by their names.
    models : of the scans, likewise.
    averaging, matching : the settings.
    """
    scans = [Scan("", site=site, name=name) for name, site in sites.items()]
    study = Study(Path(), scans, averaging, matching=replace(matching, scale="standard"))
    goals = make_references(study, scans, models).goals
    return {scan.name: study.mode.goal_of(goals, scan.site) for scan in scans}


def world_maps(
    world: World,
    models: Mapping[str, DensityModel],
    averaging: Averaging,
    matching: Matching,
) -> dict[str, IntensityMap]:
    """Return the intensity maps that normalise the scans, by their names.

    Parameters
    ----------
    world : the study.
    models : of its scans, see `world_models`.
    averaging, matching : the settings.
    """
    sites = {scan.name: scan.site for scan in world.scans}
    goals = goals_in_memory(sites, models, averaging, matching)
    return {name: goal.solve(models[name]).imap for name, goal in goals.items()}


def _model(scan: WorldScan, tissues: bool) -> DensityModel:
    stored = np.rint(scan.values).astype(np.int16)  # as a file would hold them
    counted = histogram(stored)
    nyul = Matching(method="nyul")
    return DensityModel(
        fit(counted).mixture,
        method_called("nyul").measure(counted, nyul),
        _tissues(scan, stored) if tissues else None,
    )


def _tissues(scan: WorldScan, stored: np.ndarray) -> Tissues:
    shares = scan.tissues.T.astype(np.float64)
    densities = tuple(fit(histogram(stored, weights=share)).mixture for share in shares)
    amounts = shares.sum(axis=1)
    return Tissues(densities, amounts / amounts.sum())
