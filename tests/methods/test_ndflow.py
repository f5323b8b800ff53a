"""Density flows: their maps, what a scan is matched to, and the map of its site."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from mixtures import random_mixture
from numpy.typing import NDArray

import ndflow
from ndflow import Affine, Chain, GaussianMixture, InvalidValueError
from ndflow.density import stack
from ndflow.methods.base import DensityModel, Solution, method_of
from ndflow.methods.modes import MODES, Goal, SiteMap, Visit
from ndflow.methods.ndflow import chosen_density, target_rule
from ndflow.options import Options
from ndflow.population import TissueModel, Tissues, tissue_model
from ndflow.population.proportions import OF_SITE
from ndflow.transport import align

LEVELS = (np.arange(199) + 0.5) / 199
NAMES = ("CSF", "GM", "WM")
RULES = ("average", "tissue", "adaptive")


def solved(source: DensityModel, goal: DensityModel, **chosen: Any) -> Solution:
    options = Options(**chosen)
    return method_of(options).solve(source, goal, options)


# ── one map ──────────────────────────────────────────────────────────────────────────────────────

SOURCE, TARGET = (random_mixture(np.random.default_rng(seed), 4) for seed in range(2))
TARGET_SD = float(np.sqrt(TARGET.covariance()[0, 0]))


@pytest.mark.parametrize("solver", ["exact", "rk4"])
@pytest.mark.parametrize("objective", ["l2", "cramer"])
def test_the_map_is_the_one_that_normalising_map_makes(solver: Any, objective: Any) -> None:
    source = SOURCE.transformed(300.0, 700.0)
    found = solved(DensityModel(source), DensityModel(TARGET), solver=solver, objective=objective)
    exact = ndflow.normalising_map(source, TARGET, solver=solver, objective=objective)
    x = source.quantile(LEVELS)
    np.testing.assert_allclose(found.imap(x), exact(x), atol=1.1e-4 * TARGET_SD)
    assert found.divergence is not None
    assert found.divergence.after < found.divergence.before


def test_frozen_components_stay_where_the_alignment_puts_them() -> None:
    source, target = DensityModel(SOURCE), DensityModel(TARGET)
    found = solved(source, target, freeze=("weight<1",))
    assert found.frozen == tuple(range(SOURCE.components))
    x = SOURCE.quantile(LEVELS)
    np.testing.assert_allclose(found.imap(x), found.affine(x), atol=2e-4 * TARGET_SD)
    assert solved(source, target, freeze=("weight<0",)).frozen == ()
    assert solved(source, target).frozen is None


# ── what a scan is matched to ────────────────────────────────────────────────────────────────────

CLEAN = ((-1.9, 0.5), (-0.1, 0.4), (1.0, 0.25))  # CSF, GM and WM, which overlap


@cache
def people(strength: float) -> list[DensityModel]:
    """Scans with much or little CSF, seen through a curve of their own, in units of their own."""
    generator = np.random.default_rng(5)
    scans = []
    for csf in np.linspace(0.08, 0.38, 8):
        shares = np.array([csf, *((1 - csf) * np.array([0.56, 0.44]))])
        bend, slope, offset = strength * generator.uniform(-1, 1), *generator.uniform(0.5, 3, 2)
        densities = []
        for mean, sd in CLEAN:  # x + bend sin x, which rises
            there, steep = mean + bend * np.sin(mean), 1 + bend * np.cos(mean)
            gaussian = GaussianMixture([1.0], [there], [(steep * sd) ** -2])
            densities.append(gaussian.transformed(100 * slope, 500 * offset))
        tissues = Tissues(tuple(densities), shares)
        scans.append(DensityModel(stack(densities, shares), tissues=tissues, variation=OF_SITE))
    return scans


def population(scans: list[DensityModel]) -> DensityModel:
    average = ndflow.reference([scan.mixture for scan in scans]).mixture
    return DensityModel(average, tissues=tissue_model([known(scan) for scan in scans]))


def known(model: DensityModel) -> Any:
    return model.tissues


def chosen(source: DensityModel, target: DensityModel, kind: Any) -> Any:
    """The density that a scan is matched to, and the record of that choice."""
    return target_rule(Options(proportions=kind)).density(source, target)


def variation(strength: float, kind: str) -> NDArray[np.float64]:
    """The sd over scans of the quartiles of tissues, in units of the step from GM to WM.

    With a reference made of others.
    """
    scans, rows = people(strength), []
    goals = population(scans[1::2]), population(scans[0::2])
    for number, scan in enumerate(scans):
        imap = solved(scan, goals[number % 2], proportions=kind).imap
        quartiles = [imap(one.quantile([0.25, 0.5, 0.75])) for one in known(scan).densities]
        rows.append(np.concatenate(quartiles) / (quartiles[2][1] - quartiles[1][1]))
    return np.std(rows, axis=0, ddof=1)


def test_tissues_come_to_lie_at_one_place_where_the_target_has_their_proportions() -> None:
    average, tissue = variation(0.25, "average"), variation(0.25, "tissue")
    assert tissue.mean() < 0.35 * average.mean()


def test_proportions_are_found_without_maps_where_scans_have_the_same_contrast() -> None:
    assert variation(0.0, "adaptive").mean() < 0.5 * variation(0.0, "average").mean()
    scans = people(0.0)
    goal = population(scans)
    csf = [chosen(scan, goal, "adaptive")[1].proportions["CSF"] for scan in scans]
    assert np.corrcoef(csf, [known(scan).proportions[0] for scan in scans])[0, 1] > 0.98


def test_a_target_has_the_proportions_of_the_scan() -> None:
    scan, *others = people(0.25)
    goal, own = population(others), known(scan).proportions
    density, choice = chosen(scan, goal, "tissue")
    assert density == known(goal).target(own)
    assert choice.proportions == dict(zip(NAMES, own.tolist(), strict=True))
    assert choice.population == dict(zip(NAMES, known(goal).mean.tolist(), strict=True))
    assert chosen(scan, goal, "average") == (goal.mixture, None)
    for kind in RULES:
        density, choice = chosen(scan, goal, kind)
        assert chosen_density(choice, goal) == density


def test_where_people_do_not_differ_any_scan_gets_the_mean_proportions() -> None:
    goal = population(people(0.25))
    scan = DensityModel(GaussianMixture([1.0], [900.0], [200.0**-2]))  # far from any brain
    tight = TissueModel(known(goal).densities, known(goal).mean, np.zeros((3, 3)))
    density, choice = chosen(scan, DensityModel(goal.mixture, tissues=tight), "adaptive")
    assert density == tight.target(tight.mean)
    assert min(choice.intervals.values()) > 0


def test_voxels_are_carried_to_their_quantiles_in_the_target() -> None:
    scan, *others = people(0.25)
    goal = population(others)
    density, _ = chosen(scan, goal, "adaptive")
    imap = solved(scan, goal, proportions="adaptive").imap
    x = scan.mixture.quantile(np.linspace(0.01, 0.99, 50))
    off = density.cdf(imap(x)) - scan.mixture.cdf(x)  # shares of the voxels
    assert np.abs(off).max() < 0.01
    # What counts are the voxels, where they are known, and not the density.
    other = others[0]
    voxels = replace(other, quantiles=scan.distribution)
    same = solved(voxels, goal, proportions="adaptive").imap
    np.testing.assert_array_equal(same(x), imap(x))
    flat = replace(other, quantiles=np.full(199, 3.0))
    with pytest.raises(InvalidValueError, match="all the same"):
        solved(flat, goal, proportions="adaptive")
    # Components that are to stay where they are need a match of densities.
    kept = solved(scan, goal, proportions="adaptive", freeze=("weight<1",))
    np.testing.assert_allclose(kept.imap(x), kept.affine(x), atol=1e-3)


TISSUES = (
    GaussianMixture([0.6, 0.4], [-2.2, -1.6], [0.4**-2, 0.5**-2]),
    GaussianMixture([1.0], [-0.1], [0.35**-2]),
    GaussianMixture([1.0], [1.0], [0.22**-2]),
)
COVARIANCE = 0.05**2 * (np.eye(3) - 1 / 3)
MODEL = TissueModel(TISSUES, [0.2, 0.45, 0.35], COVARIANCE)
USUAL = MODEL.target(MODEL.mean)


def test_nothing_is_guessed_where_tissues_are_not_known_or_swapped() -> None:
    scan, goal = people(0.25)[0], population(people(0.25)[1:])
    csf, gm, wm = known(scan).densities
    swapped = Tissues((wm, gm, csf), known(scan).proportions[::-1])
    one = GaussianMixture([1.0], [0.0], [1.0])
    rules = [target_rule(Options(proportions=kind)) for kind in RULES]  # type: ignore[arg-type]
    assert [rule.population_tissues(USUAL, MODEL) for rule in rules] == [None, MODEL, MODEL]
    assert rules[2].population_tissues(USUAL, None).source == "components"  # type: ignore[union-attr]
    wrong = {
        "must know the tissues of its": lambda: chosen(scan, DensityModel(USUAL), "tissue"),
        "probability maps of CSF": lambda: chosen(DensityModel(scan.mixture), goal, "tissue"),
        "CSF is brighter than .*which map": (
            lambda: chosen(DensityModel(scan.mixture, tissues=swapped), goal, "tissue")
        ),
        "no tissues from maps": lambda: rules[1].population_tissues(USUAL, None),
        "none can be made from its": lambda: rules[2].population_tissues(one, None),
    }
    for message, call in wrong.items():
        with pytest.raises(InvalidValueError, match=message):
            call()


# ── modes ────────────────────────────────────────────────────────────────────────────────────────


def brain(means: Any, shares: Any) -> GaussianMixture:
    return stack([GaussianMixture([1.0], [mean], [50.0**-2]) for mean in means], shares)


def standard(mixture: GaussianMixture) -> GaussianMixture:
    own = align(mixture)
    return mixture.transformed(own.matrix, own.offset)


WHOLE = standard(brain((300, 700, 1000), (0.2, 0.45, 0.35)))
SITE = standard(brain((250, 800, 1000), (0.2, 0.45, 0.35)))
PARTS: Any = tuple(
    GaussianMixture([1.0], WHOLE.means[k : k + 1], WHOLE.precisions[k : k + 1]) for k in range(3)
)
ALL = TissueModel(PARTS, [0.2, 0.45, 0.35], COVARIANCE)
SHARES = np.array([0.35, 0.37, 0.28])
SCAN = DensityModel(  # of the site, with more CSF; of its tissues, only the proportions are used
    brain((500, 1600, 2000), SHARES.tolist()), tissues=Tissues(PARTS, SHARES)
)
REFERENCE = DensityModel(WHOLE, tissues=ALL)


def goal(mode: str, kind: Any = "average", reference: DensityModel = REFERENCE) -> Goal:
    """Return what a scan of the site Aachen is brought to."""
    options = Options(proportions=kind)
    sites = {"Aachen": SiteMap.to(reference, DensityModel(SITE), options)}
    return MODES[mode].goal_of(MODES[mode].goals(reference, sites, options), "Aachen")


@pytest.mark.parametrize("kind", RULES)
def test_a_scan_goes_through_the_map_of_its_site_and_then_its_own(kind: str) -> None:
    once, twice = (goal(mode, kind).solve(SCAN) for mode in ("site", "two-level"))
    assert isinstance(once.imap, Chain)
    assert isinstance(twice.imap, Chain)
    assert twice.imap.maps[:-1] == once.imap.maps
    # Where it arrives, by points and not by densities.
    aim = WHOLE if kind == "average" else ALL.target(SHARES)
    x, there = SCAN.mixture.quantile(LEVELS), aim.quantile(LEVELS)
    left = [np.sqrt(np.mean((one.imap(x) - there) ** 2)) for one in (once, twice)]
    assert left[1] < (0.7 if kind == "average" else 0.5) * left[0]
    assert (np.diff(twice.imap(np.linspace(x[0], x[-1], 500))) > 0).all()
    # A scan like its site needs no more than the map of the site.
    like = DensityModel(SITE.transformed(300.0, 700.0), tissues=Tissues(PARTS, ALL.mean))
    x = like.mixture.quantile(LEVELS)
    maps = goal("site").solve(like).imap, goal("two-level", kind).solve(like).imap
    assert np.sqrt(np.mean((maps[1](x) - maps[0](x)) ** 2)) < 0.02


def test_the_map_of_a_site_keeps_its_people() -> None:
    older = ALL.mean + np.array([0.04, -0.03, -0.01])
    reference, options = DensityModel(WHOLE, tissues=ALL), Options(proportions="adaptive")
    site = DensityModel(standard(ALL.target(older)))  # the scanner of the population
    plain = Goal(reference, options, SiteMap.to(reference, site, options), further=True)
    x, errors = site.mixture.quantile(LEVELS), []
    for goal in (plain, plain.for_people()):
        scan = DensityModel(site.mixture)
        errors.append(np.abs(goal.solve(scan).imap(x) - ALL.target(older).quantile(LEVELS)).mean())
    assert errors[1] < 0.5 * errors[0]
    assert replace(plain, site=None).for_people() == replace(plain, site=None)


def test_the_alignment_of_a_scan_is_its_own_and_the_rest_that_of_its_site() -> None:
    found, own = goal("site"), align(SCAN.mixture)
    assert found.site is not None
    solution, way = found.solve(SCAN), found.site.solution
    x = SCAN.mixture.quantile(LEVELS)
    np.testing.assert_array_equal(solution.imap(x), way.imap(own(x)))
    np.testing.assert_allclose(solution.affine(x), way.affine(own(x)), atol=1e-12)
    assert goal("individual").solve(SCAN).imap == solved(SCAN, REFERENCE).imap


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("mode", [*MODES])
def test_visits_share_one_map_and_keep_what_changes(mode: str, kind: str) -> None:
    if mode == "site" and kind != "average":
        return
    alone = goal(mode, kind)
    first, more = np.array([500.0, 1600.0, 2000.0]), [0.40, 0.34, 0.26]
    later = brain(first.tolist(), more).transformed(0.8, 90.0)
    second = DensityModel(later, tissues=Tissues(PARTS, more))
    visits = tuple(Visit(scan, alone.site) for scan in (SCAN, second))
    both = [
        replace(alone, visits=visits, place=k).solve(one.scan).imap for k, one in enumerate(visits)
    ]
    # After their lines, they go the same way.
    x = SCAN.mixture.quantile(LEVELS)
    (line, *_), (other, *_) = (imap.maps for imap in both)  # type: ignore[attr-defined]
    for start in (line, other):
        assert isinstance(start, Affine)
    np.testing.assert_allclose(both[0](x), both[1](other.inverse()(line(x))), atol=1e-9)
    # Tissues look alike at both visits, although their amounts differ.
    last = 0.8 * first + 90
    apart = [alone.solve(one.scan).imap for one in visits]
    off = [np.abs(ways[0](first) - ways[1](last)).max() for ways in (both, apart)]
    assert off[0] < 0.025
    assert kind != "average" or off[0] < 0.3 * off[1]
    # A visit like the other, but for its gain, is brought where it would go by itself.
    copy = DensityModel(SCAN.mixture.transformed(2.0, 30.0), tissues=SCAN.tissues)
    pair = tuple(Visit(scan, alone.site) for scan in (SCAN, copy))
    found = replace(alone, visits=pair, place=1).solve(copy).imap
    np.testing.assert_allclose(found(2 * x + 30), apart[0](x), atol=0.05)


@pytest.mark.parametrize(
    ("choices", "modes", "message"),
    [
        ({"freeze": ("3",)}, {"individual"}, "single scans; leave out --mode"),
        ({"proportions": "tissue"}, {"individual", "two-level"}, "needs --mode two-level"),
        ({"method": "nyul"}, {"individual"}, "knows no sites"),
        ({"objective": "cramer"}, {*MODES}, ""),
    ],
)
def test_choices_about_single_scans_are_refused_where_a_site_has_one_map(
    choices: dict[str, Any], modes: set[str], message: str
) -> None:
    for name in modes:
        MODES[name].check(Options(**choices))
    for name in {*MODES} - modes:
        with pytest.raises(InvalidValueError, match=message):
            MODES[name].check(Options(**choices))
