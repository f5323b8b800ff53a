"""What shows when the scans of a study are compared."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from ndflow.density import GaussianMixture, stack
from ndflow.image.mask_doubts import MaskFigures
from ndflow.image.subject import Subject
from ndflow.population import Tissues
from ndflow.study.checks import (
    OTHER_LABELS,
    Medians,
    agreement,
    labeller_doubts,
    odd_scans,
    scan_medians,
    site_doubts,
)
from ndflow.subject.records import ScanModel
from ndflow.transport import Affine, Chain

UNIT = Affine([[1.0]], [0.0])

# ── scans unlike the others ───────────────────────────────────────────────────────────────────────


BRAIN = GaussianMixture([0.2, 0.45, 0.35], [30.0, 70.0, 100.0], [0.02, 0.02, 0.05])
INVERTED = BRAIN.transformed([[-1.0]], [200.0])
MASK = MaskFigures(0.15, 0.0, 0.0, 1.0, 0.03, 1400.0, 9000.0, 0.62)
RIMS = (0.6, 0.61, 0.62, 0.62, 0.63, 0.64)


def study(*sites: str) -> tuple[list[Subject], dict[str, ScanModel]]:
    """Return six scans from each site, with good masks."""
    scans = [Subject("", site=site, name=f"{site}{i}") for site in sites for i in range(len(RIMS))]
    rims = np.tile(RIMS, len(sites))
    models = {
        scan.name: ScanModel(BRAIN, mask=replace(MASK, rim=float(rim)))
        for scan, rim in zip(scans, rims, strict=True)
    }
    return scans, models


def kinds(scans: list[Subject], models: dict[str, ScanModel]) -> dict[str, list[str]]:
    found = odd_scans(scans, models, BRAIN)
    return {name: [doubt.kind for doubt in own] for name, own in found.items()}


@pytest.mark.parametrize(
    ("figures", "kind"),
    [
        ({"rim": 0.51}, "mask too wide"),
        ({"rim": 0.73}, "mask too small"),
        ({"volume": 2300.0}, "mask too wide"),
        ({"volume": 800.0}, "mask too small"),
    ],
)
def test_a_mask_unlike_the_others_is_named(figures: dict[str, float], kind: str) -> None:
    scans, models = study("A", "B")
    assert kinds(scans, models) == {}
    changed = models | {"B3": replace(models["B3"], mask=replace(MASK, **figures))}
    assert kinds(scans, changed) == {"B3": [kind]}


def test_a_scan_is_compared_with_its_site() -> None:
    scans, models = study("A", "B")
    brighter = {
        name: replace(model, mask=replace(MASK, rim=(model.mask or MASK).rim + 0.15))  # type: ignore[operator]
        for name, model in models.items()
        if name.startswith("B")
    }
    assert kinds(scans, models | brighter) == {}
    mixed = models | brighter | {"A0": replace(models["A0"], mask=brighter["B0"].mask)}
    assert kinds(scans, mixed) == {"A0": ["mask too small"]}


def test_densities_are_compared_with_the_others_and_the_reference() -> None:
    scans, models = study("A")
    models["A2"] = replace(models["A2"], mixture=INVERTED)
    assert kinds(scans, models) == {"A2": ["unlike the reference"]}  # so unlike the others, too
    scans[2] = replace(scans[2], images={"T1w": "a_FLAIR.nii"})
    (doubt,) = odd_scans(scans, models, BRAIN, ["T1w"])["A2"]
    assert doubt.kind == "other contrast"  # which explains the rest
    models["A2"] = replace(models["A2"], mixture=BRAIN.transformed([[1.0]], [0.0]))
    assert not odd_scans(scans, models, BRAIN, ["FLAIR"])


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
        ({"1": 9, "1.0": 24}, ["site names"]),  # of a spreadsheet
        ({"Site 1": 9, "site01": 24}, ["site names"]),
        ({"1": 9, "10": 24}, []),
        ({"1.0": 9, "10": 24}, []),
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
    plain = [seen(UNIT, number, UNIT) for number in range(5)]
    spread = agreement(plain, own_maps=False)
    medians = np.array([one.normalised for one in plain])
    assert np.abs(medians - [300, 700, 1000]).max() < 60
    shares = medians.std(axis=0, ddof=1) / np.diff(medians.mean(axis=0))[1]
    assert [*spread.normalised.values()] == pytest.approx(shares)
    assert 0 < spread.nyul["WM"] < spread.zscored["WM"]
    units = Affine([[0.1]], [-20.0])
    others = [seen(Affine([[2.0 + n]], [100.0 * n]), n, units) for n in range(5)]
    found = agreement(others, own_maps=False)
    for one in ("normalised", "zscored", "nyul"):
        assert getattr(found, one) == pytest.approx(getattr(spread, one))


def test_one_scan_or_tissues_that_are_the_same_have_no_agreement() -> None:
    assert scan_medians(ScanModel(GaussianMixture([1.0], [0.0], [1.0])), UNIT) is None
    assert agreement([seen(UNIT, 0, UNIT)], own_maps=True) is None
    same = Medians(np.array([1.0, 2.0, 2.0]), np.zeros(3), np.arange(11.0))
    assert agreement([same, same], own_maps=False) is None
