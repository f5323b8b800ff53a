"""Lesions are found where the healthy population has no such mass, and nowhere else."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mixtures import mixtures, random_mixture
from scipy import stats

from ndflow import Affine, GaussianMixture, InvalidValueError, stack
from ndflow.population.healthy_densities import HealthyDensities
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


ANYTHING = HealthyDensities([0.0], [[0.5, 0.5]], 0.0)  # every scan is enough like that


def flat(level, threshold=0.1):
    """The same ceiling everywhere, whatever the scan looks like."""
    return HealthyCeiling([-9.0, 9.0], np.log([level, level]), threshold, 20, ANYTHING)


def side_of_csf(reference, means):
    """Return which means lie on the side of the longer tail."""
    low, middle, high = reference.quantile([0.01, 0.5, 0.99])
    return means > middle if high + low > 2 * middle else means <= middle


@given(mixtures(channels=1), st.floats(0.01, 1.0))
def test_the_excess_is_the_integral_that_defines_it(mixture, level):
    # A mixture is aligned with itself already, and with this threshold no lesion is ever found.
    low, middle, high = mixture.quantile([0.01, 0.5, 0.99])
    assume(abs(high + low - 2 * middle) > 1e-3 * (high - low))  # which tail is longer is clear
    assume(np.abs(mixture.means - middle).min() > 1e-6)
    found = find_lesions(mixture, mixture, flat(level, 1.0))
    x = np.linspace(-9, 9, 20001)
    parts = [
        stats.norm.pdf(x, mean, sd)
        for mean, sd in zip(mixture.means[:, 0], np.sqrt(mixture.covariances[:, 0, 0]), strict=True)
    ]
    q = np.einsum("k,kn->n", mixture.weights, parts)
    too_much = np.maximum(0, 1 - level / np.maximum(q, 1e-300))
    truth = np.array([np.trapezoid(part * too_much, x) for part in parts])
    truth[side_of_csf(mixture, mixture.means[:, 0])] = 0
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
    assert (found.indices, found.mass, found.suspected) == ((), 0.0, 0.0)


def test_hardly_any_healthy_scan_is_unlike_the_others():
    unlike = 0
    for number in range(31):
        scans = cohort()
        held_out = scans.pop(number)
        found = find_lesions(held_out, REFERENCE, learn_ceiling(scans, REFERENCE))
        unlike += found.unlike
    assert unlike <= 2


@given(
    st.floats(0.05, 0.35),
    st.floats(0.01, 0.08),
    st.floats(2.1, 4.0),
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
    ceiling = HealthyCeiling(CEILING.nodes, log_density, 0.1, 31, ANYTHING)
    found = find_lesions(scan, REFERENCE, ceiling)
    assert found.indices == (scan.components - 1,)
    x = np.linspace(0, 6, 4001)
    lesion = stats.norm.pdf(x, 2.8, 0.25)
    q = share * lesion + (1 - share) * REFERENCE.pdf(x)
    most = (1 - share) * level * np.exp(-6 * (x - 2.8))
    truth = np.trapezoid(lesion * np.maximum(0, 1 - most / q), x)
    assert found.excesses[-1] == pytest.approx(truth, abs=0.01)


@pytest.mark.parametrize("mirror", [1.0, -1.0], ids=["as on T1w", "as on T2w"])
def test_csf_is_never_a_lesion_wherever_it_lies_and_however_much_of_it_there_is(mirror):
    scans = [brain(csf).transformed(mirror, 0) for csf in np.linspace(0.02, 0.08, 20)]
    reference = stack(scans)
    ceiling = replace(learn_ceiling(scans, reference), densities=ANYTHING)
    more = brain(0.2)
    further = GaussianMixture([0.05, 0.5, 0.45], [-4.0, 0.0, 1.1], [8.0, 9.0, 25.0])
    for scan in (more, further):
        found = find_lesions(scan.transformed(mirror, 0), reference, ceiling)
        assert (found.indices, found.suspected, found.excesses[0]) == ((), 0.0, 0.0)
    lesion = find_lesions(brain(0.05, 0.05).transformed(mirror, 0), reference, ceiling)
    assert lesion.indices == (3,)


def test_a_scan_that_is_unlike_the_others_as_a_whole_has_no_lesion():
    other = brain(0.3).transformed(-1, 0)  # as on T2w: CSF is bright
    spread = GaussianMixture([0.5, 0.5], [-4.0, 4.0], [100.0, 100.0])
    for scan in (other, spread):
        found = find_lesions(scan, REFERENCE, CEILING)
        assert found.unlike
        assert (found.indices, found.mass) == ((), 0.0)


def from_another_scanner(lesion):
    """Return a brain with a small bright lesion, and other contrast and noise."""
    weights = [0.2, 0.44, 0.36 - lesion, lesion]
    return GaussianMixture(weights, [-1.3, -0.2, 1.2, 3.0], [4.0, 4.0, 6.0, 20.0])


def test_nothing_is_a_lesion_where_the_rest_of_the_scan_is_unlike_that_of_healthy_ones():
    found = find_lesions(from_another_scanner(0.03), REFERENCE, CEILING)
    assert found.overlap < found.needed
    assert found.suspected == pytest.approx(0.03)
    assert (found.indices, found.mass, found.unlike) == ((), 0.0, True)
    careless = replace(CEILING, densities=ANYTHING)
    assert find_lesions(from_another_scanner(0.03), REFERENCE, careless).indices == (3,)


def test_what_is_needed_of_a_scan_depends_on_the_mass_that_was_given_back_to_a_tissue():
    for share in (0.02, 0.08):
        found = find_lesions(brain(0.2, share, 3.0), REFERENCE, CEILING)
        assert CEILING.densities is not None
        assert found.needed == pytest.approx(CEILING.densities.least - share / 2)
        assert found.overlap > 0.95  # as a healthy scan has, because WM was given back to WM


@given(mixtures(channels=1), mixtures(channels=1), st.floats(1e-3, 0.3))
def test_never_more_than_a_tenth_is_kept_out(mixture, reference, level):
    found = find_lesions(mixture, reference, flat(level, 0.01))
    assert found.mass <= 0.1
    assert found.mass == pytest.approx(mixture.weights[list(found.indices)].sum())
    assert found.unlike == (found.suspected > 0.1)
    assert not (found.unlike and found.indices)


def test_just_more_than_a_tenth_is_no_lesion_and_just_less_is_one():
    for share, lesions in ((0.099, (3,)), (0.101, ())):
        found = find_lesions(brain(0.2, share, 3.0), REFERENCE, CEILING)
        assert found.indices == lesions
        assert found.suspected == pytest.approx(share)


@given(st.floats(0.05, 0.35), st.floats(0.01, 0.15), st.floats(-3.0, 3.0), st.floats(0.1, 900.0))
def test_the_units_of_scan_and_reference_do_not_matter(csf, share, place, scale):
    scan = brain(csf, share, place)
    plain = find_lesions(scan, REFERENCE, CEILING)
    units = Affine(scale, -7.0)
    reference, ceiling = REFERENCE.transformed(scale, -7.0), CEILING.transformed(units)
    other = find_lesions(scan.transformed(3.0, 50.0), reference, ceiling)
    assert (other.indices, other.unlike) == (plain.indices, plain.unlike)
    np.testing.assert_allclose(other.excesses, plain.excesses, atol=1e-3)
    assert other.overlap == pytest.approx(plain.overlap, abs=1e-3)


def test_a_ceiling_of_an_older_version_trusts_only_scans_that_are_like_the_average():
    old = replace(CEILING, densities=None)
    assert "densities" not in old.to_dict()
    found = find_lesions(brain(0.2, 0.03, 3.0), REFERENCE, old)
    assert (found.indices, found.needed) == ((3,), pytest.approx(0.9 - 0.015))
    own = find_lesions(brain(0.2), REFERENCE, old)
    apart = np.abs(brain(0.2).pdf(CEILING.nodes) - REFERENCE.pdf(CEILING.nodes)).sum() / 64
    assert own.overlap == pytest.approx(1 - apart, abs=0.03)
    assert find_lesions(brain(0.35, 0.03, 3.0), REFERENCE, old).unlike
    assert find_lesions(brain(0.35, 0.03, 3.0), REFERENCE, CEILING).indices == (3,)


def test_the_threshold_is_the_largest_excess_of_a_scan_under_the_ceiling_of_the_others():
    scans = cohort()[:5]
    scans[2] = brain(0.2, 0.02)  # one that stands out
    ceiling = learn_ceiling(scans, REFERENCE)
    excesses = []
    for i, scan in enumerate(scans):
        others = learn_ceiling(scans[:i] + scans[i + 1 :], REFERENCE)
        never = HealthyCeiling(others.nodes, others.log_density, 1.0, 4, ANYTHING)
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
        ({"densities": [0.5]}, "densities must be of the type"),
    ],
)
def test_a_ceiling_that_makes_no_sense_is_refused(change, message):
    good = {"nodes": [0.0, 1.0], "log_density": [0.0, 0.0], "threshold": 0.1, "scans": 3}
    with pytest.raises(InvalidValueError, match=message):
        HealthyCeiling(**(good | change))


def test_findings_that_make_no_sense_are_refused():
    with pytest.raises(InvalidValueError, match="each of indices must lie between 0 and 1"):
        LesionFinding((2,), [0.0, 0.5], 0.1, 0.1, 0.9, 0.9)


def test_bad_training_is_refused_by_name():
    with pytest.raises(InvalidValueError, match="at least one training scan"):
        learn_ceiling([], REFERENCE)
    with pytest.raises(InvalidValueError, match="one channel, not 2"):
        learn_ceiling([random_mixture(np.random.default_rng(0), 2, 2)], REFERENCE)
