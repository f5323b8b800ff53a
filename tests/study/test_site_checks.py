"""Mistakes that a whole site shares, and scans that are unlike the others of their site."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.image.mask_doubts import MaskFigures
from ndflow.image.subject import Subject
from ndflow.methods.base import DensityModel
from ndflow.population import Tissues
from ndflow.study.site_checks import (
    EXCHANGED,
    MISPLACED,
    maps_in_doubt,
    odd_scans,
    refuse_inverted,
    sites_in_doubt,
)
from ndflow.subject.records import ScanModel

# ── scans unlike the others ───────────────────────────────────────────────────────────────────────


BRAIN = GaussianMixture([0.2, 0.45, 0.35], [30.0, 70.0, 100.0], [0.02, 0.02, 0.05])
INVERTED = BRAIN.transformed([[-1.0]], [200.0])
MASK = MaskFigures(
    0.15, 0.03, 0.0, 1.0, 0.03, 1400.0, 9000.0, 0.62, 0.16, 0.85, 0.09, -0.01, 0.04, 0.0
)
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


def test_the_contrast_of_a_scan_is_named_before_its_mask() -> None:
    scans, models = study("A")
    for rim, rise in ((0.99, 0.2), (0.77, 0.6)):  # inverted, and FLAIR
        models["A2"] = replace(models["A2"], mask=replace(MASK, rim=rim, rise=rise))
        assert kinds(scans, models) == {"A2": ["other contrast"]}


@pytest.mark.parametrize(
    ("own", "wanted", "image", "mask", "odd"),
    [
        ("intensity", "T1w", "a.nii", replace(MASK, rise=0.5), True),  # as noise has
        ("T1w", "intensity", "a.nii", replace(MASK, rise=0.5), True),
        ("intensity", "intensity", "a.nii", replace(MASK, rise=0.5), False),
        ("intensity", "T1w", "a.nii", replace(MASK, rise=0.7), False),
        ("intensity", "T1w", "a.nii", replace(MASK, rise=0.5, volume=100.0), False),
        ("T1w", "intensity", "a_FLAIR.nii", MASK, True),  # of the column T1w
        ("T1w", "intensity", "a_T1w.nii", MASK, False),
    ],
)
def test_a_single_scan_shows_what_its_target_or_its_column_does(
    own: str, wanted: str, image: str, mask: MaskFigures, odd: bool
) -> None:
    scan, model = Subject({own: image}, name="a"), ScanModel(BRAIN, mask=mask)
    found = odd_scans([scan], {"a": model}, BRAIN, [wanted])
    assert [doubt.kind for doubt in found.get("a", ())] == ["other contrast"] * odd


# ── sites ─────────────────────────────────────────────────────────────────────────────────────────


def of_sites(
    wrong: dict[str, dict[str, Any]], *, sites: str = "ABC", t1w: bool = True
) -> list[tuple[str, str]]:
    """Return site and kind of each doubt about a study in which some sites have other figures."""
    scans, models = study(*sites)
    for scan in scans:
        model = models[scan.name]
        figures = replace(model.mask or MASK, **wrong.get(scan.site or "", {}))
        models[scan.name] = replace(model, mask=figures)
    found = sites_in_doubt(scans, models, t1w=t1w)
    return [(doubt.text.split()[1].rstrip(","), doubt.kind) for doubt in found]


# What all scans of a site have, as measured in those of the cohort with such a mistake; whether it
# is seen without knowing that images are T1w, by other sites; and by a single site.
MISTAKES: dict[str, tuple[dict[str, Any], bool, bool]] = {
    "inverted contrast": ({"rise": 0.16, "rim": 0.99}, True, False),
    "other contrast": ({"rise": 0.58, "rim": 0.77}, True, False),
    "integer overflow": ({"overflow": 0.02, "rise": 0.5}, True, True),
    "brain cut off": ({"cut": 0.19}, True, True),
    "mask flipped": ({"mirrored": 0.006}, True, True),
    "masks without CSF": ({"rim_share": 0.41, "dark": 0.02, "volume": 1000.0}, True, True),
    "mask too small": ({"rise": 0.8, "rim": 0.68}, True, False),
    "mask too wide": ({"rise": 0.92, "rim": 0.51}, True, False),
    "shading": ({"shading": 0.11}, True, False),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_of_a_whole_site_is_named_at_that_site_alone(kind: str) -> None:
    wrong, beside, alone = MISTAKES[kind]
    for sites in ("B", "AB", "ABC"):
        assert of_sites({"B": wrong}, sites=sites) == [("B", kind)]
    assert (of_sites({"B": wrong}, t1w=False) == [("B", kind)]) is beside
    assert (of_sites({"B": wrong}, sites="B", t1w=False) == [("B", kind)]) is alone
    for site in "AC":  # and whatever the order of the names
        assert of_sites({site: wrong}) == [(site, kind)]


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("other contrast", {"rise": 0.63, "rim": 0.88, "shading": 0.01}),
        ("mask too small", {"rise": 0.67, "rim": 0.79, "volume": 795.0}),  # by 10 mm
        ("mask too wide", {"rise": 0.985, "rim": 0.17, "volume": 1600.0, "shading": 0.12}),  # by 6
    ],
)
def test_of_two_sites_the_one_unlike_t1w_images_is_wrong(kind: str, wrong: dict[str, Any]) -> None:
    for sites in ("AB", "ABC"):
        assert of_sites({"B": wrong}, sites=sites) == [("B", kind)]
        assert ("B", kind) in of_sites({"B": wrong}, sites=sites, t1w=False)


def test_right_sites_small_animals_and_sites_of_two_scans_are_not_in_doubt() -> None:
    older = {"rise": 0.87, "rim": 0.57, "dark": 0.15, "shading": 0.055, "volume": 1250.0}
    contrast = {"rim": 0.45}  # of another scanner, with darker CSF: ranks are as usual
    for sites in ("A", "AB", "ABC"):
        assert of_sites({"A": older}, sites=sites) == []
        assert of_sites({"A": contrast}, sites=sites) == []
    assert of_sites({site: {"volume": 150.0, "cut": 0.5, "rise": 0.2} for site in "ABC"}) == []
    roomy = {"rise": 0.8, "rim": 0.74, "volume": 1900.0}  # as in the demo, whose CSF is brighter
    assert of_sites({"A": roomy}, sites="A") == []
    assert of_sites({"A": roomy}) == [("A", "mask too small")]
    scans, models = study("A", "B")
    models = {name: replace(one, mask=replace(MASK, shading=0.02)) for name, one in models.items()}
    models |= {f"B{i}": replace(models["B0"], mask=replace(MASK, shading=0.08)) for i in range(6)}
    assert len(sites_in_doubt(scans, models, t1w=False)) == 1
    assert sites_in_doubt(scans, models, t1w=True) == ()  # in which either may be right
    assert sites_in_doubt(scans[4:8], models, t1w=False) == ()  # two of each


def test_all_scans_are_one_site_where_none_is_known() -> None:
    scans, models = study("A")
    scans = [replace(scan, site=None) for scan in scans]
    models = {name: replace(one, mask=replace(MASK, rise=0.2)) for name, one in models.items()}
    (doubt,) = sites_in_doubt(scans, models, t1w=True)
    with pytest.raises(InvalidValueError, match=r"--force"):
        refuse_inverted([doubt])
    refuse_inverted([replace(doubt, kind="mask too small")])


def mapped(site: str, number: int, order: str = "CGW") -> tuple[Subject, DensityModel]:
    """Return a scan whose maps call the dark, the middle and the bright tissue by these letters."""
    means = dict(zip(order, (30.0, 70.0, 100.0), strict=True))
    densities = tuple(GaussianMixture([1.0], [means[name]], [0.02]) for name in "CGW")
    tissues = Tissues(densities, [0.2, 0.45, 0.35])
    return Subject("", site=site, name=f"{site}{number}"), DensityModel(BRAIN, tissues=tissues)


@pytest.mark.parametrize(
    ("orders", "t1w", "wrong"),
    [
        ({"A": "CGW", "B": "CWG", "C": "CGW"}, False, "B"),
        ({"A": "CWG", "B": "CWG"}, True, "AB"),
        ({"A": "CGW", "B": "CWG"}, True, "B"),
        ({"A": "CGW", "B": "CWG"}, False, "AB"),  # either may be right
        ({"A": "WGC", "B": "WGC"}, False, ""),  # T2w
        ({"A": "CGW", "B": "CGW"}, True, ""),
    ],
)
def test_tissue_maps_that_are_exchanged_at_a_site_are_named(
    orders: dict[str, str], t1w: bool, wrong: str
) -> None:
    pairs = [mapped(site, i, order) for site, order in orders.items() for i in range(3)]
    pairs.append(mapped("A", 3, "GWC"))  # a single scan is not its site
    scans = [scan for scan, _ in pairs]
    found = maps_in_doubt(scans, {scan.name: model for scan, model in pairs}, t1w=t1w)
    assert "".join(doubt.text.split()[1].rstrip(",") for doubt in found) == wrong
    assert {doubt.kind for doubt in found} <= {EXCHANGED}


def test_tissue_maps_that_fit_no_image_of_a_site_are_named() -> None:
    pairs = [mapped(site, i) for site in "AB" for i in range(3)]
    models = {scan.name: model for scan, model in pairs}
    blurred = tuple(GaussianMixture([1.0], [mean], [0.001]) for mean in (50.0, 70.0, 80.0))
    elsewhere = DensityModel(BRAIN, tissues=Tissues(blurred, [0.2, 0.45, 0.35]))
    models |= {f"B{i}": elsewhere for i in range(3)}
    scans = [scan for scan, _ in pairs]
    for t1w, some in ((False, scans), (True, scans), (True, scans[3:])):
        (doubt,) = maps_in_doubt(some, models, t1w=t1w)
        assert doubt.kind == MISPLACED
        assert doubt.text.startswith("At B")
    assert maps_in_doubt(scans[3:], models, t1w=False) == ()  # another contrast, perhaps


def test_what_is_wrong_with_a_site_is_said_once() -> None:
    scans, models = study("A", "B")
    order = mapped("", 0, "WGC")[1].tissues
    for scan in scans:
        right = mapped("", 0)[1].tissues
        models[scan.name] = replace(models[scan.name], tissues=right)
        if scan.site == "B":
            figures = replace(MASK, rise=0.16, rim=0.99)
            models[scan.name] = replace(models[scan.name], mask=figures, tissues=order)
    assert [doubt.kind for doubt in sites_in_doubt(scans, models, t1w=True)] == [
        "inverted contrast"
    ]
    found = sites_in_doubt(scans, models, t1w=False)
    with pytest.raises(InvalidValueError, match=r"at A.*at B"):  # which of them, nobody knows
        refuse_inverted(found)


def test_of_three_sites_two_may_be_wrong_in_opposite_ways() -> None:
    wrong = {"A": {"rise": 0.8, "rim": 0.72}, "C": {"rise": 0.92, "rim": 0.5}}
    assert of_sites(wrong) == [("A", "mask too small"), ("C", "mask too wide")]
