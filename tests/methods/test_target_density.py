"""What a scan is matched to: the average, or tissues in proportions of its own."""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

import ndflow
from ndflow import GaussianMixture, stack
from ndflow.errors import InvalidValueError
from ndflow.methods.model import Portrait
from ndflow.methods.solve import Solution, solve
from ndflow.methods.target_density import aim_of
from ndflow.population import TissueModel, Tissues, tissue_model
from ndflow.settings import Matching

CLEAN = ((-1.9, 0.5), (-0.1, 0.4), (1.0, 0.25))  # fluid, grey and white matter, which overlap


@cache
def people(strength: float, count: int = 12) -> list[Portrait]:
    """Scans with much or little fluid, seen through a curve of their own, in units of their own."""
    generator = np.random.default_rng(5)
    scans = []
    for fluid in np.linspace(0.08, 0.38, count):
        shares = np.array([fluid, *((1 - fluid) * np.array([0.56, 0.44]))])
        bend, slope, offset = strength * generator.uniform(-1, 1), *generator.uniform(0.5, 3, 2)
        densities = []
        for mean, sd in CLEAN:  # x + bend sin x, which rises
            there, steep = mean + bend * np.sin(mean), 1 + bend * np.cos(mean)
            gaussian = GaussianMixture([1.0], [there], [(steep * sd) ** -2])
            densities.append(gaussian.transformed(100 * slope, 500 * offset))
        scans.append(Portrait(stack(densities, shares), tissues=Tissues(tuple(densities), shares)))
    return scans


def known(portrait: Portrait) -> Tissues:
    assert isinstance(portrait.tissues, Tissues)
    return portrait.tissues


def population(scans: list[Portrait]) -> Portrait:
    average = ndflow.reference([scan.mixture for scan in scans]).mixture
    return Portrait(average, tissues=tissue_model([known(scan) for scan in scans]))


def cells(scan: Portrait, solution: Solution) -> NDArray[np.float64]:
    """The quartiles of each tissue after the map, in units of the step from grey to white."""
    quartiles = [
        solution.imap(density.quantile([0.25, 0.5, 0.75])) for density in known(scan).densities
    ]
    return np.concatenate(quartiles) / (quartiles[2][1] - quartiles[1][1])


def spread(strength: float, target: str) -> NDArray[np.float64]:
    """How much the nine cells vary over scans, with a reference made of others."""
    scans = people(strength)
    goals = {0: population(scans[1::2]), 1: population(scans[0::2])}
    matching = Matching(target=target)  # type: ignore[arg-type]
    rows = [cells(s, solve(s, goals[n % 2], matching)) for n, s in enumerate(scans)]
    return np.std(rows, axis=0, ddof=1)


def test_tissues_come_to_lie_at_one_place_where_the_target_has_their_proportions() -> None:
    average, tissue = spread(0.25, "average"), spread(0.25, "tissue")
    assert tissue.mean() < 0.35 * average.mean()
    assert (tissue < average).all()


def test_without_a_contrast_of_their_own_scans_tell_their_proportions() -> None:
    average, adaptive = spread(0.0, "average"), spread(0.0, "adaptive")
    assert adaptive.mean() < 0.5 * average.mean()
    scans = people(0.0)
    goal = population(scans)
    found = [aim_of(scan, goal, Matching(target="adaptive")).record for scan in scans]
    fluid = [record["proportions"]["CSF"] for record in found if record is not None]
    truth = [known(scan).proportions[0] for scan in scans]
    assert np.corrcoef(fluid, truth)[0, 1] > 0.98


def test_a_target_has_the_proportions_of_the_scan_and_says_so() -> None:
    scans = people(0.25)
    goal = population(scans[1:])
    model, own = goal.tissues, known(scans[0]).proportions
    assert isinstance(model, TissueModel)
    aim = aim_of(scans[0], goal, Matching(target="tissue"))
    assert aim.density == model.target(own)
    assert aim.record is not None
    names = ("CSF", "GM", "WM")
    assert aim.record["proportions"] == dict(zip(names, own.tolist(), strict=True))
    assert aim.record["population"] == dict(zip(names, model.mean.tolist(), strict=True))
    assert (aim.record["from"], aim.record["tissues"]) == ("maps of its tissues", "maps")
    assert aim_of(scans[0], goal, Matching()) == (goal.mixture, None)


def test_what_the_plain_target_would_have_given_is_said_in_its_own_units() -> None:
    scans = people(0.25)
    goal = population(scans[1:]).transformed(ndflow.Affine(200.0, 1000.0))
    plain = solve(scans[0], goal, Matching())
    own = solve(scans[0], goal, Matching(target="tissue"))
    assert plain.aim is None
    assert own.aim is not None
    x = scans[0].mixture.quantile((np.arange(199) + 0.5) / 199)
    sd = float(np.sqrt(goal.mixture.covariance()[0, 0]))
    off = np.abs(plain.imap(x) - own.imap(x)) / sd
    assert own.aim["plain"]["rms_difference"] == pytest.approx(np.sqrt(np.mean(off**2)))
    assert own.aim["plain"]["largest_difference"] == pytest.approx(off.max())
    before, after = plain.divergences or (0, 0)
    assert own.aim["plain"]["divergence"] == {"before": before, "after": after}


def test_a_scan_that_does_not_tell_goes_to_the_average() -> None:
    goal = population(people(0.25))
    model = goal.tissues
    assert isinstance(model, TissueModel)
    scan = Portrait(GaussianMixture([1.0], [900.0], [200.0**-2]))  # far from any brain
    tight = Portrait(
        goal.mixture, tissues=TissueModel(model.densities, model.mean, np.zeros((3, 3)))
    )
    aim = aim_of(scan, tight, Matching(target="adaptive"))
    assert aim.density == goal.mixture
    assert aim.record is not None
    assert "no proportions make its map clearly milder" in aim.record["from"]
    assert list(aim.record["proportions"].values()) == model.mean.tolist()


def test_nothing_is_guessed_where_tissues_are_not_known() -> None:
    scan = people(0.25)[0]
    goal = population(people(0.25)[1:])
    with pytest.raises(InvalidValueError, match="needs the tissues of a population"):
        aim_of(scan, Portrait(goal.mixture), Matching(target="tissue"))
    with pytest.raises(InvalidValueError, match=r"maps of CSF, GM and WM are needed.*--csf"):
        aim_of(Portrait(scan.mixture), goal, Matching(target="tissue"))
