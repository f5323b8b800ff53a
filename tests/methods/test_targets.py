"""What a scan is matched to: the average, or tissues in proportions of its own."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ndflow
from ndflow import GaussianMixture
from ndflow.density import stack
from ndflow.errors import InvalidValueError
from ndflow.methods.base import DensityModel, Solution, TargetChoice, method_of
from ndflow.methods.ndflow import chosen_density, target_rule
from ndflow.options import Options
from ndflow.population import (
    TissueModel,
    Tissues,
    adapted_proportions,
    pushforward,
    tissue_model,
)

CLEAN = ((-1.9, 0.5), (-0.1, 0.4), (1.0, 0.25))  # CSF, GM and WM, which overlap
NAMES = ("CSF", "GM", "WM")


@cache
def people(strength: float, count: int = 12) -> list[DensityModel]:
    """Scans with much or little CSF, seen through a curve of their own, in units of their own."""
    generator = np.random.default_rng(5)
    scans = []
    for csf in np.linspace(0.08, 0.38, count):
        shares = np.array([csf, *((1 - csf) * np.array([0.56, 0.44]))])
        bend, slope, offset = strength * generator.uniform(-1, 1), *generator.uniform(0.5, 3, 2)
        densities = []
        for mean, sd in CLEAN:  # x + bend sin x, which rises
            there, steep = mean + bend * np.sin(mean), 1 + bend * np.cos(mean)
            gaussian = GaussianMixture([1.0], [there], [(steep * sd) ** -2])
            densities.append(gaussian.transformed(100 * slope, 500 * offset))
        tissues = Tissues(tuple(densities), shares)
        scans.append(DensityModel(stack(densities, shares), tissues=tissues))
    return scans


def known(model: DensityModel) -> Tissues:
    assert isinstance(model.tissues, Tissues)
    return model.tissues


def population(scans: list[DensityModel]) -> DensityModel:
    average = ndflow.reference([scan.mixture for scan in scans]).mixture
    return DensityModel(average, tissues=tissue_model([known(scan) for scan in scans]))


def chosen(
    source: DensityModel, target: DensityModel, kind: Any
) -> tuple[GaussianMixture, TargetChoice | None]:
    return target_rule(Options(proportions=kind)).density(source, target)


def solved(source: DensityModel, target: DensityModel, kind: Any) -> Solution:
    options = Options(proportions=kind)
    return method_of(options).solve(source, target, options)


def cells(scan: DensityModel, solution: Solution) -> NDArray[np.float64]:
    """The quartiles of each tissue after the map, in units of the step from GM to WM."""
    quartiles = [
        solution.imap(density.quantile([0.25, 0.5, 0.75])) for density in known(scan).densities
    ]
    return np.concatenate(quartiles) / (quartiles[2][1] - quartiles[1][1])


def variation(strength: float, target: str) -> NDArray[np.float64]:
    """The sd of each of the nine cells over scans, with a reference made of others."""
    scans = people(strength)
    goals = {0: population(scans[1::2]), 1: population(scans[0::2])}
    rows = [cells(s, solved(s, goals[n % 2], target)) for n, s in enumerate(scans)]
    return np.std(rows, axis=0, ddof=1)


def test_tissues_come_to_lie_at_one_place_where_the_target_has_their_proportions() -> None:
    average, tissue = variation(0.25, "average"), variation(0.25, "tissue")
    assert tissue.mean() < 0.35 * average.mean()
    assert (tissue < average).all()


def test_proportions_are_found_without_maps_where_scans_have_the_same_contrast() -> None:
    average, adaptive = variation(0.0, "average"), variation(0.0, "adaptive")
    assert adaptive.mean() < 0.5 * average.mean()
    scans = people(0.0)
    goal = population(scans)
    found = [chosen(scan, goal, "adaptive")[1] for scan in scans]
    csf = [choice.proportions["CSF"] for choice in found if choice is not None]
    truth = [known(scan).proportions[0] for scan in scans]
    assert np.corrcoef(csf, truth)[0, 1] > 0.98


def test_a_target_has_the_proportions_of_the_scan_and_says_so() -> None:
    scans = people(0.25)
    goal = population(scans[1:])
    model, own = goal.tissues, known(scans[0]).proportions
    assert isinstance(model, TissueModel)
    density, choice = chosen(scans[0], goal, "tissue")
    assert density == model.target(own)
    assert choice is not None
    assert choice.proportions == dict(zip(NAMES, own.tolist(), strict=True))
    assert choice.population == dict(zip(NAMES, model.mean.tolist(), strict=True))
    assert (choice.reason, choice.tissues) == ("its tissue probability maps", "maps")
    assert chosen(scans[0], goal, "average") == (goal.mixture, None)


def test_a_scan_without_a_clear_best_target_goes_to_the_average() -> None:
    goal = population(people(0.25))
    model = goal.tissues
    assert isinstance(model, TissueModel)
    scan = DensityModel(GaussianMixture([1.0], [900.0], [200.0**-2]))  # far from any brain
    tight = DensityModel(
        goal.mixture, tissues=TissueModel(model.densities, model.mean, np.zeros((3, 3)))
    )
    density, choice = chosen(scan, tight, "adaptive")
    assert density == goal.mixture
    assert choice is not None
    assert "no proportions make its map clearly milder" in choice.reason
    assert list(choice.proportions.values()) == model.mean.tolist()


def test_nothing_is_guessed_where_tissues_are_not_known() -> None:
    scan = people(0.25)[0]
    goal = population(people(0.25)[1:])
    with pytest.raises(InvalidValueError, match="must know the tissues of its population"):
        chosen(scan, DensityModel(goal.mixture), "tissue")
    with pytest.raises(
        InvalidValueError, match=r"probability maps of CSF, GM and WM.*--tissue-maps"
    ):
        chosen(DensityModel(scan.mixture), goal, "tissue")


def test_swapped_tissue_maps_are_noticed() -> None:
    scan, goal = people(0.25)[0], population(people(0.25)[1:])
    csf, gm, wm = known(scan).densities
    swapped = Tissues((wm, gm, csf), known(scan).proportions[::-1])
    with pytest.raises(InvalidValueError, match=r"CSF is brighter than .*which map is which"):
        chosen(DensityModel(scan.mixture, tissues=swapped), goal, "tissue")


# ── the tissues of a population ──────────────────────────────────────────────────────────────────

TISSUES = (
    GaussianMixture([0.6, 0.4], [-2.2, -1.6], [0.4**-2, 0.5**-2]),
    GaussianMixture([1.0], [-0.1], [0.35**-2]),
    GaussianMixture([1.0], [1.0], [0.22**-2]),
)
COVARIANCE = 0.05**2 * (np.eye(3) - 1 / 3)
MODEL = TissueModel(TISSUES, [0.2, 0.45, 0.35], COVARIANCE)


def test_a_rule_asks_for_the_tissues_of_a_population_only_if_it_needs_them() -> None:
    mixture, one = MODEL.target(MODEL.mean), GaussianMixture([1.0], [0.0], [1.0])
    rules = {
        kind: target_rule(Options(proportions=kind))  # type: ignore[arg-type]
        for kind in ("average", "tissue", "adaptive")
    }
    assert rules["average"].population_tissues(mixture, MODEL) is None
    assert rules["tissue"].population_tissues(mixture, MODEL) is MODEL
    assert rules["adaptive"].population_tissues(mixture, MODEL) is MODEL
    guessed = rules["adaptive"].population_tissues(mixture, None)
    assert guessed is not None
    assert guessed.source == "components"
    with pytest.raises(InvalidValueError, match="no tissues from tissue probability maps; give"):
        rules["tissue"].population_tissues(mixture, None)
    with pytest.raises(InvalidValueError, match="none can be made from its components"):
        rules["adaptive"].population_tissues(one, None)


def test_rounding_errors_are_not_a_clear_gain() -> None:
    rng, clear = np.random.default_rng(0), 0
    for _ in range(60):
        mean = 0.8 * rng.dirichlet([8, 15, 12]) + 0.2 / 3
        model = TissueModel(TISSUES, mean, COVARIANCE)
        clear += adapted_proportions(
            model.target(mean).transformed(rng.uniform(1, 100), rng.uniform(-100, 1000)), model
        ).clear
    assert clear == 0


def test_a_population_with_little_csf_can_be_adapted_to() -> None:
    model = TissueModel(TISSUES, [0.015, 0.535, 0.45], COVARIANCE)
    scan = model.target([0.1, 0.5, 0.4])
    found = adapted_proportions(scan, model)
    assert np.isfinite(found.before)
    assert found.proportions[0] > 0.05
    average = DensityModel(model.target(model.mean), tissues=model)
    _, choice = chosen(DensityModel(scan), average, "adaptive")
    assert choice is not None
    assert "nan" not in choice.reason


def test_proportions_are_held_to_the_usual_as_long_as_contrast_could_be_taken_for_them() -> None:
    bend = ndflow.transport.PiecewiseLinear(np.array([-4.0, 0.0, 4.0]), np.array([-3.0, 0.0, 5.0]))
    scan = pushforward(MODEL.target(MODEL.mean), bend)  # the usual proportions in another contrast
    rule, target = target_rule(Options(proportions="adaptive")), DensityModel(scan, tissues=MODEL)
    off = {}
    for through_site in (False, True):
        _, choice = rule.density(DensityModel(scan, through_site=through_site), target)
        assert choice is not None
        found = np.array([choice.proportions[name] for name in NAMES])
        off[through_site] = np.abs(found - MODEL.mean).max()
    assert off[False] < 0.7 * off[True]


@pytest.mark.parametrize("kind", ["average", "tissue", "adaptive"])
def test_the_record_of_a_choice_gives_its_density_back(kind: str) -> None:
    goal = population(people(0.25)[1:])
    density, choice = chosen(people(0.25)[0], goal, kind)
    assert chosen_density(choice, goal) == density
    assert chosen_density(choice, DensityModel(goal.mixture)) == goal.mixture
