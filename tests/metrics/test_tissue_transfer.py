"""Tissue classifiers against those of scikit-learn, and what leaving subjects out means."""

import numpy as np
import pytest
from sklearn.metrics import f1_score
from sklearn.naive_bayes import GaussianNB

from ndflow.metrics.tissue_transfer import TissueSample, dice, tissue_transfer

MEANS, SPREADS = np.array([1.0, 2.0, 3.2]), np.array([0.4, 0.3, 0.2])


def sample(seed, gain=1.0, offset=0.0, n=600):
    generator = np.random.default_rng(seed)
    tissue = generator.choice(3, n, p=[0.2, 0.5, 0.3]).astype(np.uint8)
    values = generator.normal(MEANS[tissue], SPREADS[tissue])
    return TissueSample((gain * values + offset).astype(np.float32), tissue)


def study(gain=1.0):
    """Return three scans of two subjects at one site, and of three subjects at each of two."""
    samples = [sample(number, gain if number % 2 else 1.0) for number in range(9)]
    sites = ["ab"[number % 2] for number in range(6)] + ["c"] * 3
    return samples, sites, [*"pqpstuvwx"]


def test_classifiers_agree_with_scikit_learns_gaussians_trained_on_pooled_voxels():
    samples, sites, subjects = study(1.3)
    found = tissue_transfer(samples, sites, subjects)
    for place, one in enumerate(samples):
        reached = {}
        for name in "abc":
            trained = [
                other
                for other, site, subject in zip(samples, sites, subjects, strict=True)
                if site == name and subject != subjects[place]
            ]
            model = GaussianNB(var_smoothing=0.0).fit(
                np.concatenate([other.values for other in trained])[:, None].astype(float),
                np.concatenate([other.tissue for other in trained]),
            )
            guess = model.predict(one.values[:, None].astype(float))
            reached[name] = f1_score(one.tissue, guess, average="macro")  # Dice, by another name
        own = reached.pop(sites[place])
        assert found.within[place] == pytest.approx(own, abs=1e-9)
        assert found.between[place] == pytest.approx(np.mean([*reached.values()]), abs=1e-9)


def test_units_of_all_scans_do_not_matter_but_those_of_one_site_do():
    samples, sites, subjects = study()
    plain = tissue_transfer(samples, sites, subjects)
    scaled = [TissueSample(one.values * 100 + 50, one.tissue) for one in samples]
    for one, other in zip(plain, tissue_transfer(scaled, sites, subjects), strict=True):
        np.testing.assert_allclose(one, other, atol=0.005)
    assert plain.between.mean() == pytest.approx(plain.within.mean(), abs=0.02)
    assert tissue_transfer(*study(1.6)).between.mean() < plain.between.mean() - 0.1


def test_a_site_with_one_subject_has_no_classifier_for_that_subject():
    samples, _, _ = study()
    found = tissue_transfer(samples[:3], ["a", "b", "b"], ["p", "q", "q"])
    assert np.isnan(found.within).all()
    assert np.isfinite(found.between).all()


def test_a_tissue_without_a_voxel_or_without_spread_is_no_error():
    flat = TissueSample(np.array([1, 1, 2, 2], np.float32), np.array([0, 0, 2, 2], np.uint8))
    found = tissue_transfer([flat, flat, flat], ["a", "a", "b"], [*"pqr"])
    assert found.within[:2].tolist() == [1.0, 1.0]
    assert found.between.tolist() == [1.0, 1.0, 1.0]
    assert dice(np.array([0, 1]), np.array([1, 0], np.uint8), 2) == 0
