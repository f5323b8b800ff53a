"""Methods of intensity-normalization: as that package has them, and without side effects."""

import sys
from typing import Any

import numpy as np
import pytest
from every_method import LANDMARK_METHODS, join, measure
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from phantoms import head

import ndflow
from ndflow import DegenerateDataError, InvalidValueError, Landmarks
from ndflow.methods import external as package
from ndflow.methods.base import method_of
from ndflow.methods.matching import Matching

METHODS = ["whitestripe", "kde", "fcm", "lsq"]
SHAPE = (14, 16, 12)
IMAGES = {
    "as they are": head(0, shape=SHAPE).astype(float),
    "dim": 0.01 * head(1, shape=SHAPE, tissues=((300.0, 60.0), (620.0, 50.0), (1000.0, 40.0))),
}
every_method = pytest.mark.parametrize("method", METHODS)
every_image = pytest.mark.parametrize("name", IMAGES)


def brain(name: str) -> NDArray[np.float64]:
    """Voxels in the order of the image, of which a histogram knows nothing."""
    return IMAGES[name][IMAGES[name] != 0]


def own(method: str, voxels: NDArray[Any]) -> Landmarks:
    pytest.importorskip("intensity_normalization")
    return measure(method, ndflow.histogram(voxels))


def theirs(module: str, name: str, voxels: NDArray[Any], **options: Any) -> tuple[Any, Any]:
    """One of the package's methods, fitted by its own means, and the image as it wants it."""
    found = pytest.importorskip(f"intensity_normalization.normalizers.{module}")
    adapters = pytest.importorskip("intensity_normalization.adapters.images")
    image = adapters.create_image(voxels)
    return getattr(found, name)(**options).fit(image, adapters.create_image(voxels * 0 + 1)), image


# ── the same as the package ──────────────────────────────────────────────────────────────────────


@every_image
@pytest.mark.parametrize(
    ("method", "module", "called"),
    [
        ("kde", "individual.kde", "KDENormalizer"),
        ("whitestripe", "individual.whitestripe", "WhiteStripeNormalizer"),
        ("fcm", "individual.fcm", "FCMNormalizer"),
    ],
)
def test_the_map_is_that_of_the_package(name: str, method: str, module: str, called: str) -> None:
    voxels = brain(name)
    # What the kernel density estimate sees depends on units: give it those of the sd.
    unit = voxels.std() if method == "kde" else 1.0
    fitted, image = theirs(module, called, voxels / unit)
    fixed = LANDMARK_METHODS[method].fixed
    assert fixed is not None
    mapped = join(own(method, voxels), Landmarks(method, fixed)).imap(voxels)
    # Fuzzy c-means starts at random and stops when it is close enough; others compute in float32.
    close = 2e-3 if method == "fcm" else 1e-4
    expected = fitted.transform(image).get_data()
    np.testing.assert_allclose(mapped, expected, rtol=close, atol=close)


@pytest.mark.parametrize("gain", [0.01, 1.0, 30.0])
def test_kde_finds_the_peak_of_white_matter_in_any_units(gain: float) -> None:
    random = np.random.default_rng(8)
    tissues = [random.normal(mean, 60, count) for mean, count in ((600, 3000), (1000, 2500))]
    found = own("kde", gain * np.concatenate(tissues)).values
    assert found == pytest.approx(gain * 1000, rel=0.03)


@every_image
def test_lsq_has_the_ratios_of_the_package_and_the_csf_by_which_it_divides(name: str) -> None:
    voxels = brain(name)
    found = own("lsq", voxels).values
    fitted, _ = theirs("population.lsq", "LSQNormalizer", voxels)
    multiples = fitted.standard_tissue_means[:, 0]
    np.testing.assert_allclose(found / found[0], multiples, rtol=5e-3)
    kinds = pytest.importorskip("intensity_normalization.domain.models").TissueType
    for value, tissue in zip(found, ("CSF", "GM", "WM"), strict=True):
        fuzzy, image = theirs("individual.fcm", "FCMNormalizer", voxels, tissue_type=kinds[tissue])
        expected = np.median(voxels / fuzzy.transform(image).get_data())
        assert value == pytest.approx(expected, rel=5e-3)


