"""What a study makes of its scans: densities, references, and normalised images."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import wasserstein_distance
from studies import positive

import ndflow
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.subject import Subject, TissueMaps
from ndflow.options import Options
from ndflow.study.plan import Study
from ndflow.study.run import check_study
from ndflow.transport import Chain, align

Runs = Callable[..., Any]
SITES = ("Aachen", "Bonn", "Celle")


def between(images: dict[str, list[NDArray[Any]]]) -> float:
    """Return the W1 distance between the pooled voxels of sites, in sd of all voxels."""
    pooled = {site: np.concatenate([a[a != 0] for a in many]) for site, many in images.items()}
    sd = np.concatenate(list(pooled.values())).std()
    pairs = itertools.combinations(pooled.values(), 2)
    return float(np.mean([wasserstein_distance(*pair) for pair in pairs]) / sd)


def test_models_are_those_of_the_images(study: Runs) -> None:
    done = study()
    for scan in done.scans:
        assert done.model(scan.name) == ndflow.fit(scan.image).mixture


def test_individual_is_what_normalise_does(study: Runs, tmp_path: Path) -> None:
    done = study()
    for scan in done.scans:
        single = tmp_path / f"{scan.name}.nii.gz"
        reference = done.folder / "reference.json"
        ndflow.normalise(scan.image, reference, preset="paper", output=single)
        assert single.read_bytes() == (done.folder / "images" / single.name).read_bytes()
        assert ndflow.load(tmp_path / f"{scan.name}.json") == done.load(f"maps/{scan.name}")


def test_the_scans_of_a_site_share_one_map_after_their_own_alignment(study: Runs) -> None:
    done = study("site")
    whole = done.load("reference")
    for site in SITES:
        shared = ndflow.normalising_map(done.load(f"reference_{site}"), whole)
        for name in done.names(site):
            x = done.before(name)
            inside = x != 0
            own = align(done.model(name))
            expected = positive(shared(own(x[inside])))
            np.testing.assert_allclose(done.after(name)[inside], expected, atol=0.1)
            assert not done.after(name)[~inside].any()
            assert done.load(f"maps/{name}") == Chain((own, done.load(f"map_{site}")))


def test_the_modes_share_their_references_but_not_their_images(study: Runs) -> None:
    one, two = study(), study("site")
    for name in ("reference", *(f"reference_{site}" for site in SITES)):
        assert one.load(name) == two.load(name)
    for name in one.names():
        assert one.model(name) == two.model(name)
        assert np.abs(one.after(name) - two.after(name)).max() > 0.01
    assert not list(one.folder.glob("map_*"))


def test_sites_come_closer_than_with_an_alignment_alone(study: Runs) -> None:
    def distance(done: Any, which: str = "after") -> float:
        return between({c: [getattr(done, which)(n) for n in done.names(c)] for c in SITES})

    affine = distance(study(options=Options(method="affine")))
    assert affine < 0.5 * distance(study(), "before")
    assert distance(study("site")) < 0.6 * affine
    assert distance(study()) < 0.6 * affine


def test_the_method_affine_is_the_alignment(study: Runs) -> None:
    done = study(options=Options(method="affine"))
    for name in done.names():
        x = done.before(name)
        voxels = x[x != 0]
        mixture = done.model(name)
        aligned = (voxels - mixture.mean()[0]) / np.sqrt(mixture.covariance()[0, 0])
        np.testing.assert_allclose(done.after(name)[x != 0], positive(aligned), atol=1e-3)


@pytest.mark.parametrize("mode", ["individual", "site", "two-level"])
def test_a_scale_changes_the_units_and_nothing_else(study: Runs, mode: str) -> None:
    plain, standard = study(mode), study(mode, options=Options(scale="standard"))
    for name in ("reference", *(f"reference_{site}" for site in SITES)):
        assert plain.load(name) == standard.load(name)
    for name in plain.names():
        expected = positive(standard.after(name).astype(float))
        inside = plain.before(name) != 0
        np.testing.assert_allclose(plain.after(name)[inside], expected[inside], atol=1e-3)
        assert not plain.after(name)[~inside].any()
    assert plain.summary.doubts_of == standard.summary.doubts_of


@pytest.mark.parametrize("mode", ["individual", "site"])
def test_a_range_changes_the_units_and_nothing_else(study: Runs, mode: str) -> None:
    plain = study(mode, options=Options(scale="standard"))
    scaled = study(mode, options=Options(range=(0, 1000)))
    assert plain.load("reference") == scaled.load("reference")
    low, high = plain.load("reference").mixture.quantile([0.001, 0.999]).tolist()
    for name in plain.names():
        inside = plain.before(name) != 0
        expected = 1000 * (plain.after(name)[inside] - low) / (high - low)
        np.testing.assert_allclose(scaled.after(name)[inside], expected, atol=0.5)


# ── before any work ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        ({"site": None}, {"options": Options(mode="site")}, r"its site is not known \(row 3\)"),
        (
            {"tissues": TissueMaps("c.nii", "g.nii")},
            {"options": Options(proportions="tissue")},
            r"not all of its tissues are known \(row 2\)",
        ),
        ({}, {"options": Options(mode="site", method="nyul")}, "by site"),
        ({}, {"options": Options(method="affine", solver="rk4")}, "solver is not an option of"),
        ({}, {"jobs": 0}, "jobs"),
    ],
)
def test_what_stands_in_the_way_is_said_before_any_work(
    scans: list[Subject], tmp_path: Path, change: Any, settings: Any, message: str
) -> None:
    plan = Study(tmp_path / "out", [scans[0], replace(scans[1], **change)], **settings)
    with pytest.raises((FileError, InvalidValueError), match=message):
        check_study(plan)
    assert not plan.folder.exists()
