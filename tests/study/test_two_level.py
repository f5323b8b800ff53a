"""The two-level mode: the map of the site, followed by one of the scan itself."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from phantoms import head, radii, save, voxels_of
from studies import Silent, read_json

import ndflow
from ndflow import Chain
from ndflow.image.subject import Subject, TissueMaps
from ndflow.options import Options
from ndflow.population import TISSUES
from ndflow.study.plan import Study
from ndflow.study.run import run_study
from ndflow.study.table import named
from ndflow.transport import align

SHAPE = (16, 18, 14)
LOOKS = {
    "Aachen": ((300.0, 60.0), (700.0, 50.0), (1000.0, 40.0)),
    "Bonn": ((250.0, 50.0), (820.0, 45.0), (1000.0, 40.0)),
}
EDGES = (0.88, 0.98, 0.93, 0.95)  # radii of heads: the larger, the more CSF


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> list[Subject]:
    folder = tmp_path_factory.mktemp("scans")
    made = []
    for number, edge in enumerate(EDGES):
        site, inside = ("Aachen", "Bonn")[number % 2], radii(SHAPE) < edge
        look: dict[str, Any] = {"tissues": LOOKS[site], "gain": 1 + 0.2 * number}
        kinds = head(number, shape=SHAPE, tissues=((1, 0), (2, 0), (3, 0))) * inside
        image = save(folder / f"s{number}.nii.gz", head(number, shape=SHAPE, **look) * inside)
        maps = {
            name: str(save(folder / f"s{number}_{name}.nii.gz", (kinds == k).astype(np.uint8)))
            for k, name in enumerate(("csf", "gm", "wm"), 1)
        }
        origin = f"row {number}"
        made.append(
            Subject({"T1w": str(image)}, site=site, tissues=TissueMaps(**maps), origin=origin)
        )
    return named(made)


@pytest.fixture(scope="module")
def done(scans: list[Subject], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that runs a study once for each choice of proportions."""

    @cache
    def folder(proportions: Any) -> Path:
        out = tmp_path_factory.mktemp("study") / "out"
        options = Options(mode="two-level", proportions=proportions)
        assert run_study(Study(out, scans, options), Silent())[:3] == (len(scans), 0, [])
        return out

    return folder


@pytest.mark.parametrize("target", ["tissue", "adaptive"])
def test_each_map_goes_through_that_of_the_site(
    scans: list[Subject], done: Callable[..., Path], target: str
) -> None:
    out = done(target)
    for scan in scans:
        imap = ndflow.load(out / f"maps/{scan.name}.json")
        assert isinstance(imap, Chain)
        assert imap.maps[0] == align(ndflow.load(out / f"models/{scan.name}.json"))
        assert imap.maps[1] == ndflow.load(out / f"map_{scan.site}.json")
        before, after = voxels_of(scan.image), voxels_of(out / f"images/{scan.name}.nii.gz")
        inside = before != 0
        np.testing.assert_allclose(after[inside], imap(before[inside]), atol=1e-3)
        assert not after[~inside].any()


def test_the_tissues_of_a_study_have_the_mean_proportions_of_its_maps(
    scans: list[Subject], done: Callable[..., Path]
) -> None:
    sums = np.array([[voxels_of(p).sum() for p in scan.tissues] for scan in scans])
    shares = sums / sums.sum(axis=1, keepdims=True)
    tissues = read_json(done("tissue") / "reference.json")["reference"]["tissues"]
    np.testing.assert_allclose(tissues["mean"], shares.mean(axis=0), rtol=1e-9)
    for scan, own in zip(scans, shares, strict=True):
        given, found = (
            read_json(done(kind) / f"maps/{scan.name}.json")["match"]["target"]["proportions"]
            for kind in ("tissue", "adaptive")
        )
        np.testing.assert_allclose([given[name] for name in TISSUES], own, rtol=1e-9)
        assert found["CSF"] == pytest.approx(own[0], abs=0.03)
