"""What shows when the scans of a study are compared."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from ndflow.density import GaussianMixture, stack
from ndflow.population import Tissues
from ndflow.study.checks import (
    OTHER_LABELS,
    Medians,
    agreement,
    failure,
    labeller_doubts,
    scan_medians,
    site_doubts,
)
from ndflow.subject.records import ScanModel
from ndflow.transport import Affine, Chain

UNIT = Affine([[1.0]], [0.0])


@pytest.mark.parametrize(
    ("counts", "kinds"),
    [
        ({"NKS": 1, "NSK": 24}, ["site names"]),  # two letters in each other's place
        ({"NS": 1, "NSK": 24}, []),  # too short to tell
        ({"NSKA": 1, "NSK": 5}, ["site names"]),
        ({"NSKA": 2, "NSK": 24}, []),  # two scans are no slip
        ({"NSKA": 1, "NSK": 4}, []),
        ({"Site 1": 1, "Site 2": 24}, []),  # numbers differ on purpose
        ({"Site_1": 9, "site 1": 24}, ["site names"]),
        ({"KIEL": 1, "NSK": 24}, []),
        ({"Site 1": 9, "site01": 24}, ["site names"]),
        ({"1": 9, "10": 24}, []),
    ],
)
def test_sites_that_may_be_one_are_named(counts: dict[str, int], kinds: list[str]) -> None:
    assert [doubt.kind for doubt in site_doubts(counts, mapped=True)] == kinds
    assert [doubt.kind for doubt in site_doubts({"NSK": 24}, mapped=True)] == ["one site"]
    assert not site_doubts({"NSK": 24})


# ── tissue maps of different labellers ────────────────────────────────────────────────────────────


MEAN = np.array([0.25, 0.45, 0.30])  # CSF, GM, WM
SD, CORRELATION = np.array([0.0308, 0.0145]), -0.465  # of CSF and WM among people of a site
CHANGES = {  # to what another labeller may do
    "CSF": np.array([0.15, -0.10, -0.05]),
    "GM": np.array([0.12, -0.14, 0.02]),
    "WM": np.array([-0.02, -0.08, 0.10]),
}


def people(count: int, seed: int, *, spread: float = 1.0) -> NDArray[np.float64]:
    """Return the proportions of people of one site."""
    generator = np.random.default_rng(seed)
    off = SD[0] * SD[1] * CORRELATION
    csf, wm = generator.multivariate_normal(
        MEAN[[0, 2]], spread**2 * np.array([[SD[0] ** 2, off], [off, SD[1] ** 2]]), count
    ).T
    return np.stack([csf, 1 - csf - wm, wm], axis=1)


@pytest.mark.parametrize("sizes", [(1, 1), (2, 30), (3, 8, 20, 50, 1)])
def test_people_of_one_labeller_are_no_reason_to_warn(sizes: tuple[int, ...]) -> None:
    fired = 0
    for seed in range(40):
        sites = {str(n): people(size, 10 * seed + n) for n, size in enumerate(sizes)}
        fired += bool(labeller_doubts(sites))
    assert fired <= 1


@pytest.mark.parametrize("tissue", CHANGES)
def test_another_labeller_is_noticed_and_what_differs_is_said(tissue: str) -> None:
    sites = {name: people(10, seed) for seed, name in enumerate(("Bonn", "Kiel", "Ulm"))}
    sites["Kiel"] = sites["Kiel"] + CHANGES[tissue]
    (doubt,) = labeller_doubts(sites)
    assert doubt.kind == OTHER_LABELS
    assert doubt.text.startswith(f"At Kiel, {tissue} is ")


def test_the_bound_is_three_standard_deviations_of_people_sites_and_means() -> None:
    """Computed here from the density of a normal distribution, which has the distance in it."""
    off = SD[0] * SD[1] * CORRELATION
    people_differ = stats.multivariate_normal([0, 0], [[SD[0] ** 2, off], [off, SD[1] ** 2]])
    step = np.array([0.004, -0.008, 0.004])
    squared = 2 * (people_differ.logpdf([0, 0]) - people_differ.logpdf(step[[0, 2]]))
    for own, others in ((1, 1), (4, 10), (50, 50)):
        bound = 3 * np.sqrt((1 + 1 / own + 1 / others) / squared)
        for factor, warns in ((0.95, 0), (1.05, 1)):
            away = MEAN + factor * bound * step
            sites = {"A": np.tile(away, (own, 1)), "B": np.tile(MEAN, (others, 1))}
            assert len(labeller_doubts(sites)) == warns


# ── how far tissues lie apart ─────────────────────────────────────────────────────────────────────


SITES = {"0": "Bonn", "1": "Bonn", "2": "Ulm", "3": "Ulm", "4": "Jena"}


def seen(scanner: Affine, number: int, later: Affine) -> Medians | None:
    """Return what is known of a scan, whose map undoes the scanner and leads to other units."""
    means = np.array([300.0, 700.0, 1000.0]) + 15 * np.random.default_rng(number).normal(size=3)
    tissues = Tissues(
        tuple(GaussianMixture([1.0], [mean], [1 / 60**2]) for mean in means),
        [0.2, 0.5 - 0.02 * number, 0.3 + 0.02 * number],
    ).transformed(scanner)
    whole = stack(tissues.densities, tissues.proportions)
    return scan_medians(ScanModel(whole, tissues=tissues), Chain((scanner.inverse(), later)))


def test_how_far_tissues_lie_apart_does_not_depend_on_scanners_or_units() -> None:
    plain = {str(number): seen(UNIT, number, UNIT) for number in range(5)}
    spread = agreement(plain, SITES, own_maps=False)
    medians = np.array([one.normalised for one in plain.values()])
    assert np.abs(medians - [300, 700, 1000]).max() < 60
    shares = medians.std(axis=0, ddof=1) / np.diff(medians.mean(axis=0))[1]
    assert [*spread.normalised.values()] == pytest.approx(shares)
    assert 0 < spread.nyul["WM"] < spread.zscored["WM"]
    units = Affine([[0.1]], [-20.0])
    others = {str(n): seen(Affine([[2.0 + n]], [100.0 * n]), n, units) for n in range(5)}
    found = agreement(others, SITES, own_maps=False)
    for one in ("normalised", "zscored", "nyul"):
        assert getattr(found, one) == pytest.approx(getattr(spread, one))


def test_one_scan_or_tissues_that_are_the_same_have_no_agreement() -> None:
    assert scan_medians(ScanModel(GaussianMixture([1.0], [0.0], [1.0])), UNIT) is None
    assert agreement({"0": seen(UNIT, 0, UNIT)}, SITES, own_maps=True) is None
    same = Medians(np.array([1.0, 2.0, 2.0]), np.zeros(3), np.arange(11.0), 1.0)
    assert agreement({"0": same, "1": same}, SITES, own_maps=False) is None


def test_a_study_with_a_broken_site_has_failed_in_any_units() -> None:
    for units in (UNIT, Affine([[0.1]], [-20.0])):
        inverted = Chain((Affine([[-1.0]], [1300.0]), units))
        maps = {n: inverted if site == "Ulm" else units for n, site in SITES.items()}
        scans = {n: seen(UNIT, int(n), own) for n, own in maps.items()}
        found = agreement(scans, SITES, own_maps=True)
        assert found.failure.text.startswith("At Ulm, the median of ")
        assert "(there WM < GM < CSF, not CSF < GM < WM)" in found.failure.text
        healthy = {str(n): seen(UNIT, n, units) for n in range(5)}
        assert agreement(healthy, SITES, own_maps=True).failure is None


def moved(scans: int, by: float) -> dict[str, NDArray[np.float64]]:
    """Return medians of eight scans, of which the first few are elsewhere in GM."""
    return {str(n): np.array([-1.5, by * (n < scans), 1.0]) for n in range(8)}


def test_sites_may_differ_by_less_than_in_any_failed_study() -> None:
    two = {str(n): "Ulm" if n < 4 else "Bonn" for n in range(8)}
    three = {str(n): "Ulm" if n < 2 else "Bonn" if n < 5 else None for n in range(8)}
    for scans, sites, text in (
        (4, two, "At Bonn, the median of GM is 0.9 sd below that of Ulm."),
        (2, three, "At Ulm, the median of GM is 0.9 sd above that of other sites."),
    ):
        assert failure(moved(scans, 0.7), sites) is None
        assert failure(moved(scans, 0.9), sites).text == text


def test_one_scan_at_a_single_site_is_named() -> None:
    sites = dict.fromkeys(map(str, range(8)))
    assert failure(moved(1, 1.0), sites) is None
    assert failure(moved(1, -1.4), sites).text.startswith("In 0, the median of GM is 1.4 sd below")
