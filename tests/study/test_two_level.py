"""The two-level mode: the map of the site, followed by one of the scan itself."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from phantoms import head, radii, save, voxels_of
from studies import Silent, read_json

import ndflow
from ndflow import Chain
from ndflow.image.subject import Subject, TissueMaps
from ndflow.options import Options
from ndflow.population import TISSUES
from ndflow.study.plan import Study
from ndflow.study.run import Summary, run_study
from ndflow.study.table import named
from ndflow.transport import align

SHAPE = (16, 18, 14)
LOOKS = {
    "Aachen": ((300.0, 60.0), (700.0, 50.0), (1000.0, 40.0)),
    "Bonn": ((250.0, 50.0), (820.0, 45.0), (1000.0, 40.0)),
}
EDGES = (0.88, 0.98, 0.93, 0.95)  # radii of heads: the larger, the more CSF
ACCOUNTS = ("provenance.json", "scans.tsv")


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


def run(
    scans: Sequence[Subject], folder: Path, mode: Any, target: Any = "average", **more: Any
) -> Summary:
    options = replace(more.pop("options", Options()), mode=mode, proportions=target)
    return run_study(Study(folder, scans, options, **more), Silent(), command=["test"])


@pytest.fixture(scope="module")
def done(scans: list[Subject], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that runs a study once for each choice."""

    @cache
    def folder(mode: str, target: str = "average") -> Path:
        out = tmp_path_factory.mktemp("study") / "out"
        assert run(scans, out, mode, target)[:3] == (len(scans), 0, [])
        return out

    return folder


def contents(out: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in out.rglob("*")
        if path.is_file() and path.name not in ACCOUNTS
    }


def target_of(out: Path, name: str) -> Any:
    """Return what the sidecar of a scan says about its target; None for the average."""
    return read_json(out / f"maps/{name}.json")["match"].get("target")


def quartiles(scans: Sequence[Subject], out: Path) -> NDArray[np.float64]:
    """Return the quartiles of each tissue in each image, (scans, 9)."""
    found = []
    for scan in scans:
        image = voxels_of(out / f"images/{scan.name}.nii.gz")
        inside = (voxels_of(path) == 1 for path in scan.tissues)
        found.append(np.concatenate([np.percentile(image[i], (25, 50, 75)) for i in inside]))
    return np.array(found)


@pytest.mark.parametrize("target", ["tissue", "adaptive"])
def test_each_map_goes_through_that_of_the_site(
    scans: list[Subject], done: Callable[..., Path], target: str
) -> None:
    out = done("two-level", target)
    for scan in scans:
        imap = ndflow.load(out / f"maps/{scan.name}.json")
        assert isinstance(imap, Chain)
        assert imap.maps[0] == align(ndflow.load(out / f"models/{scan.name}.json"))
        assert imap.maps[1] == ndflow.load(out / f"map_{scan.site}.json")
        before, after = voxels_of(scan.image), voxels_of(out / f"images/{scan.name}.nii.gz")
        inside = before != 0
        np.testing.assert_allclose(after[inside], imap(before[inside]), atol=1e-3)
        assert not after[~inside].any()


def test_tissues_of_all_sites_come_to_lie_together(
    scans: list[Subject], done: Callable[..., Path]
) -> None:
    average = quartiles(scans, done("two-level")).std(axis=0)
    tissue = quartiles(scans, done("two-level", "tissue")).std(axis=0)
    adaptive = quartiles(scans, done("two-level", "adaptive")).std(axis=0)
    assert tissue.mean() < 0.6 * average.mean()
    assert adaptive.mean() < 0.6 * average.mean()


def test_the_tissues_of_a_study_have_the_mean_proportions_of_its_maps(
    scans: list[Subject], done: Callable[..., Path]
) -> None:
    sums = np.array([[voxels_of(p).sum() for p in scan.tissues] for scan in scans])
    shares = sums / sums.sum(axis=1, keepdims=True)
    tissues = read_json(done("two-level", "tissue") / "reference.json")["reference"]["tissues"]
    np.testing.assert_allclose(tissues["mean"], shares.mean(axis=0), rtol=1e-9)
    for scan, own in zip(scans, shares, strict=True):
        given = target_of(done("two-level", "tissue"), scan.name)["proportions"]
        np.testing.assert_allclose([given[name] for name in TISSUES], own, rtol=1e-9)
        found = target_of(done("two-level", "adaptive"), scan.name)["proportions"]
        assert found["CSF"] == pytest.approx(own[0], abs=0.03)


def test_a_second_run_keeps_everything_and_two_workers_make_the_same(
    scans: list[Subject], done: Callable[..., Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert run(scans, out, "two-level", "tissue", jobs=2)[:3] == (4, 0, [])
    made = contents(out)
    assert made == contents(done("two-level", "tissue"))
    when = {name: (out / name).stat().st_mtime_ns for name in made}
    assert run(scans, out, "two-level", "tissue")[:3] == (4, 4, [])
    assert {name: (out / name).stat().st_mtime_ns for name in made} == when
