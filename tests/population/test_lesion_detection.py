"""Lesions are found where the healthy population has no such mass, and nowhere else."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixtures import mixtures, random_mixture
from scipy import stats

from ndflow import GaussianMixture, InvalidValueError, stack
from ndflow.population.lesion_detection import (
    HealthyCeiling,
    LesionFinding,
    find_lesions,
    learn_ceiling,
)

CSF = np.linspace(0.05, 0.35, 31)  # the proportion differs between people


def brain(csf, lesion=0.0, place=2.3, grey=0.0):
    """CSF, GM and WM, and a lesion that was WM."""
    tissues = np.array([csf, 0.55 * (1 - csf), 0.45 * (1 - csf) - lesion, lesion])
    kept = 4 if lesion else 3
    return GaussianMixture(
        tissues[:kept], [-1.6, grey, 1.1, place][:kept], [8.0, 9.0, 25.0, 20.0][:kept]
    )


def cohort():
    generator = np.random.default_rng(0)
    return [brain(csf, grey=0.1 * generator.standard_normal()) for csf in CSF]


REFERENCE = stack(cohort())
CEILING = learn_ceiling(cohort(), REFERENCE)


def flat(level, threshold=0.1):
    """The same ceiling everywhere."""
    return HealthyCeiling([-9.0, 9.0], np.log([level, level]), threshold, 20)


@given(mixtures(channels=1), st.floats(0.01, 1.0))
def test_the_excess_is_the_integral_that_defines_it(mixture, level):
    # A mixture is aligned with itself already, and with this threshold no lesion is ever found.
    found = find_lesions(mixture, mixture, flat(level, 1.0))
    x = np.linspace(-9, 9, 20001)
    parts = [
        stats.norm.pdf(x, mean, sd)
        for mean, sd in zip(mixture.means[:, 0], np.sqrt(mixture.covariances[:, 0, 0]), strict=True)
    ]
    q = np.einsum("k,kn->n", mixture.weights, parts)
    too_much = np.maximum(0, 1 - level / np.maximum(q, 1e-300))
    truth = [np.trapezoid(part * too_much, x) for part in parts]
    np.testing.assert_allclose(found.excesses, truth, atol=5e-3)


def test_the_ceiling_is_the_highest_density_of_any_scan_nearby():
    scans = [GaussianMixture([1.0], [0.0], [1.0]).transformed(s, b) for s, b in ((3, 5), (40, -9))]
    ceiling = learn_ceiling(scans, GaussianMixture([1.0], [0.0], [1.0]))
    # Aligned with the reference, both are the reference, which is highest in the middle.
    nearest = np.maximum(np.abs(ceiling.nodes) - 3 / 32, 0)
    truth = np.maximum(stats.norm.pdf(nearest), 1e-3)
    np.testing.assert_allclose(np.exp(ceiling.log_density), truth, rtol=1e-5)
    assert (ceiling.threshold, ceiling.scans) == (0.1, 2)


@settings(max_examples=20)
@given(st.sampled_from(range(31)), st.floats(0.5, 2000), st.floats(-500, 500))
def test_a_healthy_scan_raises_no_alarm_however_much_csf_it_has(number, scale, shift):
    scans = cohort()
    held_out = scans.pop(number)
    ceiling = learn_ceiling(scans, REFERENCE)
    found = find_lesions(held_out.transformed(scale, shift), REFERENCE, ceiling)
    assert (found.indices, found.mass, found.unlike) == ((), 0.0, False)


@given(
    st.floats(0.05, 0.35),
    st.floats(0.01, 0.15),
    st.floats(2.1, 6.0),
    st.floats(0.5, 2000),
    st.floats(-500, 500),
)
def test_a_lesion_is_found_in_any_units_and_nothing_else_is(csf, share, place, scale, shift):
    scan = brain(csf, share, place).transformed(scale, shift)
    found = find_lesions(scan, REFERENCE, CEILING)
    assert found.indices == (3,)
    assert found.mass == pytest.approx(share)
    assert found.excesses[3] > CEILING.threshold > found.excesses[:3].max()


def test_a_lesion_is_compared_with_the_healthy_part_once_it_is_taken_out():
    # Without its lesion this scan is the reference, so the truth is (1) where it lies, with the
    # ceiling for nine tenths of a scan.
    share, level = 0.1, 0.05
    weights = [*(1 - share) * REFERENCE.weights, share]
    means, precisions = REFERENCE.means[:, 0], REFERENCE.precisions[:, 0, 0]
    scan = GaussianMixture(weights, [*means, 2.8], [*precisions, 16.0])
    log_density = np.log(level) - 6 * (CEILING.nodes - 2.8)  # steep, so that the place matters
    found = find_lesions(scan, REFERENCE, HealthyCeiling(CEILING.nodes, log_density, 0.1, 31))
    assert found.indices == (scan.components - 1,)
    x = np.linspace(0, 6, 4001)
    lesion = stats.norm.pdf(x, 2.8, 0.25)
    q = share * lesion + (1 - share) * REFERENCE.pdf(x)
    most = (1 - share) * level * np.exp(-6 * (x - 2.8))
    truth = np.trapezoid(lesion * np.maximum(0, 1 - most / q), x)
    assert found.excesses[-1] == pytest.approx(truth, abs=0.01)


def test_more_csf_than_in_any_training_scan_is_an_alarm():
    scans = [brain(csf) for csf in np.linspace(0.02, 0.06, 20)]
    reference = stack(scans)
    found = find_lesions(brain(0.2), reference, learn_ceiling(scans, reference))
    assert found.indices == (0,)


def test_a_scan_that_is_unlike_the_others_as_a_whole_has_no_lesion():
    other = brain(0.3).transformed(-1, 0)  # as on T2w: CSF is bright
    spread = GaussianMixture([0.5, 0.5], [-4.0, 4.0], [100.0, 100.0])
    for scan in (other, spread):
        found = find_lesions(scan, REFERENCE, CEILING)
        assert found.unlike
        assert (found.indices, found.mass) == ((), 0.0)


def test_the_threshold_is_the_largest_excess_of_a_scan_under_the_ceiling_of_the_others():
    scans = cohort()[:5]
    scans[2] = brain(0.2, 0.02)  # one that stands out
    ceiling = learn_ceiling(scans, REFERENCE)
    excesses = []
    for i, scan in enumerate(scans):
        others = learn_ceiling(scans[:i] + scans[i + 1 :], REFERENCE)
        never = HealthyCeiling(others.nodes, others.log_density, 1.0, 4)
        excesses.append(find_lesions(scan, REFERENCE, never).excesses.max())
    assert ceiling.threshold == pytest.approx(max(excesses), rel=1e-9)
    assert ceiling.threshold > 0.5


@given(st.permutations(range(31)))
@settings(max_examples=10)
def test_the_order_of_training_scans_does_not_matter_bit_by_bit(order):
    scans = cohort()
    assert learn_ceiling([scans[i] for i in order], REFERENCE) == CEILING


def test_from_one_scan_nothing_is_ever_found():
    ceiling = learn_ceiling([brain(0.2)], REFERENCE)
    assert ceiling.threshold == 1.0
    assert find_lesions(brain(0.2, 0.1, 5.0), REFERENCE, ceiling).indices == ()


def test_ceilings_and_findings_survive_json():
    for value in (CEILING, find_lesions(brain(0.2, 0.05), REFERENCE, CEILING)):
        assert type(value).from_dict(json.loads(json.dumps(value.to_dict()))) == value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": [0.0, 0.0]}, "nodes must be two or more increasing numbers"),
        ({"nodes": [0.0], "log_density": [0.0]}, "nodes must be two or more increasing numbers"),
        ({"log_density": [0.0]}, "log_density must have the shape"),
        ({"threshold": 0.0}, "threshold must lie between 0 and 1"),
        ({"threshold": 1.5}, "threshold must lie between 0 and 1"),
        ({"scans": 0}, "scans must lie between"),
    ],
)
def test_a_ceiling_that_makes_no_sense_is_refused(change, message):
    good = {"nodes": [0.0, 1.0], "log_density": [0.0, 0.0], "threshold": 0.1, "scans": 3}
    with pytest.raises(InvalidValueError, match=message):
        HealthyCeiling(**(good | change))


def test_findings_that_make_no_sense_are_refused():
    with pytest.raises(InvalidValueError, match="each of indices must lie between 0 and 1"):
        LesionFinding((2,), [0.0, 0.5], 0.1, unlike=False)


def test_bad_training_is_refused_by_name():
    with pytest.raises(InvalidValueError, match="at least one training scan"):
        learn_ceiling([], REFERENCE)
    with pytest.raises(InvalidValueError, match="one channel, not 2"):
        learn_ceiling([random_mixture(np.random.default_rng(0), 2, 2)], REFERENCE)
