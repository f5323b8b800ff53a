"""The mixture of tissues: its formulas against integrals, its fit against simulated voxels."""

import numpy as np
import pytest
from scipy import integrate, stats

from ndflow.errors import DegenerateDataError
from ndflow.preparation.segmentation import TissueClasses, class_priors, fit_tissues

CLASSES = TissueClasses(
    means=np.array([30.0, 50.0, 80.0, 110.0]),
    sds=np.array([6.0, 8.0, 7.0, 5.0]),
    shares=np.array([0.7, 0.3, 1.0, 1.0]),
    weights=np.array([0.2, 0.3, 0.3, 0.15, 0.05]),
)
VALUES = np.linspace(-20, 160, 37)
PAIRS = {0: (36.0, 80.0), 1: (80.0, 110.0)}  # means of the tissues in each mixed class
SDS = {0: np.sqrt((0.7 * 36 + 0.3 * 64 + 49) / 2), 1: np.sqrt((49 + 25) / 2)}


def test_pure_classes_are_gaussian():
    found = CLASSES.likelihoods(VALUES)
    csf = 0.7 * stats.norm.pdf(VALUES, 30, 6) + 0.3 * stats.norm.pdf(VALUES, 50, 8)
    np.testing.assert_allclose(found[0], csf, rtol=1e-12)
    for kind, mean, sd in ((1, 80, 7), (2, 110, 5)):
        np.testing.assert_allclose(found[kind], stats.norm.pdf(VALUES, mean, sd), rtol=1e-12)


@pytest.mark.parametrize("mixed", [0, 1])
def test_mixed_classes_are_integrals_over_the_share(mixed):
    (a, b), sd = PAIRS[mixed], SDS[mixed]
    found = CLASSES.likelihoods(VALUES)[3 + mixed]
    for value, density in zip(VALUES, found, strict=True):
        truth, _ = integrate.quad(
            lambda t, y=value: stats.norm.pdf(y, (1 - t) * a + t * b, sd), 0, 1, epsabs=1e-14
        )
        assert density == pytest.approx(truth, rel=1e-6, abs=1e-15)


@pytest.mark.parametrize("mixed", [0, 1])
def test_mixing_is_the_expected_share(mixed):
    (a, b), sd = PAIRS[mixed], SDS[mixed]
    inner = np.linspace(a - 3 * sd, b + 3 * sd, 25)
    found = CLASSES.mixing(inner)[mixed]
    shares = (np.arange(20_000) + 0.5) / 20_000
    for value, share in zip(inner, found, strict=True):
        weight = stats.norm.pdf(value, (1 - shares) * a + shares * b, sd)
        assert share == pytest.approx((shares * weight).sum() / weight.sum(), abs=1e-5)


def test_priors_follow_the_template():
    template = np.array([[0.0, 0.9], [0.5, 0.05], [0.5, 0.05]])
    priors = class_priors(template)
    np.testing.assert_allclose(priors[:3].sum(axis=0), 1)
    assert priors[0, 1] / priors[1, 1] == pytest.approx(0.9 / 0.05)
    np.testing.assert_allclose(priors[3], np.sqrt(priors[0] * priors[1]))
    np.testing.assert_allclose(priors[4], np.sqrt(priors[1] * priors[2]))
    assert priors[0, 0] > 0  # no place rules out a tissue


def simulated(amounts, n=30_000, seed=0):
    """Return voxels of a person, and their priors: a template that knows nothing of the amounts.

    The template says what a voxel is with certainty .8, whatever the person is made of.
    """
    generator = np.random.default_rng(seed)
    means, sds = np.array([35.0, 75.0, 110.0]), np.array([7.0, 6.0, 5.0])
    kinds = generator.choice(5, n, p=amounts)
    share = generator.random(n)
    pure = np.zeros((n, 3))
    for kind in range(3):
        pure[kinds == kind, kind] = 1
    for kind in (3, 4):
        here = kinds == kind
        pure[here, kind - 3], pure[here, kind - 2] = 1 - share[here], share[here]
    noise = generator.standard_normal(n) * (pure @ sds)
    template = 0.2 / 3 + 0.8 * pure
    return pure @ means + noise, class_priors(template.T), pure.mean(axis=0)


@pytest.mark.parametrize("amounts", [(0.15, 0.4, 0.3, 0.1, 0.05), (0.4, 0.25, 0.15, 0.1, 0.1)])
def test_the_fit_finds_the_tissues_of_a_person(amounts):
    values, priors, truth = simulated(amounts)
    found = fit_tissues(values, priors)
    assert [found.tissue_mean(tissue) for tissue in range(3)] == pytest.approx([35, 75, 110], abs=4)
    np.testing.assert_allclose(found.sds[2:4], [6, 5], atol=2.5)  # some mixed voxels count as pure
    joint = found.weights[:, None] * priors
    joint *= found.likelihoods(values) / joint.sum(axis=0)
    shares = found.tissues(joint / joint.sum(axis=0), found.mixing(values)).mean(axis=1)
    np.testing.assert_allclose(shares, truth, atol=0.015)


def test_intensities_that_do_not_differ_are_refused():
    _, priors, _ = simulated((0.2, 0.4, 0.3, 0.05, 0.05), n=1000)
    with pytest.raises(DegenerateDataError, match="do not differ"):
        fit_tissues(np.full(1000, 5.0), priors)