def test_tissues_lie_near_where_they_were_made() -> None:
    voxels = brain("as they are")
    np.testing.assert_allclose(own("lsq", voxels).values, [300, 700, 1000], rtol=0.05)
    assert own("fcm", voxels).values[0] == pytest.approx(1000, rel=0.05)
    assert own("whitestripe", voxels).values[0] == pytest.approx(1000, rel=0.05)


def test_a_voxel_that_counts_twice_is_handed_over_twice() -> None:
    voxels = np.rint(brain("as they are"))
    twice = ndflow.histogram(np.repeat(voxels, 2))
    np.testing.assert_allclose(
        package.white_stripe(twice)[0], own("whitestripe", voxels).values[0], rtol=0.01
    )
    once = ndflow.histogram(voxels)
    doubled = ndflow.Histogram(once.values, 2 * once.counts, once.widths, once.origin)
    np.testing.assert_array_equal(package.white_stripe(doubled), package.white_stripe(twice))


# ── joined by a factor ───────────────────────────────────────────────────────────────────────────


@given(st.integers(0, 10**6))
def test_lsq_is_joined_by_the_factor_of_least_squares(seed: int) -> None:
    values = np.cumsum(np.random.default_rng(seed).uniform(0.1, 3, (2, 3)), axis=1)
    own, target = (Landmarks("lsq", row) for row in values)
    factor = np.linalg.lstsq(own.values[:, np.newaxis], target.values, rcond=None)[0]
    np.testing.assert_allclose(join(own, target).imap([0.0, 1.0, 50.0]), factor * [0.0, 1.0, 50.0])


@pytest.mark.parametrize("method", ["kde", "fcm"])
def test_white_matter_is_multiplied_to_where_it_should_be(method: str) -> None:
    joined = join(Landmarks(method, [800.0]), Landmarks(method, [1.0]))
    np.testing.assert_allclose(joined.imap([0.0, 400.0, 800.0]), [0.0, 0.5, 1.0])
    assert joined.as_intended


# ── and nothing else ─────────────────────────────────────────────────────────────────────────────


@every_method
def test_the_same_scan_has_the_same_landmarks_every_time(method: str) -> None:
    # Without tissues, so that clusters would depend on where they begin.
    voxels = np.random.default_rng(0).uniform(100, 1000, 400)
    found = []
    for seed in range(3):
        np.random.seed(seed)  # noqa: NPY002 - what the package looks at
        found.append(own(method, voxels))
    assert found == [found[0]] * 3


def random_state() -> tuple[Any, ...]:
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002
    return kind, keys.tobytes(), *rest


@every_method
def test_the_random_numbers_of_others_are_not_disturbed(method: str) -> None:
    np.random.seed(3)  # noqa: NPY002
    before = random_state()
    own(method, brain("dim"))
    assert random_state() == before


def test_they_are_not_disturbed_by_a_failure_either() -> None:
    before = random_state()
    with pytest.raises(DegenerateDataError):
        own("kde", np.full(100, 5.0))
    assert random_state() == before


@pytest.mark.parametrize("method", ["kde", "whitestripe"])
def test_what_the_package_cannot_do_is_reported_in_its_own_words(method: str) -> None:
    with pytest.raises(DegenerateDataError, match=r"^intensity-normalization says: .*failed"):
        own(method, np.full(100, 5.0))


@pytest.mark.parametrize("method", ["kde", "fcm", "lsq"])
def test_white_matter_below_zero_is_refused(method: str) -> None:
    # The kernel density estimate fails before that, and says so.
    refusals = r"brighter than 0|says: KDE|finite"
    with pytest.raises((DegenerateDataError, InvalidValueError), match=refusals):
        own(method, brain("as they are") - 3000)


@every_method
def test_without_the_package_the_extra_is_named(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("intensity_normalization.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "intensity_normalization", None)
    missing = r"not installed; try pip install 'ndflow\[evalua"
    with pytest.raises(InvalidValueError, match=missing):
        measure(method, ndflow.histogram(brain("dim")))
    with pytest.raises(InvalidValueError, match=missing):  # before any scan is read
        method_of(Matching(method=method))


def test_the_other_methods_do_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("intensity_normalization.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "intensity_normalization", None)
    for method in LANDMARK_METHODS.keys() - set(METHODS):
        assert measure(method, ndflow.histogram(brain("dim"))).method == method
