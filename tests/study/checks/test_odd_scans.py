"""Scans of a study compared with each other."""

from dataclasses import replace

import numpy as np
import pytest

from ndflow.density import GaussianMixture
from ndflow.doubt import Doubt
from ndflow.image.mask_doubts import MaskFigures
from ndflow.image.subject import Subject
from ndflow.study.checks import odd_scans
from ndflow.subject.records import ScanModel

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


def with_mask(models: dict[str, ScanModel], name: str, **figures: float) -> dict[str, ScanModel]:
    return models | {name: replace(models[name], mask=replace(MASK, **figures))}


def test_scans_that_are_alike_are_not_odd() -> None:
    assert kinds(*study("A", "B")) == {}


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
    assert kinds(scans, with_mask(models, "B3", **figures)) == {"B3": [kind]}


def test_a_mask_that_was_doubted_before_is_not_doubted_again() -> None:
    scans, models = study("A")
    doubted = with_mask(models, "A1", rim=0.3)
    doubted["A1"] = replace(doubted["A1"], doubts=(Doubt("mask too wide", "Seen.", "look"),))
    assert kinds(scans, doubted) == {}


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


def test_a_small_site_is_compared_with_the_whole_study() -> None:
    scans, models = study("A")
    lonely = Subject("", site="C", name="C0")
    models["C0"] = ScanModel(BRAIN, mask=replace(MASK, rim=0.8))
    assert kinds([*scans, lonely], models) == {"C0": ["mask too small"]}
    assert kinds([*scans[:3], lonely], models) == {}  # too few to know what is usual


def test_densities_are_compared_with_the_others_and_the_reference() -> None:
    scans, models = study("A")
    models["A2"] = replace(models["A2"], mixture=INVERTED)
    assert kinds(scans, models) == {"A2": ["unlike the others", "unlike the reference"]}


# ── scales ───────────────────────────────────────────────────────────────────────────────────────


def scaled(models: dict[str, ScanModel], **factors: float) -> dict[str, ScanModel]:
    """Return the models with the intensities of some scans multiplied."""
    return models | {
        name: replace(models[name], mixture=BRAIN.transformed([[factor]], [0.0]))
        for name, factor in factors.items()
    }


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (2.7, "are 2.7 times those of the other scans of B."),
        (0.58, "are 0.58 times those"),
        (0.002, "are 0.002 times those"),
        (1234.0, "are 1,234 times those"),
    ],
)
def test_a_scan_of_another_scale_is_named_with_its_factor(factor: float, words: str) -> None:
    scans, models = study("A", "B")
    found = odd_scans(scans, scaled(models, B3=factor), BRAIN)
    assert list(found) == ["B3"]
    (doubt,) = found["B3"]
    assert doubt.kind == "other scale"
    assert words in doubt.text
    assert "same scanner and protocol" in doubt.hint


def test_the_usual_differences_in_scale_are_not_odd() -> None:
    scans, models = study("A")
    assert kinds(scans, scaled(models, A0=0.84, A1=0.93, A2=1.05, A4=1.21)) == {}
    # What is usual at a site can be seen: where scales vary, a factor of two is not odd.
    wide = dict(zip((scan.name for scan in scans), (0.5, 0.7, 0.9, 1.1, 1.4, 2.0), strict=True))
    assert kinds(scans, scaled(models, **wide)) == {}


def test_scales_are_compared_within_a_named_site_of_six_scans_only() -> None:
    scans, models = study("A", "B")
    all_of_b = scaled(models, **{f"B{number}": 20.0 for number in range(6)})
    assert kinds(scans, all_of_b) == {}
    odd = scaled(models, A3=5.0)
    assert kinds([scan for scan in scans if scan.name != "A0"], odd) == {}
    assert kinds([replace(scan, site=None) for scan in scans], odd) == {}


def test_scans_that_are_partly_negative_or_empty_have_a_scale_too() -> None:
    scans, models = study("A")
    centred = BRAIN.transformed([[1.0]], [-75.0])
    models = {name: replace(model, mixture=centred) for name, model in models.items()}
    odd = replace(models["A2"], mixture=centred.transformed([[4.0]], [0.0]))
    assert kinds(scans, models | {"A2": odd}) == {"A2": ["other scale"]}
    nothing = replace(models["A2"], quantiles=(0.0,) * 199)
    assert kinds(scans, models | {"A2": nothing}) == {}


def test_models_without_figures_are_accepted() -> None:
    scans, models = study("A")
    assert kinds(scans, {name: ScanModel(BRAIN) for name in models}) == {}
